"""One odd object never hides the others, and what is no list is never an empty one."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glidepath.kube.errors import KubeError
from glidepath.kube.shapes import (
    NAME_LETTERS_MAX,
    WHY_LETTERS_MAX,
    Condition,
    ContainerState,
    ContainerStatus,
    Decoder,
    Event,
    ListMeta,
    Meta,
    Named,
    Odd,
    Pod,
    PodSpec,
    PodStatus,
    Terminated,
    Waiting,
    table,
)

PODS = Decoder(Pod)
GOOD: dict[str, Any] = {"metadata": {"name": "good", "uid": "u", "resourceVersion": "7"}}
DEEP = b"[" * 50_000 + b"]" * 50_000


def raw(**metadata: object) -> bytes:
    return json.dumps({"metadata": {**GOOD["metadata"], **metadata}}).encode()


def listed(*items: bytes, more: bytes = b'"kind": "PodList"') -> bytes:
    meta = b'"metadata": {"resourceVersion": "9", "continue": "c", "remainingItemCount": 3}'
    return b'{%s, %s, "items": [%s]}' % (more, meta, b", ".join(items))


def test_a_pod_as_the_server_shows_it() -> None:
    shown = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **GOOD["metadata"],
            "creationTimestamp": "2026-01-02T03:04:05Z",
            "deletionTimestamp": None,
            "labels": {"a": "b"},
            "managedFields": [{"fieldsV1": {"f:metadata": {}}}],
        },
        "spec": {"nodeName": "n1", "containers": [{"name": "x"}]},
        "status": {
            "phase": "Failed",
            "conditions": [{"type": "Ready", "status": "False", "reason": "PodFailed"}],
            "containerStatuses": [
                {
                    "name": "x",
                    "restartCount": 2,
                    "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}},
                    "lastState": {"waiting": {"reason": "CrashLoopBackOff"}},
                }
            ],
            "initContainerStatuses": [
                {"name": "hook", "state": {"terminated": {"exitCode": 3, "message": "no such host"}}}
            ],
        },
    }
    status = ContainerStatus(
        "x",
        ContainerState(terminated=Terminated(137, "OOMKilled")),
        ContainerState(waiting=Waiting("CrashLoopBackOff")),
        2,
    )
    expected = Pod(
        Meta("good", "u", "7", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), None, {"a": "b"}),
        PodSpec("n1"),
        PodStatus(
            "Failed",
            conditions=(Condition("Ready", "False", "PodFailed"),),
            container_statuses=(status,),
            init_container_statuses=(
                ContainerStatus("hook", ContainerState(terminated=Terminated(3, message="no such host"))),
            ),
        ),
    )
    assert PODS.item(json.dumps(shown).encode()) == expected


ODD = {
    "null": (b"null", ""),
    "number": (b"5", ""),
    "text": (b'"good"', ""),
    "list": (b"[]", ""),
    "empty": (b"{}", ""),
    "metadata null": (b'{"metadata": null}', ""),
    "no uid": (b'{"metadata": {"name": "odd", "resourceVersion": "1"}}', "odd"),
    "no name": (b'{"metadata": {"uid": "odd", "resourceVersion": "1"}}', ""),
    "empty name": (raw(name=""), ""),
    "long name": (raw(name="x" * 1000), "x" * (NAME_LETTERS_MAX - 3) + "..."),
    "number as name": (raw(name=5), ""),
    "number as version": (raw(name="odd", resourceVersion=5), "odd"),
    "empty version": (raw(name="odd", resourceVersion=""), "odd"),
    "escape in name": (raw(name="\x1b[2J", uid=5), "\\x1b[2J"),
    "labels as list": (raw(name="odd", labels=[]), "odd"),
    "label null": (raw(name="odd", labels={"a": None}), "odd"),
    "time as number": (raw(name="odd", creationTimestamp=5), "odd"),
    "time without zone": (raw(name="odd", creationTimestamp="2026-01-01T00:00:00"), "odd"),
    "time impossible": (raw(name="odd", creationTimestamp="2026-02-30T00:00:00Z"), "odd"),
    "lone surrogate": (b'{"metadata": {"name": "\\ud800", "uid": "u", "resourceVersion": "1"}}', ""),
    "no utf-8": (b'{"metadata": {"name": "odd", "uid": "\xff", "resourceVersion": "1"}}', "odd"),
    "status as text": (
        json.dumps({"metadata": {**GOOD["metadata"], "name": "odd"}, "status": "x"}).encode(),
        "odd",
    ),
    "huge number": (
        b'{"metadata": {"name": "odd", "uid": "u", "resourceVersion": "1"}, '
        b'"status": {"containerStatuses": [{"name": "x", "restartCount": %s}]}}' % (b"9" * 5000),
        "odd",
    ),
    "beyond all floats": (
        b'{"metadata": {"name": "odd", "uid": "u", "resourceVersion": "1"}, '
        b'"status": {"containerStatuses": [{"name": "x", "restartCount": 1e999}]}}',
        "odd",
    ),
    "init container as text": (
        json.dumps(
            {
                "metadata": {**GOOD["metadata"], "name": "odd"},
                "status": {"initContainerStatuses": [{"name": "x", "state": "running"}]},
            }
        ).encode(),
        "odd",
    ),
    "metadata twice": (b'{"metadata": {"name": "a", "uid": "u", "resourceVersion": "1"}, "metadata": 5}', ""),
    "deep": (b'{"metadata": {"name": "odd", "uid": "u", "resourceVersion": "1"}, "x": %s}' % DEEP, ""),
    "deep inside": (b'{"metadata": {"name": "odd", "uid": "u", "resourceVersion": "1", "x": %s}}' % DEEP, ""),
}


# An event is one object: where that cannot be passed over, nothing of it is known.
ENDS_THE_STREAM = ("deep", "deep inside", "lone surrogate")


@pytest.mark.parametrize("name", ODD)
def test_an_odd_object_is_named_and_the_others_are_there(name: str) -> None:
    content, shown = ODD[name]
    page = PODS.page(listed(raw(), content, raw(name="other")))
    assert page.meta == ListMeta("9", "c", 3)
    assert [pod.metadata.name for pod in page.items] == ["good", "other"]
    assert [odd.name for odd in page.odd] == [shown]
    assert 0 < len(page.odd[0].why) <= WHY_LETTERS_MAX
    with pytest.raises(KubeError, match="the answer cannot be read"):
        PODS.item(content)


@pytest.mark.parametrize("name", [name for name in ODD if name not in ENDS_THE_STREAM])
@pytest.mark.parametrize("kind", ["ADDED", "MODIFIED", "DELETED"])
def test_an_odd_event_is_one_all_the_same(name: str, kind: str) -> None:
    content, shown = ODD[name]
    event = PODS.event(b'{"type": "%s", "object": %s}' % (kind.encode(), content))
    assert (event.kind, event.item) == (kind, None)
    assert isinstance(event.odd, Odd)
    assert (event.odd.name, event.odd.version) == (shown, event.version)


@pytest.mark.parametrize("name", ENDS_THE_STREAM)
def test_an_event_of_nobody_knows_whom_ends_the_stream(name: str) -> None:
    with pytest.raises(KubeError, match="an event cannot be read"):
        PODS.event(b'{"type": "ADDED", "object": %s}' % ODD[name][0])


def test_objects_nested_deeply_are_cut_out_by_their_brackets() -> None:
    tricky = raw(labels={"a": '"]},{[', "items": "[\\"})
    deep = ODD["deep"][0]
    for more in (b'"kind": "PodList"', b'"x": {"items": [1, [2]]}, "y": "\\"items\\": ["'):
        page = PODS.page(listed(deep, tricky, b"{}", deep, raw(), more=more))
        assert [pod.metadata.labels for pod in page.items] == [{"a": '"]},{[', "items": "[\\"}, {}]
        assert len(page.odd) == 3
    with pytest.raises(KubeError, match="list cannot be read"):
        PODS.page(listed(deep)[:-3])
    with pytest.raises(KubeError, match="list cannot be read"):
        PODS.page(b'{"metadata": {}, "items": %s}' % DEEP[:-1])
    with pytest.raises(KubeError, match="list cannot be read"):
        PODS.page(b'{"metadata": {}, "x": %s, "items": []}' % DEEP)


def test_the_last_of_two_equal_keys_counts() -> None:
    twice = b'{"metadata": {"name": "a", "uid": "u", "name": "b", "resourceVersion": "1", "uid": "v"}}'
    assert PODS.item(twice).metadata == Meta("b", "v", "1")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "list cannot be read"),
        (b"null", "list cannot be read"),
        (b"[]", "list cannot be read"),
        (b"<html>", "list cannot be read"),
        (b"{}", "list cannot be read"),
        (b'{"items": []}', "list cannot be read"),
        (b'{"metadata": {}}', "missing required field `items`"),
        (b'{"kind": "Status", "metadata": {}, "status": "Success"}', "missing required field `items`"),
        (b'{"kind": "Status", "metadata": {}, "items": []}', "a list was asked for, `Status` came"),
        (b'{"kind": "\\u001b[2J", "metadata": {}, "items": []}', r"`\\x1b\[2J` came"),
        (b'{"metadata": {"continue": 5}, "items": []}', "list cannot be read"),
        (b'{"metadata": {"continue": "\\ud800"}, "items": []}', "list cannot be read"),
        (b'{"metadata": {}, "items": {}}', "list cannot be read"),
        (b'{"metadata": {}, "items": [{}', "list cannot be read"),
        (b'{"metadata": {}, "items": []} {}', "list cannot be read"),
        (b'{"metadata": {"resourceVersion": "\xff"}, "items": []}', "list cannot be read"),
    ],
)
def test_what_is_no_list_is_an_error_and_never_empty(content: bytes, words: str) -> None:
    with pytest.raises(KubeError, match=words):
        PODS.page(content)


@pytest.mark.parametrize("items", [b"[]", b"null"])
def test_an_empty_list_is_one(items: bytes) -> None:
    page = PODS.page(b'{"kind": "PodList", "metadata": {"resourceVersion": "5"}, "items": %s}' % items)
    assert (page.meta, page.items, page.odd) == (ListMeta("5"), (), ())


def event(kind: str, thing: object) -> bytes:
    return json.dumps({"type": kind, "object": thing}).encode()


def test_events() -> None:
    pod = PODS.item(json.dumps(GOOD).encode())
    for kind in ("ADDED", "MODIFIED", "DELETED"):
        assert PODS.event(event(kind, GOOD)) == Event(kind, "7", pod)
    mark = {"metadata": {"resourceVersion": "8", "creationTimestamp": None}}
    assert PODS.event(event("BOOKMARK", mark)) == Event("BOOKMARK", "8")
    assert PODS.event(event("BOOKMARK", 5)) == Event("BOOKMARK", "")
    assert Decoder(Named).event(event("ADDED", GOOD)).item == Named(Meta("good", "u", "7"))


@pytest.mark.parametrize(
    ("line", "status", "reason", "words"),
    [
        (event("ERROR", {"code": 410, "reason": "Expired", "message": "too old"}), 410, "Expired", "too old"),
        (event("ERROR", {"code": 410, "reason": 5, "message": []}), 410, "", "ended in an error"),
        (event("ERROR", {"code": "410", "reason": "Gone"}), 0, "Gone", "ended in an error"),
        (event("ERROR", {"code": True}), 0, "", "ended in an error"),
        (event("ERROR", {"code": 500, "message": "a\nb"}), 500, "", r"a\\nb"),
        (event("ERROR", None), 0, "", "ended in an error"),
        (event("SURPRISE\x1b", GOOD), 0, "", r"of type `SURPRISE\\x1b` is unknown"),
        (event("added", GOOD), 0, "", "is unknown"),
        (b"", 0, "", "an event cannot be read"),
        (b"{}", 0, "", "an event cannot be read"),
        (b"<html>", 0, "", "an event cannot be read"),
        (b'{"type": "ADDED"}', 0, "", "an event cannot be read"),
        (b'{"type": 5, "object": {}}', 0, "", "an event cannot be read"),
        (b'{"type": "ADDED", "object": {}', 0, "", "an event cannot be read"),
        (b'{"type": "ADDED", "object": %s}' % DEEP, 0, "", "an event cannot be read"),
        (listed(raw()), 0, "", "an event cannot be read"),
    ],
)
def test_what_is_no_event_is_an_error(line: bytes, status: int, reason: str, words: str) -> None:
    with pytest.raises(KubeError, match=words) as caught:
        PODS.event(line)
    assert (caught.value.status, caught.value.reason) == (status, reason)
    assert caught.value.gone == (status == 410 or reason == "Gone")


@pytest.mark.parametrize("content", [b"", b"[]", b"5", b"{", b'{"a": "\xff"}', DEEP])
def test_a_table_is_a_table(content: bytes) -> None:
    assert table(b'{"a": 1, "a": 2}') == {"a": 2}
    with pytest.raises(KubeError, match="the answer"):
        table(content)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from(
    ["name", "uid", "resourceVersion", "creationTimestamp", "labels", "annotations", "other"]
)
METADATA = st.dictionaries(KEYS, VALUES | st.sampled_from(["a", "2026-01-01T00:00:00Z"]))
PARTS = st.sampled_from(["phase", "conditions", "containerStatuses", "startTime", "nodeName"])
OBJECTS = VALUES | st.fixed_dictionaries(
    {},
    optional={
        "metadata": METADATA | VALUES,
        "status": st.dictionaries(PARTS, VALUES) | VALUES,
        "spec": st.dictionaries(PARTS, VALUES) | VALUES,
    },
)


@given(st.lists(OBJECTS, max_size=6), st.booleans())
def test_nothing_is_lost_and_nothing_is_invented(things: list[Any], ascii_only: bool) -> None:
    said = [json.dumps(thing, ensure_ascii=ascii_only).encode() for thing in things]
    page = PODS.page(listed(raw(), *said, raw(name="last")))
    assert len(page.items) + len(page.odd) == len(things) + 2
    assert (page.items[0].metadata.name, page.items[-1].metadata.name) == ("good", "last")
    for each in said:
        told = PODS.event(b'{"type": "MODIFIED", "object": %s}' % each)
        assert (told.item is None) != (told.odd is None)


@given(
    st.binary(max_size=200), st.sampled_from([b"", b'{"metadata":{},"items":[', b'{"type":"ADDED","object":'])
)
def test_any_bytes_are_data_or_a_sentence(noise: bytes, start: bytes) -> None:
    for read in (PODS.page, PODS.event, PODS.item, table):
        assert said_by(read, start + noise).isprintable()


def said_by(read: Callable[[bytes], object], content: bytes) -> str:
    try:
        read(content)
    except KubeError as error:
        return str(error)
    return ""
