"""Commands run on a host over one shared connection of OpenSSH: words come in, how they ended goes out.

Whether something may have happened is known for sure: the shell there is given its line only once it has
greeted, and the line is run as a whole or not at all. A command at its limit is left alone with its session;
the connection stays. It refuses to know what the commands mean.
"""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from glidepath.core.text import one_line
from glidepath.core.units import shown_duration
from glidepath.ports import Connection
from glidepath.remote import across
from glidepath.remote.child import Ended, ended
from glidepath.remote.runner import NotSent, Ran
from glidepath.remote.settings import SshSettings
from glidepath.remote.shared import LOGIN_S, Shared
from glidepath.remote.trouble import last_line

# After each of them nothing was sent, so that another does no harm: a connection that died unnoticed, or a
# server that has no session left for a moment.
TRIES_MAX = 8
# Doubled from try to try: a session that ended a moment ago is not free at once.
PAUSE_S = 0.1
# In less time no login node answers, and why the last try failed says more than that this one did.
TRY_S_MIN = 1.0
# Who waited longer than this for a greeting takes the connection for dead; a busy login node needs seconds
# to start a shell.
SILENT_S = 5.0
# For a command that does nothing; a busy login node takes seconds to start a shell.
TRIAL_S = 30.0
_NO_SESSION = ("Session open refused by peer", "open failed", "no more sessions")


class SshRunner:
    """One host, reached by ssh; may be used from several threads."""

    def __init__(
        self,
        settings: SshSettings,
        *,
        environ: Mapping[str, str],
        folder: Path,
        site: str = "SITE",
        wall: Callable[[], float] = time.time,
    ) -> None:
        assert settings.host
        self._settings = settings
        self._shared = Shared(settings, environ=environ, folder=folder, site=site, wall=wall)
        self._sessions = threading.BoundedSemaphore(settings.sessions)

    def run(self, argv: Sequence[str], *, given: bytes = b"", limit_s: float) -> Ran:
        words = list(argv)
        if not words or any("\0" in word for word in words):
            raise ValueError("a command needs a word, and no word can hold a zero byte")
        deadline = time.monotonic() + limit_s
        if not self._sessions.acquire(timeout=limit_s):
            own = self._settings
            raise NotSent(f"all {own.sessions} sessions at `{own.host}` were busy for {limit_s:g} s")
        try:
            return self._run(words, given, deadline)
        finally:
            self._sessions.release()

    def close(self) -> None:
        """A connection that a person or another program opened stays."""
        self._shared.leave()

    def connection(self) -> Connection:
        own, is_open = self._settings, self._shared.is_open()
        why = "" if is_open else self._shared.why_closed()
        return Connection(own.host, own.login, is_open, own.keep, why)

    def login(self, say: Callable[[str], None]) -> Connection:
        """With questions wherever somebody can answer them, although a key may do: the host may be new."""
        host = self._settings.host
        if self._shared.is_open():
            say(f"a connection to `{host}` is open already; a command is tried on it")
            try:
                return self._tried(say)
            except NotSent as error:
                say(f"{error}; it is replaced")
                self._shared.end()
        if _can_ask(self._shared.environ):
            say(f"connecting to `{host}`; ssh asks here for what it needs")
            self._shared.asked()
        elif self._settings.login == "key":
            say(f"connecting to `{host}` with a key; there is no terminal to ask in")
            self._shared.opened(time.monotonic() + self._settings.connect + LOGIN_S, now=True)
        else:
            raise NotSent(f"`{host}` asks a person, and this is no terminal; log in from one")
        self._shared.stay()
        say("logged in; a command is tried")
        return self._tried(say)

    def logout(self) -> Connection:
        self._shared.end()
        return self.connection()

    def _tried(self, say: Callable[[str], None]) -> Connection:
        ran = self.run(["true"], limit_s=TRIAL_S)
        if ran.code != 0:
            raise NotSent(f"`true` did not end well at `{self._settings.host}`: {ran.code}")
        say(f"it ran; the connection stays open for {shown_duration(self._settings.keep)} after its last use")
        return self.connection()

    def _run(self, words: list[str], given: bytes, deadline: float) -> Ran:
        why = ""
        for tried in range(TRIES_MAX):
            self._shared.ready(deadline)
            left_s = deadline - time.monotonic()
            if left_s <= (TRY_S_MIN if tried else 0):
                break
            mark = f"glidepath-{secrets.token_hex(8)}"
            line = across.line(words, given=given, path=self._settings.path, limit_s=left_s)
            end = ended(
                self._shared.carrier(across.greeting(mark)),
                given=line,
                limit_s=left_s,
                environ=self._shared.environ,
                marks=across.marks(mark),
            )
            if end.fed:
                return self._answer(words[0], across.heard(end, mark))
            why = self._unsent(end, left_s)
            time.sleep(max(0.0, min(PAUSE_S * (1 << tried), deadline - time.monotonic())))
        raise NotSent(why or f"there was no time left to ask `{self._settings.host}`; nothing was sent")

    def _answer(self, word: str, heard: across.Heard) -> Ran:
        if heard.word == across.ABSENT:
            raise NotSent(
                f"`{one_line(word)}` is not on `{self._settings.host}`, or not where a command by ssh finds "
                "it; set `path` in the site's `ssh` table to its folder"
            )
        return heard.ran()

    def _unsent(self, end: Ended, limit_s: float) -> str:
        """Why nothing was sent, where another try may help; raises NotSent where it would not."""
        host = self._settings.host
        said = end.err.decode("utf-8", "replace")
        if end.code is None:
            if self._settings.login == "key" and limit_s > SILENT_S:
                # It may be half open, and nobody knows for how long; a new one costs one login.
                self._shared.retire()
            raise NotSent(f"`{host}` gave no answer within {limit_s:.0f} s; nothing was sent")
        if any(word in said for word in _NO_SESSION):
            return (
                f"`{host}` has no session left on this connection; make `sessions` smaller than its "
                "`MaxSessions`, and use it for nothing else"
            )
        if not self._shared.is_open():
            return f"the connection to `{host}` broke before anything was sent"
        if end.code == 255:
            return f"no session at `{host}`: {last_line(said)}"
        shell = one_line(_last_words(end)) or "nothing"
        raise NotSent(
            f"the shell of `{host}` ended with {end.code} before it did anything, and said `{shell}`; the "
            "account must be able to run commands by ssh"
        )


def _can_ask(environ: Mapping[str, str]) -> bool:
    """At a terminal, or by a program that a person has set up for it."""
    if "SSH_ASKPASS" in environ and environ.get("SSH_ASKPASS_REQUIRE") in ("force", "prefer"):
        return True
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def _last_words(end: Ended) -> str:
    for text in (end.err, end.out):
        lines = text.decode("utf-8", "replace").strip().splitlines()
        if lines:
            return lines[-1].strip()
    return ""
