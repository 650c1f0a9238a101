"""What sites offer and what they, the pools and the owners allow: the rules that `decide` works under.

Settings are turned into these values once, by `glidepath.config`; `None` means that there is no limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from glidepath.core.quantity import HashedOnce, OfferKey, Owner, PoolName, Resources, Shape, SiteName, Traits

# Offers times shapes of a large pool; the same question comes in every cycle.
KINDS_KEPT_MAX = 200_000
# Of one offer; more than any pool has at a time.
SHAPES_KEPT_MAX = 20_000


@dataclass(frozen=True, slots=True)
class Limits:
    """How many pilots at most: alive, waiting to start, asked for in one cycle and in one second."""

    live_max: int | None = None
    pending_max: int | None = None
    per_cycle_max: int | None = None
    per_s_max: int | None = None


class JobKind(StrEnum):
    """Which jobs the pilots of an offer take."""

    ANY = "any"
    CPU = "cpu"  # only those that ask for no GPU
    GPU = "gpu"  # only those that ask for one at least

    def takes(self, request: Resources) -> bool:
        return self is JobKind.ANY or (request.gpus > 0) is (self is JobKind.GPU)


class First(StrEnum):
    """What the demand that is served first has most of."""

    GPUS = "gpus"
    CPUS = "cpus"
    MEMORY = "memory"
    DISK = "disk"
    OLDEST = "oldest"  # how long its oldest job has waited
    JOBS = "jobs"  # how many of them wait


class Answered:
    """What an offer was asked for already, and answers again in every cycle; gone when the offer is."""

    __slots__ = ("_key", "_kind", "_kinds")
    _key: OfferKey
    _kind: Kind
    _kinds: dict[Shape, Kind | None]


@dataclass(frozen=True, slots=True)
class Offer(Answered):
    """One kind of pilot that a site can start.

    A fixed offer has one size. A fitted one is sized from the shape it is started for: rounded up to
    `step`, at least `size_min`, at most `size`; the traits named in `choices` are taken from the shape.
    """

    site: SiteName
    name: str
    size: Resources
    size_min: Resources | None = None
    step: Resources = Resources()
    traits: Traits = ()
    choices: tuple[tuple[str, tuple[str, ...]], ...] = ()
    lifetime_s: int = 14 * 3600
    idle_s: int = 600
    limits: Limits = Limits()
    weight: int = 100
    price_milli: int = 0
    together: int = 1  # pilots that one request to the site starts, as a batch job of several nodes does
    jobs: JobKind = JobKind.ANY

    @property
    def key(self) -> OfferKey:
        try:
            return self._key
        except AttributeError:
            found = OfferKey(f"{self.site}/{self.name}")
            object.__setattr__(self, "_key", found)
            return found

    def __hash__(self) -> int:
        # Of its name alone: the rest takes a microsecond each time, and no two offers share a name.
        return hash((self.site, self.name))

    @property
    def kind(self) -> Kind:
        """The largest that it has, which is the only one of a fixed offer."""
        try:
            return self._kind
        except AttributeError:
            found = kind_of(self.key, self.size, self.traits)
            object.__setattr__(self, "_kind", found)
            return found

    @property
    def fitted(self) -> bool:
        return self.size_min is not None


@dataclass(frozen=True, slots=True)
class Kind(HashedOnce):
    """Pilots that are interchangeable: same offer, size and traits. A fixed offer has exactly one."""

    __hash__ = HashedOnce.__hash__

    offer: OfferKey
    size: Resources
    traits: Traits = ()


@lru_cache(maxsize=KINDS_KEPT_MAX)
def kind_of(offer: OfferKey, size: Resources, traits: Traits) -> Kind:
    """The same for the same: pilots are counted by their kind in every cycle."""
    return Kind(offer, size, traits)


def kind_for(offer: Offer, shape: Shape) -> Kind | None:
    """The kind of pilot that this offer would start for the shape; None where none of it could fit."""
    try:
        return offer._kinds[shape]
    except AttributeError:
        object.__setattr__(offer, "_kinds", {})
    except KeyError:
        if len(offer._kinds) >= SHAPES_KEPT_MAX:
            offer._kinds.clear()
    found = offer._kinds[shape] = worked_out(offer, shape)
    return found


def worked_out(offer: Offer, shape: Shape) -> Kind | None:
    size = offer.size
    if offer.size_min is not None:
        size = shape.request.largest(offer.size_min).rounded_up(offer.step).smallest(offer.size)
    if not shape.request.fits_in(size) or not offer.jobs.takes(shape.request):
        return None
    offered, choices, taken = dict(offer.traits), dict(offer.choices), dict(offer.traits)
    for key, value in shape.traits:
        if value in choices.get(key, ()) and offer.fitted:
            taken[key] = value
        elif offered.get(key) != value:
            return None
    return kind_of(offer.key, size, tuple(sorted(taken.items())))


@dataclass(frozen=True, slots=True)
class SiteRules:
    """What holds at one site, and how patient we are with it."""

    name: SiteName
    offers: tuple[Offer, ...]
    pools: tuple[PoolName, ...] = ()  # accepted pools; none named means all
    limits: Limits = Limits()
    stale_s_max: int = 180  # a listing older than this is not acted on
    listing_lag_s: int = 0  # how far the site's listing trails its queue
    appear_s_max: int = 600  # how long an asked-for pilot may stay unlisted before it is written off
    missing_s_max: int = 300  # how long a pilot may be missing from the listing before it is written off
    pending_s_max: int = 6 * 3600
    patience_s: int = 900  # a pilot pending for longer no longer keeps others from being asked for
    failures_max: int = 5  # failures in a row that open the breaker of an offer; twice that the site's
    backoff_s: int = 60
    backoff_s_max: int = 3600
    refused_s: int = 600  # after a refusal: how long until one pilot is tried again
    drain_lead_s: int = 3600  # before a window: pilots that would outlive its start are drained
    node_failures_max: int = 3
    quarantine_s: int = 3600
    repeat_s: int = 120  # so long something on the way may repeat a create; until then its name is kept there
    pool_limits: tuple[tuple[PoolName, Limits], ...] = ()  # over the pilots that one pool has here
    # A site unseen for longer loses its share: what is on its way there keeps nothing from others any more.
    share_lost_s: int | None = None


@dataclass(frozen=True, slots=True)
class PoolRules:
    name: PoolName
    limits: Limits = Limits()
    stale_s_max: int = 180  # demand and slots older than this are not acted on
    hold_s: int = 600  # unseen demand is held this long at its last value,
    decay_s: int = 600  # and then falls to nothing over this span
    silence_s_max: int = 900  # a pilot that joined and is no longer heard counts as unknown, not as gone


@dataclass(frozen=True, slots=True)
class OwnerRules:
    owner: Owner
    limits: Limits = Limits()


@dataclass(frozen=True, slots=True)
class Budget:
    """What pilots of some sites may cost together in one period, at the prices of their offers."""

    name: str
    amount_micro: int
    sites: tuple[SiteName, ...] = ()  # none named means all


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """A policy by name and its numbers, as they stand in the journal."""

    name: str = "steady"
    numbers: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Rules:
    """Everything that configuration says to the provisioning core."""

    pools: tuple[PoolRules, ...]
    sites: tuple[SiteRules, ...]
    owners: tuple[OwnerRules, ...] = ()
    policy: PolicyRule = PolicyRule()
    cycle_s_min: int = 10
    cycle_s_max: int = 120
    withdraw_after_s: int = 120  # hysteresis: a pending pilot goes when it was surplus for this long
    left_s_min: int = 300  # a free slot with less life left than this is of no use to anyone
    slack_s: int = 120  # of a pilot's life that is gone before its first job starts: joining, matching
    useful_s_min: int = 900  # a pilot that could live less than this before a window is not started
    limits: Limits = Limits()
    # What is served before the rest, and whether that with least of it comes first; else in the order of
    # `look`, which is also how what is equal in all of these is told apart.
    first: tuple[tuple[First, bool], ...] = ()
    budgets: tuple[Budget, ...] = ()

    def offers(self) -> dict[OfferKey, Offer]:
        return {offer.key: offer for site in self.sites for offer in site.offers}
