"""Tokens that the real tool mints for pilots: what they open, what they do not, what the doctor says."""

from __future__ import annotations

import shlex
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from bed.command import Ended
from bed.parts.condor import Pool
from tests.bed_pool import nothing_is_left, pool

from glidepath.condor.client import environment
from glidepath.condor.copies import TokenCopies
from glidepath.condor.pool import CondorPool
from glidepath.condor.pool import pool as condor
from glidepath.condor.tokens import CLOCK_S, RIGHTS, claims_of
from glidepath.condor.worker import Workers
from glidepath.config.checks import own_values
from glidepath.core.quantity import Instant, PilotName, PoolName
from glidepath.ports import Finding, Place

__all__ = ["nothing_is_left"]
pytestmark = pytest.mark.real

DOMAIN = "bed.example"
PILOT = PilotName("gp-abc123-1-0")
WHO = f"glidepath-{PILOT}@{DOMAIN}"
NOW = Instant(1_000_000)
SUBMIT = "executable = /bin/sleep\narguments = 600\ntransfer_executable = false\nqueue\n"
AD = """MyType = "Machine"
State = "Unclaimed"
PartitionableSlot = true
Cpus = 4
Memory = 8192
Disk = 2048
Name = "slot1@minted"
GlidepathPilot = "{pilot}"
MyCurrentTime = {now}
GlidepathStopTime = {end}
"""
SCHEDD_AD = 'MyType = "Scheduler"\nName = "forged@bed.example"\nMyAddress = "<127.0.0.1:1>"\n'


@pytest.fixture
def daemons() -> Iterator[Pool]:
    """A pool of its own: what is advertised here would be seen by the tests that share one."""
    with pool("condor@tokens") as found:
        found.up(tied=True)
        yield found


def mint(daemons: Pool, folder: Path, *, keys: str = "passwords.d") -> str:
    """The real tool of HTCondor as it runs beside a central manager: with the pool's own key."""
    told = daemons.host_environment()
    told |= {
        "_CONDOR_SEC_PASSWORD_DIRECTORY": str(daemons.folder / keys),
        "_CONDOR_SEC_TOKEN_POOL_SIGNING_KEY_FILE": str(daemons.folder / keys / "POOL"),
    }
    words = [f"{name}={value}" for name, value in told.items()]
    tool = daemons.host_tree() / "bin/condor_token_create"
    program = folder / "condor_token_create"
    program.write_text(f'#!/bin/sh\nexec env {shlex.join(words)} {shlex.quote(str(tool))} "$@"\n')
    program.chmod(0o755)
    return str(program)


def opened(daemons: Pool, tokens: dict[str, object], **own: object) -> CondorPool:
    table = {"collector": daemons.address, "trust_domain": DOMAIN, "deadline": "20s", "tokens": tokens, **own}
    return condor(PoolName("p"), own_values(condor, table), Place(Path("/"), ""))


def bearer(daemons: Pool, token: str, *words: str) -> Ended:
    """Runs a program inside as a user who has this token and may use nothing else to say who it is."""
    folder = daemons.home("pilot") / "tokens"
    folder.mkdir()
    (folder / "token").write_text(token)
    (folder / "token").chmod(0o600)
    daemons.run("chown", "-R", "pilot:pilot", str(folder)).must("chown")
    known = [f"_CONDOR_SEC_TOKEN_DIRECTORY={folder}", "_CONDOR_SEC_CLIENT_AUTHENTICATION_METHODS=IDTOKENS"]
    done = daemons.run("env", *known, *words, user="pilot", given=SUBMIT)
    shutil.rmtree(folder)
    return done


def verdicts(found: tuple[Finding, ...]) -> dict[str, str]:
    return {one.name.removeprefix("pool p: "): one.verdict for one in found}


def test_a_minted_token_has_the_pilots_name_rights_and_life(daemons: Pool, tmp_path: Path) -> None:
    door = opened(daemons, {"mint": mint(daemons, tmp_path), "wait": "10m"}, grace="5m")
    try:
        ((name, text),) = door.secrets(PILOT, lifetime_s=3600)
    finally:
        door.close()
    claims = claims_of(text.strip())
    assert name == "p.token"
    assert (claims.identity, claims.issuer, claims.rights) == (WHO, DOMAIN, frozenset(RIGHTS))
    assert claims.ends_at is not None
    assert claims.ends_at - claims.starts_at == 3600 + 600 + 300 + CLOCK_S


def test_a_minted_token_brings_slots_and_opens_nothing_else(daemons: Pool, tmp_path: Path) -> None:
    door = opened(daemons, {"mint": mint(daemons, tmp_path)})
    try:
        ((_, text),) = door.secrets(PILOT, lifetime_s=3600)
        now = int(time.time())
        slot, schedd = daemons.home("pilot") / "slot.ad", daemons.home("pilot") / "schedd.ad"
        slot.write_text(AD.format(pilot=PILOT, now=now, end=now + 900))
        schedd.write_text(SCHEDD_AD)
        brought = bearer(daemons, text, "condor_advertise", "-tcp", "UPDATE_STARTD_AD", str(slot))
        assert brought.code == 0, brought.err + brought.out
        seen = door.slots(now=NOW)
        assert ([each.pilot for each in seen.slots], seen.foreign) == ([PILOT], 0)

        sent = daemons.run("condor_submit", "-terse", "-", user="ann", given=SUBMIT).must("submit")
        job = sent.out.split()[0]
        ann, condor_ = f"ann@{DOMAIN}", f"condor@{DOMAIN}"
        # Each with somebody who may: what fails for the pilot must not fail for want of anything else.
        refused = [
            (ann, ("condor_submit", "-terse", "-")),
            (ann, ("condor_submit", "-terse", "-append", '+Owner = "ann"', "-")),
            (ann, ("condor_qedit", job, "JobPrio", "5")),
            (ann, ("condor_rm", job)),
            (condor_, ("condor_advertise", "-tcp", "UPDATE_SCHEDD_AD", str(schedd))),
            (condor_, ("condor_reconfig", "-daemon", "negotiator")),
        ]
        for _, words in refused:
            done = bearer(daemons, text, *words)
            assert done.code != 0, f"{words}: {done.out}{done.err}"
        rows = daemons.run("condor_q", "-all", "-af", "Owner", "JobStatus", "JobPrio").must("no list").out
        assert rows.split() == ["ann", "1", "0"]
        assert [source.name for source in door.sources()] == [daemons.schedd_name]
        for who, words in refused:
            done = bearer(daemons, daemons.token(who), *words)
            assert done.code == 0, f"{who} {words}: {done.out}{done.err}"
    finally:
        door.close()


def test_a_token_of_nobody_who_is_admitted_and_one_that_is_forged_bring_no_slot(daemons: Pool) -> None:
    now = int(time.time())
    path = daemons.home("pilot") / "slot.ad"
    path.write_text(AD.format(pilot=PILOT, now=now, end=now + 900))
    good = daemons.token(WHO, RIGHTS)
    words = good.split(".")
    forged = ".".join([*words[:2], ("B" if words[2][0] == "A" else "A") + words[2][1:]])
    for text in (daemons.token(f"mallory@{DOMAIN}", RIGHTS), forged):
        done = bearer(daemons, text, "condor_advertise", "-tcp", "UPDATE_STARTD_AD", str(path))
        assert done.code != 0, done.out + done.err


def test_without_the_key_the_real_tool_mints_nothing_and_the_reason_names_its_file(
    daemons: Pool, tmp_path: Path
) -> None:
    door = opened(daemons, {"mint": mint(daemons, tmp_path, keys="none.d")})
    try:
        with pytest.raises(RuntimeError) as error:
            door.secrets(PILOT, lifetime_s=60)
        assert "made no token for `p` (exit code 2)" in str(error.value)
        assert f"{daemons.folder}/none.d/POOL" in str(error.value)
    finally:
        door.close()


def test_a_key_that_others_can_read_is_refused_by_the_tool_itself(daemons: Pool, tmp_path: Path) -> None:
    keys = daemons.folder / "open.d"
    keys.mkdir(mode=0o755)
    shutil.copyfile(daemons.folder / "passwords.d/POOL", keys / "POOL")
    (keys / "POOL").chmod(0o644)
    door = opened(daemons, {"mint": mint(daemons, tmp_path, keys="open.d")})
    try:
        with pytest.raises(RuntimeError, match="securely"):
            door.secrets(PILOT, lifetime_s=60)
    finally:
        door.close()


def test_the_doctor_finds_a_real_pool_well_and_says_what_a_pilot_may(daemons: Pool, tmp_path: Path) -> None:
    tarball = {"linux-x86_64": {"source": str(daemons.tarball), "sha256": daemons.tarball_sha256}}
    own = {"mint": mint(daemons, tmp_path)}
    door = opened(daemons, own, tarballs=tarball, schedds=[{"name": "condor-tokns@*"}, {"name": "*"}])
    try:
        found = door.checkup(())
    finally:
        door.close()
    misspelt = "schedd condor-tokns@*"
    assert verdicts(found) == {
        "binding": "ok",
        "collector": "ok",
        "schedds": "ok",
        misspelt: "fail",
        f"schedd {daemons.schedd_name}": "ok",
        "trust domain": "ok",
        "pilot token": "ok",
        "advertise": "ok",
        "HTCondor for linux-x86_64": "ok",
    }
    (wrong,) = [one for one in found if one.verdict == "fail"]
    assert wrong.fix == f"did you mean `{daemons.schedd_name}`?"
    (may,) = [one for one in found if one.name.endswith("advertise")]
    assert may.found == f"`glidepath-gp-doctor@{DOMAIN}` may use ADVERTISE_STARTD and ADVERTISE_MASTER"


def test_the_doctor_tells_a_token_that_is_not_admitted_from_one_that_is_not_accepted(
    daemons: Pool, tmp_path: Path
) -> None:
    stranger = daemons.token(f"mallory@{DOMAIN}", RIGHTS)
    words = stranger.split(".")
    forged = ".".join([*words[:2], ("B" if words[2][0] == "A" else "A") + words[2][1:]])
    said = {}
    for text in (stranger, forged):
        path = tmp_path / "token"
        path.touch(mode=0o600)
        path.write_text(text)
        door = opened(daemons, {"file": str(path)}, identity="mallory*")
        try:
            (said[text],) = [one for one in door.checkup(()) if one.name.endswith("advertise")]
        finally:
            door.close()
    lines = "`ALLOW_ADVERTISE_STARTD` and `ALLOW_ADVERTISE_MASTER`"
    assert said[stranger].fix == f"add `mallory*` to {lines} there, then `condor_reconfig`"
    assert said[forged].found == f"the collector does not accept the token of `mallory@{DOMAIN}`"


def test_a_silent_schedd_and_a_silent_collector_end_in_their_deadlines(daemons: Pool, tmp_path: Path) -> None:
    door = opened(daemons, {"mint": mint(daemons, tmp_path)}, deadline="3s")
    try:
        daemons.pause("schedd")
        found = verdicts(door.checkup(()))
        daemons.resume("schedd")
        assert (found["collector"], found[f"schedd {daemons.schedd_name}"]) == ("ok", "fail")
        assert found["advertise"] == "ok"
        daemons.pause("collector")
        found = verdicts(door.checkup(()))
        assert (found["binding"], found["collector"], found["advertise"]) == ("ok", "fail", "warn")
        with pytest.raises(TimeoutError, match=f"no answer within 3 s; `{daemons.address}` was asked"):
            door.slots(now=NOW)
    finally:
        door.close()
        for daemon in ("schedd", "collector"):
            daemons.resume(daemon)


def test_one_identity_for_a_whole_pool_is_minted_where_that_is_asked_for(
    daemons: Pool, tmp_path: Path
) -> None:
    door = opened(daemons, {"mint": mint(daemons, tmp_path), "each": "pool"})
    try:
        ((_, text),) = door.secrets(PILOT, lifetime_s=60)
    finally:
        door.close()
    assert claims_of(text.strip()).identity == f"glidepath-p@{DOMAIN}"


def test_a_token_behind_links_is_used_and_so_is_the_next_one(daemons: Pool, tmp_path: Path) -> None:
    """A Secret as a kubelet mounts it. HTCondor itself takes no notice of it, hence the copies."""
    secret = tmp_path / "secret"
    (secret / "..1").mkdir(parents=True)
    (secret / "..data").symlink_to("..1")
    (secret / "token").symlink_to("..data/token")
    (secret / "..1/token").write_text("not a token yet\n")
    copies = TokenCopies(secret, tmp_path / "home/tokens.d/p")
    who = f"glidepath-links@{DOMAIN}"

    def child(folder: Path) -> Workers:
        told = environment(daemons.address, token_folder=str(folder), methods="IDTOKENS")
        none = str(tmp_path / "none")
        alone = ("SEC_TOKEN_SYSTEM_DIRECTORY", "SEC_PASSWORD_DIRECTORY", "SEC_TOKEN_POOL_SIGNING_KEY_FILE")
        told |= {f"_CONDOR_{name}": none for name in alone}
        return Workers({**told, "_CONDOR_SEC_CLIENT_AUTHENTICATION": "REQUIRED"})

    asking = Workers(environment(daemons.address))
    located = asking.ask("collector", {"ask": "located", "collector": daemons.address}, limit_s=20)
    asking.close()

    def granted(workers: Workers) -> str:
        question = {"ask": "rights", "address": located["address"], "rights": ["ADVERTISE_STARTD"]}
        return str(workers.ask("collector", question, limit_s=20)["granted"]["ADVERTISE_STARTD"])

    linked, copied = child(secret), child(copies.folder)
    try:
        assert (copies.renew(), granted(copied)) == ("", "")
        (secret / "..2").mkdir()
        (secret / "..2/token").write_text(daemons.token(who, RIGHTS) + "\n")
        (secret / "..new").symlink_to("..2")
        (secret / "..new").replace(secret / "..data")
        assert (copies.renew(), granted(copied)) == ("", who)
        assert granted(linked) == ""
    finally:
        linked.close()
        copied.close()
