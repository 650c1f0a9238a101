"""Supply, and how much demand it holds: pilots become lots of equal room, jobs are packed into them.

Counted in lots and not pilot by pilot, so that ten thousand pilots and two thousand shapes stay quick.
A slot counts for a job only if its memory, disk, GPUs and remaining life fit that job.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from glidepath.core.provision.offer import Kind
from glidepath.core.quantity import OfferKey, PoolName

FOREVER_S = 1 << 60

Amounts = tuple[int, int, int, int]
# Pool, kind, room, remaining life, and whether nothing is claimed in it.
Row = tuple[PoolName, Kind, Amounts, int, bool]


@dataclass(slots=True)
class Lot:
    """So many pilots with exactly this much room; `whole` while nothing was packed into them."""

    kind: Kind
    room: Amounts
    count: int
    life_s: int
    whole: bool


def copies(request: Amounts, room: Amounts) -> int:
    """How many requests fit into the room. A request for nothing fits once per pilot, not for ever."""
    most = FOREVER_S
    for need, have in zip(request, room, strict=True):
        if need and have // need < most:
            most = have // need
    return 1 if most == FOREVER_S else most


def fits(request: Amounts, room: Amounts) -> bool:
    # Spelled out: this is asked a million times a cycle.
    return request[0] <= room[0] and request[1] <= room[1] and request[2] <= room[2] and request[3] <= room[3]


def less(room: Amounts, request: Amounts, times: int) -> Amounts:
    return (
        room[0] - request[0] * times,
        room[1] - request[1] * times,
        room[2] - request[2] * times,
        room[3] - request[3] * times,
    )


class Shelf:
    """The lots of one pool and offer, and the most that any of them has room for."""

    __slots__ = ("lots", "most")

    def __init__(self) -> None:
        self.lots: list[Lot] = []
        self.most: Amounts = (0, 0, 0, 0)

    def measure(self) -> None:
        if not self.lots:
            self.most = (0, 0, 0, 0)
            return
        cpus, memories, disks, gpus = map(max, zip(*[lot.room for lot in self.lots], strict=True))
        self.most = (cpus, memories, disks, gpus)


class Stock:
    """Room of one sort (free now, or on its way) in all pools.

    `least` is the smallest request of the cycle: what has less room than that is not worth another look.
    """

    def __init__(self, least: Amounts = (0, 0, 0, 0)) -> None:
        self._pools: dict[PoolName, dict[OfferKey, Shelf]] = {}
        self._least = least

    def add_all(self, rows: Iterable[Row]) -> None:
        counts = Counter(rows)
        # The fullest pilots first: what is begun is filled before another is touched.
        for row in sorted(counts, key=lambda r: (r[0], r[1].offer, r[4], r[2], r[3], r[1].size, r[1].traits)):
            pool, kind, room, life_s, whole = row
            if whole or fits(self._least, room):
                self._shelf(pool, kind.offer).lots.append(Lot(kind, room, counts[row], life_s, whole))
        for shelves in self._pools.values():
            for shelf in shelves.values():
                shelf.measure()

    def add(self, pool: PoolName, kind: Kind, count: int, life_s: int) -> None:
        shelf = self._shelf(pool, kind.offer)
        shelf.lots.append(Lot(kind, kind.size.as_tuple(), count, life_s, True))
        shelf.measure()

    def _shelf(self, pool: PoolName, offer: OfferKey) -> Shelf:
        shelves = self._pools.setdefault(pool, {})
        if offer not in shelves:
            shelves[offer] = Shelf()
        return shelves[offer]

    def take(self, pool: PoolName, kinds: Iterable[Kind], request: Amounts, *, jobs: int, run_s: int) -> int:
        """Pack up to so many jobs; the number that found room."""
        shelves = self._pools.get(pool)
        if not shelves or not jobs:
            return 0
        left = jobs
        for kind in kinds:
            shelf = shelves.get(kind.offer)
            if shelf is not None and fits(request, shelf.most):
                left -= self._fill(shelf, kind, request, jobs=left, run_s=run_s)
                if not left:
                    break
        return jobs - left

    def _fill(self, shelf: Shelf, kind: Kind, request: Amounts, *, jobs: int, run_s: int) -> int:
        left = jobs
        added: list[Lot] = []
        for lot in shelf.lots:
            if not fits(request, lot.room) or lot.life_s < run_s:
                continue
            if lot.kind is not kind and lot.kind != kind:
                continue
            each = copies(request, lot.room)
            full = min(lot.count, left // each)
            rest = left - full * each if full < lot.count and left < (full + 1) * each else 0
            for count, times in ((full, each), (1 if rest else 0, rest)):
                if count:
                    room = less(lot.room, request, times)
                    left -= count * times
                    lot.count -= count
                    if fits(self._least, room):
                        added.append(Lot(lot.kind, room, count, lot.life_s, False))
            if not left:
                break
        if left < jobs:
            shelf.lots = [lot for lot in (*added, *shelf.lots) if lot.count]
            shelf.measure()
        return jobs - left

    def untouched(self) -> dict[tuple[PoolName, Kind], int]:
        """How many pilots of each kind nothing was packed into."""
        counts: dict[tuple[PoolName, Kind], int] = {}
        for pool, shelves in self._pools.items():
            for lot in (lot for shelf in shelves.values() for lot in shelf.lots):
                if lot.whole:
                    counts[(pool, lot.kind)] = counts.get((pool, lot.kind), 0) + lot.count
        return counts
