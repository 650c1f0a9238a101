"""Jobs and pilots as the made-up world keeps them. Mutable, and touched only by `World`."""

from __future__ import annotations

from glidepath.core.provision.pilot import PilotSpec, SiteState
from glidepath.core.provision.supply import Amounts
from glidepath.core.quantity import NodeName, Owner, PoolName, Shape


class SimJob:
    """One job; `queued_at` moves when it is queued again, `first_at` does not."""

    __slots__ = ("first_at", "owner", "pool", "queued_at", "run_s", "run_s_max", "shape", "started", "tries")

    def __init__(
        self, pool: PoolName, shape: Shape, owner: Owner, at: int, *, run_s: int, run_s_max: int | None
    ) -> None:
        self.pool = pool
        self.shape = shape
        self.owner = owner
        self.first_at = self.queued_at = at
        self.run_s = run_s
        self.run_s_max = run_s_max
        self.started = False
        self.tries = 0


class SimPilot:
    """One pilot, from the moment the site has it."""

    __slots__ = (
        "asked_at",
        "bad",
        "boot_s",
        "counted_at",
        "draining",
        "ends_at",
        "fails",
        "free",
        "free_milli_s",
        "idle_since",
        "job",
        "jobs",
        "jobs_failed",
        "jobs_run",
        "joined_at",
        "native_id",
        "node",
        "note",
        "since",
        "spec",
        "started_at",
        "state",
        "used_milli_s",
    )

    def __init__(self, spec: PilotSpec, now: int, native_id: str) -> None:
        self.spec = spec
        self.native_id = native_id
        self.job: tuple[SimPilot, ...] = (self,)  # those that the site started with the same request
        self.asked_at = self.since = self.counted_at = now
        self.state = SiteState.PENDING
        self.fails = False
        self.bad = False  # on a node that fails every job
        self.boot_s = 0
        self.draining = False
        self.node = NodeName("")
        self.note = ""
        self.started_at = 0
        self.joined_at: int | None = None
        self.idle_since = 0
        self.ends_at: int | None = None
        self.jobs: dict[SimJob, int] = {}  # and when each ends
        self.jobs_run = self.jobs_failed = 0
        self.free: Amounts = spec.size.as_tuple()
        self.free_milli_s = self.used_milli_s = 0

    @property
    def live(self) -> bool:
        return self.state not in (SiteState.ENDED, SiteState.FAILED)

    def count(self, now: int) -> None:
        """Book the CPU seconds since the last change, claimed and unclaimed apart."""
        if self.joined_at is None or now <= self.counted_at:
            return
        span_s = now - self.counted_at
        self.counted_at = now
        free = self.free[0]
        self.free_milli_s += span_s * free
        self.used_milli_s += span_s * (self.spec.size.cpu_milli - free)
