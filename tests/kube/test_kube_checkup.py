"""What the doctor says of a server and a namespace: each trouble with what to do, and none hides another.

Nothing is changed whatever is found. What it says of pods is in `test_checkup_pods.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glidepath.kube.access import Access
from glidepath.kube.advice import amount, full
from glidepath.kube.checkup import LOST, NEEDED, REVIEWS, Right
from glidepath.kube.errors import AccessError
from kube.checkup_world import FURNISH, HALF, HTML, IMAGE, NOW, PODS, QUOTAS, World, listed, quota, refusing
from kube.stand_in import Answer, plain_access, serving


@pytest.fixture
def world() -> Iterator[World]:
    with serving() as server:
        yield World(server)


def test_a_namespace_that_is_well_has_one_sentence_for_each_check(world: World) -> None:
    world.lacking = {FURNISH}  # As it is shipped.
    found = world.said()
    took = found.pop("server")
    assert took[1].startswith("Kubernetes v1.34.4 answers in ")
    assert found == {
        "access": ("ok", f"`test` at {world.server.url}, namespace `here`", ""),
        "clock": ("ok", "the server's agrees with ours within 60 s", ""),
        "rights": ("ok", "all 7 that are needed", ""),
        "quota": (
            "ok",
            "we may not look, and need not: a pod that would be refused for it is told below",
            "",
        ),
        "pods": ("ok", "0 of ours are there", ""),
        "image worker": (
            "ok",
            f"`{IMAGE}` is a whole name; that nodes can fetch it shows with the first pod",
            "",
        ),
        "pod worker": ("ok", "the cluster would take it", ""),
        "token worker": (
            "ok",
            "the Secret `pool-token` with the key `token` must be there; our rights do not let us see it, "
            "the first pod shows it",
            "",
        ),
    }


def test_nothing_is_changed_whatever_is_found(world: World) -> None:
    world.own |= {"pull_secrets": ["registry"], "secrets": [{"name": "more", "path": "/more"}]}
    world.findings()
    changes = [asked for asked in world.server.asked if asked.method != "GET" and asked.path != REVIEWS]
    assert len(changes) == 4
    assert all(asked.path.endswith("?dryRun=All") for asked in changes)


def test_offers_of_which_the_same_is_to_be_said_share_a_line(world: World) -> None:
    world.offers = ("big", "small", "odd")
    world.own["offers"] = {"odd": {"image": "Odd Name"}}
    found = world.said()
    assert {name for name in found if name.startswith(("image", "pod ", "token"))} == {
        *("image big, small", "image odd", "pod big, small, odd", "token big, small, odd")
    }


# Access and server.


def test_access_that_cannot_be_had_is_all_that_is_told(world: World) -> None:
    def nothing() -> Access:
        raise AccessError("`none.yaml` is not there; look for it")

    world.access = nothing
    assert world.said() == {
        "access": (
            "fail",
            "`none.yaml` is not there; look for it",
            "set `kubeconfig`, `context` and `namespace`",
        )
    }


def test_a_server_that_is_not_checked_is_warned_of(world: World) -> None:
    world.access = lambda: plain_access(world.server, verified=False)
    verdict, found, fix = world.bad()["access"]
    assert verdict == "warn"
    assert found.endswith("it is not checked who the server is")
    assert "tls_unverified" in fix


SERVERS = {
    "a page of a proxy": (
        HTML,
        "answered 200 with text/html, which is no answer of Kubernetes: <html><title>Sign in</title></html>",
        "something else answers there; look at `server` in the kubeconfig and at proxies on the way",
    ),
    "a page of a broken proxy": (
        Answer(502, b"<h1>Bad Gateway</h1>", "text/html"),
        "answered 502 with text/html, which is no answer of Kubernetes: <h1>Bad Gateway</h1>",
        "something else answers there; look at `server` in the kubeconfig and at proxies on the way",
    ),
    "half a document": (
        HALF,
        "the answer cannot be read: Input data was truncated",
        "something else answers there; look at `server` in the kubeconfig and at proxies on the way",
    ),
    "no object": (
        Answer(body=b"[]"),
        "the answer is no object",
        "something else answers there; look at `server` in the kubeconfig and at proxies on the way",
    ),
    "not accepted": (
        refusing(401, "Unauthorized"),
        "Unauthorized",
        "the token or certificate is not accepted, or no longer: renew it where the kubeconfig has it",
    ),
    "busy": (
        refusing(429, "too many requests"),
        "too many requests",
        "the server is busy or broken; ask again in a minute, then those who run it",
    ),
}


@pytest.mark.parametrize("name", SERVERS)
def test_a_server_that_does_not_answer_as_it_should_ends_the_look(world: World, name: str) -> None:
    answer, found, fix = SERVERS[name]
    world.server.say("/version", answer)
    assert world.bad() == {"server": ("fail", found, fix)}
    assert {asked.path for asked in world.server.asked} == {"/version"}


def test_a_server_that_says_nothing_at_all(world: World) -> None:
    world.server.say("/version", Answer(gone=True))
    verdict, found, fix = world.bad()["server"]
    assert verdict == "fail"
    assert found.startswith(f"{world.server.url} did not answer: ")
    assert fix.startswith("does `kubectl get pods` work with this access?")


def test_a_server_that_cannot_be_reached(world: World) -> None:
    with serving() as other:
        gone = plain_access(other, verified=True)
    world.access = lambda: gone
    verdict, found, fix = world.bad()["server"]
    assert verdict == "fail"
    assert found.startswith(f"{gone.server} cannot be reached: ")
    assert fix.startswith("can its address be reached from here?")


def test_a_server_that_keeps_its_version_to_itself_is_looked_over_all_the_same(world: World) -> None:
    world.server.say("/version", refusing(403, "forbidden"))
    assert world.bad() == {}
    assert "pod worker" in world.said()


@pytest.mark.parametrize(
    ("date", "verdict", "found"),
    [
        (NOW + 59, "ok", "the server's agrees with ours within 60 s"),
        (NOW + 90, "warn", "the server's clock is 90 s ahead of this machine's"),
        (NOW - 3600, "warn", "the server's clock is 3600 s behind this machine's"),
        ("", "ok", "the server does not tell its time"),
        ("yesterday", "ok", "the server does not tell its time"),
    ],
)
def test_clocks_that_disagree(world: World, date: float | str, verdict: str, found: str) -> None:
    world.date(date)
    said = world.said()["clock"]
    assert said[:2] == (verdict, found)
    assert ("NTP" in said[2]) == (verdict == "warn")


# Rights.


@pytest.mark.parametrize("right", [*NEEDED, FURNISH])
def test_each_missing_right_is_named_with_what_is_lost_and_the_line_to_add(
    world: World, right: Right
) -> None:
    world.own["token_secret"] = world.own["token_key"] = ""
    world.lacking = {right}
    resource, part, verb = right
    name = f"{resource}/{part}" if part else resource
    (check, (verdict, found, fix)) = world.bad().popitem()
    assert check == f"right to {verb} {name}"
    assert verdict == ("warn" if part == "log" else "fail")
    assert found == f"it is missing: {LOST[right]}"
    assert fix.startswith(f"add `{verb}` on `{name}` to the Role")


def test_without_any_right_each_is_told_and_what_needs_one_is_not_tried(world: World) -> None:
    world.lacking = {*NEEDED, FURNISH}
    found = world.bad()
    assert len(found) == len(NEEDED)  # The token is there already, so none has to be written.
    assert not [asked for asked in world.server.asked if asked.path.startswith(PODS)]


@pytest.mark.parametrize(
    "answer", [refusing(403, "cannot create selfsubjectaccessreviews"), HTML, HALF, Answer(201, b"{}")]
)
def test_rights_that_nobody_tells_are_not_held_to_be_missing(world: World, answer: Answer) -> None:
    world.server.rule(REVIEWS, lambda _: answer)
    found = world.bad()
    assert list(found) == ["rights"]
    assert found["rights"][0] == "warn"
    assert found["rights"][1].startswith("not known whether we may get pods: ")
    assert "pod worker" in world.said()


# Quotas.

USED = {
    "nothing used": (quota(pods=("0", "10")), None),
    "below nine tenths": (quota(pods=("8", "10"), requests_memory=("7Gi", "8Gi")), None),
    "nearly": (quota(pods=("9", "10")), "quota `group`: 9 of 10 pods"),
    "wholly": (quota(pods=("10", "10")), "quota `group`: all 10 pods"),
    "overdrawn": (quota(pods=("12", "10")), "quota `group`: all 10 pods"),
    "closed": (quota(pods=("0", "0")), "quota `group`: all 0 pods"),
    "in other units": (
        quota(requests_cpu=("7800m", "8"), limits_memory=("16Gi", "17179869184")),
        "quota `group`: 7800m of 8 requests.cpu; quota `group`: all 17179869184 limits.memory",
    ),
    "of what pods do not count against": (quota(services=("5", "5"), configmaps=("9", "9")), None),
    "amounts that are none": (quota(pods=("many", "10"), requests_cpu=("1", "-1")), None),
    "no status": ({"metadata": {"name": "new"}}, None),
    "numbers instead of texts": ({"status": {"hard": {"pods": 5}, "used": {"pods": 5}}}, None),
    "lists instead of tables": ({"metadata": [], "status": {"hard": [], "used": []}}, None),
    "an escape in its name": (quota("\x1b[2J", pods=("1", "1")), "quota `\\x1b[2J`: all 1 pods"),
}


@pytest.mark.parametrize("name", USED)
def test_a_quota_that_is_nearly_or_wholly_used_is_warned_of(world: World, name: str) -> None:
    row, found = USED[name]
    world.server.say(QUOTAS, listed(row, "odd", kind="ResourceQuotaList"))
    said = world.said()["quota"]
    if found is None:
        assert said == ("ok", "1 in the namespace, none nearly used up", "")
    else:
        assert said == ("warn", found, "pods will be refused; ask for more, or lower the limits of the site")


@pytest.mark.parametrize("answer", [HTML, HALF, Answer(gone=True), refusing(500, "etcd")])
def test_quotas_that_cannot_be_read_hide_nothing_else(world: World, answer: Answer) -> None:
    world.server.say(QUOTAS, answer)
    assert list(world.bad()) == ["quota"]


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("1500m", "1.5"),
        ("2e3", "2k"),
        ("1Gi", "1073741824"),
        ("1E", "1e18"),
        ("0.5", "500m"),
        ("1u", "1000n"),
    ],
)
def test_amounts_of_kubernetes(text: str, same: str) -> None:
    assert amount(text) == amount(same) is not None


@given(st.one_of(st.text(max_size=30), st.none(), st.integers(), st.lists(st.text())))
def test_any_amount_is_one_or_none(said: object) -> None:
    found = amount(said)
    assert found is None or found >= 0


@given(st.dictionaries(st.text(max_size=5), st.recursive(st.none() | st.text(), st.lists, max_leaves=4)))
def test_any_table_passes_for_a_quota_that_says_nothing(row: dict[str, Any]) -> None:
    assert list(full(row)) == []
