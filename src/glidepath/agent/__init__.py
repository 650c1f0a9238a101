"""The agent of a site that can only call out: orders come in, pilots are started by the site's own backend.

It decides nothing about demand: it does what it is told as far as the site's admin lets it, says what came of
it, and does nothing at all while the server is not heard.
"""
