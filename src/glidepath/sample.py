"""The sample jobs of `glidepath up --sample`: two shapes, a few seconds each, one that fails on purpose."""

from __future__ import annotations

from glidepath.core.quantity import Resources
from glidepath.store.job import JobSpec

SMALL = Resources(cpu_milli=250, memory_mib=128)
LARGE = Resources(cpu_milli=500, memory_mib=512)


def sample_jobs(partition: str, owner: str) -> list[JobSpec]:
    def job(name: str, script: str, request: Resources) -> JobSpec:
        return JobSpec(partition, owner, ("sh", "-c", script), name, request=request)

    return [
        *(job(f"hello-{n}", f"echo hello from job {n}; sleep 4", SMALL) for n in range(1, 9)),
        *(job(f"count-{n}", f"echo counting; sleep 6; echo {n}", LARGE) for n in range(1, 5)),
        job("fails", "echo this one fails >&2; exit 3", SMALL),
    ]
