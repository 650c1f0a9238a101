"""What windows do to jobs that have an attempt: who is told when it ends for one, and who does not begin.

The roll and the windows come in, decisions go out. When a window opens, the plan ends those that run; one
whose ranks have not begun by then is taken back, since it would begin in the window.
"""

from __future__ import annotations

from collections.abc import Iterator

from glidepath.core.because import Because
from glidepath.core.cycle import Decision, Reason
from glidepath.core.place.acts import Cut, Halt, PlaceAction
from glidepath.core.place.record import Phase, Record, Then
from glidepath.core.place.roll import Roll
from glidepath.core.quantity import Instant
from glidepath.core.schedule.cluster import Window
from glidepath.core.schedule.cut import cut_by, shutting, waits_again

# Who is planned up to a window, and begins a little late, is ended that much before its limit: no news.
TOLD_S_MIN = 60

Decided = Iterator[Decision[PlaceAction]]


def cuts(roll: Roll, windows: tuple[Window, ...], now: Instant) -> Decided:
    """Once for each end that is another one than was told: its window was made, moved or cancelled."""
    for number, one in roll.started.items():
        record = roll.records[number]
        if record.phase is not Phase.RUNNING or record.cancelled or not (windows or record.cut_at):
            continue
        window = cut_by(one, windows, now)
        at = None if window is None or _is_short(record, window) else window.opens_at
        if at == record.cut_at or (at is not None and at <= now):
            continue
        limit_s = record.job.limit_s
        limit_at = None if limit_s is None else Instant(one.started_at + limit_s)
        if window is None or at is None:
            act = Cut(number, record.attempt, None, had=record.cut_at, limit_at=limit_at)
            yield Decision(f"job:{number}", Reason(Because.WINDOW_CUTS_NOT), act)
            continue
        again = waits_again(record.job)
        facts = (("window", window.name), ("opens_at", at))
        act = Cut(number, record.attempt, at, window.name, again, record.cut_at, limit_at)
        yield Decision(f"job:{number}", Reason(Because.WINDOW_CUTS, facts), act)


def _is_short(record: Record, window: Window) -> bool:
    limit_s, began = record.job.limit_s, record.began_at
    return limit_s is not None and began is not None and began + limit_s - window.opens_at <= TOLD_S_MIN


def not_begun(roll: Roll, windows: tuple[Window, ...], now: Instant) -> Decided:
    """Jobs that are still about to begin when a window opens wait again."""
    open_now = [window for window in windows if window.opens_at <= now < window.closes_at]
    for number, one in roll.started.items() if open_now else ():
        record = roll.records[number]
        shut = shutting(one, open_now) if record.phase is Phase.STARTING and not record.cancelled else []
        if shut:
            why = f"window {shut[0].name} opened before it had begun"
            halt = Halt(number, record.attempt, Then.ANEW, why)
            yield Decision(f"job:{number}", Reason(Because.WINDOW_OPENS, (("window", shut[0].name),)), halt)
