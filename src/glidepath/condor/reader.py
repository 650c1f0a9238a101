"""One schedd's queue, read again and again: full reads, and between them only what changed.

Queries go out, a tally of groups comes back with its age and cost. What changed is laid over the last full
read and checked against the schedd's own totals; any doubt ends in a full read. Server-side grouping is
used while it pays, plain ads where nearly every job differs. Nothing here keeps more than one read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from glidepath.condor.around import CHANGES_MAX, SELDOM, SLACK_S, Surroundings, recent
from glidepath.condor.binding import ClassAd, HTCondorException
from glidepath.condor.evaluate import BadJob, owner_of
from glidepath.condor.groups import AS_RUNNING, HELD, IDLE, JobId, Sorter, Tally, counted
from glidepath.condor.halves import HALVED_MIN, Half, NotHalvedError, at_once, two_halves
from glidepath.condor.ids import group_ids, own_id, whole_of
from glidepath.condor.isolate import Isolation
from glidepath.condor.match import Matcher
from glidepath.condor.reading import Base, Question, Queue, Reading, Totals
from glidepath.condor.refs import References
from glidepath.core.text import one_line

# Scheduler, grid and local universe: such jobs run without a slot.
SLOTLESS = (7, 9, 12)
# Idle, running, held, transferring output, suspended.
LIVE = (1, 2, 5, 6, 7)
# What does not count is left out here and not by the schedd: it would spend a fifth of the read on that.
ALL = "true"
# The constraint of a grouped query is asked of each job and once more of each group, which has only the
# attributes that were asked for: whatever a constraint names must be among these, or may be undefined.
BASE_NAMES = ("JobStatus", "Owner", "Requirements", "RequestCpus", "RequestMemory", "RequestDisk")
ROUNDS_MAX = 4  # An added attribute may look at others in turn; deeper ones are as good as none.
NAMES_ADDED_MAX = 200
# A full read is not repeated before thirty times its cost: at most about 3 % of the schedd's time.
COST_FACTOR = 30
# Totals that have not moved since the last look mean that nothing has, but for one job that came while
# another went; so long they are believed, as a walk over 100,000 jobs costs a schedd a tenth of a second.
STILL_S_MAX = 20.0
# A schedd forks to answer any query, which costs one with 100,000 jobs 20 ms: whoever watches and whoever
# reads believe totals of each other that are as young as this, half of the time between two looks. Two reads
# always ask twice: a schedd that has fallen silent must not go unnoticed.
TOTALS_S_MAX = 1.0
UNREADABLE = "its ad is too large to be fetched"

TOTALS = ("Jobs", "Idle", "Running", "Held", "Removed", "Completed", "Suspended")
SERVER_TIME = "ServerTime"


class _NamesChangedError(Exception):
    """Some job states what was not asked for."""


class _Counted(NamedTuple):
    """One half of a queue."""

    tally: Tally
    missing: set[str]  # names that its expressions look at
    expands: bool  # the schedd adds such names by itself
    groups: int


class Reader:
    """Reads one schedd. `mark` is told whose expressions are worked on, `beside` by a process beside."""

    def __init__(
        self,
        queue: Queue,
        *,
        mark: Callable[[str], None] = lambda _: None,
        beside: Callable[[str], None] = lambda _: None,
        mono: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._queue, self._mark, self._beside, self._mono, self._wall = queue, mark, beside, mono, wall
        self._isolation = Isolation(queue, mono=mono)
        self._refs = References()
        self._further: frozenset[str] = frozenset()
        self._matcher: tuple[str, Matcher] | None = None
        self._base: Base | None = None
        self._still: tuple[Totals, float, Tally] | None = None  # what was counted exactly, and when
        self.totals: Totals = ()  # as they were last told
        self._totals_at_s: float | None = None
        self._watched_at_s: float | None = None  # when whoever watches last learned them
        self._jobs = 0  # at the beginning of the last full read
        self._halves, self._upper_here = True, False  # whether this schedd can be read so, and which was here
        self._expands = False  # this schedd adds by itself what expressions look at
        self._around = Surroundings(queue)
        self._ahead_s = 0.0  # the schedd's clock before ours

    def read(self, question: Question) -> Reading:
        began = self._mono()
        base = self._base
        if base is None or base.digest != question.digest or began - base.at_s >= question.full_every_s:
            return self._full(question)
        totals = self._totals_since(self._watched_at_s)
        if self._still is not None and self._still[0] == totals and began - self._still[1] < STILL_S_MAX:
            return self._reading(self._still[2], base, began, full=False, exact=True)
        changed = self._changed(question, base, began)
        if changed is not None:
            tally, expected = changed
            exact = expected == totals or expected == self._totals()
            self._still = (self.totals, began, tally) if exact else None
            if exact or not self._may_read_full(began):
                return self._reading(tally, base, began, full=False, exact=exact)
        elif not self._may_read_full(began):
            return self._reading(base.tally, base, began, full=False, exact=False)
        return self._full(question)

    def matcher(self, question: Question) -> Matcher:
        if self._matcher is None or self._matcher[0] != question.digest:
            made = Matcher(question.offers, question.terms, route=question.route, references=self._refs)
            self._matcher = (question.digest, made)
        return self._matcher[1]

    def waits(self) -> Totals:
        """The totals alone, for asking often whether a read would show anything new."""
        totals = self._totals_since(self._totals_at_s)
        self._watched_at_s = self._totals_at_s
        return totals

    def _may_read_full(self, now: float) -> bool:
        return self._base is None or now - self._base.at_s >= COST_FACTOR * self._base.cost_s

    def _totals_since(self, asked_at_s: float | None) -> Totals:
        if asked_at_s is not None and self._mono() - asked_at_s < TOTALS_S_MAX:
            return self.totals
        return self._totals()

    def _totals(self) -> Totals:
        asked_at_s = self._mono()
        found = self._queue.totals()
        self._totals_at_s = asked_at_s
        if found.get(SERVER_TIME, 0) > 0:
            self._ahead_s = found[SERVER_TIME] - self._wall()
        self.totals = tuple(found.get(name, 0) for name in TOTALS)
        return self.totals

    def _names(self, question: Question) -> list[str]:
        names = [*BASE_NAMES, *self._stated(question), *self._used(SELDOM)]
        known = {name.lower() for name in names}
        return names + sorted((self._further | self.matcher(question).needed) - known)

    def _full(self, question: Question) -> Reading:
        began = self._mono()
        totals = self._totals()
        young, counted = self._looked(question, totals[0], began)
        for _ in range(ROUNDS_MAX):
            tally, missing = counted or self._counted(question)
            counted = None
            added = frozenset(sorted(missing)[: NAMES_ADDED_MAX - len(self._further)])
            if self._expands or not added:
                break
            self._further |= added
        self._isolation.asked(lambda: self._around.find_submitted(tally.last[0]))
        halves = 2 if self._halved() else 1
        ended = self._mono()
        self._base = Base(
            tally=tally,
            totals=totals,
            at_s=began,
            cost_s=halves * (ended - began),  # what the schedd spent on it
            digest=question.digest,
            young=young,
        )
        self._still = (totals, began, tally)
        return self._reading(tally, self._base, began, full=True, exact=True)

    def _looked(
        self, question: Question, jobs: int, now_s: float
    ) -> tuple[dict[JobId, int], tuple[Tally, set[str]] | None]:
        """What is around; of a long queue also what was counted meanwhile, where that can be used."""
        around, self._jobs = self._around, jobs
        last = self._base.tally.last[0] if self._base is not None else 0
        around.glance(self._names(question), question.run_names, jobs=jobs)
        names = self._names(question)
        young: dict[JobId, int] = {}

        def look() -> None:
            young.update(around.look(names, question.run_names, last=last, jobs=jobs, now_s=now_s))

        def look_and_compare() -> None:
            look()
            if self._names(question) != names:
                raise _NamesChangedError

        if self._halved() and not around.sampled:
            try:
                return young, self._in_halves(question, look_and_compare)
            except _NamesChangedError:
                return young, None
            except NotHalvedError:
                self._halves = False
            except HTCondorException:
                pass  # Whoever breaks the answer is found later.
        self._isolation.asked(look)
        return young, None

    def _halved(self) -> bool:
        return self._jobs >= HALVED_MIN and self._halves and not self._isolation.culprits

    def _sorter(
        self,
        question: Question,
        names: Iterable[str],
        run_names: Sequence[str],
        mark: Callable[[str], None] | None = None,
    ) -> Sorter:
        asked = frozenset(name.lower() for name in names)
        return Sorter(
            self.matcher(question),
            self._refs,
            run_names=run_names,
            asked=asked,
            further=self._further,
            expanded=self._expands,
            poisoned=question.poisoned,
            mark=mark or self._mark,
            now_s=self._wall(),
        )

    def _counted(self, question: Question) -> tuple[Tally, set[str]]:
        """All live jobs, by groups or one by one, and the names that were missing to understand them."""
        if self._halved():
            try:
                return self._in_halves(question)
            except NotHalvedError:
                self._halves = False
            except HTCondorException:
                pass  # Whoever breaks the answer is found below.
        names = self._names(question)
        singles = self._all_apart(ALL, names)
        ads = self._isolation.grouped(ALL, names) if singles is None else singles
        sorter = self._sorter(question, names, self._stated(question))
        self._around.groups = len(ads)
        tally = _tallied(sorter, ads, grouped=singles is None)
        for owner, own in self._isolation.unreadable():
            tally.last = max(tally.last, own)
            tally.set_aside(f"{own[0]}.{own[1]} of `{one_line(owner)}`", UNREADABLE, 1)
        self._expands = self._expands or sorter.expanded
        return tally, sorter.unasked

    def _in_halves(
        self, question: Question, first: Callable[[], None] = lambda: None
    ) -> tuple[Tally, set[str]]:
        """`first` is done here, while the other half is read already."""
        # In turns, so that both halves come to be known here: what the other process learns is lost with it.
        self._upper_here = not self._upper_here
        here, beside = two_halves(upper_here=self._upper_here)

        def counted_here() -> _Counted:
            first()
            return self._half(question, here, self._mark)

        one, other = at_once(counted_here, lambda: self._half(question, beside, self._beside))
        one.tally.take(other.tally)
        self._expands = self._expands or one.expands or other.expands
        self._around.groups = one.groups + other.groups
        return one.tally, one.missing | other.missing

    def _half(self, question: Question, half: Half, mark: Callable[[str], None]) -> _Counted:
        names = self._names(question)
        grouped = not self._around.differ
        ads = (
            self._queue.grouped(half.constraint, names)
            if grouped
            else self._queue.plain(half.constraint, [*names, "ClusterId", "ProcId"])
        )
        groups = len(ads)
        sorter = self._sorter(question, names, self._stated(question), mark)
        tally = _tallied(sorter, ads, grouped=grouped, half=half)
        return _Counted(tally, sorter.unasked, sorter.expanded, groups)

    def _stated(self, question: Question) -> list[str]:
        return self._used(question.run_names)

    def _used(self, names: Iterable[str]) -> list[str]:
        return [name for name in names if name.lower() in self._around.stated]

    def _all_apart(self, constraint: str, names: Sequence[str]) -> list[ClassAd] | None:
        """Every job by itself, where that is quicker; None where it is not, or one breaks the answer."""
        if not self._around.differ:
            return None
        try:
            return self._queue.plain(constraint, [*names, "ClusterId", "ProcId"])
        except HTCondorException:
            return None

    def _changed(self, question: Question, base: Base, now: float) -> tuple[Tally, Totals] | None:
        """The base with everything laid over it that changed since; None where that cannot be told."""
        names = self._names(question)
        window_s = int(now - base.at_s) + SLACK_S + 1
        extra = ("ClusterId", "ProcId", "LastJobStatus", "QDate", *SELDOM, *question.run_names)
        try:
            ads = self._queue.plain(recent(window_s), [*names, *extra], limit=CHANGES_MAX)
        except HTCondorException:
            return None  # Perhaps because of one of them, which a full read finds out.
        if len(ads) >= CHANGES_MAX:
            return None
        sorter, tally = self._sorter(question, names, question.run_names), base.tally.copy()
        totals = dict(zip(TOTALS, base.totals, strict=True))
        for ad in ads:
            own = own_id(ad)
            status = whole_of(ad, "JobStatus")
            before = base.young.get(own, 0 if own > base.tally.last else whole_of(ad, "LastJobStatus"))
            if before == status:
                continue
            if own <= base.tally.last and before == 0:
                return None
            _counted_in(totals, before, -1)
            _counted_in(totals, status, 1)
            self._around.submitted.keep(own[0], whole_of(ad, "QDate"))
            if whole_of(ad, "JobUniverse") not in SLOTLESS:
                _moved(tally, sorter, ad, before=before, status=status)
        sorter.rest()
        if sorter.unasked and not sorter.expanded:
            return None
        return tally, tuple(totals[name] for name in TOTALS)

    def _reading(self, tally: Tally, base: Base, began: float, *, full: bool, exact: bool) -> Reading:
        firsts = [row.first for row in tally.rows.values() if row.idle and row.first is not None]
        server_s = int(self._wall() + self._ahead_s)
        ages = {first: max(0, server_s - self._around.submitted.at(first[0], server_s)) for first in firsts}
        ended = self._mono()
        return Reading(
            tally=tally,
            full=full,
            exact=exact,
            age_s=max(0.0, ended - base.at_s),
            cost_s=ended - began,
            full_cost_s=base.cost_s,
            ages_s=ages,
        )


def _tallied(sorter: Sorter, ads: list[ClassAd], *, grouped: bool, half: Half | None = None) -> Tally:
    tally = Tally()
    while ads:  # Taken off one by one: the ads are most of the memory, and their list is bounded.
        ad = ads.pop()
        ids = group_ids(ad) if grouped else (own_id(ad),) * 2
        if half is not None:
            half.refuse_others(ids)
        if _counts(ad):
            counted(tally, sorter, ad, count=whole_of(ad, "JobCount") if grouped else 1, ids=ids)
    sorter.rest()
    return tally


def _moved(tally: Tally, sorter: Sorter, ad: ClassAd, *, before: int, status: int) -> None:
    own = own_id(ad)
    try:
        owner = owner_of(ad)
        if before == HELD:
            tally.add_held(owner, -1)
        if status == HELD:
            tally.add_held(owner, 1)
        key = sorter.key(ad, owner)
    except BadJob as bad:
        if before == 0:
            tally.set_aside(f"{own[0]}.{own[1]}", str(bad), 1)
        return
    if before == IDLE or before in AS_RUNNING:
        tally.add(key, owner, status=before, count=-1, first=None)
    if status == IDLE or status in AS_RUNNING:
        tally.add(key, owner, status=status, count=1, first=own)


_TOTAL_OF = {1: "Idle", 2: "Running", 3: "Removed", 4: "Completed", 5: "Held", 6: "Running", 7: "Suspended"}


def _counts(ad: ClassAd) -> bool:
    return whole_of(ad, "JobStatus") in LIVE and whole_of(ad, "JobUniverse") not in SLOTLESS


def _counted_in(totals: dict[str, int], status: int, count: int) -> None:
    if status in _TOTAL_OF:
        totals[_TOTAL_OF[status]] += count
        totals["Jobs"] += count
