"""Sites that can only call out, whole: a real server, real agents, real pilots and jobs."""

from __future__ import annotations

import signal
import time

import pytest

from calls.calling import AgentRun, Land, both_call, ended, gone, over, tray
from whole.running import until

# As the sites are configured, and a second for what is rounded.
LAPSE_S = 6

pytestmark = pytest.mark.real


def oldest_s(land: Land, name: str) -> float:
    """How long ago the newest of its requests was made, by the clock of this machine."""
    return min((time.time() - each.spec.asked_at for each in tray(land, name).requests), default=1e9)


def test_jobs_of_one_pool_run_at_sites_that_call_and_none_is_served_twice(land: Land) -> None:
    run = land.up()
    try:
        both_call(land)
        land.submit("sleep", "3", count=4)
        over(land)
        # Four jobs of one core and pilots of one core: four, at whichever site, and not four at each.
        assert tray(land, "east").given + tray(land, "west").given <= 4
        told = [land.run(*words) for words in (("site", "status"), ("explain", "east"), ("explain", "west"))]
        assert all("pilots were handed to glidepath agent" in text for text in told), told
        gone(land, "east", "west")
        ended(run)
    finally:
        run.close()


def test_the_share_of_an_agent_that_dies_moves_and_nothing_doubles_when_it_returns(land: Land) -> None:
    run = land.up()
    try:
        both_call(land)
        land.agents["west"].kill()
        before = tray(land, "west").given
        land.submit("sleep", "1", count=4)
        over(land)
        assert tray(land, "west").given == before, "it was given nothing while it was away"
        calls = tray(land, "west").calls
        until(lambda: oldest_s(land, "west") > LAPSE_S, "what it did not fetch has lapsed")
        land.agent("west")
        until(lambda: tray(land, "west").calls > calls + 2, "it calls again")
        assert tray(land, "west").given == before, "what it did not fetch was not kept for it"
        # A pilot that had nothing to do yet would take the jobs, and nobody would be asked.
        gone(land, "east")
        land.agents["east"].kill()
        land.submit("true", count=2)
        over(land)
        assert tray(land, "west").given > before, "it has its share again"
        land.agent("east")
        gone(land, "east", "west")
        ended(run)
    finally:
        run.close()


def test_a_revoked_token_cuts_off_one_site_at_once(land: Land) -> None:
    run = land.up()
    try:
        west = land.token("west")
        land.token("east")
        for name in ("east", "west"):
            land.agent(name)
        land.submit("true", count=2)
        over(land)
        land.run("token", "revoke", west.split(".")[2])
        land.agents["west"].wait_for("the server refuses the token (HTTP 401)")
        land.submit("true", count=2)
        over(land)
        assert not any("refuses the token" in line for line in land.agents["east"].lines)
        gone(land, "east")
        until(lambda: not any_running(land, "west"), "pilots of the other site leave by themselves")
        ended(run)
    finally:
        run.close()


def test_a_server_that_is_started_again_gives_nothing_twice(land: Land) -> None:
    run = land.up()
    try:
        both_call(land)
        land.submit("sleep", "4", count=2)
        until(lambda: tray(land, "east").given + tray(land, "west").given == 2, "both pilots are given")
        run.signal(signal.SIGKILL)
        run.wait_end()
        again = land.up()
        over(land)
        assert tray(land, "east").given + tray(land, "west").given == 2
        gone(land, "east", "west")
        ended(again)
        again.close()
    finally:
        run.close()


def test_a_store_that_is_lost_starts_nothing_twice_and_its_pilots_are_found_again(land: Land) -> None:
    run = land.up()
    try:
        both_call(land)
        land.submit("sleep", "60", count=2)
        until(lambda: len(land.started("east") | land.started("west")) == 2, "both pilots are there")
        before = land.started("east") | land.started("west")
        run.signal(signal.SIGKILL)
        run.wait_end()
        for path in land.home.glob("glidepath.db*"):
            path.unlink()
        again = land.up()
        # The tokens are gone with the store: agents are refused, start nothing and let run what runs.
        land.agents["east"].wait_for("the server refuses the token (HTTP 401)")
        assert land.started("east") | land.started("west") == before
        for name in ("east", "west"):
            land.token(name)
        until(lambda: all(tray(land, name).calls > 1 for name in ("east", "west")), "both call again")
        listed = {p for name in ("east", "west") for p in tray(land, name).listed()}
        assert listed <= before, "what was asked for before the loss is known, and nothing else is there"
        gone(land, "east", "west")
        ended(again)
        again.close()
    finally:
        run.close()


def any_running(land: Land, name: str) -> bool:
    """Whether a pilot of the site has not written its last words."""
    pilots = land.home / "agents" / name / "pilots"
    return any(not (pilots / pilot / "summary.json").exists() for pilot in land.started(name))


def test_an_agent_from_cron_does_one_round_and_ends(land: Land) -> None:
    """Rounds are seconds apart, and on a busy machine more: what was said in one counts until the next."""
    land = Land(land.home, "east", stale="2m", lost="4m")
    run = land.up()
    try:
        land.token("east")
        land.settings("east")

        def round_of_cron() -> bool:
            once = AgentRun(land.home, "east", "--once")
            assert once.child.wait(60) == 0, once.lines
            once.close()
            return set(land.jobs()) == {"done"}

        land.submit("true", count=2)
        until(round_of_cron, lambda: f"rounds of cron have served the jobs: {land.jobs()}")
        until(lambda: round_of_cron() and not land.started("east"), "rounds of cron have cleared up")
        ended(run)
    finally:
        run.close()
