"""Backends: one file per kind of site. A pilot's specification comes in, outcomes and listings go out.

They do I/O and never decide; each passes `glidepath.conformance`. They refuse to know the loop.
"""
