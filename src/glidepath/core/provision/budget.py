"""What is left of budgets: what was spent and all that lives come in, what new pilots may cost goes out.

A pilot that lives is counted with all that it can still cost in the period, so that a budget is never
exceeded by pilots that nobody may stop. What they leave unused is free again when they are over.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from glidepath.core.cycle import Fact
from glidepath.core.provision.offer import Budget, Rules
from glidepath.core.provision.picture import Picture
from glidepath.core.provision.pilot import Track
from glidepath.core.provision.sight import Spent
from glidepath.core.quantity import Instant

HOUR_S = 3600
MICRO = 1_000_000


def cost_micro(price_milli: int, seconds: int) -> int:
    """Rounded up, so that many small ones come to no less than they cost."""
    return -(-price_milli * 1000 * max(0, seconds) // HOUR_S)


@dataclass(slots=True)
class Purse:
    """One budget in this cycle; `left_micro` shrinks as pilots are asked for."""

    budget: Budget
    spent: Spent | None  # None: nobody knows, so that nothing is left
    committed_micro: int
    left_micro: int
    now: Instant
    unproven: str = ""  # a site where pilots of a forgotten life may still cost something

    def price_of(self, price_milli: int, lifetime_s: int) -> int:
        """What one more pilot may cost within the period."""
        period_s = lifetime_s if self.spent is None else self.spent.ends_at - self.now
        return cost_micro(price_milli, min(lifetime_s, period_s))

    @property
    def why(self) -> tuple[Fact, ...]:
        budget: Fact = ("budget", self.budget.name)
        if self.spent is None:
            return (budget, ("spent", "unknown"))
        if self.unproven:
            return (budget, ("not_seen_yet", self.unproven))
        return (
            budget,
            ("amount", _shown(self.budget.amount_micro)),
            ("spent", _shown(self.spent.micro)),
            ("may_still_cost", _shown(self.committed_micro)),
            ("ends_in_s", max(0, self.spent.ends_at - self.now)),
        )


def purses(picture: Picture, rules: Rules) -> tuple[Purse, ...]:
    told = {each.budget: each for each in picture.snapshot.spent}
    return tuple(_purse(budget, told.get(budget.name), picture, rules) for budget in rules.budgets)


def _purse(budget: Budget, spent: Spent | None, picture: Picture, rules: Rules) -> Purse:
    if spent is None:
        return Purse(budget, None, 0, 0, picture.now)
    unproven = next((site for site in picture.unproven if covers(budget, site)), "")
    committed = sum(_of_lives(budget, spent, picture, rules))
    left = 0 if unproven else max(0, budget.amount_micro - spent.micro - committed)
    return Purse(budget, spent, committed, left, picture.now, unproven)


def covers(budget: Budget, site: str) -> bool:
    return not budget.sites or site in budget.sites


def _of_lives(budget: Budget, spent: Spent, picture: Picture, rules: Rules) -> Iterator[int]:
    """What each pilot can cost in the period by the time when it must have ended."""
    offers, now = rules.offers(), picture.now
    # One that is over and not yet written down costs what it lived.
    over = ((lost.track, now) for lost in picture.lost)
    for track, ended_at in (*((track, None) for track in picture.tracks), *over):
        offer = offers.get(track.offer)
        if offer is None or not offer.price_milli or not covers(budget, track.site):
            continue
        ends = ended_at if ended_at is not None else _ends(track, offer.lifetime_s, now)
        begins = max(now if track.joined_at is None else track.joined_at, spent.begins_at)
        yield cost_micro(offer.price_milli, min(ends, spent.ends_at) - begins)


def _ends(track: Track, lifetime_s: int, now: Instant) -> int:
    if track.ends_at is not None:
        return track.ends_at
    return (now if track.started_at is None else track.started_at) + lifetime_s


def _shown(micro: int) -> str:
    return f"{micro / MICRO:g}"
