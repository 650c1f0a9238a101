"""A desk far away says what the desk itself says, and a server that is none of ours learns nothing."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from glidepath.cli.main import main
from glidepath.cli.verb import Caller as Terminal
from glidepath.jobs.caller import Caller, Role
from glidepath.jobs.desk import Asked, JobDesk, LogAsked, UsageAsked
from glidepath.jobs.errors import DeskError, Forbidden, Unanswered, Unusable
from glidepath.jobs.far import TRIES_MAX, FarDesk
from glidepath.jobs.submission import read_submission
from serve.api_server import ApiServer, api_server

ANN = Caller("ann", Role.USER, frozenset({"astro"}))
OZ = Caller("oz", Role.OPERATOR)
WISH = read_submission({"command": ["true"], "partition": "main", "time": "1h", "env": {"A": "1"}})
# They tell the second in which they were asked.
NOW = ("age_s", "ran_s", "start", "ends", "wait_s")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ApiServer]:
    with api_server(tmp_path / "home") as made:
        made.person("ann", "user", ("astro",))
        made.person("oz", "operator")
        yield made


def token_of(server: ApiServer, name: str) -> Path:
    file = server.home / f"{name}.token"
    file.touch(mode=0o600)
    file.write_text(server.held[name])
    return file


def far(server: ApiServer, caller: Caller) -> FarDesk:
    return FarDesk(server.url, token_of(server, caller.name))


def timeless(said: Any) -> Any:
    if isinstance(said, dict):
        return {key: timeless(value) for key, value in said.items() if key not in NOW}
    return [timeless(each) for each in said] if isinstance(said, (list, tuple)) else said


def answer(question: Callable[[], Any]) -> Any:
    try:
        return timeless(question())
    except DeskError as error:
        return type(error), error.why, error.hint, getattr(error, "places", ())


Question = Callable[[JobDesk, Caller, int], Any]
QUESTIONS: dict[str, Question] = {
    "list": lambda desk, who, job: desk.list(who, Asked()),
    "list with starts": lambda desk, who, job: desk.list(who, Asked(starts=True, state="queued")),
    "list mine": lambda desk, who, job: desk.list(who, Asked(mine=True, state="done", limit=1)),
    "list of a page": lambda desk, who, job: desk.list(who, Asked(below=job, limit=1)),
    "list of another": lambda desk, who, job: desk.list(who, Asked(owner="ben", project="astro")),
    "show": lambda desk, who, job: desk.show(who, job),
    "explain": lambda desk, who, job: desk.explain(who, job),
    "events": lambda desk, who, job: desk.events(who),
    "events of one": lambda desk, who, job: desk.events(who, job=job, after=1, limit=2),
    "log": lambda desk, who, job: desk.log(who, job, LogAsked()),
    "log, its end": lambda desk, who, job: desk.log(who, job, LogAsked(offset=-3, attempt=1, bytes_max=2)),
    "log of a rank that is not there": lambda desk, who, job: desk.log(who, job, LogAsked(7, True)),
    "usage": lambda desk, who, job: desk.usage(who, UsageAsked(("project", "owner"), "day")),
    "usage that is none": lambda desk, who, job: desk.usage(who, UsageAsked(("colour",), since="soon")),
    "queues": lambda desk, who, job: desk.queues(who),
    "partitions": lambda desk, who, job: desk.partitions(who),
    "nodes": lambda desk, who, job: desk.nodes(who),
    "test": lambda desk, who, job: desk.test(who, WISH),
    "cancel, dry": lambda desk, who, job: desk.cancel(who, job, dry=True),
    "cancel": lambda desk, who, job: desk.cancel(who, job),
    "extend": lambda desk, who, job: desk.extend(who, job, 7200),
    "insist": lambda desk, who, job: desk.extend(who, job, 7200, forced=True),
    "a word": lambda desk, who, job: desk.word(who, "queue", "batch", "pause", why="a disk", dry=True),
    "a word that is none": lambda desk, who, job: desk.word(who, "node", "n1 x", "cordon"),
}


def test_every_question_is_answered_from_far_as_it_is_here(server: ApiServer) -> None:
    job = server.ran("ann", stdout=b"0123456789")
    for who in (ANN, OZ):
        there = far(server, who)
        for number in (job, job + 1):
            for name, question in QUESTIONS.items():
                here = answer(partial(question, server.jobs, who, number))
                said = answer(partial(question, there, who, number))
                assert said == here, (name, who.name, number)
        assert there.newest() == server.jobs.newest()


def test_a_submission_from_far_is_the_job_that_was_asked_for(server: ApiServer) -> None:
    desk = far(server, ANN)
    done = desk.submit(ANN, WISH, wait_s=0)
    assert (done.new, done.answered, len(done.items)) == (True, False, 1)
    shown = desk.show(ANN, done.items[0]["id"])
    assert (shown["owner"], shown["partition"], shown["env"], shown["run_s_max"]) == (
        *("ann", "main"),
        ["A"],
        3600,
    )
    assert [item["id"] for item in desk.submit(ANN, WISH, count=3, wait_s=0).items] == [2, 3, 4]
    first, again = (desk.submit(ANN, WISH, key="k", wait_s=0) for _ in range(2))
    assert (first.new, again.new, again.items[0]["id"]) == (True, False, first.items[0]["id"])
    with pytest.raises(Unusable) as refused:
        desk.submit(ANN, read_submission({"command": ["true"], "partition": "pulled", "ranks": 2}))
    assert [key for key, _ in refused.value.places] == ["ranks"]


def test_long_lists_come_page_by_page(server: ApiServer) -> None:
    server.jobs.submit(ANN, read_submission({"command": ["true"], "partition": "pulled"}), count=2500)
    listed = far(server, ANN).list(ANN, Asked(limit=2200))
    assert [item["id"] for item in listed] == list(range(301, 2501))
    assert len(far(server, ANN).list(ANN, Asked(limit=10_000))) == 2500


def test_a_token_that_is_not_known_or_not_there_is_told(server: ApiServer, tmp_path: Path) -> None:
    nobody = tmp_path / "token"
    desk = FarDesk(server.url, nobody)
    with pytest.raises(Unusable, match="there is no token at"):
        desk.queues(ANN)
    nobody.touch(mode=0o600)
    nobody.write_text("gpp.none.none")
    with pytest.raises(Forbidden, match="no token that is in force was shown") as refused:
        desk.queues(ANN)
    assert str(nobody) in refused.value.hint
    nobody.chmod(0o644)
    with pytest.raises(Unusable, match="can be read by others"):
        desk.queues(ANN)


@pytest.mark.parametrize(
    "url", ["http://jobs.example.org", "ftp://x", "https://a@b", "https://x/?q", "jobs", "https://x\x1b"]
)
def test_no_token_goes_where_it_could_be_read_on_its_way(url: str, tmp_path: Path) -> None:
    with pytest.raises(Unusable, match="must be"):
        FarDesk(url, tmp_path)


class Stranger:
    """A server that gives one answer to everything, and keeps what it was asked."""

    def __init__(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        stranger = self
        self.asked: list[tuple[str, dict[str, str]]] = []

        class Door(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                stranger.asked.append((self.path, dict(self.headers)))
                self.rfile.read(int(self.headers.get("Content-Length", "0")))
                if status == 0:
                    self.connection.close()
                    return
                self.send_response(status)
                for name, value in (headers or {}).items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_GET

            def log_message(self, *args: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Door)
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        self.thread = threading.Thread(target=self.http.serve_forever, daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()


@pytest.fixture
def stranger() -> Iterator[Callable[..., Stranger]]:
    made: list[Stranger] = []

    def start(*args: Any) -> Stranger:
        made.append(Stranger(*args))
        return made[-1]

    yield start
    for one in made:
        one.close()


@pytest.fixture
def token(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.touch(mode=0o600)
    file.write_text("gpp.a.b")
    return file


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (200, b"<html>", "answers like no server of jobs"),
        (200, b"[]", "answers like no server of jobs"),
        (500, b"\x1b[2J oops", "answers HTTP 500: \\x1b[2J oops"),
        (404, b'{"error": 1}', "answers HTTP 404"),
        (404, b'{"error": "x", "kind": "unknown", "places": 7}', "answers HTTP 404"),
        (302, b"", "answers HTTP 302"),
        (0, b"", "does not answer"),
    ],
)
def test_what_is_no_answer_is_told_as_none(
    stranger: Callable[..., Stranger], token: Path, status: int, body: bytes, said: str
) -> None:
    elsewhere = stranger(200, b"{}")
    server = stranger(status, body, {"Location": f"{elsewhere.url}/api/v1/jobs/1"})
    slept: list[float] = []
    desk = FarDesk(server.url, token, sleep=slept.append)
    with pytest.raises(Unanswered) as refused:
        desk.show(ANN, 1)
    assert said in str(refused.value)
    assert elsewhere.asked == [], "the token goes nowhere else"
    assert len(server.asked) == (TRIES_MAX if status == 0 else 1)
    assert len(slept) == len(server.asked) - 1


def test_what_was_not_answered_is_sent_again_only_where_that_is_harmless(
    stranger: Callable[..., Stranger], token: Path
) -> None:
    server = stranger(0, b"")
    desk = FarDesk(server.url, token, sleep=lambda seconds: None)
    asked: list[tuple[Callable[[], Any], int]] = [
        (lambda: desk.submit(ANN, WISH), TRIES_MAX),
        (lambda: desk.submit(ANN, WISH, key="k"), TRIES_MAX),
        (lambda: desk.submit(ANN, WISH, count=2), 1),
        (lambda: desk.cancel(ANN, 1), TRIES_MAX),
        (lambda: desk.extend(ANN, 1, 60), 1),
    ]
    for ask, times in asked:
        server.asked.clear()
        with pytest.raises(Unanswered):
            ask()
        assert len(server.asked) == times
        keys = {headers.get("Idempotency-Key") for _, headers in server.asked}
        assert len(keys) == 1


def test_the_same_verbs_work_at_a_server_far_away(server: ApiServer, tmp_path: Path) -> None:
    job = server.ran("ann", stdout=b"hello\n")
    environ = {
        "HOME": str(tmp_path),
        "GLIDEPATH_SERVER": server.url,
        "GLIDEPATH_TOKEN_FILE": str(token_of(server, "ann")),
    }

    def ran(*words: str, **more: str) -> tuple[int, str, str]:
        out, err = io.StringIO(), io.StringIO()
        here = Terminal(out, err, {**environ, **more}, lambda seconds: None, lambda: 0.0)
        return int(main(list(words), caller=here)), out.getvalue(), err.getvalue()

    assert ran("job", "logs", str(job)) == (0, "hello\n", "")
    assert ran("job", "list", "-o", "name") == (0, f"{job}\n", "")
    assert json.loads(ran("job", "show", str(job), "-o", "json")[1])["items"][0]["state"] == "done"
    assert ran("job", "wait", str(job))[0] == 0
    words = ("--partition", "main", "--start-after", "+2h", "--", "true")
    assert ran("job", "submit", "--server", server.url, *words, GLIDEPATH_SERVER="")[:2] == (0, "2\n")
    assert ran("job", "cancel", "2")[:2] == (0, "ID  BEFORE  STATE\n 2  queued  cancelled\n")
    assert ran("job", "show", "99") == (
        4,
        "",
        "glidepath: there is no job 99; one that is over is kept for 90d after its end; "
        "`glidepath job list --all` shows those that are kept\n",
    )
    code, _, said = ran("queue", "pause", "batch")
    assert (code, said) == (1, "glidepath: the role `user` may not pause a queue; `operator` may\n")
    code, _, said = ran("job", "submit", "--dry-run", "--", "true")
    assert (code, said) == (2, "glidepath: what a server far away would do is told by `--test-only`\n")
    assert ran("explain", str(job)) == (0, f"job `{job}` is over, done\n", "")
    assert ran("explain", "99")[::2] == (4, ran("job", "show", "99")[2])
    code, _, said = ran("explain", "west", "--server", server.url)
    assert (code, said.splitlines()[0]) == (
        2,
        "glidepath: a server far away explains jobs by their number, and `west` is none",
    )
    # What is no job is asked of this home, where no server is named but by the surroundings.
    assert "there is no store at" in ran("explain", "west", GLIDEPATH_HOME=str(tmp_path / "none"))[2]
    assert ran("job", "submit", "--server", server.url, "--partition", "pulled", "--", "true")[1] == "3\n"
    said = ran("explain", "3")[1]
    assert "job 3 (ann) is queued" in said
    assert "decided: that is told where glidepath runs, not from far" in said
    # A home that is named is meant.
    assert ran("job", "list", "--home", str(tmp_path / "none"))[0] == 4
    assert not (tmp_path / "none").exists()
