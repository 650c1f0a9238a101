"""Notices to people: what is said comes in, a webhook or a mail goes out, and what became of it comes back.

It refuses to know when something is to be said, to whom, and what is done where it was not taken.
"""
