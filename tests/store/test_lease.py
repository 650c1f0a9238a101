"""One owner at a time: the second is told who, the dead lose it at once, the paused by time."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from glidepath.store.engine import Store, open_store
from glidepath.store.lease import Held, Taken, take
from glidepath.store.schema import leases

HOLDS = (
    "import sys; from glidepath.store.engine import open_store; from glidepath.store.lease import take\n"
    "store = open_store(sys.argv[1])\n"
    "print(type(take(store, 'glidepath 4711 on west', ttl_s=600)).__name__)\n"
    "sys.stdout.flush(); sys.stdin.read()\n"
)
WAIT_S_MAX = 60


@dataclass
class Hands:
    """A clock that the test moves."""

    now_s: float = 1000.0

    def __call__(self) -> float:
        return self.now_s


def until(happens: Callable[[], bool]) -> None:
    for _ in range(WAIT_S_MAX * 20):
        if happens():
            return
        time.sleep(0.05)
    raise AssertionError(f"it did not happen within {WAIT_S_MAX} s")


def held(found: Held | Taken) -> Held:
    assert isinstance(found, Held)
    return found


def test_the_second_taker_is_told_the_holder(store: Store, store_url: str) -> None:
    first = held(take(store, "alice's\nglidepath", ttl_s=60))
    with open_store(store_url) as other:
        second = take(other, "bob's", ttl_s=60)
        assert isinstance(second, Taken)
        assert second.holder == "alice's glidepath"
        assert 0 <= second.since_s < WAIT_S_MAX
        first.release()
        third = held(take(other, "bob's", ttl_s=60))
        assert third.epoch == first.epoch + 1
        assert third.check()
        assert not first.check()
        third.release()


@pytest.mark.parametrize(
    ("written", "told"), [(b"", "another process"), (b"a\n\x1b[2Jb\xff" * 999, "a \\x1b[2Jb\ufffda")]
)
@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_whatever_is_in_the_lock_file_is_safe_to_print(
    store: Store, store_url: str, written: bytes, told: str
) -> None:
    first = held(take(store, "alice", ttl_s=60))
    assert store.path is not None
    Path(f"{store.path}.lock").write_bytes(written)
    with open_store(store_url) as other:
        second = take(other, "bob", ttl_s=60)
        assert isinstance(second, Taken)
        assert second.holder.startswith(told)
        assert second.holder.isprintable()
    first.release()


def test_a_check_costs_nothing_while_the_renewal_is_young(store: Store) -> None:
    hands = Hands()
    lease = held(take(store, "a", ttl_s=30, steady=hands))
    hands.now_s += 19
    assert lease.check()
    assert lease.renewed_s == 1000.0
    hands.now_s += 2
    assert lease.check()
    assert lease.renewed_s == 1021.0
    lease.release()


def test_a_check_is_false_when_the_store_gives_no_answer(store: Store) -> None:
    hands = Hands()
    lease = held(take(store, "a", ttl_s=30, steady=hands))
    store.read_only = True
    assert lease.check()
    hands.now_s += 25
    assert not lease.check()
    store.read_only = False
    assert lease.check()
    lease.release()


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_a_killed_holder_frees_a_sqlite_store_at_once(store: Store, store_url: str) -> None:
    command = [sys.executable, "-c", HOLDS, store_url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "Held\n"
            refused = take(store, "me", ttl_s=600)
            assert isinstance(refused, Taken)
            assert refused.holder == "glidepath 4711 on west"
        finally:
            process.send_signal(signal.SIGKILL)
    lease = held(take(store, "me", ttl_s=600))
    assert lease.check()
    lease.release()


@pytest.mark.real
@pytest.mark.parametrize("store_url", ["postgresql"], indirect=True)
def test_a_paused_leader_loses_a_postgresql_store_by_the_servers_clock(store: Store, store_url: str) -> None:
    hands = Hands()
    first = held(take(store, "first", ttl_s=600, steady=hands))
    with store.write() as connection:  # As if the server had waited for ten minutes.
        connection.execute(leases.update().values(renewed_at=leases.c.renewed_at - 601))
    with open_store(store_url) as other:
        second = held(take(other, "second", ttl_s=600))
        assert first.check()  # Its own clock stood still, so it cannot know yet; the epoch decides.
        hands.now_s += 601
        assert not first.check()
        assert not first.renew()
        first.release()
        assert second.renew()
        assert isinstance(take(store, "first", ttl_s=600), Taken)
        second.release()


@pytest.mark.real
@pytest.mark.parametrize("store_url", ["postgresql"], indirect=True)
def test_a_dead_leader_on_postgresql_is_followed_when_its_time_is_over(store: Store, store_url: str) -> None:
    held(take(store, "dead", ttl_s=0.4))
    with open_store(store_url) as other:
        assert isinstance(take(other, "next", ttl_s=60), Taken)
        until(lambda: isinstance(take(other, "next", ttl_s=60), Held))
