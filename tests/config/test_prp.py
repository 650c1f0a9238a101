"""The ini files of a PRP provisioner become a configuration that says the same and passes every check."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from glidepath.config import load
from glidepath.config.prp import DEFAULTS, PrpError, imported

POD = """\
[DEFAULT]
sleep_time=120

[k8s]
namespace=osg-icecube
app_name=osg-icecube
k8s_image=sfiligoi/prp-portal-wn
tolerations_list=nautilus.io/noceph, nautilus.io/chase-ci
node_affinity_dict=^kubernetes.io/hostname:a.example|b.example,nvidia.com/gpu.product:NVIDIA-A10|Tesla-V100
priority_class_cpu=opportunistic2
priority_class_gpu=opportunistic
pvc_volumes_dict=!cvmfs:/cvmfs,#!other:/data,own:/scratch
config_volumes_dict=extra:/etc/condor/config.d/90-extra.conf
labels_dict=group:ice
envs_dict=GLIDEIN_Site:SDSC-PRP,PROXY:http&colon;//squid&comma;other
resources_dict=example.org/thing:2
"""
OSG = """\
[htcondor]
condor_host=cm.example.org
additional_requirements=(DESIRED_Sites =?= undefined)
max_pods_per_cluster=10
"""


def tables(*texts: str) -> dict[str, object]:
    found = imported([(f"{n}.conf", text) for n, text in enumerate(texts)])
    return tomllib.loads(found.text)


def test_what_the_files_said_is_said_again() -> None:
    found = tables(POD, OSG)
    site = found["sites"]["osg-icecube"]  # type: ignore[index]  # TOML.
    assert found["policy"] == {
        "name": "prp",
        "max_pods_per_cluster": 10,
        "max_submit_pods_per_cluster": 1000,
    }
    assert found["pools"] == {"osg-icecube": {"kind": "condor", "collector": "cm.example.org"}}
    assert site["kubernetes"] == {
        "preset": "prp",
        "level": "image",
        "image": "sfiligoi/prp-portal-wn",
        "namespace": "osg-icecube",
        "pull_policy": "Always",
        "token_secret": "prp-htcondor-wn-secret",
        "priority_class": "opportunistic2",
        "priority_class_gpu": "opportunistic",
        "overhead": "prp",
        "nodes": [
            {"key": "kubernetes.io/hostname", "none_of": ["a.example", "b.example"]},
            {"key": "nvidia.com/gpu.product", "any_of": ["NVIDIA-A10", "Tesla-V100"]},
        ],
        "tolerations": [
            {"key": "nautilus.io/noceph", "effect": "NoSchedule"},
            {"key": "nautilus.io/chase-ci", "effect": "NoSchedule"},
        ],
        "labels": {"group": "ice", "k8s-app": "osg-icecube"},
        "env": {
            "ADDITIONAL_REQUIREMENTS": "(DESIRED_Sites =?= undefined)",
            "FORCE_K8SNAMESPACE_MATCHING": "yes",
            "GLIDEIN_Site": "SDSC-PRP",
            "K8S_DOMAIN": "optiputer.net",
            "PROXY": "http://squid,other",
        },
        "resources": {"example.org/thing": "2", "smarter-devices/fuse": "1"},
        "storage": "20000MiB",
        "claims": [
            {"claim": "cvmfs", "path": "/cvmfs", "read_only": True},
            {"claim": "other", "path": "/data", "read_only": True, "shares_mounts": True},
            {"claim": "own", "path": "/scratch", "read_only": False},
        ],
        "configs": [{"name": "extra", "path": "/etc/condor/config.d/90-extra.conf", "key": "90-extra.conf"}],
    }
    offer = site["offers"]["fitted"]
    assert offer["community"] == "osg-icecube"
    assert offer["condor"] == {"start": ["(DESIRED_Sites =?= undefined)"]}
    assert (offer["fitted"], offer["idle"], offer["min"]["memory"]) == (True, "20m", "4096MiB")


@pytest.mark.parametrize("texts", [(), ("",), (POD, OSG), ("[k8s]\nuse_large_limit=no\nrequest_fuse=no\n",)])
def test_the_result_passes_every_check(tmp_path: Path, texts: tuple[str, ...]) -> None:
    path = tmp_path / "glidepath.toml"
    path.write_text(imported([(str(n), text) for n, text in enumerate(texts)]).text)
    assert load(path).settings.sites


def test_a_later_file_goes_before_an_earlier_one_and_all_of_it_is_told() -> None:
    found = imported([("a", "[k8s]\nstorage_mbs=100\n"), ("b", "[k8s]\nstorage_mbs=300\nk8s_job_ttl=5\n")])
    assert 'storage = "300MiB"' in found.text
    assert "`k8s_job_ttl` is left out: ended pods are removed once their statistics are kept" in found.notes


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "[DEFAULT]\nsleep_tim=120\n",
            "a: `sleep_tim` is no key of the provisioner; did you mean `sleep_time`?",
        ),
        ("[k8s]\nlabels_dict=nothing\n", "`labels_dict`: `nothing` has no `:`"),
        ("[htcondor]\nmax_pods_per_cluster=many\n", "`max_pods_per_cluster`: `many` is no whole number"),
        ("[htcondor]\nmax_pods_per_cluster=0\n", "`max_pods_per_cluster`: `0` is no whole number"),
        ("no section\n", "a: File contains no section headers"),
        ("[k8s]\nnamespace=x\nnamespace=y\n", "a: While reading from 'a'"),
    ],
)
def test_a_file_that_cannot_be_meant_is_an_error(text: str, said: str) -> None:
    with pytest.raises(PrpError) as raised:
        imported([("a", text)])
    assert str(raised.value).startswith(said)


@pytest.mark.parametrize(
    ("pattern", "expected"), [(".*", None), ("ap[12]", None), (r"ap.*\.example\.org", "ap*.example.org")]
)
def test_patterns_of_schedds_are_taken_over_where_they_can_be(pattern: str, expected: str | None) -> None:
    found = imported([("a", f"[htcondor]\nschedd_whitelist_regexp={pattern}\n")])
    schedds = tomllib.loads(found.text)["pools"]["prp-wn"].get("condor", {}).get("schedds")
    assert schedds == ([{"name": expected}] if expected else None)
    assert any("schedd_whitelist_regexp" in note for note in found.notes) is (pattern == "ap[12]")


def test_hostile_values_stay_values() -> None:
    text = '[k8s]\nk8s_image=x"\\n[sites.evil]\nenvs_dict=A:"] = 1\n'
    found = tables(text)
    assert list(found["sites"]) == ["prp-wn"]  # type: ignore[call-overload]  # TOML.


def test_every_published_key_is_known() -> None:
    assert len(DEFAULTS) == 29
