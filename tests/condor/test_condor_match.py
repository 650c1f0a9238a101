"""Which offers fit a job, by real matching against the slot that each would bring."""

from __future__ import annotations

import pytest

from condor.ads import BIG, GPU, OFFERS, REQUIREMENTS, SMALL, TERMS, job_ad
from glidepath.condor.evaluate import BadJob, request_of
from glidepath.condor.match import Fit, Matcher
from glidepath.condor.refs import References
from glidepath.core.provision.offer import Offer
from glidepath.core.quantity import OfferKey, Resources, SiteName
from glidepath.terms import OfferTerms

ROUTE = "RequestK8SNamespace"
ALL = ("east/gpu", "west/big", "west/small")


def fit(terms: dict[OfferKey, OfferTerms], *offers: Offer, **attributes: str) -> Fit:
    ad = job_ad(**attributes)
    matcher = Matcher(offers or OFFERS, {**TERMS, **terms}, route=ROUTE, references=References())
    return matcher.fit(ad, request_of(ad), now_s=0)


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({}, ALL),
        ({"RequestMemory": "5000"}, ("east/gpu", "west/big")),
        ({"RequestMemory": "2500 * RequestCpus", "RequestCpus": "2"}, ("east/gpu", "west/big")),
        ({"RequestGPUs": "1"}, ("east/gpu",)),
        ({"RequestGPUs": "3"}, ()),
        ({"Requirements": f'{REQUIREMENTS} && OpSysAndVer == "Rocky9"'}, ()),
        ({"Requirements": '(Arch == "aarch64")'}, ()),
        ({"Requirements": "false"}, ()),
        ({"Requirements": "undefined"}, ()),
        ({"Requirements": "error"}, ()),
        ({"Requirements": ""}, ()),
        ({"Requirements": "1"}, ALL),
        ({"Requirements": 'regexp("gpu|big", TARGET.NoSuch)'}, ()),
        ({"Requirements": 'TARGET.GPUs_DeviceName == "A100"'}, ("east/gpu",)),
        ({"Requirements": 'stringListMember("http", TARGET.HasFileTransferPluginMethods)'}, ALL),
        ({"Requirements": "Wanted < TARGET.Cpus", "Wanted": "5"}, ("east/gpu", "west/big")),
        ({"Requirements": "Wanted < TARGET.Cpus", "Wanted": "RequestCpus * 9"}, ("west/big",)),
    ],
)
def test_a_job_fits_where_both_sides_agree(attributes: dict[str, str], expected: tuple[str, ...]) -> None:
    assert fit({}, **attributes).offers == expected


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ("Capability >= 8.0", ("east/gpu",)),
        ("Capability >= 9.0", ()),
        ('DeviceName == "A100" && GlobalMemoryMb > 40000', ("east/gpu",)),
        ("GlobalMemoryMb > 80000", ()),
    ],
)
def test_the_properties_of_a_gpu_are_looked_at_in_each_gpu(wanted: str, expected: tuple[str, ...]) -> None:
    requirements = f"{REQUIREMENTS} && (countMatches(MY.RequireGPUs, TARGET.AvailableGPUs) >= RequestGPUs)"
    found = fit({}, RequestGPUs="2", RequireGPUs=wanted, Requirements=requirements)
    assert found.offers == expected


BIG_ONLY = ("west/big",)


@pytest.mark.parametrize(
    ("terms", "attributes", "expected"),
    [
        (OfferTerms(community="icecube"), {}, ()),
        (OfferTerms(community="icecube"), {ROUTE: '"icecube"'}, BIG_ONLY),
        (OfferTerms(community="icecube"), {ROUTE: '"IceCube"'}, ()),
        (OfferTerms(community="icecube"), {ROUTE: '".*"'}, ()),
        (OfferTerms(community="icecube"), {ROUTE: '"x|icecube"'}, ()),
        (OfferTerms(community="icecube"), {ROUTE: '{"icecube"}'}, ()),
        (OfferTerms(community="icecube"), {ROUTE: "undefined"}, ()),
        (OfferTerms(community='a"b\\c'), {ROUTE: '"a\\"b\\\\c"'}, BIG_ONLY),
        (OfferTerms(owners=("ann",)), {}, BIG_ONLY),
        (OfferTerms(owners=("an",)), {}, ()),
        (OfferTerms(owners=("a*",)), {}, BIG_ONLY),
        (OfferTerms(owners=("*n",)), {}, BIG_ONLY),
        (OfferTerms(owners=("b*", "ann")), {}, BIG_ONLY),
        (OfferTerms(owners=("a.n",)), {}, ()),
        (OfferTerms(owners=("a.*",)), {}, ()),
        (OfferTerms(owners_refused=("ann",)), {}, ()),
        (OfferTerms(owners_refused=("b*",)), {}, BIG_ONLY),
        (OfferTerms(owners=("*",), owners_refused=("ann",)), {}, ()),
        (OfferTerms(groups=("atlas.*",)), {"AcctGroup": '"atlas.prod"'}, BIG_ONLY),
        (OfferTerms(groups=("atlas.*",)), {}, ()),
        (OfferTerms(groups_refused=("atlas",)), {}, BIG_ONLY),
        (OfferTerms(start=("TARGET.RequestMemory < 2000",)), {}, BIG_ONLY),
        (OfferTerms(start=("TARGET.RequestMemory < 1000",)), {}, ()),
        (OfferTerms(start=("TARGET.WantsIt =?= true",)), {"WantsIt": "true"}, BIG_ONLY),
        (OfferTerms(attributes=(("HasCvmfs", "true"),)), {"Requirements": "HasCvmfs"}, BIG_ONLY),
        (OfferTerms(attributes=(("Arch", '"aarch64"'),)), {}, ()),
    ],
)
def test_an_offer_admits_by_its_terms(
    terms: OfferTerms, attributes: dict[str, str], expected: tuple[str, ...]
) -> None:
    assert fit({OfferKey("west/big"): terms}, BIG, **attributes).offers == expected


@pytest.mark.parametrize(
    ("jobs", "gpus", "taken"),
    [
        ("any", None, True),
        ("gpu", None, False),
        ("gpu", "0", False),
        ("gpu", "1", True),
        ("cpu", None, True),
        ("cpu", "0", True),
        ("cpu", "1", False),
    ],
)
def test_a_pilot_for_jobs_with_gpus_or_without_takes_no_other(
    jobs: str, gpus: str | None, taken: bool
) -> None:
    wanted = {} if gpus is None else {"RequestGPUs": gpus}
    found = fit({GPU.key: OfferTerms(jobs=jobs)}, GPU, **wanted)
    assert found.offers == ((GPU.key,) if taken else ())


def test_a_fitted_offer_is_tried_at_the_size_it_would_have() -> None:
    fitted = Offer(
        SiteName("a"), "any", Resources(64000, 262144, 102400), size_min=Resources(1000, 1024, 1024)
    )
    assert fit({}, fitted, RequestCpus="8").offers == ("a/any",)
    assert fit({}, fitted, Requirements="TARGET.TotalCpus >= 4").offers == ()
    assert fit({}, fitted, Requirements="TARGET.TotalCpus >= 4", RequestCpus="4").offers == ("a/any",)


def test_a_fitted_offer_chooses_the_traits_that_the_job_needs() -> None:
    fitted = Offer(
        SiteName("a"),
        "any",
        Resources(64000, 262144, 102400),
        size_min=Resources(1000, 1024, 1024),
        choices=(("os", ("Rocky8", "Rocky9")),),
    )
    assert fit({}, fitted, BIG) == Fit(("a/any", "west/big"), ())
    asked = fit({}, fitted, BIG, Requirements="TARGET.OpSysMajorVer == 9")
    assert asked == Fit(("a/any",), (("os", "Rocky9"),))


def test_terms_that_are_no_classad_text_cost_only_their_offer() -> None:
    bad = {OfferKey("west/big"): OfferTerms(start=("((",)), OfferKey("west/small"): OfferTerms()}
    matcher = Matcher((BIG, SMALL), bad, route=ROUTE, references=References())
    ad = job_ad()
    assert matcher.fit(ad, request_of(ad), now_s=0).offers == ("west/small",)
    assert list(matcher.bad) == ["west/big"]


def test_an_answer_is_kept_by_all_that_it_depends_on() -> None:
    matcher = Matcher((BIG,), {}, route=ROUTE, references=References())
    texts = [("5", True), ("50", False), ("5", True), ("RequestCpus", True), ("RequestCpus * 99", False)]
    for text, expected in texts:
        ad = job_ad(Requirements="Wanted < TARGET.Cpus", Wanted=text)
        assert bool(matcher.fit(ad, request_of(ad), now_s=0).offers) is expected, text


def test_what_depends_on_the_hour_is_asked_again() -> None:
    matcher = Matcher((BIG,), {}, route=ROUTE, references=References())
    ad = job_ad(Requirements="time() >= 0")
    assert matcher.fit(ad, request_of(ad), now_s=0) == matcher.fit(ad, request_of(ad), now_s=3600)
    assert len(matcher._fits) == 2


def test_requirements_of_ten_megabytes_are_refused() -> None:
    ad = job_ad(Requirements=f'Name != "{"x" * 10_000_000}"')
    matcher = Matcher((GPU,), {}, route=ROUTE, references=References())
    with pytest.raises(BadJob, match="more than 65536"):
        matcher.fit(ad, Resources(1000, 1), now_s=0)
