"""The rights to run and what was used, as the store has them: values for a plan go out.

They are read a few times a minute at most, whatever the pace of plans. It refuses to decide.
"""

from __future__ import annotations

from collections import defaultdict

from sqlalchemy import func, select

from glidepath.core.account.right import Rights
from glidepath.core.account.run import CPU_HOUR, HOUR_S
from glidepath.core.place.accounts import Accounts, Terms
from glidepath.core.quantity import Instant, Owner
from glidepath.core.schedule.cluster import ProjectName
from glidepath.core.schedule.job import Share, Used
from glidepath.store.engine import Store
from glidepath.store.people_rows import projects
from glidepath.store.usage_rows import usage_days
from glidepath.store.wallets import purses_of, tree_of

# What was used longer ago counts less than a hundredth.
HALF_LIVES_MAX = 7
DAY_S = 86400


def read_accounts(
    store: Store, now: Instant, terms: Terms, *, used: tuple[Used, ...] | None = None
) -> Accounts:
    """All that a plan goes by; `used` where it was read a little while ago."""
    rights = read_rights(store, now, terms)
    if not terms.fair:
        return Accounts(rights)
    if used is None:
        used = read_used(store, now, half_life_s=terms.half_life_s)
    return Accounts(rights, used, read_shares(store))


def read_rights(store: Store, now: Instant, terms: Terms) -> Rights:
    """Who may run by what is granted and spent. A project to which nothing was granted has no bound."""
    with store.read() as conn:
        told = select(projects.c.name, projects.c.dry_at, projects.c.gone_wall_s)
        rows = conn.execute(told.where(projects.c.dry_at.is_not(None) | projects.c.gone_wall_s.is_not(None)))
        since: dict[str, Instant] = {}
        closed: set[str] = set()
        for row in rows:
            if row.dry_at is not None:
                since[row.name] = Instant(row.dry_at)
            if row.gone_wall_s is not None:
                closed.add(row.name)
        return Rights(
            tree=tree_of(conn),
            purses=purses_of(conn, now),
            dry_since=since,
            closed=frozenset(closed),
            dry_grace_s=terms.grace_s,
            dry_stops=terms.stops,
        )


def read_shares(store: Store) -> tuple[Share, ...]:
    """The parts of projects by their weights, each below its parent."""
    query = select(projects.c.name, projects.c.weight, projects.c.parent).order_by(projects.c.name)
    with store.read() as conn:
        rows = conn.execute(query.where(projects.c.gone_wall_s.is_(None)))
        return tuple(Share(ProjectName(row.name), row.weight, ProjectName(row.parent)) for row in rows)


def read_used(store: Store, now: Instant, *, half_life_s: int) -> tuple[Used, ...]:
    """What each user of each project has used, as it counts now: in CPU seconds by price, less refunds."""
    days = usage_days.c
    today = now // DAY_S
    query = (
        select(days.owner, days.project, days.day, func.sum(days.charge - days.refund))
        .where(days.day >= today - HALF_LIVES_MAX * half_life_s // DAY_S - 1)
        .group_by(days.owner, days.project, days.day)
    )
    found: defaultdict[tuple[str, str], float] = defaultdict(float)
    with store.read() as conn:
        for owner, project, day, charge in conn.execute(query):
            # Of a day all counts as if it were used in the middle of it.
            age_s = max(now - (day * DAY_S + DAY_S // 2), 0)
            found[project, owner] += int(charge) * 0.5 ** (age_s / half_life_s)
    return tuple(
        Used(ProjectName(project), Owner(owner), max(amount, 0.0) * HOUR_S / CPU_HOUR, now)
        for (project, owner), amount in sorted(found.items())
    )
