"""A cloud by its own program: words with their places filled come in, what it printed goes out.

No shell, no terminal, an environment that is written out, and an end in time, whatever the program does.
"""

from __future__ import annotations

import os
import selectors
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from glidepath.cloud.answers import rows_of
from glidepath.cloud.door import ANSWER_BYTES_MAX, CloudError, Said, Verb
from glidepath.cloud.key import without
from glidepath.cloud.places import OF_KEY, Values, filled, filled_words, hidden, parts_of
from glidepath.cloud.settings import CommandSettings, ListingSettings
from glidepath.core.text import one_line

PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "USER", "LOGNAME", "TZ", "TMPDIR")
CHUNK_BYTES = 64 << 10
ERROR_BYTES_MAX = 64 << 10
POLL_S = 0.1
# A program that has ended may have left a child that keeps its output open; nobody waits for that one.
LINGER_S = 0.5


@dataclass(frozen=True, slots=True)
class Ended:
    """No code: it was stopped at its deadline."""

    code: int | None
    out: bytes
    err: bytes


class CommandDoor:
    """The programs that the settings name."""

    def __init__(
        self,
        settings: CommandSettings,
        listing: ListingSettings,
        key: Callable[[], str],
        *,
        environ: Mapping[str, str],
    ) -> None:
        self._settings, self._listing, self._key = settings, listing, key
        self._environ = {name: environ[name] for name in PASSED_ON if name in environ}

    def knows(self, verb: Verb) -> bool:
        return bool(self._words(verb))

    def ask(self, verb: Verb, values: Values, *, deadline: float, gpus: bool = False) -> Said:
        words = filled_words(self._words(verb, gpus=gpus), values)
        key = self._key()
        secrets = (key, *(value for name, value in values.items() if name in ("bundle", "token")))
        ended = self._run(words, self._env(verb, {**values, "key": key}), deadline)
        said = f"`{one_line(shlex.join(words[:3]))}`"
        told = without((ended.err + b"\n" + ended.out).decode("utf-8", "replace"), secrets)
        last = one_line(_last_line(told))
        if ended.code is None:
            raise CloudError(f"{said} gave no answer in time; it was stopped", unclear=True)
        if ended.code:
            raise CloudError(f"{said} ended with {ended.code}: {last}", **self._meant(verb, told))
        if len(ended.out) > ANSWER_BYTES_MAX:
            raise CloudError(f"{said} prints more than {ANSWER_BYTES_MAX >> 20} MiB", unclear=True)
        text = without(ended.out.decode("utf-8", "replace"), secrets)
        if verb in (Verb.LIST, Verb.SHOW):
            return Said(rows=rows_of(text, self._listing, alone=verb is Verb.SHOW))
        return Said(text)

    def rendered(self, verb: Verb, values: Values, *, gpus: bool = False) -> str:
        shown = hidden(values)
        env = self._env(verb, {**values, **hidden({**values, "key": "key"})})
        own = [f"{name}={env[name]}" for name in sorted(self._settings.env) if name in env]
        return shlex.join([*own, *filled_words(self._words(verb, gpus=gpus), shown)])

    def _words(self, verb: Verb, *, gpus: bool = False) -> tuple[str, ...]:
        words: tuple[str, ...] = tuple(getattr(self._settings, verb.value))
        return words + tuple(self._settings.submit_gpus) if gpus else words

    def _env(self, verb: Verb, values: Values) -> dict[str, str]:
        """What tells of a pilot is there only for the program that starts it."""
        env = dict(self._environ)
        for name, template in self._settings.env.items():
            places = {field for _, field, _ in parts_of(template) if field}
            if verb is Verb.SUBMIT or places <= set(OF_KEY):
                env[name] = filled(template, values)
        return env

    def _meant(self, verb: Verb, told: str) -> dict[str, bool]:
        lower = told.lower()
        if verb is Verb.SUBMIT:
            return {"refused": any(word.lower() in lower for word in self._settings.refused)}
        return {"gone": any(word.lower() in lower for word in self._settings.gone)}

    def _run(self, words: list[str], env: dict[str, str], deadline: float) -> Ended:
        if time.monotonic() >= deadline:
            raise CloudError("there was no time left to ask the cloud", sent=False)
        try:
            started = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd="/",
                env=env,
                start_new_session=True,
            )
        except OSError as error:
            raise CloudError(
                f"`{one_line(words[0])}` cannot be started: {error.strerror}", sent=False
            ) from None
        with started:
            try:
                out, err = _heard(started, deadline)
                code: int | None = started.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired as error:
                code, out, err = None, error.output or b"", b""
            finally:
                if started.poll() is None:
                    # The whole group: a program of this kind is often a script around another.
                    with suppress(ProcessLookupError):
                        os.killpg(started.pid, signal.SIGKILL)
        return Ended(code, out, err)


def _heard(started: subprocess.Popen[bytes], deadline: float) -> tuple[bytes, bytes]:
    """Both outputs to their ends, bounded; raises TimeoutExpired at the deadline."""
    assert started.stdout is not None
    assert started.stderr is not None
    parts: dict[str, bytearray] = {"out": bytearray(), "err": bytearray()}
    # One more than may be, so that too much is noticed.
    most = {"out": ANSWER_BYTES_MAX + 1, "err": ERROR_BYTES_MAX}
    over_at: float | None = None
    with selectors.DefaultSelector() as both:
        both.register(started.stdout, selectors.EVENT_READ, "out")
        both.register(started.stderr, selectors.EVENT_READ, "err")
        while both.get_map():
            now = time.monotonic()
            if now >= deadline:
                raise subprocess.TimeoutExpired("", 0, bytes(parts["out"]))
            if over_at is not None and now >= over_at:
                break
            for key, _ in both.select(min(POLL_S, deadline - now)):
                part = os.read(key.fd, CHUNK_BYTES)
                if not part:
                    both.unregister(key.fileobj)
                room = most[key.data] - len(parts[key.data])
                parts[key.data] += part[: max(0, room)]
            if over_at is None and started.poll() is not None:
                over_at = time.monotonic() + LINGER_S
    return bytes(parts["out"]), bytes(parts["err"])


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "it printed nothing"
