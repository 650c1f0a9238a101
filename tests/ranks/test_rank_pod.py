"""The objects of one set of ranks: one whole pod as it should be, and what each wish changes in it."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from glidepath.cluster.kubernetes import keeper
from glidepath.cluster.kubernetes.pod import anchor_of, digest, intent_of, secret_of
from glidepath.core.place.rank import File, Volume
from glidepath.core.quantity import Resources
from kube.pod_security import restricted
from ranks.rank_builders import UID, container, env, mounts, pod, ranks, settings

GANG = ("n1", "n2", "n3")
VOLUMES: dict[str, Any] = {
    "volumes": {
        "data": {"claim": "data", "read_only": True},
        "home": {"claim": "homes", "below": "lab/ada"},
    }
}


def test_a_pod_is_what_was_asked_for_and_nothing_else() -> None:
    made = pod(ranks(limit_s=3600))
    spec = made["spec"]
    assert {k: made["metadata"][k] for k in ("name", "ownerReferences")} == {
        "name": "gp-7-2-0",
        "ownerReferences": [{"apiVersion": "v1", "kind": "Service", "name": "gp-7-2", "uid": UID}],
    }
    assert made["metadata"]["labels"] == {
        "app.kubernetes.io/name": "glidepath-job",
        "app.kubernetes.io/managed-by": "glidepath",
        "glidepath/cluster": "lab",
        "glidepath/set": "7.2",
        "glidepath/owner": "ada",
        "glidepath/rank": "0",
        "glidepath/job": "7",
    }
    assert made["metadata"]["annotations"] == {
        "glidepath/owner": "ada",
        "glidepath/limit": "3600",
        "glidepath/hosts": "gp-7-2-0.gp-7-2\n",
        "glidepath/go": "yes",
    }
    assert {k: v for k, v in spec.items() if k not in ("containers", "volumes")} == {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 45,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "hostname": "gp-7-2-0",
        "subdomain": "gp-7-2",
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 20000,
            "runAsGroup": 20000,
            "fsGroup": 20000,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
                    ]
                }
            }
        },
        "tolerations": [
            {
                "key": f"node.kubernetes.io/{word}",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 300,
            }
            for word in ("not-ready", "unreachable")
        ],
    }


def test_a_container_is_a_keeper_with_its_command() -> None:
    made = pod(ranks(limit_s=3600, notice_s=60, env=(("A", "$(HOME)"),)))
    only = container(made)
    assert only["command"] == ["/bin/sh", "-c", keeper.SCRIPT.replace("$", "$$")]
    told = [
        "glidepath",
        keeper.TOLD,
        keeper.FILES,
        keeper.LAST_WORDS,
        "30",
        "300",
        "/work",
        "60",
        "USR1",
        "0",
    ]
    assert only["args"] == [*told, "python3", "train.py"]
    amounts = {"cpu": "2000m", "memory": "4096Mi"}
    assert only["resources"] == {"requests": amounts, "limits": amounts}
    assert env(made) == {
        "A": "$$(HOME)",
        "HOME": "/work",
        "GLIDEPATH_JOB": "7",
        "GLIDEPATH_ATTEMPT": "2",
        "GLIDEPATH_RANK": "0",
        "GLIDEPATH_RANKS": "1",
        "GLIDEPATH_HOSTS": "gp-7-2-0.gp-7-2",
        "GLIDEPATH_CPU_MILLI": "2000",
        "GLIDEPATH_MEMORY_MIB": "4096",
        "GLIDEPATH_RANK_FILE": "/etc/glidepath/job/hosts",
        "GLIDEPATH_PEER_FILE": "/etc/glidepath/job/peers",
        "GLIDEPATH_NODE": "<from the pod>",
    }
    assert {path: next(iter(found)) for path, found in mounts(made).items()} == {
        "/etc/glidepath/job": "downwardAPI",
        "/work": "emptyDir",
        "/dev/shm": "emptyDir",
    }
    assert mounts(made)["/dev/shm"]["emptyDir"] == {"medium": "Memory", "sizeLimit": "64Mi"}


def test_a_gang_waits_for_its_word_and_each_rank_knows_the_others() -> None:
    of = ranks(nodes=GANG)
    made = [pod(of, rank) for rank in range(3)]
    hosts = [f"gp-7-2-{rank}.gp-7-2" for rank in range(3)]
    for rank, each in enumerate(made):
        assert "glidepath/go" not in each["metadata"]["annotations"]
        assert each["metadata"]["annotations"]["glidepath/hosts"].split() == hosts
        assert env(each)["GLIDEPATH_RANK"] == str(rank)
        assert env(each)["GLIDEPATH_HOSTS"] == ",".join(hosts)
        assert each["spec"]["subdomain"] == anchor_of(of, "lab")["metadata"]["name"]
        assert container(each)["startupProbe"]["exec"]["command"][-1] == keeper.READY


def test_the_service_is_headless_and_finds_ranks_before_they_are_ready() -> None:
    made = anchor_of(ranks(nodes=GANG, ports=(8888,)), "lab")
    assert made["spec"] == {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": {"glidepath/cluster": "lab", "glidepath/set": "7.2"},
        "ports": [{"name": "port-8888", "port": 8888}],
    }
    intent = intent_of(made["metadata"]["annotations"]["glidepath/intent"])
    assert (intent.key, intent.ranks, intent.gather_s) == ("7.2", 3, 300)


def amounts(found: dict[str, Any]) -> dict[str, str]:
    both = container(found)["resources"]
    assert both["requests"] == both["limits"]
    return {name: amount for name, amount in both["requests"].items() if name not in ("cpu", "memory")}


@pytest.mark.parametrize(
    ("more", "said", "expected"),
    [
        ({"size": Resources(1000, 64, 0, 2)}, {}, {"nvidia.com/gpu": "2"}),
        (
            {"size": Resources(1000, 64, 0, 1)},
            {"gpu_kinds": {"MI300X": "amd.com/gpu"}},
            {"amd.com/gpu": "1"},
        ),
        (
            {"gpu_milli": 300},
            {"gpu_share": {"resource": "nvidia.com/gpu.shared", "parts": 4}},
            {"nvidia.com/gpu.shared": "2"},
        ),
        (
            {"counted": (("mig-1g.5gb", 3),)},
            {"counted": {"mig-1g.5gb": "nvidia.com/mig-1g.5gb"}},
            {"nvidia.com/mig-1g.5gb": "3"},
        ),
        ({"size": Resources(1000, 64, 500)}, {}, {"ephemeral-storage": "500Mi"}),
    ],
)
def test_devices_and_disk_are_asked_for_by_their_resources(
    more: dict[str, Any], said: dict[str, Any], expected: dict[str, str]
) -> None:
    assert amounts(pod(ranks(**more), gpu_kind="MI300X", **said)) == expected


def test_an_exclusive_rank_asks_for_all_that_is_left_and_repels_others_of_ours() -> None:
    made = pod(ranks(exclusive=True), whole=Resources(31_000, 100_000))
    assert container(made)["resources"]["requests"] == {"cpu": "31000m", "memory": "100000Mi"}
    (term,) = made["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["topologyKey"] == "kubernetes.io/hostname"
    assert term["labelSelector"]["matchExpressions"] == [
        {"key": "glidepath/cluster", "operator": "Exists"},
        {"key": "glidepath/set", "operator": "NotIn", "values": ["7.2"]},
    ]


def test_a_runtime_is_a_runtime_class_and_the_cluster_counts_its_overhead() -> None:
    said = {"runtimes": {"kata": {"runtime_class": "kata-qemu", "cpus": 0.25, "memory": "160MiB"}}}
    made = pod(ranks(runtime="kata"), **said)
    assert made["spec"]["runtimeClassName"] == "kata-qemu"
    # A class with an overhead has it added by the cluster; written twice it would be refused.
    assert "overhead" not in made["spec"]


def test_a_node_that_is_only_stated_is_left_to_the_kube_scheduler() -> None:
    terms = [{"key": "pool", "any_of": ["gpu"]}]
    made = pod(ranks(nodes=("any-3",)), nodes_of=terms, pinned=False)
    needed = made["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert needed["nodeSelectorTerms"] == [
        {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["gpu"]}]}
    ]
    assert "affinity" not in pod(ranks(nodes=("any-3",)), pinned=False)["spec"]


def test_volumes_come_from_the_settings_and_never_grant_more() -> None:
    of = ranks(volumes=(Volume("data", "/data"), Volume("home", "/home/ada", read_only=True)))
    found = mounts(pod(of, **VOLUMES))
    assert found["/data"] == {
        "persistentVolumeClaim": {"claimName": "data", "readOnly": True},
        "readOnly": True,
    }
    assert found["/home/ada"]["subPath"] == "lab/ada"
    assert found["/home/ada"]["readOnly"] is True
    args = container(pod(of, **VOLUMES))["args"]
    assert args[9:16] == ["2", "volume", "w", "/data", "volume", "r", "/home/ada"]


def test_a_claim_is_one_volume_of_a_pod_however_often_it_is_mounted() -> None:
    twice = (Volume("data", "/in", read_only=True), Volume("data", "/out"))
    made = pod(ranks(volumes=twice), volumes={"data": {"claim": "data"}})
    claims = [each for each in made["spec"]["volumes"] if "persistentVolumeClaim" in each]
    claim = {"claimName": "data", "readOnly": False}
    assert claims == [{"name": "volume-0", "persistentVolumeClaim": claim}]
    mounted = [each for each in container(made)["volumeMounts"] if each["name"] == "volume-0"]
    assert [(each["mountPath"], each["readOnly"]) for each in mounted] == [("/in", True), ("/out", False)]


def test_files_are_in_a_secret_and_checked_by_their_sums() -> None:
    file = File("in/note", "private words", 0o600)
    of = ranks(files=(file,))
    made = pod(of)
    assert "private words" not in repr(made)
    assert secret_of(of, "lab", UID)["stringData"] == {"f0": "private words"}
    assert mounts(made)["/etc/glidepath/files"]["secret"]["secretName"] == "gp-7-2-files"
    sum_of = hashlib.sha256(b"private words").hexdigest()
    assert container(made)["args"][9:15] == ["1", "file", "f0", "600", sum_of, "in/note"]


def test_tools_bring_a_shell_to_images_that_have_none() -> None:
    made = pod(ranks(nodes=GANG), tools="images.example.org/busybox:1")
    (before,) = made["spec"]["initContainers"]
    assert before["image"] == "images.example.org/busybox:1"
    assert container(made)["command"][0] == "/etc/glidepath/tools/sh"
    assert env(made)["GLIDEPATH_TOOLS"] == "/etc/glidepath/tools"
    assert mounts(made)["/etc/glidepath/tools"]["readOnly"] is True


@pytest.mark.parametrize(
    "made",
    [
        pod(ranks()),
        pod(ranks(nodes=GANG, ports=(80,), files=(File("a", "b"),)), 2, tools="busybox"),
        pod(ranks(exclusive=True, volumes=(Volume("data", "/data"),)), **VOLUMES),
    ],
)
def test_every_pod_keeps_to_what_pod_security_calls_restricted(made: dict[str, Any]) -> None:
    assert list(restricted(made)) == []


def test_a_repeated_request_has_the_same_digest_and_another_has_not() -> None:
    others = [
        ranks(limit_s=1),
        ranks(owner="bob"),
        ranks(nodes=("n2",)),
        ranks(command=("true",)),
        ranks(files=(File("a", "b"),)),
    ]
    assert digest(ranks()) == digest(ranks())
    assert len({digest(each) for each in (ranks(), *others)}) == 6


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"stated": [{"name": "a", "cpus": 1, "memory": "1GiB"}] * 2}, "a name is there twice"),
        (
            {"stated": [{"name": "a", "cpus": 1, "memory": "1GiB", "pinned": True, "count": 2}]},
            "`pinned` is one",
        ),
        ({"env": {"GLIDEPATH_RANK": "1"}}, "are set by glidepath"),
        ({"volumes": {"v": {"claim": "c", "below": "../x"}}}, "must not have"),
        ({"volumes": {"v": {"claim": "c", "below": "/x"}}}, "pattern"),
        ({"user": 0}, "greater than or equal to 1"),
        ({"surprise": 1}, "Extra inputs"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(said: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        settings(**said)
