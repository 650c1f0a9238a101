"""glidepath brings compute to waiting jobs, and tells people when and why."""

__version__ = "0.1.0"
