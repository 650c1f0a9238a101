"""`glidepath pool`: what waits and runs in each pool, and the reason for what was asked for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from glidepath.cli.output import Reader
from glidepath.cli.pause import PausePool, ResumePool
from glidepath.cli.verb import Answer, Column, Noun, Options, not_found

if TYPE_CHECKING:
    from glidepath.cli.view import Scene

COLUMNS = (
    Column("POOL", lambda item: item["name"]),
    Column("DEMAND", lambda item: item["idle_jobs"], right=True),
    Column("RUNNING", lambda item: item["running_jobs"], right=True),
    Column("ASKED", lambda item: item["asked"], right=True),
    Column("PENDING", lambda item: item["expected"] + item["pending"], right=True),
    Column("STARTING", lambda item: item["starting"], right=True),
    Column("BUSY", lambda item: item["busy"], right=True),
    Column("IDLE", lambda item: item["idle"], right=True),
    Column("DRAINING", lambda item: item["draining"], right=True, wide=True),
    Column("UNKNOWN", lambda item: item["unknown"], right=True),
    Column("WHY", lambda item: item["why"]),
)


class Status(Reader):
    """Show each pool: jobs that wait and run, pilots by phase, and why no more or no fewer are asked for"""

    options: ClassVar[Options] = {
        "name": {"args": ("name",), "nargs": "?", "metavar": "NAME", "help": "only this pool"},
        **Reader.options,
    }

    def answer(self) -> Answer:
        from glidepath.cli.view import notes_of, scene_now, sources_of

        scene = scene_now(self)
        name, names = self.given["name"], [pool.name for pool in scene.entry.rules.pools]
        if name is not None and name not in names:
            raise not_found("pool", name, [str(one) for one in names])
        items = tuple(_item(scene, pool) for pool in names if name in (None, pool))
        return Answer("PoolList", items, COLUMNS, sources_of(scene, pool=name), notes=notes_of(scene, name))


def _item(scene: Scene, pool: str) -> dict[str, Any]:
    from glidepath.cli.demand import items_of
    from glidepath.cli.view import phases
    from glidepath.core.provision.pilot import Submit

    groups = [item for item in items_of(scene) if item["pool"] == pool]
    submits = [
        action for action in scene.entry.plan.actions if isinstance(action, Submit) and action.pool == pool
    ]
    return {
        "name": pool,
        "idle_jobs": sum(group["idle"] for group in groups),
        "running_jobs": sum(group["running"] for group in groups),
        "asked": sum(len(submit.names) for submit in submits),
        **phases(track for track in scene.tracks if track.pool == pool),
        "why": _why(scene, pool, groups),
    }


def _why(scene: Scene, pool: str, groups: list[dict[str, Any]]) -> str:
    """The sentence about the largest group; the others are one command away."""
    for pause in scene.entry.snapshot.pauses:
        if pause.about == f"pool:{pool}":
            return f"PAUSED by {pause.by}" + (f": {pause.why}" if pause.why else "")
    if not groups:
        return "no job waits or runs"
    largest = max(groups, key=lambda group: group["idle"])
    rest = len(groups) - 1
    more = f"; {rest} more in `glidepath demand`" if rest else ""
    return f"{largest['shape']}: {largest['why']}{more}"


NOUN = Noun("pool", {"status": Status, "pause": PausePool, "resume": ResumePool})
