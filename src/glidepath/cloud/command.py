"""A cloud by its own program: words with their places filled come in, what it printed goes out.

No shell, no terminal, an environment that is written out, and an end in time, whatever the program does.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Mapping

from glidepath.cloud.answers import rows_of
from glidepath.cloud.door import CloudError, Said, Verb
from glidepath.cloud.key import without
from glidepath.cloud.places import OF_KEY, Values, filled, filled_words, hidden, parts_of
from glidepath.cloud.settings import CommandSettings, ListingSettings
from glidepath.core.text import one_line
from glidepath.remote.child import Ended, ended
from glidepath.remote.runner import OUT_BYTES_MAX

PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "USER", "LOGNAME", "TZ", "TMPDIR")
# What a shell says where a program is not there or cannot be run: nothing that it prints is about a job.
NO_PROGRAM = frozenset({126, 127})


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
        end = self._run(words, self._env(verb, {**values, "key": key}), deadline)
        said = f"`{one_line(shlex.join(words[:3]))}`"
        if end.code is None:
            raise CloudError(f"{said} gave no answer in time; it was stopped", unclear=True)
        if end.code:
            told = without((end.out + b"\n" + end.err).decode("utf-8", "replace"), secrets)
            means = {} if end.code in NO_PROGRAM else self._meant(verb, told)
            raise CloudError(f"{said} ended with {end.code}: {one_line(_last_line(told))}", **means)
        if end.cut:
            raise CloudError(f"{said} prints more than {OUT_BYTES_MAX >> 20} MiB", unclear=True)
        text = without(end.out.decode("utf-8", "replace"), secrets)
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
        limit_s = deadline - time.monotonic()
        if limit_s <= 0:
            raise CloudError("there was no time left to ask the cloud", sent=False)
        try:
            return ended(words, given=b"", limit_s=limit_s, environ=env)
        except OSError as error:
            why = error.strerror or type(error).__name__
            raise CloudError(f"`{one_line(words[0])}` cannot be started: {why}", sent=False) from None


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "it printed nothing"
