"""The one error of the bed: a sentence for the person at the terminal, with what to do about it."""

from __future__ import annotations


class Trouble(Exception):
    """What happened, what came back, what to do; printed without a traceback."""
