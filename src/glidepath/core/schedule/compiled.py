"""Loops over columns, turned into machine code where numba is installed and run as they stand where not.

Both give the same answers: the loops use whole numbers, and of fractions only what every machine rounds
alike (sums, products, quotients, square roots). A test runs them both ways.
"""

from __future__ import annotations

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


def _made(function: F, *, counts: bool, inline: bool) -> F:
    try:
        import numba
    except ImportError:
        return function
    # `_nrt` is said in both cases, because numba hands the choice of a caller on to whom it calls.
    options: dict[str, Any] = {"cache": True, "nogil": True, "forceinline": inline, "_nrt": counts}
    made: Any = numba.njit(**options)(function)
    return cast(F, made)
