"""The backend of batch systems: a job for each pilot, or for several, and a folder that says what it is.

The queue tells what waits and runs, accounting what is over, the folder whose it is and how it ended. It
refuses to know which batch system it is, and how commands get there.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from glidepath.batch import programs
from glidepath.batch.books import Queue, node_of
from glidepath.batch.checkup import findings
from glidepath.batch.dialect import Dialect, OddAnswer, Words
from glidepath.batch.door import NOT_OURS, Door, broken
from glidepath.batch.folder import Sight
from glidepath.batch.intent import usable
from glidepath.batch.script import made, rendered
from glidepath.batch.settings import BatchSettings, JobSettings
from glidepath.batch.start import Starts
from glidepath.batch.states import Told
from glidepath.core.cycle import Done, Failed, NotTried, Outcome, Refused, Unsure
from glidepath.core.provision.offer import Offer
from glidepath.core.provision.pilot import PilotSpec, SitePilot, SiteState, Target
from glidepath.core.provision.sight import SiteListing
from glidepath.core.quantity import Instant, OfferKey, PilotName, SiteName
from glidepath.core.text import one_line
from glidepath.ports import Connection, Finding, LogsIn, Place
from glidepath.remote.runner import Ran, Runner

LEAVE_S = 8.0  # that a call takes beyond its commands: one that does not end is ended
NOTES_MAX = 20
LOG_BYTES_MAX = 1 << 20


class BatchBackend:
    """Jobs of one site in one batch system. Nothing is opened before the first call."""

    def __init__(
        self,
        site: SiteName,
        settings: BatchSettings,
        place: Place,
        *,
        dialect: Dialect,
        runner: Callable[[], Runner] | None = None,
        mono: Callable[[], float] = time.monotonic,
    ) -> None:
        self.site = site
        self.settings, self.dialect = settings, dialect
        self.limit_s = settings.timeout + LEAVE_S
        self.at_once = settings.ssh.sessions
        self._door = Door(site, settings, place, dialect=dialect, runner=runner, mono=mono)
        self._starts = Starts(self._door)
        self._tables: dict[str, JobSettings] = {}

    # Reading.

    def list(self, *, now: Instant) -> SiteListing:
        """The queue first and the folder last: what ended meanwhile has left its words by then."""
        door = self._door
        deadline = door.deadline()
        queue = door.queue(deadline)
        trouble = door.account(queue, now, deadline)
        sight = door.look(queue, deadline)
        notes = [*queue.notes, *sight.notes, *([f"accounting: {trouble}"] if trouble else [])]
        with door.lock:
            pilots = [
                self._pilot(pilot, queue=queue, trouble=trouble, sight=sight, now=now)
                for first, intent in sorted(sight.jobs.items())
                for pilot in intent.pilots
                if not (pilot in sight.endings and sight.endings[pilot].cleared)
            ]
            orphans = sorted(door.books.live - set(sight.jobs))
        for first in orphans:
            job = queue.jobs[first]
            notes.append(
                f"job {job.native_id} is ours ({job.key}), and its folder is gone; cancel it by hand"
            )
        if len(notes) > NOTES_MAX:
            notes[NOTES_MAX:] = [f"and {len(notes) - NOTES_MAX} more like these"]
        return SiteListing(
            tuple(pilots),
            complete=not (orphans or sight.lacking),
            notes=tuple(notes),
            avoids_nodes=self.dialect.avoids_nodes,
        )

    def _pilot(
        self, pilot: PilotName, *, queue: Queue, trouble: str, sight: Sight, now: Instant
    ) -> SitePilot:
        books = self._door.books
        first = books.firsts[pilot]
        intent = books.jobs[first]
        found = books.evidence(pilot, queue=queue, trouble=trouble, sight=sight, now=now)
        told = books.judge(pilot, found, gone_after_s=self.settings.gone_after)
        if first in self._starts.under_way and not found.native_id:
            told = Told(SiteState.PENDING, "it is being asked for")
        job = found.queued or found.past
        since = books.since(pilot, told.state, job, now)
        running = told.state is SiteState.RUNNING
        return SitePilot(
            name=pilot,
            offer=intent.offer,
            pool=intent.pool,
            size=intent.size,
            state=told.state,
            since=since,
            asked_at=Instant(min(intent.asked_at, now)),
            traits=intent.traits,
            owner=intent.owner,
            native_id=found.native_id,
            node=node_of(pilot, job, sight),
            ends_at=Instant(since + intent.lifetime_s) if running else None,
            note=told.note,
        )

    def logs(self, name: PilotName, *, bytes_max: int) -> str:
        if not usable(name):
            raise LookupError(f"there is no pilot `{one_line(name)}` here")
        bytes_max = max(1, min(bytes_max, LOG_BYTES_MAX))
        ran = self._door.program(programs.LOGS, (name, str(bytes_max)), self._door.deadline())
        _, found, text = ran.out.partition(f"{programs.WORD}found\n")
        if ran.code is None:
            raise TimeoutError("the output gave no answer in time")
        if not found:
            raise LookupError(f"there is no output of `{name}` here")
        return text.rpartition(f"{programs.WORD}end")[0].rstrip("\n")[-bytes_max:]

    # Acting.

    def submit(self, spec: PilotSpec) -> Outcome:
        if not usable(spec.name):
            return Refused("the name of a pilot must be at most 63 small letters, digits and `-`")
        if "GLIDEPATH_COLLECTOR" not in dict(spec.join):
            return Refused(f"the pool `{one_line(spec.pool)}` cannot be joined from a batch system")
        if not spec.secrets:
            return Refused(f"there is no token for `{spec.offer}`; set `tokens` of the pool")
        return self._tried(
            spec.name, lambda deadline: self._starts.start(spec, self._table(spec.offer), deadline)
        )

    def withdraw(self, target: Target) -> Outcome:
        return self._tried(target.name, lambda deadline: self._withdrawn(target, deadline))

    def _withdrawn(self, target: Target, deadline: float) -> Outcome:
        door = self._door
        first = door.first_of(target.name, deadline)
        if first is None:
            return Done("it is gone")
        native_id = door.number_of(first, deadline)
        if target.native_id and native_id and target.native_id != native_id:
            return Refused(f"`{target.name}` is job {native_id} now")
        if not door.ours():
            return NotTried(NOT_OURS)
        if not self.dialect.shares_folder:
            words = self.dialect.withdraw(native_id) if native_id else None
            if words is None:
                return Unsure(f"`{target.name}` has no number yet under which it could be taken back")
            return self.dialect.withdrawn(door.run(words, deadline)) or Done()
        cancel = self.dialect.cancel((native_id,)) if native_id else Words(())
        words_of_it = (first, *cancel.argv)
        ran = door.program(programs.WITHDRAW, words_of_it, deadline, given=cancel.given.encode())
        said_so = programs.words_in(ran)
        if "started" in said_so:
            return Refused(f"`{target.name}` has started")
        if "taken" not in said_so:
            return broken(target.name, ran)
        return self._cancelled(target.name, ran) if native_id else Done()

    def remove(self, target: Target) -> Outcome:
        return self._tried(target.name, lambda deadline: self._removed(target, deadline))

    def _removed(self, target: Target, deadline: float) -> Outcome:
        door = self._door
        first = door.first_of(target.name, deadline)
        if first is None:
            return Done("it is gone")
        with door.lock:
            pilots, told = door.books.jobs[first].pilots, door.books.told
            mine, others = told.get(target.name), [told.get(each) for each in pilots if each != target.name]
            left = any(each in told for each in pilots if each != target.name)
        if mine is not None and mine.over:
            if not left:
                return door.clear(first, pilots, deadline)
            return self._forgotten(first, target.name, deadline)
        if any(each is not None and each.state is SiteState.RUNNING for each in others):
            # A job cannot lose one of its nodes; its pilot can stop.
            return door.done(programs.DRAIN, (first, target.name, "stop"), deadline)
        native_id = door.number_of(first, deadline)
        if target.native_id and native_id and target.native_id != native_id:
            return Refused(f"`{target.name}` is job {native_id} now")
        if not native_id:
            ran = door.program(programs.WITHDRAW, (first,), deadline)
            if "taken" not in programs.words_in(ran):
                return Unsure(f"`{target.name}` has started, and its job has no number yet")
            return door.clear(first, pilots, deadline)
        if not door.ours():
            return NotTried(NOT_OURS)
        cancel = self.dialect.cancel((native_id,))
        ran = door.program(programs.CANCEL, (first, *cancel.argv), deadline, given=cancel.given.encode())
        return self._cancelled(target.name, ran)

    def _forgotten(self, first: PilotName, name: PilotName, deadline: float) -> Outcome:
        """One of several pilots of a job; the others stay on the books."""
        done = self._door.done(programs.FORGET, (first, name), deadline)
        if isinstance(done, Done):
            self._door.folder.forget(first, (name,))
            with self._door.lock:
                self._door.books.told.pop(name, None)
        return done

    def drain(self, target: Target) -> Outcome:
        return self._tried(target.name, lambda deadline: self._drained(target, deadline))

    def _drained(self, target: Target, deadline: float) -> Outcome:
        door = self._door
        first = door.first_of(target.name, deadline)
        with door.lock:
            told = door.books.told.get(target.name)
        if first is None or (told is not None and told.over):
            return Done("it is gone")
        if self.dialect.shares_folder:
            return door.done(programs.DRAIN, (first, target.name), deadline)
        native_id = door.number_of(first, deadline)
        words = self.dialect.drain(native_id) if native_id else None
        if words is None:
            return Refused("pilots of this site cannot be told to drain; they leave when idle")
        if not door.ours():
            return NotTried(NOT_OURS)
        return self.dialect.drained(door.run(words, deadline)) or Done()

    def render(self, spec: PilotSpec) -> str:
        """What `submit` would send, for people: secrets are named and not shown."""
        return rendered(made(spec, self._table(spec.offer), self.dialect, self._door.site))

    def checkup(self, offers: tuple[Offer, ...]) -> tuple[Finding, ...]:
        def looked() -> SiteListing:
            return self.list(now=Instant(0))

        return findings(self.site, self.settings, self.dialect, offers, runner=self._door.runner, look=looked)

    # The way there.

    def connection(self) -> Connection:
        runner = self._door.runner
        return runner.connection() if isinstance(runner, LogsIn) else Connection()

    def login(self, say: Callable[[str], None]) -> Connection:
        runner = self._door.runner
        return runner.login(say) if isinstance(runner, LogsIn) else Connection()

    def logout(self) -> Connection:
        runner = self._door.runner
        return runner.logout() if isinstance(runner, LogsIn) else Connection()

    def close(self) -> None:
        self._door.close()

    # What these are made of.

    def _table(self, offer: OfferKey) -> JobSettings:
        """Made once for each offer; there are few."""
        name = offer.partition("/")[2]
        if name not in self._tables:
            self._tables[name] = self.settings.job(name)
        return self._tables[name]

    def _cancelled(self, name: str, ran: Ran) -> Outcome:
        ended = programs.ended(ran)
        if ended is None:
            return broken(name, ran)
        return self.dialect.cancelled(Ran(ended[0], ended[1], ran.err, ran.cut)) or Done()

    def _tried(self, name: str, call: Callable[[float], Outcome]) -> Outcome:
        """What went wrong, as an outcome: whether something may have happened is the difference."""
        if not usable(name):
            return Done("it is gone")
        if not self._door.ours():
            return NotTried(NOT_OURS)
        try:
            return call(self._door.deadline())
        except OSError as error:
            # Raised where nothing was sent; what was sent and not answered is an outcome already.
            return Failed(f"`{name}`: {error}")
        except OddAnswer as error:
            return Failed(f"`{name}`: {error}")
        except ValueError as error:
            return Refused(f"`{name}`: {error}")
