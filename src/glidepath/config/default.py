"""What glidepath does with no file at all: the size of this machine comes in, settings go out.

The values are those of a person at a laptop who wants to see things happen, not of a site in production.
"""

from __future__ import annotations

from glidepath.config.settings import Settings

DISK_MIB_MAX = 8 * 1024
# Two pilots may run at once, and a fifth of the machine is left to the person who sits at it.
MEMORY_SHARE_PERCENT = 40
PILOTS_MAX = 2


def default_settings(cpus: int, memory_mib: int, disk_mib: int) -> Settings:
    """One embedded pool, one local site with two pilots at most, and this machine as a cluster."""
    worker = {
        "cpus": max(1, cpus // 2),
        "memory": f"{max(1, memory_mib * MEMORY_SHARE_PERCENT // 100)}MiB",
        "disk": f"{max(0, min(DISK_MIB_MAX, disk_mib * MEMORY_SHARE_PERCENT // 100))}MiB",
        "lifetime": "14h",
        "idle": "30s",  # Short, so that people see pilots leave.
        "limits": {"live_max": PILOTS_MAX, "pending_max": PILOTS_MAX},
    }
    here = {
        "kind": "local",
        "stale_after": "30s",
        "appear_within": "30s",
        "missing_after": "30s",
        "pending_max_age": "5m",
        "patience": "1m",
        "backoff": "5s",
        "backoff_max": "1m",
        "refused_wait": "30s",
        "drain_lead": "1m",
        "quarantine": "5m",
        "offers": {"worker": worker},
    }
    # Whoever waits for a job that is placed sits at this machine, too, and pilots have their own part of it.
    placed = {
        "kind": "local",
        "cpus": max(1, cpus),
        "memory": f"{max(1, memory_mib * MEMORY_SHARE_PERCENT // 100)}MiB",
        "disk": f"{max(0, min(DISK_MIB_MAX, disk_mib * MEMORY_SHARE_PERCENT // 100))}MiB",
        "stale_after": "30s",
        "cycle_max": "2s",
    }
    local = {"kind": "embedded", "stale_after": "30s", "hold": "30s", "decay": "30s", "silent_after": "1m"}
    return Settings.model_validate(
        {
            "cycle": {"min": "1s", "max": "10s", "deadline": "10s"},
            "pilots": {"withdraw_after": "10s", "left_min": "1m", "join_slack": "1m", "useful_min": "1m"},
            "policy": {"name": "steady", "release_after": "20s"},
            "pools": {"local": local},
            "partitions": {"local": {"pool": "local"}, "here": {"cluster": "here"}},
            "clusters": {"here": placed},
            "sites": {"here": here},
        }
    )
