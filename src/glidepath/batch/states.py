"""What is true of a pilot when its queue, accounting and its own last words are put together.

Values come in, one state with its words goes out. A job that nobody knows any more may live: it counts as
lost only after it was looked up, and missed for as long as the settings say.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from glidepath.batch.dialect import JobSeen
from glidepath.batch.folder import Ending
from glidepath.core.provision.pilot import SiteState
from glidepath.core.text import one_line

OVER = frozenset({SiteState.ENDED, SiteState.FAILED})
# A job that was sent off and never came up in the queue: no submit command takes that long.
UNSENT_S_MAX = 600
# Words that a pilot wrote on a node may be seen here only later, where a file system keeps what it read.
WORDS_S_MAX = 20


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that is known of one pilot's job at one moment."""

    ending: Ending | None = None
    queued: JobSeen | None = None  # by the queue
    past: JobSeen | None = None  # by accounting, where the queue no longer knows it
    looked_up: bool = False  # accounting has answered, whatever it knew
    past_trouble: str = ""  # why it has not
    native_id: str = ""
    unsent: str = ""  # why it never was in the queue, where that is certain
    asked_s_ago: int = 0
    missing_s: int = 0  # since it was missed first
    over_s: int = 0  # since it was over first, without a word of the pilot
    last_line: str = ""
    alone: bool = True  # the only pilot of its job
    shared: bool = True  # words are seen when a file system shows them, and not brought with the end


@dataclass(frozen=True, slots=True)
class Told:
    state: SiteState
    note: str

    @property
    def over(self) -> bool:
        return self.state in OVER


def told(found: Evidence, *, gone_after_s: int, walltime_s: int) -> Told:
    if found.ending is not None:
        return _by_its_words(found, found.ending)
    if found.queued is not None:
        return _waited_for(found, _by(found.queued))
    if found.past is not None:
        by = _by(found.past)
        if by.over:
            return _waited_for(found, by)
        note = f"the queue no longer knows it; accounting says: {by.note}"
        return _missing(found, note, found.missing_s > walltime_s)
    if not found.native_id:
        return _never_seen(found)
    if not found.looked_up:
        why = f" ({found.past_trouble})" if found.past_trouble else ""
        note = f"the queue no longer knows job {found.native_id}, and accounting was not asked{why}"
        return _missing(found, note, found.missing_s > walltime_s)
    note = f"neither the queue nor accounting knows job {found.native_id}"
    return _missing(found, note, found.missing_s > gone_after_s)


def _by_its_words(found: Evidence, ending: Ending) -> Told:
    state = SiteState.ENDED if ending.ok else SiteState.FAILED
    note = ending.why or ("it ended well" if ending.ok else "it failed")
    if found.alone and found.queued is not None and not _by(found.queued).over:
        return Told(SiteState.LEAVING, f"{note}; its job is {found.queued.word}")
    if ending.wordless:
        by = found.queued or found.past
        how = f"; the site says: {_by(by).note}" if by is not None else ""
        note = f"{note}{how}{_last(found)}"
    return Told(state, one_line(note))


def _by(job: JobSeen) -> Told:
    words = [word for word in (job.word, job.why) if word]
    return Told(job.state, one_line(": ".join(words)) or job.state.value)


def _waited_for(found: Evidence, by: Told) -> Told:
    """One that is over by its site, and whose own words may still come."""
    job = found.queued or found.past
    if not by.over:
        return by
    ran = job is not None and bool(job.nodes)
    if ran and found.shared and found.over_s < WORDS_S_MAX:
        return Told(SiteState.LEAVING, f"{by.note}; its last words are waited for")
    return replace(by, note=one_line(f"{by.note}{_last(found)}")) if ran else by


def _last(found: Evidence) -> str:
    return f"; its last line: {found.last_line}" if found.last_line else ""


def _missing(found: Evidence, note: str, lost: bool) -> Told:
    if lost:
        return Told(SiteState.FAILED, one_line(f"{note}, for {found.missing_s} s; it is given up"))
    return Told(SiteState.UNKNOWN, one_line(note))


def _never_seen(found: Evidence) -> Told:
    if found.unsent:
        return Told(SiteState.FAILED, one_line(found.unsent))
    if found.asked_s_ago > UNSENT_S_MAX:
        return Told(
            SiteState.FAILED, f"it never came up in the queue, {found.asked_s_ago} s after it was sent"
        )
    return Told(SiteState.UNKNOWN, "it is not known whether the queue has it")
