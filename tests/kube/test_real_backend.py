"""The backend on a real cluster: every promise of a backend, and what only Kubernetes does to pods."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import ClassVar

import pytest
from bed.parts.kube_config import API_PORT
from bed.parts.kubernetes import Cluster
from tests.bed_cluster import kube_cluster
from tests.bed_pool import nothing_is_left

from glidepath.conformance import BackendConformance
from glidepath.core.cycle import Done, Refused
from glidepath.core.provision.pilot import PilotSpec, SitePilot, SiteState, Target
from glidepath.core.quantity import NodeName, PilotName, Resources
from glidepath.kube.backend import KubernetesBackend
from glidepath.ports import WORLD_ERRORS, Backend
from kube.real import Relay, bring_image, site, until

__all__ = ["nothing_is_left"]
pytestmark = pytest.mark.real

_numbers = count()
OLD_S = 120.0


class TestConformance(BackendConformance):
    settle_s: ClassVar[float] = 60.0
    cluster: Cluster

    @pytest.fixture(autouse=True)
    def _cluster(
        self, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
    ) -> Iterator[None]:
        type(self).cluster = kube_cluster(request.config)
        bring_image(self.cluster, tmp_path_factory.mktemp("image"))
        self.made: list[KubernetesBackend] = []
        self.namespace = f"conf-{next(_numbers)}"
        self.relay = Relay(self.cluster.node_address, API_PORT)
        yield
        self.relay.cut()
        for each in self.made:
            each.close()
        self.cluster.kubectl("delete", "namespace", self.namespace, "--wait=false")

    def make(self, home: Path) -> Backend:
        self.made.append(site(self.cluster, self.namespace, relay=self.relay, changes_per_second=0))
        return self.made[-1]

    def spec(self, backend: Backend, name: str) -> PilotSpec:
        plain = super().spec(backend, name)
        join = (("GLIDEPATH_COLLECTOR", "cm.example"), ("GLIDEPATH_GRACE_S", "5"))
        return replace(
            plain, size=Resources(100, 32, 16), join=join, secrets=(("pool.token", "eyJ.not.one"),)
        )

    @contextmanager
    def break_listing(self, backend: Backend) -> Iterator[object]:
        """A stream that has broken is noticed at once; what it told is believed for a moment longer."""
        self.relay.cut()
        try:
            until("what was heard is too old", lambda: _unheard(backend), wait_s=OLD_S)
            yield
        finally:
            self.relay.mend()
            until("it is heard again", lambda: not _unheard(backend), wait_s=OLD_S)


def _unheard(backend: Backend) -> bool:
    try:
        backend.list(now=TestConformance().now())
    except WORLD_ERRORS:
        return True
    return False


class World:
    """One namespace and one site in it."""

    def __init__(self, cluster: Cluster, namespace: str, **own: object) -> None:
        self.cluster, self.namespace = cluster, namespace
        self.backend = site(cluster, namespace, **own)
        self._conformance = TestConformance()

    def spec(self, name: str, **more: object) -> PilotSpec:
        return replace(TestConformance.spec(self._conformance, self.backend, name), **more)  # type: ignore[arg-type]

    def seen(self) -> dict[str, SitePilot]:
        return {pilot.name: pilot for pilot in self.backend.list(now=self._conformance.now()).pilots}

    def comes_to(self, name: str, state: SiteState, words: str = "") -> SitePilot:
        def met() -> bool:
            pilot = self.seen().get(name)
            return pilot is not None and pilot.state is state and words in pilot.note

        try:
            until(f"{name} is {state}", met)
        except AssertionError:
            raise AssertionError(f"{name} is not {state}: {self.seen().get(name)}") from None
        return self.seen()[name]

    def cleared(self, name: str) -> bool:
        """As glidepath does once it has learnt that a pilot is over."""
        assert isinstance(self.backend.remove(Target(PilotName(name))), Done)
        return name not in self.seen()

    def kubectl(self, *words: str) -> str:
        return self.cluster.kubectl(*words, "--namespace", self.namespace).must("kubectl").out


@pytest.fixture
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    cluster = kube_cluster(request.config)
    bring_image(cluster, tmp_path_factory.mktemp("image"))
    own = getattr(request, "param", {})
    made = World(cluster, f"world-{next(_numbers)}", **own)
    yield made
    made.backend.close()
    cluster.kubectl("delete", "namespace", made.namespace, "--wait=false")


def test_a_pilot_runs_drains_and_leaves_its_summary(world: World) -> None:
    assert isinstance(world.backend.submit(world.spec("gp-1")), Done)
    running = world.comes_to("gp-1", SiteState.RUNNING)
    assert running.node == NodeName("bed-node")
    until("it has written", lambda: "--name=gp-1" in world.backend.logs(PilotName("gp-1"), bytes_max=4000))
    assert isinstance(world.backend.drain(Target(running.name, running.native_id)), Done)
    ended = world.comes_to("gp-1", SiteState.ENDED)
    assert "2 jobs" in ended.note
    until("it can be cleared", lambda: world.cleared("gp-1"))
    until("its token is gone too", lambda: not world.kubectl("get", "secrets", "-o", "name"))


def test_the_token_is_in_a_secret_of_the_pod_and_nowhere_else(world: World) -> None:
    world.backend.submit(world.spec("gp-1", secrets=(("pool.token", "eyJ.secret.words"),)))
    world.comes_to("gp-1", SiteState.RUNNING)
    assert "eyJ.secret.words" not in world.kubectl("get", "pods", "-o", "json")
    secret = json.loads(world.kubectl("get", "secret", "gp-1-token", "-o", "json"))
    assert secret["metadata"]["ownerReferences"][0]["kind"] == "Pod"


@pytest.mark.parametrize("world", [{"preset": "osg"}, {"preset": "prp"}], indirect=True)
def test_another_image_finds_the_name_of_its_pilot_where_it_looks_for_more_attributes(world: World) -> None:
    world.backend.submit(world.spec("gp-1"))
    world.comes_to("gp-1", SiteState.RUNNING)
    read = "while read line; do echo $line; done </etc/osg/extra-attributes.cfg"
    words = ("exec", "gp-1", "--namespace", world.namespace, "--", "/bin/sh", "-c", read)
    said = world.cluster.kubectl(*words).must("kubectl").out
    assert said.splitlines()[0] == 'GlidepathPilot = "gp-1"'


def test_a_pod_that_no_node_can_hold_waits_with_the_schedulers_words(world: World) -> None:
    world.backend.submit(world.spec("gp-1", size=Resources(64_000_000, 32, 16)))
    pilot = world.comes_to("gp-1", SiteState.PENDING, "Insufficient cpu")
    assert pilot.note.startswith("unschedulable: ")
    assert isinstance(world.backend.withdraw(Target(pilot.name, pilot.native_id)), Done)
    until("it can be cleared", lambda: world.cleared("gp-1"))


@pytest.mark.parametrize("world", [{"image": "bed.invalid/missing:1"}], indirect=True)
def test_an_image_that_is_missing_is_a_failure_with_its_words(world: World) -> None:
    world.backend.submit(world.spec("gp-1"))
    pilot = world.comes_to("gp-1", SiteState.FAILED)
    assert pilot.note.startswith("image cannot be pulled: ErrImageNeverPull")


def test_a_quota_refuses_with_the_servers_words(world: World) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "one", "namespace": world.namespace},
        "spec": {"hard": {"pods": "1"}},
    }
    world.cluster.apply(quota)
    until("it counts", lambda: "used" in world.kubectl("get", "resourcequota", "one", "-o", "json"))
    assert isinstance(world.backend.submit(world.spec("gp-1")), Done)
    refused = world.backend.submit(world.spec("gp-2"))
    assert isinstance(refused, Refused)
    assert "exceeded quota: one" in refused.why


@pytest.mark.parametrize("world", [{"level": "apptainer"}], indirect=True)
def test_a_namespace_that_is_restricted_refuses_more_and_takes_what_is_usual(world: World) -> None:
    label = "pod-security.kubernetes.io/enforce=restricted"
    world.cluster.kubectl("label", "namespace", world.namespace, label).must("label")
    refused = world.backend.submit(world.spec("gp-1"))
    assert isinstance(refused, Refused)
    assert "violates PodSecurity" in refused.why
    usual = site(world.cluster, world.namespace)
    assert isinstance(usual.submit(world.spec("gp-2")), Done)
    usual.close()


def test_a_pod_that_was_deleted_by_others_has_ended(world: World) -> None:
    world.backend.submit(
        world.spec("gp-1", join=(("GLIDEPATH_COLLECTOR", "cm"), ("GLIDEPATH_GRACE_S", "30")))
    )
    world.comes_to("gp-1", SiteState.RUNNING)
    world.kubectl("delete", "pod", "gp-1", "--wait=false")
    world.comes_to("gp-1", SiteState.ENDED)  # It had the time to leave as it should.
    until("it can be cleared", lambda: world.cleared("gp-1"))


def test_a_pod_that_went_behind_our_back_has_failed(world: World) -> None:
    world.backend.submit(world.spec("gp-1"))
    world.comes_to("gp-1", SiteState.RUNNING)
    world.kubectl("delete", "pod", "gp-1", "--force", "--grace-period=0")
    world.comes_to("gp-1", SiteState.FAILED, "its pod was deleted; it was ")


def test_another_site_in_the_same_namespace_is_left_alone(world: World) -> None:
    other = site(world.cluster, world.namespace, name="other")
    assert isinstance(other.submit(replace(world.spec("gp-1"), site=other.site)), Done)
    assert world.seen() == {}
    assert isinstance(world.backend.remove(Target(PilotName("gp-1"))), Refused)
    other.close()
