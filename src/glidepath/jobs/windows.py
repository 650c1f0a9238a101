"""The calendar at the desk: windows are made, moved and cancelled by operators, and read by everybody.

Wishes come in as people write them; items, with the jobs whose start or end is another one by it, or refusals
go out. The scheduler reads the calendar in its next turn, and tells those whom it is about.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from glidepath.clock import iso
from glidepath.core.text import one_line
from glidepath.jobs.desk import Item, WindowMove, WindowWish
from glidepath.jobs.doors import Doors
from glidepath.jobs.errors import Clash, Unanswered, Unknown
from glidepath.jobs.plans import Plans
from glidepath.jobs.specs import no_such
from glidepath.jobs.submission import unusable
from glidepath.jobs.values import wall_of
from glidepath.journal.entry import Note
from glidepath.journal.words import add_note
from glidepath.nudge import nudge
from glidepath.store.job import checked_text
from glidepath.store.people import Full
from glidepath.store.windows import Changed, Planned, Span, Told, WindowStore, window_of

WHY_CHARS_MAX = 500
NAME_CHARS_MAX = 100
NAMES_MAX = 1000
# Whose clock goes a little behind may still say now.
LATE_S_MAX = 60
# What is planned for longer is no plan.
AHEAD_S_MAX = 10 * 366 * 86400
NAMES_SHOWN = 6
NO_END = "is needed, or `lasts`: a window ends; to close nodes until further notice, drain them"

Wrong = list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Windows:
    doors: Doors
    plans: Plans

    @property
    def store(self) -> WindowStore:
        return WindowStore(self.doors.store)

    # Looking.

    def all(self, *, over: bool = False) -> list[Item]:
        wall = self.doors.wall()
        return [window_item(each, wall) for each in self.store.list(wall, over=over)]

    def show(self, number: int) -> Item:
        return window_item(self._there(number), self.doors.wall())

    # Changing.

    def add(self, wish: WindowWish, *, by: str, dry: bool) -> Item:
        wall = self.doors.wall()
        span = self._wanted(wish, wall)
        planned = Planned(0, span, by, wall, by, wall)
        beside = self._beside(planned)
        affected = self._affected(span.cluster, 0, planned)
        if not dry:
            with self.doors.turn:
                try:
                    planned = self.store.add(span, by=by, wall=wall, told=_told("made", by, wall))
                except Full as error:
                    raise Clash(f"{error}; nothing was changed") from None
        return self._done(planned, affected, f"{_called(planned)} {_shown(span)}", beside)

    def move(self, number: int, move: WindowMove, *, by: str, dry: bool) -> Item:
        wall = self.doors.wall()
        had = self._open_to_change(number, move.version, wall)
        span = self._moved(had, move, wall)
        planned = replace(had, span=span)
        beside = self._beside(planned)
        affected = self._affected(span.cluster, number, planned)
        if not dry:
            with self.doors.turn:
                try:
                    told = _told("moved", by, wall, move.why)
                    planned = self.store.move(had, span, by=by, wall=wall, told=told)
                except Changed as error:
                    raise _changed(error.now, had.version) from None
        return self._done(planned, affected, f"window {number} {_shown(span)}", beside)

    def cancel(self, number: int, version: int | None, *, by: str, why: str, dry: bool) -> Item:
        wall = self.doors.wall()
        had = self._open_to_change(number, version, wall)
        why = _sound_why(why)
        affected = self._affected(had.span.cluster, number, None)
        planned = had
        if not dry:
            with self.doors.turn:
                try:
                    told = _told("cancelled", by, wall, why)
                    planned = self.store.cancel(had, by=by, wall=wall, told=told)
                except Changed as error:
                    raise _changed(error.now, had.version) from None
        return self._done(planned, affected, f"window {number} is cancelled", ())

    # What it is about.

    def _there(self, number: int) -> Planned:
        found = self.store.find(number)
        if found is None:
            raise Unknown(f"there is no window {number}", hint="`glidepath window list --all` shows them")
        return found

    def _open_to_change(self, number: int, version: int | None, wall: float) -> Planned:
        had = self._there(number)
        if had.cancelled:
            when = f"{one_line(had.changed_by)} at {iso(had.changed_wall)}"
            raise Clash(f"window {number} was cancelled by {when}; nothing was changed")
        if had.over(wall):
            raise Clash(f"window {number} is over since {iso(had.span.closes_wall)}; nothing was changed")
        if version is None:
            raise unusable((("version", f"is needed: window {number} {_stands(had)}"),))
        if version != had.version:
            raise _changed(had, version)
        return had

    def _affected(self, cluster: str, number: int, planned: Planned | None) -> list[Item]:
        """Jobs whose start or end is another one; none where nothing is known of the cluster yet."""
        at_wall, wall = self.doors.clock().at_wall, self.doors.wall()
        before = self.store.list(wall, cluster=cluster)
        after = [each for each in before if each.id != number] + ([planned] if planned else [])
        was, will = (tuple(window_of(each, at_wall) for each in some) for some in (before, after))
        try:
            return self.plans.affected(cluster, was, will, self.doors.now())
        except Unanswered:
            return []

    def _beside(self, planned: Planned) -> tuple[Planned, ...]:
        """Those that it overlaps; a `Clash` where nobody could use what both keep."""
        wall = self.doors.wall()
        others = [
            each for each in self.store.list(wall, cluster=planned.span.cluster) if each.id != planned.id
        ]
        found = tuple(each for each in others if _overlap(each.span, planned.span))
        for each in found:
            if _for_nobody(each.span, planned.span):
                raise Clash(
                    f"window {each.id} keeps the same nodes at that time for others, so that nobody could "
                    "use them; move or cancel one of the two, nothing was changed"
                )
        return found

    def _done(self, planned: Planned, affected: list[Item], said: str, beside: Sequence[Planned]) -> Item:
        nudge(self.doors.home)
        ends = sum(one["what"] == "ends" for one in affected)
        jobs = f"; by it {ends} running jobs end at another time, {len(affected) - ends} start at another"
        more = f"; it overlaps {', '.join(f'window {each.id}' for each in beside)}" if beside else ""
        item = window_item(planned, self.doors.wall())
        return {**item, "affected": affected, "say": f"{said}{jobs if affected else ''}{more}"}

    # What was asked for; all that is wrong is told at once.

    def _wanted(self, wish: WindowWish, wall: float) -> Span:
        wrong: Wrong = []
        cluster = self._cluster(wish, wrong)
        opens = self._opens(wish.starts, wall, wrong) if wish.starts else wall
        closes = self._closes(wish, opens, wall, wrong)
        if not wish.ends and wish.lasts_s is None:
            wrong.append(("ends", NO_END))
        nodes = self._nodes(cluster, wish, wrong)
        projects = _names("projects", wish.projects, wrong)
        people = _names("people", wish.people, wrong)
        why = _checked("why", wish.why, wrong)
        if wrong:
            raise unusable(tuple(wrong))
        assert opens is not None
        assert closes is not None
        return Span(cluster, opens, closes, nodes, projects, people, why)

    def _moved(self, had: Planned, move: WindowMove, wall: float) -> Span:
        wrong: Wrong = []
        span = had.span
        if not (move.starts or move.ends or move.lasts_s is not None):
            raise unusable((("starts", "is needed, or `ends` or `lasts`: nothing is said to be moved"),))
        if move.starts and span.opens_wall <= wall:
            raise Clash(
                f"window {had.id} has opened at {iso(span.opens_wall)}: its end can be moved, its start not"
            )
        opens = self._opens(move.starts, wall, wrong) if move.starts else span.opens_wall
        closes = self._closes(move, opens, wall, wrong)
        if closes is None and opens is not None:
            closes = opens + span.closes_wall - span.opens_wall
        _checked("why", move.why, wrong)
        if wrong:
            raise unusable(tuple(wrong))
        assert opens is not None
        assert closes is not None
        return replace(span, opens_wall=opens, closes_wall=closes)

    def _cluster(self, wish: WindowWish, wrong: Wrong) -> str:
        known = sorted(self.doors.settings.clusters)
        if wish.cluster is None:
            if len(known) != 1:
                names = ", ".join(f"`{name}`" for name in known)
                of = f"there are several: {names}" if known else "no cluster is configured"
                wrong.append(("cluster", f"is needed: {of}"))
                return ""
            return known[0]
        if wish.cluster not in known:
            wrong.append(("cluster", str(no_such("cluster", wish.cluster, known))))
        return wish.cluster

    def _opens(self, text: str, wall: float, wrong: Wrong) -> float | None:
        found = _time("starts", text, wall, wrong)
        if found is not None and found < wall - LATE_S_MAX:
            wrong.append(("starts", f"has passed: it is {iso(wall)} now, and that was {iso(found)}"))
            return None
        return found

    def _closes(
        self, said: WindowWish | WindowMove, opens: float | None, wall: float, wrong: Wrong
    ) -> float | None:
        """Nothing where nothing is said of it, or it is wrong."""
        ends, lasts_s = said.ends, said.lasts_s
        if ends and lasts_s is not None:
            wrong.append(("ends", "says the same as `lasts`; leave one of them out"))
            return None
        if lasts_s is not None and lasts_s <= 0:
            wrong.append(("lasts", "must be longer than nothing"))
            return None
        if lasts_s is not None:
            found = None if opens is None else opens + lasts_s
        else:
            found = _time("ends", ends, wall, wrong) if ends else None
        if found is None or opens is None:
            return found
        if found <= opens:
            wrong.append(("ends", f"must be later than `starts`: {iso(found)} is not after {iso(opens)}"))
        elif found <= wall:
            wrong.append(("ends", f"has passed: it is {iso(wall)} now; to end it, cancel it"))
        elif found > wall + AHEAD_S_MAX:
            wrong.append(("ends", "is more than ten years away; " + NO_END.partition(": ")[2]))
        return found

    def _nodes(self, cluster: str, wish: WindowWish, wrong: Wrong) -> tuple[str, ...]:
        if wish.everywhere == bool(wish.nodes):
            why = (
                "is said beside `all`" if wish.nodes else "is needed, or `all` for every node of the cluster"
            )
            wrong.append(("nodes", why))
        if not wish.nodes or cluster not in self.doors.settings.clusters:
            return ()
        seen = self.doors.placing(cluster).seen_cluster()
        known = {str(node.name) for node in seen.nodes} if seen is not None else set()
        if not known:
            wrong.append(("nodes", f"no node of the cluster `{cluster}` has been seen yet"))
            return ()
        for name in dict.fromkeys(wish.nodes):
            if name not in known:
                wrong.append(("nodes", str(no_such("node", name, sorted(known)))))
        return tuple(dict.fromkeys(wish.nodes))


def window_item(planned: Planned, wall: float) -> Item:
    """The stable form of a window; times are in UTC."""
    span = planned.span
    state = "over" if planned.over(wall) else "open" if span.opens_wall <= wall else "planned"
    return {
        "id": planned.id,
        "cluster": span.cluster,
        "state": "cancelled" if planned.cancelled else state,
        "opens": iso(span.opens_wall),
        "closes": iso(span.closes_wall),
        "nodes": list(span.nodes),
        "projects": list(span.projects),
        "people": list(span.people),
        "why": span.why,
        "made_by": planned.made_by,
        "made": iso(planned.made_wall),
        "changed_by": planned.changed_by,
        "changed": iso(planned.changed_wall),
        "version": planned.version,
    }


def _called(planned: Planned) -> str:
    return f"window {planned.id}" if planned.id else "a window"


def _shown(span: Span) -> str:
    """What it does, for people."""
    names = ", ".join(span.nodes[:NAMES_SHOWN]) + (", ..." if len(span.nodes) > NAMES_SHOWN else "")
    where = f"{names} of `{span.cluster}`" if span.nodes else f"all of `{span.cluster}`"
    when = f"from {iso(span.opens_wall)} to {iso(span.closes_wall)}"
    whose = [*(f"project `{one_line(name)}`" for name in span.projects)]
    whose += [f"`{one_line(name)}`" for name in span.people]
    if not whose:
        return f"closes {where} {when}"
    more = ", ..." if len(whose) > NAMES_SHOWN else ""
    return f"keeps {where} {when} for {', '.join(whose[:NAMES_SHOWN])}{more}"


def _stands(planned: Planned) -> str:
    """Where it stands by now, for somebody who did not see that."""
    by, at = one_line(planned.changed_by), iso(planned.changed_wall)
    return f"{_shown(planned.span)}, as {by} said at {at}; that is version {planned.version}"


def _changed(now: Planned, version: int) -> Clash:
    if now.cancelled:
        by = one_line(now.changed_by)
        return Clash(f"window {now.id} was cancelled by {by} at {iso(now.changed_wall)}; nothing was changed")
    return Clash(
        f"window {now.id} was changed since version {version}: it {_stands(now)}; nothing was changed"
    )


def _told(what: str, by: str, wall: float, why: str = "") -> Told:
    """The line of the journal, in the transaction of the change."""

    def told(conn: Any, planned: Planned) -> None:
        reason = why or planned.span.why
        more = f": {one_line(reason, letters_max=WHY_CHARS_MAX)}" if reason else ""
        text = f"window {planned.id} {what}, it {_shown(planned.span)}{more}"
        if planned.cancelled:
            text = f"window {planned.id} cancelled{more}"
        add_note(conn, Note(wall, "window", text, by))

    return told


def _overlap(one: Span, other: Span) -> bool:
    apart = one.closes_wall <= other.opens_wall or other.closes_wall <= one.opens_wall
    shared = not one.nodes or not other.nodes or bool(set(one.nodes) & set(other.nodes))
    return shared and not apart


def _for_nobody(one: Span, other: Span) -> bool:
    """Both are kept for somebody, and no job could be in both: a job has one project and one owner."""
    if not (one.projects or one.people) or not (other.projects or other.people):
        return False
    alike = set(one.projects) & set(other.projects) or set(one.people) & set(other.people)
    crossed = (one.projects and other.people) or (one.people and other.projects)
    return not alike and not crossed


def _time(name: str, text: str, wall: float, wrong: Wrong) -> float | None:
    try:
        return wall_of(text, wall=wall)
    except ValueError as error:
        wrong.append((name, str(error)))
        return None


def _names(kind: str, names: Sequence[str], wrong: Wrong) -> tuple[str, ...]:
    if len(names) > NAMES_MAX:
        wrong.append((kind, f"are {len(names)}; at most {NAMES_MAX} are taken"))
        return ()
    for name in names:
        _checked(kind, name, wrong, chars_max=NAME_CHARS_MAX, empty=False)
    return tuple(dict.fromkeys(names))


def _checked(
    name: str, text: str, wrong: Wrong, *, chars_max: int = WHY_CHARS_MAX, empty: bool = True
) -> str:
    what = {"why": "reason", "projects": "project", "people": "name of a person"}[name]
    try:
        return checked_text(what, text, chars_max=chars_max, empty=empty)
    except ValueError as error:
        wrong.append((name, str(error)))
        return ""


def _sound_why(why: str) -> str:
    wrong: Wrong = []
    sound = _checked("why", why, wrong)
    if wrong:
        raise unusable(tuple(wrong))
    return sound
