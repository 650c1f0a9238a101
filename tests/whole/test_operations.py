"""What an operator does to a running glidepath, and what the machine does to it."""

from __future__ import annotations

import json
import os
import resource
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.postgres import shared_server

from glidepath.backends import local
from glidepath.core.provision.pilot import Target
from glidepath.core.quantity import Instant, SiteName
from glidepath.ports import Place
from whole.running import Running, config_text, glidepath, house, left_behind, until

Up = Callable[..., Running]


@pytest.fixture
def config(home: Path) -> Path:
    path = home / "c.toml"
    path.write_text(config_text())
    return path


def ended(run: Running) -> None:
    run.signal(signal.SIGINT)
    assert run.wait_end(within_s=25) == 0, run.text


def pilots(run: Running) -> set[str]:
    return {line.split(" pilot ")[1].split()[0] for line in run.lines if " pilot gp-" in line}


def submit(home: Path, *words: str, count: int = 1, cpus: str = "0.1") -> None:
    ask = ("job", "submit", "--count", str(count), "--cpus", cpus, "--mem", "50MiB", "--", *words)
    glidepath(home, *ask, GLIDEPATH_CONFIG=str(home / "c.toml"))


def test_a_second_glidepath_on_one_sqlite_store_is_told_who_holds_it(
    home: Path, config: Path, up: Up
) -> None:
    first = up("--config", str(config))
    until(lambda: (home / "status.sock").exists(), "the first is up")
    second = up("--config", str(config))
    assert second.wait_end() == 1
    assert f"pid {first.process.pid}" in second.text
    assert "nothing was started" in second.text
    ended(first)


def test_a_changed_configuration_is_taken_up_and_a_bad_one_leaves_the_old_in_force(
    home: Path, config: Path, up: Up
) -> None:
    run = up("--config", str(config))
    submit(home, "sleep", "40", count=3, cpus="1")
    run.wait_for("is running", times=2)
    config.write_text(config_text(live_max=3).replace("live_max", "live_mx"))
    run.wait_for("configuration refused.*live_mx")
    run.wait_for("did you mean `live_max`")
    assert "is running" in run.text
    config.write_text(config_text(live_max=3))
    run.wait_for("configuration taken up")
    run.wait_for("is running", times=3)
    ended(run)
    told = json.loads(glidepath(home, "journal", "events", "-o", "json"))["items"]
    assert {"configuration refused", "configuration taken up"} <= {item["kind"] for item in told}


def test_jobs_of_every_partition_of_a_pool_are_served_also_of_one_that_is_added_later(
    home: Path, config: Path, up: Up
) -> None:
    two = '\n[partitions.day]\npool = "local"\n[partitions.night]\npool = "local"\n'
    config.write_text(config_text() + two)
    env = {"GLIDEPATH_CONFIG": str(config)}
    ask = ("job", "submit", "--cpus", "0.1", "--mem", "50MiB", "--partition")
    run = up("--config", str(config))
    for partition in ("day", "night"):
        glidepath(home, *ask, partition, "--", "true", **env)
    run.wait_for("is done", times=2)
    config.write_text(config_text() + two + '[partitions.late]\npool = "local"\n')
    run.wait_for("configuration taken up")
    glidepath(home, *ask, "late", "--", "true", **env)
    run.wait_for("is done", times=3)
    assert "did you mean `late`" in glidepath(home, *ask, "lat", "--", "true", code=4, **env)
    config.write_text(config_text(store=f"sqlite:///{home}/other.db"))
    run.wait_for("configuration refused.*store.url. cannot change")
    ended(run)


def test_a_paused_site_is_asked_for_nothing_until_it_is_resumed(home: Path, config: Path, up: Up) -> None:
    run = up("--config", str(config))
    until(lambda: (home / "glidepath.db").exists(), "the store is there")
    glidepath(home, "site", "pause", "here", "--why", "moving racks", GLIDEPATH_CONFIG=str(config))
    submit(home, "true")
    run.wait_for("paused by an operator")
    time.sleep(3)
    assert "ask for" not in run.text
    assert "moving racks" in glidepath(home, "site", "status", GLIDEPATH_CONFIG=str(config))
    glidepath(home, "site", "resume", "here", GLIDEPATH_CONFIG=str(config))
    run.wait_for("is done")
    ended(run)


def test_a_drained_site_lets_its_jobs_finish_and_is_left_empty(home: Path, config: Path, up: Up) -> None:
    config.write_text(config_text(live_max=1))
    run = up("--config", str(config))
    submit(home, "sleep", "10", count=2, cpus="1")
    run.wait_for("is running")
    told = glidepath(home, "site", "drain", "--all", "--wait", "-o", "json", GLIDEPATH_CONFIG=str(config))
    (item,) = json.loads(told)["items"]
    assert (item["name"], item["state"], item["left"]) == ("here", "gone", 0)
    jobs = json.loads(glidepath(home, "job", "list", "--all", "-o", "json"))["items"]
    # The one that ran has finished; the other waits, and nobody is asked for it.
    assert sorted(job["state"] for job in jobs) == ["done", "queued"]
    assert len(pilots(run)) == 1
    glidepath(home, "site", "resume", "here", GLIDEPATH_CONFIG=str(config))
    run.wait_for("is running", times=2)
    ended(run)


def test_whether_it_is_alive_is_told_while_it_runs_and_not_while_it_is_stopped(
    home: Path, config: Path, up: Up
) -> None:
    run = up("--config", str(config))
    until(lambda: (home / "status.sock").exists(), "it is up")
    assert glidepath(home, "alive").startswith("alive: ")
    second = up("--config", str(config))
    assert second.wait_end() == 1
    assert glidepath(home, "alive").startswith("alive: "), "it was silenced by one that may not run"
    run.signal(signal.SIGSTOP)
    assert "does not answer within" in glidepath(home, "alive", code=1)
    run.signal(signal.SIGCONT)
    assert glidepath(home, "alive").startswith("alive: ")
    ended(run)
    assert "no glidepath runs in" in glidepath(home, "alive", code=1)


def test_a_shadow_says_what_it_would_do_and_does_nothing(home: Path, config: Path, up: Up) -> None:
    first = up("--config", str(config))
    until(lambda: (home / "pool.sock").exists(), "the first is up")
    shadow = up("--config", str(config), "--shadow")
    until(lambda: (home / "shadow.sock").exists(), "the shadow is up")
    submit(home, "sleep", "3", count=4, cpus="1")
    first.wait_for("is done", times=4)
    shadow.wait_for("shadow here/worker: would have asked for .* appeared, difference")
    names = {line.split("pilot ")[1].split()[0] for line in first.lines if " pilot gp-" in line}
    ended(shadow)
    assert {
        p for line in shadow.lines if " pilot gp-" in line for p in [line.split("pilot ")[1].split()[0]]
    } <= names
    ended(first)


def test_with_a_full_disk_nothing_is_done_status_is_served_and_work_goes_on_afterwards(
    home: Path, config: Path, up: Up
) -> None:
    run = up("--config", str(config))
    submit(home, "sleep", "2")
    run.wait_for("is done")
    soft, hard = resource.prlimit(run.process.pid, resource.RLIMIT_FSIZE)
    # No file of the process may grow: the kernel answers as it does on a full disk.
    resource.prlimit(run.process.pid, resource.RLIMIT_FSIZE, (0, hard))
    run.wait_for("the journal cannot be written, so nothing is done")
    before = len(run.lines)
    submit(home, "true")
    time.sleep(4)
    assert "ask for" not in "\n".join(run.lines[before:])
    told = glidepath(home, "site", "status", GLIDEPATH_CONFIG=str(config))
    assert "here/worker" in told
    resource.prlimit(run.process.pid, resource.RLIMIT_FSIZE, (soft, hard))
    run.wait_for("all is well again")
    run.wait_for("is done", times=2)
    ended(run)


def test_a_damaged_journal_is_said_and_the_pilots_are_adopted(home: Path, config: Path, up: Up) -> None:
    first = up("--config", str(config))
    submit(home, "sleep", "20", count=2, cpus="1")
    first.wait_for("is running", times=2)
    first.signal(signal.SIGKILL)
    first.wait_end()
    import sqlite3

    with sqlite3.connect(home / "glidepath.db") as store:
        store.execute("UPDATE cycles SET body = x'00112233'")
    store.close()
    second = up("--config", str(config))
    second.wait_for("starting without memory")
    second.wait_for("pilot gp-.* is busy", times=2)
    assert "ask for" not in second.text
    ended(second)


@pytest.mark.real
def test_on_postgresql_a_second_glidepath_stands_by_and_takes_over(
    request: pytest.FixtureRequest, up: Up
) -> None:
    with house() as home, shared_server(request.config).database() as url:
        (home / "c.toml").write_text(config_text(store=url))
        (home / "two").mkdir()
        first = Running(home, "--config", str(home / "c.toml"))
        until(lambda: (home / "pool.sock").exists(), f"the first is up: {first.text}")
        second = Running(home / "two", "--config", str(home / "c.toml"))
        try:
            second.wait_for("standing by: .* owns the store")
            submit(home, "sleep", "1", count=3)
            first.wait_for("is done", times=3)
            assert "ask for" not in second.text
            ended(first)
            submit(home, "sleep", "1", count=2)
            second.wait_for("is done", times=2)
            ended(second)
            answers = glidepath(home, "replay", "--last", "200", GLIDEPATH_CONFIG=str(home / "c.toml"))
            assert answers
        finally:
            first.close()
            second.close()


@pytest.mark.real
def test_a_glidepath_that_lost_its_lease_ends_and_leaves_the_pilots_to_the_other(
    request: pytest.FixtureRequest,
) -> None:
    server = shared_server(request.config)
    with house() as home, server.database() as url:
        (home / "c.toml").write_text(config_text(store=url))
        run = Running(home, "--config", str(home / "c.toml"))
        try:
            until(lambda: (home / "pool.sock").exists(), lambda: f"it is up: {run.text}")
            submit(home, "sleep", "60")
            run.wait_for("is running")
            database = url.split("?")[0].rsplit("/", 1)[1]
            server.execute("UPDATE leases SET epoch = epoch + 1, holder = 'another'", database)
            assert run.wait_end(within_s=60) == 1
            assert "another glidepath owns the store now" in run.text
            assert len(left_behind(home)) >= 1
        finally:
            run.close()
            backend = local.backend(SiteName("here"), {}, Place(home, url))
            for pilot in backend.list(now=Instant(0)).pilots:
                backend.kill(Target(pilot.name))


def test_commands_explain_what_the_running_system_decided(home: Path, config: Path, up: Up) -> None:
    run = up("--config", str(config))
    env = {"GLIDEPATH_CONFIG": str(config)}
    submit(home, "sleep", "30")
    glidepath(home, "job", "submit", "--cpus", "64", "--mem", "50MiB", "--", "true", **env)
    run.wait_for("is running")
    run.wait_for("no offer fits these jobs")
    assert "is running" in glidepath(home, "explain", "1", **env)
    impossible = glidepath(home, "explain", "2", **env)
    assert "here/worker" in impossible
    assert "64" in impossible
    assert "here/worker" in glidepath(home, "explain", "here", **env)
    pilot = json.loads(glidepath(home, "pilot", "list", "-o", "json", **env))["items"][0]["name"]
    assert pilot in glidepath(home, "explain", pilot, **env)
    assert glidepath(home, "pilot", "logs", pilot, **env)
    assert "no offer fits" in glidepath(home, "demand", **env)
    assert glidepath(home, "plan", "--dry-run", **env)
    assert glidepath(home, "pool", "status", **env)
    assert glidepath(home, "doctor", **env)
    assert os.path.commonpath([home, config]) == str(home)
    ended(run)


def test_a_dry_run_plans_and_changes_nothing(home: Path, config: Path) -> None:
    env = {"GLIDEPATH_CONFIG": str(config)}
    submit(home, "true", count=3)
    planned = json.loads(glidepath(home, "plan", "--dry-run", "-o", "json", **env))["items"]
    acts = [(item["about"], item["action"]) for item in planned if item["action"]]
    assert acts == [("offer:here/worker", "submit")]
    assert not (home / "pilots").exists()
    assert glidepath(home, "job", "list", "-o", "name", **env).split() == ["1", "2", "3"]
    assert "nothing has been decided yet" in glidepath(home, "demand", code=1, **env)


def test_a_submitted_job_wakes_a_loop_that_has_stretched(home: Path, config: Path, up: Up) -> None:
    slow = config_text().replace('max = "3s"', 'max = "10m"')
    config.write_text(slow)
    run = up("--config", str(config))
    until(lambda: (home / "pool.sock").exists(), "it is up")
    # By now the loop would wait for minutes: 1, 2, 4, 8, 16 seconds and more have been doubled.
    time.sleep(8)
    started = time.monotonic()
    submit(home, "true")
    run.wait_for("is done")
    assert time.monotonic() - started < 30
    ended(run)
