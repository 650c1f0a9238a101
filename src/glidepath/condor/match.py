"""Which offers fit a job: real two-way ClassAd matching against the slot that each offer would bring.

Job ads and checked requests come in, offers go out. A fitted offer is tried at the size it would have for
this job. Answers are kept by everything that they depend on, since most jobs ask the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice, product
from typing import NamedTuple

from glidepath.condor.binding import ClassAd, ClassAdException, ExprTree, Value
from glidepath.condor.evaluate import KIB_PER_MIB, BadJob
from glidepath.condor.refs import TEXT_LETTERS_MAX, TEXTS_KEPT_MAX, References
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


class _Known(NamedTuple):
    """Of a text of requirements: the attributes of the job that it looks at, and whether the hour counts."""

    names: tuple[str, ...]
    timed: bool


class _Job(NamedTuple):
    ad: ClassAd
    requirements: ExprTree


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
        self._texts: dict[str, _Known] = {}
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
        known = self._texts.get(text) or self._known(requirements, text)
        key = self._key(ad, request, known.names, text)
        if known.timed:
            key = (*key, now_s // MINUTE_S)
        found = self._fits.get(key)
        if found is None:
            if len(self._fits) >= FITS_KEPT_MAX:
                self._fits.clear()
            found = self._fits[key] = self._matched(_Job(with_request(ad, request), requirements), request)
        return found

    def _known(self, requirements: ExprTree, text: str) -> _Known:
        if len(text) > TEXT_LETTERS_MAX:
            raise BadJob(f"Requirements has {len(text)} letters, more than {TEXT_LETTERS_MAX}")
        if len(self._texts) >= TEXTS_KEPT_MAX:
            self._texts.clear()
        names = (self._refs.own(requirements, text) | self.needed) - REQUESTS
        known = self._texts[text] = _Known(tuple(sorted(names)), "time" in text.lower())
        return known

    def _key(self, ad: ClassAd, request: Resources, names: tuple[str, ...], text: str) -> tuple[object, ...]:
        seen: set[str] = set()
        parts: list[object] = [text, request]
        level = names
        for _ in range(DEPTH_MAX):
            further: set[str] = set()
            for name in level:
                value = ad.get(name)
                if value is None:
                    continue
                if isinstance(value, ExprTree):
                    value_text = str(value)
                    further |= self._refs.own(value, value_text)
                    parts.append((name, value_text))
                else:
                    parts.append((name, value if isinstance(value, (int, str, float)) else str(value)))
            if not further:
                break
            seen.update(level)
            level = tuple(sorted(further - seen - REQUESTS))
        return tuple(parts)

    def _matched(self, job: _Job, request: Resources) -> Fit:
        traits = self._traits(job, request)
        shape = Shape(request, traits)
        found = [offer.key for offer in self.offers if self._fits_one(job, offer, shape)]
        return Fit(tuple(found), traits if found else ())

    def _fits_one(self, job: _Job, offer: Offer, shape: Shape) -> bool:
        kind = kind_for(offer, shape)
        slot = self.slot(kind) if kind is not None else None
        return slot is not None and matches(job.ad, slot, job.requirements)

    def _traits(self, job: _Job, request: Resources) -> Traits:
        """The traits that a fitted offer has to choose so that the job runs; none where none must be."""
        for offer in self.offers:
            if not offer.choices or not offer.fitted or self._fits_one(job, offer, Shape(request)):
                continue
            names = [name for name, _ in offer.choices]
            ways = product(*(values for _, values in offer.choices))
            for values in islice(ways, COMBINATIONS_MAX):
                traits = tuple(sorted(zip(names, values, strict=True)))
                if self._fits_one(job, offer, Shape(request, traits)):
                    return traits
        return ()


def matches(job: ClassAd, slot: ClassAd, requirements: ExprTree | None = None) -> bool:
    """Both ways, as the negotiator does it. What cannot be evaluated does not match.

    The job's requirements can be given where they were looked up before: each time makes a copy of them.
    """
    try:
        if requirements is None:
            return bool(slot.matches(job) and job.matches(slot))
        result = requirements.eval(scope=job, target=slot)
        # Undefined and error pass for numbers, and are not true.
        if isinstance(result, Value) or not isinstance(result, (bool, int, float)):
            return False
        return bool(result) and bool(job.matches(slot))
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
