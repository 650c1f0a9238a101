"""Pilots as their pool knows them: slot ads come in, one row per pilot goes out, strangers are counted.

An ad is believed only by the identity that the collector checked. Everything in it is a stranger's word until
then, and a number that cannot be meant makes its ad one that is not counted as room.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from glidepath.condor.trust import fits
from glidepath.core.units import CPU_MILLI_MAX, DURATION_S_MAX, SIZE_MIB_MAX

# Images of the PRP provisioner name the pod and nothing of ours; pods of ours are called after their pilots.
POD_PREFIX = "gp-"
CONSTRAINT = f'GlidepathPilot isnt undefined || substr(K8SPodName, 0, {len(POD_PREFIX)}) is "{POD_PREFIX}"'
NAMES = (
    *("Name", "GlidepathPilot", "GlidepathStopTime", "GlidepathJobsRun", "GlidepathJobsFailed"),
    *("K8SPodName", "GLIDEIN_ToRetire"),
    *("GlidepathHealthy", "AuthenticatedIdentity", "SlotType", "PartitionableSlot", "DynamicSlot"),
    *("State", "Activity", "Draining", "Cpus", "Memory", "Disk", "GPUs", "NumDynamicSlots"),
    *("MyCurrentTime", "LastHeardFrom"),
)
PILOT = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,118}[a-z0-9])?")
KIB_PER_MIB = 1024
GPUS_MAX = 10_000
COUNT_MAX = 10**9
# The collector forgets an ad that was not renewed for as long; an older one is no news.
AD_S_MAX = 900

Table = dict[str, Any]
SlotLike = Mapping[str, Any]


def pilot_rows(ads: Iterable[SlotLike], *, identity: str, wall_s: float) -> tuple[list[Table], int]:
    """One row per pilot, and how many ads call themselves ours and are signed by somebody else."""
    rows: dict[str, Table] = {}
    foreign = 0
    for ad in ads:
        pilot, signer = ad.get("GlidepathPilot") or ad.get("K8SPodName"), ad.get("AuthenticatedIdentity")
        named = isinstance(pilot, str) and PILOT.fullmatch(pilot) is not None
        if not named or not isinstance(signer, str) or not fits(identity, signer):
            foreign += 1
            continue
        row = rows.setdefault(str(pilot), _empty(str(pilot)))
        _added(row, ad, wall_s)
    return [rows[name] for name in sorted(rows)], foreign


def _empty(pilot: str) -> Table:
    return {
        "pilot": pilot,
        "free": [0, 0, 0, 0],
        "claims": 0,
        "draining": False,
        "left_s": None,
        "jobs_run": 0,
        "jobs_failed": 0,
    }


def _added(row: Table, ad: SlotLike, wall_s: float) -> None:
    state = ad.get("State")
    whole = ad.get("PartitionableSlot") is True
    if not whole and state in ("Claimed", "Preempting"):
        row["claims"] += 1
    elif whole or ad.get("DynamicSlot") is not True:
        free = (
            1000 * _amount(ad, "Cpus", CPU_MILLI_MAX // 1000),
            _amount(ad, "Memory", SIZE_MIB_MAX),
            _amount(ad, "Disk", SIZE_MIB_MAX * KIB_PER_MIB) // KIB_PER_MIB,
            _amount(ad, "GPUs", GPUS_MAX),
        )
        row["free"] = [have + more for have, more in zip(row["free"], free, strict=True)]
    # One that is not well takes no job, whatever is free in it.
    if ad.get("Draining") is True or state == "Drained" or ad.get("GlidepathHealthy") is False:
        row["draining"] = True
    left_s = _left_s(ad, wall_s)
    if left_s is not None:
        row["left_s"] = left_s if row["left_s"] is None else min(row["left_s"], left_s)
    row["jobs_run"] = max(row["jobs_run"], _amount(ad, "GlidepathJobsRun", COUNT_MAX))
    row["jobs_failed"] = max(row["jobs_failed"], _amount(ad, "GlidepathJobsFailed", COUNT_MAX))


def _left_s(ad: SlotLike, wall_s: float) -> int | None:
    """Life left by the pilot's own clock when it wrote the ad, less the age of the ad by ours."""
    # When the OSG pilot container takes no new jobs any more is as good.
    stop = ad.get("GlidepathStopTime") or ad.get("GLIDEIN_ToRetire")
    written, heard = ad.get("MyCurrentTime"), ad.get("LastHeardFrom")
    if type(stop) is not int or type(written) is not int:
        return None
    age_s = min(AD_S_MAX, max(0, int(wall_s) - heard)) if type(heard) is int else 0
    return max(0, min(DURATION_S_MAX, stop - written - age_s))


def _amount(ad: SlotLike, name: str, most: int) -> int:
    """Nothing where the number cannot be meant: room that may not be there is not counted."""
    value = ad.get(name)
    if type(value) is float and value == value and abs(value) <= most:
        value = int(value)
    return value if type(value) is int and 0 <= value <= most else 0
