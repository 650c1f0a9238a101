"""Core values to plain JSON values and back, driven by type hints, exactly.

A dataclass becomes a list of its fields in order; a field that was appended later may be missing at the end
and takes its default. What does not fit raises `ValueError` with the path. It knows no class by name.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping
from enum import Enum
from functools import lru_cache
from operator import attrgetter
from typing import Any, NamedTuple, NewType, Union, get_args, get_origin

AMOUNTS_KEPT_MAX = 4096
Plain = Any  # None, bool, int, str, and lists of these


class Coder(NamedTuple):
    encode: Callable[[Any], Plain]
    decode: Callable[[Plain], Any]


class Malformed(ValueError):
    """What was stored is not what the type says, and where."""

    def __init__(self, why: str, path: str = "") -> None:
        super().__init__(f"at `{path or '.'}`: {why}")
        self.why = why
        self.path = path

    def under(self, step: str) -> Malformed:
        return Malformed(self.why, step + self.path)


def encode(hint: Any, value: Any) -> Plain:
    return coder(hint).encode(value)


def decode(hint: Any, plain: Plain) -> Any:
    return coder(hint).decode(plain)


@lru_cache(maxsize=1024)
def coder(hint: Any) -> Coder:
    """The pair of functions for one type; made once."""
    origin = get_origin(hint)
    if isinstance(hint, NewType):
        return coder(hint.__supertype__)
    if hint in (int, float, str, bool):
        return _scalar(hint)
    if origin is tuple:
        return _tuple(get_args(hint))
    if origin in (Union, types.UnionType):
        return _union(get_args(hint))
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _enum(hint)
    if dataclasses.is_dataclass(origin or hint):
        return _record(hint)
    raise TypeError(f"the journal cannot keep values of the type {hint!r}")


def _same(value: Any) -> Any:
    return value


# The readers of plain values, and the types that are all they check; None by its own type.
_EXACT: dict[Callable[[Plain], Any], tuple[type, ...]] = {}
# The readers of names, and what each name stands for.
_NAMES: dict[Callable[[Plain], Any], Mapping[str, Enum]] = {}


def _scalar(*kinds: type) -> Coder:
    def read(plain: Plain) -> Any:
        if type(plain) not in kinds:
            raise Malformed(f"expected {' or '.join(k.__name__ for k in kinds)}, found {_shown(plain)}")
        return plain

    _EXACT[read] = kinds
    return Coder(_same, read)


def _enum(kind: type[Enum]) -> Coder:
    # By name: the sentence of a reason may be reworded without losing what was written before.
    members = dict(kind.__members__)

    def read(plain: Plain) -> Any:
        if not isinstance(plain, str) or plain not in members:
            raise Malformed(f"expected a {kind.__name__}, found {_shown(plain)}")
        return members[plain]

    _NAMES[read] = members
    # What `name` is worked out from: that one is asked for by way of three functions.
    return Coder(attrgetter("_name_"), read)


def _tuple(args: tuple[Any, ...]) -> Coder:
    if len(args) == 2 and args[1] is Ellipsis:
        return _sequence(coder(args[0]))
    parts = [coder(arg) for arg in args]
    readers = [part.decode for part in parts]

    def slow(plain: Plain) -> Any:
        if len(_listed(plain)) != len(parts):
            raise Malformed(f"expected {len(parts)} parts, found {len(plain)}")
        return tuple(_each(plain, readers))

    written = [_written(at, part.encode, f"v{at}") for at, part in enumerate(parts)]
    opened = f"({''.join(f'v{at}, ' for at in range(len(parts)))}) = value"
    return _spelled_out(parts, f"{opened}; return [{', '.join(written)}]", slow=slow)


def _sequence(item: Coder) -> Coder:
    write, take = item

    def read(plain: Plain) -> Any:
        if not isinstance(plain, list) or not plain:
            return tuple(_listed(plain))
        try:
            return tuple([take(part) for part in plain])
        except Malformed:
            return tuple(_each(plain, [take] * len(plain)))  # Once more, to say which of them it is.

    return Coder(list if write is _same else lambda value: [write(part) for part in value], read)


def _union(args: tuple[Any, ...]) -> Coder:
    """None stands for itself, plain scalars too; dataclasses carry the name of their class in front."""
    rest = tuple(arg for arg in args if arg is not type(None))
    optional = len(rest) < len(args)
    if len(rest) == 1:
        inner = coder(rest[0])
    elif all(arg in (int, str, bool) for arg in rest):
        inner = _scalar(*rest)
    else:
        inner = _tagged(rest)
    if not optional:
        return inner
    write, take = inner

    def read(plain: Plain) -> Any:
        return None if plain is None else take(plain)

    if take in _EXACT:
        _EXACT[read] = (*_EXACT[take], type(None))
    return Coder(_same if write is _same else lambda value: None if value is None else write(value), read)


def _tagged(members: tuple[Any, ...]) -> Coder:
    coders = {(get_origin(member) or member).__name__: coder(member) for member in members}
    if len(coders) != len(members):
        raise TypeError(f"the journal cannot tell the members of {members!r} apart")

    def write(value: Any) -> Plain:
        name = type(value).__name__
        return [name, *coders[name].encode(value)]

    def read(plain: Plain) -> Any:
        name = _listed(plain)[0] if _listed(plain) else None
        if not isinstance(name, str) or name not in coders:
            raise Malformed(f"expected one of {', '.join(coders)}, found {_shown(name)}")
        return coders[name].decode(plain[1:])

    return Coder(write, read)


def field_hints(hint: Any) -> dict[str, Any]:
    """The fields of a dataclass in order, with the types they have there."""
    kind = get_origin(hint) or hint
    hints = typing.get_type_hints(kind)
    given = dict(zip(getattr(kind, "__parameters__", ()), get_args(hint), strict=False))
    return {f.name: _filled(hints[f.name], given) for f in dataclasses.fields(kind)}


def _record(hint: Any) -> Coder:
    kind = get_origin(hint) or hint
    hints = field_hints(hint)
    names = list(hints)
    required = sum(
        f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
        for f in dataclasses.fields(kind)
    )
    parts = [coder(hints[name]) for name in names]
    readers = [part.decode for part in parts]
    written = [_written(at, part.encode, f"value.{names[at]}") for at, part in enumerate(parts)]
    make: Callable[..., Any] = kind
    if all(_EXACT.get(read) == (int,) for read in readers):
        # Amounts: few are different, and equal ones that are the same are compared at once.
        make = lru_cache(maxsize=AMOUNTS_KEPT_MAX)(kind)

    def slow(plain: Plain) -> Any:
        """Fields that were appended later may be missing; and an error says in which field it is."""
        if not required <= len(_listed(plain)) <= len(names):
            raise Malformed(f"expected {len(names)} fields of {kind.__name__}, found {len(plain)}")
        fields = _each(plain, readers, names)
        try:
            return kind(*fields)
        except ValueError as error:
            raise Malformed(str(error)) from error

    return _spelled_out(parts, f"return [{', '.join(written)}]", slow=slow, make=make)


def _spelled_out(
    parts: list[Coder],
    writes: str,
    *,
    slow: Callable[[Plain], Any],
    make: Callable[..., Any] | None = None,
) -> Coder:
    """The writer and the reader of something with so many parts as one expression each.

    Thousands of records are written and read in a cycle, most of whose fields are plain: a call for each
    field costs several times what the field does. The reader takes only a list of all fields; what it does
    not take is left to the slow one, which can say where the fault is. Without `make` a tuple is read.
    """
    known: dict[str, Any] = {"make": make, "slow": slow}
    taken, checks = [], ["type(plain) is list"]
    for at, part in enumerate(parts):
        known |= {f"write{at}": part.encode, f"read{at}": part.decode, f"names{at}": _NAMES.get(part.decode)}
        exact = _EXACT.get(part.decode)
        named = f"names{at}[f{at}]" if part.decode in _NAMES else f"read{at}(f{at})"
        taken.append(f"f{at}" if exact else named)
        if exact:
            known |= {kind.__name__: kind for kind in exact}
            checks.append(f"({' or '.join(f'type(f{at}) is {kind.__name__}' for kind in exact)})")
    fields = "".join(f"f{at}, " for at in range(len(parts)))
    made = "".join(f"{each}, " for each in taken)
    source = (
        f"def write(value): {writes}\n"
        f"def read(plain):\n"
        f"    try:\n"
        f"        {fields or '()'} = plain\n"
        f"        if {' and '.join(checks)}: return {'make' if make else ''}({made})\n"
        f"    except (TypeError, ValueError, KeyError): pass\n"
        f"    return slow(plain)\n"
    )
    exec(source, known)
    return Coder(known["write"], known["read"])


def _written(at: int, write: Callable[[Any], Plain], value: str) -> str:
    return value if write is _same else f"write{at}({value})"


def _filled(hint: Any, given: dict[Any, Any]) -> Any:
    """The hint with its type variables replaced by what the generic class was given."""
    if isinstance(hint, typing.TypeVar):
        return given[hint]
    open_ones = getattr(hint, "__parameters__", ())
    return hint[tuple(given[one] for one in open_ones)] if open_ones else hint


def _each(
    plain: list[Plain], readers: list[Callable[[Plain], Any]], names: list[str] | None = None
) -> list[Any]:
    done: list[Any] = []
    try:
        for read, part in zip(readers, plain, strict=False):
            done.append(read(part))
    except Malformed as error:
        at = len(done)
        raise error.under(f".{names[at]}" if names else f"[{at}]") from error
    return done


def _listed(plain: Plain) -> list[Plain]:
    if not isinstance(plain, list):
        raise Malformed(f"expected a list, found {_shown(plain)}")
    return plain


def _shown(plain: Plain) -> str:
    return ascii(plain)[:60]
