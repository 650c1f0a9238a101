"""Jobs on nodes: what starts now, what is kept for whom, and when. Values and decisions, nothing else."""
