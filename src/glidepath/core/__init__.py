"""Values and decisions: snapshots and memory come in, plans with reasons go out.

The core refuses to know files, clocks, randomness, logs and networks; everything it needs, the time and
the cycle number included, is handed to it. It imports the standard library and nothing else of ours.
"""
