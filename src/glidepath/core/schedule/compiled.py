"""Loops over columns, turned into machine code where numba is installed and run as they stand where not.

Both give the same answers: the loops use whole numbers, and of fractions only what every machine rounds
alike (sums, products, quotients, square roots). A test runs them both ways.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

F = TypeVar("F", bound=Callable[..., Any])

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

# Later than anything that is meant in earnest, and far from where a sum of two would overflow.
NEVER = 1 << 60
NONE = -1

Options = dict[str, Any]
# Functions that were left as they are written, with how they are to be compiled; nothing: none is left.
_left: list[tuple[Callable[..., Any], Options]] | None = None
# What has been made so far, to be asked what it was compiled for.
made: list[Any] = []


def compiled(function: F) -> F:
    """The same function, as machine code if that can be had."""
    return _made(function, counts=True, inline=True)


def lean(function: F) -> F:
    """The same for what neither asks for memory nor returns a column: nobody counts who holds which.

    That counting takes three quarters of the time of a pass otherwise, as each step hands all columns on.
    """
    return _made(function, counts=False, inline=True)


def apart(function: F) -> F:
    """A lean one that is large or seldom called: it stays where it is, or the compiler takes minutes."""
    return _made(function, counts=False, inline=False)


def leave_plain() -> None:
    """Functions that are met from now on stay as they are written, until `take_up`: numba is not loaded."""
    global _left
    _left = _left if _left is not None else []


def take_up() -> int:
    """Put machine code in the place of every function that was left plain; how many there were.

    Plans that are being made go on with what they have: both give the same answers.
    """
    global _left
    left, _left = _left or [], None
    codes = {id(function): _code(function, options) for function, options in left}
    kept = [function for function, _ in left]  # An id is of a thing only for as long as that is there.
    for module in list(sys.modules.values()):
        for name, value in list(vars(module).items()) if hasattr(module, "__dict__") else ():
            if id(value) in codes:
                setattr(module, name, codes[id(value)])
    return len(kept)


def _made(function: F, *, counts: bool, inline: bool) -> F:
    # `_nrt` is said in both cases, because numba hands the choice of a caller on to whom it calls.
    options = {"cache": True, "nogil": True, "forceinline": inline, "_nrt": counts}
    if _left is not None:
        _left.append((function, options))
        return function
    return cast(F, _code(function, options))


def _code(function: Callable[..., Any], options: Options) -> Any:
    try:
        import numba
    except ImportError:
        return function
    try:
        code = numba.njit(**options)(function)
    except RuntimeError:
        # There is no folder in which machine code can be kept: it is made anew in each life.
        code = numba.njit(**{**options, "cache": False})(function)
    made.append(code)
    return code
