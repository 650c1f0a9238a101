"""`glidepath site render`: what a site would be sent, for people, without asking anybody."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TEXT = """\
[pools.campus]
collector = "cm.example.org"

[sites.west]
kind = "slurm"

[sites.west.slurm]
folder = "/nowhere/glidepath"
ssh = { host = "nobody.invalid" }

[sites.west.offers.pair]
cpus = 4
memory = "8GiB"

[sites.west.slurm.offers.pair]
nodes = 2

[sites.pods]
kind = "kubernetes"
kubernetes = { image = "registry.example.org/pilot:1", namespace = "pilots" }

[sites.pods.offers.one]
cpus = 2
memory = "4GiB"

[sites.here]
kind = "local"

[sites.here.offers.one]
cpus = 1
memory = "1GiB"
"""
LONG_S = 60


def render(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    config = folder / "glidepath.toml"
    config.write_text(TEXT)
    return subprocess.run(
        [sys.executable, "-m", "glidepath", "--config", config, "site", "render", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LONG_S,
        check=False,
    )


def test_a_pilot_of_a_batch_site_is_shown_before_it_is_sent(tmp_path: Path) -> None:
    done = render(tmp_path, "west", "pair")
    assert done.returncode == 0, done.stderr
    assert "sbatch --parsable --job-name=gp-render-0-0." in done.stdout
    assert "--nodes=2" in done.stdout
    assert "gp-render-0-0 gp-render-0-1" in done.stdout
    assert "# gp-render-0-1/tokens.d/pilot.token, mode 600:\n(not shown)" in done.stdout


def test_a_pod_is_shown_as_its_manifest(tmp_path: Path) -> None:
    done = render(tmp_path, "pods", "one")
    assert done.returncode == 0, done.stderr
    assert '"image": "registry.example.org/pilot:1"' in done.stdout


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("wset", "pair"), 4, "did you mean `west`?"),
        (("west", "pear"), 4, "did you mean `pair`?"),
        (("west", "pair", "--pool", "camp"), 4, "campus"),
        (("here", "one"), 1, "start pilots without anything that could be shown"),
    ],
)
def test_what_cannot_be_shown_is_told(tmp_path: Path, words: tuple[str, ...], code: int, said: str) -> None:
    done = render(tmp_path, *words)
    assert (done.returncode, said in done.stderr) == (code, True), done.stderr
