"""Chart and Kustomize on a real cluster: what a server takes, what helm does, what a kubelet shows a pod."""

from __future__ import annotations

import json
import runpy
import time
from collections.abc import Iterator
from typing import Any

import pytest
from bed.command import Ended
from bed.parts.kube_image import TINY
from bed.parts.kubernetes import Cluster
from tests.bed_cluster import a_pod, kube_cluster, wait_for_phase

from glidepath.kube.access import from_kubeconfig
from glidepath.kube.intent import SITE
from kube.rendered import (
    CHART,
    EXAMPLE,
    NAMESPACE,
    POSTGRES,
    USUAL,
    chart,
    helm,
    kustomized,
    pods,
    toml,
    values,
)

pytestmark = pytest.mark.real

TAKEN_UP_S_MAX = 60
# What was told to go may need a moment; what nobody told stays for ever.
GONE_S_MAX = 60
POLL_S = 0.25


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    found = kube_cluster(request.config)
    labels = {
        "pod-security.kubernetes.io/enforce": "restricted",
        "pod-security.kubernetes.io/warn": "restricted",
    }
    found.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}})
    yield found
    found.kubectl("delete", "namespace", NAMESPACE, "--timeout=60s")


def test_a_server_takes_what_chart_and_kustomize_make(cluster: Cluster) -> None:
    in_memory = chart(*USUAL, "home.kind=memory")
    for made in (
        chart(*USUAL),
        in_memory,
        chart(*POSTGRES, "pool.readTokenSecret=read"),
        kustomized(EXAMPLE),
    ):
        for each in made.values():
            each["metadata"]["namespace"] = NAMESPACE
        given = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(made.values())})
        done = cluster.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", "-", given=given)
        assert (done.code, "Warning" in done.err) == (0, False), done


def test_installed_upgraded_rolled_back_and_removed_it_leaves_nothing(cluster: Cluster) -> None:
    def did(*words: str) -> Ended:
        return helm(*words, "--namespace", NAMESPACE, kubeconfig=cluster.kubeconfig)

    def config() -> str:
        shown = cluster.kubectl("get", "configmap", "glidepath", "-n", NAMESPACE, "-o", "json").out
        return str(json.loads(shown)["data"]["glidepath.toml"])

    told = did("install", "glidepath", str(CHART), *values(*USUAL)).must("it was not installed").out
    assert told.count("     kubectl -n group ") == 3
    before = config()
    did("upgrade", "glidepath", str(CHART), *values(*USUAL, "draining=true")).must("no upgrade")
    assert "[[sites.glidepath.windows]]" in config()
    did("rollback", "glidepath").must("no way back")
    assert config() == before
    # There is no image here, so the hook cannot succeed: then nothing is removed, and its own traces are.
    late = did("uninstall", "glidepath", "--timeout", "5s")
    assert late.code != 0
    names = cluster.kubectl("get", "deployment,job,configmap", "-n", NAMESPACE, "-o", "name").out.split()
    assert ("deployment.apps/glidepath" in names, [name for name in names if "drain" in name]) == (True, [])
    did("uninstall", "glidepath", "--no-hooks", "--wait").must("it was not removed")
    until = time.monotonic() + GONE_S_MAX
    while (found := _ours(cluster)) and time.monotonic() < until:
        time.sleep(POLL_S)
    assert found == ""


def _ours(cluster: Cluster) -> str:
    kinds = "all,configmap,secret,serviceaccount,role,rolebinding,networkpolicy,persistentvolumeclaim"
    ours = ["-l", "app.kubernetes.io/name=glidepath", "-n", NAMESPACE, "-o", "name"]
    return cluster.kubectl("get", kinds, *ours).must("the server does not say what is left").out


def test_a_running_pod_sees_the_closed_configuration_and_the_open_one_again(cluster: Cluster) -> None:
    made = chart(*USUAL, "home.kind=memory")
    spec = pods(made)["Deployment/glidepath"]["spec"]
    watching = {
        "name": "glidepath",
        "image": TINY,
        "imagePullPolicy": "Never",
        "command": ["sleep", "300"],
        "securityContext": spec["containers"][0]["securityContext"],
        "volumeMounts": [m for m in spec["containers"][0]["volumeMounts"] if m["name"] == "config"],
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "watching", "namespace": NAMESPACE},
        "spec": {
            "containers": [watching],
            "securityContext": spec["securityContext"],
            "volumes": [each for each in spec["volumes"] if each["name"] == "config"],
            "terminationGracePeriodSeconds": 0,
        },
    }
    first, second = made["ConfigMap/glidepath"], made["ConfigMap/glidepath-drain"]
    for each in (first, second):
        each["metadata"]["namespace"] = NAMESPACE
    cluster.apply(first, pod)
    wait_for_phase(cluster, "watching", "Running", namespace=NAMESPACE)
    assert _seen(cluster, toml(made))
    cluster.apply(second)
    assert _seen(cluster, toml(made, "glidepath-drain"))
    cluster.kubectl("delete", "configmap", "glidepath-drain", "-n", NAMESPACE)
    assert _seen(cluster, toml(made))


def test_the_hook_sees_pods_of_its_sites_with_no_more_rights_than_the_role_has(cluster: Cluster) -> None:
    rules = chart(*USUAL)["Role/glidepath"]["rules"]
    config = cluster.service_account("hook", namespace=NAMESPACE, rules=rules)
    main = runpy.run_path(str(CHART / "files/wait.py"))["main"]
    access = from_kubeconfig((config,))

    def pilot(name: str, site: str) -> dict[str, Any]:
        pod = a_pod(name, "true", namespace=NAMESPACE, image="bed.invalid/none:1")
        spec = pods(chart(*USUAL))["Deployment/glidepath"]["spec"]
        pod["metadata"]["labels"] = {SITE: site}
        pod["spec"]["securityContext"] = spec["securityContext"]
        pod["spec"]["containers"][0]["securityContext"] = spec["containers"][0]["securityContext"]
        return pod

    cluster.apply(pilot("ours", "west"), pilot("theirs", "north"))
    assert main("west,east", "0", "1", access) == 1
    cluster.kubectl("delete", "pod", "ours", "-n", NAMESPACE, "--wait").must("it stays")
    assert main("west,east", "0", "1", access) == 0


def _seen(cluster: Cluster, expected: str) -> bool:
    """Whether the file in the pod becomes this; a mark on the pod makes the kubelet look at once."""
    until = time.monotonic() + TAKEN_UP_S_MAX
    file = "/etc/glidepath/config/glidepath.toml"
    while time.monotonic() < until:
        shown = cluster.kubectl("exec", "watching", "-n", NAMESPACE, "--", "cat", file)
        if shown.out == expected:
            return True
        mark = f"looked={time.monotonic_ns()}"
        cluster.kubectl("annotate", "--overwrite", "pod", "watching", mark, "-n", NAMESPACE)
        time.sleep(POLL_S)
    return False
