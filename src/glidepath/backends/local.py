"""The local backend: pilots as processes of this machine, each with a folder of its own.

The folder and its lock are all there is to know: whoever holds the lock is the pilot, so a repeated start is
harmless and a restarted glidepath finds its pilots by looking. It refuses to know jobs and demand.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glidepath.core.cycle import Done, Failed, Outcome, Refused, Unsure
from glidepath.core.provision.pilot import PilotSpec, SitePilot, SiteState, Target
from glidepath.core.provision.sight import SiteListing
from glidepath.core.quantity import (
    Instant,
    NodeName,
    OfferKey,
    Owner,
    PilotName,
    PoolName,
    Resources,
    SiteName,
)
from glidepath.core.text import one_line
from glidepath.pilot import pilot_file
from glidepath.pilot.remains import lives, sweep, tail
from glidepath.ports import Place

NAME = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,118}[a-z0-9])?")
# What a pool of each kind must say, so that a pilot of this machine can join it.
JOINS = {"embedded": "GLIDEPATH_POOL_SOCKET", "condor": "GLIDEPATH_COLLECTOR"}
SECRET_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,200}")
LIMIT_S = 20.0
# The pilot's interpreter starts and takes its lock within this, even on a loaded machine.
START_S_MAX = 15.0
# A folder without a pilot that is older than this was left by a crash and never started.
PENDING_S_MAX = 30
# A pilot that is told to stop needs up to 13 s for its jobs on a busy machine; then it is killed.
STOP_S_MAX = 15.0
KILL_S_MAX = 3.0
POLL_S = 0.05
FILE_BYTES_MAX = 1 << 20
LAST_LINE_BYTES = 2000
PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "USER", "LOGNAME", "TZ", "TMPDIR")

Seen = tuple[SiteState, str, str]  # with the words for it and the number of the process
_OVER = frozenset({SiteState.ENDED, SiteState.FAILED})


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that holds a pilot's lock."""

    pid: int
    pid_start: str


class LocalBackend:
    """Pilots under `<home>/pilots`. Nothing is touched before the first call."""

    def __init__(self, site: SiteName, place: Place) -> None:
        self.site = site
        self.limit_s = LIMIT_S
        self._home = place.home
        self._folder = place.home / "pilots"
        self._since: dict[str, tuple[SiteState, Instant]] = {}

    def list(self, *, now: Instant) -> SiteListing:
        try:
            names = sorted(entry.name for entry in os.scandir(self._folder) if NAME.fullmatch(entry.name))
        except FileNotFoundError:
            self._home.stat()  # A home without pilots is empty; a home that is gone is a failed listing.
            return SiteListing((), avoids_nodes=False)
        pilots = [found for name in names if (found := self._seen(name, now)) is not None]
        self._since = {name: kept for name, kept in self._since.items() if name in names}
        return SiteListing(tuple(pilots), avoids_nodes=False)

    def _seen(self, name: str, now: Instant) -> SitePilot | None:
        folder = self._folder / name
        try:
            spec = _read_json(folder / "spec.json")
        except FileNotFoundError:
            return None  # Nothing is started before the specification is there, or it was just removed.
        try:
            if spec["site"] != self.site:
                return None
            seen = self._state(folder, spec, now)
            return self._pilot(name, spec, seen, now) if seen is not None else None
        except (KeyError, TypeError) as error:
            raise ValueError(f"`{folder}/spec.json` is not ours ({error!r}); move the folder away") from None

    def _pilot(
        self, name: str, spec: dict[str, Any], seen: tuple[SiteState, str, str], now: Instant
    ) -> SitePilot:
        state, note, native_id = seen
        asked_at = Instant(min(int(spec["asked_at"]), now))
        kept = self._since.get(name)
        if kept is None or kept[0] is not state:
            since = max(asked_at, now - _ended_s_ago(self._folder / name)) if state in _OVER else asked_at
            kept = self._since[name] = (state, Instant(since))
        return SitePilot(
            name=PilotName(name),
            offer=OfferKey(spec["offer"]),
            pool=PoolName(spec["pool"]),
            size=Resources(*spec["size"]),
            state=state,
            since=Instant(min(kept[1], now)),
            asked_at=asked_at,
            traits=tuple((key, value) for key, value in spec["traits"]),
            owner=Owner(spec["owner"]),
            native_id=native_id,
            node=NodeName("localhost"),
            ends_at=Instant(asked_at + int(spec["lifetime_s"])) if state is SiteState.RUNNING else None,
            note=note,
        )

    def _state(self, folder: Path, spec: dict[str, Any], now: Instant) -> Seen | None:
        held, holder = _lock(folder)
        if held:
            return SiteState.RUNNING, "", str(holder.pid) if holder else ""
        try:
            summary = _read_json(folder / "summary.json")
        except FileNotFoundError:
            pass
        else:
            state = SiteState.ENDED if summary.get("ok") is True else SiteState.FAILED
            return state, one_line(str(summary.get("why", ""))), ""
        if not folder.exists():
            return None
        if holder is not None:
            return SiteState.FAILED, f"the pilot died without a word; {_last_line(folder)}", ""
        if now - int(spec["asked_at"]) <= PENDING_S_MAX:
            return SiteState.PENDING, "", ""
        return SiteState.FAILED, f"the pilot was never started; {_last_line(folder)}", ""

    def submit(self, spec: PilotSpec) -> Outcome:
        if not NAME.fullmatch(spec.name):
            return Refused("the name of a pilot must be small letters, digits, `-` and `.`")
        kind = dict(spec.join).get("GLIDEPATH_POOL_KIND", "embedded")
        needed = JOINS.get(kind)
        if needed is None or needed not in dict(spec.join):
            return Refused(f"the pool `{one_line(spec.pool)}` does not say how to join it on this machine")
        if not all(SECRET_NAME.fullmatch(name) for name, _ in spec.secrets):
            return Refused(f"the pool `{one_line(spec.pool)}` has a secret whose name is no file name")
        folder, wanted = self._folder / spec.name, _spec_json(spec)
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder.mkdir(mode=0o700, exist_ok=True)
            try:
                found = _read_json(folder / "spec.json")
            except FileNotFoundError:
                _write_durably(folder / "spec.json", wanted)
            else:
                if found.get("hash") != wanted["hash"]:
                    return Refused(f"`{spec.name}` exists for something else")
                if _lock(folder) != (False, None) or (folder / "summary.json").exists():
                    return Done("it was started before")
            return self._start(folder, spec, kind)
        except (OSError, ValueError) as error:
            return Failed(f"`{spec.name}` could not be started: {error}")

    def _start(self, folder: Path, spec: PilotSpec, kind: str) -> Outcome:
        join = dict(spec.join)
        command = [sys.executable, "-I", str(pilot_file(self._home)), "--detach", "--name", spec.name]
        command += ["--folder", str(folder.absolute()), "--kind", kind]
        command += ["--pool", join.get("GLIDEPATH_POOL", spec.pool)]
        if kind == "embedded":
            command += ["--socket", join["GLIDEPATH_POOL_SOCKET"]]
            if said := join.get("GLIDEPATH_POOL_TRAIT"):
                command += ["--trait", said]
        else:
            command += ["--settings", str(_furnish(folder, spec).absolute())]
        sizes = zip(
            ("--cpus-milli", "--memory-mib", "--disk-mib", "--gpus"), spec.size.as_tuple(), strict=True
        )
        command += [word for flag, amount in sizes for word in (flag, str(amount))]
        command += [word for key, value in spec.traits for word in ("--trait", f"{key}={value}")]
        command += ["--lifetime-s", str(spec.lifetime_s), "--idle-s", str(spec.idle_s)]
        with (folder / "pilot.log").open("ab") as log:
            try:
                ended = subprocess.run(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd=folder,
                    env={key: os.environ[key] for key in PASSED_ON if key in os.environ},
                    start_new_session=True,
                    timeout=START_S_MAX,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                return Unsure(f"`{spec.name}` did not take its lock within {START_S_MAX:g} s")
        if ended.returncode != 0:
            return Failed(f"`{spec.name}` ended with exit code {ended.returncode}: {_last_line(folder)}")
        return Done()

    def withdraw(self, target: Target) -> Outcome:
        """There is no queue here: only what a crash kept from starting can still be taken back."""
        folder = self._of(target.name)
        if folder is None or not folder.exists():
            return Done("it is gone")
        try:
            held, holder = _lock(folder)
            if held or holder is not None or (folder / "summary.json").exists():
                return Refused(f"`{target.name}` has started")
            _remove_folder(folder)
        except OSError as error:
            return Failed(f"`{target.name}` could not be withdrawn: {error}")
        return Done()

    def remove(self, target: Target) -> Outcome:
        folder = self._of(target.name)
        if folder is None or not folder.exists():
            return Done("it is gone")
        try:
            held, holder = _lock(folder)
            if held and holder is not None:
                return self._stop(folder, holder)
            if held:
                return Unsure(f"`{target.name}` is just starting; it is removed when it runs")
            self._sweep(target.name)
            _remove_folder(folder)
        except OSError as error:
            return Failed(f"`{target.name}` could not be removed: {error}")
        return Done()

    def _stop(self, folder: Path, holder: Holder) -> Outcome:
        """Ask, wait, kill: the traces stay until the pilot is removed again, so that they can be read."""
        for number, wait_s in ((signal.SIGINT, STOP_S_MAX), (signal.SIGKILL, KILL_S_MAX)):
            _signal(holder, number)
            if _released(folder, wait_s):
                self._sweep(folder.name)
                return Done("it was stopped" if number == signal.SIGINT else "it was killed")
        return Failed(f"`{folder.name}` does not end, not even when killed")

    def kill(self, target: Target) -> Outcome:
        """At once, for the second Ctrl-C: the pilot and all that its jobs left."""
        folder = self._of(target.name)
        held, holder = _lock(folder) if folder is not None and folder.exists() else (False, None)
        if held and holder is not None:
            _signal(holder, signal.SIGKILL)
        if folder is not None and _released(folder, KILL_S_MAX):
            self._sweep(target.name)
            return Done("it was killed")
        return Failed(f"`{one_line(target.name)}` does not end, not even when killed")

    def _sweep(self, name: str) -> None:
        """What the jobs of a pilot left running must not outlive its removal."""
        if not sweep(name, Path(os.path.realpath(self._home))):
            raise TimeoutError("processes of its jobs do not end")

    def drain(self, target: Target) -> Outcome:
        folder = self._of(target.name)
        try:
            held, holder = _lock(folder) if folder is not None and folder.exists() else (False, None)
            if held and holder is None:
                return Unsure(f"`{target.name}` is just starting; it is drained when it runs")
            if held and holder is not None:
                # Not SIGTERM: a second one means "stop now", and a drain must bear repeating.
                _signal(holder, signal.SIGUSR1)
        except OSError as error:
            return Failed(f"`{target.name}` could not be drained: {error}")
        return Done() if held else Done("it is gone")

    def logs(self, name: PilotName, *, bytes_max: int) -> str:
        folder = self._of(name)
        if folder is None or not folder.exists():
            raise LookupError(f"there is no pilot `{one_line(name)}` on this machine")
        try:
            return tail(folder / "pilot.log", bytes_max=bytes_max)
        except FileNotFoundError:
            raise LookupError(f"the pilot `{name}` has written nothing yet") from None

    def _of(self, name: str) -> Path | None:
        """The folder of a name; none for a name that could lead out of ours."""
        return self._folder / name if NAME.fullmatch(name) else None


def backend(site: SiteName, settings: Mapping[str, object], place: Place) -> LocalBackend:
    """A backend from a site's own settings; this kind has none."""
    if settings:
        raise ValueError(f"unknown key {min(settings)!r}; a local site has no settings of its own")
    return LocalBackend(site, place)


def _spec_json(spec: PilotSpec) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "name": spec.name,
        "site": spec.site,
        "offer": spec.offer,
        "pool": spec.pool,
        "size": spec.size.as_tuple(),
        "traits": spec.traits,
        "lifetime_s": spec.lifetime_s,
        "idle_s": spec.idle_s,
        "owner": spec.owner,
        "join": spec.join,
    }
    # Not part of the hash: the same intent repeated later is still the same pilot.
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
    return {**facts, "asked_at": spec.asked_at, "hash": digest}


def _furnish(folder: Path, spec: PilotSpec) -> Path:
    """What only the pilot may read, before it starts: never in its arguments, where everybody sees it."""
    tokens = folder / "tokens.d"
    tokens.mkdir(mode=0o700, exist_ok=True)
    for name, content in spec.secrets:
        _write_secret(tokens / name, content)
    settings = {**dict(spec.join), "GLIDEPATH_SITE": spec.site, "GLIDEPATH_OFFER": spec.offer}
    _write_secret(folder / "settings.json", json.dumps(settings))
    return folder / "settings.json"


def _write_secret(path: Path, text: str) -> None:
    fresh = path.with_name(f".{path.name}.new")
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "w") as file:  # noqa: PTH123 (a descriptor, so that nobody else ever could read it)
        file.write(text)
    fresh.replace(path)


def _read_json(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        text = file.read(FILE_BYTES_MAX + 1)
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError(f"`{path}` is not JSON; move its folder away") from None
    if not isinstance(found, dict):
        raise ValueError(f"`{path}` is not ours; move its folder away")
    return found


def _write_durably(path: Path, value: dict[str, Any]) -> None:
    """The whole file or none of it: a listing after a crash must not meet half a specification."""
    fresh = path.with_suffix(".new")
    with fresh.open("w") as file:
        json.dump(value, file)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
    for folder in (path.parent, path.parent.parent):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _lock(folder: Path) -> tuple[bool, Holder | None]:
    """Whether somebody holds the lock, and who holds it or held it last."""
    try:
        descriptor = os.open(folder / "lock", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False, None
    try:
        # Shared and for an instant: a pilot that starts just now waits longer than that for its lock.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        held = False
    except BlockingIOError:
        held = True
    try:
        words = os.read(descriptor, 100).split()
    finally:
        os.close(descriptor)
    if len(words) != 2 or not words[0].isdigit():
        return held, None
    return held, Holder(int(words[0]), words[1].decode("ascii", "replace"))


def _signal(holder: Holder, number: signal.Signals) -> None:
    """To the very process that wrote its name into the lock, and to no later one of the same number."""
    if lives(holder.pid, holder.pid_start):
        try:
            os.kill(holder.pid, number)
        except ProcessLookupError:
            pass


def _released(folder: Path, wait_s: float) -> bool:
    until = time.monotonic() + wait_s
    while _lock(folder)[0]:
        if time.monotonic() > until:
            return False
        time.sleep(POLL_S)
    return True


def _remove_folder(folder: Path) -> None:
    """Out of the listing in one step, then piece by piece."""
    gone = folder.with_name(f".gone-{folder.name}")
    shutil.rmtree(gone, ignore_errors=True)
    try:
        folder.rename(gone)
    except FileNotFoundError:
        return
    # Twice: the guard of a killed pilot may be clearing its scratch there at the same time.
    shutil.rmtree(gone, ignore_errors=True)
    if gone.exists():
        shutil.rmtree(gone)


def _ended_s_ago(folder: Path) -> int:
    for name in ("summary.json", "lock", "spec.json"):
        try:
            return max(0, int(time.time() - (folder / name).stat().st_mtime))
        except FileNotFoundError:
            continue
    return 0


def _last_line(folder: Path) -> str:
    try:
        lines = tail(folder / "pilot.log", bytes_max=LAST_LINE_BYTES).strip().splitlines()
    except FileNotFoundError:
        lines = []
    return f"its last line: {one_line(lines[-1])}" if lines else "it wrote nothing"
