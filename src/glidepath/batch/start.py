"""How a pilot gets into the queue of a batch system, once, whoever is killed or not heard in between.

A specification comes in, an outcome goes out. What was sent is in the folder before the queue hears of it, so
that a repeated request finds it there; what was not answered is looked for before it is asked for again.
"""

from __future__ import annotations

from contextlib import suppress

from glidepath.batch import programs
from glidepath.batch.dialects.answers import said
from glidepath.batch.door import NOT_OURS, Door
from glidepath.batch.folder import answer_of
from glidepath.batch.intent import digest, intent_of
from glidepath.batch.script import Made, made
from glidepath.batch.settings import JobSettings
from glidepath.batch.states import UNSENT_S_MAX
from glidepath.core.cycle import Done, Failed, NotTried, Outcome, Refused, Unsure
from glidepath.core.provision.pilot import PilotSpec
from glidepath.core.quantity import PilotName
from glidepath.pilot import pilot_bytes, pilot_name
from glidepath.remote.runner import Ran

# Of the time of a call, for the request: what is left is for looking whether it happened.
FIRST_PART = 0.6
ASKED_MAX = 20_000  # names that are remembered as asked for; older ones are in the folder or will never be


class Starts:
    """Starts pilots at one site; may be used from several threads."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._asked: dict[PilotName, None] = {}  # in this life, oldest first
        self.under_way: set[PilotName] = set()

    def start(self, spec: PilotSpec, settings: JobSettings, deadline: float) -> Outcome:
        """Raises ValueError where this cannot be a job there, and OSError where nothing was sent."""
        door = self._door
        ready = made(spec, settings, door.dialect, door.site)
        with door.lock:
            doubtful = not door.looked or spec.name in self._asked
            self._asked[spec.name] = None
            if len(self._asked) > ASKED_MAX:
                self._asked.pop(next(iter(self._asked)))
            self.under_way.add(spec.name)
        try:
            if doubtful and (found := self._there_already(spec, deadline)) is not None:
                return found
            return self._sent(spec, ready, deadline)
        finally:
            with door.lock:
                self.under_way.discard(spec.name)

    def _there_already(self, spec: PilotSpec, deadline: float) -> Outcome | None:
        """A job of this name whose folder is gone: a second one would be no help to it."""
        queue = self._door.queue(deadline)
        job = queue.jobs.get(spec.name)
        if job is None:
            return None
        intent = self._door.look(queue, deadline).jobs.get(spec.name)
        if intent is None:
            return Refused(f"job {job.native_id} has the name of `{spec.name}`, and its folder is gone")
        if intent.digest != digest(spec):
            return Refused(f"`{spec.name}` exists for something else")
        return Done("it was started before")

    def _sent(self, spec: PilotSpec, ready: Made, deadline: float, *, again: bool = False) -> Outcome:
        door = self._door
        until = door.part(deadline, FIRST_PART)
        words = (spec.name, pilot_name(), "again" if again else "once", *ready.words.argv)
        given = ready.packed()
        for brought in (False, True):
            # With the owner's word as late as can be: another glidepath may have taken over meanwhile.
            if not door.ours():
                return NotTried(NOT_OURS)
            ran = door.program(programs.SUBMIT, words, until, given=given)
            if "lacks" not in programs.words_in(ran):
                break
            if brought:
                return Failed(f"`{spec.name}`: the pilot's program was brought, and is not there")
            self._bring(deadline)
        if "there" in programs.words_in(ran):
            return self._as_it_was(spec, ready, ran, deadline)
        ended = programs.ended(ran)
        if ended is None:
            return self._after(spec, ran, deadline)
        answer = door.dialect.submitted(Ran(ended[0], ended[1], ran.err, ran.cut))
        if isinstance(answer, str):
            with door.lock:
                door.books.number(spec.name, answer)
            return Done(f"job {answer}")
        if isinstance(answer, Unsure):
            return self._resolved(spec, answer.why, deadline)
        # What cannot be cleared now is listed as failed, and cleared then.
        with suppress(OSError):
            door.clear(spec.name, (spec.name, *spec.mates), deadline)
        return answer

    def _after(self, spec: PilotSpec, ran: Ran, deadline: float) -> Outcome:
        """The program broke off: before the batch system was asked, or nobody knows when."""
        if ran.code is not None and f"{programs.WORD}go\n" not in ran.out:
            top = self._door.site.top
            return Failed(f"`{spec.name}`: the folder {top} could not be written: {said(ran)}")
        return self._resolved(spec, "the request gave no answer in time", deadline)

    def _resolved(self, spec: PilotSpec, why: str, deadline: float) -> Outcome:
        """Only the site can tell whether there is a job now."""
        try:
            job = self._door.queue(deadline).jobs.get(spec.name)
        except (OSError, ValueError) as error:
            return Unsure(f"`{spec.name}`: {why}; and it could not be looked for: {error}")
        if job is None:
            return Unsure(f"`{spec.name}`: {why}; the queue does not have it yet")
        with self._door.lock:
            self._door.books.number(spec.name, job.native_id)
        return Done(f"job {job.native_id}, found in the queue: {why}")

    def _as_it_was(self, spec: PilotSpec, ready: Made, ran: Ran, deadline: float) -> Outcome:
        """Asked for before, under this name: by an earlier life, or by a request that came twice."""
        _, _, rest = ran.out.partition(f"{programs.WORD}there\n")
        asked, _, rest = rest.partition(f"\n{programs.WORD}answer\n")
        intent = intent_of(asked.strip())
        if intent.digest != digest(spec):
            return Refused(f"`{spec.name}` exists for something else")
        answer = answer_of(rest.rpartition(f"{programs.WORD}end")[0].split("\n"))
        told = self._door.dialect.submitted(answer) if answer is not None else None
        if isinstance(told, str):
            return Done(f"job {told}, which was started before")
        if isinstance(told, (Refused, Failed)):
            return self._sent(spec, ready, deadline, again=True)
        found = self._resolved(spec, "it was sent off before, and what came of it was not heard", deadline)
        if isinstance(found, Unsure) and spec.asked_at - intent.asked_at > UNSENT_S_MAX:
            return self._sent(spec, ready, deadline, again=True)
        return found

    def _bring(self, deadline: float) -> None:
        content, door = pilot_bytes(), self._door
        ran = door.program(programs.BRING, (pilot_name(), str(len(content))), deadline, given=content)
        if "done" not in programs.words_in(ran):
            raise OSError(f"the pilot's program could not be brought to {door.site.top}: {said(ran)}")
