"""Measurements: each prints its figure or ratio with command, commit and machine."""
