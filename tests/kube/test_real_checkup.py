"""The doctor on a real cluster: with the Role as it is shipped all is well, and each thing less is found."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import yaml
from bed.parts.kubernetes import Cluster
from tests.bed_cluster import kube_cluster
from tests.bed_pool import nothing_is_left

from glidepath.backends.kubernetes import backend as kubernetes
from glidepath.config.checks import own_values
from glidepath.core.cycle import Done
from glidepath.core.provision.offer import Offer
from glidepath.core.quantity import PilotName, Resources, SiteName
from glidepath.kube.backend import KubernetesBackend
from glidepath.kube.checkup import LOST, NEEDED, Right
from glidepath.ports import Finding, Place
from kube.pod_builders import spec
from kube.real import IMAGE, bring_image, until
from kube.rendered import BASE
from whole.running import glidepath, house

__all__ = ["nothing_is_left"]
pytestmark = pytest.mark.real

SITE = SiteName("k8s")
SIZE = Resources(100, 32, 16)
OFFER = Offer(SITE, "worker", SIZE)
SHIPPED: list[dict[str, Any]] = yaml.safe_load((BASE / "role.yaml").read_text())["rules"]
FURNISH = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]}
LOOK = {"apiGroups": [""], "resources": ["resourcequotas"], "verbs": ["get", "list"]}
USUAL = {"image": IMAGE, "pull_policy": "Never", "token_secret": "pool-token", "token_key": "token"}
LATER_S = 300

_numbers = count()


@dataclass
class Space:
    """One namespace, and what a doctor with given rights says there."""

    cluster: Cluster
    namespace: str

    def kubectl(self, *words: str) -> str:
        return self.cluster.kubectl(*words, "--namespace", self.namespace).must("kubectl").out

    def account(self, *rules: dict[str, Any]) -> Path:
        name = f"glidepath-{next(_numbers)}"
        return self.cluster.service_account(name, namespace=self.namespace, rules=rules or SHIPPED)

    def site(self, config: Path, *, ahead_s: float = 0.0, **own: Any) -> KubernetesBackend:
        made = kubernetes(SITE, own_values(kubernetes, {**USUAL, "kubeconfig": str(config), **own}), PLACE)
        assert isinstance(made, KubernetesBackend)
        # The clock is a door; so a pod is old without being waited for.
        return KubernetesBackend(SITE, made.settings, PLACE, wall=lambda: time.time() + ahead_s)

    def bad(self, config: Path, *, ahead_s: float = 0.0, **own: Any) -> dict[str, Finding]:
        made = self.site(config, ahead_s=ahead_s, **own)
        found = {one.name.removeprefix("site k8s: "): one for one in made.checkup((OFFER,))}
        made.close()
        assert len(found) >= 8
        assert all(one.fix for one in found.values() if one.verdict != "ok"), found
        return {name: one for name, one in found.items() if one.verdict != "ok"}

    def quota(self, name: str, **hard: str) -> None:
        there = {"name": name, "namespace": self.namespace}
        self.cluster.apply(
            {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": there, "spec": {"hard": hard}}
        )
        until("it counts", lambda: '"used"' in self.kubectl("get", "resourcequota", name, "-o", "json"))


PLACE = Place(Path("/"), "")


@pytest.fixture(scope="module")
def shared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Space]:
    """For those that leave the namespace as it was."""
    cluster = kube_cluster(request.config)
    bring_image(cluster, tmp_path_factory.mktemp("image"))
    made = Space(cluster, "doctor")
    made.account()
    yield made
    cluster.kubectl("delete", "namespace", made.namespace, "--wait=false")


@pytest.fixture
def space(shared: Space) -> Iterator[Space]:
    made = Space(shared.cluster, f"doctor-{next(_numbers)}")
    yield made
    made.cluster.kubectl("delete", "namespace", made.namespace, "--wait=false")


def test_with_the_role_as_it_is_shipped_all_is_well_and_nothing_is_made(shared: Space) -> None:
    assert shared.bad(shared.account()) == {}
    assert shared.kubectl("get", "pods,secrets", "-o", "name").split() == []


@pytest.mark.parametrize("right", NEEDED, ids="-".join)
def test_one_right_less_is_found_with_its_fix(shared: Space, right: Right) -> None:
    resource, part, verb = right
    name = f"{resource}/{part}" if part else resource
    rules = [
        {**rule, "verbs": [each for each in rule["verbs"] if rule["resources"] != [name] or each != verb]}
        for rule in SHIPPED
    ]
    found = shared.bad(shared.account(*(rule for rule in rules if rule["verbs"])))
    assert list(found) == [f"right to {verb} {name}"]
    (one,) = found.values()
    assert one.found == f"it is missing: {LOST[right]}"
    assert one.fix.startswith(f"add `{verb}` on `{name}` to the Role")


def test_a_token_of_its_own_for_each_pod_needs_one_right_more(shared: Space) -> None:
    found = shared.bad(shared.account(), token_secret="", token_key="")
    assert list(found) == ["right to create secrets"]
    assert found["right to create secrets"].fix.endswith("; or set `token_secret`")
    assert shared.bad(shared.account(*SHIPPED, FURNISH), token_secret="", token_key="") == {}


def test_secrets_that_are_missing_are_found_without_reading_any(space: Space) -> None:
    config = space.account(*SHIPPED, FURNISH)
    found = space.bad(config, pull_secrets=["registry"])
    assert set(found) == {"token worker", "secret registry"}
    assert found["token worker"].found.startswith("there is no Secret `pool-token` in the namespace")
    assert f"kubectl -n {space.namespace} create secret generic pool-token" in found["token worker"].fix
    assert space.kubectl("get", "secrets", "-o", "name") == ""
    # As the fix says it.
    space.kubectl("create", "secret", "generic", "pool-token", "--from-literal=token=eyJ")
    assert list(space.bad(config, pull_secrets=["registry"])) == ["secret registry"]


def test_a_quota_with_nothing_left_is_told_from_a_pod_that_would_be_refused(space: Space) -> None:
    config = space.account()
    space.quota("none", pods="0")
    found = space.bad(config)
    assert list(found) == ["pod worker"]
    assert found["pod worker"].verdict == "fail"
    assert "exceeded quota: none" in found["pod worker"].found
    assert found["pod worker"].fix.startswith("ask for a larger quota")
    told = space.bad(space.account(*SHIPPED, LOOK))["quota"]
    assert (told.verdict, told.found) == ("warn", "quota `none`: all 0 pods")


def test_pod_security_and_names_that_the_cluster_does_not_know(space: Space) -> None:
    config = space.account()
    space.cluster.kubectl(
        "label", "namespace", space.namespace, "pod-security.kubernetes.io/enforce=restricted"
    ).must("label")
    assert space.bad(config) == {}
    for own, words, fix in (
        ({"level": "apptainer"}, "violates PodSecurity", 'write `level = "restricted"` for the offer'),
        ({"priority_class": "urgent"}, "no PriorityClass with name urgent", "mend `priority_class`"),
        ({"runtime_class": "none"}, 'RuntimeClass "none" not found', "mend `runtime_class`"),
    ):
        found = space.bad(config, **own)
        assert list(found) == ["pod worker"]
        assert words in found["pod worker"].found
        assert found["pod worker"].fix.startswith(fix)


def test_a_namespace_that_is_not_there_is_named(shared: Space) -> None:
    found = shared.bad(shared.cluster.kubeconfig, namespace="nowhere")
    assert 'namespaces "nowhere" not found' in found["pod worker"].found
    assert found["pod worker"].fix.startswith("mend `namespace`")


def test_pods_tell_of_an_image_that_is_missing_and_of_one_that_runs(space: Space) -> None:
    config = space.account()
    space.kubectl("create", "secret", "generic", "pool-token", "--from-literal=token=eyJ")
    made = {"gp-good": {}, "gp-bad": {"image": "bed.invalid/missing:1"}}
    for name, own in made.items():
        backend = space.site(config, **own)
        asked = replace(spec(name=name, size=SIZE), site=SITE)
        assert isinstance(backend.submit(asked), Done)
        backend.close()
    until("both are there", lambda: _waits_or_runs(space) == {"ErrImageNeverPull", "running"})
    assert space.bad(config) == {}
    bad = space.bad(config, **made["gp-bad"])
    assert list(bad) == ["image worker"]
    assert bad["image worker"].found.startswith(
        "1 pod cannot have `bed.invalid/missing:1`: ErrImageNeverPull"
    )
    assert bad["image worker"].fix == 'with `pull_policy = "Never"` it must be on the nodes already'
    for name in made:
        space.kubectl("delete", "pod", name, "--grace-period=0", "--force")


def test_pods_that_wait_for_a_secret_tell_that_it_is_missing(space: Space) -> None:
    config = space.account()
    backend = space.site(config, token_secret="nowhere")
    assert isinstance(backend.submit(replace(spec(name="gp-1", size=SIZE), site=SITE)), Done)
    backend.close()
    until("it waits", lambda: "ContainerCreating" in _waits_or_runs(space))
    assert "token worker" not in space.bad(config, token_secret="nowhere")  # It may only just have begun.
    found = space.bad(config, token_secret="nowhere", ahead_s=LATER_S)
    assert set(found) == {"clock", "token worker"}
    assert "is there the Secret `nowhere` with the key `token`?" in found["token worker"].found
    assert f"kubectl -n {space.namespace} describe pod gp-1" in found["token worker"].fix
    space.kubectl("delete", "pod", "gp-1", "--grace-period=0", "--force")


def _waits_or_runs(space: Space) -> set[str]:
    pods = json.loads(space.kubectl("get", "pods", "-o", "json"))["items"]
    states = [each["state"] for pod in pods for each in pod["status"].get("containerStatuses", ())]
    return {
        "running" if "running" in state else state.get("waiting", {}).get("reason", "") for state in states
    }


CONFIG = """
[pools.bed]
collector = "127.0.0.1:1"

[sites.k8s]
kind = "kubernetes"

[sites.k8s.kubernetes]
kubeconfig = "{kubeconfig}"
image = "bed.invalid/stand-in"
token_secret = "pool-token"

[sites.k8s.offers.worker]
cpus = 1
memory = "64MiB"
disk = "64MiB"
"""


def test_a_person_reads_it_in_lines_with_what_to_do(shared: Space) -> None:
    with house() as home:
        file = home / "glidepath.toml"
        file.write_text(CONFIG.format(kubeconfig=shared.account(SHIPPED[0])))
        text = glidepath(home, "doctor", code=1, GLIDEPATH_CONFIG=str(file), COLUMNS="1000")
    lines = [" ".join(line.split()) for line in text.splitlines()]
    for said in (
        "site k8s: clock ok the server's agrees with ours within 60 s",
        "site k8s: right to get pods/log warn it is missing: `glidepath pilot logs` has nothing to show; add",
        "site k8s: image worker warn `bed.invalid/stand-in` is whatever is called `latest` when a node",
        "site k8s: pod worker ok the cluster would take it",
        "site k8s: pool bed warn `127.0.0.1:1` is this machine itself; pilots of this site run elsewhere",
        "pool bed: collector fail",
    ):
        assert [line for line in lines if line.startswith(said)], f"{said}\n{text}"
    assert PilotName("glidepath-doctor") not in shared.kubectl("get", "pods", "-o", "name")
