"""One cycle as sequences that hardly change: snapshot, memory and plan come in, parts go out, and back.

Times that move with every cycle are kept as distances from now, and the demand that memory holds is found in
the snapshot before. Rebuilt values equal the originals, order included. A field that is added to one of the
three needs no change here: a tuple becomes a part of its own, anything else a place in the head.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import compress
from operator import attrgetter, is_not, itemgetter
from typing import Any, NamedTuple, get_args, get_origin

from glidepath.core.cycle import Plan, Seen
from glidepath.core.provision.demand import Demand
from glidepath.core.provision.flow import Flow
from glidepath.core.provision.memory import Held, Memory, NodeHealth
from glidepath.core.provision.pilot import PilotAction, SitePilot, Slot
from glidepath.core.provision.quick import copied
from glidepath.core.provision.sight import Snapshot, Window
from glidepath.core.quantity import Instant
from glidepath.journal.codec import Coder, Malformed, Plain, coder, field_hints
from glidepath.journal.delta import EMPTY, Part, advanced, applied

Path = tuple[str, ...]
SAME_AS_DEMAND = "d"  # the held demand is what the snapshot before showed

ROOTS: Mapping[str, Any] = {"snapshot": Snapshot, "memory": Memory, "plan": Plan[PilotAction]}
# Numbers that move with every cycle, and what they are kept as a distance from.
FROM_NOW = frozenset({"memory.at", "plan.at"})
FROM_CYCLE = frozenset({"memory.cycle", "plan.cycle"})
# Fields whose items hold a long sequence of their own: the name of that sequence and what is in it.
NESTED: Mapping[str, tuple[str, Any]] = {
    "snapshot.demand": ("demands", Demand),
    "snapshot.slots": ("slots", Slot),
    "snapshot.sites": ("pilots", SitePilot),
    "memory.held": ("demands", Demand),
}
# Items are told apart by their first field, but for these.
KEYS: Mapping[Any, Callable[[Any], Hashable]] = {
    Demand: attrgetter("shape", "run_s_max", "variant"),
    Flow: attrgetter("group"),
    Window: attrgetter("site", "opens_at"),
    NodeHealth: attrgetter("site", "node"),
    Held: attrgetter("pool", "source"),
}


class Kind(NamedTuple):
    """What is in one kind of part, and how its items are told apart."""

    hint: Any
    key: Callable[[Any], Hashable]


class Layout(NamedTuple):
    """The fields of one root: those in its head, their types, and those with a part of their own."""

    head: tuple[str, ...]
    head_hints: tuple[Any, ...]
    parts: tuple[str, ...]


def _layout(root: str) -> Layout:
    hints = field_hints(ROOTS[root])
    parts = tuple(name for name, hint in hints.items() if _item_of(hint) is not None)
    head = tuple(name for name in hints if name not in parts)
    return Layout(head, tuple(hints[name] for name in head), parts)


def _item_of(hint: Any) -> Any:
    args = get_args(hint)
    return args[0] if get_origin(hint) is tuple and len(args) == 2 and args[1] is Ellipsis else None


def _itself(item: Hashable) -> Hashable:
    """The key of a name, and of an action, which may be of several types."""
    return item


def _kind(item: Any) -> Kind:
    if item in KEYS:
        return Kind(item, KEYS[item])
    if get_origin(item) is tuple:
        names = len(get_args(item)) - 1
        return Kind(item, itemgetter(slice(names)))
    if not dataclasses.is_dataclass(item):
        return Kind(item, _itself)
    return Kind(item, attrgetter(next(iter(field_hints(item)))))


LAYOUTS = {root: _layout(root) for root in ROOTS}
FIELDS: Mapping[str, Kind] = {
    f"{root}.{name}": _kind(_item_of(field_hints(ROOTS[root])[name]))
    for root, layout in LAYOUTS.items()
    for name in layout.parts
}
ITEMS: Mapping[str, Kind] = {field: _kind(item) for field, (_, item) in NESTED.items()}


@dataclass(frozen=True, slots=True)
class Cycle:
    """What one cycle is made of."""

    snapshot: Snapshot
    memory: Memory
    plan: Plan[PilotAction]


@dataclass(frozen=True, slots=True)
class Frame:
    """All parts of one cycle as they were last written."""

    parts: Mapping[Path, Part]

    def keyframe(self) -> Plain:
        return [[list(path), list(part.plain)] for path, part in self.parts.items()]


def framed(old: Frame | None, cycle: Cycle) -> tuple[Frame, Plain]:
    """The cycle as a frame, and the change that leads to it from the older one."""
    before = old.parts if old else {}
    parts: dict[Path, Part] = {}
    changes: list[Plain] = []
    for path, values in _parts_of(cycle):
        was = before.get(path, EMPTY)
        if values is None:  # Unseen: the last listing stays as the base for the next one.
            parts[path] = was
            continue
        shown = before.get(("snapshot.demand", *path[1:]), EMPTY) if path[0] == "memory.held" else EMPTY
        if values and shown.values == values and was.values != values:
            parts[path] = shown
            changes.append([list(path), SAME_AS_DEMAND])
            continue
        parts[path], change = _advanced(path, was, values)
        if change:
            changes.append([list(path), change])
    # Parts that are gone stay until the next keyframe, because a reader does not see them go.
    return Frame({**before, **parts}), changes


def pruned(frame: Frame, cycle: Cycle) -> Frame:
    """The frame without the parts of sites and sources that are no longer there; for a keyframe."""
    return Frame({path: frame.parts[path] for path, _ in _parts_of(cycle)})


def unfolded(keyframe: Plain) -> dict[Path, list[Plain]]:
    """The parts of a keyframe, still encoded."""
    try:
        return {tuple(path): list(items) for path, items in keyframe}
    except (TypeError, ValueError) as error:
        raise Malformed(f"the keyframe is not a list of parts: {error}") from error


def followed(parts: dict[Path, list[Plain]], changes: Plain) -> dict[Path, list[Plain]]:
    """The parts after one more cycle, still encoded."""
    after = dict(parts)
    try:
        for path_plain, change in changes:
            path: Path = tuple(path_plain)
            if change == SAME_AS_DEMAND:
                after[path] = parts[("snapshot.demand", *path[1:])]
            else:
                after[path] = applied(parts.get(path, []), change)
    except (TypeError, ValueError, KeyError) as error:
        raise Malformed(f"the changes of a cycle do not fit: {error}") from error
    return after


class Decoded:
    """Values of the cycle before, by their encoded form: what did not change is not decoded again."""

    def __init__(self) -> None:
        self._last: dict[Path, tuple[list[Plain], tuple[Any, ...]]] = {}
        self._shown: dict[Path, tuple[list[Plain], tuple[Any, ...]]] = {}  # demand of the cycle before

    def values(self, path: Path, plains: list[Plain]) -> tuple[Any, ...]:
        last = self._last.get(path, ([], ()))
        if last[0] is plains and plains:
            return last[1]
        if path[0] == "memory.held" and len(path) > 1:
            # What is held now was shown then, and has been decoded as that.
            shown = self._shown.get(path[1:], last)
            if shown[0] is plains:
                self._last[path] = shown
                return shown[1]
        elif path[0] == "snapshot.demand":
            self._shown[path[1:]] = last
        values = tuple(_known(last, plains, path))
        self._last[path] = (plains, values)
        return values


def _known(last: tuple[list[Plain], tuple[Any, ...]], plains: list[Plain], path: Path) -> list[Any]:
    """The values of the encoded items, those of the last ones where they are the same objects."""
    old, values = last
    # By address, which is of one object only, because the old ones are kept until the new ones are known.
    if len(plains) == len(old):
        new = list(compress(range(len(old)), map(is_not, plains, old)))
        before = {id(old[at]): values[at] for at in new}
        found = list(values)
    else:
        before = dict(zip(map(id, old), values, strict=True))
        found = list(map(before.get, map(id, plains)))
        new = [at for at, value in enumerate(found) if value is None]
    decode = _coder(path[0], len(path) > 1).decode
    for at in new:
        known = before.get(id(plains[at]))
        try:
            found[at] = decode(plains[at]) if known is None else known
        except Malformed as error:
            raise error.under("/".join(path) + f"[{at}]") from error
    return found


def rebuilt(number: int, parts: Mapping[Path, list[Plain]], decoded: Decoded | None = None) -> Cycle:
    """The values of one cycle, from its parts. Raises ValueError that names the part that does not fit."""
    decoded = decoded or Decoded()
    now = 0
    roots: dict[str, Any] = {}
    for root, layout in LAYOUTS.items():
        (head,) = parts.get((root,)) or [None]
        fields = {}
        try:
            for name, hint, plain in zip(layout.head, layout.head_hints, head, strict=False):
                fields[name] = _shifted(f"{root}.{name}", coder(hint).decode(plain), now, number)
            now = fields.get("now", now)
            fields |= {name: _field(f"{root}.{name}", parts, now, decoded) for name in layout.parts}
            roots[root] = (get_origin(ROOTS[root]) or ROOTS[root])(**fields)
        except Malformed as error:
            raise error.under(root) from error
        except (TypeError, ValueError) as error:
            raise Malformed(str(error), root) from error
    return Cycle(**roots)


def _advanced(path: Path, was: Part, values: tuple[Any, ...]) -> tuple[Part, Plain]:
    if path[0] in LAYOUTS:
        hints = LAYOUTS[path[0]].head_hints
        return advanced(was, values, lambda _: 0, coder(types.GenericAlias(tuple, hints)).encode)
    inner = len(path) > 1
    kind = ITEMS[path[0]] if inner else FIELDS[path[0]]
    return advanced(was, values, kind.key, _coder(path[0], inner).encode)


@cache
def _coder(field: str, inner: bool) -> Coder:
    """For the items of a field, or for those of their inner sequence; found by name, which is quick."""
    return coder((ITEMS if inner else FIELDS)[field].hint)


def _parts_of(cycle: Cycle) -> Iterator[tuple[Path, tuple[Any, ...] | None]]:
    """Every part with its values; None for one that cannot be seen. Each path comes once."""
    now, number = cycle.snapshot.now, cycle.plan.cycle
    for root, layout in LAYOUTS.items():
        value = getattr(cycle, root)
        head = [_shifted(f"{root}.{name}", getattr(value, name), -now, -number) for name in layout.head]
        yield (root,), (tuple(head),)
        for name in layout.parts:
            field = f"{root}.{name}"
            if field in NESTED:
                yield from _nested(field, getattr(value, name), now)
            else:
                yield (field,), getattr(value, name)


def _shifted(field: str, value: Any, now: int, number: int) -> Any:
    if value is None:
        return None
    return value + now if field in FROM_NOW else value + number if field in FROM_CYCLE else value


def _nested(field: str, items: tuple[Any, ...], now: int) -> Iterator[tuple[Path, tuple[Any, ...] | None]]:
    """The items without their inner sequence, then each inner sequence as a part of its own."""
    inner = NESTED[field][0]
    yield (field,), tuple(_opened(field, item, (), -now) for item in items)
    for path, item in _named(field, items):
        holder = item if isinstance(item, Held) else item[-1]
        if isinstance(holder, Held):
            yield path, getattr(holder, inner)
        else:
            yield path, getattr(holder.value, inner) if isinstance(holder, Seen) else None


def _opened(field: str, item: Any, sequence: tuple[Any, ...], shift: int) -> Any:
    """The item with its inner sequence exchanged and its time moved; something unseen as it is."""
    inner = NESTED[field][0]
    if isinstance(item, Held):
        return Held(item.pool, item.source, Instant(item.at + shift), sequence)
    sight = item[-1]
    if not isinstance(sight, Seen):
        return item
    value = sight.value
    if getattr(value, inner) is not sequence:
        value = copied(value, **{inner: sequence})
    return (*item[:-1], Seen(Instant(sight.at + shift), value))


def _named(field: str, items: tuple[Any, ...]) -> Iterator[tuple[Path, Any]]:
    """A path for each item; the second of one name gets another number, because both must be kept."""
    seen: dict[Any, int] = {}
    for item in items:
        names = FIELDS[field].key(item)
        seen[names] = seen.get(names, 0) + 1
        yield (field, *names, str(seen[names])), item  # type: ignore[misc]


def _field(field: str, parts: Mapping[Path, list[Plain]], now: int, decoded: Decoded) -> tuple[Any, ...]:
    items = decoded.values((field,), parts.get((field,), []))
    if field not in NESTED:
        return items
    whole = []
    for path, item in _named(field, items):
        # The last listing of something unseen is kept only as a base; it is no part of the cycle.
        shown = isinstance(item, Held) or isinstance(item[-1], Seen)
        sequence = decoded.values(path, parts.get(path, [])) if shown else ()
        whole.append(_opened(field, item, sequence, now))
    return tuple(whole)
