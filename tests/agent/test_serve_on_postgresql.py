"""The demand server over a real PostgreSQL: what it promises over SQLite, and no change lost between two."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import Connection
from tests.postgres import shared_server

from agent.agent_builders import TERMS, WAIT_S_MAX, WEST, Served, plain_report, served, spec
from agent.test_call_api import (
    test_a_call_brings_what_was_asked_for_with_the_pilots_own_secret_once_it_is_the_sites_turn,
    test_a_report_that_was_sent_before_changes_nothing,
    test_a_revoked_token_is_cut_off_at_once_and_others_are_not,
    test_a_token_is_good_for_its_site_alone_and_tells_nothing_of_others_owners_or_the_pool,
)
from agent.test_pyglidein_words import (
    test_a_report_that_is_sent_again_changes_nothing_whatever_the_clock_of_the_client,
    test_the_page_shows_what_strangers_say_as_text_alone,
)
from glidepath.called.post import Late, Post, digest_of
from glidepath.called.tray import Step, asked, withdrawn
from glidepath.called.words import Orders, Report
from glidepath.core.cycle import Done, Outcome
from glidepath.core.quantity import PilotName
from glidepath.store.engine import Store, open_store

__all__ = [
    "test_a_call_brings_what_was_asked_for_with_the_pilots_own_secret_once_it_is_the_sites_turn",
    "test_a_report_that_is_sent_again_changes_nothing_whatever_the_clock_of_the_client",
    "test_a_report_that_was_sent_before_changes_nothing",
    "test_a_revoked_token_is_cut_off_at_once_and_others_are_not",
    "test_a_token_is_good_for_its_site_alone_and_tells_nothing_of_others_owners_or_the_pool",
    "test_the_page_shows_what_strangers_say_as_text_alone",
]
pytestmark = pytest.mark.real


@pytest.fixture
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Served]:
    with (
        shared_server(request.config).database() as url,
        served(tmp_path / "home", "west", "east", url_of_store=url, calls_per_minute=10_000) as made,
    ):
        yield made


class Slow:
    """A store whose transactions have done their work and are not over before they are let."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.at_the_end, self.let = threading.Event(), threading.Event()

    @contextmanager
    def write(self) -> Iterator[Connection]:
        with self.store.write() as connection:
            yield connection
            self.at_the_end.set()
            assert self.let.wait(WAIT_S_MAX)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        with self.store.read() as connection:
            yield connection


def test_what_is_taken_back_is_not_handed_out_in_the_same_moment(world: Served) -> None:
    post, now = Post(world.store), world.desk.clock().now()
    first = post.call(WEST, Report.model_validate(plain_report()), now=now, wall=1.0, terms=TERMS)
    assert isinstance(first, Late)
    for name in ("p1", "p2"):
        one = spec(name, asked_at=now)
        post.change(WEST, partial(asked, spec=one, digest=digest_of(one)), name=name)
    outcomes: list[Outcome] = []
    answers: list[Orders | Late] = []
    with open_store(world.url_of_store) as other:
        slow = Slow(other)
        change = partial(withdrawn, name=PilotName("p1"), native_id="")
        said = Report.model_validate(plain_report(ticket=first.ticket))
        acts = [
            threading.Thread(target=lambda: outcomes.append(Post(slow).change(WEST, change))),
            threading.Thread(
                target=lambda: answers.append(post.call(WEST, said, now=now, wall=1.0, terms=TERMS))
            ),
        ]
        acts[0].start()
        assert slow.at_the_end.wait(WAIT_S_MAX)
        acts[1].start()
        acts[1].join(0.5)  # It cannot be over before the other is; where it could, it would be by now.
        slow.let.set()
        for act in acts:
            act.join(WAIT_S_MAX)
    [outcome], [orders] = outcomes, answers
    assert isinstance(outcome, Done)
    assert isinstance(orders, Orders)
    assert [start.name for start in orders.starts] == ["p2"]
    steps = {request.name: request.step for request in post.tray(WEST).requests}
    assert steps == {"p1": Step.BACK, "p2": Step.GIVEN}
