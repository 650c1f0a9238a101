"""A desk before a real store, jobs of several people, a cluster in memory, a scheduler that answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from glidepath.config import Settings
from glidepath.core.quantity import Resources
from glidepath.jobs.caller import Caller, Role
from glidepath.jobs.desk import Submitted
from glidepath.jobs.stored import StoredDesk
from glidepath.jobs.submission import read_submission
from glidepath.store.job import Ask, ExitRecord, How
from glidepath.store.jobs import JobStore
from placing.placing_world import PlacingWorld

SETTINGS = Settings.model_validate(
    {
        "pools": {"local": {"kind": "embedded"}},
        "clusters": {"lab": {"kind": "local"}},
        "partitions": {"local": {"pool": "local"}, "here": {"cluster": "lab"}},
    }
)
ASTRO, GEO = frozenset({"astro"}), frozenset({"geo"})
VIEWER = Caller("ann", Role.VIEWER, ASTRO)
ANN = Caller("ann", Role.USER, ASTRO)
BEN = Caller("ben", Role.USER, ASTRO)
CLEO = Caller("cleo", Role.USER, GEO)
OPERATOR = Caller("oz", Role.OPERATOR)
ADMIN = Caller("root", Role.ADMIN)
NEVER_WAS = 999_999


def ids(items: Any) -> list[int]:
    return [int(item["id"]) for item in items]


class DeskScene:
    """Whoever waits for an answer lets the scheduler go on, and time."""

    def __init__(self, folder: Path, *, url: str = "") -> None:
        self.home = folder / "home"
        self.world = PlacingWorld(folder, url=url)
        self.slept = 0
        self.desk = StoredDesk(
            SETTINGS, self.world.store, self.home, wall=self.world.time.wall, sleep=self._sleep
        )
        self.answers = True
        self.world.turn()

    def _sleep(self, seconds: float) -> None:
        self.slept += 1
        if self.answers:
            self.world.turn()

    def asked(self, caller: Caller, *, key: str = "", count: int = 1, **wish: Any) -> Submitted:
        made = read_submission({"command": ["true"], **wish})
        return self.desk.submit(caller, made, key=key, count=count)

    def pulled(self, caller: Caller, **wish: Any) -> int:
        return int(self.asked(caller, **wish).items[0]["id"])

    def placed(self, caller: Caller, **wish: Any) -> int:
        return int(self.asked(caller, **{"queue": "interactive", "time": "1h", **wish}).items[0]["id"])

    def taken(self, *, exit_code: int | None = None) -> list[int]:
        """A pilot takes all that waits in the pool, and ends it where a code is given."""
        jobs = JobStore(self.world.store, self.world.time)
        taken = jobs.claim(Ask("gp-x-1-0", ("local",), Resources(64_000, 64_000), 86400, 100))
        if exit_code is not None:
            ends = [
                ExitRecord(
                    job.id, job.attempt, "gp-x-1-0", How.EXITED, exit_code, ended_wall=job.started_wall
                )
                for job in taken
            ]
            jobs.finish(ends)
        return [job.id for job in taken]

    def wrote(self, content: bytes, *parts: object, name: str = "stdout") -> Path:
        file = self.home.joinpath("jobs", *map(str, parts), name)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        return file

    def close(self) -> None:
        self.world.close()
