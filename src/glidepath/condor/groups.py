"""Jobs become groups: ads come in, one or many jobs each, counted rows go out.

The key of a row is what the core tells groups apart by: the evaluated request, the stated run time and the
offers that fit. A job that cannot be counted is set aside with its reason, and never stops the others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from glidepath.condor.binding import ClassAd, ExprTree
from glidepath.condor.evaluate import BadJob, amounts_of, owner_of, run_s_of
from glidepath.condor.match import Matcher
from glidepath.condor.refs import TEXT_LETTERS_MAX, References, long_texts
from glidepath.core.quantity import OfferKey, Resources, Traits
from glidepath.core.text import one_line

IDLE, RUNNING, REMOVED, COMPLETED, HELD, TRANSFERRING, SUSPENDED = 1, 2, 3, 4, 5, 6, 7
AS_RUNNING = frozenset({RUNNING, TRANSFERRING, SUSPENDED})
# Of these the reasons are kept; the rest are only counted, or one user could fill the journal.
ASIDE_KEPT_MAX = 50
OWNER_SHOWN_LETTERS = 40
# How long the expressions of one owner may be worked on in one read, and how much longer for each group: ten
# times what an honest one takes on a busy machine.
OWNER_S_MAX = 2.0
GROUP_S_MAX = 0.0005
# Attributes that expressions may look at besides those that are always asked for.
NAMES_MAX = 200
OTHERS_KEPT_MAX = 1_000
# What the schedd itself says of a group.
OF_GROUPS = frozenset({"id", "jobids", "jobcount"})

JobId = tuple[int, int]
# Attributes that are worked out, in small letters, and so may look at others.
EXPRESSIONS = frozenset({"requirements", "requestcpus", "requestmemory", "requestdisk", "requestgpus"})


class Key(NamedTuple):
    request: Resources
    traits: Traits
    run_s: int | None
    fits: tuple[OfferKey, ...]


@dataclass(slots=True)
class Row:
    """How many jobs of one key wait and run, whose they are, and the first of those that wait."""

    idle: int = 0
    running: int = 0
    owners: dict[str, int] = field(default_factory=dict)
    first: JobId | None = None


@dataclass(slots=True)
class Tally:
    """What was counted in one read."""

    rows: dict[Key, Row] = field(default_factory=dict)
    held: dict[str, int] = field(default_factory=dict)
    aside: list[tuple[str, str]] = field(default_factory=list)
    aside_jobs: int = 0
    last: JobId = (0, 0)

    def copy(self) -> Tally:
        """One that can be changed; spelled out, as it is made for every read of changes."""
        rows = {
            key: Row(row.idle, row.running, dict(row.owners), row.first) for key, row in self.rows.items()
        }
        return Tally(rows, dict(self.held), list(self.aside), self.aside_jobs, self.last)

    def take(self, other: Tally) -> None:
        """Adds what was counted elsewhere, of other jobs."""
        for key, row in other.rows.items():
            for owner, idle in row.owners.items():
                self.add(key, owner, status=IDLE, count=idle, first=row.first)
            self.add(key, "", status=RUNNING, count=row.running, first=None)
        for owner, count in other.held.items():
            self.add_held(owner, count)
        self.aside_jobs += other.aside_jobs
        self.aside = (self.aside + other.aside)[:ASIDE_KEPT_MAX]
        self.last = max(self.last, other.last)

    def add(self, key: Key, owner: str, *, status: int, count: int, first: JobId | None) -> None:
        row = self.rows.get(key)
        if row is None:
            row = self.rows[key] = Row()
        if status == IDLE:
            row.idle = max(0, row.idle + count)
            row.owners[owner] = max(0, row.owners.get(owner, 0) + count)
            if first is not None and count > 0:
                row.first = first if row.first is None else min(row.first, first)
        elif status in AS_RUNNING:
            row.running = max(0, row.running + count)

    def add_held(self, owner: str, count: int) -> None:
        self.held[owner] = max(0, self.held.get(owner, 0) + count)

    def set_aside(self, job: str, why: str, count: int) -> None:
        self.aside_jobs += count
        if len(self.aside) < ASIDE_KEPT_MAX:
            self.aside.append((job, why))


class Sorter:
    """Works out the key of each job, and guards the read against expressions that take for ever.

    `asked` are the names, in small letters, that the ads can have; `further` those of them that other
    expressions look at.
    """

    def __init__(
        self,
        matcher: Matcher,
        references: References,
        *,
        run_names: Sequence[str],
        asked: frozenset[str],
        further: frozenset[str] = frozenset(),
        expanded: bool = False,
        poisoned: Sequence[str] = (),
        mark: Callable[[str], None] = lambda _: None,
        now_s: float = 0.0,
    ) -> None:
        self._matcher = matcher
        self._refs = references
        self._run_names = tuple(run_names)
        self._poisoned = frozenset(poisoned)
        self._mark = mark
        self._now_s = now_s
        self._spent_s: dict[str, float] = {}
        self._marked = ""
        # By the names of an ad, which are the same for most: those that nobody asked for.
        self._others: dict[tuple[str, ...], tuple[str, ...]] = {}
        # Equal ones are one and the same, whose hash is worked out once.
        self._requests: dict[tuple[int, int, int, int], Resources] = {}
        self.unasked: set[str] = set()  # names that expressions look at and that were not asked for
        self._asked = asked | OF_GROUPS
        self._expressions = EXPRESSIONS | further | {name.lower() for name in run_names}
        self.expanded = expanded  # the schedd adds by itself what expressions look at

    def key(self, ad: ClassAd, owner: str) -> Key:
        """Raises `BadJob` with the reason where the job cannot be counted."""
        if owner in self._poisoned:
            raise BadJob(
                "an expression of this owner did not end in time; simplify it, it is tried again later"
            )
        spent_s = self._spent_s.get(owner, 0.0)
        if spent_s > OWNER_S_MAX:
            raise BadJob(f"the expressions of this owner take more than {OWNER_S_MAX:g} s; simplify them")
        if owner != self._marked:
            # Whoever ends this child at its deadline reads here whose expression it was busy with.
            self._marked = owner
            self._mark(owner)
        began = time.perf_counter()
        try:
            self._refuse_long_texts(ad)
            if not self.expanded:
                self._look_for_names(ad)
            amounts = amounts_of(ad)
            request = self._requests.get(amounts)
            if request is None:
                request = self._requests[amounts] = Resources(*amounts)
            fit = self._matcher.fit(ad, request, now_s=self._now_s)
            return Key(request, fit.traits, run_s_of(ad, self._run_names), fit.offers)
        finally:
            self._spent_s[owner] = max(0.0, spent_s + time.perf_counter() - began - GROUP_S_MAX)

    def _refuse_long_texts(self, ad: ClassAd) -> None:
        """Of attributes that came because an expression looks at them: they break answers, if not always."""
        names = tuple(ad)
        others = self._others.get(names)
        if others is None:
            others = tuple(name for name in names if name.lower() not in self._asked)
            if len(self._others) < OTHERS_KEPT_MAX:
                self._others[names] = others
        for name, letters in long_texts(ad, others):
            raise BadJob(f"{name} has {letters} letters, more than {TEXT_LETTERS_MAX}")

    def rest(self) -> None:
        """Before the network is asked: whoever hangs there is not the owner that was worked on last."""
        self._marked = ""
        self._mark("")

    def _look_for_names(self, ad: ClassAd) -> None:
        """Which attributes the job's expressions look at that nobody asked for.

        Schedds of our day add those to their answers by themselves, and group by them; once one has shown
        that it does, what is missing from an ad is missing from the job.
        """
        for attribute in ad:
            if attribute.lower() not in self._expressions:
                continue
            value = ad[attribute]
            if not isinstance(value, ExprTree):
                continue
            text = str(value)
            if len(text) > TEXT_LETTERS_MAX:
                raise BadJob(f"{attribute} has {len(text)} letters, more than {TEXT_LETTERS_MAX}")
            names = self._refs.own(value, text) - self._asked
            if not names:
                continue
            if len(names) > NAMES_MAX:
                raise BadJob(f"{attribute} looks at {len(names)} attributes, more than {NAMES_MAX}")
            self.unasked |= names
            self.expanded = self.expanded or any(name in ad for name in names)


def counted(tally: Tally, sorter: Sorter, ad: ClassAd, *, count: int, ids: tuple[JobId, JobId]) -> None:
    """One ad, which stands for so many jobs, into the tally."""
    tally.last = max(tally.last, ids[1])
    status = ad.get("JobStatus")
    try:
        owner = owner_of(ad)
        if status == HELD:
            tally.add_held(owner, count)
            return
        key = sorter.key(ad, owner)
    except BadJob as bad:
        tally.set_aside(named(ad, count, ids[0]), str(bad), count)
        return
    tally.add(key, owner, status=status, count=count, first=ids[0])


def named(ad: ClassAd, count: int, first: JobId) -> str:
    """`1842.7 of `ann``, as its owner would look for it."""
    owner = ad.get("Owner")
    shown = one_line(owner, letters_max=OWNER_SHOWN_LETTERS) if isinstance(owner, str) else "?"
    others = f" and {count - 1} more" if count > 1 else ""
    return f"{first[0]}.{first[1]}{others} of `{shown}`"
