"""Real tests here have a glidepath of their own beside the pool of the session, and leave nothing behind."""

from bed_pool import nothing_is_left  # noqa: F401 (a fixture)
