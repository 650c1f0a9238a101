"""What a client of pyglidein was told becomes an agent's file and the site's tables at the server."""

from __future__ import annotations

import io
import tomllib
from pathlib import Path

import pytest

from glidepath.cli.main import main
from glidepath.cli.verb import Caller
from glidepath.config import load
from glidepath.config.agent import load_agent
from glidepath.config.pyglidein import PyglideinError, imported

CLUSTER = """
[Mode]
debug = False

[Glidein]
address = http://example.org:11001/jsonrpc
site = Big West!
tarball = condor.tar.gz
loc = /data/glidein

[Cluster]
user = ann
scheduler = slurm
partitions = cpu, gpu
max_total_jobs = 300
limit_per_submit = 20
walltime_hrs = 14
running_cmd = squeue -u $USER -h | wc -l
submit_command = sbatch
prioritize_jobs = ["gpu", "-memory"]
mem_per_core = 3000

[cpu]
partition = shared
cpu_only = True
max_cpus_per_job = 16
max_memory_per_job = 64000

[gpu]
partition = gpus
gpu_only = True
whole_node = True
whole_node_cpus = 32
whole_node_memory = 128000
whole_node_disk = 200000
whole_node_gpus = 4

[SubmitFile]
filename = submit.slurm
local_dir = /tmp/x
mem_safety_scale = 1.1
custom_header = "#SBATCH --account=abc\\n#SBATCH --constraint=haswell"
custom_middle = module load apptainer
    rm -rf /tmp/old

[CustomEnv]
http_proxy = http://squid.example.org:3128
"""


def agent_and_server(text: str, folder: Path) -> tuple[dict[str, object], Path]:
    """The agent's file as it stands, and the server's tables without their comment signs."""
    (folder / "agent.toml").write_text(text)
    _, _, server = text.partition("# For `glidepath.toml` at the server:\n#\n")
    lines = [line.removeprefix("#").removeprefix(" ") for line in server.splitlines()]
    path = folder / "glidepath.toml"
    path.write_text("\n".join([*lines, "", "[pools.physics]", 'collector = "cm.example.org"', ""]))
    return tomllib.loads(text), path


def test_sections_partitions_and_headers_become_an_agents_file_that_is_sound(tmp_path: Path) -> None:
    found = imported("/home/ann/cluster.config", CLUSTER)
    agent, server = agent_and_server(found.text, tmp_path)
    assert agent["site"] == "big-west"
    assert agent["limits"] == {"live_max": 300, "pending_max": 1000, "per_cycle_max": 20}
    assert agent["slurm"] == {
        "folder": "/home/ann/glidepath",
        "memory_percent": 116,
        "memory_per_core": "3000MiB",
        "htcondor": "/data/glidein/condor.tar.gz",
        "account": "abc",
        "options": ["--constraint=haswell"],
        "setup": ["module load apptainer", "export http_proxy=http://squid.example.org:3128"],
        "offers": {
            "cpu": {"walltime": "14h", "queue": "shared"},
            "gpu": {"walltime": "14h", "queue": "gpus", "whole_node": True},
        },
    }
    assert load_agent(tmp_path / "agent.toml").settings.kind == "slurm"
    settings = load(server).settings
    cpu, gpu = (settings.sites["big-west"].offers[name] for name in ("cpu", "gpu"))
    assert (settings.first, cpu.cpus, cpu.memory, cpu.gpus, cpu.fitted) == (
        ("gpus", "-memory"),
        16000,
        64000,
        0,
        True,
    )
    assert (gpu.cpus, gpu.memory, gpu.gpus, gpu.fitted, gpu.lifetime) == (
        32000,
        128000,
        4,
        False,
        14 * 3600 - 300,
    )


def test_what_is_not_carried_over_is_named_with_the_reason() -> None:
    notes = "\n".join(imported("/home/ann/cluster.config", CLUSTER).notes)
    for words in ("`running_cmd` is left out", "`user` is left out", "`rm -rf /tmp/old` of `custom_middle`"):
        assert words in notes


@pytest.mark.parametrize("scheduler", ["pbs", "uge", "lsf", "htcondor"])
def test_every_scheduler_of_the_client_has_its_kind(scheduler: str, tmp_path: Path) -> None:
    text = CLUSTER.replace("scheduler = slurm", f"scheduler = {scheduler}").replace("#SBATCH", "#XX")
    found = imported("/home/ann/cluster.config", text)
    agent, server = agent_and_server(found.text, tmp_path)
    assert agent["kind"] == {"uge": "sge"}.get(scheduler, scheduler)
    assert load(server).settings.sites


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("scheduler = slurm", "scheduler = cron", "`scheduler` is `cron`, and none of"),
        ("walltime_hrs = 14", "waltime_hrs = 14", "`waltime_hrs` is no key of `[Cluster]`; did you mean"),
        ("[SubmitFile]", "[Submitfile]", "`[Submitfile]` is no section; did you mean `SubmitFile`"),
        ("partitions = cpu, gpu", "partitions = cpu, gpu, fpga", "there is no section `[fpga]`"),
        ("walltime_hrs = 14", "walltime_hrs = long", "`walltime_hrs`: `long` is no number"),
        ("max_total_jobs = 300", "max_total_jobs = -3", "`max_total_jobs`: `-3` is no number"),
        ("[Mode]", "[Mode", "cluster.config"),
    ],
)
def test_every_mistake_is_named(old: str, new: str, said: str) -> None:
    with pytest.raises(PyglideinError) as error:
        imported("/home/ann/cluster.config", CLUSTER.replace(old, new))
    assert said in str(error.value)


@pytest.mark.parametrize(("mode", "code"), [(0o600, 0), (0o640, 1), (0o604, 1), (0o610, 1)])
def test_secrets_that_others_can_read_are_refused_and_none_is_ever_printed(
    tmp_path: Path, mode: int, code: int
) -> None:
    (tmp_path / "cluster.config").write_text(CLUSTER)
    secrets = tmp_path / "secrets"
    secrets.write_text("[StartdLogging]\naccess_key = AKIA-SECRET\nsecret_key = hush\n")
    secrets.chmod(mode)
    out, err = io.StringIO(), io.StringIO()
    caller = Caller(out, err, {"HOME": str(tmp_path)}, lambda seconds: None, lambda: 0.0)
    words = ["config", "import", "pyglidein", str(tmp_path / "cluster.config"), "--secrets", str(secrets)]
    assert main(words, caller=caller) == code
    assert bool(out.getvalue()) is (code == 0)
    assert "hush" not in out.getvalue() + err.getvalue()
    assert "AKIA" not in out.getvalue() + err.getvalue()
