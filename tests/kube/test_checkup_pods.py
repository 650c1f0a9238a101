"""What the doctor says of pods, images and tokens, which its rights let it see only from outside."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from glidepath.core.provision.offer import Offer
from glidepath.core.quantity import Resources, SiteName
from glidepath.kube.advice import REFUSALS, image_said
from glidepath.kube.checkup import Checkup
from kube.checkup_world import FURNISH, HALF, HTML, IMAGE, PODS, SECRETS, World, listed, ours, refusing
from kube.pod_builders import settings
from kube.stand_in import Answer, serving
from kube.test_states import BACK_OFF, CREATED, PLACED, READY, RUNNING, condition, ended, pod, waiting

CREATED_S = 1893492000.0  # of the pods of the builders


@pytest.fixture
def world() -> Iterator[World]:
    with serving() as server:
        yield World(server)


# Pods that would be refused.

REFUSED = {
    "quota": (403, 'pods "glidepath-doctor" is forbidden: exceeded quota: one, requested: pods=1'),
    "quota asks for more": (403, "failed quota: one: must specify limits.ephemeral-storage for: pilot"),
    "pod security": (403, 'pods "x" is forbidden: violates PodSecurity "restricted:latest": seccompProfile'),
    "priority": (403, 'pods "x" is forbidden: no PriorityClass with name urgent was found'),
    "runtime": (403, 'pods "x" is forbidden: pod rejected: RuntimeClass "kata" not found'),
    "limit range": (403, 'pods "x" is forbidden: maximum cpu usage per Container is 2, but limit is 4'),
    "account": (403, 'error looking up service account here/default: serviceaccount "default" not found'),
    "webhook": (403, 'admission webhook "policy.example" denied the request: no label `owner`'),
    "policy": (422, "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no"),
    "right": (403, 'User "u" cannot create resource "pods" in API group "" in the namespace "here"'),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_pod_that_would_be_refused_is_told_with_the_servers_words_and_what_to_do(
    world: World, name: str
) -> None:
    status, words = REFUSED[name]
    world.dry = lambda _: refusing(status, words)
    fix = next(fix for needle, fix in REFUSALS if needle in words)
    assert world.bad() == {"pod worker": ("fail", f"it would be refused: {words}", fix)}


def test_a_missing_namespace_is_named(world: World) -> None:
    world.dry = lambda _: refusing(404, 'namespaces "here" not found')
    verdict, found, fix = world.bad()["pod worker"]
    assert (verdict, found) == ("fail", 'it would be refused: namespaces "here" not found')
    assert fix.startswith("mend `namespace`")


def test_what_is_refused_for_another_reason_is_told_as_it_is(world: World) -> None:
    world.dry = lambda _: refusing(422, "spec.containers[0].image: Invalid value")
    verdict, found, fix = world.bad()["pod worker"]
    assert (verdict, found) == ("fail", "it would be refused: spec.containers[0].image: Invalid value")
    assert fix.startswith("mend what it names")


def test_a_quota_that_our_own_pods_fill_is_doing_what_it_is_for(world: World) -> None:
    world.dry = lambda _: refusing(*REFUSED["quota"])
    world.pods = listed(ours(pod(conditions=READY, containerStatuses=[RUNNING])))
    assert world.bad()["pod worker"][0] == "warn"
    world.dry = lambda _: refusing(*REFUSED["pod security"])
    assert world.bad()["pod worker"][0] == "fail"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (HTML, "not known whether it would be taken: answered 200 with text/html"),
        (Answer(gone=True), "not known whether it would be taken: "),
        (refusing(429, "slow down"), "not known whether it would be taken: slow down"),
        (refusing(401, "Unauthorized"), "not known whether it would be taken: Unauthorized"),
        (refusing(400, 'webhook "w" does not support dry run'), "it cannot be tried: "),
    ],
)
def test_what_cannot_be_tried_is_not_held_to_be_refused(world: World, answer: Answer, words: str) -> None:
    world.dry = lambda _: answer
    verdict, found, _ = world.bad()["pod worker"]
    assert verdict == "warn"
    assert found.startswith(words)


def test_a_server_that_does_not_answer_is_not_asked_for_each_offer(world: World) -> None:
    world.offers = ("big", "small", "odd")
    world.dry = lambda _: Answer(gone=True)
    assert "pod big, small, odd" in world.bad()
    assert len([each for each in world.server.asked if each.path == f"{PODS}?dryRun=All"]) == 1


# Images.

DIGEST = f"@sha256:{'a' * 64}"


@pytest.mark.parametrize(
    ("image", "verdict"),
    [
        ("pilot:1", "ok"),
        ("images.example:5000/group/pilot-x__y:1.0_rc-2", "ok"),
        ("localhost/pilot:1", "ok"),
        ("[::1]:5000/pilot:1", "ok"),
        (f"images.example/pilot{DIGEST}", "ok"),
        (f"images.example/pilot:latest{DIGEST}", "ok"),
        ("pilot", "warn"),
        ("images.example:5000/pilot", "warn"),
        ("images.example/pilot:latest", "warn"),
        ("", "fail"),
        ("images.example/Pilot:1", "fail"),
        ("https://images.example/pilot:1", "fail"),
        ("images.example/pilot: 1", "fail"),
        ("pilot:1:2", "fail"),
        ("pilot@sha256:abc", "fail"),
        ("/pilot:1", "fail"),
        ("a" * 100_000 + "!", "fail"),
    ],
)
def test_the_name_of_an_image(image: str, verdict: str) -> None:
    made = settings(image="x:1").pod("worker").model_copy(update={"image": image})
    found = image_said(made, ())
    assert found[0] == verdict
    assert bool(found[2]) == (verdict != "ok")


PULL = {
    "first try": pod("Pending", conditions=PLACED, containerStatuses=[waiting("ErrImagePull", "not found")]),
    "again and again": pod(
        "Pending", conditions=PLACED, containerStatuses=[waiting("ImagePullBackOff", BACK_OFF)]
    ),
    "of an init container": pod(
        "Pending",
        conditions=PLACED,
        initContainerStatuses=[waiting("ErrImagePull", "not found", name="hook")],
        containerStatuses=[waiting("PodInitializing")],
    ),
}


@pytest.mark.parametrize("name", PULL)
def test_pods_that_cannot_have_their_image_say_so(world: World, name: str) -> None:
    world.pods = listed(ours(PULL[name]), ours(pod(conditions=READY, containerStatuses=[RUNNING])))
    verdict, found, fix = world.bad()["image worker"]
    assert verdict == "fail"
    assert found.startswith(f"1 pod cannot have `{IMAGE}`: ")
    assert "pull_secrets" in fix


def test_an_image_that_must_be_there_already_is_told_otherwise(world: World) -> None:
    world.own["pull_policy"] = "Never"
    world.pods = listed(
        ours(pod("Pending", conditions=PLACED, containerStatuses=[waiting("ErrImageNeverPull")]))
    )
    assert world.bad()["image worker"][2] == 'with `pull_policy = "Never"` it must be on the nodes already'


@pytest.mark.parametrize(("offer", "image"), [("other", IMAGE), ("worker", "images.example/pilot:0")])
def test_pods_of_another_offer_or_with_another_image_prove_nothing(
    world: World, offer: str, image: str
) -> None:
    world.pods = listed(ours(PULL["again and again"], offer, image))
    assert world.bad() == {}


def test_an_image_that_runs_is_a_good_one(world: World) -> None:
    world.pods = listed(ours(pod(conditions=READY, containerStatuses=[RUNNING])))
    assert world.said()["image worker"] == ("ok", f"`{IMAGE}` runs in pods of ours", "")


# Pods that are there.


def test_pods_that_can_never_start_are_told_with_where_to_look(world: World) -> None:
    stuck = waiting("CreateContainerConfigError", 'secret "x" not found')
    failed = pod("Failed", initContainerStatuses=[ended(3, message="no such host", name="hook")])
    world.pods = listed(
        ours(pod("Pending", conditions=PLACED, containerStatuses=[stuck])), ours({**failed}, "other")
    )
    verdict, found, fix = world.bad()["pods"]
    assert verdict == "fail"
    assert found == '2 pods: cannot be started: CreateContainerConfigError: secret "x" not found'
    assert fix == "`kubectl -n here describe pod p1` tells more"


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (listed({"metadata": {"name": "odd"}}, 5), "2 of ours cannot be read: "),
        (HTML, "those of ours cannot be listed: answered 200 with text/html"),
        (HALF, "those of ours cannot be listed: the list cannot be read"),
        (Answer(gone=True), "those of ours cannot be listed: "),
    ],
)
def test_pods_that_cannot_be_read_hide_nothing_else(world: World, answer: Answer, found: str) -> None:
    world.pods = answer
    said = world.bad()
    assert list(said) == ["pods"]
    assert said["pods"][:1] == ("warn",)
    assert said["pods"][1].startswith(found)


# Tokens.


def test_a_secret_that_is_not_there_is_found_without_reading_any(world: World) -> None:
    world.secrets = set()
    assert world.bad() == {
        "token worker": (
            "fail",
            "there is no Secret `pool-token` in the namespace, so no pod starts",
            "`kubectl -n here create secret generic pool-token --from-file=token=FILE`",
        )
    }


def test_other_secrets_are_looked_for_in_the_same_way(world: World) -> None:
    world.own |= {"pull_secrets": ["registry"], "secrets": [{"name": "more", "path": "/more"}]}
    assert set(world.bad()) == {"secret more", "secret registry"}
    world.lacking, asked = {FURNISH}, len(world.server.asked)
    assert world.bad() == {}
    assert not [each for each in world.server.asked[asked:] if each.path.startswith(SECRETS)]


@pytest.mark.parametrize("answer", [refusing(403, "exceeded quota: one"), HTML, Answer(gone=True)])
def test_where_it_cannot_be_tried_nothing_is_said_against_the_secret(world: World, answer: Answer) -> None:
    world.server.rule(SECRETS, lambda _: answer)
    assert world.bad() == {}
    assert world.said()["token worker"][1].endswith("the first pod shows it")


def test_a_token_that_pods_have_mounted_is_there(world: World) -> None:
    world.lacking = {FURNISH}
    world.pods = listed(ours(pod(conditions=READY, containerStatuses=[RUNNING])))
    found = world.said()["token worker"]
    assert (found[0], "is mounted by pods that run" in found[1]) == ("ok", True)


@pytest.mark.parametrize(("age_s", "late"), [(119, False), (121, True)])
def test_pods_that_wait_for_their_volumes_too_long_are_told(world: World, age_s: int, late: bool) -> None:
    world.lacking = {FURNISH}
    waits = pod(
        "Pending",
        conditions=[*PLACED, condition("PodReadyToStartContainers", "False")],
        containerStatuses=[waiting("ContainerCreating")],
    )
    world.pods = listed(ours(waits))
    since = PLACED[0]["lastTransitionTime"]
    assert (CREATED, since) == ("2030-01-01T10:00:00Z", "2030-01-01T10:00:05Z")
    checkup = Checkup(
        SiteName("k8s"),
        settings(**world.own),
        world.access,
        (Offer(SiteName("k8s"), "worker", Resources(1000, 1024, 1024)),),
        wall=lambda: CREATED_S + 5 + age_s,
    )
    (found,) = [one for one in checkup.findings() if one.name == "site k8s: token worker"]
    assert (found.verdict == "fail") == late
    if late:
        assert found.found.startswith(
            "1 pod without volumes for more than 120 s; is there the Secret `pool-token`"
        )
        assert found.fix.startswith(
            "`kubectl -n here describe pod p1` names what is missing; `kubectl -n here create"
        )


def test_without_a_secret_of_the_namespace_the_pool_tells_of_the_token(world: World) -> None:
    world.own["token_secret"] = world.own["token_key"] = ""
    assert world.bad() == {}
    assert world.said()["token worker"][1].startswith("each pod gets one of its own")
