"""What tables must agree on: names that exist, kinds that are installed, numbers that make sense together.

Raw tables and validated ones come in, findings go out. A table that did not validate is still checked
as far as it can be, so that people see all their mistakes at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError

from glidepath.config.fields import exact_duration
from glidepath.config.problems import PROBLEMS_MAX, Loc, did_you_mean
from glidepath.config.settings import CycleSettings, PolicySettings, Settings
from glidepath.config.site import AmountSettings, OfferSettings, SiteSettings, WindowSettings
from glidepath.config.wording import Finding, findings_of
from glidepath.core.quantity import Resources
from glidepath.core.text import one_line
from glidepath.core.units import shown_resources
from glidepath.plugins import BACKENDS, IMPORT_ERRORS, Catalog, PluginError, UnknownPlugin

Raw = Mapping[str, object]

POOLS_LISTED_MAX = 10  # A hint is one line; nobody reads a hundred names in it.


def amount_of(amount: AmountSettings | OfferSettings | None) -> Resources:
    if amount is None:
        return Resources()
    return Resources(amount.cpus, amount.memory, amount.disk, amount.gpus)


def check_cycle(cycle: CycleSettings) -> Iterable[Finding]:
    if cycle.max < cycle.min:
        shown = f"`{exact_duration(cycle.max)}` is shorter than `min`, `{exact_duration(cycle.min)}`"
        yield Finding(("cycle", "max"), shown, "give `max` at least the value of `min`")


def check_offer(at: Loc, offer: OfferSettings) -> Iterable[Finding]:
    if not offer.cpus:
        yield Finding((*at, "cpus"), "a pilot needs some CPU", "write at least `cpus = 1`")
    if not offer.memory:
        yield Finding((*at, "memory"), "a pilot needs some memory", 'write for example `memory = "2GiB"`')
    if offer.lifetime < offer.idle:
        yield Finding(
            (*at, "lifetime"),
            f"`{exact_duration(offer.lifetime)}` is shorter than `idle`, `{exact_duration(offer.idle)}`",
            "a pilot would end before it could be idle for long enough to leave",
        )
    if offer.fitted:
        yield from _check_fitted(at, offer)
    else:
        for key in ("min", "step", "choices"):
            if getattr(offer, key):
                yield Finding((*at, key), "is only for fitted offers", "add `fitted = true` or remove it")


def _check_fitted(at: Loc, offer: OfferSettings) -> Iterable[Finding]:
    size, least = amount_of(offer), amount_of(offer.min)
    if not least.fits_in(size):
        yield Finding(
            (*at, "min"),
            f"the smallest pilot, {shown_resources(least)}, is larger than the offer, "
            f"{shown_resources(size)}",
            "lower `min` or raise the size of the offer",
        )
    for key in sorted(set(offer.traits) & set(offer.choices)):
        yield Finding((*at, "choices", key), "is also in `traits`", "keep it in one of them")


def check_disk(settings: Settings) -> Iterable[Finding]:
    """Offers that jobs of HTCondor cannot use: good settings, and hardly what was meant."""
    condor = {name for name, pool in settings.pools.items() if pool.kind == "condor"}
    for site, table in sorted(settings.sites.items()):
        served = condor & set(table.pools) if table.pools else condor
        if not served:
            continue
        for name, offer in sorted(table.offers.items()):
            if not offer.disk:
                pool = one_line(min(served))
                yield Finding(
                    ("sites", site, "offers", name),
                    f"the offer has no disk, and every job of HTCondor in the pool `{pool}` asks for some",
                    'add for example `disk = "20GiB"`',
                )


def check_window(at: Loc, window: WindowSettings) -> Iterable[Finding]:
    if window.end <= window.start:
        yield Finding((*at, "end"), "the window ends before it starts", "swap `start` and `end`, or mend one")


def check_site_spans(at: Loc, site: SiteSettings) -> Iterable[Finding]:
    if site.backoff_max < site.backoff:
        yield Finding(
            (*at, "backoff_max"), "is shorter than `backoff`", "give it at least the value of `backoff`"
        )
    if site.appear_within <= site.listing_lag:
        yield Finding(
            (*at, "appear_within"),
            "is not longer than `listing_lag`",
            "every pilot would be written off before the site could list it",
        )


def check_site_parts(at: Loc, raw: Raw) -> Iterable[Finding]:
    """Offers and windows one by one: a mistake in one must not hide what is wrong with the next."""
    offers, windows = raw.get("offers"), raw.get("windows")
    if isinstance(offers, dict):
        for name, table in offers.items():
            if offer := _valid(OfferSettings, table):
                yield from check_offer((*at, "offers", name), offer)
    if not offers:
        yield Finding(at, "the site has no offer", "add a table such as `[sites.NAME.offers.worker]`")
    if isinstance(windows, list):
        for number, table in enumerate(windows):
            if window := _valid(WindowSettings, table):
                yield from check_window((*at, "windows", number), window)


def _valid(model: Any, table: object) -> Any:
    try:
        return model.model_validate(table)
    except ValidationError:
        return None  # Its own mistakes are reported by the validation of the table around it.


def check_pool_names(at: Loc, named: object, known: Iterable[str]) -> Iterable[Finding]:
    pools = frozenset(known)
    for place, name in enumerate(named if isinstance(named, list) else [named]):
        if isinstance(name, str) and name not in pools:
            loc = (*at, place) if isinstance(named, list) else at
            hint = _pools_hint(name, sorted(pools)) if place < PROBLEMS_MAX else ""
            yield Finding(loc, f"there is no pool `{one_line(name)}`", hint)


def check_site_names(at: Loc, named: object, known: Iterable[str]) -> Iterable[Finding]:
    sites = sorted(known)
    for place, name in enumerate(named if isinstance(named, list) else []):
        if isinstance(name, str) and name not in sites:
            listed = ", ".join(f"`{one_line(each)}`" for each in sites[:POOLS_LISTED_MAX])
            hint = did_you_mean(name, sites) or f"there are: {listed or 'none'}"
            told = f"there is no site `{one_line(name)}`"
            yield Finding((*at, place), told, hint if place < PROBLEMS_MAX else "")


def check_pool_limits(at: Loc, raw: Raw, known: Iterable[str]) -> Iterable[Finding]:
    limits, accepted = raw.get("pool_limits"), raw.get("pools")
    pools = frozenset(known)
    for name in limits if isinstance(limits, dict) else ():
        if name not in pools:
            hint = _pools_hint(str(name), sorted(pools))
            yield Finding((*at, "pool_limits", name), f"there is no pool `{one_line(str(name))}`", hint)
        elif isinstance(accepted, list) and accepted and name not in accepted:
            shown = f"the site does not accept the pool `{one_line(name)}`"
            yield Finding((*at, "pool_limits", name), shown, "add it to `pools`, or remove its limits")


def check_own_offers(at: Loc, site: SiteSettings) -> Iterable[Finding]:
    """What a kind's own table says of offers must be of offers that there are."""
    own = site.own.get("offers")
    for name in own if isinstance(own, dict) else ():
        if name not in site.offers:
            listed = ", ".join(f"`{one_line(each)}`" for each in sorted(site.offers)[:POOLS_LISTED_MAX])
            hint = did_you_mean(str(name), site.offers) or f"there are: {listed or 'none'}"
            yield Finding(
                (*at, site.kind, "offers", name), f"the site has no offer `{one_line(str(name))}`", hint
            )


def check_fitness(at: Loc, site: SiteSettings, catalog: Catalog) -> Iterable[Finding]:
    """What a kind itself knows to be impossible: sizes that it does not have, lives that it would cut."""
    try:
        plugin = catalog.load(BACKENDS, site.kind)
        own = own_values(plugin, site.own)
    except (PluginError, ValidationError, *IMPORT_ERRORS):
        return  # Already reported by the check of the kind.
    if callable(unfit := getattr(plugin, "unfit", None)):
        sizes = {name: amount_of(offer) for name, offer in site.offers.items() if not offer.fitted}
        for name, why in unfit(own, sizes):
            yield Finding((*at, "offers", name), why, "change `cpus` and `memory` of the offer")
    if callable(outlived := getattr(plugin, "outlived", None)):
        for name, why in outlived(own, {name: offer.lifetime for name, offer in site.offers.items()}):
            yield Finding(
                _where_said(at, site, name, "walltime"), why, "raise `walltime`, or lower the `lifetime`"
            )


def _where_said(at: Loc, site: SiteSettings, offer: str, key: str) -> Loc:
    """Where a key of the kind's own table stands that holds for an offer."""
    offers = site.own.get("offers")
    own = offers.get(offer) if isinstance(offers, dict) else None
    if isinstance(own, dict) and key in own:
        return (*at, site.kind, "offers", offer, key)
    return (*at, site.kind, key) if key in site.own else (*at, "offers", offer)


def check_cluster_name(at: Loc, name: object, known: Iterable[str]) -> Iterable[Finding]:
    clusters = sorted(known)
    if isinstance(name, str) and name not in clusters:
        yield Finding(at, f"there is no cluster `{one_line(name)}`", _pools_hint(name, clusters))


def _pools_hint(name: str, pools: list[str]) -> str:
    listed = ", ".join(f"`{one_line(pool)}`" for pool in pools[:POOLS_LISTED_MAX]) or "none"
    return did_you_mean(name, pools) or f"there are: {listed}"


def check_kind(at: Loc, raw: Raw, group: str, catalog: Catalog) -> Iterable[Finding]:
    """The kind must be installed, and the kind's own sub-table must be as the plug-in wants it."""
    kind = raw.get("kind")
    if not isinstance(kind, str) or not kind.strip():
        return
    try:
        plugin = catalog.load(group, kind)
    except UnknownPlugin:
        yield _unknown((*at, "kind"), kind, "kind", catalog.names(group))
        return
    except PluginError as error:
        yield Finding((*at, "kind"), str(error))
        return
    own = raw.get(kind, {})
    if not isinstance(own, dict):
        return
    try:
        own_values(plugin, own)
    except ValidationError as error:
        for found in findings_of(error, None, (*at, kind)):
            near = (
                did_you_mean(str(found.loc[-1]), own_keys(plugin)) if found.message == "unknown key" else ""
            )
            yield Finding(found.loc, found.message, found.hint or near)
    except IMPORT_ERRORS as error:
        said = f"{type(error).__name__}: {one_line(str(error))}"
        yield Finding((*at, kind), f"the plug-in `{one_line(kind)}` failed to check these keys: {said}")


def own_keys(plugin: object) -> tuple[str, ...]:
    """The keys that the kind's `Settings` name, be they a model or a dataclass."""
    model = getattr(plugin, "Settings", None)
    fields = getattr(model, "model_fields", None) or getattr(model, "__dataclass_fields__", {})
    return tuple(fields)


def own_values(plugin: object, own: Raw) -> dict[str, object]:
    """The kind's own keys as its `Settings` make them; without `Settings`, as they were written."""
    model = getattr(plugin, "Settings", None)
    if model is None:
        return dict(own)
    adapter: TypeAdapter[Any] = TypeAdapter(model)
    return dict(adapter.dump_python(adapter.validate_python(dict(own))))


def check_policy(policy: PolicySettings, raw: Raw, catalog: Catalog) -> Iterable[Finding]:
    try:
        plugin = catalog.load("glidepath.policies", policy.name)
    except UnknownPlugin:
        yield _unknown(("policy", "name"), policy.name, "policy", catalog.names("glidepath.policies"))
        return
    except PluginError as error:
        yield Finding(("policy", "name"), str(error))
        return
    numbers = getattr(plugin, "NUMBERS", None)
    if not isinstance(numbers, Mapping):
        return
    wrong = [_wrong_number(key, numbers, raw) for key in policy.numbers if key not in numbers]
    yield from wrong
    if not wrong and callable(plugin):
        try:
            plugin(policy.numbers)
        except ValueError as error:
            yield Finding(("policy",), one_line(str(error)))


def _wrong_number(key: str, numbers: Mapping[str, int], raw: Raw) -> Finding:
    written = key if key in raw else key.removesuffix("_s")
    loc: Loc = ("policy", written)
    if f"{written}_s" in numbers:
        return Finding(loc, "is a duration and needs a unit", f'write for example `{written} = "5m"`')
    if written in numbers:
        return Finding(
            loc, "is a whole number without a unit", f"write for example `{written} = {numbers[written]}`"
        )
    known = [name.removesuffix("_s") for name in numbers]
    listed = ", ".join(f"`{name}`" for name in known) or "no numbers"
    return Finding(loc, "unknown key", did_you_mean(written, known) or f"the policy has {listed}")


def _unknown(loc: Loc, word: str, noun: str, known: tuple[str, ...]) -> Finding:
    listed = "installed: " + (", ".join(f"`{one_line(name)}`" for name in known) or "none")
    near = did_you_mean(word, known)
    return Finding(loc, f"there is no {noun} `{one_line(word)}`", f"{near} {listed}" if near else listed)
