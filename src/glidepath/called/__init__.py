"""Sites that can only call out: what the provisioner asks for is kept until the site's agent calls for it.

Asks and reports come in, listings and orders go out. Who carries the words, over HTTP or as files, and what
starts pilots at the site is not known here.
"""
