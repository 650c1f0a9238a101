"""The world's pool as glidepath's source of demand: two commands are asked, demand and slots go out.

A plug-in as anybody can write one; the arm of glidepath finds it by an entry point.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Mapping
from typing import Any

from glidepath.core.provision.demand import DemandSight, JobAd, grouped
from glidepath.core.provision.offer import Offer
from glidepath.core.provision.pilot import Slot
from glidepath.core.provision.sight import PoolSlots
from glidepath.core.quantity import (
    Instant,
    OfferKey,
    Owner,
    PilotName,
    PoolName,
    Resources,
    Shape,
    SourceName,
)
from glidepath.ports import DemandSource, Place

LIMIT_S = 15.0
JOB = Resources(1000, 1024)
RUNNING = 2


def asked(*words: str) -> list[dict[str, Any]]:
    done = subprocess.run(words, capture_output=True, check=False, timeout=LIMIT_S)
    if done.returncode:
        raise OSError(f"`{words[0]}` ended with {done.returncode}: {done.stderr.decode()}")
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


class WorldPool:
    def __init__(self, name: PoolName) -> None:
        self.name = name

    def sources(self) -> tuple[DemandSource, ...]:
        return (WorldSource(self.name),)

    def slots(self, *, now: Instant) -> PoolSlots:
        return PoolSlots(tuple(_slot(row) for row in asked("condor_status", "-json")))

    def join(self, offer: OfferKey) -> tuple[tuple[str, str], ...]:
        return (("GLIDEPATH_POOL", self.name), ("GLIDEPATH_COLLECTOR", "cm.world"))

    def secrets(self, name: PilotName, *, lifetime_s: int) -> tuple[tuple[str, str], ...]:
        return (("world.token", "nobody asks for it"),)


class WorldSource:
    def __init__(self, pool: PoolName) -> None:
        self.name, self.pool = SourceName("schedd"), pool

    def demand(self, offers: tuple[Offer, ...], *, now: Instant) -> DemandSight:
        wall = time.time()
        ads = (
            JobAd(
                Shape(JOB),
                Owner("user"),
                running=row["JobStatus"] == RUNNING,
                queued_at=Instant(now - max(0, int(wall) - row["QDate"])),
            )
            for row in asked("condor_q", "-json")
        )
        return DemandSight(grouped(self.pool, ads, offers))


def _slot(row: Mapping[str, Any]) -> Slot:
    return Slot(
        PilotName(row["GlidepathPilot"]),
        Resources(1000 * row["Cpus"], row["Memory"]),
        row["NumDynamicSlots"],
        draining=row["Draining"],
        jobs_run=row["JobsRun"],
    )


def kind(name: PoolName, settings: Mapping[str, object], place: Place) -> WorldPool:
    return WorldPool(name)
