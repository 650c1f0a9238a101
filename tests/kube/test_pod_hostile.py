"""What strangers write in their job ads, and what of it can be seen in a pod: only the documented places."""

from __future__ import annotations

import copy
import json
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from glidepath.core.quantity import NodeName, Owner, PoolName, Resources
from glidepath.kube.intent import INTENT, OWNER, SETTINGS, digest, intent_of, label, usable
from glidepath.kube.pod import pod_of
from kube.pod_builders import container, leaves, settings, spec

LABEL = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
WORDS = st.one_of(
    st.text(max_size=100),
    st.sampled_from(
        [
            *(
                "$(HOME)",
                "--name=x",
                "../../etc",
                "a\nb",
                "\ud800",
                "\u202e",
                '"}],"hostNetwork":true,"x":[{"',
                "x" * 300,
            ),
            *("a10", "x86_64", "default", "kube-system", "-", "..", "{{ .Values }}"),
        ]
    ),
)
TRAITS = st.dictionaries(
    st.one_of(st.sampled_from(["arch", "gpu_type", "os"]), WORDS), WORDS, max_size=4
).map(lambda found: tuple(sorted(found.items())))
PRESETS = st.sampled_from(["glidepath", "osg", "prp"])
SAID: dict[str, Any] = {
    "gpu_types": {"a10": {"nodes": [{"key": "nvidia.com/gpu.product", "any_of": ["NVIDIA-A10"]}]}},
    "claims": [{"claim": "cvmfs", "path": "/cvmfs"}],
    "secrets": [{"name": "keys", "path": "/keys"}],
    "configs": [{"name": "conf", "path": "/conf"}],
}
SETTINGS_OF = {
    preset: settings(preset=preset, **SAID).pod("worker") for preset in ("glidepath", "osg", "prp")
}
PLAIN = spec(size=Resources(1000, 2048, 1024, 1))
NEVER = {
    *("hostPath", "hostNetwork", "hostPID", "hostIPC", "hostPort", "privileged", "serviceAccountName"),
    *("serviceAccount", "projected", "csi", "nodeName", "schedulerName", "initContainers", "command"),
}


def without_documented(pod: dict[str, Any]) -> dict[str, Any]:
    """The pod without the places where words of strangers may stand."""
    found = copy.deepcopy(pod)
    for name in ("glidepath/pool", "glidepath/community"):
        found["metadata"]["labels"].pop(name, None)
    for name in (INTENT, OWNER, SETTINGS):
        found["metadata"]["annotations"].pop(name, None)
    (only,) = found["spec"]["containers"]
    only["args"] = [word for word in only.get("args", []) if not word.startswith(("--trait=", "--pool="))]
    # Traits choose among what the settings list for GPUs and among the architectures that there are.
    found["spec"].pop("affinity", None)
    return found


@given(PRESETS, TRAITS, WORDS, WORDS, WORDS)
@example("glidepath", (("os", "\ud800$(HOME)"),), "\ud800", "\ud800", "\ud800")
def test_strangers_change_nothing_but_the_documented_places(
    preset: str, traits: Any, owner: str, pool: str, community: str
) -> None:
    told = replace(
        PLAIN, traits=traits, owner=Owner(owner), pool=PoolName(pool), join=(*PLAIN.join, ("X", owner))
    )
    found = pod_of(told, SETTINGS_OF[preset], community=community, namespace="ns")
    usual = pod_of(PLAIN, SETTINGS_OF[preset], community="physics", namespace="ns")
    assert without_documented(found) == without_documented(usual)
    assert not NEVER & {key for key, _ in leaves(found)}
    names = {"cvmfs", "keys", "conf", "gp-1-token"}
    assert {value for key, value in leaves(found["spec"]) if key in ("claimName", "secretName")} <= names
    assert all(LABEL.fullmatch(value) for value in found["metadata"]["labels"].values())
    affinity = found["spec"].get("affinity", {})
    values = {each for key, value in leaves(affinity) if key == "values" for each in value}
    assert values <= {"NVIDIA-A10", "amd64", "arm64"}
    # It can be written on the wire, and what is written there is what a container gets.
    assert json.loads(json.dumps(found, ensure_ascii=False).encode("utf-8")) == found
    assert not any(re.search(r"(?<!\$)(\$\$)*\$\(", word) for word in container(found).get("args", []))
    assert found["metadata"]["annotations"].get(OWNER, "").isprintable()


@given(PRESETS, TRAITS, WORDS)
def test_equal_inputs_give_equal_pods(preset: str, traits: Any, owner: str) -> None:
    told = replace(PLAIN, traits=traits, owner=Owner(owner))
    again = replace(copy.deepcopy(told))
    assert pod_of(told, SETTINGS_OF[preset]) == pod_of(again, SETTINGS_OF[preset])


@given(TRAITS, WORDS, WORDS, st.tuples(*[st.integers(0, 10**9)] * 4))
def test_an_intent_is_read_back_as_it_was_written(traits: Any, owner: str, pool: str, size: Any) -> None:
    told = replace(PLAIN, traits=traits, owner=Owner(owner), pool=PoolName(pool), size=Resources(*size))
    text = pod_of(told, SETTINGS_OF["glidepath"])["metadata"]["annotations"][INTENT]
    assert text.isascii()
    found = intent_of(text)
    assert (found.traits, found.owner, found.pool, found.size) == (traits, owner, pool, told.size)
    assert (found.offer, found.asked_at, found.lifetime_s) == (told.offer, told.asked_at, told.lifetime_s)
    assert found.digest == digest(told)


@given(
    st.one_of(
        st.text(), st.recursive(st.none() | st.text() | st.integers(), st.lists, max_leaves=5).map(json.dumps)
    )
)
def test_what_is_no_intent_of_ours_is_refused_on_one_line(text: str) -> None:
    with pytest.raises(ValueError, match=r"the annotation `glidepath/intent` is not ours: .") as caught:
        intent_of(text)
    assert str(caught.value).isprintable()


GOOD = json.loads(pod_of(PLAIN, SETTINGS_OF["prp"])["metadata"]["annotations"][INTENT])


@pytest.mark.parametrize(
    "change",
    [
        {"size": [-1, 0, 0, 0]},
        {"size": [1, 2, 3]},
        {"size": ["1", 0, 0, 0]},
        {"lifetime_s": -1},
        {"asked_at": "now"},
        {"traits": [["a"]]},
        {"owner": None},
        {"further": 1},
    ],
)
def test_an_intent_is_believed_only_as_far_as_it_checks(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="the annotation `glidepath/intent`"):
        intent_of(json.dumps(GOOD | change))


def test_a_repeated_request_has_the_same_digest_and_another_has_not() -> None:
    assert digest(replace(PLAIN, asked_at=9, avoid=(NodeName("n"),))) == digest(PLAIN)
    others = [
        replace(PLAIN, lifetime_s=1),
        replace(PLAIN, owner=Owner("b")),
        replace(PLAIN, traits=(("a", "b"),)),
    ]
    assert len({digest(each) for each in (PLAIN, *others)}) == 4


@given(st.text(max_size=200))
def test_any_text_becomes_a_label(text: str) -> None:
    assert LABEL.fullmatch(label(text))


@pytest.mark.parametrize(
    ("name", "good"),
    [
        ("gp-1", True),
        ("a" * 63, True),
        ("a" * 64, False),
        ("", False),
        ("A", False),
        ("a.b", False),
        ("a-\n", False),
    ],
)
def test_names_that_a_pod_can_have(name: Any, good: bool) -> None:
    assert usable(name) is good
