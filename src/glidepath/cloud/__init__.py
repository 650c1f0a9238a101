"""Clouds with a queue of containers as sites: pilots to start and stop come in; commands or requests that the
configuration describes, and what they answer, go out and back.

It refuses to know any cloud by name, jobs, demand and the loop.
"""
