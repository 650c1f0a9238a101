"""Policies: one published rule in one short file each, chosen by name in `[policy]`."""
