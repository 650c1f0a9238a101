"""Shadow mode: what we would have asked for, beside what really appeared at the sites.

Snapshots and plans come in, sentences go out. Nothing is done and nothing is expected.
"""

from __future__ import annotations

from glidepath.core.cycle import Plan, Seen
from glidepath.core.provision.pilot import PilotAction, Submit
from glidepath.core.provision.sight import Snapshot


class Difference:
    """Counts per offer since the start: asked for by us, and appeared by the other's hand."""

    def __init__(self) -> None:
        self.known: set[str] | None = None
        self.would: dict[str, int] = {}
        self.real: dict[str, int] = {}

    def lines(self, snapshot: Snapshot, plan: Plan[PilotAction]) -> list[str]:
        pilots = [p for _, s in snapshot.sites if isinstance(s, Seen) for p in s.value.pilots]
        fresh = [p for p in pilots if self.known is not None and p.name not in self.known]
        self.known = (self.known or set()) | {p.name for p in pilots}
        asks = [a for a in plan.actions if isinstance(a, Submit)]
        for pilot in fresh:
            self.real[pilot.offer] = self.real.get(pilot.offer, 0) + 1
        for ask in asks:
            self.would[ask.offer] = self.would.get(ask.offer, 0) + len(ask.names)
        return [self._line(offer) for offer in sorted({p.offer for p in fresh} | {a.offer for a in asks})]

    def summary(self) -> list[str]:
        """The same for every offer that anything was seen or wanted of, for the end."""
        offers = sorted({*self.would, *self.real})
        return [self._line(offer) for offer in offers] or [
            "shadow: nothing was asked for and nothing appeared"
        ]

    def _line(self, offer: str) -> str:
        would, real = self.would.get(offer, 0), self.real.get(offer, 0)
        return f"shadow {offer}: would have asked for {would}, {real} appeared, difference {would - real:+d}"
