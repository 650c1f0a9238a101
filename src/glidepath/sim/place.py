"""What a made-up world consists of, as values: sites that behave, pools that match, and the time they take.

The rules of the controller say what it may do; these say what the world does. Seconds and whole numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

from glidepath.core.quantity import PoolName, SiteName


@dataclass(frozen=True, slots=True)
class Behaviour:
    """How a site behaves. Rates are in thousandths."""

    site: SiteName
    start_s: tuple[int, int] = (30, 300)  # in the site's queue, from and to, uniformly
    boot_s: tuple[int, int] = (0, 0)  # from started to joined
    failing: int = 0  # of a thousand starts
    quota: int | None = None  # pilots that run at once; others wait in the site's queue
    nodes: int = 10
    lag_s: int = 0  # how far its listing trails the truth


@dataclass(frozen=True, slots=True)
class Matching:
    """How a pool brings jobs to slots: at random, and only so often, as a negotiator does."""

    pool: PoolName
    every_s: int = 60
    sources: int = 1  # schedds; jobs are spread over them by owner
    reuse: bool = False  # a slot takes the next job of the same owner and shape without a negotiation
