"""What clients of pyglidein ask and say, over trays or, at the open address, over what the journal knows.

Calls come in that were read already, plain values go out. A client at its own address sees its share and
nothing else; what it says of itself is shown to nobody but people who have that address.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial

from glidepath.called.nameless import Counted, Wanted, counted, row_of, shown, wanted_of
from glidepath.called.tray import Step, Tray
from glidepath.core.cycle import Seen
from glidepath.core.quantity import Instant, SiteName
from glidepath.journal.journal import Journal
from glidepath.serve.desk import Desk
from glidepath.serve.jsonrpc import PARAMS, GetState, Monitoring, RpcError

# The address without a site; no site can have this name.
EVERYBODY = "*"


@dataclass(frozen=True, slots=True)
class Address:
    """Where somebody calls: of which site, and which of the site's addresses."""

    site: str
    id: str = ""


# Reports of a client that are remembered, so that one that is sent again is known.
HEARD_MAX = 50
Rows = dict[Wanted, int]


class CounterDesk:
    """The same desk, for callers who only count."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    def answer(self, address: Address, call: GetState | Monitoring) -> object:
        """The result of one call at the address of a site, or at the open one."""
        if isinstance(call, GetState):
            rows = self.everything() if address.site == EVERYBODY else self._shown(address)
            return [_plain(wanted, count) for wanted, count in sorted(rows.items(), key=_fixed)]
        self._heard(address, call)
        return ""

    def everything(self) -> Rows:
        """All that waits, as the last cycle saw it."""
        entry = Journal(self.desk.store).latest()
        rows: Counter[Wanted] = Counter()
        for _, _, sight in entry.snapshot.demand if entry is not None else ():
            for group in sight.value.demands if isinstance(sight, Seen) else ():
                if group.idle:
                    size, os = group.shape.request, dict(group.shape.traits).get("os")
                    parts = size.cpu_milli, size.memory_mib, size.disk_mib
                    rows[wanted_of(*parts, gpus=size.gpus, os=os)] += group.idle
        return dict(rows)

    def share(self, site: str) -> Rows:
        """What a client of the site would be shown, or was and has not launched; for people."""
        self.desk.terms(site)
        rows: Counter[Wanted] = Counter()
        for request in self.desk.post.tray(SiteName(site)).requests:
            if request.step in (Step.ASKED, Step.SHOWN):
                rows[row_of(request.spec)] += 1
        return dict(rows)

    def _shown(self, address: Address) -> Rows:
        now, terms = self.desk.clock().now(), self.desk.terms(address.site)
        change = partial(shown, now=now, terms=terms, client="a client of pyglidein", address=address.id)
        with self.desk.turn:
            return self.desk.post.nameless(SiteName(address.site), change, wall=self.desk.wall())

    def _heard(self, address: Address, call: Monitoring) -> None:
        post, wall, site = self.desk.post, self.desk.wall(), address.site
        with self.desk.turn:
            _, before = post.clients(site).get(call.uuid, (0.0, {}))
            heard = list(before.get("heard", []))
            if call.mark in heard:
                raise RpcError(PARAMS, "this report was sent before", call.id)
            if call.mark:
                heard = [*heard, call.mark][-HEARD_MAX:]
            if site != EVERYBODY:
                self.desk.terms(site)
                now = self.desk.clock().now()
                client = f"pyglidein {_short(call.uuid)}"
                change = partial(_counted, said=call.counted, now=now, client=client, address=address.id)
                post.nameless(SiteName(site), change, wall=wall)
            post.keep_client(site, call.uuid, {"sums": call.sums, "heard": heard}, wall=wall)


def _counted(tray: Tray, *, said: Counted, now: Instant, client: str, address: str) -> tuple[Tray, None]:
    return counted(tray, said, now, client=client, address=address), None


def _short(uuid: str) -> str:
    return "".join(letter for letter in uuid[:100] if letter.isalnum() or letter in "@.-_")


def _fixed(row: tuple[Wanted, int]) -> tuple[object, ...]:
    wanted, _ = row
    return (wanted.cpus, wanted.memory, wanted.disk, wanted.gpus, wanted.os or "")


def _plain(wanted: Wanted, count: int) -> dict[str, object]:
    return {
        "cpus": wanted.cpus,
        "memory": wanted.memory,
        "disk": wanted.disk,
        "gpus": wanted.gpus,
        "os": wanted.os,
        "count": count,
    }
