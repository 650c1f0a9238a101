"""Whether a job may be put beside another one: who asks, what was found and where it is to go come in.

To be beside a job starts both together and opens the network between them. So it takes whoever may change the
other job; to see it is not enough.
"""

from __future__ import annotations

from glidepath.config import Settings
from glidepath.jobs.caller import Caller
from glidepath.store.job import OVER
from glidepath.store.placed import PlacedJob
from glidepath.store.sights import Found


def neighbour_trouble(caller: Caller, found: Found, partition: str, settings: Settings) -> str:
    """Why not, as a sentence; nothing where it may."""
    job = found.job if isinstance(found, PlacedJob) else found
    if not caller.changes(job.spec.owner):
        return (
            f"job {job.id} is of `{job.spec.owner}`; a job beside it is reached by it over the network, so "
            "only they and operators may submit one"
        )
    if job.state in OVER:
        return f"job {job.id} is over ({job.state.value}); name one that waits or runs"
    if not isinstance(found, PlacedJob):
        return f"job {job.id} waits for a pilot, and only jobs that are placed can be beside each other"
    there, here = (settings.partitions.get(name) for name in (job.spec.partition, partition))
    if there is None or here is None or there.cluster != here.cluster:
        return (
            f"job {job.id} is in partition `{job.spec.partition}`, which is on another cluster than "
            f"`{partition}`; submit both to one cluster"
        )
    return ""
