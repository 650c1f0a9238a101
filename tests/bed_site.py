"""Batch sites for tests: Slurm and Grid Engine that all tests of a session share, pilots that run there, and
this machine's ssh as a client of a login node.

Sites are tied to the test run. A machine that cannot host one skips these tests with the reason that
`bed/ctl parts` gives; under CI=true that is a failure.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import pytest
from bed.parts.batch_root import USERS
from bed.parts.batch_site import Site
from bed.parts.condor import Pool
from bed.parts.sshd import Login
from tests.bed_pool import MEANT, condor_pool, needs, place
from tests.bed_pool import pool as another_pool

from glidepath.pilot import pilot_file

S = TypeVar("S", bound=Site)
SSH_S_MAX = 60
RIGHTS = ("ADVERTISE_STARTD", "ADVERTISE_MASTER")
IDENTITY = "glidepath-site@bed.example"
# Pools and pilots of tests listen on this machine only.
LINES = ["NETWORK_INTERFACE = 127.0.0.1", "UPDATE_INTERVAL = 5", "ClassAdLifetime = 120"]

# One machine with slots of its own, as a pool that is a site has them.
SLOTS = """
DAEMON_LIST = $(DAEMON_LIST), STARTD
NUM_CPUS = 4
MEMORY = 6000
use FEATURE : PartitionableSlot
START = True
USE_PROCD = False
UPDATE_INTERVAL = 5
"""
CONDOR_TOOLS = ("condor_submit", "condor_q", "condor_rm", "condor_history", "condor_status", "condor_version")
TOOL = """#!/bin/sh
export CONDOR_CONFIG={config} _CONDOR_SEC_TOKEN_DIRECTORY={tokens} _CONDOR_HISTORY={history}
exec {tree}/bin/{tool} "$@"
"""

_SHARED = pytest.StashKey[dict[type[Site], Site]]()
_CONDOR = pytest.StashKey["CondorSite"]()


class CondorSite(Login):
    """The login node of another pool of HTCondor, which has slots of its own; its user is `pilot`."""

    pool: Pool


def condor_site(config: pytest.Config) -> CondorSite:
    """One for the whole session: the pool of jobs knows nothing of it."""
    if _CONDOR not in config.stash:
        pool = another_pool("condor@site")
        pool.up(tied=True, extra_config=SLOTS)
        MEANT.add(pool.folder)
        config.add_cleanup(pool.down)
        made = CondorSite("sshd@condor", place=place())
        made.pool = pool
        needs(made.part)
        _furnish_tools(pool)
        made.up(tied=True, shown=[pool.folder, pool.host_tree()])
        MEANT.add(made.folder)
        config.add_cleanup(made.down)
        config.stash[_CONDOR] = made
    return config.stash[_CONDOR]


def site_of(config: pytest.Config, kind: type[Site]) -> Site:
    """The session's site of this kind."""
    return condor_site(config) if kind is CondorSite else shared_site(config, kind)


def _furnish_tools(pool: Pool) -> None:
    config = pool.host_environment()["CONDOR_CONFIG"]
    tokens = pool.home("pilot") / "tokens.d"
    tokens.mkdir()
    token = tokens / "pool"
    token.write_text(pool.token("pilot@bed.example") + "\n")
    token.chmod(0o600)
    for path in (tokens, token):
        os.chown(path, USERS["pilot"], USERS["pilot"])
    folder = pool.folder / "tools"
    folder.mkdir()
    told = {"config": config, "tokens": tokens, "history": pool.folder / "spool/history"}
    for tool in CONDOR_TOOLS:
        path = folder / tool
        path.write_text(TOOL.format(tool=tool, tree=pool.host_tree(), **told))
        path.chmod(0o755)


def site(kind: type[S], other: str) -> S:
    """A site of this session that is not up yet; whoever starts it takes it down."""
    found = kind(f"{kind.part.name}@{other}", place=place())
    needs(found.part)
    return found


def shared_site(config: pytest.Config, kind: type[S]) -> S:
    """One site of each kind for the whole session, on which pilots find the HTCondor of the shared pool."""
    if _SHARED not in config.stash:
        config.stash[_SHARED] = {}
    shared: dict[Any, Any] = config.stash[_SHARED]
    if kind not in shared:
        started = site(kind, "shared")
        started.up(tied=True, shown=[condor_pool(config).host_tree()])
        MEANT.add(started.folder)
        shared[kind] = started
        config.add_cleanup(started.down)
    found: S = shared[kind]
    return found


def ssh_words(login: Site, user: str) -> list[str]:
    """This machine's ssh, which asks nobody and reads no file of a person."""
    found = shutil.which("ssh")
    if not found:
        pytest.skip("this machine has no `ssh` (package openssh-client)")
    host, port = login.address.split(":")
    options = {
        "UserKnownHostsFile": login.known_hosts,
        "IdentityFile": login.key(user),
        "IdentitiesOnly": "yes",
        "Port": port,
        "User": user,
    }
    words = [found, "-F", "none", *(f"-o{name}={value}" for name, value in options.items())]
    return [*words, host]


def by_ssh(
    login: Site, user: str, *words: str, answer: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs a command on the login node; `answer` is a program that prints what ssh asks for."""
    environ = {
        "PATH": os.environ["PATH"],
        "SSH_ASKPASS_REQUIRE": "force",
        "SSH_ASKPASS": str(answer or "/bin/false"),
    }
    return subprocess.run(
        [*ssh_words(login, user), *words],
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SSH_S_MAX,
        check=False,
    )


def pilot_words(at: Site, pool: Pool, name: str, *, settings: Mapping[str, str] | None = None) -> list[str]:
    """The command of a pilot that joins the pool, to be run on a node; its folder is made here."""
    home = at.home("pilot") / "gp"
    folder = home / "pilots" / name
    (folder / "tokens.d").mkdir(parents=True)
    told = {
        "GLIDEPATH_POOL_KIND": "condor",
        "GLIDEPATH_POOL": "bed",
        "GLIDEPATH_COLLECTOR": pool.address,
        "GLIDEPATH_TERMS": json.dumps({"lines": LINES}),
        "GLIDEPATH_CONDOR": str(pool.host_tree()),
        "GLIDEPATH_SITE": "there",
        "GLIDEPATH_OFFER": "there/small",
        **(settings or {}),
    }
    (folder / "settings.json").write_text(json.dumps(told))
    token = folder / "tokens.d" / "bed.token"
    token.write_text(pool.token(IDENTITY, RIGHTS) + "\n")
    token.chmod(0o600)
    program = pilot_file(home)
    for path in (home, *home.rglob("*")):
        os.chown(path, USERS["pilot"], USERS["pilot"])
    words = ["python3", "-I", str(program), "--kind", "condor", "--name", name, "--folder", str(folder)]
    words += ["--settings", str(folder / "settings.json"), "--pool", "bed"]
    return [*words, "--cpus-milli", "1000", "--memory-mib", "1000", "--disk-mib", "500"]
