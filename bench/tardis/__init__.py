"""glidepath beside COBalD/TARDIS: the same pool, the same Slurm, the same jobs, through the same commands."""
