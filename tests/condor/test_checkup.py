"""What the doctor says of a pool of HTCondor: each trouble with what to do, and none hides another."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from condor.ads import BIG
from glidepath.condor import reach
from glidepath.condor.checkup import SCHEDDS_ASKED_MAX, Checkup
from glidepath.condor.pool import CondorPool, diskless
from glidepath.condor.settings import CheckedSettings
from glidepath.condor.tokens import Supplied, Tokens
from glidepath.condor.worker import ChildError, Workers
from glidepath.core.provision.offer import Offer
from glidepath.core.quantity import PoolName, Resources, SiteName
from glidepath.ports import Checked, Finding, Place

NOW = 1_800_000_000.0
DAY = 86400
WHO = "glidepath-gp-doctor@bed.example"
SCOPE = "condor:/ADVERTISE_STARTD condor:/ADVERTISE_MASTER"
ADMITTED = {"READ": WHO, "ADVERTISE_STARTD": WHO, "ADVERTISE_MASTER": WHO}
LOCATED = {
    "address": "<cm>",
    "version": "23.9.6",
    "trust_domain": "bed.example",
    "keys": "POOL",
    "took_s": 0.002,
}
AP1 = ["ap1.example", "<10.0.0.1:9618>", "condor@bed", "23.9"]
AP2 = ["ap2.example", "<10.0.0.2:9618>", "condor@bed", "23.9"]
FORGED = ["ap3.example", "<10.6.6.6:9618>", "mallory@bed", "23.9"]
LATE = TimeoutError("collector: no answer within 5 s")
FAILED = ChildError("collector: HTCondorException: Failed communication with collector.")


def token(**claims: object) -> str:
    said = {
        "scope": SCOPE,
        "sub": WHO,
        "iss": "bed.example",
        "iat": NOW - 10,
        "exp": NOW + 30 * DAY,
        **claims,
    }
    words = [json.dumps({"alg": "HS256"}), json.dumps(said)]
    return ".".join([*(base64.urlsafe_b64encode(w.encode()).decode().rstrip("=") for w in words), "c2ln"])


class Minting:
    """Stands for the tokens of a pool: what it would mint, or why it cannot."""

    identity, minted, mint = "glidepath*@bed.example", True, "condor_token_create"

    def __init__(self, made: str | Exception) -> None:
        self.made = made

    def supplied(self) -> tuple[Supplied, ...]:
        return ()

    def trial(self) -> str:
        if isinstance(self.made, Exception):
            raise self.made
        return self.made


class World:
    """Everything that the doctor asks, well by default; each test hurts one thing."""

    def __init__(self, *schedds: list[str], **settings: object) -> None:
        own = {"collector": "cm.example.org", "trust_domain": "bed.example", **settings}
        self.settings = CheckedSettings.model_validate(own)
        self.answers: dict[tuple[str, str], Any] = {
            ("collector", "binding"): {"version": "25.14.1"},
            ("collector", "located"): LOCATED,
            ("collector", "schedds"): {"schedds": list(schedds or (AP1,))},
        }
        for row in schedds or (AP1,):
            self.answers[(f"schedd {row[0]}", "clock")] = {"ahead_s": 1, "took_s": 0.003}
        self.tokens: Any = Minting(token())
        self.granted: Mapping[str, str] | Exception = ADMITTED
        self.shown: list[str] = []

    def ask(self, child: str, question: Mapping[str, Any]) -> dict[str, Any]:
        answer = self.answers[(child, question["ask"])]
        if isinstance(answer, Exception):
            raise answer
        return dict(answer)

    def rights(self, address: str, folder: Path) -> Mapping[str, str]:
        (path,) = folder.iterdir()
        assert path.stat().st_mode & 0o077 == 0
        self.shown.append(f"{address} {path}")
        if isinstance(self.granted, Exception):
            raise self.granted
        return self.granted

    def findings(self, *neighbours: str, furnished: bool = False) -> list[Finding]:
        made = Checkup(
            PoolName("p"),
            self.settings,
            self.ask,
            self.tokens,
            rights=self.rights,
            neighbours=neighbours,
            furnished=furnished,
            known=lambda: (),
            wall=lambda: NOW,
        )
        return list(made.findings())

    def bad(self, *neighbours: str) -> dict[str, tuple[str, str, str]]:
        found = [one for one in self.findings(*neighbours) if one.verdict != "ok"]
        return {one.name.removeprefix("pool p: "): (one.verdict, one.found, one.fix) for one in found}


def test_a_pool_that_is_well_has_one_sentence_for_each_check() -> None:
    world = World(AP1, AP2)
    assert [(one.name, one.verdict, one.found, one.fix) for one in world.findings()] == [
        ("pool p: binding", "ok", "HTCondor's own, version 25.14.1", ""),
        ("pool p: collector", "ok", "`cm.example.org:9618` answers in 2 ms, HTCondor 23.9.6", ""),
        ("pool p: schedds", "ok", "2 listed, 2 asked", ""),
        ("pool p: schedd ap1.example", "ok", "answers in 3 ms; its clock agrees with ours within 60 s", ""),
        ("pool p: schedd ap2.example", "ok", "answers in 3 ms; its clock agrees with ours within 60 s", ""),
        ("pool p: trust domain", "ok", "bed.example", ""),
        ("pool p: pilot token", "ok", f"`condor_token_create` mints for `{WHO}`", ""),
        ("pool p: advertise", "ok", f"`{WHO}` may use ADVERTISE_STARTD and ADVERTISE_MASTER", ""),
        (
            "pool p: HTCondor of pilots",
            "ok",
            "pilots use what their machine or container has; that cannot be seen from here",
            "",
        ),
    ]
    assert not Path(world.shown[0].split()[1]).exists()


def test_without_the_binding_nothing_is_asked_and_the_rest_is_still_told() -> None:
    world = World()
    said = "collector: HTCondor's binding is not installed here (No module named 'htcondor2')"
    world.answers = {("collector", "binding"): ChildError(said)}
    bad = world.bad()
    assert bad["binding"] == ("fail", said, "pip install 'glidepath[htcondor]'")
    assert bad["advertise"][0] == "warn"
    assert world.shown == []


@pytest.mark.parametrize(
    ("error", "tried", "found", "fix"),
    [
        (
            FAILED,
            ["cm.example.org", "9618", "unknown"],
            "`cm.example.org:9618`: no machine of that name is known here",
            "did you mean `cm1.example.org`?",
        ),
        (
            FAILED,
            ["cm.example.org", "9619", "refused"],
            "`cm.example.org:9619` refuses connections; a collector's usual port is 9618",
            "is the collector up, on this address and port?",
        ),
        (
            LATE,
            ["cm.example.org", "9618", "silent"],
            "`cm.example.org:9618` takes no connection within 3 s",
            "look for a firewall on the way, or for a machine that is down",
        ),
        (
            LATE,
            ["cm.example.org", "9618", "open"],
            "`cm.example.org:9618` takes connections and does not answer us",
            "is it a collector, is it stuck, does it let us read (its `ALLOW_READ`, our `token_folder`)?",
        ),
    ],
)
def test_a_collector_that_does_not_answer_is_told_with_what_was_tried(
    error: Exception, tried: list[str], found: str, fix: str
) -> None:
    world = World()
    world.answers[("collector", "located")] = error
    world.answers[("collector", "reach")] = {"tried": [tried]}
    bad = world.bad("cm1.example.org", "localhost")
    assert bad["collector"] == ("fail", found, fix)
    assert bad["advertise"][1] == f"not known whether `{WHO}` may advertise: the collector does not answer"


def test_a_collector_that_hangs_even_then_is_told_as_that() -> None:
    world = World()
    world.answers |= {("collector", "located"): LATE, ("collector", "reach"): LATE}
    verdict, found, _ = world.bad()["collector"]
    assert (verdict, found) == ("fail", f"`cm.example.org:9618` cannot be reached: {LATE}")


def test_a_misspelt_schedd_is_named_with_the_one_that_was_meant() -> None:
    world = World(AP1, AP2, schedds=[{"name": "ap1.exmple"}, {"name": "ap2*"}, {"name": "submit"}])
    bad = world.bad()
    assert bad["schedd ap1.exmple"] == (
        "fail",
        "`schedds` names `ap1.exmple`, and the collector lists no such",
        "did you mean `ap1.example`?",
    )
    assert bad["schedd submit"][2] == "listed are: `ap1.example`, `ap2.example`"
    assert "schedd ap1.example" not in bad


def test_a_schedd_that_is_silent_forged_or_late_by_its_clock_is_told_and_others_are_asked() -> None:
    world = World(AP1, AP2, FORGED)
    world.answers[("schedd ap1.example", "clock")] = TimeoutError("schedd ap1.example: no answer within 5 s")
    world.answers[("schedd ap2.example", "clock")] = {"ahead_s": -75, "took_s": 0.003}
    bad = world.bad()
    assert bad["schedd ap1.example"][:2] == ("fail", "schedd ap1.example: no answer within 5 s")
    assert bad["schedd ap2.example"][:2] == (
        "warn",
        "answers in 3 ms, and its clock is 75 s behind this machine's",
    )
    assert bad["schedd ap3.example"][:2] == (
        "warn",
        "is not asked: it is signed by `mallory@bed`, and `condor@*` is asked for",
    )


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        ([], "the collector lists no schedd, so no job is seen"),
        ([FORGED], "1 listed, 0 asked, so no job is seen"),
    ],
)
def test_a_pool_without_a_schedd_to_ask_fails(rows: list[list[str]], found: str) -> None:
    world = World()
    world.answers[("collector", "schedds")] = {"schedds": rows}
    assert world.bad()["schedds"][:2] == ("fail", found)


def test_of_very_many_schedds_only_some_are_asked() -> None:
    many = [[f"ap{number:03}", "<1.2.3.4:9618>", "condor@bed", ""] for number in range(SCHEDDS_ASKED_MAX + 7)]
    found = [one.found for one in World(*many).findings() if one.name == "pool p: schedds"]
    assert found == [f"{len(many)} listed, {len(many)} asked", "7 more were not asked now"]


@pytest.mark.parametrize(
    ("domain", "verdict", "found"),
    [
        ("other.example", "fail", "the pool says `bed.example`, the settings say `other.example`"),
        ("", "warn", "not set, so pilots of every domain are believed and none can be minted"),
    ],
)
def test_another_trust_domain_than_the_pool_has_is_told(domain: str, verdict: str, found: str) -> None:
    bad = World(trust_domain=domain).bad()
    assert bad["trust domain"] == (verdict, found, 'write `trust_domain = "bed.example"`')


@pytest.mark.parametrize(
    ("granted", "verdict", "found"),
    [
        ({}, "fail", f"the collector does not accept the token of `{WHO}`"),
        (
            {"READ": WHO, "ADVERTISE_STARTD": WHO},
            "fail",
            f"the collector accepts `{WHO}` and does not let it use ADVERTISE_MASTER",
        ),
        (
            dict.fromkeys(ADMITTED, "condor@bed.example"),
            "warn",
            f"the collector takes a bearer of the token of `{WHO}` for condor@bed.example",
        ),
        (LATE, "warn", f"not known whether `{WHO}` may advertise: {LATE}"),
    ],
)
def test_what_the_collector_would_say_to_a_pilot_is_tried_and_told(
    granted: Any, verdict: str, found: str
) -> None:
    world = World()
    world.granted = granted
    assert world.bad()["advertise"][:2] == (verdict, found)


def test_a_right_that_is_missing_comes_with_the_line_to_add() -> None:
    world = World()
    world.granted = {"READ": WHO}
    lines = "`ALLOW_ADVERTISE_STARTD` and `ALLOW_ADVERTISE_MASTER`"
    expected = f"add `glidepath*@bed.example` to {lines} there, then `condor_reconfig`"
    assert world.bad()["advertise"][2] == expected


def test_a_tool_that_mints_nothing_is_told_and_nothing_is_shown_to_the_collector() -> None:
    world = World()
    why = "`condor_token_create` made no token for `p` (exit code 2): Failed to read file /x/POOL securely."
    world.tokens = Minting(RuntimeError(why))
    assert world.bad()["pilot token"][:2] == ("fail", why)
    assert world.shown == []


@pytest.mark.parametrize(
    ("name", "claims", "mode", "expected"),
    [
        ("good", {}, 0o600, None),
        ("open", {}, 0o644, ("warn", "`{}` is open to others", "chmod 600 {}")),
        ("soon", {"exp": NOW + 2 * DAY}, 0o600, ("warn", "`{}` expires in 2d", "renew it")),
        (
            "over",
            {"exp": NOW - 60},
            0o600,
            ("fail", "the token `{}` will not do: it expired 1m ago", "put a good one in its place"),
        ),
    ],
)
def test_a_supplied_token_is_looked_at_as_a_file_and_as_a_token(
    tmp_path: Path, name: str, claims: dict[str, object], mode: int, expected: tuple[str, str, str] | None
) -> None:
    path = tmp_path / name
    path.write_text(token(**claims))
    path.chmod(mode)
    world = World(tokens={"file": str(path)}, token_folder=str(tmp_path))
    world.tokens = Tokens(PoolName("p"), world.settings, wall=lambda: NOW)
    bad = world.bad()
    told = None if expected is None else tuple(text.format(path) for text in expected)
    assert bad.get(f"pilot token {name}") == bad.get(f"own token {name}") == told


def test_tokens_that_cannot_be_read_or_are_no_files_are_told(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    world = World(tokens={"file": str(tmp_path / "none")}, token_folder=str(tmp_path))
    world.tokens = Tokens(PoolName("p"), world.settings, wall=lambda: NOW)
    bad = world.bad()
    missing = f"the token `{tmp_path}/none` cannot be read: No such file or directory"
    assert bad["pilot token none"][:2] == ("fail", missing)
    assert bad["own token pipe"][:2] == ("fail", f"`{tmp_path}/pipe` is no file")
    gone = World(token_folder=str(tmp_path / "gone")).bad()["own token"]
    assert gone[:2] == ("fail", f"`{tmp_path}/gone` cannot be read: No such file or directory")


def test_a_tarball_is_looked_for_and_its_sum_compared(tmp_path: Path) -> None:
    good = tmp_path / "condor.tar.gz"
    good.write_bytes(b"tar")
    digest = hashlib.sha256(b"tar").hexdigest()
    table = {
        "a": {"source": str(good), "sha256": digest},
        "b": {"source": str(good), "sha256": "0" * 64},
        "c": {"source": "/nowhere/x.tar.gz", "sha256": digest},
        "d": {"source": "https://x.example/x.tar.gz", "sha256": digest},
    }
    world = World(tarballs=table)
    world.answers[("collector", "address")] = {"trouble": "answered 404"}
    bad = world.bad()
    assert {name: bad[name][:2] for name in bad} == {
        "HTCondor for b": ("fail", f"`{good}` has another checksum, so no pilot would unpack it"),
        "HTCondor for c": (
            "warn",
            "`/nowhere/x.tar.gz` is not on this machine; pilots look for it on theirs",
        ),
        "HTCondor for d": ("fail", "`https://x.example/x.tar.gz` cannot be fetched from here: answered 404"),
    }


def test_an_address_without_a_sum_is_refused_before_a_pilot_would() -> None:
    with pytest.raises(ValueError, match="an address needs a checksum; write both as `source` and `sha256`"):
        World(htcondor="https://x.example/x.tar.gz")


# The way to a collector.


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cm", [("cm", "9618")]),
        ("cm:1234, [::1]:99", [("cm", "1234"), ("::1", "99")]),
        ("::1", [("::1", "9618")]),
        ("[::1]", [("::1", "9618")]),
    ],
)
def test_hosts_and_ports_are_read_as_written(text: str, expected: list[tuple[str, str]]) -> None:
    assert reach.places(text) == expected


def test_a_connection_tells_what_is_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert reach.tried(f"127.0.0.1:{port}") == [("127.0.0.1", str(port), "open")]
    assert reach.tried(f"127.0.0.1:{port}") == [("127.0.0.1", str(port), "refused")]
    assert reach.tried("127.0.0.1:99999999") == [("127.0.0.1", "99999999", "its port is no number of a port")]
    assert reach.tried("no.such.name.invalid")[0][2] == "unknown"


def test_names_come_from_hosts_and_from_a_configuration_that_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("127.0.0.1 localhost\n10.0.0.1 cm.lab cm # no more\n")
    (tmp_path / "config.d").mkdir()
    text = "# CONDOR_HOST = old\nCONDOR_HOST = main.lab:9620\nCOLLECTOR_HOST = $(CONDOR_HOST)\n"
    (tmp_path / "config.d/10.conf").write_text(text)
    (tmp_path / "config.d/20.conf").mkdir()
    found = reach.known_names(hosts=tmp_path / "hosts", configs=[tmp_path / "config.d", tmp_path / "none"])
    assert found == ("localhost", "cm.lab", "cm", "main.lab")


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("main.lba", "did you mean `main.lab`?"),
        ("localhst", ""),
        ("quite.other.org", ""),
        ("main.lab", ""),
    ],
)
def test_only_a_name_that_is_near_by_far_is_suggested(host: str, expected: str) -> None:
    assert reach.near(host, ("localhost", "main.lab", "ip6-localhost")) == expected


class Silent(Workers):
    """A collector that the binding cannot talk to."""

    def __init__(self, error: Exception, tried: list[list[str]]) -> None:
        super().__init__({})
        self.error, self.tried = error, tried

    def ask(self, name: str, question: Mapping[str, Any], *, limit_s: float) -> dict[str, Any]:
        if question["ask"] == "reach":
            return {"tried": self.tried}
        raise self.error


def door(error: Exception) -> CondorPool:
    settings = CheckedSettings.model_validate({"collector": "cm.example.org:99"})
    workers = Silent(error, [["cm.example.org", "99", "refused"]])
    place = Place(Path("/"), "")
    return CondorPool(
        PoolName("p"), settings, place, tokens=lambda: Tokens(PoolName("p"), settings), workers=workers
    )


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            FAILED,
            "collector: `cm.example.org:99` refuses connections; a collector's usual port is 9618; "
            "is the collector up, on this address and port?",
        ),
        (LATE, "collector: no answer within 5 s; `cm.example.org:99` was asked"),
        (ChildError("collector: the binding is not installed"), "collector: the binding is not installed"),
    ],
)
def test_the_reason_why_a_pool_is_unseen_says_where_it_was_looked_for(error: Exception, said: str) -> None:
    made = door(error)
    assert isinstance(made, Checked)
    with pytest.raises(type(error)) as raised:
        made.sources()
    assert str(raised.value) == said


def test_a_token_that_every_site_has_need_not_be_made_but_one_that_is_supplied_is_looked_at(
    tmp_path: Path,
) -> None:
    world = World()
    world.tokens = Minting(RuntimeError("`condor_token_create`: no such file"))
    told = {one.name.removeprefix("pool p: "): one.verdict for one in world.findings(furnished=True)}
    assert (told["pilot token"], "advertise" in told, world.shown) == ("ok", False, [])
    assert world.bad()["pilot token"][0] == "fail"
    (tmp_path / "token").write_text(token(exp=NOW - 60))
    world.tokens = Tokens(PoolName("p"), World(tokens={"file": str(tmp_path / "token")}).settings)
    told = {one.name.removeprefix("pool p: "): one.verdict for one in world.findings(furnished=True)}
    assert told["pilot token token"] == "fail"


# Offers without disk.


@pytest.mark.parametrize(
    ("request_", "fits", "idle", "expected"),
    [
        ([1000, 1024, 1, 0], [], 3, {"here/bare"}),
        ([1000, 1024, 1, 0], [], 0, set()),
        ([1000, 1024, 1, 0], ["west/big"], 3, set()),
        ([1000, 1024, 0, 0], [], 3, set()),
        ([9000, 1024, 1, 0], [], 3, set()),
    ],
)
def test_an_offer_is_blamed_for_its_disk_only_where_nothing_else_is_missing(
    request_: list[int], fits: list[str], idle: int, expected: set[str]
) -> None:
    bare = Offer(SiteName("here"), "bare", Resources(4000, 8192))
    assert diskless((BIG, bare), [{"request": request_, "fits": fits, "idle": idle}]) == expected
