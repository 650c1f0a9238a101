"""The small parts: whom to believe, what a pilot's slot says, how a term is found, how a group is named."""

from __future__ import annotations

from typing import Any

import pytest

from condor.ads import BIG, GPU, OFFERS, SMALL
from glidepath.condor.binding import ClassAd
from glidepath.condor.clauses import clauses
from glidepath.condor.demand import demands_of, set_aside_of, variant_of
from glidepath.condor.slotad import ad_text, quoted, slot_attributes
from glidepath.condor.slots import pilot_rows
from glidepath.condor.trust import Rule, Schedd, fits, judged
from glidepath.condor.wire import offer_of, offer_table, question_table
from glidepath.core.provision.demand import Demand, SetAside
from glidepath.core.quantity import Instant, OfferKey, Owner, PoolName, Resources, Shape
from glidepath.terms import OfferTerms

ANY = (Rule("*", "condor@*"),)


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("condor@*", "condor@family", True),
        ("condor@*", "xcondor@family", False),
        ("condor@*", "condor", False),
        ("condor@bed", "condor@bed.example", False),
        ("c.ndor@*", "condor@x", False),
        ("glidepath*@bed", "glidepath-a\n@bed", True),
        ("glidepath*@bed", "glidepath-a@bed\n", False),
    ],
)
def test_a_pattern_fits_from_end_to_end(pattern: str, text: str, expected: bool) -> None:
    assert fits(pattern, text) is expected


@pytest.mark.parametrize(
    ("schedd", "rules", "why"),
    [
        (Schedd("ap1", "<1>", "condor@family"), ANY, ""),
        (Schedd("ap1", "<1>", "ann@bed"), ANY, "it is signed by `ann@bed`, and `condor@*` is asked for"),
        (Schedd("ap1", "<1>", ""), ANY, "it is signed by nobody that the collector could check, and"),
        (Schedd("ap1", "<1>", "condor@x"), (Rule("ap2", "*"),), "no entry of `schedds` fits its name"),
        (Schedd("AP2", "<1>", "condor@x"), (Rule("ap*", "condor@x"),), ""),
        (
            Schedd("ap1", "<1>", "condor@x"),
            (Rule("ap1", "condor@y"), Rule("ap2", "condor@x")),
            "it is signed",
        ),
        (Schedd("ap\n1", "<1>", "condor@x"), ANY, "its name cannot be shown"),
        (Schedd("ap1", "", "condor@x"), ANY, "it lists no address"),
    ],
)
def test_a_schedd_is_trusted_by_name_and_identity_together(
    schedd: Schedd, rules: tuple[Rule, ...], why: str
) -> None:
    trusted, refused = judged([schedd], rules)
    assert (trusted, bool(refused)) == (() if why else (schedd,), bool(why))
    assert not why or why in refused[0]


def test_two_schedds_of_one_name_are_one_and_a_reason() -> None:
    both = [Schedd("ap1", "<1>", "condor@a"), Schedd("ap1", "<2>", "condor@b")]
    trusted, refused = judged(both, ANY)
    assert trusted == (both[0],)
    assert refused == ("schedd `ap1` is not asked: another schedd of this name is listed too",)


def test_the_slot_of_an_offer_reads_back_as_the_values_it_was_made_of() -> None:
    slot = ClassAd(ad_text(slot_attributes(GPU.size, (*GPU.traits, ("os", "Rocky9")), OfferTerms())))
    shown = {name: slot.eval(name) for name in ("Cpus", "Memory", "Disk", "GPUs", "Arch", "OpSysAndVer")}
    assert shown == {
        "Cpus": 8,
        "Memory": 32768,
        "Disk": 104857600,
        "GPUs": 2,
        "Arch": "X86_64",
        "OpSysAndVer": "Rocky9",
    }
    assert (slot["OpSysMajorVer"], slot["OpSysName"], slot["GPUs_DeviceName"]) == (9, "Rocky", "A100")
    assert [gpu["DeviceName"] for gpu in (slot.eval("GPUs_GPU_0"), slot.eval("GPUs_GPU_1"))] == [
        "A100",
        "A100",
    ]


@pytest.mark.parametrize("text", ["plain", 'a"b', "a\\b", "a\nb", '"; START = true; x = "', "é"])
def test_a_quoted_text_reads_back_as_itself(text: str) -> None:
    assert ClassAd(f"[ a = {quoted(text)}; START = false ]")["a"] == text
    assert ClassAd(f"[ START = false; a = {quoted(text)} ]")["START"] is False


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A && B", ("A", "B")),
        ("(A) && ((B) && (C))", ("A", "B", "C")),
        ("A || B && C", ("A || B && C",)),
        ("(A || B) && C", ("A || B", "C")),
        ('Name == "a && b" && C', ('Name == "a && b"', "C")),
        ('Name == "a \\" && b" && C', ('Name == "a \\" && b"', "C")),
        ("f(A && B) && C", ("f(A && B)", "C")),
        ("A =?= 1 && B", ("A =?= 1", "B")),
        ("A ? B && C : D", ("A ? B && C : D",)),
        ("((A", ("((A",)),
        ("&& A", ("&& A",)),
        ("", ("",)),
    ],
)
def test_terms_that_must_all_hold_are_told_apart(text: str, expected: tuple[str, ...]) -> None:
    assert clauses(text) == expected


def slot_ad(**changes: Any) -> dict[str, Any]:
    return {
        "GlidepathPilot": "gp-1",
        "AuthenticatedIdentity": "glidepath-west@bed",
        "PartitionableSlot": True,
        "State": "Unclaimed",
        "Cpus": 4,
        "Memory": 8192,
        "Disk": 2048,
        "GPUs": 0,
        "GlidepathStopTime": 5000,
        "MyCurrentTime": 1000,
        "LastHeardFrom": 900,
        "GlidepathJobsRun": 3,
        **changes,
    }


ROW = {
    "pilot": "gp-1",
    "free": [4000, 8192, 2, 0],
    "claims": 0,
    "draining": False,
    "left_s": 3900,
    "jobs_run": 3,
    "jobs_failed": 0,
}
DYNAMIC = {"PartitionableSlot": False, "DynamicSlot": True, "Cpus": 2}


@pytest.mark.parametrize(
    ("ads", "expected"),
    [
        ([slot_ad()], {}),
        (
            [slot_ad(), slot_ad(**DYNAMIC, State="Claimed"), slot_ad(**DYNAMIC, State="Claimed")],
            {"claims": 2},
        ),
        ([slot_ad(), slot_ad(**DYNAMIC)], {}),
        ([slot_ad(PartitionableSlot=None, State="Claimed")], {"claims": 1, "free": [0, 0, 0, 0]}),
        ([slot_ad(Draining=True)], {"draining": True}),
        ([slot_ad(State="Drained")], {"draining": True}),
        ([slot_ad(GlidepathHealthy=False)], {"draining": True}),
        ([slot_ad(GlidepathStopTime=10)], {"left_s": 0}),
        ([slot_ad(GlidepathStopTime="soon")], {"left_s": None}),
        ([slot_ad(GlidepathStopTime=10**18)], {"left_s": 10 * 366 * 86400}),
        ([slot_ad(LastHeardFrom=-(10**12))], {"left_s": 3100}),
        ([slot_ad(Cpus=-4, Memory=float("nan"), Disk="1", GPUs=True)], {"free": [0, 0, 0, 0]}),
        ([slot_ad(GlidepathJobsRun=-1, GlidepathJobsFailed=10**30)], {"jobs_run": 0}),
        ([slot_ad(GlidepathPilot=None, K8SPodName="gp-1")], {}),
        ([slot_ad(K8SPodName="gp-2")], {}),
        ([slot_ad(GlidepathStopTime=None, GLIDEIN_ToRetire=2000)], {"left_s": 900}),
    ],
)
def test_the_ads_of_a_pilot_are_one_row(ads: list[dict[str, Any]], expected: dict[str, Any]) -> None:
    assert pilot_rows(ads, identity="glidepath*@bed", wall_s=1000) == ([{**ROW, **expected}], 0)


@pytest.mark.parametrize(
    "forged",
    [
        {"AuthenticatedIdentity": "ann@bed"},
        {"AuthenticatedIdentity": "glidepath-west@evil"},
        {"AuthenticatedIdentity": None},
        {"AuthenticatedIdentity": "unauthenticated@unmapped"},
        {"GlidepathPilot": "gp-1\ngp-2"},
        {"GlidepathPilot": 7},
        {"GlidepathPilot": "x" * 300},
        {"GlidepathPilot": None, "K8SPodName": "gp-1", "AuthenticatedIdentity": "ann@bed"},
    ],
)
def test_an_ad_of_another_identity_is_ignored_and_counted(forged: dict[str, Any]) -> None:
    ads = [slot_ad(), slot_ad(Cpus=999, **forged)]
    assert pilot_rows(ads, identity="glidepath*@bed", wall_s=1000) == ([ROW], 1)


def row(**changes: Any) -> dict[str, Any]:
    return {
        "request": [1000, 1024, 1, 0],
        "traits": [],
        "run_s": None,
        "fits": ["east/gpu", "west/big", "west/small"],
        "idle": 3,
        "running": 1,
        "owners": [["ann", 2], ["ben", 1]],
        "age_s": 40,
        **changes,
    }


def test_a_row_becomes_demand_with_what_tells_it_apart() -> None:
    found = demands_of(
        PoolName("p"), [row(), row(fits=["west/big"]), row(fits=[], idle=0)], OFFERS, now=Instant(100)
    )
    whole = Demand(
        pool=PoolName("p"),
        shape=Shape(Resources(1000, 1024, 1, 0)),
        idle=3,
        running=1,
        oldest_at=Instant(60),
        owners=((Owner("ann"), 2), (Owner("ben"), 1)),
        fits=(OfferKey("east/gpu"), OfferKey("west/big"), OfferKey("west/small")),
    )
    assert found[0] == whole
    assert [(each.variant, each.oldest_at) for each in found[1:]] == [
        ("fits nothing", None),
        ("west/big", 60),
    ]


def test_a_variant_is_short_and_differs_where_the_offers_do() -> None:
    shape = Shape(Resources(1000, 1024))
    many = tuple(OfferKey(f"site-{n}/offer") for n in range(20))
    one, other = variant_of(shape, many, OFFERS), variant_of(shape, many[:-1], OFFERS)
    assert len(one) <= 60
    assert one != other


def test_jobs_set_aside_are_named_and_the_rest_is_told() -> None:
    answer = {"aside": [["1.0 of `ann`", "bad"]], "aside_jobs": 70}
    told = set_aside_of(answer)
    assert told == (SetAside("1.0 of `ann`", "bad"), SetAside("70 in all", "jobs that cannot be counted"))
    assert len(set_aside_of({**answer, "aside_jobs": 1})) == 1


def test_an_offer_crosses_the_wire_unchanged_and_the_digest_knows_its_terms() -> None:
    terms = OfferTerms(community="ice", owners=("a*",), attributes=(("HasCvmfs", "true"),))
    assert offer_of(offer_table(GPU, terms)) == (GPU, terms)
    digests = {
        question_table(offers, given, route=route, run_names=(), full_every_s=60.0)["digest"]
        for offers in ((BIG,), (BIG, SMALL))
        for given in ({}, {BIG.key: terms})
        for route in ("A", "B")
    }
    assert len(digests) == 8
