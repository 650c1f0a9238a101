"""A batch site that a person opens with a second factor; glidepath never tries by itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from bed.parts.batch_root import SECOND_FACTOR
from bed.parts.slurm import Slurm

from scenes.several import seldom
from sites.sites_world import WAIT_S, Sites

pytestmark = pytest.mark.real


def login(world: Sites, name: str, answer: Path) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "glidepath", "site", "login", name, "--config", str(world.config)]
    environ = {"SSH_ASKPASS": str(answer), "SSH_ASKPASS_REQUIRE": "force", "GLIDEPATH_HOME": str(world.home)}
    return subprocess.run(
        words, env={**os.environ, **environ}, capture_output=True, text=True, timeout=WAIT_S, check=False
    )


def test_a_site_with_a_second_factor_is_used_once_a_person_has_logged_in(
    world: Sites, slurm: Slurm, tmp_path: Path
) -> None:
    answer = tmp_path / "answer"
    answer.write_text(f"#!/bin/sh\necho {SECOND_FACTOR}\n")
    answer.chmod(0o755)
    asked = world.at(slurm, user="factor", login="person", live_max=1)
    work = world.submit("sleep 1; id -un", "request_memory = 300", "output = who", count=2)
    world.up()
    seldom(lambda: world.source(asked)["state"] == "unseen", world.said, within_s=WAIT_S)
    assert f"glidepath site login {asked.name}" in world.source(asked)["why"]
    before = slurm.log("sshd").count("keyboard-interactive/pam for factor")
    done = login(world, asked.name, answer)
    assert done.returncode == 0, (done.stdout, done.stderr)
    world.done(work)
    assert (world.pool.home("ann") / "who").read_text() == "factor\n"
    # Asked once, however many commands went over the connection since.
    assert slurm.log("sshd").count("Accepted keyboard-interactive/pam for factor") == before + 1
