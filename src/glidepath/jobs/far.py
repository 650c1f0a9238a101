"""The desk of a server far away: the same questions over HTTP, the same items and refusals come back.

Who asks is whoever the token belongs to; the caller that is handed in is not looked at. Servers are checked
by their certificates, no redirect is followed, and no answer is read beyond its bound.
"""

from __future__ import annotations

import json
import secrets
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from http.client import HTTPException, HTTPMessage
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import quote, urlencode

from glidepath.config.address import checked_url
from glidepath.core.text import one_line
from glidepath.jobs.caller import Caller
from glidepath.jobs.desk import (
    ANSWER_S_MAX,
    Asked,
    Item,
    JobDesk,
    LogAsked,
    LogPiece,
    NoticeDesk,
    Submitted,
    UsageAsked,
    What,
    WindowMove,
    WindowWish,
    Word,
)
from glidepath.jobs.errors import Clash, DeskError, Forbidden, Unanswered, Unknown, Unusable
from glidepath.jobs.submission import Submission, written
from glidepath.straight import read_token, straight_opener

ANSWER_BYTES_MAX = 64 << 20
WORDS_LETTERS_MAX = 300
PLACES_MAX = 100
# Beside what the server itself may wait for the scheduler.
SILENT_S_MAX = 30.0
WAIT_S_MAX = 60.0
PAGE_MAX = 1000
PAGES_MAX = 1000
# What may be sent again is, where no answer came; a pause is twice as long as the one before.
TRIES_MAX = 3
PAUSE_S = 0.5
NEW_TOKEN = "an admin there makes one: `glidepath person issue NAME --to FILE`"
KINDS: dict[str, type[DeskError]] = {
    "unknown": Unknown,
    "forbidden": Forbidden,
    "not known": Forbidden,
    "clash": Clash,
    "too often": Unanswered,
    "unanswered": Unanswered,
}


class FarDesk(JobDesk):
    """Of one server, with the token in a file, which may be replaced while we run."""

    def __init__(
        self, server: str, token_path: Path, *, ca_file: str = "", sleep: Callable[[float], None] = time.sleep
    ) -> None:
        try:
            checked_url(server, example="https://jobs.example.org", why="a token would be sent in the open")
        except ValueError as error:
            raise Unusable(f"the server `{one_line(server)}` {error}") from None
        self._server = server.rstrip("/")
        self._token_path, self._ca_file, self._sleep = token_path, ca_file, sleep
        self._newest = 0

    @property
    def notices(self) -> FarNotices:
        return FarNotices(self)

    # Submitting.

    def submit(
        self, caller: Caller, wish: Submission, *, key: str = "", count: int = 1, wait_s: float = ANSWER_S_MAX
    ) -> Submitted:
        # With a key of ours a submission whose answer was lost is sent again, and is the same job.
        ours = secrets.token_urlsafe(18) if not key and count == 1 else ""
        sent = {"Idempotency-Key": key or ours} if key or ours else {}
        wait_s = max(0.0, min(wait_s, WAIT_S_MAX))
        path = f"/jobs?{urlencode({'count': count, 'wait': wait_s})}"
        said = self._asked("POST", path, written(wish), headers=sent, again=bool(sent), wait_s=wait_s)
        new = bool(said["new"]) or bool(ours)
        return Submitted(tuple(said["jobs"]), new, bool(said["answered"]), str(said["say"]))

    def test(self, caller: Caller, wish: Submission) -> Item:
        return self._item("POST", "/jobs/test", written(wish))

    # Looking.

    def list(self, caller: Caller, asked: Asked) -> Sequence[Item]:
        """As many pages as it takes."""
        narrowed = {
            "mine": "true" if asked.mine else None,
            "owner": asked.owner,
            "project": asked.project,
            "state": asked.state,
            "partition": asked.partition,
            "starts": "true" if asked.starts else None,
        }
        found: list[Item] = []
        below = asked.below
        for _ in range(-(-asked.limit // PAGE_MAX)):
            limit = min(asked.limit - len(found), PAGE_MAX)
            said = self._look("/jobs", {**narrowed, "below": below, "limit": limit})
            found = [*said["jobs"], *found]
            below = said["below"]
            if below is None or len(found) >= asked.limit:
                break
        return found

    def show(self, caller: Caller, job: int) -> Item:
        return self._item("GET", f"/jobs/{job}")

    def explain(self, caller: Caller, job: int) -> Item:
        return self._item("GET", f"/jobs/{job}/explain")

    def events(
        self, caller: Caller, *, job: int | None = None, after: int = 0, limit: int = PAGE_MAX
    ) -> Sequence[Item]:
        of = "" if job is None else f"/jobs/{job}"
        found: Sequence[Item] = self._look(f"{of}/events", {"after": after, "limit": limit})["events"]
        return found

    def newest(self) -> int:
        """Of those that whoever asks may see."""
        for _ in range(PAGES_MAX):
            said = self._look("/events", {"after": self._newest, "limit": PAGE_MAX})
            self._newest = int(said["after"])
            if len(said["events"]) < PAGE_MAX:
                break
        return self._newest

    def log(self, caller: Caller, job: int, asked: LogAsked) -> LogPiece:
        query = {
            "stream": "stderr" if asked.stderr else "stdout",
            "attempt": asked.attempt,
            "offset": asked.offset,
            "bytes": asked.bytes_max,
        }
        path = f"/jobs/{job}/ranks/{asked.rank}/log?{_query(query)}"
        content, headers = self._sent("GET", path, None, {}, again=True)
        try:
            start, end, size, attempt = (
                int(headers[f"Glidepath-{name}"]) for name in ("Log-Start", "Log-End", "Log-Size", "Attempt")
            )
        except (TypeError, ValueError):
            raise Unanswered(f"`{self._server}` answers like no server of jobs") from None
        return LogPiece(content, start, end, size, attempt, headers["Glidepath-Log-Over"] == "true")

    def usage(self, caller: Caller, asked: UsageAsked) -> Item:
        narrowed = {"owner": asked.owner, "project": asked.project, "partition": asked.partition}
        span = {"since": asked.since, "until": asked.until or None, "step": asked.step}
        return self._look("/usage", {"by": ",".join(asked.by) or None, **span, **narrowed})

    def queues(self, caller: Caller) -> Sequence[Item]:
        return self._rows("queues")

    def partitions(self, caller: Caller) -> Sequence[Item]:
        return self._rows("partitions")

    def nodes(self, caller: Caller) -> Sequence[Item]:
        return self._rows("nodes")

    # Changing.

    def cancel(self, caller: Caller, job: int, *, dry: bool = False) -> Item:
        return self._item("POST", f"/jobs/{job}/cancel", {"dry": dry}, again=True)

    def extend(
        self, caller: Caller, job: int, limit_s: int, *, forced: bool = False, dry: bool = False
    ) -> Item:
        wish = {"limit": limit_s, "force": forced, "dry": dry}
        return self._item("POST", f"/jobs/{job}/extend", wish, wait_s=ANSWER_S_MAX)

    def word(
        self, caller: Caller, what: What, name: str, word: Word, *, why: str = "", dry: bool = False
    ) -> Item:
        path = f"/{what}s/{quote(name, safe='')}/{word}"
        return self._item("POST", path, {"why": why, "dry": dry}, again=True)

    # The calendar of windows.

    def windows(self, caller: Caller, *, over: bool = False) -> Sequence[Item]:
        found: Sequence[Item] = self._look("/windows", {"over": "true" if over else None})["windows"]
        return found

    def window(self, caller: Caller, number: int) -> Item:
        return self._item("GET", f"/windows/{number}")

    def add_window(self, caller: Caller, wish: WindowWish, *, dry: bool = False) -> Item:
        sent = {**_times(wish), "nodes": list(wish.nodes), "all": wish.everywhere, "cluster": wish.cluster}
        sent |= {"projects": list(wish.projects), "people": list(wish.people)}
        return self._item("POST", "/windows", {**sent, "dry": dry})

    def move_window(self, caller: Caller, number: int, move: WindowMove, *, dry: bool = False) -> Item:
        sent = {**_times(move), "version": move.version, "dry": dry}
        return self._item("POST", f"/windows/{number}/move", sent)

    def cancel_window(
        self, caller: Caller, number: int, version: int | None, *, why: str = "", dry: bool = False
    ) -> Item:
        return self._item("POST", f"/windows/{number}/cancel", {"version": version, "why": why, "dry": dry})

    # The way there and back.

    def ask(self, method: str, path: str, body: Any = None, *, again: bool = False) -> Item:
        """For the parts of this desk."""
        return self._item(method, path, body, again=again)

    def _look(self, path: str, query: Mapping[str, object]) -> Item:
        return self._item("GET", f"{path}?{_query(query)}")

    def _rows(self, name: str) -> Sequence[Item]:
        found: Sequence[Item] = self._asked("GET", f"/{name}", again=True)[name]
        return found

    def _item(
        self, method: str, path: str, body: Any = None, *, again: bool = False, wait_s: float = 0.0
    ) -> Item:
        said: Item = self._asked(method, path, body, again=again or method == "GET", wait_s=wait_s)
        return said

    def _asked(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        headers: Mapping[str, str] | None = None,
        again: bool,
        wait_s: float = 0.0,
    ) -> Any:
        content, _ = self._sent(method, path, body, headers or {}, again=again, wait_s=wait_s)
        try:
            said = json.loads(content)
        except ValueError:
            said = None
        if not isinstance(said, dict):
            raise Unanswered(f"`{self._server}` answers like no server of jobs")
        return said

    def _sent(
        self,
        method: str,
        path: str,
        body: Any,
        headers: Mapping[str, str],
        *,
        again: bool,
        wait_s: float = 0.0,
    ) -> tuple[bytes, HTTPMessage]:
        sent = {"Accept": "application/json", "User-Agent": "glidepath", **headers}
        data = None
        if body is not None:
            data, sent["Content-Type"] = json.dumps(body).encode(), "application/json"
        pause_s = PAUSE_S
        for left in reversed(range(TRIES_MAX if again else 1)):
            sent["Authorization"] = f"Bearer {self._token()}"
            request = urllib.request.Request(
                f"{self._server}/api/v1{path}", data=data, headers=sent, method=method
            )
            try:
                with self._opener.open(request, timeout=wait_s + SILENT_S_MAX) as answer:
                    content = answer.read(ANSWER_BYTES_MAX + 1)
                    if len(content) > ANSWER_BYTES_MAX:
                        raise Unanswered(f"an answer of `{self._server}` is too long")
                    return content, answer.headers
            except urllib.error.HTTPError as error:
                with error:
                    self._refused(error)
            except (OSError, HTTPException) as error:
                if left:
                    self._sleep(pause_s)
                    pause_s *= 2
                    continue
                cause = one_line(str(getattr(error, "reason", error)) or type(error).__name__)
                raise Unanswered(f"the server `{self._server}` does not answer: {cause}") from None
        raise AssertionError("the last try returns or raises")

    def _token(self) -> str:
        try:
            return read_token(self._token_path, of="a person")
        except FileNotFoundError:
            raise Unusable(f"there is no token at `{self._token_path}`; {NEW_TOKEN}") from None
        except (OSError, ValueError) as error:
            raise Unusable(str(error)) from None

    def _refused(self, error: urllib.error.HTTPError) -> NoReturn:
        text = error.read(ANSWER_BYTES_MAX)
        try:
            said = json.loads(text)
            why, kind = one_line(str(said["error"]), letters_max=2000), str(said["kind"])
            places = tuple((str(one["place"]), str(one["why"])) for one in said["places"][:PLACES_MAX])
            hint = one_line(str(said.get("hint", "")), letters_max=WORDS_LETTERS_MAX)
        except (ValueError, TypeError, KeyError):
            words = one_line(text.decode("utf-8", "replace").strip(), letters_max=WORDS_LETTERS_MAX)
            raise Unanswered(f"the server `{self._server}` answers HTTP {error.code}: {words}") from None
        if kind == "not known":
            hint = f"it is read from `{self._token_path}`; {NEW_TOKEN}"
        if kind in KINDS:
            raise KINDS[kind](why, hint=hint)
        raise Unusable(why, places)

    @cached_property
    def _opener(self) -> urllib.request.OpenerDirector:
        return straight_opener(self._ca_file)


@dataclass(frozen=True)
class FarNotices(NoticeDesk):
    """Where notices are wanted, of whoever the token belongs to."""

    desk: FarDesk

    def list(self, caller: Caller) -> Sequence[Item]:
        found: Sequence[Item] = self.desk.ask("GET", "/notices")["notices"]
        return found

    def show(self, caller: Caller, name: str) -> Item:
        return self.desk.ask("GET", f"/notices/{quote(name, safe='')}")

    def set(
        self, caller: Caller, to: str, *, name: str = "", on: Sequence[str] = (), dry: bool = False
    ) -> Item:
        # Not sent again by itself: the secret of a webhook is only in the first answer.
        return self.desk.ask("POST", "/notices", {"to": to, "name": name, "on": list(on), "dry": dry})

    def test(self, caller: Caller, name: str, *, dry: bool = False) -> Item:
        return self.desk.ask("POST", f"/notices/{quote(name, safe='')}/test", {"dry": dry}, again=True)

    def remove(self, caller: Caller, name: str, *, dry: bool = False) -> Item:
        return self.desk.ask("POST", f"/notices/{quote(name, safe='')}/remove", {"dry": dry})


def _times(said: WindowWish | WindowMove) -> Item:
    return {"starts": said.starts, "ends": said.ends, "lasts": said.lasts_s, "why": said.why}


def _query(given: Mapping[str, object]) -> str:
    return urlencode({name: value for name, value in given.items() if value is not None})
