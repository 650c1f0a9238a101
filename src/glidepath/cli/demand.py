"""`glidepath demand`: groups of waiting jobs from the last cycle, each with the reason for what is done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from glidepath.cli.output import Reader, span
from glidepath.cli.verb import Answer, Column, Noun, Options

if TYPE_CHECKING:
    from glidepath.cli.view import Scene

OWNERS_SHOWN_MAX = 3


def _owners(item: Any) -> str:
    shown = [f"{one['owner']} {one['idle']}" for one in item["owners"][:OWNERS_SHOWN_MAX]]
    rest = len(item["owners"]) - len(shown)
    return ", ".join(shown) + (f" and {rest} more" if rest else "")


COLUMNS = (
    Column("POOL", lambda item: item["pool"]),
    Column("SHAPE", lambda item: item["shape"] + (f" [{item['variant']}]" if item["variant"] else "")),
    Column("TIME", lambda item: span(item["run_s_max"]), wide=True, right=True),
    Column("IDLE", lambda item: item["idle"], right=True),
    Column("RUNNING", lambda item: item["running"], right=True),
    Column("OLDEST", lambda item: span(item["oldest_s"]), right=True),
    Column("OWNERS", _owners),
    Column("FITS", lambda item: ", ".join(item["fits"]), wide=True),
    Column("WHY", lambda item: item["why"]),
)


class Show(Reader):
    """Show what waits and runs, grouped by what it needs, and why each group is served as it is"""

    options: ClassVar[Options] = {
        "pool": {"args": ("--pool",), "metavar": "NAME", "help": "only this pool"},
        **Reader.options,
    }

    def answer(self) -> Answer:
        from glidepath.cli.view import notes_of, scene_now, sources_of

        scene = scene_now(self)
        items = [item for item in items_of(scene) if self.given["pool"] in (None, item["pool"])]
        nothing = "no job waits or runs; submit one with `glidepath job submit -- COMMAND...`"
        pool = self.given["pool"]
        sources, notes = sources_of(scene, pool=pool), notes_of(scene, pool)
        return Answer("DemandList", tuple(items), COLUMNS, sources, nothing=nothing, notes=notes)


def items_of(scene: Scene) -> list[dict[str, Any]]:
    """In the order in which they were decided: held ones first, each group with its own sentence."""
    reasons: dict[str, list[str]] = {}
    for decision in scene.entry.plan.decisions:
        reasons.setdefault(decision.about, []).append(str(decision.reason))
    items = []
    for wanted in sorted(scene.picture.wanted, key=lambda one: not one.held):
        demand = wanted.demand
        told = reasons.get(f"demand:{demand.name}") or ["nothing was decided about it"]
        items.append(
            {
                "name": demand.name,
                "pool": demand.pool,
                "shape": str(demand.shape),
                "variant": demand.variant,
                "run_s_max": demand.run_s_max,
                "idle": demand.idle,
                "running": demand.running,
                "oldest_s": None if demand.oldest_at is None else scene.ago_s(demand.oldest_at),
                "owners": [{"owner": owner, "idle": idle} for owner, idle in demand.owners],
                "fits": list(demand.fits),
                "held": wanted.held,
                "why": told.pop(0) if len(told) > 1 else told[0],
            }
        )
    return items


NOUN = Noun("demand", {"": Show})
