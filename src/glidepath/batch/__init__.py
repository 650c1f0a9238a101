"""Batch systems as sites: pilots to start and stop come in, commands of the batch system and what they answer
go out and back. A dialect says how one system is spoken to, a runner carries it there; neither decides.

It refuses to know jobs, demand and the loop.
"""
