"""Builders for tests of clouds: settings as a configuration file has them, pilots, and whole clouds."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cloud.queue_service import KEY
from glidepath.cloud.backend import CloudBackend
from glidepath.cloud.settings import CloudSettings
from glidepath.config.checks import own_values
from glidepath.config.tables import rebuilt
from glidepath.core.provision.pilot import PilotSpec
from glidepath.core.quantity import Instant, OfferKey, Owner, PilotName, PoolName, Resources, SiteName
from glidepath.ports import Place

LCLI = str(Path(__file__).with_name("lcli.py"))
TOKEN = "eyJhbGciOiJIUzI1NiJ9.a-token-that-nobody-may-see"
JOIN = (
    ("GLIDEPATH_POOL_KIND", "condor"),
    ("GLIDEPATH_POOL", "pool"),
    ("GLIDEPATH_COLLECTOR", "cm.example.org:9618"),
    ("GLIDEPATH_GRACE_S", "600"),
)
STATES = {
    "queued": "pending",
    "running": "running",
    "stopping": "leaving",
    "finished": "ended",
    "error": "failed",
    "canceled": "ended",
}


class Kind:
    """The kind as a configuration file meets it."""

    Settings = CloudSettings


def settings(said: dict[str, Any]) -> CloudSettings:
    """Through the very steps that a configuration file takes."""
    return rebuilt(CloudSettings, own_values(Kind, said))


def by_rest(url: str, *, labelled: bool = False, **more: Any) -> dict[str, Any]:
    """The table of the queue service's own API."""
    body = {"name": "{name}", "image": "{image}", "cpus": "{cpus}", "memory_gb": "{memory_gb}"}
    body |= {"files": {"pilot.pyz": "{bundle}"}, "minutes": "{walltime_m}"}  # type: ignore[dict-item]
    listing = {"items": "jobs[]", "state": "status.phase", "exit_code": "status.exit"}
    listing |= {"reason": "status.reason", "started": "started", "ended": "ended"}
    if labelled:
        body["label"] = "{label}"
        listing["label"] = "label"
    rest = {
        "url": url,
        "headers": {"Authorization": "Bearer {key}"},
        "submit": {"method": "POST", "path": "/jobs", "body": body, "body_gpus": {"gpus": "{gpus}"}},
        "list": {"method": "GET", "path": "/jobs"},
        "next": "next",
        "next_param": "after",
        "show": {"method": "GET", "path": "/jobs/{id}"},
        "delete": {"method": "DELETE", "path": "/jobs/{id}"},
        "cancel": {"method": "POST", "path": "/jobs/{id}/cancel"},
        "drain": {"method": "POST", "path": "/jobs/{id}/signal"},
        "logs": {"method": "GET", "path": "/jobs/{id}/output"},
    }
    own = {"states": STATES, "image": "sleeper:1", "key_variable": "CLOUD_KEY", "timeout": "10s"}
    return {"way": "rest", "rest": rest, "listing": listing, **own, **more}


def by_command(url: str, *, env: dict[str, str] | None = None, **more: Any) -> dict[str, Any]:
    """The table of the `lcli`-shaped command, which knows three columns and cannot tell a pilot anything."""
    lcli = [sys.executable, "-I", LCLI, "job"]
    words = ["--name", "{name}", "--command", "python3 pilot.pyz", "--image", "{image}"]
    words += ["--input-file", "{file}", "--mem", "{memory_gb}", "--cores", "{cpus}"]
    command = {
        "submit": [*lcli, "run", *words],
        "submit_gpus": ["--gpu-count", "{gpus}", "--gpu={gpu_type}"],
        "list": [*lcli, "show", "-f", "csv"],
        "delete": [*lcli, "delete", "{id}"],
        "env": {"LANCIUM_API_KEY": "{key}", "LCLI_URL": url, **(env or {})},
    }
    own = {"states": STATES, "image": "sleeper:1", "key_variable": "CLOUD_KEY", "timeout": "20s"}
    return {"way": "command", "command": command, "listing": {"form": "csv"}, **own, **more}


def backend_of(said: dict[str, Any], home: Path, *, site: str = "west", key: str = KEY) -> CloudBackend:
    environ = {"CLOUD_KEY": key, "PATH": "/usr/bin:/bin"}
    place = Place(home, f"sqlite:///{home}/glidepath.db")
    return CloudBackend(SiteName(site), settings(said), place, environ=environ)


def spec(name: str = "gp-1", **more: Any) -> PilotSpec:
    site = more.pop("site", "west")
    return PilotSpec(
        name=PilotName(name),
        site=SiteName(site),
        offer=OfferKey(more.pop("offer", f"{site}/small")),
        pool=PoolName(more.pop("pool", "pool")),
        size=more.pop("size", Resources(16_000, 32 << 10, 0)),
        traits=more.pop("traits", (("os", "linux"),)),
        lifetime_s=more.pop("lifetime_s", 12 * 3600),
        idle_s=more.pop("idle_s", 1200),
        asked_at=Instant(more.pop("asked_at", 1000)),
        owner=Owner(more.pop("owner", "ada")),
        join=more.pop("join", JOIN),
        secrets=more.pop("secrets", (("pool.token", TOKEN),)),
        **more,
    )


def names(listed: Iterable[Any]) -> list[str]:
    return sorted(str(pilot.name) for pilot in listed)
