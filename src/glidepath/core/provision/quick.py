"""Frozen values of many fields, made quickly where all are given in order, as a reader of stored ones does.

A frozen dataclass sets each of its fields by way of a function, because its own `__setattr__` refuses: two
microseconds for a pilot's track, and a cycle makes thousands. Here a value is of an open class of the same
layout while its fields are set, and of its own when they are.
"""

from __future__ import annotations

import dataclasses
from functools import lru_cache, update_wrapper
from operator import attrgetter
from typing import Any, TypeVar

T = TypeVar("T")
# There are fewer classes than this whose values are copied.
CLASSES_MAX = 64


def quick(kind: type[T]) -> type[T]:
    """To stand above `@dataclass(frozen=True, slots=True)`; nothing else about the class changes.

    Not for a class with `__post_init__`, nor for one that others are derived from.
    """
    # Without both of them the function that refuses would still be asked.
    free = {"__slots__": (), "__setattr__": object.__setattr__, "__delattr__": object.__delattr__}
    opened = type(kind.__name__, (kind,), free)
    made: Any = kind
    slow = made.__init__
    rows = [(each.name, Any, dataclasses.field(default=each.default)) for each in dataclasses.fields(made)]
    # That of a twin that is not frozen: the same arguments, and fields that are simply set.
    twin: Any = dataclasses.make_dataclass(kind.__name__, rows)
    fill = twin.__init__
    open_up = object.__setattr__

    def __init__(self: Any, *given: Any, **named: Any) -> None:
        if named:
            slow(self, *given, **named)
            return
        open_up(self, "__class__", opened)
        fill(self, *given)
        self.__class__ = kind

    made.__init__ = update_wrapper(__init__, slow)
    return kind


def copied(value: T, **changes: Any) -> T:
    """The value with some fields exchanged: `dataclasses.replace` for what is changed most often."""
    kind: type = value.__class__
    places, fields_of = _fields(kind)
    row = [*fields_of(value)]
    for name, change in changes.items():
        row[places[name]] = change
    copy: T = kind(*row)
    return copy


@lru_cache(maxsize=CLASSES_MAX)
def _fields(kind: type) -> tuple[dict[str, int], attrgetter[tuple[Any, ...]]]:
    names = [field.name for field in dataclasses.fields(kind)]
    return {name: place for place, name in enumerate(names)}, attrgetter(*names)
