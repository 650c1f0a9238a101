"""What runs on the worker: one file, standard library only, on any Python from 3.6.

An address to join and a size come in; jobs are run and a summary goes out. It imports nothing of ours.
"""

from __future__ import annotations

from pathlib import Path

PILOT_FILE = Path(__file__).with_name("glidepath_pilot.py")
