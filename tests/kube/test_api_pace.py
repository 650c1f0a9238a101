"""How fast a cluster is asked for changes: by our own limit, and by what it says itself."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from glidepath.kube.api import Api, LaterError, Limiter, NotSentError
from glidepath.kube.errors import KubeError
from kube.stand_in import Answer, StandIn, plain_access, serving

P = "/api/v1/namespaces/here/pods"


@pytest.fixture
def server() -> Iterator[StandIn]:
    with serving() as found:
        yield found


class Hands:
    """A clock that moves when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.mark.parametrize(("per_s", "burst"), [(20.0, 20), (5.0, 5), (0.5, 1)])
def test_changes_keep_to_their_rate_after_a_burst(per_s: float, burst: int) -> None:
    hands = Hands()
    limiter = Limiter(per_s, mono=lambda: hands.now, sleep=hands.sleep)
    times = []
    for _ in range(200):
        limiter.wait(limit_s=10)
        times.append(hands.now)
    assert times[burst - 1] == 0.0
    assert times[burst] > 0.0
    assert times[-1] == pytest.approx((200 - burst) / per_s)
    hands.now += 1000.0
    for number in range(burst + 1):
        limiter.wait(limit_s=10)
        assert (hands.now == times[-1] + 1000.0) == (number < burst), "a long rest saves no more than a burst"


def test_what_would_come_too_late_is_refused_at_once_and_takes_no_turn() -> None:
    hands = Hands()
    limiter = Limiter(2.0, mono=lambda: hands.now, sleep=lambda _: None)
    for _ in range(6):
        limiter.wait(limit_s=2)
    for _ in range(100):
        with pytest.raises(NotSentError, match="more than 2 changes a second"):
            limiter.wait(limit_s=2)
    hands.now = 0.5
    limiter.wait(limit_s=2)
    Limiter(0).wait(limit_s=0)


def test_a_server_that_wants_to_be_left_alone_is_for_so_long(server: StandIn) -> None:
    busy = b'{"kind": "Status", "reason": "TooManyRequests", "message": "slow down"}'
    server.say(P, Answer(429, busy, headers={"Retry-After": "60"}), Answer())
    api = Api(plain_access(server), changes_per_s=0)
    with pytest.raises(KubeError, match="slow down"):
        api.change("POST", P, b"{}")
    with pytest.raises(LaterError, match="left alone for 60 s more"):
        api.change("POST", P, b"{}")
    assert api.get(P) == b"{}"  # Who only looks does not add to its work.
    assert [each.method for each in server.asked] == ["POST", "GET"]
    hands = Hands()
    limiter = Limiter(0, mono=lambda: hands.now, sleep=hands.sleep)
    limiter.rest(3)
    limiter.wait(limit_s=5)
    assert hands.now == 3
