"""The independent count before every act: a plan that breaks one of these is recorded and not carried out.

It does not trust the planner: it adds up by itself what would run on each node, and whether sets are whole.
"""

from __future__ import annotations

from collections.abc import Iterator

from glidepath.core.place.acts import Launch, PlaceAction, Settle
from glidepath.core.place.record import Phase
from glidepath.core.place.turn import Picture
from glidepath.core.quantity import NodeName, Resources
from glidepath.core.schedule.cluster import NodeState


def breaches(picture: Picture, actions: tuple[PlaceAction, ...]) -> Iterator[tuple[str, str]]:
    """The invariant and what breaks it."""
    launches = [action for action in actions if isinstance(action, Launch)]
    records = picture.snapshot.roll.records
    if launches and picture.world is None:
        yield "no start unseen", f"{len(launches)} starts at a cluster that cannot be seen"
        return
    jobs = [launch.job for launch in launches]
    if len(jobs) != len(set(jobs)):
        yield "once", "a job is started twice in one plan"
    for launch in launches:
        record = records.get(launch.job)
        if record is None:
            yield "known", f"job {launch.job} is started and is not there"
        elif len(launch.places) != record.job.ask.nodes:
            yield (
                "whole",
                f"job {launch.job} is started on {len(launch.places)} nodes of {record.job.ask.nodes}",
            )
        elif not launch.again and (record.phase is not Phase.WAITS or record.cancelled):
            yield "once", f"job {launch.job} is started and does not wait"
        elif not launch.again and launch.attempt != record.attempt + 1:
            yield "once", f"job {launch.job} is started as attempt {launch.attempt} after {record.attempt}"
    yield from _overbooked(picture, launches, actions)


def _overbooked(
    picture: Picture, launches: list[Launch], actions: tuple[PlaceAction, ...]
) -> Iterator[tuple[str, str]]:
    """No node is given more than it has; one that has too much already gets nothing more."""
    roll = picture.snapshot.roll
    fresh = {
        launch.job: launch.places for launch in launches if not launch.again and launch.job in roll.records
    }
    if picture.world is None or not fresh:
        return
    cluster = picture.world.cluster
    overheads = dict(cluster.overheads)
    nodes = {node.name: node for node in cluster.nodes}
    over = {action.job for action in actions if isinstance(action, Settle)}
    taken: dict[NodeName, Resources] = {}
    for record in (roll.records[number] for number in {**roll.started, **fresh}):
        if record.id in over:
            continue
        ask = record.job.ask
        size = ask.size + overheads.get(ask.runtime, Resources())
        places = fresh.get(record.id) or tuple(
            place for rank, place in enumerate(record.places) if rank not in record.gone
        )
        for place in places:
            taken[place.node] = taken.get(place.node, Resources()) + size
    for name in sorted({place.node for places in fresh.values() for place in places}):
        node = nodes.get(name)
        if node is None or node.state is not NodeState.UP:
            yield "open", f"a job is started on `{name}`, which is not open"
        elif not taken[name].fits_in(node.size):
            yield "room", f"`{name}` would have {taken[name].as_tuple()} of {node.size.as_tuple()}"
