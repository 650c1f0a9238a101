"""Logs of the past played again on one machine, job by job, with the scheduler's own pass."""
