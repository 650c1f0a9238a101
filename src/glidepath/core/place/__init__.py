"""Jobs on a cluster: what is asked of it, what was seen there, and what becomes of a job.

Values and decisions; it refuses to know stores, clocks and kinds of clusters.
"""
