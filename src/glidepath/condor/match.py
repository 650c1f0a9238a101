"""Which offers fit a job: real two-way ClassAd matching against the slot that each offer would bring.

Job ads and checked requests come in, offers go out. A fitted offer is tried at the size it would have for
this job. Answers are kept by everything that they depend on, since most jobs ask the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice, product
from typing import NamedTuple

from glidepath.condor.binding import ClassAd, ClassAdException, ExprTree
from glidepath.condor.evaluate import KIB_PER_MIB, BadJob
from glidepath.condor.refs import TEXT_LETTERS_MAX, References
from glidepath.condor.slotad import ad_text, slot_attributes, start_terms
from glidepath.core.provision.offer import Kind, Offer, kind_for, kind_of
from glidepath.core.quantity import OfferKey, Resources, Shape, Traits
from glidepath.terms import NO_TERMS, OfferTerms

# Requirements times requests of a large pool; each answer is a few hundred bytes.
FITS_KEPT_MAX = 100_000
SLOTS_KEPT_MAX = 20_000
# Values of chosen traits that are tried together; more would be a mistake in the configuration.
COMBINATIONS_MAX = 64
# How deep a job's attributes may lead to one another; HTCondor itself gives up at about as many.
DEPTH_MAX = 16
# These are compared as numbers, not as texts.
REQUESTS = frozenset({"requestcpus", "requestmemory", "requestdisk", "requestgpus"})
# What depends on the hour is asked again each minute.
MINUTE_S = 60


class Fit(NamedTuple):
    """The offers that fit, and the traits that fitted ones must choose for it."""

    offers: tuple[OfferKey, ...] = ()
    traits: Traits = ()


class Matcher:
    """The offers of one configuration, ready to be matched."""

    def __init__(
        self,
        offers: Iterable[Offer],
        terms: Mapping[OfferKey, OfferTerms],
        *,
        route: str,
        references: References,
    ) -> None:
        self.route = route
        self.bad: dict[OfferKey, str] = {}
        self._terms = terms
        self._refs = references
        self._slots: dict[Kind, ClassAd | None] = {}
        self._fits: dict[tuple[object, ...], Fit] = {}
        needed: set[str] = set()
        usable = []
        for offer in sorted(offers, key=lambda each: each.key):
            try:
                needed |= self._start_names(offer.key)
                self._built(offer.key, offer.size, offer.traits)
            except ClassAdException:
                self.bad[offer.key] = "its attributes or its terms of `start` are not ClassAd text"
                continue
            usable.append(offer)
        self.offers: Sequence[Offer] = tuple(usable)
        # Attributes of jobs that the slots look at; they must be asked for with every job.
        self.needed = frozenset(needed)

    def _start_names(self, key: OfferKey) -> frozenset[str]:
        names: frozenset[str] = frozenset()
        for term in start_terms(self._terms.get(key, NO_TERMS), route=self.route):
            names |= self._refs.target(ExprTree(term), term)
        return names

    def _built(self, key: OfferKey, size: Resources, traits: Traits) -> ClassAd:
        terms = self._terms.get(key, NO_TERMS)
        return ClassAd(ad_text(slot_attributes(size, traits, terms, route=self.route)))

    def slot(self, kind: Kind) -> ClassAd | None:
        if kind not in self._slots:
            if len(self._slots) >= SLOTS_KEPT_MAX:
                self._slots.clear()
            try:
                self._slots[kind] = self._built(kind.offer, kind.size, kind.traits)
            except ClassAdException:
                self._slots[kind] = None
        return self._slots[kind]

    def largest(self, offer: Offer) -> ClassAd | None:
        """The slot of the largest pilot of the offer, to show why even that does not fit."""
        return self.slot(kind_of(offer.key, offer.size, offer.traits))

    def fit(self, ad: ClassAd, request: Resources, *, now_s: float) -> Fit:
        """What fits the job, from memory where the same was asked before."""
        try:
            requirements = ad.lookup("Requirements")
        except KeyError:
            return Fit()
        text = str(requirements)
        if len(text) > TEXT_LETTERS_MAX:
            raise BadJob(f"Requirements has {len(text)} letters, more than {TEXT_LETTERS_MAX}")
        key = self._key(ad, request, requirements, text)
        if "time" in text.lower():
            key = (*key, now_s // MINUTE_S)
        found = self._fits.get(key)
        if found is None:
            if len(self._fits) >= FITS_KEPT_MAX:
                self._fits.clear()
            found = self._fits[key] = self._matched(with_request(ad, request), request)
        return found

    def _key(self, ad: ClassAd, request: Resources, requirements: ExprTree, text: str) -> tuple[object, ...]:
        seen: set[str] = set()
        parts: list[object] = [text, request.as_tuple()]
        level = (self._refs.own(requirements, text) | self.needed) - REQUESTS
        for _ in range(DEPTH_MAX):
            further: set[str] = set()
            for name in sorted(level):
                value = ad.get(name)
                if value is None:
                    continue
                if isinstance(value, ExprTree):
                    value_text = str(value)
                    further |= self._refs.own(value, value_text)
                    parts.append((name, value_text))
                else:
                    parts.append((name, value if isinstance(value, (int, str, float)) else str(value)))
            seen |= level
            level = frozenset(further - seen - REQUESTS)
            if not level:
                break
        return tuple(parts)

    def _matched(self, ad: ClassAd, request: Resources) -> Fit:
        traits = self._traits(ad, request)
        shape = Shape(request, traits)
        found = [offer.key for offer in self.offers if self._fits_one(ad, offer, shape)]
        return Fit(tuple(found), traits if found else ())

    def _fits_one(self, ad: ClassAd, offer: Offer, shape: Shape) -> bool:
        kind = kind_for(offer, shape)
        slot = self.slot(kind) if kind is not None else None
        return slot is not None and matches(ad, slot)

    def _traits(self, ad: ClassAd, request: Resources) -> Traits:
        """The traits that a fitted offer has to choose so that the job runs; none where none must be."""
        for offer in self.offers:
            if not offer.choices or not offer.fitted or self._fits_one(ad, offer, Shape(request)):
                continue
            names = [name for name, _ in offer.choices]
            ways = product(*(values for _, values in offer.choices))
            for values in islice(ways, COMBINATIONS_MAX):
                traits = tuple(sorted(zip(names, values, strict=True)))
                if self._fits_one(ad, offer, Shape(request, traits)):
                    return traits
        return ()


def matches(job: ClassAd, slot: ClassAd) -> bool:
    """Both ways, as the negotiator does it. What cannot be evaluated does not match."""
    try:
        return bool(slot.matches(job) and job.matches(slot))
    except ClassAdException:
        return False


def with_request(ad: ClassAd, request: Resources) -> ClassAd:
    """The job with what HTCondor would add: an amount that it does not state is not undefined to a slot."""
    amounts = {
        "RequestCpus": request.cpu_milli // 1000,
        "RequestMemory": request.memory_mib,
        "RequestDisk": request.disk_mib * KIB_PER_MIB,
    }
    for name, amount in amounts.items():
        if name not in ad:
            ad[name] = amount
    return ad
