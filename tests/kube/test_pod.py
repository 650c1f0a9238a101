"""The pod of a pilot: whole objects for presets and published configurations, parts for everything else."""

from __future__ import annotations

import json
import tomllib
from itertools import product
from typing import Any

import pytest

from glidepath.condor.binding import ClassAd
from glidepath.core.quantity import Resources
from glidepath.kube.intent import ATTRIBUTES, INTENT, OWNER, SETTINGS, intent_of
from glidepath.kube.pod import secret_name, secret_of
from glidepath.kube.presets import PRESETS, WORK
from glidepath.kube.settings import SET_BY_PRESET, TOKEN_FOLDERS
from glidepath.pilot.parts.__main__ import arguments
from glidepath.pilot.parts.terms import settings_of
from kube.pod_builders import GOLDEN, JOIN, TOKEN, container, env, leaves, mounts, pod, settings, spec
from kube.pod_security import baseline, restricted

GPU = spec(size=Resources(1000, 4096, 7813, 1))
JOBS = {
    "glidepath": spec(),
    "osg": spec(),
    "prp-icecube": GPU,
    "prp-ligo": GPU,
    "prp-osgvo": spec(size=Resources(2000, 8192, 20480)),
}
PUBLISHED = ("prp-icecube", "prp-ligo", "prp-osgvo")


def of_file(name: str) -> dict[str, Any]:
    return pod(JOBS[name], **tomllib.loads((GOLDEN / f"{name}.toml").read_text(encoding="utf-8")))


@pytest.mark.parametrize("name", JOBS)
def test_the_whole_pod_is_as_written_down(name: str) -> None:
    assert of_file(name) == json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))


def test_every_whole_pod_has_its_settings() -> None:
    assert {path.stem for path in GOLDEN.glob("*.json")} == set(JOBS)


# What the PRP provisioner itself would have asked for, by its published configurations.
FACTS: dict[str, dict[str, Any]] = {
    "prp-icecube": {
        "priority": "opportunistic2",
        "taints": ["noceph", "chase-ci", "haosu", "suncave"],
        "requests": {"cpu": "1000m", "memory": "5096Mi", "nvidia.com/gpu": "1", "smarter-devices/fuse": "1"},
        "limits": {"cpu": "1000m", "memory": "5096Mi", "nvidia.com/gpu": "1", "smarter-devices/fuse": "1"},
        "labels": {
            "applicationId": "osg-icecube-wn",
            "PodGPUs": "1",
            "PodMemory": "4096",
            "PodDisk": "8000000",
        },
        "env": {"NUM_GPUS": "1", "MEMORY": "4096", "DISK": "8000000", "OSG_PROJECT_NAME": "IceCube"},
    },
    "prp-ligo": {
        "priority": "opportunistic2",
        "taints": ["noceph"],
        "requests": {"cpu": "1000m", "memory": "5096Mi", "nvidia.com/gpu": "1"},
        "limits": {"cpu": "1000m", "memory": "5096Mi", "nvidia.com/gpu": "1"},
        "labels": {"applicationId": "osg-ligo-wn", "PodCPUs": "1"},
        "env": {"POOL": "condor.igwn.org", "CCB_RANGE_LOW": "9618", "NUM_CPUS": "1"},
    },
    "prp-osgvo": {
        "priority": "opportunistic",
        "taints": ["noceph", "chase-ci"],
        "requests": {"cpu": "1500m", "memory": "6553Mi", "smarter-devices/fuse": "1"},
        "limits": {"cpu": "2250m", "memory": "9192Mi", "smarter-devices/fuse": "1"},
        "labels": {"PodCPUs": "2", "PodGPUs": "0", "PodMemory": "8192", "PodDisk": "20971520"},
        "env": {"NUM_GPUS": "0", "GLIDEIN_ResourceName": "SDSC-PRP-CE1"},
    },
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_configurations_give_what_their_provisioner_gives(name: str) -> None:
    found, facts = of_file(name), FACTS[name]
    resources = container(found)["resources"]
    assert found["spec"]["priorityClassName"] == facts["priority"]
    assert found["spec"]["tolerations"] == [
        {"key": f"nautilus.io/{taint}", "operator": "Exists", "effect": "NoSchedule"}
        for taint in facts["taints"]
    ]
    assert facts["requests"].items() <= resources["requests"].items()
    assert facts["limits"].items() <= resources["limits"].items()
    always = {"prp-htcondor-portal": "wn", "k8s-app": "osg-direct"}
    assert {**always, **facts["labels"]}.items() <= found["metadata"]["labels"].items()
    told = {
        "K8S_PROVISIONER_TYPE": "PRPHTCondorProvisioner",
        "K8S_PROVISIONER_NAME": "osg-direct",
        "K8S_NAMESPACE": "ns",
        "K8S_DOMAIN": "nrp-nautilus.io",
        "FORCE_K8SNAMESPACE_MATCHING": "no",
        "CONDOR_HOST": "cm.example.org:9618",
        "STARTD_NOCLAIM_SHUTDOWN": "1200",
        "PHYSICAL_HOSTNAME": "<spec.nodeName>",
        "GLIDEIN_Site": "SDSC-PRP",
        **facts["env"],
    }
    assert told.items() <= env(found).items()
    assert mounts(found)["/etc/condor/tokens.d"]["secret"]["items"] == [
        {"key": "prp-wn.token", "path": "prp-wn.token"}
    ]


def test_nodes_are_chosen_and_left_out_by_their_labels_and_names() -> None:
    nodes = [
        {"key": "example.org/zone", "any_of": ["a", "b"]},
        {"key": "example.org/power", "none_of": ["low"]},
        {"key": "example.org/gpu", "exists": True},
        {"key": "example.org/old", "exists": False},
    ]
    told = spec(avoid=("n2", "n1", "n2", "", "No Node"), traits=(("arch", "aarch64"),))
    affinity = pod(told, nodes=nodes)["spec"]["affinity"]["nodeAffinity"]
    assert affinity == {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {
                    "matchExpressions": [
                        {"key": "example.org/zone", "operator": "In", "values": ["a", "b"]},
                        {"key": "example.org/power", "operator": "NotIn", "values": ["low"]},
                        {"key": "example.org/gpu", "operator": "Exists"},
                        {"key": "example.org/old", "operator": "DoesNotExist"},
                        {"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"]},
                    ],
                    "matchFields": [
                        {"key": "metadata.name", "operator": "NotIn", "values": ["n1"]},
                        {"key": "metadata.name", "operator": "NotIn", "values": ["n2"]},
                    ],
                }
            ]
        }
    }
    assert "affinity" not in pod(spec(avoid=("",)))["spec"]


def test_each_form_of_toleration() -> None:
    said = [
        {"key": "a"},
        {"key": "b", "value": "x", "effect": "NoSchedule"},
        {"key": "c", "value": ""},
        {"key": "d", "effect": "NoExecute", "within": "5m"},
    ]
    assert pod(tolerations=said)["spec"]["tolerations"] == [
        {"key": "a", "operator": "Exists"},
        {"key": "b", "operator": "Equal", "value": "x", "effect": "NoSchedule"},
        {"key": "c", "operator": "Equal", "value": ""},
        {"key": "d", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
    ]


GPUS = {
    "gpus": {"resource": "nvidia.com/gpu"},
    "gpu_types": {
        "mi300": {"resource": "amd.com/gpu", "nodes": [{"key": "amd.com/gpu.family", "any_of": ["MI300"]}]},
        "a10": {"nodes": [{"key": "nvidia.com/gpu.product", "any_of": ["NVIDIA-A10"]}]},
    },
    "priority_class": "low",
    "priority_class_gpu": "high",
}


@pytest.mark.parametrize(
    ("kind", "gpus", "resource", "label", "priority"),
    [
        ("a10", 2, "nvidia.com/gpu", "nvidia.com/gpu.product", "high"),
        ("mi300", 1, "amd.com/gpu", "amd.com/gpu.family", "high"),
        ("", 1, "nvidia.com/gpu", "", "high"),
        ("unheard-of", 1, "nvidia.com/gpu", "", "high"),
        ("a10", 0, "", "", "low"),
    ],
)
def test_gpus_are_asked_for_by_type(kind: str, gpus: int, resource: str, label: str, priority: str) -> None:
    traits = (("gpu_type", kind),) if kind else ()
    found = pod(spec(size=Resources(1000, 2048, 0, gpus), traits=traits), **GPUS)
    resources = container(found)["resources"]
    for part in ("requests", "limits"):
        asked = {key: amount for key, amount in resources[part].items() if "gpu" in key}
        assert asked == ({resource: str(gpus)} if gpus else {})
    keys = [value for key, value in leaves(found["spec"].get("affinity", {})) if key == "key"]
    assert keys == ([label] if label else [])
    assert found["spec"]["priorityClassName"] == priority


@pytest.mark.parametrize(
    ("overhead", "requests", "limits"),
    [
        ("none", ("4000m", "8192Mi", "20580Mi"), ("4000m", "8192Mi", "20580Mi")),
        ("prp", ("3000m", "6553Mi", "20480Mi"), ("4250m", "9192Mi", "20480Mi")),
        ("prp-even", ("4000m", "9192Mi", "20480Mi"), ("4000m", "9192Mi", "20480Mi")),
    ],
)
def test_requests_and_limits(overhead: str, requests: tuple[str, ...], limits: tuple[str, ...]) -> None:
    found = container(pod(overhead=overhead, resources={"example.org/fuse": "1"}))["resources"]
    names = ("cpu", "memory", "ephemeral-storage")
    for part, amounts in (("requests", requests), ("limits", limits)):
        expected = {**dict(zip(names, amounts, strict=True)), "example.org/fuse": "1"}
        assert found[part] == expected


def test_claims_configs_secrets_and_shared_memory() -> None:
    found = mounts(
        pod(
            claims=[
                {"claim": "cvmfs", "path": "/cvmfs", "shares_mounts": True},
                {"claim": "big", "path": f"{WORK}/", "read_only": False},
            ],
            configs=[{"name": "conf", "path": "/etc/extra"}],
            secrets=[{"name": "keys", "path": "/etc/keys/one", "key": "one"}],
            shm="1GiB",
        )
    )
    assert found["/cvmfs"] == {
        "persistentVolumeClaim": {"claimName": "cvmfs", "readOnly": True},
        "readOnly": True,
        "mountPropagation": "HostToContainer",
    }
    assert found[f"{WORK}/"]["persistentVolumeClaim"] == {"claimName": "big", "readOnly": False}
    assert WORK not in found, "a claim takes the place of scratch"
    assert found["/etc/extra"] == {"configMap": {"name": "conf"}, "readOnly": True}
    assert found["/etc/keys/one"] == {
        "secret": {"secretName": "keys", "defaultMode": 0o440},
        "readOnly": True,
        "subPath": "one",
    }
    assert found["/dev/shm"] == {"emptyDir": {"medium": "Memory", "sizeLimit": "1024Mi"}}


LEVELS: dict[str, tuple[bool, bool, dict[str, Any]]] = {
    # Whether `restricted` and `baseline` let it pass, and what is there besides.
    "restricted": (True, True, {}),
    "kata": (True, True, {"runtimeClassName": "kata"}),
    "apptainer": (False, False, {}),
    "image": (False, False, {}),
}


@pytest.mark.parametrize("level", LEVELS)
def test_each_level_is_what_it_says(level: str) -> None:
    strict, base, besides = LEVELS[level]
    found = pod(level=level)
    assert (not list(restricted(found)), not list(baseline(found))) == (strict, base)
    assert {key: found["spec"].get(key) for key in ("runtimeClassName",)} == {
        "runtimeClassName": None,
        **besides,
    }
    unconfined = {"type": "Unconfined"}
    open_level = level in ("apptainer", "image")
    assert (found["spec"]["securityContext"]["seccompProfile"] == unconfined) is open_level
    assert (found["spec"]["securityContext"].get("appArmorProfile") == unconfined) is open_level
    assert ("runAsUser" in found["spec"]["securityContext"]) is (level != "image")


@pytest.mark.parametrize(
    ("level", "mount"), [("restricted", None), ("apptainer", "Unmasked"), ("image", "Unmasked")]
)
def test_users_of_its_own(level: str, mount: str | None) -> None:
    found = pod(level=level, user_namespace=True)
    assert found["spec"]["hostUsers"] is False
    assert container(found)["securityContext"].get("procMount") == mount
    assert "hostUsers" not in pod(level=level)["spec"]


FURTHER: tuple[dict[str, Any], ...] = (
    {},
    {"runtime_class": "gvisor", "user": 12345, "user_namespace": True},
    {"claims": [{"claim": "c", "path": "/c", "shares_mounts": True}], "shm": "1GiB"},
    {"configs": [{"name": "c", "path": "/c"}], "secrets": [{"name": "s", "path": "/s/k", "key": "k"}]},
    {"overhead": "prp", "priority_class": "p", "resources": {"example.org/fuse": "1"}, **GPUS},
    {"token_secret": "t", "env": {"A": "b"}, "labels": {"a": "b"}, "annotations": {"a": "b"}},
    {"nodes": [{"key": "k", "exists": True}], "tolerations": [{"key": "k"}], "pull_secrets": ["p"]},
)


@pytest.mark.parametrize(("preset", "further"), list(product(PRESETS, FURTHER)))
def test_restricted_pods_pass_every_rule_of_pod_security(preset: str, further: dict[str, Any]) -> None:
    for told in (spec(), GPU, spec(secrets=(), join=())):
        found = pod(told, preset=preset, **further)
        assert list(restricted(found)) == []
        assert found["spec"]["automountServiceAccountToken"] is False
        assert found["spec"]["enableServiceLinks"] is False


def test_the_checker_finds_what_is_wrong() -> None:
    bare = {"metadata": {}, "spec": {"containers": [{}]}}
    assert set(restricted(bare)) == {
        *("allowPrivilegeEscalation", "runAsNonRoot", "seccomp", "capabilities to drop"),
    }
    bad: dict[str, Any] = {
        "privileged": True,
        "procMount": "Unmasked",
        "capabilities": {"add": ["SYS_ADMIN"]},
    }
    bad |= {"seLinuxOptions": {"type": "spc_t"}, "sysctls": [{"name": "kernel.msgmax"}]}
    bad |= {"windowsOptions": {"hostProcess": True}, "runAsUser": 0}
    spec_ = {
        "hostNetwork": True,
        "hostPID": True,
        "hostIPC": True,
        "volumes": [{"name": "v", "hostPath": {}}],
    }
    holder = {
        "securityContext": bad,
        "ports": [{"hostPort": 1}],
        "lifecycle": {"preStop": {"httpGet": {"host": "h"}}},
    }
    notes = {"container.apparmor.security.beta.kubernetes.io/c": "unconfined"}
    found = set(restricted({"metadata": {"annotations": notes}, "spec": {**spec_, "containers": [holder]}}))
    assert {
        *(
            "HostProcess",
            "hostNetwork",
            "hostPID",
            "hostIPC",
            "privileged",
            "capabilities",
            "AppArmor",
            "SELinux",
        ),
        *("/proc", "sysctls", "hostPath", "hostPort", "host of a probe", "volume types", "runAsUser"),
    } <= found


def test_the_osg_container_gets_what_it_cannot_do_without() -> None:
    found = pod(preset="osg")
    told = env(found)
    assert (told["GLIDEIN_Site"], told["GLIDEIN_ResourceName"]) == ("k8s", "k8s-worker")
    assert "CONDOR_HOST" not in told
    assert told["POOL"] == "cm.example.org:9618", "untold, it would join the OSPool"
    assert found["spec"]["securityContext"]["runAsUser"] == 1000, (
        "HTCondor needs a user that has a name there"
    )
    assert mounts(found)["/etc/condor/tokens-orig.d"]["secret"] == {
        "secretName": "gp-1-token",
        "defaultMode": 0o440,
        "items": [{"key": "pool.token", "path": "flock.opensciencegrid.org"}],
    }
    written = found["metadata"]["annotations"][ATTRIBUTES]
    assert ClassAd(f"[{written.replace(chr(10), ';')}]")["GlidepathPilot"] == "gp-1"
    ours = pod(preset="osg", env={"GLIDEIN_Site": "S", "GLIDEIN_ResourceName": "R", "POOL": "prod-ospool"})
    assert {"GLIDEIN_Site": "S", "GLIDEIN_ResourceName": "R", "POOL": "prod-ospool"}.items() <= env(
        ours
    ).items()


@pytest.mark.parametrize("lifetime_s", [1800, 3600, 2 * 3600, 12 * 3600, 14 * 86400])
@pytest.mark.parametrize("preset", ["osg", "prp"])
def test_an_image_that_counts_in_hours_is_not_ended_before_its_time(preset: str, lifetime_s: int) -> None:
    found = pod(spec(lifetime_s=lifetime_s), preset=preset)
    told = env(found)
    hours = int(told["ACCEPT_JOBS_FOR_HOURS"]) + int(told["RETIREMENT_HOURS"])
    assert int(told["ACCEPT_JOBS_FOR_HOURS"]) >= 1
    assert hours * 3600 <= max(lifetime_s, 7200)
    assert found["spec"]["activeDeadlineSeconds"] > hours * 3600


@pytest.mark.parametrize(
    ("preset", "said", "items"),
    [
        ("osg", {"token_secret": "t"}, None),
        ("osg", {"token_secret": "t", "token_key": "k"}, [{"key": "k", "path": "flock.opensciencegrid.org"}]),
        ("prp", {"token_secret": "t", "token_key": "k"}, [{"key": "k", "path": "prp-wn.token"}]),
        ("prp", {}, [{"key": "pool.token", "path": "prp-wn.token"}]),
        ("glidepath", {"token_secret": "t", "token_key": "k"}, [{"key": "k", "path": "k"}]),
        ("glidepath", {}, None),
    ],
)
def test_the_token_is_where_the_image_looks(preset: str, said: dict[str, Any], items: Any) -> None:
    found = mounts(pod(preset=preset, **said))[TOKEN_FOLDERS[preset]]
    assert found["readOnly"] is True
    assert found["secret"]["secretName"] == said.get("token_secret", "gp-1-token")
    assert found["secret"].get("items") == items


def test_our_own_pilot_understands_what_it_is_told() -> None:
    told = spec(traits=(("arch", "x86_64"), ("odd", "--name=x")), pool="-pool", join=JOIN[:1] + JOIN[2:])
    found = pod(told)
    args = arguments([word.replace("$$", "$") for word in container(found)["args"]])
    assert (args.kind, args.name, args.pool, args.cpus_milli, args.gpus) == (
        "condor",
        "gp-1",
        "-pool",
        4000,
        0,
    )
    assert args.trait == [("arch", "x86_64"), ("odd", "--name=x")]
    assert args.folder in mounts(found), "the pilot does not make its own folder"
    settings_file = json.loads(found["metadata"]["annotations"][SETTINGS])
    understood = settings_of(settings_file)
    assert understood.collectors == ("cm.example.org:9618",)
    assert understood.tokens in mounts(found)
    assert args.settings.startswith("/etc/glidepath/told/")
    assert "/etc/glidepath/told" in mounts(found)


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_set_what_the_settings_say_they_set(preset: str) -> None:
    told = PRESETS[preset](spec(), settings(preset=preset).pod(""), "ns")
    assert {*told.env, *told.fields} == SET_BY_PRESET[preset]


def test_variables_are_literal() -> None:
    found = pod(spec(traits=(("x", "$(SECRET)"),)), env={"SECRET": "s", "EXPR": "$(X) $"})
    assert env(found)["EXPR"] == "$$(X) $$"
    assert "--trait=x=$$(SECRET)" in container(found)["args"]


@pytest.mark.parametrize("preset", PRESETS)
def test_secrets_of_a_pilot_are_in_its_secret_only(preset: str) -> None:
    assert TOKEN not in json.dumps(pod(preset=preset))
    assert TOKEN not in repr(spec())
    found = secret_of(spec(), "uid-1")
    assert found["stringData"] == {"pool.token": TOKEN}
    assert found["metadata"]["name"] == secret_name(spec()) == "gp-1-token"
    assert found["metadata"]["ownerReferences"][0]["uid"] == "uid-1"


def test_who_uses_what_is_seen_with_kubectl_alone() -> None:
    found = pod(labels={"app.kubernetes.io/name": "x", "team": "a"}, annotations={"contact": "b"})["metadata"]
    assert found["labels"] == {
        "app.kubernetes.io/name": "glidepath-pilot",
        "app.kubernetes.io/managed-by": "glidepath",
        "team": "a",
        "glidepath/site": "k8s",
        "glidepath/pilot": "gp-1",
        "glidepath/pool": "pool",
        "glidepath/offer": "worker",
        "glidepath/shape": "4c-8192m-20480d",
        "glidepath/community": "physics",
    }
    assert (found["annotations"][OWNER], found["annotations"]["contact"]) == ("alice", "b")
    intent = intent_of(found["annotations"][INTENT])
    assert (intent.owner, intent.offer, intent.size) == ("alice", "k8s/worker", spec().size)
