"""A cloud by its program: what it prints is a listing as a whole or an error, and no secret is a word."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from cloud.cloud_builders import backend_of, by_command, names, spec
from cloud.cloud_world import NOW, World
from cloud.queue_service import KEY, Service
from glidepath.cloud.backend import CloudBackend
from glidepath.core.cycle import Done, Failed, Unsure
from glidepath.core.provision.pilot import Target
from glidepath.ports import WORLD_ERRORS
from whole.running import until


def command(service: Service, home: Path, **env: str) -> CloudBackend:
    return backend_of(by_command(service.url, env=env), home)


def test_a_banner_before_the_headings_is_for_people(world: World) -> None:
    cloud = command(world.service, world.home, LCLI_BEFORE="Version 9 is out, update now!")
    # The first line of such a program may have no end.
    with pytest.raises(ValueError, match="there is no line with the headings"):
        cloud.list(now=NOW)
    cloud = command(world.service, world.home)
    cloud.submit(spec())
    assert names(cloud.list(now=NOW).pilots) == ["gp-1"]


def test_a_comma_in_a_name_of_others_invents_no_state(world: World) -> None:
    world.service.queue.alien("a,running", "queued")
    assert command(world.service, world.home).list(now=NOW).pilots == ()
    with pytest.raises(ValueError, match="a row has 4 cells under 3 headings"):
        command(world.service, world.home, LCLI_PLAIN="yes").list(now=NOW)


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("exit 0", "there is no line with the headings"),
        ("echo '<html>log in</html>'", "there is no line with the headings"),
        ("echo id,name; echo J1,x", "there is no line with the headings"),
        ("echo id,name,status,name; echo J1,x,running,y", "a heading stands there twice"),
        ("echo id,name,status; echo 'J1,\"x,running'", "this is no CSV"),
        ("echo id,name,status; printf J1,x", "a row has 2 cells under 3 headings"),
        ("echo id,name,status; echo ,x,running", "a job has no `id`"),
        ("echo id,name,status; exit 1", "ended with 1"),
        ("echo job not found; exit 127", "ended with 127"),
        ("kill -9 $$", "ended with -9"),
    ],
)
def test_what_a_command_prints_is_a_listing_as_a_whole_or_none(world: World, script: str, words: str) -> None:
    table = by_command(world.service.url)
    table["command"]["list"] = ["sh", "-c", script]
    with pytest.raises(WORLD_ERRORS, match=words):
        backend_of(table, world.home).list(now=NOW)


def test_no_secret_is_in_the_words_of_a_command_and_its_files_are_gone_afterwards(world: World) -> None:
    table = by_command(world.service.url)
    noted = world.home / "noted"
    note = f'(tr "\\0" " " </proc/$$/cmdline; ls -l "$1"; cat "$1") >{noted}'
    note += '; echo "$LANCIUM_API_KEY is wrong" >&2; exit 4'
    table["command"]["submit"] = ["sh", "-c", note, "{name}", "{token_file}"]
    cloud = backend_of(table, world.home)
    cloud.list(now=NOW)
    told = cloud.submit(spec())
    assert isinstance(told, Failed)
    assert "<hidden> is wrong" in told.why
    words, *rest = noted.read_text().split("gp-1.token")
    assert spec().secrets[0][1] not in words
    assert KEY not in words
    assert "-rw-------" in rest[0]
    assert rest[-1].strip() == spec().secrets[0][1]
    assert not list((world.home / "cloud" / "west").glob("ask-*"))


def test_a_program_that_is_not_there_or_does_not_end_is_told_apart(world: World) -> None:
    table = by_command(world.service.url)
    table["command"]["submit"] = ["no-such-lcli", "{name}"]
    cloud = backend_of(table, world.home)
    assert isinstance(cloud.submit(spec()), Failed)
    table["command"]["submit"] = ["sh", "-c", "sleep 60 & wait", "{name}"]
    cloud = backend_of({**table, "timeout": "2s"}, world.home)
    told = cloud.submit(spec())
    assert isinstance(told, Unsure)
    assert "gave no answer in time" in told.why


def test_a_command_that_failed_after_all_was_done_is_found_by_its_name(world: World) -> None:
    table = by_command(world.service.url)
    table["command"]["submit"] = ["sh", "-c", '"$@"; exit 9', "sh", *table["command"]["submit"]]
    assert backend_of(table, world.home).submit(spec()) == Done("it was started before")


def test_what_is_gone_is_gone_and_a_missing_program_does_not_say_so(world: World) -> None:
    cloud = command(world.service, world.home)
    cloud.submit(spec())
    (pilot,) = cloud.list(now=NOW).pilots
    world.service.queue.delete(world.service.queue.jobs["J1"])
    assert isinstance(cloud.remove(Target(pilot.name, pilot.native_id)), Done)
    cloud.submit(spec("gp-2"))
    table = by_command(world.service.url)
    table["command"]["delete"] = ["sh", "-c", "echo lcli: job not found; exit 127", "{id}"]
    broken = backend_of(table, world.home)
    (pilot,) = broken.list(now=NOW).pilots
    assert isinstance(broken.remove(Target(pilot.name, pilot.native_id)), Failed)


LIFE = """
import json, sys
from pathlib import Path
from cloud.cloud_builders import backend_of, spec
backend_of(json.loads(sys.argv[1]), Path(sys.argv[2])).submit(spec())
"""


def test_a_command_that_outlives_its_glidepath_makes_one_job_and_no_second(world: World) -> None:
    table = by_command(world.service.url)
    table["command"]["submit"] = ["sh", "-c", 'sleep 2; exec "$@"', "sh", *table["command"]["submit"]]
    words = [sys.executable, "-c", LIFE, json.dumps(table), str(world.home)]
    with subprocess.Popen(words, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}) as life:
        until(lambda: _programs(world.home / "cloud" / "west") > 0, "its program has started")
        # It dies while its program runs, which does not notice.
        life.kill()
    assert isinstance(backend_of(table, world.home).submit(spec()), Unsure)
    until(lambda: len(world.service.queue.jobs) == 1, "the program has ended")
    assert backend_of(table, world.home).submit(spec()) == Done("it was started before")
    assert len(world.service.queue.jobs) == 1


def _programs(folder: Path) -> int:
    """Programs that were told of a file in the folder."""
    told = 0
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            told += os.fsencode(folder) in path.read_bytes()
    return told
