"""The desk of a store: a caller and a wish come in, plain items or a named refusal go out.

Who may see and do what is decided here and nowhere else. It starts nothing: the scheduler reads what was
asked for in its next turn, pilots take the rest. A `StoreError` means that the store gave no answer.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from glidepath.config import Settings
from glidepath.core.place.rank import Cause
from glidepath.core.place.record import Phase
from glidepath.core.schedule.job import JobName, last_start, too_late
from glidepath.core.text import known_word
from glidepath.core.units import shown_duration
from glidepath.jobs.answer import answer_to, told_start, wish_answer
from glidepath.jobs.caller import Caller, Role
from glidepath.jobs.desk import (
    ANSWER_S_MAX,
    Asked,
    Item,
    LogAsked,
    LogPiece,
    ServedDesk,
    Submitted,
    UsageAsked,
    What,
    WindowMove,
    WindowWish,
    Wish,
    Word,
)
from glidepath.jobs.doors import Doors
from glidepath.jobs.errors import Clash, DeskError, Forbidden, Unanswered, Unknown, Unusable
from glidepath.jobs.items import (
    attempt_item,
    event_item,
    found_item,
    item_of,
    placed_item,
    rank_item,
)
from glidepath.jobs.kept import no_such_job
from glidepath.jobs.logs import log_piece
from glidepath.jobs.neighbour import neighbour_trouble
from glidepath.jobs.notices import StoredNotices
from glidepath.jobs.places import Places
from glidepath.jobs.plans import SOMEBODYS, Plans
from glidepath.jobs.specs import When, goal_of, placed_spec, pulled_spec
from glidepath.jobs.submission import Submission, unusable
from glidepath.jobs.usage import usage_answer
from glidepath.jobs.windows import Windows
from glidepath.nudge import nudge
from glidepath.store.engine import Store
from glidepath.store.job import Job, JobSpec, JobState, checked_client_key, checked_limit
from glidepath.store.keys import KeyTaken
from glidepath.store.placed import EVENTS_MAX, Ask, PlacedJob, Stands
from glidepath.store.placed_spec import PlacedSpec
from glidepath.store.sights import Eyes, Found, Wanted

COUNT_MAX = 100_000
# Numbers that one question to a database names.
NUMBERS_AT_ONCE = 1000
SILENT = "no scheduler runs here at present, so nothing is promised yet; start it with `glidepath up`"
SHOWS = "`glidepath job list --all` shows those that are kept"
START_IT = "start the scheduler with `glidepath up`"
# Where a sentence of the scheduler names another job.
_OTHERS = re.compile(r"\b(first|before|beside)=([0-9]{1,18})\b")


class StoredDesk(ServedDesk):
    """For any thread. `settings` may be replaced when the configuration has changed."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        home: Path,
        *,
        wall: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
        turn: threading.Lock | None = None,
    ) -> None:
        self._doors = Doors(settings, store, home, wall, sleep, turn or threading.Lock())
        self._plans = Plans(self._doors)
        self._places = Places(self._doors)
        self._windows = Windows(self._doors, self._plans)

    @property
    def settings(self) -> Settings:
        return self._doors.settings

    @settings.setter
    def settings(self, settings: Settings) -> None:
        self._doors.settings = settings

    @property
    def notices(self) -> StoredNotices:
        return StoredNotices(self._doors)

    # Submitting.

    def submit(
        self, caller: Caller, wish: Submission, *, key: str = "", count: int = 1, wait_s: float = ANSWER_S_MAX
    ) -> Submitted:
        wanted = Wish(caller, wish, key, count)
        if wait_s <= 0:
            [done] = self.submit_each([wanted])
            if isinstance(done, DeskError):
                raise done
            return done
        spec = self._wanted(wanted)
        try:
            if isinstance(spec, JobSpec):
                return self._pulled(spec, key, count)
            return self._placed(spec, key, count, wait_s=wait_s)
        except KeyTaken as error:
            raise Clash(str(error)) from None

    def submit_each(self, wishes: Sequence[Wish]) -> Sequence[Submitted | DeskError]:
        asks: dict[int, Ask] = {}
        answers: dict[int, Submitted | DeskError] = {}
        for place, wish in enumerate(wishes):
            try:
                spec = self._wanted(wish)
                if isinstance(spec, PlacedSpec):
                    asks[place] = (spec, wish.key, wish.count)
                else:
                    answers[place] = self._pulled(spec, wish.key, wish.count)
            except KeyTaken as error:
                answers[place] = Clash(str(error))
            except DeskError as error:
                answers[place] = error
        if asks:
            answers |= zip(asks, self._placed_each(list(asks.values())), strict=True)
        return [answers[place] for place in range(len(wishes))]

    def _wanted(self, wish: Wish) -> JobSpec | PlacedSpec:
        """What is to be made, with all that can be wrong about it found before anything is written."""
        _need(wish.caller, Role.USER, "submit jobs")
        if not 1 <= wish.count <= COUNT_MAX:
            raise unusable((("count", f"must be from 1 to {COUNT_MAX}"),))
        if wish.key and wish.count > 1:
            raise Unusable("a client key is for one job; leave out `count`")
        try:
            if wish.key:
                checked_client_key(wish.key)
            return self._spec(wish.caller, wish.submission)
        except ValueError as error:
            raise Unusable(str(error)) from None

    def _spec(self, caller: Caller, wish: Submission) -> JobSpec | PlacedSpec:
        doors = self._doors
        goal = goal_of(wish, doors.settings)
        if not goal.placed:
            return pulled_spec(wish, caller, goal)
        if wish.beside is not None:
            other = doors.sights.find(_eyes(caller), wish.beside)
            if other is None:
                raise unusable((("beside", no_such_job(wish.beside, doors.settings.keep)),))
            if why := neighbour_trouble(caller, other, goal.partition, doors.settings):
                raise unusable((("beside", why),))
        when = When(doors.wall(), doors.clock().at_wall)
        rules = doors.settings.partitions[goal.partition]
        return placed_spec(wish, caller, rules, partition=goal.partition, when=when)

    def _pulled(self, spec: JobSpec, key: str, count: int) -> Submitted:
        doors = self._doors
        now = doors.now()
        with doors.turn:
            if key:
                done = doors.jobs.submit_once(spec, key)
                numbers, new = [done.job], done.new
            else:
                numbers, new = doors.jobs.submit_many([spec] * count), True
        if not new:
            return Submitted(self._items(numbers), new=False, say=_had_already(numbers[0]))
        made = (Job(number, spec, JobState.QUEUED, 0, 0, now.at, now.wall) for number in numbers)
        return Submitted(tuple(item_of(job, now.wall) for job in made))

    def _placed(self, spec: PlacedSpec, key: str, count: int, *, wait_s: float) -> Submitted:
        doors = self._doors
        done = doors.together.submit((spec, key, count))
        if isinstance(done, KeyTaken):
            raise done
        nudge(doors.home)
        numbers = [one.job for one in done]
        cluster = doors.cluster_of(spec.job.partition)
        if self._plans.silent(cluster):
            last, answered, say = doors.placed.get(numbers[-1]), False, SILENT
        else:
            last, answered = answer_to(doors, numbers[-1], cluster, wait_s=wait_s)
            say = told_start(doors, last)
        new = done[-1].new
        say = say if new else f"{say}; {_had_already(numbers[-1])}"
        items = (*self._items(numbers[:-1]), found_item(last, doors.now()))
        return Submitted(items, new=new, answered=answered, say=say)

    def _placed_each(self, asks: Sequence[Ask]) -> Iterator[Submitted | DeskError]:
        """Written together and read together; nothing is planned yet, and nobody waits for it."""
        doors = self._doors
        with doors.turn:
            done = doors.placed.submit_each(asks)
        made = [[one.job for one in each] for each in done if not isinstance(each, KeyTaken)]
        items = {item["id"]: item for item in self._items([number for each in made for number in each])}
        for (spec, _, _), each in zip(asks, done, strict=True):
            if isinstance(each, KeyTaken):
                yield Clash(str(each))
                continue
            last, new = each[-1].job, each[-1].new
            say = SILENT if self._plans.silent(doors.cluster_of(spec.job.partition)) else _planned_soon(last)
            say = say if new else _had_already(last)
            yield Submitted(tuple(items[one.job] for one in each), new=new, answered=False, say=say)

    def _items(self, numbers: Sequence[int]) -> tuple[Item, ...]:
        now = self._doors.now()
        found: list[Found] = []
        for first in range(0, len(numbers), NUMBERS_AT_ONCE):
            found += self._doors.sights.of(Eyes(), numbers[first : first + NUMBERS_AT_ONCE])
        return tuple(found_item(one, now) for one in found)

    def test(self, caller: Caller, wish: Submission) -> Item:
        _need(caller, Role.USER, "submit jobs")
        spec = self._spec(caller, wish)
        if isinstance(spec, JobSpec):
            raise Unusable("a job that pilots take is promised no start; say `queue` to have it placed")
        now = self._doors.now()
        job = spec.asked(0, now.at, spec.job.run_s_max)
        start = self._plans.start_of(self._doors.cluster_of(spec.job.partition), job)
        if start.at is None:
            raise Clash(f"it would not start: {start.why or 'there is no room for it in sight'}")
        if too_late(job, start.at):
            room, last = now.text(start.at), now.text(last_start(job))
            raise Clash(f"it would not start: room for it is free at {room}, and it must start by {last}")
        return {
            "id": 0,
            "name": spec.job.name,
            "partition": spec.job.partition,
            "queue": spec.queue.value,
            "queue_why": spec.queue_why,
            "start": now.text(start.at),
            "nodes": list(start.nodes),
            "wait_s": max(start.at - now.at, 0),
        }

    # Looking.

    def list(self, caller: Caller, asked: Asked) -> Sequence[Item]:
        try:
            stands = None if asked.state is None else Stands(known_word(asked.state, list(Stands)))
        except ValueError as error:
            raise unusable((("state", str(error)),)) from None
        wanted = Wanted(
            owner=caller.name if asked.mine else asked.owner,
            project=asked.project,
            partition=asked.partition,
            stands=stands,
            below=asked.below,
            limit=asked.limit,
        )
        now = self._doors.now()
        found = self._doors.sights.list(_eyes(caller), wanted)
        items = [found_item(one, now) for one in found]
        if asked.starts:
            likely = self._plans.likely(found, now)
            items = [{**item, "likely": likely.get(item["id"])} for item in items]
        return items

    def show(self, caller: Caller, job: int) -> Item:
        found, now = self._found(caller, job), self._doors.now()
        doors = self._doors
        item = {**found_item(found, now), "attempts": [], "rank_list": []}
        item["events"] = self.events(caller, job=job)
        if isinstance(found, Job):
            item["attempts"] = [attempt_item(one) for one in doors.jobs.attempts(job)]
            return item
        item["rank_list"] = [rank_item(attempt, rank, now) for attempt, rank in doors.placed.ranks(job)]
        return item

    def explain(self, caller: Caller, job: int) -> Item:
        found, now = self._found_placed(caller, job), self._doors.now()
        if found.record.phase is Phase.OVER:
            why = f": {found.job.reason}" if found.job.reason else ""
            said: tuple[str, ...] = (f"job `{found.id}` is over, {found.stands}{why}",)
            if any(rank.cause is Cause.MEMORY for _, rank in self._doors.placed.ranks(job)):
                said += self._plans.unkept(found)
        else:
            said = self._plans.explained(found, now, lambda name: self._sees(caller, name))
        return {**placed_item(found, now), "explained": list(said)}

    def events(
        self, caller: Caller, *, job: int | None = None, after: int = 0, limit: int = EVENTS_MAX
    ) -> Sequence[Item]:
        if job is not None:
            self._found(caller, job)
        found = self._doors.sights.events(_eyes(caller), job=job, after=after, limit=limit)
        items = [event_item(one) for one in found]
        if not caller.sees_all:
            for item in items:
                item["text"] = self._without_others(caller, item["text"])
        return items

    def newest(self) -> int:
        return self._doors.placed.newest_event()

    def log(self, caller: Caller, job: int, asked: LogAsked) -> LogPiece:
        return log_piece(self._doors, self._found(caller, job), asked)

    def usage(self, caller: Caller, asked: UsageAsked) -> Item:
        return usage_answer(self._doors, _eyes(caller), asked)

    def queues(self, caller: Caller) -> Sequence[Item]:
        return self._places.queues()

    def partitions(self, caller: Caller) -> Sequence[Item]:
        return self._places.partitions()

    def nodes(self, caller: Caller) -> Sequence[Item]:
        return self._places.nodes(caller.sees)

    # Changing.

    def cancel(self, caller: Caller, job: int, *, dry: bool = False) -> Item:
        found = self._found(caller, job)
        _may_change(caller, found)
        doors = self._doors
        state = _job(found).state.value
        before = found.stands if isinstance(found, PlacedJob) else state
        if dry:
            after = {"queued": "cancelled", "running": "cancelling"}.get(state, before)
            return {"id": job, "before": before, "state": after}
        with doors.turn:
            if isinstance(found, PlacedJob):
                after = doors.placed.cancel(job, by=caller.name).stands
            else:
                after = doors.jobs.cancel(job).value
        return {"id": job, "before": before, "state": after}

    def extend(
        self, caller: Caller, job: int, limit_s: int, *, forced: bool = False, dry: bool = False
    ) -> Item:
        found = self._found_placed(caller, job)
        _may_change(caller, found)
        if forced:
            _need(caller, Role.OPERATOR, "insist on a limit")
        try:
            checked_limit(limit_s)
        except ValueError as error:
            raise unusable((("time", str(error)),)) from None
        if dry:
            verdict = self._plans.verdict(found, limit_s, forced=forced)
            reason = verdict.reason if caller.sees_all else self._without_others(caller, verdict.reason)
            if not verdict.granted:
                raise Clash(reason)
            return {**placed_item(found, self._doors.now()), "say": reason}
        return self._extended(caller, job, limit_s, forced=forced)

    def _extended(self, caller: Caller, job: int, limit_s: int, *, forced: bool) -> Item:
        doors = self._doors
        try:
            with doors.turn:
                after = doors.placed.ask_limit(job, limit_s, forced=forced, by=caller.name)
        except ValueError as error:
            raise Clash(str(error)) from None
        answer = wish_answer(doors, job, after, wait_s=ANSWER_S_MAX)
        if answer is None:
            raise Unanswered(
                f"nobody answered within {ANSWER_S_MAX:g} s; the wish for job {job} is kept", hint=START_IT
            )
        if answer.kind != "extended":
            text = answer.text if caller.sees_all else self._without_others(caller, answer.text)
            raise Clash(f"job {job} keeps its limit: {text}")
        item = placed_item(doors.placed.get(job), doors.now())
        limit = "without a limit" if item["run_s_max"] is None else f"for {shown_duration(item['run_s_max'])}"
        until = f", until {item['ends']}" if item["ends"] else ""
        return {**item, "say": f"job {job} may run {limit}{until}"}

    def word(
        self, caller: Caller, what: What, name: str, word: Word, *, why: str = "", dry: bool = False
    ) -> Item:
        _need(caller, Role.OPERATOR, f"{word} a {what}")
        return self._places.word(what, name, word, by=caller.name, why=why, dry=dry)

    # The calendar of windows.

    def windows(self, caller: Caller, *, over: bool = False) -> Sequence[Item]:
        return self._windows.all(over=over)

    def window(self, caller: Caller, number: int) -> Item:
        return self._windows.show(number)

    def add_window(self, caller: Caller, wish: WindowWish, *, dry: bool = False) -> Item:
        _need(caller, Role.OPERATOR, "make a window")
        return self._windows.add(wish, by=caller.name, dry=dry)

    def move_window(self, caller: Caller, number: int, move: WindowMove, *, dry: bool = False) -> Item:
        _need(caller, Role.OPERATOR, "move a window")
        return self._windows.move(number, move, by=caller.name, dry=dry)

    def cancel_window(
        self, caller: Caller, number: int, version: int | None, *, why: str = "", dry: bool = False
    ) -> Item:
        _need(caller, Role.OPERATOR, "cancel a window")
        return self._windows.cancel(number, version, by=caller.name, why=why, dry=dry)

    # Rights.

    def _found(self, caller: Caller, job: int) -> Found:
        found = self._doors.sights.find(_eyes(caller), job)
        if found is None:
            raise Unknown(no_such_job(job, self._doors.settings.keep), hint=SHOWS)
        return found

    def _found_placed(self, caller: Caller, job: int) -> PlacedJob:
        found = self._found(caller, job)
        if not isinstance(found, PlacedJob):
            raise Unusable(f"job {job} is not a placed one: a pilot takes it from a pool")
        return found

    def _sees(self, caller: Caller, name: JobName) -> bool:
        number = int(name) if name.isdecimal() else 0
        return caller.sees_all or self._doors.sights.find(_eyes(caller), number) is not None

    def _without_others(self, caller: Caller, text: str) -> str:
        """A sentence of the scheduler, without the numbers of jobs that the caller may not see."""

        def named(match: re.Match[str]) -> str:
            return match[0] if self._sees(caller, JobName(match[2])) else f"{match[1]}={SOMEBODYS}"

        return _OTHERS.sub(named, text)


def _eyes(caller: Caller) -> Eyes:
    return Eyes() if caller.sees_all else Eyes(caller.name, caller.projects)


def _job(found: Found) -> Job:
    return found.job if isinstance(found, PlacedJob) else found


def _may_change(caller: Caller, found: Found) -> None:
    owner = _job(found).spec.owner
    if not caller.changes(owner):
        _need(caller, Role.USER, "change jobs")
        raise Forbidden(f"job {found.id} is of `{owner}`; only they and operators may change it")


def _need(caller: Caller, role: Role, what: str) -> None:
    if caller.role < role:
        raise Forbidden(f"the role `{caller.role.word}` may not {what}; `{role.word}` may")


def _planned_soon(number: int) -> str:
    return (
        f"job {number} is kept and will be planned within seconds; `glidepath job explain {number}` says more"
    )


def _had_already(number: int) -> str:
    return f"the client key had this job already: {number}"
