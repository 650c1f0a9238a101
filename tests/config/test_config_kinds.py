"""What kinds of sites say of offers they cannot have; limits of pools at a site, what is served first."""

from __future__ import annotations

from pathlib import Path

import pytest
from config_builders import GOOD, FakeCatalog, problems

from glidepath.backends.batch import slurm
from glidepath.backends.cloud import backend as cloud
from glidepath.plugins import BACKENDS

KINDS = FakeCatalog({(BACKENDS, "slurm"): slurm, (BACKENDS, "cloud"): cloud})
BATCH = """\
[pools.campus]
kind = "embedded"

[sites.west]
kind = "slurm"

[sites.west.offers.small]
cpus = 4
memory = "8GiB"
lifetime = "9h"

[sites.west.slurm]
folder = "/scratch/ada"
"""
CLOUD = """\
[pools.campus]
kind = "embedded"

[sites.west]
kind = "cloud"

[sites.west.offers.odd]
cpus = 3
memory = "6GiB"

[sites.west.cloud]
way = "rest"
cpu_sizes = [2, 4]
memory_per_cpu = "2GiB"
states = { run = "running" }

[sites.west.cloud.rest]
url = "https://cloud.example.org"
submit = { method = "POST", path = "/jobs", body = { name = "{name}" } }
list = { method = "GET", path = "/jobs" }
delete = { path = "/jobs/{id}", method = "DELETE" }
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (BATCH, []),
        (
            BATCH + 'walltime = "9h"\n',
            [
                "glidepath.toml:14: sites.west.slurm.walltime: `9h` is too short for pilots that live 9h: "
                "with what their jobs have to end in they need 9h25m; raise `walltime`, or lower "
                "the `lifetime`"
            ],
        ),
        (
            BATCH + 'walltime = "1d"\n[sites.west.slurm.offers.small]\nwalltime = "9h10m"\n',
            [
                "glidepath.toml:16: sites.west.slurm.offers.small.walltime: `9h10m` is too short for pilots "
                "that live 9h: with what their jobs have to end in they need 9h25m; raise `walltime`, or "
                "lower the `lifetime`"
            ],
        ),
        (
            BATCH + '[sites.west.slurm.offers.smal]\nqueue = "long"\n',
            [
                "glidepath.toml:14: sites.west.slurm.offers.smal: the site has no offer `smal`; "
                "did you mean `small`?"
            ],
        ),
        (
            BATCH + 'options = ["--output=/tmp/x"]\n',
            ["sites.west.slurm: `options`: `--output` is not taken"],
        ),
        (
            CLOUD,
            [
                "glidepath.toml:7: sites.west.offers.odd: the cloud has no container of 3 CPU 6GiB; "
                "the nearest that holds it has 4 CPUs and 8192 MiB of memory; change `cpus` and `memory` of "
                "the offer"
            ],
        ),
    ],
)
def test_what_a_kind_cannot_do_is_told_with_its_line(tmp_path: Path, text: str, expected: list[str]) -> None:
    found = problems(tmp_path, text, catalog=KINDS)
    assert len(found) == len(expected), found
    for said, wanted in zip(found, expected, strict=True):
        assert wanted in said


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("pool_limits = { campus = { live_max = 3 } }", ""),
        ("pool_limits = { camp = { live_max = 3 } }", "there is no pool `camp`; did you mean `campus`?"),
        ("pool_limits = { other = { live_max = 3 } }", "the site does not accept the pool `other`"),
        ("pool_limits = { campus = { live = 3 } }", "unknown key"),
    ],
)
def test_limits_of_a_pool_at_a_site_name_a_pool_that_it_accepts(
    tmp_path: Path, line: str, expected: str
) -> None:
    text = GOOD.replace('pools = ["campus"]', f'pools = ["campus"]\n{line}')
    text += '[pools.other]\nkind = "embedded"\n'
    found = problems(tmp_path, text)
    assert (found == []) if not expected else (len(found) == 1 and expected in found[0]), found


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ('["gpus", "-memory"]', ""),
        ('["gpu"]', "`gpu` is no order; did you mean `gpus`?"),
        ('["-old"]', "is no order"),
        ('"gpus"', "must be a list"),
    ],
)
def test_an_order_that_nobody_knows_is_told(tmp_path: Path, order: str, expected: str) -> None:
    found = problems(tmp_path, f"first = {order}\n{GOOD}")
    assert (found == []) if not expected else (len(found) == 1 and expected in found[0]), found
