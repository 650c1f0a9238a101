"""Offers: the kind of pilot that an offer would start for a shape, or that it cannot."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.leaf_builders import WEST, WEST_BIG, a_shape, an_offer, resources
from glidepath.core.provision.offer import (
    SHAPES_KEPT_MAX,
    Kind,
    Offer,
    Rules,
    SiteRules,
    kind_for,
    worked_out,
)
from glidepath.core.quantity import OfferKey, PoolName, Resources, Shape, SiteName

EIGHT = Resources(8000, 16384, 4096, 2)
LEAST = Resources(1000, 1024)


def fixed(**more: Any) -> Offer:
    return an_offer(size=EIGHT, **more)


def fitted(**more: Any) -> Offer:
    return an_offer(**{"size": EIGHT, "size_min": LEAST, "step": Resources(2000, 1024, 0, 0), **more})


@pytest.mark.parametrize(
    ("offer", "shape", "size"),
    [
        # A fixed offer has one size, however small the job.
        (fixed(), a_shape(1), EIGHT),
        (fixed(), Shape(Resources()), EIGHT),
        (fixed(), Shape(EIGHT), EIGHT),
        (fixed(), a_shape(8001), None),
        (fixed(), a_shape(1000, 16385), None),
        (fixed(), a_shape(disk_mib=4097), None),
        (fixed(), a_shape(gpus=3), None),
        # A fitted one is sized from the shape: rounded up, at least the minimum, at most the maximum.
        (fitted(), a_shape(3000, 5000), Resources(4000, 5120)),
        (fitted(), a_shape(4000, 5120), Resources(4000, 5120)),
        (fitted(), a_shape(1, 1), Resources(2000, 1024)),
        (fitted(), Shape(Resources()), Resources(2000, 1024)),
        (fitted(), a_shape(7000, 16000, disk_mib=77, gpus=2), Resources(8000, 16384, 77, 2)),
        (fitted(), Shape(EIGHT), EIGHT),
        (fitted(), a_shape(8001), None),
        (fitted(), a_shape(1000, 16385), None),
        (fitted(), a_shape(disk_mib=4097), None),
        (fitted(), a_shape(gpus=3), None),
        # Where a step leads over the maximum, the maximum is the last size.
        (fitted(step=Resources(3000, 10_000)), a_shape(7000, 11_000), Resources(8000, 16_384)),
        (fitted(step=Resources(gpus=3)), a_shape(gpus=1), Resources(1000, 1024, 0, 2)),
        (fitted(step=Resources(99_000, 99_999)), a_shape(), Resources(8000, 16_384)),
        (fitted(step=Resources(3000)), a_shape(8001), None),
        (fitted(size_min=Resources(9000)), a_shape(), Resources(8000, 1024)),
        (fitted(step=Resources(gpus=2)), a_shape(gpus=1), Resources(1000, 1024, 0, 2)),
    ],
)
def test_size_follows_the_offer(offer: Offer, shape: Shape, size: Resources | None) -> None:
    assert kind_for(offer, shape) == (None if size is None else Kind(WEST_BIG, size))


ROCKY = (("os", "rocky9"),)
A100 = (("gpu", "a100"),)
CHOICES = (("gpu", ("a100", "h100")), ("volume", ("cvmfs",)))


@pytest.mark.parametrize(
    ("offer", "wanted", "traits"),
    [
        # Offered traits come along with every pilot, and are all that a fixed offer grants.
        (fixed(traits=ROCKY), (), ROCKY),
        (fixed(traits=ROCKY), ROCKY, ROCKY),
        (fixed(traits=ROCKY), (("os", "el7"),), None),
        (fixed(traits=ROCKY), A100, None),
        (fixed(choices=CHOICES), A100, None),
        (fixed(traits=A100, choices=CHOICES), A100, A100),
        # A fitted one takes the GPU type and the volumes from the shape, out of its choices only.
        (fitted(traits=ROCKY, choices=CHOICES), (), ROCKY),
        (fitted(traits=ROCKY, choices=CHOICES), A100, (*A100, *ROCKY)),
        (fitted(choices=CHOICES), (*A100, ("volume", "cvmfs")), (*A100, ("volume", "cvmfs"))),
        (fitted(choices=CHOICES), (("gpu", "v100"),), None),
        (fitted(choices=CHOICES), (("gpu", ""),), None),
        (fitted(choices=CHOICES), (("volume", "home"),), None),
        (fitted(choices=CHOICES), (("gpu", "a100"), ("mpi", "yes")), None),
        (fitted(traits=(("gpu", "v100"),), choices=CHOICES), A100, A100),
        (fitted(traits=(("gpu", "v100"),), choices=CHOICES), (("gpu", "v100"),), (("gpu", "v100"),)),
    ],
)
def test_traits_are_offered_chosen_or_refused(
    offer: Offer, wanted: tuple[tuple[str, str], ...], traits: tuple[tuple[str, str], ...] | None
) -> None:
    found = kind_for(offer, a_shape(2000, 1024, wanted))
    assert (found.traits if found else None) == traits


@st.composite
def offers(draw: st.DrawFn) -> Offer:
    size_min = draw(st.none() | resources(30))
    step = draw(resources(6))
    values = st.lists(st.sampled_from(["x", "y", "z"]), unique=True).map(tuple)
    choices = tuple((key, draw(values)) for key in draw(st.sampled_from([(), ("gpu",), ("gpu", "volume")])))
    traits = draw(st.sampled_from([(), (("gpu", "x"),), (("os", "x"),), (("gpu", "y"), ("os", "x"))]))
    return an_offer(size=draw(resources(40)), size_min=size_min, step=step, choices=choices, traits=traits)


SHAPES = st.builds(
    Shape,
    resources(40),
    st.dictionaries(st.sampled_from(["gpu", "os", "volume"]), st.sampled_from("xyz")).map(
        lambda traits: tuple(sorted(traits.items()))
    ),
)


@given(offers(), SHAPES)
def test_whatever_kind_is_found_holds_the_job_and_stays_within_the_offer(offer: Offer, shape: Shape) -> None:
    kind = kind_for(offer, shape)
    if kind is None:
        return
    assert kind.offer == offer.key
    assert shape.request.fits_in(kind.size)
    assert kind.size.fits_in(offer.size)
    assert set(shape.traits) <= set(kind.traits)
    assert kind.traits == tuple(sorted(kind.traits))
    if offer.size_min is None:
        assert (kind.size, kind.traits) == (offer.size, offer.traits)
    else:
        assert offer.size_min.smallest(offer.size).fits_in(kind.size)
        parts = (kind.size, kind.size.rounded_up(offer.step), offer.size)
        for got, stepped, most in zip(*(part.as_tuple() for part in parts), strict=True):
            assert got in (stepped, most)


@given(offers(), SHAPES)
def test_a_job_that_fits_the_offers_maximum_is_never_turned_away_for_its_size(
    offer: Offer, shape: Shape
) -> None:
    assert (kind_for(offer, Shape(shape.request)) is not None) is shape.request.fits_in(offer.size)


@given(offers(), SHAPES)
def test_a_job_of_the_pilots_own_size_gets_the_same_pilot(offer: Offer, shape: Shape) -> None:
    kind = kind_for(offer, shape)
    if kind is not None:
        again = kind_for(offer, Shape(kind.size, shape.traits))
        assert again == kind


@pytest.mark.parametrize(
    ("one", "other", "wanted"),
    [
        (fixed(), an_offer(size=LEAST), a_shape(500, 512)),
        (fixed(), an_offer(size=LEAST), a_shape(3000, 5000)),
        (fixed(), fitted(), a_shape(3000, 5000)),
        (fitted(), fitted(size_min=Resources(6000)), a_shape(3000, 5000)),
        (fitted(), fitted(step=Resources(3000)), a_shape(4000, 5000)),
        (fixed(), fixed(traits=ROCKY), a_shape()),
        (fixed(traits=ROCKY), fixed(traits=(("os", "el7"),)), a_shape(traits=ROCKY)),
        (fitted(), fitted(choices=CHOICES), a_shape(traits=A100)),
    ],
)
def test_offers_of_one_name_are_told_apart_by_all_that_they_say(
    one: Offer, other: Offer, wanted: Shape
) -> None:
    """A changed configuration has the old names: what was worked out for the old offer must not be found."""
    assert (hash(one), one == other) == (hash(other), False)
    fresh = [worked_out(offer, wanted) for offer in (one, other)]
    assert fresh[0] != fresh[1]
    assert [kind_for(offer, wanted) for offer in (one, other, one, other)] == fresh * 2
    assert len({one, other}) == 2


@given(st.lists(offers(), min_size=1, max_size=6), SHAPES)
def test_what_is_kept_of_a_kind_is_what_would_be_worked_out_anew(several: list[Offer], shape: Shape) -> None:
    for offer in (*several, *reversed(several)):
        assert kind_for(offer, shape) == worked_out(offer, shape)


def test_the_same_question_is_worked_out_once() -> None:
    assert hash(fitted(traits=ROCKY)) == hash(fitted(traits=ROCKY))
    assert kind_for(fitted(traits=ROCKY), a_shape()) is kind_for(fitted(traits=ROCKY), a_shape())


def test_an_offer_forgets_its_answers_when_there_are_too_many_and_gives_them_again() -> None:
    offer, shapes = fitted(), [a_shape(number) for number in range(SHAPES_KEPT_MAX + 1)]
    for shape in shapes[:-1]:
        kind_for(offer, shape)
    assert len(offer._kinds) == SHAPES_KEPT_MAX
    kind_for(offer, shapes[-1])
    assert len(offer._kinds) == 1
    assert [kind_for(offer, shape) for shape in shapes[:9]] == [worked_out(offer, s) for s in shapes[:9]]


def test_rules_name_every_offer_of_every_site_by_its_key() -> None:
    east = SiteName("east")
    one, two, far = an_offer(name="one"), an_offer(name="two"), an_offer(site=east, name="one")
    rules = Rules((), (SiteRules(WEST, (one, two), (PoolName("p"),)), SiteRules(east, (far,))))
    assert rules.offers() == {
        OfferKey("west/one"): one,
        OfferKey("west/two"): two,
        OfferKey("east/one"): far,
    }
