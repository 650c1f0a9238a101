"""Every test of the bed leaves nothing behind."""

from __future__ import annotations

from tests.bed_pool import nothing_is_left

__all__ = ["nothing_is_left"]
