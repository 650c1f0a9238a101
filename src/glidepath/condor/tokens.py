"""Tokens of pilots: minted for each by the pool's own tool, or supplied as a file by whoever runs the pool.

Settings, a pilot's name and its lifetime come in; the token file goes out, or RuntimeError with the reason: a
pilot that could not join must not be started. Tokens are read but not verified here, which is the collector's
business, and none of them ever stands in a message.
"""

from __future__ import annotations

import base64
import binascii
import fnmatch
import json
import os
import re
import signal
import stat
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import Field, ValidationError

from glidepath.config.fields import Span, Text, Word
from glidepath.config.tables import Table
from glidepath.core.quantity import PilotName, PoolName
from glidepath.core.text import one_line
from glidepath.core.units import shown_duration

if TYPE_CHECKING:
    from glidepath.condor.settings import CondorSettings
    from glidepath.ports import Place

RIGHTS = ("ADVERTISE_STARTD", "ADVERTISE_MASTER")
# READ is in every one of them anyway; more than this would let a thief do more than bring slots.
ADMITTED = frozenset({*RIGHTS, "READ"})
WARN_S = 7 * 86400
HOUR_S = 3600
MINT_S_MAX = 10.0
# Named as pilots are, so that whoever admits their names admits this one.
TRIAL = PilotName("gp-doctor")
TOKEN_BYTES_MAX = 64 * 1024
FILES_MAX = 100
# Two machines of one pool may differ by this; HTCondor itself bears as much.
CLOCK_S = 60
_TOKEN = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")
_SCOPE = "condor:/"
_UNFIT_LETTERS = re.compile(r"[^A-Za-z0-9_.-]")


class TokenSettings(Table):
    """How pilots of a pool get their tokens: `file` or `folder` where they are supplied, else minted."""

    file: Text = Field(
        default="", description="A token that whoever runs the pool supplies; read anew for each pilot."
    )
    folder: Text = Field(
        default="", description="A folder of such tokens; the one that lasts longest is used."
    )
    mint: Word = Field(
        default="condor_token_create",
        description="The program that mints tokens, beside the pool's signing key. It is called in the way "
        "of HTCondor's own.",
    )
    key: Text = Field(
        default="", description="Name of the signing key. One of its own can be withdrawn without the pool's."
    )
    each: Literal["pilot", "pool"] = Field(
        default="pilot",
        description="Whether each pilot has an identity of its own (`glidepath-PILOT`), so that one can be "
        "told from another, or all of a pool the same (`glidepath-POOL`).",
    )
    wait: Span = Field(
        default=HOUR_S,
        description="How long a pilot may wait in the site's queue before it starts; its token lasts as much "
        "longer.",
    )


@dataclass(frozen=True, slots=True)
class Claims:
    """What a token says of itself."""

    identity: str
    issuer: str
    rights: frozenset[str] | None  # None: everything that the identity may do
    starts_at: float
    ends_at: float | None  # None: never


@dataclass(frozen=True, slots=True)
class Supplied:
    """One file that a token is looked for in, and what is wrong with it, if anything."""

    path: Path
    trouble: str
    exposed: bool = False  # others than its owner can get at it
    ends_at: float | None = None  # None: never, or not known


def claims_of(token: str) -> Claims:
    """Raises ValueError where it is no token."""
    if not _TOKEN.fullmatch(token):
        raise ValueError("it is not a token")
    part = token.split(".")[1]
    try:
        found = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (binascii.Error, ValueError, RecursionError):
        raise ValueError("it is not a token") from None
    if not isinstance(found, dict):
        raise ValueError("it is not a token")
    times = [found.get("nbf", found.get("iat", 0)), found.get("exp")]
    if not all(time is None or (type(time) in (int, float) and 0 <= time < 1e12) for time in times):
        raise ValueError("it has times that are none")
    scope = found.get("scope")
    if scope is not None and not isinstance(scope, str):
        raise ValueError("it has rights that are no text")
    words = None if scope is None else scope.split()
    rights = None if words is None else frozenset(w.removeprefix(_SCOPE) for w in words if _SCOPE in w)
    names = [found.get("sub", ""), found.get("iss", "")]
    if not all(isinstance(name, str) and name for name in names):
        raise ValueError("it does not say whose it is and who made it")
    return Claims(names[0], names[1], rights, float(times[0] or 0), times[1])


def unfit(claims: Claims, *, domain: str, identity: str, now: float, needed_s: int) -> str:
    """Why a pilot with this token would not be of use; empty when it would be."""
    if domain and claims.issuer != domain:
        return f"it was made by `{one_line(claims.issuer)}`, not by `{one_line(domain)}`"
    if not fnmatch.fnmatchcase(claims.identity, identity):
        whose = one_line(claims.identity)
        return f"it is of `{whose}`, whose slots would be ignored: `identity` is `{one_line(identity)}`"
    if claims.rights is None:
        return f"it is not limited; a pilot's token has {' and '.join(RIGHTS)} and no more"
    if missing := [right for right in RIGHTS if right not in claims.rights]:
        return f"it lacks the right {' and '.join(missing)}"
    if more := sorted(claims.rights - ADMITTED):
        return f"it has more rights than a pilot may have: {one_line(', '.join(more))}"
    if claims.starts_at > now + CLOCK_S:
        return "it is not valid yet"
    if claims.ends_at is not None and claims.ends_at <= now:
        return f"it expired {shown_duration(int(now - claims.ends_at))} ago"
    if claims.ends_at is not None and claims.ends_at < now + needed_s:
        left = shown_duration(int(claims.ends_at - now))
        return f"it expires in {left}, and a pilot may need it for {shown_duration(needed_s)}"
    return ""


class Tokens:
    """The tokens of one pool. Nothing is read or run before it is asked."""

    def __init__(
        self,
        pool: PoolName,
        settings: CondorSettings,
        place: Place | None = None,
        *,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.pool = pool
        self.settings = settings
        self._told = settings.tokens
        self._wall = wall

    def _own(self) -> TokenSettings:
        try:
            return TokenSettings.model_validate(dict(self._told))
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in ("tokens", *first["loc"]))
            raise RuntimeError(f"the pool `{self.pool}`: `{where}`: {one_line(first['msg'])}") from None

    @property
    def identity(self) -> str:
        """The pattern by which the door tells our pilots from others."""
        return self.settings.identity or f"glidepath*@{self.settings.trust_domain or '*'}"

    def secrets(self, name: PilotName, *, lifetime_s: int) -> tuple[tuple[str, str], ...]:
        """The pilot's token as a file. Raises RuntimeError where it could not join, or not stay, with it."""
        own = self._own()
        needed_s = lifetime_s + self.settings.grace + own.wait
        if own.file or own.folder:
            token = self._supplied(own, needed_s)
        else:
            token = self._minted(own, name, needed_s)
        return ((f"{self.pool}.token", token + "\n"),)

    def _judged(self, token: str, needed_s: int) -> str:
        """Why not; empty when it will do."""
        try:
            claims = claims_of(token)
        except ValueError as error:
            return str(error)
        return unfit(
            claims,
            domain=self.settings.trust_domain,
            identity=self.identity,
            now=self._wall(),
            needed_s=needed_s,
        )

    def _supplied(self, own: TokenSettings, needed_s: int) -> str:
        why = "there is none"
        best: tuple[float, str] | None = None
        for path in _files(own):
            token = _read(path)
            trouble = self._judged(token, needed_s)
            if trouble:
                why = f"`{path}`: {trouble}"
                continue
            ends_at = claims_of(token).ends_at
            best = max(best or (0.0, ""), (float("inf") if ends_at is None else ends_at, token))
        if best is None:
            raise RuntimeError(f"the pool `{self.pool}` has no token for a pilot: {why}")
        return best[1]

    def _minted(self, own: TokenSettings, name: PilotName, needed_s: int) -> str:
        domain = self.settings.trust_domain
        if not domain:
            raise RuntimeError(f"the pool `{self.pool}` has no `trust_domain`, and no token without it")
        whose = _UNFIT_LETTERS.sub("-", name if own.each == "pilot" else self.pool)
        command = [own.mint, "-identity", f"glidepath-{whose}@{domain}", "-lifetime", str(needed_s + CLOCK_S)]
        command += [word for right in RIGHTS for word in ("-authz", right)]
        command += ["-key", own.key] if own.key else []
        code, out, err = _run(command)
        lines = [line.strip() for line in out.splitlines() if line.strip()]
        if code != 0 or len(lines) != 1:
            said = one_line((err.strip().splitlines() or ["it said nothing"])[-1])
            raise RuntimeError(f"`{own.mint}` made no token for `{self.pool}` (exit code {code}): {said}")
        if trouble := self._judged(lines[0], needed_s):
            raise RuntimeError(f"`{own.mint}` made a token that will not do: {trouble}")
        return lines[0]

    @property
    def minted(self) -> bool:
        """Whether the pool's tool makes them; else somebody supplies them."""
        own = self._own()
        return not (own.file or own.folder)

    @property
    def mint(self) -> str:
        return self._own().mint

    def supplied(self) -> tuple[Supplied, ...]:
        """Each file that tokens of pilots are taken from; raises RuntimeError where its folder is no use."""
        return tuple(looked_at(path, lambda token: self._judged(token, 0)) for path in _files(self._own()))

    def trial(self) -> str:
        """A token such as a pilot would get, to be tried out: a minted one is of no use minutes later."""
        own = self._own()
        if own.file or own.folder:
            return self._supplied(own, 0)
        return self._minted(own, TRIAL, 0)

    def warnings(self) -> tuple[str, ...]:
        """What a person should see to before it stops pilots: tokens that expire soon, or do not fit now."""
        own = self._own()
        found = []
        for path in _files(own):
            token = _read(path)
            if trouble := self._judged(token, 0):
                found.append(f"the token `{path}` of the pool `{self.pool}` will not do: {trouble}")
                continue
            ends_at = claims_of(token).ends_at
            if ends_at is not None and ends_at - self._wall() < WARN_S:
                left = shown_duration(int(ends_at - self._wall()))
                found.append(f"the token `{path}` of the pool `{self.pool}` expires in {left}; renew it")
        return tuple(found)


def _files(own: TokenSettings) -> list[Path]:
    found = [Path(own.file)] if own.file else []
    if own.folder:
        try:
            paths = sorted(path for path in Path(own.folder).iterdir() if not path.name.startswith("."))
        except OSError as error:
            raise RuntimeError(f"`{own.folder}` cannot be read: {error.strerror}") from None
        found += paths[:FILES_MAX]
    return found


def _read(path: Path) -> str:
    """The token in a file; what is too long or not there is told as what it is."""
    try:
        with path.open("rb") as file:
            content = file.read(TOKEN_BYTES_MAX + 1)
    except OSError as error:
        raise RuntimeError(f"the token `{path}` cannot be read: {error.strerror}") from None
    lines = content.decode("ascii", "replace").split() if len(content) <= TOKEN_BYTES_MAX else []
    return lines[0] if len(lines) == 1 else ""


def is_exposed(mode: int, *, owner: int, reader: int) -> bool:
    """What a cluster mounts belongs to its root, and our group is how we come to read it."""
    return bool(mode & (0o077 if owner == reader else 0o007))


def looked_at(path: Path, judged: Callable[[str], str]) -> Supplied:
    try:
        about = path.stat()
        mode = about.st_mode
        # A pipe would keep whoever opens it for as long as it likes.
        if not stat.S_ISREG(mode):
            return Supplied(path, f"`{path}` is no file")
        token, exposed = _read(path), is_exposed(mode, owner=about.st_uid, reader=os.geteuid())
    except RuntimeError as error:
        return Supplied(path, str(error))
    except OSError as error:
        return Supplied(path, f"the token `{path}` cannot be read: {error.strerror}")
    trouble = judged(token)
    try:
        ends_at = claims_of(token).ends_at
    except ValueError:
        ends_at = None
    return Supplied(path, f"the token `{path}` will not do: {trouble}" if trouble else "", exposed, ends_at)


def files_in(folder: str) -> list[Path]:
    """The files of a folder of tokens, as HTCondor would look at them."""
    return _files(TokenSettings(folder=folder))


def lapsed(token: str, now: float) -> str:
    """Why a token that is not a pilot's is of no use any more; empty where it is."""
    try:
        ends_at = claims_of(token).ends_at
    except ValueError as error:
        return str(error)
    if ends_at is not None and ends_at <= now:
        return f"it expired {shown_duration(int(now - ends_at))} ago"
    return ""


def _run(command: list[str]) -> tuple[int | None, str, str]:
    """Exit code and output; the whole group is killed at the limit."""
    try:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        return None, "", f"{command[0]}: {error.strerror}"
    with child:
        try:
            out, err = child.communicate(timeout=MINT_S_MAX)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.communicate()
            return None, "", f"it did not end within {MINT_S_MAX:g} s"
    return child.returncode, out, err


def settings_of(told: Mapping[str, object]) -> TokenSettings:
    """The settings as a model, for whoever checks a configuration before it is used."""
    return TokenSettings.model_validate(dict(told))
