"""A pool of HTCondor as the provisioner sees it: schedds as sources of demand, pilots as slots.

Questions go to children, one per schedd and one for the collector, each with a deadline: one that is dead or
silent costs the others nothing. Nothing is asked or started before the first read, and nothing is decided.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from glidepath.condor.checkup import COLLECTOR, Checkup
from glidepath.condor.client import environment
from glidepath.condor.copies import TokenCopies
from glidepath.condor.demand import Heard, demands_of, heard_of, set_aside_of
from glidepath.condor.reach import BINDING_SAYS, known_names, shown, told
from glidepath.condor.settings import CheckedSettings, CondorSettings
from glidepath.condor.story import story_of
from glidepath.condor.tokens import Tokens
from glidepath.condor.trust import Rule, Schedd, judged
from glidepath.condor.wire import question_table
from glidepath.condor.worker import ChildError, Workers
from glidepath.config.tables import rebuilt
from glidepath.core.provision.demand import DemandSight
from glidepath.core.provision.offer import Offer
from glidepath.core.provision.pilot import Slot
from glidepath.core.provision.sight import PoolSlots
from glidepath.core.quantity import Instant, OfferKey, PilotName, PoolName, Resources, SourceName
from glidepath.core.text import one_line
from glidepath.ports import WORLD_ERRORS, DemandSource, Finding, Place
from glidepath.story import JobStory
from glidepath.terms import NO_TERMS

# An owner whose expression kept a child from answering is left out for so long, then tried again.
POISON_S = 3600.0
NOTES_MAX = 50
# Why a collector did not answer is looked up besides, so within less than a question may take.
REACH_S_MAX = 10.0
NO_DISK = 'it has no disk, and HTCondor has every job ask for some; give it some, as in `disk = "20GiB"`'


class TokenSource(Protocol):
    def secrets(self, name: PilotName, *, lifetime_s: int) -> tuple[tuple[str, str], ...]: ...

    def warnings(self) -> tuple[str, ...]: ...


@dataclass(slots=True)
class Known:
    """A schedd that has been trusted, and what it said last."""

    schedd: Schedd
    listed_s: float
    heard: Heard | None = None
    failed: str = ""
    totals: tuple[int, ...] = ()
    poisoned: dict[str, float] = field(default_factory=dict)
    diskless: frozenset[OfferKey] = frozenset()


class CondorPool:
    """One pool. Reads come from several threads; each schedd has a child, and so a lock, of its own."""

    poll_s = 2.0  # Its totals cost a schedd next to nothing, and a submitter should not wait for a cycle.

    def __init__(
        self,
        name: PoolName,
        settings: CondorSettings,
        place: Place,
        *,
        tokens: Callable[[], TokenSource],
        workers: Workers | None = None,
        mono: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self.settings = settings
        self._place, self._tokens, self._mono = place, tokens, mono
        self._rules = tuple(Rule(each.name, each.identity) for each in settings.schedds)
        own = Path(settings.token_folder) if settings.token_folder else None
        self._copies = TokenCopies(own, place.home / "tokens.d" / name) if own else None
        told_to = environment(
            settings.collector, token_folder=str(self._copies.folder) if self._copies else ""
        )
        self._workers = workers or Workers(told_to)
        self._own_trouble = ""
        self._known: dict[str, Known] = {}
        self._refused: tuple[str, ...] = ()
        self._bad_offers: dict[str, str] = {}
        self._lock = threading.Lock()

    @property
    def identity(self) -> str:
        """The pattern of our pilots' identities."""
        return self.settings.identity or f"glidepath*@{self.settings.trust_domain or '*'}"

    def sources(self) -> tuple[DemandSource, ...]:
        """Trusted schedds. One that is no longer listed stays for a while and is asked where it was last:
        a collector that was restarted lists nobody, and its schedds hold their jobs all the same."""
        answer = self._ask_collector({"ask": "schedds"})
        found = [Schedd(*row) for row in answer["schedds"]]
        trusted, refused = judged(found, self._rules)
        now = self._mono()
        with self._lock:
            self._refused = refused
            for schedd in trusted:
                known = self._known.setdefault(schedd.name, Known(schedd, now))
                known.schedd, known.listed_s = schedd, now
            # One that is listed with another identity now must not be asked on the strength of the old one.
            doubted = {each.name for each in found} - {each.name for each in trusted}
            for name, known in list(self._known.items()):
                if name in doubted or now - known.listed_s > self.settings.forget_after:
                    del self._known[name]
            return tuple(CondorSource(self, SourceName(name)) for name in sorted(self._known))

    def slots(self, *, now: Instant) -> PoolSlots:
        answer = self._ask_collector({"ask": "slots", "identity": self.identity})
        return PoolSlots(
            slots=tuple(_slot(row, now) for row in answer["slots"]),
            complete=answer["complete"],
            foreign=answer["foreign"],
            notes=self.troubles(),
        )

    def join(self, offer: OfferKey) -> tuple[tuple[str, str], ...]:
        terms = self._place.terms.get(offer, NO_TERMS)
        settings = self.settings
        tarballs = {
            key: {"from": each.source, "sha256": each.sha256} for key, each in settings.tarballs.items()
        }
        told = {
            "GLIDEPATH_POOL_KIND": "condor",
            "GLIDEPATH_POOL": str(self.name),
            "GLIDEPATH_COLLECTOR": settings.collector,
            "GLIDEPATH_TERMS": terms.to_json(),
            "GLIDEPATH_ROUTE": settings.route,
            "GLIDEPATH_RUN_TIME": ",".join(settings.run_time),
            "GLIDEPATH_CONDOR": json.dumps(tarballs, sort_keys=True) if tarballs else settings.htcondor,
            "GLIDEPATH_GRACE_S": str(settings.grace),
            "GLIDEPATH_TRUST_DOMAIN": settings.trust_domain,
        }
        return tuple((name, value) for name, value in told.items() if value)

    def secrets(self, name: PilotName, *, lifetime_s: int) -> tuple[tuple[str, str], ...]:
        return self._tokens().secrets(name, lifetime_s=lifetime_s)

    def demand(self, source: SourceName, offers: tuple[Offer, ...], *, now: Instant) -> DemandSight:
        """What one schedd holds. Raises where it cannot be asked; the others do not notice."""
        known = self._known_source(source)
        child = f"schedd {source}"
        poisoned = [owner for owner, since in known.poisoned.items() if self._mono() - since < POISON_S]
        question = {**self._question(offers), "ask": "demand", "address": known.schedd.address}
        try:
            answer = self._ask(child, {**question, "poisoned": poisoned})
        except WORLD_ERRORS as error:
            known.failed = str(error)
            for owner in self._workers.marks.pop(child, ()):
                known.poisoned[owner] = self._mono()
            raise
        known.failed, known.heard = "", heard_of(answer, self._mono())
        known.totals = tuple(answer["totals"])
        known.diskless = diskless(offers, answer["rows"])
        self._bad_offers = answer["bad_offers"]
        return DemandSight(
            demands=demands_of(self.name, answer["rows"], offers, now=now), set_aside=set_aside_of(answer)
        )

    def changed(self) -> bool:
        """Whether a read would show anything new: by the totals alone, which cost a schedd next to nothing.

        A schedd that does not answer has nothing new to say; the next cycle will find out what is wrong.
        """
        found = False
        for name, known in list(self._known.items()):
            try:
                answer = self._ask(f"schedd {name}", {"ask": "waits", "address": known.schedd.address})
            except WORLD_ERRORS:
                continue
            totals = tuple(answer["totals"])
            found = found or (bool(known.totals) and totals != known.totals)
            known.totals = totals
        return found

    def explain(self, job_id: str, offers: tuple[Offer, ...]) -> tuple[JobStory, ...]:
        """The story of `CLUSTER.PROC`, or of `SCHEDD#CLUSTER.PROC`: from every schedd that has such a job."""
        schedd, _, number = job_id.rpartition("#")
        cluster, dot, proc = number.partition(".")
        if not dot or not all(part.isascii() and part.isdigit() for part in (cluster, proc)):
            raise ValueError(f"`{one_line(job_id)}` is not a job; write `1842.7` or `NAME#1842.7`")
        self.sources()
        stories, failed = [], []
        for name, known in sorted(self._known.items()):
            if schedd and schedd != name:
                continue
            question = {**self._question(offers), "ask": "job", "address": known.schedd.address}
            try:
                answer = self._ask(
                    f"schedd {name}", {**question, "schedd": name, "cluster": cluster, "proc": proc}
                )
            except WORLD_ERRORS as error:
                failed.append(str(error))
                continue
            if answer["job"] is not None:
                stories.append(story_of(answer["job"]))
        if not stories and failed:
            raise OSError("; ".join(failed))
        return tuple(stories)

    def notes(self) -> tuple[str, ...]:
        """What people should know of this pool: how its schedds fare, and what is wrong."""
        now = self._mono()
        heard = [
            f"schedd `{name}`: {known.heard.sentence(now)}"
            for name, known in sorted(self._known.items())
            if known.heard is not None and not known.failed
        ]
        return (*heard[:NOTES_MAX], *self.troubles())

    def troubles(self) -> tuple[str, ...]:
        """Only what is wrong, in words that stay the same while it is: they stand in every recorded cycle."""
        found = []
        now = self._mono()
        for name, known in sorted(self._known.items()):
            if known.failed:
                found.append(f"schedd `{name}` cannot be read: {known.failed}")
            if now - known.listed_s > self.settings.full_every:
                found.append(f"schedd `{name}` is no longer listed by the collector")
            if known.heard is not None and known.heard.aside_jobs:
                found.append(f"schedd `{name}`: {known.heard.aside_jobs} jobs cannot be counted")
        found += self._refused
        found += [self._own_trouble] if self._own_trouble else []
        try:
            found += self._tokens().warnings()
        except WORLD_ERRORS as error:
            found.append(str(error))
        no_disk = {str(key): NO_DISK for known in self._known.values() for key in known.diskless}
        bad = {**no_disk, **self._bad_offers}
        found += [f"offer `{key}` fits no job: {why}" for key, why in sorted(bad.items())]
        return tuple(found[:NOTES_MAX])

    def checkup(self, neighbours: tuple[str, ...], *, furnished: bool = False) -> tuple[Finding, ...]:
        tokens = Tokens(self.name, self.settings, self._place)
        looked = Checkup(
            self.name, self.settings, self._ask, tokens, neighbours=neighbours, furnished=furnished
        )
        return looked.findings()

    def close(self) -> None:
        self._workers.close()

    def _known_source(self, source: SourceName) -> Known:
        with self._lock:
            known = self._known.get(source)
        if known is None:
            raise OSError(f"schedd `{source}` is not listed any more")
        return known

    def _question(self, offers: tuple[Offer, ...]) -> dict[str, Any]:
        return question_table(
            offers,
            self._place.terms,
            route=self.settings.route,
            run_names=self.settings.run_time,
            full_every_s=float(self.settings.full_every),
        )

    def _ask_collector(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """Where the binding says no more than that it failed, the reason is looked up."""
        collector = self.settings.collector
        try:
            return self._ask(COLLECTOR, {**question, "collector": collector})
        except TimeoutError as error:
            raise TimeoutError(f"{error}; {shown(collector)} was asked") from None
        except ChildError as error:
            if BINDING_SAYS not in str(error):
                raise
            why = self._unreached()
            said = f"collector: {why}" if why else str(error)
            raise ChildError(f"{said}; {self._own_trouble}" if self._own_trouble else said) from None

    def _unreached(self) -> str:
        question = {"ask": "reach", "collector": self.settings.collector}
        limit_s = min(REACH_S_MAX, float(self.settings.deadline))
        try:
            rows = self._workers.ask(COLLECTOR, question, limit_s=limit_s)["tried"]
        except WORLD_ERRORS:
            return f"{shown(self.settings.collector)} cannot be reached"
        return "; ".join(part for part in told(rows, known_names()) if part)

    def _ask(self, child: str, question: Mapping[str, Any]) -> dict[str, Any]:
        if self._copies is not None:
            self._own_trouble = self._copies.renew()
        return self._workers.ask(child, question, limit_s=float(self.settings.deadline))


class CondorSource:
    """One schedd as a source of demand."""

    def __init__(self, pool: CondorPool, name: SourceName) -> None:
        self.name = name
        self.pool = pool.name
        self._of = pool

    def demand(self, offers: tuple[Offer, ...], *, now: Instant) -> DemandSight:
        return self._of.demand(self.name, offers, now=now)


def diskless(offers: Sequence[Offer], rows: Sequence[Mapping[str, Any]]) -> frozenset[OfferKey]:
    """Offers that fit nothing for want of any disk, while jobs that fit nowhere would fit them otherwise."""
    stuck = [Resources(*row["request"]) for row in rows if row["idle"] and not row["fits"]]
    rest = [Resources(each.cpu_milli, each.memory_mib, 0, each.gpus) for each in stuck if each.disk_mib]
    bare = [offer for offer in offers if not offer.size.disk_mib]
    return frozenset(offer.key for offer in bare if any(each.fits_in(offer.size) for each in rest))


def _slot(row: Mapping[str, Any], now: Instant) -> Slot:
    left_s = row["left_s"]
    return Slot(
        pilot=PilotName(row["pilot"]),
        free=Resources(*row["free"]),
        claims=row["claims"],
        draining=row["draining"],
        ends_at=Instant(now + left_s) if left_s is not None else None,
        jobs_run=row["jobs_run"],
        jobs_failed=row["jobs_failed"],
    )


def _tokens(name: PoolName, settings: CondorSettings, place: Place) -> TokenSource:
    return Tokens(name, settings, place)


class CondorKind:
    """What the entry point offers: makes a pool from its own settings."""

    Settings = CheckedSettings

    def __call__(self, name: PoolName, settings: Mapping[str, object], place: Place) -> CondorPool:
        # Checked when the file was read; what comes here are its values, not its texts.
        model = rebuilt(CondorSettings, settings)
        return CondorPool(name, model, place, tokens=lambda: _tokens(name, model, place))


pool = CondorKind()
