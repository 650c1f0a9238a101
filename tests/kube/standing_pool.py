"""A pool whose demand and slots stand in a file, as a plug-in: pilots are asked for without any HTCondor.

Its file says how many jobs wait and which pilots have one. It is loaded by a real `glidepath up` through an
entry point, as any pool of somebody else would be.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
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

JOB = Shape(Resources(1000, 512))
WAITED_S = 60


class StandingPool:
    def __init__(self, name: PoolName, file: Path) -> None:
        self.name, self.file = name, file

    def sources(self) -> tuple[DemandSource, ...]:
        return (StandingSource(self),)

    def slots(self, *, now: Instant) -> PoolSlots:
        return PoolSlots(
            tuple(Slot(PilotName(name), Resources(), claims=1) for name in self.said()["claimed"])
        )

    def join(self, offer: OfferKey) -> tuple[tuple[str, str], ...]:
        return (("GLIDEPATH_POOL_KIND", "condor"), ("GLIDEPATH_COLLECTOR", "cm.example.org"))

    def secrets(self, name: PilotName, *, lifetime_s: int) -> tuple[tuple[str, str], ...]:
        return ()

    def said(self) -> Any:
        return json.loads(self.file.read_text())


class StandingSource:
    def __init__(self, pool: StandingPool) -> None:
        self.name, self.pool, self._of = SourceName("file"), pool.name, pool

    def demand(self, offers: tuple[Offer, ...], *, now: Instant) -> DemandSight:
        waiting = JobAd(JOB, Owner("ann"), False, Instant(now - WAITED_S), count=self._of.said()["idle"])
        return DemandSight(grouped(self.pool, (waiting,), offers))


def kind(name: PoolName, settings: Mapping[str, object], place: Place) -> StandingPool:
    return StandingPool(name, Path(str(settings["file"])))
