"""Nothing is written under a lease that was lost, also where it was lost after the last look at it."""

from __future__ import annotations

import pytest
from sqlalchemy import func, select, text

from glidepath.clock import Moment
from glidepath.core.cycle import Did, Done, Plan
from glidepath.core.provision.memory import Memory
from glidepath.core.provision.offer import Rules
from glidepath.core.provision.sight import Snapshot
from glidepath.core.quantity import Instant
from glidepath.journal.journal import Journal
from glidepath.store.engine import IDLE_S_MAX, Store, StoreUnwritable, open_store
from glidepath.store.lease import NOT_OURS, Held, Taken, take
from glidepath.store.schema import cycles, leases

MOMENT = Moment(1000.0, Instant(5), "boot", 5.0)
RULES = Rules(pools=(), sites=())


def held(found: Held | Taken) -> Held:
    assert isinstance(found, Held)
    return found


def planned(journal: Journal, cycle: int) -> None:
    plan = Plan(cycle, Instant(5), (), 10)
    snapshot = Snapshot(Instant(5), (), (), ())
    journal.planned(MOMENT, snapshot, Memory("abc", born_at=Instant(0)), rules=RULES, plan=plan)


def kept(store: Store) -> int:
    with store.read() as connection:
        return int(connection.execute(select(func.count()).select_from(cycles)).scalar_one())


def test_a_plan_and_outcomes_are_refused_to_whoever_lost_the_lease(store: Store) -> None:
    lease = held(take(store, "first", ttl_s=600))
    journal = Journal(store, hold=lease.hold)
    planned(journal, 1)
    with store.write() as connection:  # Another took it, and the first does not know yet.
        connection.execute(leases.update().values(epoch=leases.c.epoch + 1))
    assert lease.check()
    with pytest.raises(StoreUnwritable, match=NOT_OURS):
        planned(journal, 2)
    assert lease.lost
    with pytest.raises(StoreUnwritable, match=NOT_OURS):
        journal.acted(1, (Did("submit", "gp-1", Done()),))
    assert kept(store) == 1
    lease.release()


@pytest.mark.real
@pytest.mark.parametrize("store_url", ["postgresql"], indirect=True)
def test_nobody_takes_the_lease_while_something_is_written_under_it(store: Store, store_url: str) -> None:
    lease = held(take(store, "first", ttl_s=600))
    with store.write() as connection:  # As if the server had waited for ten minutes.
        connection.execute(leases.update().values(renewed_at=leases.c.renewed_at - 601))
    impatient = f"{store_url}&options=-c%20lock_timeout%3D200ms"
    with open_store(impatient) as other:
        with store.write() as connection:
            lease.hold(connection)
            with pytest.raises(StoreUnwritable, match="lock timeout"):
                take(other, "second", ttl_s=600)
        second = held(take(other, "second", ttl_s=600))
        with pytest.raises(StoreUnwritable, match=NOT_OURS), store.write() as connection:
            lease.hold(connection)
        second.release()


@pytest.mark.real
@pytest.mark.parametrize("store_url", ["postgresql"], indirect=True)
def test_the_server_ends_a_transaction_whose_client_was_stopped(store: Store) -> None:
    with store.write() as connection:
        shown = connection.execute(text("SHOW idle_in_transaction_session_timeout")).scalar_one()
    assert shown == f"{IDLE_S_MAX}s"
