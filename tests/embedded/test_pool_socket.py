"""The socket of the pool: garbage, strangers and long paths hurt nobody else."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from tests.embedded.world import World, until

from glidepath.embedded.server import PoolServer, socket_path
from glidepath.embedded.wire import REQUEST_BYTES_MAX, read_message
from glidepath.store.job import JobState

BEAT = {"left_s": 60, "draining": False, "jobs_run": 0, "jobs_failed": 0}
HELLO = {
    **BEAT,
    "op": "hello",
    "pilot": "px",
    "pool": "here",
    "size": [1000, 1024, 0, 0],
    "traits": [],
    "holds": [],
}
RECORD = {
    "job": 1,
    "attempt": 1,
    "pilot": "px",
    "how": "exited",
    "exit_code": 0,
    "signal": None,
    "reason": "",
}
RECORD |= {"started_wall": 1.0, "ended_wall": 2.0}
NOBODY = 65534


def line(said: object) -> bytes:
    return json.dumps(said).encode() + b"\n"


def done(record: object) -> bytes:
    return line({**BEAT, "op": "done", "records": [record]})


def talk(world: World, sent: bytes) -> list[dict[str, object]]:
    """What comes back until the server closes the connection."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(20)
        sock.connect(str(socket_path(world.home)))
        try:
            sock.sendall(sent)
        except (BrokenPipeError, ConnectionResetError):
            pass
        answer = b""
        try:
            while piece := sock.recv(65536):
                answer += piece
        except ConnectionResetError:
            pass
    return [json.loads(one) for one in answer.splitlines()]


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (b"\x00\xff garbage\n", "a line is not JSON"),
        (b"[" * 100_000 + b"\n", "a line is not JSON"),
        (b"[1, 2]\n", "a message is not an object"),
        (line({"op": "dance"}), "the `op` of a message is not known"),
        (line({"op": "pull", "left_s": 5}), "say hello first"),
        (line({"op": "pull", "left_s": "soon"}), "`left_s` must be a whole number"),
        (line({**HELLO, "pilot": "../../etc"}), "the name of a pilot"),
        (line({**HELLO, "pool": "elsewhere"}), "the pool is not served here"),
        (line({**HELLO, "size": [1, -2, 3, 4]}), "`size` must be four whole numbers"),
        (line({**HELLO, "holds": [["a", 1]]}), "each of `holds` must be a pair"),
        (line({**HELLO, "draining": 1}), "`draining` must be true or false"),
        (
            line(HELLO) + done({**RECORD, "pilot": "py"}),
            "not of this pilot",
        ),
        (line(HELLO) + done({**RECORD, "how": "lost"}), "lost a job"),
        (
            line(HELLO) + done({**RECORD, "exit_code": 1e9}),
            "`exit_code`",
        ),
        (b"x" * (REQUEST_BYTES_MAX + 70_000), "a message is longer than"),
    ],
)
def test_a_bad_message_is_answered_and_ends_only_its_own_connection(
    world: World, sent: bytes, expected: str
) -> None:
    answers = talk(world, sent)
    assert expected in str(answers[-1]["error"])
    assert world.server is not None
    assert world.server.alive


def test_pilots_work_on_while_others_send_garbage(world: World) -> None:
    world.pilot("p1")
    ids = []
    for sent in (b"\n\n\n", b"{" * 5000 + b"\n", line({"op": None}), b"\xf0\n"):
        talk(world, sent)
        ids.append(world.submit("true"))
    assert {job.state for job in world.over(*ids)} == {JobState.DONE}


def test_a_name_in_use_by_a_live_pilot_is_refused(world: World) -> None:
    world.pilot("px")
    world.over(world.submit("true"))
    (answer,) = talk(world, line(HELLO))
    assert "in use by the process" in str(answer["error"])


def test_a_pilot_that_only_claims_and_dies_costs_nothing_but_an_attempt(world: World) -> None:
    code = (
        "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]);"
        "s.sendall(sys.argv[2].encode()); s.recv(10); s.recv(1 << 20)"
    )
    job = world.submit("true")
    sent = (line(HELLO) + line({"op": "pull", "left_s": 60})).decode()
    subprocess.run([sys.executable, "-c", code, str(socket_path(world.home)), sent], check=True, timeout=30)
    until("it was lost", lambda: world.jobs.get(job).losses == 1)
    world.pilot("p1")
    assert world.over(job)[0].state is JobState.DONE


def test_the_socket_is_for_its_owner_only(world: World) -> None:
    path = socket_path(world.home)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(world.home.stat().st_mode) == 0o700


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_another_user_is_not_served(world: World, tmp_path: Path) -> None:
    """Even one who got hold of the folder: the kernel's word about the peer decides."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(str(socket_path(world.home)))
        hello = repr(line(HELLO))
        code = f"""
import os, socket
folder = os.open({str(world.home)!r}, os.O_RDONLY)
os.fchmod(folder, 0o711)
os.chmod({str(socket_path(world.home))!r}, 0o666)
os.setgid({NOBODY}); os.setuid({NOBODY})
s = socket.socket(socket.AF_UNIX)
s.settimeout(20)
os.fchdir(folder)
s.connect("pool.sock")
try:
    s.sendall({hello})
    print(s.recv(100))
except (BrokenPipeError, ConnectionResetError):
    print(b"")
"""
        found = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False
        )
    assert (found.stdout, found.stderr) == ("b''\n", "")


def test_a_home_with_a_very_long_path_is_served(tmp_path: Path) -> None:
    world = World(tmp_path / ("long" * 30) / ("er" * 20))
    try:
        world.serve()
        world.pilot("p1")
        assert world.over(world.submit("true"))[0].state is JobState.DONE
    finally:
        world.close()


def test_a_stale_socket_is_taken_over_and_a_living_one_is_not(world: World) -> None:
    second = PoolServer(world.store, world.home, {"here": ("here",)}, clock=world.clock)
    with pytest.raises(OSError, match="another process serves"):
        second.start()
    world.stop_serving()
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(socket_path(world.home)))
    world.serve()
    world.pilot("p1")
    assert world.over(world.submit("true"))[0].state is JobState.DONE


def test_making_a_server_touches_nothing(tmp_path: Path, world: World) -> None:
    PoolServer(world.store, tmp_path / "none", {"here": ("here",)}, clock=world.clock)
    assert not (tmp_path / "none").exists()


def test_records_of_the_disk_and_of_the_wire_read_alike() -> None:
    message = read_message(done(RECORD), "px")
    assert message.records[0].exit_code == 0  # type: ignore[union-attr]
