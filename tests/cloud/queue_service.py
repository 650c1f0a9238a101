"""A small queue of containers of our own, with a REST API: its jobs are real processes of this machine.

It stands in for clouds of this kind, of which none can be had here, and misbehaves when it is told to. An
image is a name for a command line; a job's files are in its folder, which is its only place.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

KEY = "k-3f9c0d5e7a"
# A shell that lives until it is told to drain or to stop, and then says its last words as a pilot does.
SLEEPER = """\
echo "pilot $1 is here"
bye() { echo "{\\"ok\\": true, \\"why\\": \\"$2 was told to leave\\", \\"jobs\\": 0}"; kill $! ; exit 0; }
trap 'bye pilot "$1"' USR1 TERM
sleep 600 & wait
"""
STOP_S = 40.0  # as the grace of a container before it is killed
POLL_S = 0.05
OVER = frozenset({"finished", "error", "canceled"})


@dataclass
class Job:
    """One job as the cloud has it."""

    id: str
    name: str
    asked: Mapping[str, Any]
    folder: Path
    state: str = "queued"
    label: str = ""
    exit_code: int | None = None
    started: float | None = None
    ended: float | None = None
    reason: str = ""
    child: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def over(self) -> bool:
        return self.state in OVER

    def shown(self) -> dict[str, Any]:
        status = {"phase": self.state, "reason": self.reason, "exit": self.exit_code}
        times = {"started": self.started, "ended": self.ended}
        return {"id": self.id, "name": self.name, "label": self.label, "status": status, **times}


@dataclass
class Fault:
    """What goes wrong with the next requests that it is for."""

    method: str
    path: str  # how the path begins
    how: str  # lost, twice, half, html, drop, silent, or empty for an answer
    times: int = 1
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


class Queue:
    """The jobs. `room` is how many run at once; the others are queued."""

    def __init__(self, folder: Path, images: Mapping[str, list[str]], *, room: int = 100) -> None:
        self.folder, self.images, self.room = folder, images, room
        self.jobs: dict[str, Job] = {}
        self.lock = threading.RLock()
        self._count = 0
        self._ends: list[threading.Thread] = []

    def add(self, asked: Mapping[str, Any]) -> Job:
        with self.lock:
            self._count += 1
            number = f"J{self._count}"
            folder = self.folder / number
            folder.mkdir(parents=True)
            for name, content in dict(asked.get("files", {})).items():
                (folder / Path(name).name).write_bytes(base64.b64decode(content))
            label = str(asked.get("label", ""))
            job = self.jobs[number] = Job(number, str(asked["name"]), asked, folder, label=label)
            self._turn()
            return job

    def alien(self, name: str, state: str = "queued", label: str = "") -> Job:
        """A job of somebody else in the same account, or a state that we choose."""
        with self.lock:
            self._count += 1
            number = f"J{self._count}"
            job = self.jobs[number] = Job(number, name, {}, self.folder / number, state, label)
            return job

    def turn(self) -> None:
        with self.lock:
            self._turn()

    def _turn(self) -> None:
        """Ends what has ended, starts what has room."""
        for job in self.jobs.values():
            code = job.child.poll() if job.child is not None and not job.over else None
            if code is not None:
                job.exit_code, job.ended = code, time.time()
                job.state = "canceled" if job.reason else "error" if code else "finished"
        running = [job for job in self.jobs.values() if job.child is not None and not job.over]
        waiting = [job for job in self.jobs.values() if job.state == "queued" and job.asked]
        for job in waiting[: max(0, self.room - len(running))]:
            self._start(job)

    def _start(self, job: Job) -> None:
        words = self.images.get(str(job.asked.get("image")))
        if words is None:
            job.state, job.reason, job.ended = "error", "no such image", time.time()
            return
        words = [word.replace("NAME", job.name) for word in words]
        with (job.folder / "output").open("wb") as output:
            job.child = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=job.folder,
                env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **_marks()},
                start_new_session=True,
            )
        job.state, job.started = "running", time.time()

    def signal(self, job: Job, number: signal.Signals) -> None:
        with self.lock, suppress(ProcessLookupError):
            if job.child is not None and job.child.poll() is None:
                job.child.send_signal(number)

    def cancel(self, job: Job, *, why: str = "canceled by its owner") -> None:
        with self.lock:
            if job.over:
                return
            job.reason = why
            if job.child is None:
                job.state, job.ended = "canceled", time.time()
            elif job.state != "stopping":
                # It is told at once; how long its end takes is its own affair.
                job.state = "stopping"
                self._ends.append(threading.Thread(target=_stop, args=(job.child,)))
                self._ends[-1].start()

    def delete(self, job: Job) -> None:
        self.cancel(job)
        with self.lock:
            self.jobs.pop(job.id, None)

    def output(self, job: Job) -> bytes:
        with suppress(FileNotFoundError):
            return (job.folder / "output").read_bytes()
        return b""

    def close(self) -> None:
        with self.lock:
            left = list(self.jobs.values())
        for job in left:
            self.cancel(job)
        for end in self._ends:
            end.join()


def _marks() -> dict[str, str]:
    """What belongs to this session of tests can be told by it, should it be forgotten."""
    name = "GLIDEPATH_BED_RUN"
    return {name: os.environ[name]} if name in os.environ else {}


def _stop(child: subprocess.Popen[bytes]) -> None:
    """As the end of a container: first it is asked, then all of it is gone."""
    with suppress(ProcessLookupError):
        child.send_signal(signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        child.wait(STOP_S)
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


class Service(ThreadingHTTPServer):
    """The API, on loopback; every request is remembered."""

    daemon_threads = True
    request_queue_size = 50

    def __init__(self, queue: Queue) -> None:
        super().__init__(("127.0.0.1", 0), _Told)
        self.queue = queue
        self.page = 100  # jobs on one page
        self.asked: list[tuple[str, str, str]] = []  # method, path, body
        self.faults: list[Fault] = []
        self.lock = threading.Lock()
        self.over = threading.Event()
        self.edit: Callable[[dict[str, Any]], Any] = lambda listing: listing

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def fails(self, method: str, path: str, how: str = "", **more: Any) -> None:
        self.faults.append(Fault(method, path, how, **more))

    def fault(self, method: str, path: str) -> Fault | None:
        with self.lock:
            for fault in self.faults:
                if fault.times > 0 and fault.method == method and path.startswith(fault.path):
                    fault.times -= 1
                    return fault
        return None

    def count(self, method: str, path: str) -> int:
        with self.lock:
            return sum(each[0] == method and each[1].startswith(path) for each in self.asked)


class _Told(BaseHTTPRequestHandler):
    server: Service
    protocol_version = "HTTP/1.1"

    def log_message(self, *words: object) -> None:
        pass

    def _serve(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(length)
        at = urlsplit(self.path)
        path = at.path.removeprefix("/v1")
        with self.server.lock:
            self.server.asked.append((self.command, path, body.decode()))
        fault = self.server.fault(self.command, path)
        if fault is not None and self._before(fault):
            return
        if self.headers.get("Authorization") != f"Bearer {KEY}":
            self._say(401, {"error": f"the key `{self.headers.get('Authorization')}` is not known"})
            return
        query = {name: each[0] for name, each in parse_qs(at.query).items()}
        for _ in range(2 if fault is not None and fault.how == "twice" else 1):
            status, answer = self._answer(path, query, json.loads(body) if body else {})
        if fault is not None and fault.how == "lost":
            self.close_connection = True
            return
        self._say(status, answer, half=fault is not None and fault.how == "half")

    do_GET = do_POST = do_DELETE = _serve

    def _before(self, fault: Fault) -> bool:
        """Whether nothing is done of what was asked."""
        match fault.how:
            case "drop":
                self.close_connection = True
            case "silent":
                self.server.over.wait(60)
                self.close_connection = True
            case "html":
                self._send(200, b"<html><body>Please log in</body></html>", {"Content-Type": "text/html"})
            case "":
                kind = {"Content-Type": "application/json"}
                self._send(fault.status, fault.body, {**kind, **fault.headers})
            case _:
                return False
        return True

    def _answer(self, path: str, query: Mapping[str, str], body: Mapping[str, Any]) -> tuple[int, Any]:
        queue = self.server.queue
        queue.turn()
        if path == "/jobs" and self.command == "POST":
            return 201, {"id": queue.add(body).id}
        if path == "/jobs":
            with queue.lock:
                jobs = [job.shown() for job in queue.jobs.values()]
            begin, page = int(query.get("after", 0)), self.server.page
            listing: dict[str, Any] = {"jobs": jobs[begin : begin + page]}
            if begin + page < len(jobs):
                listing["next"] = begin + page
            return 200, self.server.edit(listing)
        _, _, number, *what = path.split("/")
        with queue.lock:
            job = queue.jobs.get(number)
        if job is None:
            return 404, {"error": "no such job"}
        match (self.command, *what):
            case ("GET",):
                return 200, job.shown()
            case ("GET", "output"):
                return 200, queue.output(job)
            case ("DELETE",):
                queue.delete(job)
            case ("POST", "cancel"):
                queue.cancel(job)
            case ("POST", "signal"):
                queue.signal(job, signal.SIGUSR1)
            case _:
                return 405, {"error": "it cannot do that"}
        return 200, {}

    def _say(self, status: int, answer: Any, *, half: bool = False) -> None:
        text = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        kind = "text/plain" if isinstance(answer, bytes) else "application/json"
        self._send(status, text, {"Content-Type": kind}, half=half)

    def _send(self, status: int, text: bytes, headers: Mapping[str, str], *, half: bool = False) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        with suppress(OSError):
            self.wfile.write(text[: len(text) // 2] if half else text)
        self.close_connection = half or self.close_connection


@contextmanager
def serving(folder: Path, images: Mapping[str, list[str]], **more: Any) -> Iterator[Service]:
    """The service, and at the end none of its processes."""
    queue = Queue(folder, images, **more)
    service = Service(queue)
    thread = threading.Thread(target=service.serve_forever, args=(POLL_S,), daemon=True)
    thread.start()
    try:
        yield service
    finally:
        service.over.set()
        service.shutdown()
        thread.join()
        service.server_close()
        queue.close()


IMAGES = {"sleeper:1": ["/bin/sh", "-c", SLEEPER, "sh", "NAME"]}
