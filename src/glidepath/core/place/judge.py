"""What becomes of one placed job: its record and what its cluster lists come in, decisions go out.

Only a listing that was made after the cluster was asked counts as not there. How a job ends is read from its
ranks; whatever was no fault of the job is tried again, within bounds, if its owner said so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from glidepath.core.because import Because
from glidepath.core.cycle import Decision, Reason
from glidepath.core.place.acts import Began, Halt, Launch, Lessen, PlaceAction, Settle, Stretch, Tell
from glidepath.core.place.rank import Cause, RankSeen, RankState, SetSeen
from glidepath.core.place.record import Phase, Record, Then
from glidepath.core.quantity import Instant
from glidepath.core.schedule.job import OnLoss
from glidepath.core.units import shown_duration, shown_size

# A set that no listing shows is asked for again under its key for this long; then the job is planned anew.
REPEAT_S_MAX = 300
# What a cluster may take beyond the time in which ranks must gather, before we end the set ourselves.
GATHER_SLACK_S = 60
# Attempts that never began, or were ended for others, are made so often at most.
STARTS_MAX = 100

LOSSES = frozenset({Cause.EVICTED, Cause.NODE_LOST, Cause.RESTARTED})
NEVER_BEGAN = frozenset({Cause.REFUSED, Cause.NOT_GATHERED})
# Ends that a command comes to by itself, whatever it was about to be told.
OWN = frozenset({Cause.EXITED, Cause.SIGNALLED, Cause.MEMORY})
WHY_CHARS_MAX = 400

Judged = Iterator[Decision[PlaceAction]]


def judged(record: Record, seen: SetSeen | None, *, listed_at: Instant, now: Instant) -> Judged:
    """What is to be done about a job that is not waiting, by what its cluster lists."""
    if seen is not None and seen.over:
        # One that began and ended between two looks has run all the same: it is written down, and paid for.
        yield from _begun(record, seen)
        yield _said(record, Because.RANKS_OVER, settled(record, seen))
        return
    match record.phase:
        case Phase.STARTING:
            yield from _starting(record, seen, listed_at, now)
        case Phase.RUNNING:
            yield from _running(record, seen, now)
        case Phase.ENDING:
            if seen is not None:
                yield _said(record, Because.ENDING, _halt(record, record.then, record.why))
            elif record.asked_at is None or listed_at > record.asked_at:
                yield _said(record, Because.RANKS_GONE, settled(record, None))
        case Phase.WAITS | Phase.OVER:
            pass


def notice_of(record: Record) -> tuple[Instant, Instant] | None:
    """From when on its cluster gives it notice, and of which end; none where it asked for none."""
    limit_s, notice_s, began_at = record.job.limit_s, record.terms.notice_s, record.began_at
    if record.phase is not Phase.RUNNING or limit_s is None or not notice_s or began_at is None:
        return None
    return Instant(began_at + max(0, limit_s - notice_s)), Instant(began_at + limit_s)


def noticed(record: Record, *, now: Instant) -> Judged:
    """For its owner to read: the signal itself comes from the cluster, be we there or not."""
    due = notice_of(record)
    if due is None or record.cancelled or not due[0] <= now < due[1]:
        return
    terms, limit_s = record.terms, record.job.limit_s
    assert limit_s is not None
    lead = shown_duration(min(terms.notice_s, limit_s))
    why = f"its time limit of {shown_duration(limit_s)} ends in {lead}, and it is sent {terms.notice_signal}"
    yield _said(record, Because.LIMIT_NEAR, Tell(record.id, record.attempt, due[1], why, by_cluster=True))


def _said(record: Record, because: Because, action: PlaceAction) -> Decision[PlaceAction]:
    why = getattr(action, "why", "")
    facts = (("attempt", record.attempt), *((("why", why),) if why else ()))
    return Decision(f"job:{record.id}", Reason(because, facts), action)


def _halt(record: Record, then: Then, why: str) -> Halt:
    return Halt(record.id, record.attempt, then, why[:WHY_CHARS_MAX])


def _starting(record: Record, seen: SetSeen | None, listed_at: Instant, now: Instant) -> Judged:
    asked_at = record.asked_at if record.asked_at is not None else now
    if seen is None:
        if listed_at <= asked_at:
            return
        if record.cancelled:
            yield _said(record, Because.RANKS_GONE, _settle(record, Then.CANCELLED, "it had not begun"))
        elif now - asked_at > REPEAT_S_MAX:
            why = f"the cluster did not know it within {shown_duration(REPEAT_S_MAX)}"
            yield _said(record, Because.RANKS_GONE, _anew(record, why))
        else:
            yield _said(record, Because.START_REPEATED, _repeated(record))
        return
    if record.cancelled:
        yield _said(record, Because.CANCELLED, _halt(record, Then.CANCELLED, "cancelled by a user"))
        return
    partial = _partial(record, seen)
    if partial is not None:
        yield partial
    elif not seen.made and listed_at > asked_at:
        yield _said(record, Because.START_REPEATED, _repeated(record))
    elif all(rank.began_at is not None for rank in seen.ranks):
        yield from _begun(record, seen)
    elif now - asked_at > record.terms.gather_s_max + GATHER_SLACK_S:
        waits = sum(rank.state is RankState.ASKED for rank in seen.ranks)
        within = shown_duration(record.terms.gather_s_max)
        why = f"{waits} of {len(seen.ranks)} ranks were not in place within {within}: {_words(seen.ranks)}"
        yield _said(record, Because.NOT_GATHERED, _halt(record, Then.ANEW, why))


def _begun(record: Record, seen: SetSeen) -> Judged:
    began = [rank.began_at for rank in seen.ranks if rank.began_at is not None]
    if record.phase is Phase.STARTING and began and len(began) == len(seen.ranks):
        yield _said(record, Because.BEGAN, Began(record.id, record.attempt, max(began)))


def _repeated(record: Record) -> Launch:
    return Launch(record.id, record.attempt, record.places, again=True)


def _running(record: Record, seen: SetSeen | None, now: Instant) -> Judged:
    if seen is None:
        if record.cancelled:
            yield _said(record, Because.RANKS_GONE, _settle(record, Then.CANCELLED, "cancelled by a user"))
        else:
            why = "its ranks are gone from the cluster, and nobody said how they ended"
            yield _said(record, Because.RANKS_GONE, _lost(record, why))
        return
    if record.cancelled:
        yield _said(record, Because.CANCELLED, _halt(record, Then.CANCELLED, "cancelled by a user"))
        return
    partial = _partial(record, seen)
    if partial is not None:
        yield partial
    elif seen.limit_s != record.job.limit_s:
        limit = Stretch(record.id, record.attempt, record.job.limit_s)
        yield _said(record, Because.LIMIT_BEHIND, limit)


def _partial(record: Record, seen: SetSeen) -> Decision[PlaceAction] | None:
    """Some ranks are over badly while others go on: what its owner said is done."""
    bad = [rank for rank in seen.ranks if rank.rank not in record.gone and failed(rank)]
    if not bad:
        return None
    first, causes = bad[0], {rank.cause for rank in bad}
    why = told(record, first)
    if causes <= LOSSES and record.job.on_loss is OnLoss.GO_ON and record.phase is Phase.RUNNING:
        gone = tuple(sorted({*record.gone, *(rank.rank for rank in bad)}))
        return _said(record, Because.RANK_LOST, Lessen(record.id, record.attempt, gone, why))
    if causes & NEVER_BEGAN and not causes - NEVER_BEGAN - LOSSES:
        return _said(record, Because.NOT_GATHERED, _halt(record, Then.ANEW, why))
    if causes <= LOSSES and record.job.on_loss is not OnLoss.END:
        return _said(record, Because.RANK_LOST, _halt(record, Then.AGAIN, why))
    return _said(record, Because.RANK_FAILED, _halt(record, Then.FAILED, why))


def failed(rank: RankSeen) -> bool:
    return rank.state is RankState.OVER and (rank.cause is not Cause.EXITED or rank.exit_code != 0)


def settled(record: Record, seen: SetSeen | None) -> Settle:
    """How the attempt ended, now that nothing of it runs."""
    ranks = seen.ranks if seen is not None else ()
    bad = [rank for rank in ranks if rank.rank not in record.gone and failed(rank)]
    ended = max((rank.ended_at for rank in ranks if rank.ended_at is not None), default=None)
    code = next((rank.exit_code for rank in bad if rank.exit_code), None)
    number = next((rank.signal for rank in bad if rank.signal), None)
    then, why = record.then, record.why
    if record.cancelled:
        then, why = Then.CANCELLED, "cancelled by a user"
    elif then is not Then.SEEN and ranks:
        then, why = _as_it_was(record, ranks, bad)
    match then:
        case Then.CANCELLED:
            return _settle(record, then, why, ended_at=ended)
        case Then.AGAIN:
            return _lost(record, why, ended_at=ended)
        case Then.ANEW:
            return _anew(record, why, ended_at=ended)
        case Then.DONE | Then.FAILED:
            return _settle(record, then, why, exit_code=code, signal=number, ended_at=ended)
        case Then.SEEN:
            pass
    if not bad:
        over = tuple(rank for rank in ranks if rank.rank not in record.gone)
        if record.gone and not over:
            return _lost(record, "all of its ranks were lost", ended_at=ended)
        return _settle(record, Then.DONE, _without(record), exit_code=0, ended_at=ended)
    return _from_causes(record, bad, (code, number, ended))


def _as_it_was(record: Record, ranks: tuple[RankSeen, ...], bad: list[RankSeen]) -> tuple[Then, str]:
    """What was to come, unless the commands had ended by themselves before anybody told them to.

    That is found out late where nobody looked for a while: what is done is not run again, and is no failure.
    """
    left = [rank for rank in ranks if rank.rank not in record.gone]
    if left and not bad:
        return Then.SEEN, ""
    own = next((rank for rank in bad if rank.cause in OWN), None)
    if record.then is Then.FAILED and own is not None:
        return record.then, told(record, own)
    return record.then, record.why


def _without(record: Record) -> str:
    return f"it went on without {len(record.gone)} of its ranks" if record.gone else ""


def _from_causes(
    record: Record, bad: list[RankSeen], end: tuple[int | None, int | None, Instant | None]
) -> Settle:
    """What is the owner's own comes before what the cluster did: a limit is a limit on a lost node, too."""
    code, number, ended = end
    causes = {rank.cause for rank in bad}
    first = next((rank for rank in bad if rank.cause not in LOSSES | NEVER_BEGAN), bad[0])
    why = told(record, first)
    if causes & NEVER_BEGAN and not causes - NEVER_BEGAN - LOSSES - {Cause.STOPPED}:
        return _anew(record, why, ended_at=ended)
    if causes <= LOSSES:
        return _lost(record, why, ended_at=ended)
    return _settle(record, Then.FAILED, why, exit_code=code, signal=number, ended_at=ended)


def told(record: Record, rank: RankSeen) -> str:
    """What the owner reads of a rank that did not end well."""
    who = f"rank {rank.rank} on {rank.node}" if len(record.places) > 1 else f"it ran on {rank.node} and"
    more = f": {rank.why}" if rank.why else ""
    match rank.cause:
        case Cause.EXITED:
            return f"{who} ended with exit code {rank.exit_code}{more}"
        case Cause.SIGNALLED:
            return f"{who} was ended by signal {rank.signal}{more}"
        case Cause.LIMIT:
            limit = record.job.limit_s
            return f"its time limit of {shown_duration(limit)} was reached" if limit else "its time was up"
        case Cause.STOPPED:
            return f"{who} was stopped at the cluster{more}"
        case Cause.MEMORY:
            asked = shown_size(record.job.ask.size.memory_mib)
            return f"{who} took more memory than the {asked} it asked for{more}"
        case Cause.IMAGE:
            return f"the image `{record.work.image}` cannot be had{more}"
        case Cause.SETUP:
            return f"nothing was started, since it could not be set up as asked{more}"
        case Cause.REFUSED:
            return f"{rank.node} had no room for it after all{more}"
        case Cause.NOT_GATHERED:
            return f"not all of its ranks were in place in time{more}"
        case Cause.EVICTED:
            return f"{who} was evicted by the cluster{more}"
        case Cause.NODE_LOST:
            return f"{who} was lost with its node{more}"
        case Cause.RESTARTED:
            return f"{who} ended when its node restarted{more}"
        case Cause.NONE:
            return f"{who} is over, and nobody said how{more}"


def _words(ranks: Iterable[RankSeen]) -> str:
    return next((rank.why for rank in ranks if rank.why), "no reason was given")


def _settle(
    record: Record,
    then: Then,
    why: str,
    *,
    lost: bool = False,
    exit_code: int | None = None,
    signal: int | None = None,
    ended_at: Instant | None = None,
) -> Settle:
    why = why[:WHY_CHARS_MAX]
    return Settle(record.id, record.attempt, then, why, lost, exit_code, signal, ended_at)


def _lost(record: Record, why: str, *, ended_at: Instant | None = None) -> Settle:
    """An attempt ended by no fault of the job: again where its owner wants that, so often at most."""
    if record.job.on_loss is OnLoss.END:
        return _settle(record, Then.FAILED, why, lost=True, ended_at=ended_at)
    losses = record.losses + 1
    if losses > record.retries_max:
        why = f"lost {losses} times, the last: {why}; it may be {record.retries_max} times"
        return _settle(record, Then.FAILED, why, lost=True, ended_at=ended_at)
    return _settle(record, Then.AGAIN, why, lost=True, ended_at=ended_at)


def _anew(record: Record, why: str, *, ended_at: Instant | None = None) -> Settle:
    """The attempt does not count against the job, and yet is not made for ever."""
    if record.attempt >= STARTS_MAX:
        why = f"it was started {record.attempt} times in vain, the last: {why}"
        return _settle(record, Then.FAILED, why, ended_at=ended_at)
    return _settle(record, Then.ANEW, why, ended_at=ended_at)
