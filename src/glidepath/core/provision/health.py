"""How offers, sites and nodes fare: back-off, breakers with single-pilot probes, quarantine of a bad node.

Events come in, a new health goes out. One pilot that joins closes the breaker; failures in a row open it,
and each opening in a row doubles the wait.
"""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum

from glidepath.core.provision.memory import Health, NodeHealth
from glidepath.core.provision.offer import SiteRules
from glidepath.core.quantity import Instant

# A site has several offers: it takes more than one failing offer to call the whole site broken.
SITE_FAILURES_FACTOR = 2
# Doubling beyond this would only wait for the bound anyway, and shifts must stay small.
OPENINGS_MAX = 16
WHY_LENGTH_MAX = 300


class Gate(StrEnum):
    CLOSED = "closed"  # as in a circuit: pilots flow
    OPEN = "open"
    PROBE = "probe"  # the wait is over; one pilot may try


def gate(health: Health, now: Instant) -> Gate:
    if health.retry_at is None:
        return Gate.CLOSED
    return Gate.OPEN if now < health.retry_at else Gate.PROBE


def after_join(health: Health, latency_s: int) -> Health:
    """A pilot joined: the breaker closes, and the start latency is smoothed over about four pilots."""
    latency_s = max(1, latency_s)
    smoothed = (3 * health.latency_s + latency_s) // 4 if health.latency_s else latency_s
    return Health(health.about, latency_s=smoothed, joined=health.joined + 1, failed=health.failed)


def after_failure(health: Health, why: str, now: Instant, rules: SiteRules, *, whole_site: bool) -> Health:
    """A pilot failed before it joined."""
    failures = health.failures + 1
    counted = replace(health, failures=failures, failed=health.failed + 1, why=why[:WHY_LENGTH_MAX])
    threshold = rules.failures_max * (SITE_FAILURES_FACTOR if whole_site else 1)
    state = gate(health, now)
    if state is Gate.OPEN or (state is Gate.CLOSED and failures < threshold):
        return counted
    wait_s = min(rules.backoff_s_max, rules.backoff_s << min(health.openings, OPENINGS_MAX))
    return _opened(counted, now, wait_s)


def after_refusal(health: Health, why: str, now: Instant, rules: SiteRules) -> Health:
    """The site said no: the same question gets the same answer until something changes there."""
    counted = replace(
        health, failures=health.failures + 1, failed=health.failed + 1, why=why[:WHY_LENGTH_MAX]
    )
    if health.retry_at is not None and now < health.retry_at:
        return counted
    return _opened(counted, now, rules.refused_s)


def _opened(health: Health, now: Instant, wait_s: int) -> Health:
    return replace(
        health,
        opened_at=now,
        retry_at=Instant(now + wait_s),
        openings=min(health.openings + 1, OPENINGS_MAX),
    )


def shrunk(per_cycle: int, health: Health) -> int:
    """What may be asked for in one cycle: halved for each failure in a row, never below one pilot."""
    return max(1, per_cycle >> min(health.failures, 62))


def node_after_failure(
    node: NodeHealth, why: str, now: Instant, rules: SiteRules, *, site_failures: int, eats: bool = False
) -> NodeHealth:
    """A pilot failed on a named node. The node is to blame only for more than half of what fails at the site:
    where everything fails everywhere, the fault lies elsewhere."""
    failures = node.failures + 1
    guilty = failures >= rules.node_failures_max and failures * 2 > site_failures
    until = Instant(now + rules.quarantine_s) if guilty else node.until
    why = why[:WHY_LENGTH_MAX]
    return NodeHealth(node.site, node.node, failures, until, why, now, eats=eats or node.eats)
