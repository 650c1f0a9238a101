"""The pool as the provisioner sees it, with children that answer from a script."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from condor.ads import BIG, OFFERS
from glidepath.condor.pool import CondorPool, pool
from glidepath.condor.settings import CheckedSettings, CondorSettings
from glidepath.condor.worker import Workers
from glidepath.config.checks import own_values
from glidepath.core.quantity import Instant, OfferKey, PilotName, PoolName, Resources, SourceName
from glidepath.ports import DemandSource, Place, Pool
from glidepath.terms import OfferTerms

ROW = {
    "request": [1000, 1024, 1, 0],
    "traits": [],
    "run_s": None,
    "fits": ["west/big"],
    "idle": 3,
    "running": 1,
    "owners": [["ann", 3]],
    "age_s": 40,
}
ANSWER = {
    "rows": [ROW],
    "held": 2,
    "aside": [["1.0 of `ann`", "bad"]],
    "aside_jobs": 1,
    "full": True,
    "exact": True,
    "age_s": 0.0,
    "cost_s": 0.5,
    "full_cost_s": 0.5,
    "totals": [7, 3, 1, 2, 0, 0, 0],
    "bad_offers": {},
}
AP1 = ["ap1", "<10.0.0.1:9618>", "condor@family", "23.9"]
AP2 = ["ap2", "<10.0.0.2:9618>", "condor@family", "23.9"]
FORGED = ["ap3", "<10.6.6.6:9618>", "mallory@bed", "23.9"]


class Script(Workers):
    """Answers by name of child and question; an exception is raised."""

    def __init__(self, answers: dict[tuple[str, str], Any]) -> None:
        super().__init__({})
        self.answers = answers
        self.asked: list[tuple[str, Mapping[str, Any]]] = []

    def ask(self, name: str, question: Mapping[str, Any], *, limit_s: float) -> dict[str, Any]:
        self.asked.append((name, question))
        answer = self.answers[(name, question["ask"])]
        if isinstance(answer, Exception):
            raise answer
        return dict(answer)


class NoTokens:
    def secrets(self, name: PilotName, *, lifetime_s: int) -> tuple[tuple[str, str], ...]:
        return (("p.token", f"{name} {lifetime_s}"),)

    def warnings(self) -> tuple[str, ...]:
        return ("the token expires",)


class Clock:
    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def made(*schedds: list[str], **own: Any) -> tuple[CondorPool, Script, Clock]:
    script = Script(
        {
            ("collector", "schedds"): {"schedds": list(schedds)},
            ("schedd ap1", "demand"): ANSWER,
            ("schedd ap2", "demand"): ANSWER,
            ("schedd ap1", "waits"): {"totals": [7, 3, 1, 2, 0, 0, 0]},
        }
    )
    clock = Clock()
    settings = CondorSettings.model_validate({"collector": "cm.example.org", **own})
    place = Place(Path("/nowhere"), "", terms={BIG.key: OfferTerms(community="ice")})
    return (
        CondorPool(PoolName("p"), settings, place, tokens=NoTokens, workers=script, mono=clock),
        script,
        clock,
    )


def names(found: tuple[DemandSource, ...]) -> list[str]:
    return [source.name for source in found]


def test_trusted_schedds_are_the_sources_and_others_are_told() -> None:
    door, _, _ = made(AP1, AP2, FORGED)
    assert isinstance(door, Pool)
    assert names(door.sources()) == ["ap1", "ap2"]
    assert any("`ap3` is not asked: it is signed by `mallory@bed`" in note for note in door.notes())


def test_one_dead_schedd_costs_the_others_nothing_and_is_told() -> None:
    door, script, _ = made(AP1, AP2)
    script.answers[("schedd ap2", "demand")] = TimeoutError("schedd ap2: no answer within 25 s")
    one, other = door.sources()
    (demand,) = one.demand(OFFERS, now=Instant(100)).demands
    assert (demand.idle, demand.running, demand.oldest_at, demand.fits) == (3, 1, 60, ("west/big",))
    with pytest.raises(TimeoutError):
        other.demand(OFFERS, now=Instant(100))
    assert "schedd `ap2` cannot be read: schedd ap2: no answer within 25 s" in door.troubles()


def test_a_schedd_that_is_no_longer_listed_is_asked_where_it_was_and_forgotten_late() -> None:
    door, script, clock = made(AP1)
    door.sources()
    script.answers[("collector", "schedds")] = {"schedds": []}
    clock.now_s += 600
    (source,) = door.sources()
    assert source.demand(OFFERS, now=Instant(100)).complete
    assert "schedd `ap1` is no longer listed by the collector" in door.troubles()
    clock.now_s += 601
    assert door.sources() == ()
    with pytest.raises(OSError, match="not listed any more"):
        source.demand(OFFERS, now=Instant(100))


def test_a_schedd_that_is_signed_by_another_now_is_not_asked_again() -> None:
    door, script, _ = made(AP1)
    door.sources()
    script.answers[("collector", "schedds")] = {"schedds": [["ap1", "<10.6.6.6:9618>", "mallory@bed", ""]]}
    assert door.sources() == ()


def test_an_owner_whose_expression_hung_the_child_is_named_to_the_next() -> None:
    door, script, _ = made(AP1)
    (source,) = door.sources()
    script.answers[("schedd ap1", "demand")] = TimeoutError("late")
    script.marks["schedd ap1"] = ("mallory", "eve")
    with pytest.raises(TimeoutError):
        source.demand(OFFERS, now=Instant(100))
    script.answers[("schedd ap1", "demand")] = ANSWER
    source.demand(OFFERS, now=Instant(100))
    assert script.asked[-1][1]["poisoned"] == ["mallory", "eve"]


def test_totals_that_differ_wake_the_loop() -> None:
    door, script, _ = made(AP1)
    (source,) = door.sources()
    source.demand(OFFERS, now=Instant(100))
    assert not door.changed()
    script.answers[("schedd ap1", "waits")] = {"totals": [8, 4, 1, 2, 0, 0, 0]}
    assert door.changed()
    assert not door.changed()
    script.answers[("schedd ap1", "waits")] = OSError("gone")
    assert not door.changed()


def test_slots_carry_their_end_and_the_foreign_ones_are_told() -> None:
    door, script, _ = made(AP1)
    row = {
        "pilot": "gp-1",
        "free": [4000, 8192, 2, 0],
        "claims": 1,
        "draining": False,
        "left_s": 50,
        "jobs_run": 3,
        "jobs_failed": 1,
    }
    script.answers[("collector", "slots")] = {"slots": [row], "foreign": 2, "complete": True}
    seen = door.slots(now=Instant(100))
    (slot,) = seen.slots
    assert (slot.free, slot.claims, slot.ends_at) == (Resources(4000, 8192, 2, 0), 1, 150)
    assert (seen.foreign, script.asked[-1][1]["identity"]) == (2, "glidepath*@*")
    assert "the token expires" in door.troubles()


def test_a_pilot_is_told_how_to_join_and_no_secret() -> None:
    door, _, _ = made(AP1, trust_domain="bed.example")
    told = dict(door.join(OfferKey("west/big")))
    assert told["GLIDEPATH_POOL_KIND"] == "condor"
    assert told["GLIDEPATH_COLLECTOR"] == "cm.example.org"
    assert '"community": "ice"' in told["GLIDEPATH_TERMS"]
    assert told["GLIDEPATH_TRUST_DOMAIN"] == "bed.example"
    assert door.secrets(PilotName("gp-1"), lifetime_s=60) == (("p.token", "gp-1 60"),)
    assert door.identity == "glidepath*@bed.example"


@pytest.mark.parametrize("job", ["1842", "1842.", "a.b", "1842.7.1", "1 || true.0", "x#", "1.0)"])
def test_only_a_job_can_be_explained(job: str) -> None:
    door, _, _ = made(AP1)
    with pytest.raises(ValueError, match="is not a job"):
        door.explain(job, OFFERS)


def test_the_pool_is_made_from_the_values_of_its_table() -> None:
    own = {
        "collector": "cm.example.org:9618, cm2",
        "full_every": "2m",
        "schedds": [{"name": "ap*"}],
        "tarballs": {"Rocky9-x86_64": {"source": "/sw/condor.tar.gz", "sha256": "a" * 64}},
    }
    door = pool(PoolName("p"), own_values(pool, own), Place(Path("/nowhere"), ""))
    assert door.settings.full_every == 120
    assert [(rule.name, rule.identity) for rule in door.settings.schedds] == [("ap*", "condor@*")]
    assert '"from": "/sw/condor.tar.gz"' in dict(door.join(OfferKey("a/b")))["GLIDEPATH_CONDOR"]
    assert dict(door.join(OfferKey("a/b")))["GLIDEPATH_COLLECTOR"] == "cm.example.org:9618,cm2"


@pytest.mark.parametrize(
    "own",
    [
        {},
        {"collector": "cm; rm"},
        {"collector": "-x"},
        {"collector": "cm", "schedds": []},
        {"collector": "cm", "route": "a.b"},
        {"collector": "cm", "deadline": "0s"},
        {"collector": "cm", "full_every": 60},
        {"collector": "cm", "unknown": 1},
        {"collector": "cm", "tokens": {"fil": "x"}},
        {"collector": "cm", "tarballs": {"x": {"source": "y", "sha256": "z"}}},
    ],
)
def test_a_table_that_cannot_be_meant_is_refused(own: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        CheckedSettings.model_validate(own)


def test_a_source_is_known_by_its_schedd() -> None:
    door, _, _ = made(AP1)
    (source,) = door.sources()
    assert (source.name, source.pool) == (SourceName("ap1"), PoolName("p"))
