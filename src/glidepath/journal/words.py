"""What people and programs said outside of a cycle: notes, pauses, and the statistics of ended pilots.

Values come in, rows go out, and back. Text is made storable first: it comes from users, sites and pilots.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import Connection, delete, func, select

from glidepath.clock import Moment
from glidepath.core.cycle import Did, Done, Plan
from glidepath.core.provision.pilot import Clear, Ended, PilotAction, PilotPhase, WriteOff
from glidepath.core.provision.sight import Pause
from glidepath.journal.entry import EndedPilot, Note
from glidepath.store.engine import insert, storable
from glidepath.store.schema import notes, pauses, pilots_ended

TEXT_LETTERS_MAX = 2000
NAME_LETTERS_MAX = 400
NOTES_KEPT_MAX = 10_000
# Longer than a year, so that a yearly report can still be made a month late.
ENDED_KEPT_S = 400 * 86400


def add_note(connection: Connection, note: Note) -> None:
    connection.execute(
        insert(connection, notes).values(
            wall_s=note.wall_s,
            kind=storable(note.kind, letters_max=NAME_LETTERS_MAX),
            text=storable(note.text, letters_max=TEXT_LETTERS_MAX),
            by=storable(note.by, letters_max=NAME_LETTERS_MAX),
        )
    )


def newest_notes(connection: Connection, limit: int) -> tuple[Note, ...]:
    query = select(notes.c.wall_s, notes.c.kind, notes.c.text, notes.c.by)
    return tuple(Note(*row) for row in connection.execute(query.order_by(notes.c.id.desc()).limit(limit)))


def set_pause(connection: Connection, pause: Pause, wall_s: float) -> None:
    row = {
        "about": storable(pause.about, letters_max=NAME_LETTERS_MAX),
        "by": storable(pause.by, letters_max=NAME_LETTERS_MAX),
        "why": storable(pause.why, letters_max=TEXT_LETTERS_MAX),
        "wall_s": wall_s,
        "drain": int(pause.drain),
    }
    said = insert(connection, pauses).values(row)
    connection.execute(said.on_conflict_do_update(index_elements=["about"], set_=row))


def end_pause(connection: Connection, about: str) -> bool:
    about = storable(about, letters_max=NAME_LETTERS_MAX)
    return connection.execute(delete(pauses).where(pauses.c.about == about)).rowcount > 0


def all_pauses(connection: Connection) -> tuple[Pause, ...]:
    query = select(pauses.c.about, pauses.c.by, pauses.c.why, pauses.c.drain)
    found = (Pause(about, by, why, bool(drain)) for about, by, why, drain in connection.execute(query))
    # Sorted here: databases differ in how they order letters, and a plan must not depend on that.
    return tuple(sorted(found, key=lambda pause: pause.about))


def record_ended(
    connection: Connection, moment: Moment, plan: Plan[PilotAction], outcomes: tuple[Did, ...]
) -> None:
    """Statistics of the pilots that this plan ended; one that is known already stays as it was."""
    rows = {ended.name: _ended_row(ended, moment, plan.cycle) for ended in _over(plan, outcomes)}
    if rows:
        connection.execute(insert(connection, pilots_ended).on_conflict_do_nothing(), list(rows.values()))


def _over(plan: Plan[PilotAction], outcomes: tuple[Did, ...]) -> Iterator[Ended]:
    done = {did.about for did in outcomes if isinstance(did.outcome, Done)}
    for action in plan.actions:
        if isinstance(action, WriteOff):
            yield from action.ended
        elif isinstance(action, Clear):
            yield from (ended for ended in action.ended if ended.name in done)


def _ended_row(ended: Ended, moment: Moment, cycle: int) -> dict[str, object]:
    row: dict[str, object] = {
        name: storable(value, letters_max=TEXT_LETTERS_MAX if name == "why" else NAME_LETTERS_MAX)
        if isinstance(value, str)
        else value
        for name, value in ((name, getattr(ended, name)) for name in Ended.__dataclass_fields__)
    }
    ended_wall_s = moment.wall_s + (ended.ended_at - moment.at)
    return row | {"phase": ended.phase.name, "cycle": cycle, "ended_wall_s": ended_wall_s}


def newest_ended(connection: Connection, limit: int, site: str | None) -> tuple[EndedPilot, ...]:
    query = select(pilots_ended).order_by(pilots_ended.c.ended_wall_s.desc(), pilots_ended.c.name)
    if site is not None:
        query = query.where(pilots_ended.c.site == storable(site, letters_max=NAME_LETTERS_MAX))
    return tuple(_ended_of(row) for row in connection.execute(query.limit(limit)))


def _ended_of(row: object) -> EndedPilot:
    fields = {name: getattr(row, name) for name in Ended.__dataclass_fields__}
    fields["phase"] = PilotPhase[fields["phase"]]
    return EndedPilot(Ended(**fields), row.cycle, row.ended_wall_s)  # type: ignore[attr-defined]


def prune_words(connection: Connection, now_wall_s: float) -> None:
    newest = connection.execute(select(func.max(notes.c.id))).scalar() or 0
    connection.execute(delete(notes).where(notes.c.id <= newest - NOTES_KEPT_MAX))
    connection.execute(delete(pilots_ended).where(pilots_ended.c.ended_wall_s < now_wall_s - ENDED_KEPT_S))
