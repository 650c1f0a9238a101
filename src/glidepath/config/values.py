"""Settings come in, the values that the core decides with go out, sorted by name.

The same settings give the same rules on every machine, whatever the order of the files.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from glidepath.config.accounting import AccountingSettings
from glidepath.config.checks import amount_of, own_values
from glidepath.config.cluster import OWN_KINDS, ClusterKinds, ClusterSettings, PartitionSettings
from glidepath.config.settings import PoolSettings, Settings
from glidepath.config.site import OfferSettings, SiteSettings
from glidepath.config.tables import LimitSettings
from glidepath.core.provision.offer import (
    Budget,
    First,
    JobKind,
    Limits,
    Offer,
    OwnerRules,
    PolicyRule,
    PoolRules,
    Rules,
    SiteRules,
)
from glidepath.core.quantity import NodeName, OfferKey, Owner, PoolName, SiteName
from glidepath.core.schedule.cluster import Partition, PartitionName, Queue
from glidepath.core.schedule.job import Book
from glidepath.plugins import BACKENDS, DEMAND, Catalog, Installed, PluginError
from glidepath.terms import OfferTerms


def rules_of(settings: Settings, *, catalog: Catalog | None = None) -> Rules:
    """Everything that the configuration says to the provisioning core."""
    found = catalog or Installed()
    return Rules(
        pools=tuple(_pool(name, pool) for name, pool in sorted(settings.pools.items())),
        sites=tuple(_site(name, site, found) for name, site in sorted(settings.sites.items())),
        owners=tuple(
            OwnerRules(Owner(name), _limits(owner.limits)) for name, owner in sorted(settings.owners.items())
        ),
        policy=PolicyRule(settings.policy.name, tuple(sorted(settings.policy.numbers.items()))),
        cycle_s_min=settings.cycle.min,
        cycle_s_max=settings.cycle.max,
        withdraw_after_s=settings.pilots.withdraw_after,
        left_s_min=settings.pilots.left_min,
        slack_s=settings.pilots.join_slack,
        useful_s_min=settings.pilots.useful_min,
        limits=_limits(settings.limits),
        budgets=tuple(budget for budget, _ in budgets_of(settings)),
        first=tuple((First(word.removeprefix("-")), word.startswith("-")) for word in settings.first),
    )


def windows_of(settings: Settings) -> tuple[tuple[SiteName, int, int, str], ...]:
    """Maintenance windows as (site, start, end, why) in wall seconds; an odd fraction closes longer."""
    return tuple(
        (SiteName(name), math.floor(window.start.timestamp()), math.ceil(window.end.timestamp()), window.why)
        for name, site in sorted(settings.sites.items())
        for window in sorted(site.windows, key=lambda each: (each.start, each.end, each.why))
    )


def budgets_of(settings: Settings) -> tuple[tuple[Budget, str], ...]:
    """Budgets in their order, each with how long a period is."""
    return tuple(
        (Budget(name, table.amount * 1000, tuple(map(SiteName, sorted(set(table.sites))))), table.per)
        for name, table in sorted(settings.budgets.items())
    )


def prices_of(settings: Settings) -> dict[str, int]:
    """What a pilot of each offer costs in an hour, in thousandths."""
    return {
        f"{site}/{name}": offer.price
        for site, table in settings.sites.items()
        for name, offer in table.offers.items()
    }


def terms_of(settings: Settings) -> dict[OfferKey, OfferTerms]:
    """Whom each offer serves and what its pilots say, for the doors of pools."""
    return {
        OfferKey(f"{site}/{name}"): _terms(offer)
        for site, table in sorted(settings.sites.items())
        for name, offer in sorted(table.offers.items())
    }


def _terms(offer: OfferSettings) -> OfferTerms:
    condor = offer.condor
    return OfferTerms(
        community=offer.community,
        owners=tuple(sorted(set(offer.owners))),
        owners_refused=tuple(sorted(set(offer.owners_refused))),
        groups=tuple(sorted(set(offer.groups))),
        groups_refused=tuple(sorted(set(offer.groups_refused))),
        attributes=tuple((name, _classad(value)) for name, value in sorted(condor.attributes.items())),
        start=condor.start,
        lines=condor.lines,
        init=condor.init,
        jobs=offer.jobs,
    )


def _classad(value: str | bool | int | float) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return repr(value)


def partitions_of(settings: Settings) -> tuple[tuple[str, PoolName], ...]:
    """Partitions and their pools; an embedded pool that no partition names has one of its own name."""
    named = {name: part.pool for name, part in settings.partitions.items() if part.pool is not None}
    queues = [name for name, pool in settings.pools.items() if pool.kind == "embedded"]
    own = {pool: pool for pool in queues if pool not in named.values()}
    return tuple((name, PoolName(pool)) for name, pool in sorted({**own, **named}.items()))


def placed_of(settings: Settings) -> dict[str, str]:
    """Placed partitions and their clusters, by name."""
    found = {name: part.cluster for name, part in sorted(settings.partitions.items())}
    return {name: cluster for name, cluster in found.items() if cluster is not None}


def partition_rules(name: str, part: PartitionSettings) -> Partition:
    return Partition(
        name=PartitionName(name),
        nodes=tuple(NodeName(node) for node in part.nodes),
        queues=tuple(Queue(queue) for queue in part.queues),
        limit_s_max=part.limit_max,
        endless=part.endless,
    )


def book_of(cluster: ClusterSettings, accounting: AccountingSettings) -> Book:
    """How the queues of a cluster are run."""
    cap = amount_of(cluster.user_cap)
    return Book(
        keep=cluster.keep,
        user_cap=cap if cap else None,
        user_jobs_max=cluster.user_jobs_max,
        notice_s=cluster.notice,
        fair=accounting.fair,
        half_life_s=accounting.half_life,
    )


def cluster_own(cluster: ClusterSettings) -> Mapping[str, object]:
    """The kind's own keys as it validated them, with its defaults; none where the kind has none."""
    if cluster.kind not in OWN_KINDS:
        return {}
    return own_values(ClusterKinds().load("", cluster.kind), cluster.own)


def kind_settings(
    table: SiteSettings | PoolSettings, *, catalog: Catalog | None = None
) -> Mapping[str, object]:
    """The kind's own keys as its plug-in validated them, with its defaults, for the door's constructor."""
    group = BACKENDS if isinstance(table, SiteSettings) else DEMAND
    return own_values((catalog or Installed()).load(group, table.kind), table.own)


def _limits(limits: LimitSettings) -> Limits:
    return Limits(limits.live_max, limits.pending_max, limits.per_cycle_max, limits.per_second_max)


def _pool(name: str, pool: PoolSettings) -> PoolRules:
    return PoolRules(
        name=PoolName(name),
        limits=_limits(pool.limits),
        stale_s_max=pool.stale_after,
        hold_s=pool.hold,
        decay_s=pool.decay,
        silence_s_max=pool.silent_after,
    )


def _together(site: SiteSettings, catalog: Catalog) -> Mapping[str, int]:
    """Pilots that one request starts, by offer, where the kind knows more than one. A kind that cannot be
    loaded starts none at all, which is said where its backend is made."""
    try:
        asked = getattr(catalog.load(BACKENDS, site.kind), "together", None)
        return asked(kind_settings(site, catalog=catalog), tuple(site.offers)) if callable(asked) else {}
    except (PluginError, ValueError):
        return {}


def _site(name: str, site: SiteSettings, catalog: Catalog) -> SiteRules:
    together = _together(site, catalog)
    return SiteRules(
        name=SiteName(name),
        offers=tuple(
            _offer(SiteName(name), each, offer, together.get(each, 1))
            for each, offer in sorted(site.offers.items())
        ),
        pools=tuple(PoolName(pool) for pool in sorted(set(site.pools))),
        limits=_limits(site.limits),
        stale_s_max=site.stale_after,
        listing_lag_s=site.listing_lag,
        appear_s_max=site.appear_within,
        missing_s_max=site.missing_after,
        pending_s_max=site.pending_max_age,
        patience_s=site.patience,
        failures_max=site.failures_max,
        backoff_s=site.backoff,
        backoff_s_max=site.backoff_max,
        refused_s=site.refused_wait,
        drain_lead_s=site.drain_lead,
        node_failures_max=site.node_failures_max,
        quarantine_s=site.quarantine,
        repeat_s=site.repeat_within,
        pool_limits=tuple(
            (PoolName(pool), _limits(limits)) for pool, limits in sorted(site.pool_limits.items())
        ),
        share_lost_s=site.share_lost_after or None,
    )


def _offer(site: SiteName, name: str, offer: OfferSettings, together: int) -> Offer:
    return Offer(
        site=site,
        name=name,
        size=amount_of(offer),
        size_min=amount_of(offer.min) if offer.fitted else None,
        step=amount_of(offer.step),
        traits=tuple(sorted(offer.traits.items())),
        choices=tuple(sorted((key, tuple(sorted(set(values)))) for key, values in offer.choices.items())),
        lifetime_s=offer.lifetime,
        idle_s=offer.idle,
        limits=_limits(offer.limits),
        weight=offer.weight,
        price_milli=offer.price,
        together=together,
        jobs=JobKind(offer.jobs),
    )
