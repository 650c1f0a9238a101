"""One job of a workload: what every reader of traces and every generator gives to the simulator.

It knows when the job joins the queue and how long it runs, and nothing of where or when it starts.
"""

from __future__ import annotations

from dataclasses import dataclass

from glidepath.core.quantity import Owner, PoolName, Shape


@dataclass(frozen=True, slots=True)
class Arrival:
    """One job that joins the queue of a pool."""

    at: int  # seconds after the start of the run, never decreasing within a workload
    pool: PoolName
    shape: Shape
    owner: Owner
    run_s: int  # how long it really runs
    run_s_max: int | None = None  # what its owner says it needs at most
