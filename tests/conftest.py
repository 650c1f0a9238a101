"""What all tests share: properties are not timed, because a busy machine proves nothing about the code."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
