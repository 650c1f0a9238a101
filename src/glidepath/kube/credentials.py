"""Credentials that change while we run: tokens in files are read again, plug-ins are run again.

An `Access` comes in, tokens and certificates go out. A plug-in has a deadline and is killed with its group.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import IO

from glidepath.core.text import one_line
from glidepath.kube.access import EXEC_KINDS, Access, ExecPlugin, content_of
from glidepath.kube.errors import AccessError

# The kubelet renews a pod's token when four fifths of its life are over; a minute is soon enough.
FILE_EVERY_S = 60.0
TOKEN_BYTES_MAX = 64 << 10
PLUGIN_S_MAX = 30.0
ANSWER_BYTES_MAX = 1 << 20
# So long before its end a credential is renewed: requests take time, and clocks differ.
EARLY_S = 60.0
# A plug-in that fails, or whose credentials are of no use, is not run for every request.
FAILED_REST_S = 5.0
READ_BYTES = 64 << 10
# How often it is looked whether a plug-in that closed its output has ended.
LOOK_S = 0.02


@dataclass(frozen=True, slots=True)
class Credential:
    """Secrets are not shown when this is printed."""

    token: str = field(default="", repr=False)
    certificate: str = field(default="", repr=False)
    key: str = field(default="", repr=False)
    ends_s: float | None = None  # by the wall clock


class Credentials:
    """The identity of the moment, for all threads."""

    def __init__(
        self,
        access: Access,
        *,
        mono: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        environ: Mapping[str, str] = os.environ,
        plugin_s_max: float = PLUGIN_S_MAX,
    ) -> None:
        self._access, self._mono, self._wall, self._environ = access, mono, wall, environ
        self._plugin_s_max = plugin_s_max
        self._lock = threading.Lock()
        self._kept: Credential | None = None
        self._is_refused = False
        self._read_at = 0.0
        self._failed: tuple[float, str] | None = None

    def now(self) -> Credential:
        """Raises AccessError where none can be had."""
        with self._lock:
            kept = self._kept
            if kept is not None and not self._is_due(kept):
                return kept
            try:
                self._kept, self._is_refused = self._renewed(), False
            except AccessError:
                # As long as the server takes the one we have, nothing is lost.
                if kept is None or self._is_refused or self._has_ended(kept):
                    raise
            assert self._kept is not None
            return self._kept

    def refused(self, used: Credential) -> None:
        """The server does not know this one: the next is read or made anew, unless somebody has done so."""
        with self._lock:
            if self._kept is used:
                self._is_refused = True

    def _has_ended(self, kept: Credential, early_s: float = 0.0) -> bool:
        return kept.ends_s is not None and self._wall() > kept.ends_s - early_s

    def _is_due(self, kept: Credential) -> bool:
        age_s = self._mono() - self._read_at
        if self._access.plugin is not None:
            over = self._is_refused or self._has_ended(kept, EARLY_S)
            # One that is refused or over as soon as it is made would be so again.
            return over and age_s >= FAILED_REST_S
        return self._is_refused or (self._access.token_file is not None and age_s > FILE_EVERY_S)

    def _renewed(self) -> Credential:
        access = self._access
        if access.plugin is not None:
            return self._from_plugin(access.plugin)
        self._read_at = self._mono()
        token = access.token
        if access.token_file is not None:
            token = content_of(access.token_file, TOKEN_BYTES_MAX).strip()
            if not token:
                raise AccessError(
                    f"the token `{access.token_file}` is empty; whoever writes it should see to it"
                )
        return Credential(_plain(token), access.certificate, access.key)

    def _from_plugin(self, plugin: ExecPlugin) -> Credential:
        if self._failed is not None and self._mono() - self._failed[0] < FAILED_REST_S:
            raise AccessError(self._failed[1])
        try:
            made = _credential(_run(plugin, self._environ, self._plugin_s_max), plugin)
        except AccessError as error:
            self._failed = (self._mono(), str(error))
            raise
        self._failed, self._read_at = None, self._mono()
        return made


def _run(plugin: ExecPlugin, environ: Mapping[str, str], limit_s: float) -> bytes:
    """What it printed. Whatever it started ends with it, however it ends."""
    asked = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": {"interactive": False}}
    told = {**environ, **dict(plugin.environ), "KUBERNETES_EXEC_INFO": json.dumps(asked)}
    shown = f"the credential plug-in `{one_line(plugin.command)}`"
    try:
        run = subprocess.Popen(
            [plugin.command, *plugin.arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=told,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "its words are no command"
        hint = f". {one_line(plugin.hint)}" if plugin.hint else ""
        raise AccessError(f"{shown} cannot be started: {why}{hint}") from None
    assert run.stdout is not None
    assert run.stderr is not None
    try:
        out, err = _printed(run.stdout, run.stderr, run.pid, limit_s)
    except TimeoutError:
        raise AccessError(f"{shown} did not end within {limit_s:g} s; it was ended") from None
    finally:
        # Before it is waited for: until then the number of the group can be nobody else's.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(run.pid, signal.SIGKILL)
        run.wait()
        run.stdout.close()
        run.stderr.close()
    if len(out) > ANSWER_BYTES_MAX:
        raise AccessError(f"{shown} printed more than {ANSWER_BYTES_MAX >> 20} MiB; that is no credential")
    if run.returncode:
        said = one_line(err.decode("utf-8", "replace").strip(), letters_max=200)
        raise AccessError(f"{shown} ended with exit code {run.returncode}: {said or 'it said nothing'}")
    return out


def _printed(stdout: IO[bytes], stderr: IO[bytes], pid: int, limit_s: float) -> tuple[bytes, bytes]:
    """Until it has ended, or prints too much. A child that it left behind is not waited for."""
    until = time.monotonic() + limit_s
    said = {stdout.fileno(): bytearray(), stderr.fileno(): bytearray()}
    with selectors.DefaultSelector() as waiting:
        for number in said:
            os.set_blocking(number, False)
            waiting.register(number, selectors.EVENT_READ)
        while time.monotonic() < until:
            # Asked before reading: what it printed before its end is then all there.
            over = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
            for ready, _ in waiting.select(0 if over else LOOK_S):
                part = os.read(ready.fd, READ_BYTES)
                if not part:
                    waiting.unregister(ready.fd)
                elif ready.fd == stdout.fileno():
                    said[ready.fd] += part
                else:
                    said[ready.fd] = (said[ready.fd] + part)[-TOKEN_BYTES_MAX:]
                over = False if part else over
            if over or len(said[stdout.fileno()]) > ANSWER_BYTES_MAX:
                return bytes(said[stdout.fileno()]), bytes(said[stderr.fileno()])
    raise TimeoutError


def _credential(answer: bytes, plugin: ExecPlugin) -> Credential:
    """What went wrong is told without what was printed: it may be a token."""
    shown = f"the credential plug-in `{one_line(plugin.command)}`"
    try:
        found = json.loads(answer)
    except (ValueError, RecursionError):
        raise AccessError(f"{shown} printed no JSON; it should print an `ExecCredential`") from None
    status = found.get("status") if isinstance(found, dict) else None
    if not isinstance(status, dict) or found.get("kind") != "ExecCredential":
        raise AccessError(f"{shown} printed no `ExecCredential` with a `status`")
    if found.get("apiVersion") not in EXEC_KINDS:
        raise AccessError(
            f"{shown} printed an `ExecCredential` of another version; {plugin.api_version} was asked for"
        )
    names = ("token", "clientCertificateData", "clientKeyData", "expirationTimestamp")
    values = [status.get(name) or "" for name in names]
    if not all(isinstance(value, str) for value in values):
        raise AccessError(f"{shown} printed something else than texts as a credential")
    token, certificate, key, ends = values
    if not token and not (certificate and key):
        raise AccessError(f"{shown} printed neither a token nor a certificate with its key")
    if bool(certificate) != bool(key):
        raise AccessError(f"{shown} printed a certificate without its key, or the other way round")
    return Credential(_plain(token), certificate, key, _ends_s(ends, shown))


def _ends_s(text: str, shown: str) -> float | None:
    if not text:
        return None
    try:
        ends = datetime.fromisoformat(text)
        return (ends if ends.tzinfo else ends.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise AccessError(f"{shown} printed an `expirationTimestamp` that is no time") from None


def _plain(token: str) -> str:
    """It becomes part of a header; anything but plain letters would be something else."""
    if not all("!" <= letter <= "~" for letter in token):
        raise AccessError("the token has letters that no token has; it is not used")
    return token
