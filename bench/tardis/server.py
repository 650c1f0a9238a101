"""`python -m bench.tardis.server FOLDER SCENARIO SEED`: one world in real time, asked by commands.

Commands come in over a socket in the folder; at the end of the scenario what became of it is written beside
it. Its clock is the machine's: a system that is slow to ask is slow in the world.
"""

from __future__ import annotations

import json
import signal
import socketserver
import sys
import threading
import time
from pathlib import Path
from typing import Any

from bench.tardis.commands import run
from bench.tardis.world import World

TICK_S = 0.25
WORDS_BYTES_MAX = 1 << 20
COMMANDS = ("condor_q", "condor_status", "condor_drain", "sbatch", "squeue", "sacct", "scancel")
# Small, because each system starts many of them: no module but what a socket needs.
STAND_IN = """\
#!{python} -ISE
import sys, json
from _socket import socket, AF_UNIX, SOCK_STREAM, SHUT_WR
asked = socket(AF_UNIX, SOCK_STREAM)
asked.connect({socket!r})
asked.sendall(json.dumps([{name!r}] + sys.argv[1:]).encode())
asked.shutdown(SHUT_WR)
told = b""
while True:
    part = asked.recv(1 << 20)
    if not part:
        break
    told += part
code, out, err = json.loads(told)
sys.stdout.write(out)
sys.stderr.write(err)
sys.exit(code)
"""


class Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    request_queue_size = 200

    def __init__(self, folder: Path, world: World) -> None:
        self.world = world
        self.lock = threading.Lock()
        self.began, self.wall = time.monotonic(), time.time()
        self.calls: dict[str, int] = {}
        super().__init__(str(folder / "world.sock"), socketserver.BaseRequestHandler)

    @property
    def now(self) -> float:
        return time.monotonic() - self.began

    def tick(self) -> None:
        """The world up to this moment, with what pilots would see and leave in their folders."""
        self.world.advance(self.now)
        for worker in self.world.workers.values():
            if not worker.folder:
                continue
            folder = Path(worker.folder)
            if worker.live and not worker.draining and (folder / worker.name / "drain").exists():
                self.world.drain(self.world.now, worker)
            if not worker.live:
                words = {"ok": True, "why": "it was idle", "jobs": worker.jobs_run}
                ended = folder.parent.parent / "ended" / worker.name
                fresh = ended.with_name(f".{worker.name}")
                fresh.write_text(json.dumps(words) + "\n")
                fresh.rename(ended)
                worker.folder = ""

    def answer(self, argv: list[str]) -> list[object]:
        with self.lock:
            self.tick()
            self.calls[argv[0]] = self.calls.get(argv[0], 0) + 1
            printed = run(self.world, argv, self.wall + self.now)
        return [printed.code, printed.out, printed.err]

    def finish_request(self, request: Any, client_address: object) -> None:
        """One command: all of its words, and then the answer."""
        with request.makefile("rb") as asked:
            words = asked.read(WORDS_BYTES_MAX)
        try:
            answer = self.answer(json.loads(words))
        except (ValueError, LookupError, OSError, AssertionError) as error:
            answer = [99, "", f"the world does not understand: {error!r}\n"]
            print(answer, file=sys.stderr, flush=True)
        request.sendall(json.dumps(answer).encode())


def furnish(folder: Path) -> Path:
    """The folder of stand-in commands for a PATH."""
    programs = folder / "bin"
    programs.mkdir()
    for name in COMMANDS:
        path = programs / name
        path.write_text(STAND_IN.format(python=sys.executable, socket=str(folder / "world.sock"), name=name))
        path.chmod(0o755)
    return programs


def main(words: list[str]) -> int:
    folder, scenario, seed = Path(words[0]), words[1], int(words[2])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # The one who started it says when.
    world = World(scenario, seed)
    furnish(folder)
    with Server(folder, world) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        # The last events end it, whoever asks or not.
        end = world.end_at + TICK_S
        while server.now < end and not world.over:
            time.sleep(TICK_S)
            with server.lock:
                server.tick()
        with server.lock:
            found = {**world.measures(), "calls": server.calls, "scenario": scenario, "seed": seed}
        (folder / "measures.json").write_text(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
