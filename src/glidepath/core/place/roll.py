"""The roll of placed jobs: records come in, and are sorted once into those who wait and the others.

A roll follows the one before it. Whatever did not change is the same value as before, so that a turn costs
what changed, and hardly what waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from glidepath.core.place.rank import SetKey
from glidepath.core.place.record import Phase, Record
from glidepath.core.quantity import Instant
from glidepath.core.schedule.job import Job, Running

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Roll:
    """Every job that is not over, by number and in that order."""

    records: Mapping[int, Record] = field(default_factory=dict)
    waiting: Mapping[int, Job] = field(default_factory=dict)  # those that may be started
    started: Mapping[int, Running] = field(default_factory=dict)  # those with an attempt, as plans see them
    keys: Mapping[SetKey, Record] = field(default_factory=dict)  # the same by what clusters know them by

    def after(self, changes: Mapping[int, Record | None]) -> Roll:
        """The same with these in their places, and without those that have nothing there."""
        waiting = {n: one.job if one is not None and _waits(one) else None for n, one in changes.items()}
        running = {n: None if one is None else self._started(one) for n, one in changes.items()}
        records, started = _after(self.records, changes), _after(self.started, running)
        same = started is self.started
        keys = self.keys if same else {records[n].key: records[n] for n in started}
        return Roll(records, _after(self.waiting, waiting), started, keys)

    def _started(self, record: Record) -> Running | None:
        if record.phase is Phase.WAITS:
            return None
        if self.records.get(record.id) is record:
            return self.started[record.id]
        return running_of(record)


def roll_of(records: Iterable[Record]) -> Roll:
    return Roll().after({record.id: record for record in records})


def _waits(record: Record) -> bool:
    return record.phase is Phase.WAITS and not record.cancelled


def running_of(record: Record) -> Running:
    began = record.began_at if record.began_at is not None else record.asked_at
    places = tuple(place for rank, place in enumerate(record.places) if rank not in record.gone)
    return Running(record.job, began if began is not None else Instant(0), places)


def _after(had: Mapping[int, T], changes: Mapping[int, T | None]) -> Mapping[int, T]:
    if all(had.get(number) is one for number, one in changes.items()):
        return had
    kept, in_order = dict(had), True
    last = next(reversed(kept), 0)
    for number in sorted(changes):
        one = changes[number]
        if one is None:
            kept.pop(number, None)
            continue
        in_order = in_order and (number in kept or number > last)
        kept[number] = one
    return kept if in_order else dict(sorted(kept.items()))
