"""What a full read needs besides groups: run times, times of submission, jobs that changed just now.

One walk over the queue answers all of it where the answer is short. It can be taken while the groups are
read; only where nearly every job seems to differ must it come before them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from glidepath.condor.binding import ClassAd, HTCondorException
from glidepath.condor.groups import JobId
from glidepath.condor.ids import QDATES_ASKED_MAX, Submitted, own_id, whole_of
from glidepath.condor.reading import Queue

# Answers up to here cost less than walking over the queue again.
WALK_MAX = 3 * QDATES_ASKED_MAX
CHANGES_MAX = 20_000
# Statuses are stamped in whole seconds, and the stamp is older than its visibility.
SLACK_S = 3
# A job that was edited to state a run time where none did before is noticed within this.
STATED_EVERY_S = 600.0
# Jobs that are looked at to guess how many groups there are, and from how many jobs on that is worth it.
SAMPLE = 1_000
SAMPLED_MIN = 20_000
FIRST = 300
# Every hundredth job would be one of each group where groups come one after the other; this is scattered.
PRIME = 10_007
LARGE = 3  # of one group in a sample: such a group is one of many jobs
# With more groups than this share of the jobs, plain ads are quicker than groups.
GROUPS_SHARE_MAX = 0.5
# With fewer in the last read, a queue does not come to differ so much before the next one.
FEW_SHARE_MAX = 0.2
NAMES = ("ClusterId", "ProcId", "JobStatus", "QDate")
# Each name that is asked for costs the schedd a twelfth of the walk, so that these, like the run times, are
# asked for only where some job says what nearly none does: another universe, or GPUs.
UNIVERSE, VANILLA = "JobUniverse", 5
SELDOM = (UNIVERSE, "RequestGPUs")


def recent(span_s: int) -> str:
    """By the schedd's own clock: that of this machine may be another."""
    return f"EnteredCurrentStatus >= time() - {span_s}"


class Surroundings:
    """Kept from read to read, so that only what is new is asked about."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self.stated: set[str] = set()  # run times and others that some job states
        self.submitted = Submitted()
        self.differ = False  # nearly every job is a group of its own
        self.groups: int | None = None  # how many the last full read had
        self.sampled = 0  # how many of PRIME jobs must be looked at before it is known whether grouping pays
        self._stated_up_to = 0
        self._stated_at_s: float | None = None

    def glance(self, names: Sequence[str], run_names: Sequence[str], *, jobs: int) -> None:
        """At the first few jobs, which costs nothing: only where they differ is a walk needed to sample all.

        Most of what jobs state is found here too, and no read has to be done again for it.
        """
        self.sampled = 0
        if jobs >= SAMPLED_MIN and (self.groups is None or self.groups > FEW_SHARE_MAX * jobs):
            left = self._left(run_names)
            try:
                few = self._queue.plain("true", [*names, *left], limit=FIRST)
            except HTCondorException:
                few = []  # One of them breaks the answer; who it is is found where all are read.
            for ad in few:
                self.stated |= _stated(ad, left)
            if differ(few, names, FIRST):
                self.sampled = PRIME * SAMPLE // jobs
        self.differ = self.differ and bool(self.sampled)

    def look(
        self, names: Sequence[str], run_names: Sequence[str], *, last: int, jobs: int, now_s: float
    ) -> dict[JobId, int]:
        """The status of jobs that changed just now, and of some more. `last` is the highest cluster known."""
        if self._stated_at_s is None or now_s - self._stated_at_s > STATED_EVERY_S:
            self._stated_at_s, self._stated_up_to = now_s, 0
        left, kept = self._left(run_names), self.sampled
        wanted = [recent(SLACK_S), f"(ProcId == 0 && ClusterId > {self.submitted.last})"]
        if left:
            since = f"ClusterId >= {self._stated_up_to} && " if self._stated_up_to else ""
            wanted.append(f"({since}({_used(left)}))")
        if kept:
            wanted.append(f"(ProcId * ProcId * 31 + ProcId * 17 + ClusterId * 7) % {PRIME} < {kept}")
        asked = [*NAMES, *left, *(names if kept else ())]
        ads = self._queue.plain(" || ".join(wanted), asked, limit=WALK_MAX)
        if len(ads) >= WALK_MAX:
            return self._one_by_one(left, last)
        if kept:
            self.differ = differ([ad for ad in ads if scattered(own_id(ad)) < kept], names, jobs)
        young = self._taken(ads, left)
        newest = max((own[0] for own in young), default=0)
        self._stated_up_to, self.submitted.last = last, max(last, newest, self.submitted.last)
        return young

    def _left(self, run_names: Sequence[str]) -> list[str]:
        """What no job was seen to state yet."""
        return [name for name in (*run_names, *SELDOM) if name.lower() not in self.stated]

    def _taken(self, ads: list[ClassAd], left: Sequence[str]) -> dict[JobId, int]:
        young: dict[JobId, int] = {}
        for ad in ads:
            own = own_id(ad)
            self.submitted.keep(own[0], whole_of(ad, "QDate"))
            self.stated |= _stated(ad, left)
            young[own] = whole_of(ad, "JobStatus")
        return young

    def _one_by_one(self, left: list[str], last: int) -> dict[JobId, int]:
        """The same in several walks, each with a bound of its own."""
        for _ in list(left):
            found = self._queue.plain(f"ClusterId >= {self._stated_up_to} && ({_used(left)})", left, limit=1)
            if not found:
                break
            self.stated |= _stated(found[0], left)
            left = [name for name in left if name.lower() not in self.stated]
            if not left:
                break
        self._stated_up_to = last
        ads = self._queue.plain(recent(SLACK_S), ("ClusterId", "ProcId", "JobStatus"), limit=CHANGES_MAX)
        return {own_id(ad): whole_of(ad, "JobStatus") for ad in ads}

    def find_submitted(self, last: int) -> None:
        """Where the walk did not tell. Numbers of clusters grow with time, so that a sample is enough."""
        known = self.submitted.last
        if last <= known:
            return
        step = max(1, (last - known) // QDATES_ASKED_MAX)
        every = f" && ClusterId % {step} == 0" if step > 1 else ""
        constraint = f"ClusterId > {known} && ProcId == 0{every}"
        for ad in self._queue.plain(constraint, ("ClusterId", "QDate"), limit=2 * QDATES_ASKED_MAX):
            self.submitted.keep(whole_of(ad, "ClusterId"), whole_of(ad, "QDate"))
        self.submitted.last = last


def differ(sample: list[ClassAd], names: Sequence[str], jobs: int) -> bool:
    """Few pairs among many mean many groups: with g groups, n jobs have about n * n / 2g pairs.

    Large groups are taken out first, or their pairs would hide that all others differ.
    """
    seen: Counter[tuple[str, ...]] = Counter()
    for ad in sample:
        seen[tuple(str(ad.lookup(name)) if name in ad else "" for name in names)] += 1
    small = [count for count in seen.values() if count < LARGE]
    rest, pairs = sum(small), small.count(2)
    if not rest:
        return False
    groups = min(rest**2 / (2 * max(pairs, 0.5)), jobs * rest / len(sample))
    return groups > GROUPS_SHARE_MAX * jobs


def scattered(own: JobId) -> int:
    """As the constraint has it."""
    return (own[1] * own[1] * 31 + own[1] * 17 + own[0] * 7) % PRIME


def _used(names: Sequence[str]) -> str:
    """One chain is worked out in half the time of so many comparisons."""
    terms = [f"{UNIVERSE} isnt {VANILLA}"] if UNIVERSE in names else []
    if chain := " ?: ".join(name for name in names if name != UNIVERSE):
        terms.append(f"({chain}) isnt undefined")
    return " || ".join(terms)


def _stated(ad: ClassAd, names: Sequence[str]) -> set[str]:
    found = {name.lower() for name in names if name != UNIVERSE and name in ad}
    return found | ({UNIVERSE.lower()} if UNIVERSE in names and ad.get(UNIVERSE) != VANILLA else set())
