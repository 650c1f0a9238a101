"""The queue service, and a backend of it by its API."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cloud.cloud_builders import backend_of, by_rest
from cloud.queue_service import Service
from glidepath.cloud.backend import CloudBackend
from glidepath.core.provision.pilot import SitePilot
from glidepath.core.quantity import Instant

NOW = Instant(2000)


class World:
    def __init__(self, service: Service, home: Path, **own: Any) -> None:
        self.service, self.home = service, home
        self.cloud: CloudBackend = backend_of(by_rest(service.url, **own), home)

    def seen(self) -> dict[str, SitePilot]:
        return {pilot.name: pilot for pilot in self.cloud.list(now=NOW).pilots}

    def posts(self) -> int:
        return self.service.count("POST", "/jobs")
