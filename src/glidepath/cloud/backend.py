"""The backend of clouds with a queue of containers: one job for each pilot, found again by its name alone.

A cloud of this kind knows no keys and no conditions, so it is looked at before anything is asked for again.
It refuses to know which cloud it is: words, paths and states are the configuration's.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from glidepath.cloud.answers import OddAnswer, Row, seconds_of
from glidepath.cloud.bundle import arguments_of
from glidepath.cloud.command import CommandDoor
from glidepath.cloud.door import CloudDoor, CloudError, LaterError, Verb
from glidepath.cloud.filling import Filling
from glidepath.cloud.jobs import OVER, Job, Jobs, jobs_of
from glidepath.cloud.key import key_source
from glidepath.cloud.label import digest, usable
from glidepath.cloud.owners import Owners
from glidepath.cloud.rest import RestDoor
from glidepath.cloud.settings import STATES, CloudSettings
from glidepath.cloud.words import Endings
from glidepath.core.cycle import Done, Failed, NotTried, Outcome, Refused, Unsure
from glidepath.core.provision.offer import Offer
from glidepath.core.provision.pilot import PilotSpec, SitePilot, SiteState, Target
from glidepath.core.provision.sight import SiteListing
from glidepath.core.quantity import Instant, NodeName, OfferKey, PilotName, SiteName
from glidepath.core.text import one_line
from glidepath.ports import Finding, Place

# Of the time of a call, for one request of several: what is left is for looking whether it happened.
FIRST_PART = 0.6
LEAVE_S = 4.0  # that a call takes beyond its requests: a program that is stopped has 2 s to obey
# Names that were asked for and are remembered; older ones are in the listing or will never be.
ASKED_MAX = 20_000
# A job that was pending so long ago may run by now, and its pilot may have work.
LOOKED_S_MAX = 5.0
SURPLUS_AT_ONCE = 3
LOG_LETTERS_MAX = 1 << 20


class CloudBackend:
    """Jobs of one site in one account of a cloud. Nothing is opened before the first call."""

    def __init__(
        self,
        site: SiteName,
        settings: CloudSettings,
        place: Place,
        *,
        environ: Mapping[str, str] | None = None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.site = site
        self.settings = settings
        self.limit_s = settings.timeout + LEAVE_S
        self.at_once = settings.at_once
        self._place, self._wall = place, wall
        self._door = _door_of(settings, os.environ if environ is None else environ)
        self._folder = place.home / "cloud" / site
        self._filling = Filling(settings, self._folder)
        self._owners = Owners(self._folder / "owners.json")
        self._endings = Endings(self._door, read_max=settings.logs_read_max)
        self._states = {word.lower(): STATES[meant] for word, meant in settings.states.items()}
        self._lock = threading.Lock()
        self._seen: Jobs | None = None  # the last listing of this life
        self._asked: dict[PilotName, None] = {}  # in this life, oldest first
        self._since: dict[str, tuple[SiteState, Instant]] = {}

    # Reading.

    def list(self, *, now: Instant) -> SiteListing:
        deadline = self._deadline()
        jobs = self._look(deadline)
        first = [same[0] for _, same in sorted(jobs.by_pilot.items())]
        self._endings.read([job for job in first if job.over], deadline=deadline)
        with self._lock:
            pilots = tuple(self._pilot(job, now) for job in first)
            live = {job.id for job in first}
            self._since = {id_: kept for id_, kept in self._since.items() if id_ in live}
        return SiteListing(pilots, complete=not jobs.lacking, notes=jobs.notes, avoids_nodes=False)

    def _look(self, deadline: float) -> Jobs:
        rows = self._read(Verb.LIST, {}, deadline)
        labelled = bool(self.settings.listing.label)
        found = jobs_of(rows, self.site, self._states, labelled=labelled)
        with self._lock:
            self._seen = found
        return found

    def _pilot(self, job: Job, now: Instant) -> SitePilot:
        intent = job.intent
        told = self._endings.of(job)
        asked_at = Instant(min(intent.asked_at, now))
        since = self._moment(job, told.state, asked_at, now)
        return SitePilot(
            name=intent.pilot,
            offer=intent.offer,
            pool=intent.pool,
            size=intent.size,
            state=told.state,
            since=since,
            asked_at=asked_at,
            traits=intent.traits,
            owner=self._owners.named(intent.owner_hash),
            native_id=job.id,
            node=NodeName(one_line(job.row.node)),
            ends_at=Instant(since + intent.lifetime_s) if told.state is SiteState.RUNNING else None,
            note=told.note,
        )

    def _moment(self, job: Job, state: SiteState, asked_at: Instant, now: Instant) -> Instant:
        """Since when it is so: by the cloud's own clock where it tells, else since it was seen first."""
        told = job.row.ended if state in OVER else job.row.started if state is SiteState.RUNNING else ""
        at = seconds_of(told) if told else None
        if at is not None:
            return Instant(min(now, max(asked_at, now - int(self._wall() - at))))
        kept = self._since.get(job.id)
        if kept is None or kept[0] is not state:
            # One that waits has done so since it was asked for; anything else began at an unknown time.
            began = asked_at if state is SiteState.PENDING or (kept is None and state not in OVER) else now
            kept = self._since[job.id] = (state, began)
        return Instant(min(now, max(asked_at, kept[1])))

    def logs(self, name: PilotName, *, bytes_max: int) -> str:
        if not usable(name):
            raise LookupError(f"there is no pilot `{one_line(name)}` here")
        if not self._door.knows(Verb.LOGS):
            raise LookupError("the output of pilots cannot be had here; set `logs` to say how")
        deadline = self._deadline()
        same = self._known(name) or self._look(deadline).of(name)
        if not same:
            raise LookupError(f"there is no pilot `{name}` here")
        try:
            text = self._door.ask(Verb.LOGS, self._of_job(same[0]), deadline=deadline).text
        except CloudError as error:
            if error.gone:
                raise LookupError(f"the pilot `{name}` has no output: {error}") from None
            raise
        return text.encode()[-min(bytes_max, LOG_LETTERS_MAX) :].decode("utf-8", "ignore")

    def furnished(self, offer: OfferKey) -> bool:
        """Whether the image has the token of its pilots, so that the pool need not make one."""
        return self.settings.has_token

    # Acting.

    def submit(self, spec: PilotSpec) -> Outcome:
        if not usable(spec.name):
            return Refused("the name of a pilot must be at most 63 small letters, digits and `-`")
        if "GLIDEPATH_COLLECTOR" not in dict(spec.join):
            return Refused(f"the pool `{one_line(spec.pool)}` cannot be joined from a cloud")
        if spec.mates:
            return Refused("a job of a cloud holds one pilot; ask for one at a time")
        if not spec.secrets and not self.settings.has_token:
            return Refused(f"there is no token for `{spec.offer}`; set `tokens` of the pool, or `has_token`")
        return self._tried(spec.name, lambda deadline: self._submitted(spec, deadline))

    def _submitted(self, spec: PilotSpec, deadline: float) -> Outcome:
        with self._lock:
            again = self._seen is None or spec.name in self._asked or bool(self._seen.of(spec.name))
            self._asked[spec.name] = None
            if len(self._asked) > ASKED_MAX:
                self._asked.pop(next(iter(self._asked)))
        if again and (found := self._started(spec, deadline)) is not None:
            return found
        if self._filling.cut_short(spec.name, wall=self._wall()):
            return Unsure(f"`{spec.name}` was being asked for when an earlier life ended; it may still come")
        try:
            self._owners.learn(spec.owner)
            with self._filling.of(spec) as values:
                # With the owner's word as late as can be: another glidepath may have taken over meanwhile.
                if not self._place.ours():
                    return NotTried("another glidepath owns the store now; nothing was sent")
                first = time.monotonic() + (deadline - time.monotonic()) * FIRST_PART
                self._door.ask(Verb.SUBMIT, values, deadline=first, gpus=bool(spec.size.gpus))
        except CloudError as error:
            if not error.sent:
                raise
            return self._after(error, spec, deadline)
        return Done()

    def _after(self, error: CloudError, spec: PilotSpec, deadline: float) -> Outcome:
        """The answer was lost or bad: only a look can tell whether there is a job now."""
        try:
            found = self._started(spec, deadline)
        except (CloudError, OddAnswer) as second:
            return Unsure(f"`{spec.name}`: {error}; and it could not be looked for: {second}")
        if found is not None:
            return found
        if error.unclear:
            return Unsure(f"`{spec.name}`: {error}; it is not listed yet")
        return Refused(str(error)) if error.refused else Failed(f"`{spec.name}`: {error}")

    def _started(self, spec: PilotSpec, deadline: float) -> Outcome | None:
        """What a job of this name means; None where there is none."""
        same = self._look(deadline).of(spec.name)
        if not same:
            return None
        if any(job.intent.digest != digest(spec) for job in same):
            return Refused(f"`{spec.name}` exists for something else")
        return Done("it was started before")

    def withdraw(self, target: Target) -> Outcome:
        """A cloud cannot be told "only if it waits": it is looked at, and asked at once or not at all."""
        return self._tried(target.name, lambda deadline: self._withdrawn(target, deadline))

    def _withdrawn(self, target: Target, deadline: float) -> Outcome:
        looked_at = time.monotonic()
        same = self._now(target, deadline)
        if isinstance(same, (Refused, Done)):
            return same
        for job in same:
            if job.state is not SiteState.PENDING and not job.over:
                return Refused(f"`{target.name}` is {job.note}")
        if time.monotonic() - looked_at > LOOKED_S_MAX:
            return Failed(f"`{target.name}`: the cloud answers so slowly that it may have started; later")
        for job in same:
            self._ended(job, deadline)
        return Done()

    def remove(self, target: Target) -> Outcome:
        return self._tried(target.name, lambda deadline: self._removed(target, deadline))

    def _removed(self, target: Target, deadline: float) -> Outcome:
        # What was over when it was listed is over: no look is needed to clear many of them.
        known = self._known(target.name)
        same: tuple[Job, ...] | Refused | Done = known
        if not known or not all(job.over for job in known) or target.native_id not in {j.id for j in known}:
            same = self._now(target, deadline, alone=False)
        if isinstance(same, (Refused, Done)):
            return same
        for job in same:
            self._ended(job, deadline)
        return Done()

    def _ended(self, job: Job, deadline: float) -> None:
        """Ends a job, or takes the traces of one that ended out of the listing."""
        verb = Verb.CANCEL if not job.over and self._door.knows(Verb.CANCEL) else Verb.DELETE
        try:
            self._door.ask(verb, self._of_job(job), deadline=deadline)
        except CloudError as error:
            if not error.gone:
                raise

    def drain(self, target: Target) -> Outcome:
        return self._tried(target.name, lambda deadline: self._drained(target, deadline))

    def _drained(self, target: Target, deadline: float) -> Outcome:
        same = self._now(target, deadline)
        if isinstance(same, (Refused, Done)):
            return same
        live = [job for job in same if not job.over]
        if not live:
            return Done("it is gone")
        if not self._door.knows(Verb.DRAIN):
            return Refused("pilots of this cloud cannot be told to drain; they leave when idle")
        for job in live:
            self._door.ask(Verb.DRAIN, self._of_job(job), deadline=deadline)
        return Done()

    def render(self, spec: PilotSpec) -> str:
        """What `submit` would send, for people: secrets are named and not shown."""
        values = self._filling.shown(spec)
        sent = self._door.rendered(Verb.SUBMIT, values, gpus=bool(spec.size.gpus))
        told = " ".join(arguments_of(spec, self._filling.box(spec)))
        return f"{sent}\n\n# What the pilot in it is told, besides its token:\n{told}\n"

    def checkup(self, offers: tuple[Offer, ...]) -> tuple[Finding, ...]:
        boxes = self._filling.boxes
        found = [
            Finding(f"offer {offer.key}", "fail", why, "change `cpus` and `memory` of the offer")
            for offer in offers
            if not offer.fitted and (why := boxes.refusal(offer.size))
        ]
        try:
            jobs = self._look(self._deadline())
        except (OSError, ValueError) as error:
            fix = f"look at `[sites.{self.site}.cloud]`: its key, `list` and `listing`"
            return (*found, Finding(f"site {self.site}", "fail", str(error), fix))
        said = f"the cloud lists {len(jobs.by_pilot)} pilots of this site"
        notes = [Finding(f"site {self.site}", "warn", note) for note in jobs.notes]
        return (*found, Finding(f"site {self.site}", "ok", said), *notes)

    def close(self) -> None:
        """Nothing stays open between calls."""

    # What these are made of.

    def _now(
        self, target: Target, deadline: float, *, alone: bool = True
    ) -> tuple[Job, ...] | Refused | Done:
        """The jobs of a pilot as they are at this moment; `alone` where one of several is enough."""
        if alone and target.native_id and self._door.knows(Verb.SHOW):
            same = self._shown(target, deadline)
        else:
            same = self._look(deadline).of(target.name)
        if not same:
            return Done("it is gone")
        if target.native_id and target.native_id not in {job.id for job in same}:
            return Refused(f"`{target.name}` is another job now")
        return same

    def _shown(self, target: Target, deadline: float) -> tuple[Job, ...]:
        values = {"id": target.native_id, "pilot": target.name, "site": self.site}
        try:
            rows = self._read(Verb.SHOW, values, deadline)
        except CloudError as error:
            if error.gone:
                return ()
            raise
        labelled = bool(self.settings.listing.label)
        return jobs_of(rows, self.site, self._states, labelled=labelled).of(target.name)

    def _read(self, verb: Verb, values: Mapping[str, str], deadline: float) -> tuple[Row, ...]:
        """Whatever goes wrong with a look, nothing has happened by it."""
        try:
            return self._door.ask(verb, values, deadline=deadline).rows
        except CloudError as error:
            error.unclear = False
            raise

    def _known(self, name: str) -> tuple[Job, ...]:
        with self._lock:
            return self._seen.of(name) if self._seen is not None else ()

    def _of_job(self, job: Job) -> dict[str, str]:
        return {"id": job.id, "pilot": job.intent.pilot, "site": self.site}

    def _deadline(self) -> float:
        return time.monotonic() + self.settings.timeout

    def _tidied(self, deadline: float) -> None:
        """A request that something on the way repeated made two jobs of one; the second goes unseen.

        One that does not go is in the notes of every listing, and keeps nobody from what is to be done.
        """
        with self._lock:
            due = self._seen.surplus if self._seen is not None else ()
        if not due:
            return
        with suppress(CloudError, OddAnswer):
            for job in self._look(deadline).surplus[:SURPLUS_AT_ONCE]:
                self._ended(job, deadline)

    def _tried(self, name: str, call: Callable[[float], Outcome]) -> Outcome:
        """What went wrong, as an outcome: whether something may have happened is the difference."""
        if not usable(name):
            return Done("it is gone")
        shown, deadline = f"`{name}`", self._deadline()
        if not self._place.ours():
            return NotTried("another glidepath owns the store now; nothing was sent")
        try:
            self._tidied(deadline)
            return call(deadline)
        except LaterError as error:
            return NotTried(str(error))
        except CloudError as error:
            if error.unclear:
                return Unsure(f"{shown}: {error}")
            return Refused(str(error)) if error.refused else Failed(f"{shown}: {error}")
        except ValueError as error:
            return (
                Failed(f"{shown}: {error}") if isinstance(error, OddAnswer) else Refused(f"{shown}: {error}")
            )
        except OSError as error:
            return Failed(f"{shown}: {error}")


def _door_of(settings: CloudSettings, environ: Mapping[str, str]) -> CloudDoor:
    key = key_source(settings.key_file, settings.key_variable, environ)
    if settings.way == "command":
        assert settings.command is not None, "the settings were checked"
        return CommandDoor(settings.command, settings.listing, key, environ=environ)
    assert settings.rest is not None, "the settings were checked"
    return RestDoor(settings.rest, settings.listing, key)
