"""The pilot's configuration, whole; and that it admits by the same words as the door asks for pilots."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from glidepath.condor import slotad
from glidepath.pilot.parts.condor_config import (
    Tree,
    Values,
    attributes,
    config_text,
    start_terms,
    state_text,
    trait_mistake,
)
from glidepath.pilot.parts.terms import settings_of, terms_of
from glidepath.terms import OfferTerms

GOLDEN = Path(__file__).with_name("golden")
TERMS = OfferTerms(
    community="physics",
    owners=("ann", "b*n"),
    owners_refused=("bin",),
    groups=("group_x.*",),
    groups_refused=("group_y",),
    attributes=(("HasCvmfs", "true"),),
    start=("TARGET.Want =?= true", "A || B"),
    lines=("MY_LINE = $(LOG)",),
)


def values(terms: OfferTerms = TERMS, **changed: object) -> Values:
    told = {
        "GLIDEPATH_POOL": "bed",
        "GLIDEPATH_COLLECTOR": "10.0.0.1:9618",
        "GLIDEPATH_TERMS": terms.to_json(),
        "GLIDEPATH_SITE": "here",
        "GLIDEPATH_OFFER": "here/small",
        "GLIDEPATH_RUN_TIME": "AllowedExecuteDuration,MaxWallTimeMins",
        "GLIDEPATH_TRUST_DOMAIN": "bed.example",
    }
    made = Values(
        name="gp-1",
        local="/w/gp-1/condor",
        execute="/w/gp-1/condor/execute",
        tree=Tree("/opt/c", "/opt/c/bin", "/opt/c/sbin", "/opt/c/libexec", "/opt/c/lib"),
        cpus=4,
        memory_mib=8000,
        disk_mib=100,
        gpus=0,
        gpus_numbered=False,
        stop_at=1_800_000_000,
        idle_s=600,
        settings=settings_of(told),
        version="9.9",
        home="/w",
    )
    return made._replace(**changed)


@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("user.config", values()),
        (
            "root.config",
            values(
                condor_ids="64.64",
                gpus=2,
                gpus_numbered=True,
                environ={"K8S_NAMESPACE": "ns", "HOME": "/"},
                containers="/usr/bin/apptainer",
            ),
        ),
    ],
)
def test_the_whole_configuration(name: str, made: Values) -> None:
    """What changes here changes what pilots do at every site; look at the difference before it is kept."""
    assert config_text(made) == (GOLDEN / name).read_text()


def test_without_the_program_that_knows_the_processes_of_jobs_htcondor_looks_for_them_itself() -> None:
    lines = config_text(values(procd=False)).splitlines()
    assert [line for line in lines if line.startswith("USE_PROCD")] == ["USE_PROCD = False"]


def test_what_changes_while_it_lives() -> None:
    assert (
        state_text(draining=False, retirement_s=900)
        == "GlidepathDraining = false\nMAXJOBRETIREMENTTIME = 900\n"
    )
    assert state_text(draining=True, retirement_s=0) == "GlidepathDraining = true\nMAXJOBRETIREMENTTIME = 0\n"


@pytest.mark.parametrize(
    "terms",
    [
        TERMS,
        OfferTerms(),
        OfferTerms(owners=('a"b', "c\\d", "e.f*", "*")),
        OfferTerms(community="Zürich", groups_refused=("*",)),
        OfferTerms(jobs="cpu"),
        OfferTerms(jobs="gpu", start=("TARGET.WantsIt =?= true",)),
    ],
)
def test_a_pilot_admits_by_the_same_words_as_the_door(terms: OfferTerms) -> None:
    """Else pilots would be started for jobs that they then refuse."""
    assert tuple(start_terms(terms_of(terms.to_json()), "Route")) == slotad.start_terms(terms, route="Route")


def test_an_offer_adds_to_the_terms_of_admission_and_takes_nothing_away() -> None:
    text = config_text(values(OfferTerms(lines=("START = Mine", "SEC_DEFAULT_ENCRYPTION = NEVER"))))
    lines = text.splitlines()
    last = {match[1]: number for number, one in enumerate(lines) if (match := re.match(r"(\w+) = ", one))}
    assert lines[last["START"]].startswith("START = ($(START:true)) && (GlidepathDraining =!= true) && ")
    assert lines[last["SEC_DEFAULT_ENCRYPTION"]] == "SEC_DEFAULT_ENCRYPTION = REQUIRED"


@pytest.mark.parametrize(
    "name", ["START", "SEC_TOKEN_DIRECTORY", "log", "GlidepathPilot", "SLOT1_USER", "Memory"]
)
def test_an_attribute_with_the_name_of_a_switch_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="has the name of a switch"):
        attributes(values(OfferTerms(attributes=((name, "1"),))))


@pytest.mark.parametrize("path", ["/a b", "/a\nb", "/$(X)", '/a"b', "/a#b"])
def test_a_path_that_htcondor_would_not_take_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="path"):
        config_text(values(execute=path))


def test_what_the_environment_says_is_checked_like_everything_else() -> None:
    with pytest.raises(ValueError, match="K8SDomain"):
        config_text(values(environ={"K8S_DOMAIN": "a$(SECRET)"}))


@pytest.mark.parametrize(
    ("traits", "expected"),
    [
        ([], ""),
        ([("os", "linux"), ("arch", "x86_64")], ""),
        ([("os", "debian12"), ("arch", "amd64")], ""),
        ([("os", "Debian")], ""),
        ([("os", "Rocky9")], "the offer promises the system 'Rocky9', this machine is 'Debian12'"),
        ([("arch", "arm64")], "the offer promises the architecture 'arm64', this machine is 'X86_64'"),
        ([("fast", "yes")], ""),
    ],
)
def test_a_machine_that_is_not_what_the_offer_promises_is_told(
    traits: list[tuple[str, str]], expected: str
) -> None:
    assert trait_mistake(traits, "X86_64", "Debian12") == expected
