"""Events are read by their numbers: whoever asks for what came behind the last one misses none."""

from __future__ import annotations

import threading

from glidepath.clock import SteadyClock
from glidepath.core.quantity import Resources
from glidepath.core.schedule.cluster import Queue
from glidepath.store.engine import Store
from glidepath.store.job import JobSpec
from glidepath.store.migrations import migrate
from glidepath.store.placed import PlacedStore
from glidepath.store.placed_spec import PlacedSpec

WRITERS = 4
EACH = 25
# Far more than there is to read; the writers are slower than the reader.
READS_MAX = 1_000_000


def spec(owner: str) -> PlacedSpec:
    return PlacedSpec(JobSpec("main", owner, ("true",), request=Resources(cpu_milli=1000)), Queue.BATCH)


def test_a_reader_that_goes_on_behind_the_last_event_misses_none_of_many_writers(store: Store) -> None:
    migrate(store)
    placed = PlacedStore(store, SteadyClock())

    def write(owner: str) -> None:
        for _ in range(EACH):
            placed.submit(spec(owner))

    writers = [threading.Thread(target=write, args=(f"owner-{n}",)) for n in range(WRITERS)]
    for each in writers:
        each.start()
    seen: list[int] = []
    for _ in range(READS_MAX):
        alive = any(each.is_alive() for each in writers)
        found = placed.events(after=seen[-1] if seen else 0)
        seen += [event.id for event in found]
        if not alive and not found:
            break
    assert len(seen) == WRITERS * EACH
    assert seen == sorted(set(seen))
