"""What we read of Kubernetes objects: bytes come in, checked values go out, one object at a time; and back.

Only the fields that are used are decoded. An object that does not decode is put aside with its name, if it
has one, and never stops the others.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Generic, TypeVar

import msgspec

from glidepath.core.text import one_line
from glidepath.kube.errors import KubeError

NAME_LETTERS_MAX = 253
VERSION_LETTERS_MAX = 200
WHY_LETTERS_MAX = 200
BAD = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
# What nests, and texts, in which brackets mean nothing.
_NESTING = re.compile(rb'"(?:[^"\\]|\\.)*+"|[\[\]{},]', re.DOTALL)
# One of two escapes that make a letter together.
_HALF = re.compile(rb"\\u[dD][89a-fA-F]")
_ITEMS = re.compile(rb'"items"\s*:\s*\[$')

# A time without its zone would be compared with others one day, and end the comparison.
Time = Annotated[datetime, msgspec.Meta(tz=True)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=NAME_LETTERS_MAX)]
Version = Annotated[str, msgspec.Meta(min_length=1, max_length=VERSION_LETTERS_MAX)]
Item = TypeVar("Item", bound="Named")


class OwnerReference(msgspec.Struct, frozen=True):
    uid: Name


class Meta(msgspec.Struct, frozen=True, rename="camel"):
    name: Name
    uid: Name
    resource_version: Version
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    namespace: str = ""
    owner_references: tuple[OwnerReference, ...] = ()


class Named(msgspec.Struct, frozen=True):
    """Any object; the shapes below add what they have besides."""

    metadata: Meta


class Condition(msgspec.Struct, frozen=True, rename="camel"):
    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: Time | None = None


class Waiting(msgspec.Struct, frozen=True):
    reason: str = ""
    message: str = ""


class Running(msgspec.Struct, frozen=True, rename="camel"):
    started_at: Time | None = None


class Terminated(msgspec.Struct, frozen=True, rename="camel"):
    exit_code: int
    reason: str = ""
    message: str = ""
    signal: int = 0
    started_at: Time | None = None
    finished_at: Time | None = None


class ContainerState(msgspec.Struct, frozen=True):
    waiting: Waiting | None = None
    running: Running | None = None
    terminated: Terminated | None = None


class ContainerStatus(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()
    restart_count: int = 0
    started: bool | None = None  # whether a probe that asks for it has said so


class PodSpec(msgspec.Struct, frozen=True, rename="camel"):
    node_name: str = ""


class PodStatus(msgspec.Struct, frozen=True, rename="camel"):
    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    start_time: Time | None = None
    init_container_statuses: tuple[ContainerStatus, ...] = ()


class Pod(Named, frozen=True):
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class Container(msgspec.Struct, frozen=True):
    name: str
    image: str = ""


class ImagedSpec(PodSpec, frozen=True, rename="camel"):
    containers: tuple[Container, ...] = ()


class ImagedPod(Pod, frozen=True):
    """With more than is followed all the time: only a check-up looks at it."""

    spec: ImagedSpec = ImagedSpec()


class ListMeta(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")
    remaining_item_count: int | None = None


class _Page(msgspec.Struct, frozen=True):
    metadata: ListMeta
    # It has to be there, be it null: what is no list at all must not pass for an empty one.
    items: tuple[msgspec.Raw, ...] | None
    kind: str = "List"


class _Event(msgspec.Struct, frozen=True):
    type: str
    object: msgspec.Raw


class _OnlyMeta(msgspec.Struct, frozen=True, rename="camel"):
    name: Any = ""
    resource_version: Any = ""


class _Only(msgspec.Struct, frozen=True):
    metadata: _OnlyMeta = _OnlyMeta()


class _Status(msgspec.Struct, frozen=True):
    code: Any = 0
    reason: Any = ""
    message: Any = ""


@dataclass(frozen=True, slots=True)
class Odd:
    """An object that does not decode; it has a name where at least that could be read."""

    name: str
    version: str
    why: str


@dataclass(frozen=True, slots=True)
class Page(Generic[Item]):
    meta: ListMeta
    items: tuple[Item, ...]
    odd: tuple[Odd, ...]


@dataclass(frozen=True, slots=True)
class Event(Generic[Item]):
    """`kind` is ADDED, MODIFIED, DELETED or BOOKMARK; `item` is None for bookmarks and odd objects."""

    kind: str
    version: str
    item: Item | None = None
    odd: Odd | None = None


class Decoder(Generic[Item]):
    """Pages and events of one kind of object."""

    def __init__(self, shape: type[Item]) -> None:
        self._items: msgspec.json.Decoder[Item] = msgspec.json.Decoder(shape)
        self._pages = msgspec.json.Decoder(_Page)
        self._events = msgspec.json.Decoder(_Event)
        self._only = msgspec.json.Decoder(_Only)

    def page(self, content: bytes) -> Page[Item]:
        """Raises KubeError where this is no list at all."""
        try:
            found = self._pages.decode(content)
        except BAD as error:
            if not isinstance(error, RecursionError) and not _HALF.search(content):
                raise KubeError(f"the list cannot be read: {error}") from None
            found = _cut_page(content)
        if not found.kind.endswith("List"):
            raise KubeError(f"a list was asked for, `{one_line(found.kind, letters_max=40)}` came")
        items: list[Item] = []
        odd: list[Odd] = []
        decode = self._items.decode
        for raw in found.items or ():
            try:
                items.append(decode(raw))
            except BAD as error:
                odd.append(self._odd(raw, error))
        return Page(found.metadata, tuple(items), tuple(odd))

    def item(self, content: bytes) -> Item:
        """One object that was asked for. Raises KubeError where it does not decode."""
        try:
            return self._items.decode(content)
        except BAD as error:
            raise KubeError(f"the answer cannot be read: {error}") from None

    def event(self, line: bytes) -> Event[Item]:
        """Raises KubeError for an error that the server sent instead, and for what is no event."""
        try:
            found = self._events.decode(line)
        except BAD as error:
            raise KubeError(f"an event cannot be read: {error}") from None
        if found.type == "ERROR":
            raise _error(found.object)
        if found.type == "BOOKMARK":
            return Event(found.type, self._named(found.object)[1])
        if found.type not in ("ADDED", "MODIFIED", "DELETED"):
            raise KubeError(f"an event of type `{one_line(found.type, letters_max=40)}` is unknown")
        try:
            item = self._items.decode(found.object)
        except BAD as error:
            odd = self._odd(found.object, error)
            return Event(found.type, odd.version, odd=odd)
        return Event(found.type, item.metadata.resource_version, item)

    def _odd(self, raw: msgspec.Raw, error: Exception) -> Odd:
        name, version = self._named(raw)
        return Odd(name, version, one_line(str(error), letters_max=WHY_LETTERS_MAX))

    def _named(self, raw: msgspec.Raw) -> tuple[str, str]:
        """Name and version, as far as they can be read."""
        try:
            found = self._only.decode(raw).metadata
        except BAD:
            return "", ""
        name = found.name if isinstance(found.name, str) else ""
        version = found.resource_version if isinstance(found.resource_version, str) else ""
        return one_line(name, letters_max=NAME_LETTERS_MAX), version[:VERSION_LETTERS_MAX]


def _error(raw: msgspec.Raw) -> KubeError:
    """What the server says instead of an event; each word for itself, so that a code is seen in any case."""
    try:
        found = msgspec.json.decode(raw, type=_Status)
    except BAD:
        found = _Status()
    return KubeError(
        found.message if isinstance(found.message, str) and found.message else "the stream ended in an error",
        status=found.code if type(found.code) is int else 0,
        reason=one_line(found.reason) if isinstance(found.reason, str) else "",
    )


def _cut_page(content: bytes) -> _Page:
    """The same list, its objects cut out by their brackets.

    The decoder gives up on the whole where one is nested too deeply to be passed over, or has half a letter.
    """
    spans = list(_spans(content))
    items = [msgspec.Raw(content[start:end]) for start, end in spans]
    rest = content[: spans[0][0]] + content[spans[-1][1] :] if spans else content
    try:
        found = msgspec.json.decode(rest, type=_Page)
    except BAD as error:
        raise KubeError(f"the list cannot be read: {error}") from None
    return msgspec.structs.replace(found, items=tuple(items))


def _spans(content: bytes) -> Iterator[tuple[int, int]]:
    """Where the objects of `items` begin and end."""
    depth, start, inside = 0, 0, False
    for found in _NESTING.finditer(content):
        match found[0]:
            case b"[" | b"{":
                depth += 1
                if (
                    depth == 2
                    and found[0] == b"["
                    and _ITEMS.search(content, max(0, found.start() - 40), found.end())
                ):
                    start, inside = found.end(), True
            case b"]" | b"}":
                depth -= 1
                if inside and depth == 1:
                    if content[start : found.start()].strip():
                        yield start, found.start()
                    return
            case b"," if inside and depth == 2:
                yield start, found.start()
                start = found.end()


def written(body: Mapping[str, Any]) -> bytes:
    """An object for the wire."""
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError:  # Half a letter, which only the slower one lets through.
        return json.dumps(body, separators=(",", ":")).encode()


def table(content: bytes) -> dict[str, Any]:
    """An answer that is looked at in one place only."""
    try:
        found = msgspec.json.decode(content)
    except BAD as error:
        raise KubeError(f"the answer cannot be read: {error}") from None
    if not isinstance(found, dict):
        raise KubeError("the answer is no object")
    return found
