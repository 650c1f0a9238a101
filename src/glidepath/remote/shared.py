"""One connection to a host that all commands share: it is opened once, noticed when it is dead, and replaced.

What keeps it is OpenSSH itself, in a process of its own that outlives ours. Here it is only asked for, by the
socket through which it is reached. It refuses to know what is run over it.
"""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from glidepath.core.text import one_line
from glidepath.core.units import shown_duration
from glidepath.remote import backoff, den
from glidepath.remote.child import ended
from glidepath.remote.local import reduced
from glidepath.remote.runner import NotSent
from glidepath.remote.settings import SshSettings
from glidepath.remote.trouble import trouble

# What ssh needs besides: the agent, and the program that asks for a password where there is no terminal.
OF_SSH = ("SSH_AUTH_SOCK", "SSH_ASKPASS", "SSH_ASKPASS_REQUIRE", "DISPLAY", "WAYLAND_DISPLAY")
# After the server's first answer: the keys, and all that a login has to do there.
LOGIN_S = 40
# For a person who looks for a phone.
PERSON_S_MAX = 300
# A connection that says nothing for a minute is gone, and ssh ends it by itself.
ALIVE_EACH_S, ALIVE_TIMES = 15, 4
# The socket is on this machine; its answer needs no network.
LOCAL_S = 5


class Shared:
    """The connection of one way to one host. Several threads and programs may use it."""

    def __init__(
        self,
        settings: SshSettings,
        *,
        environ: Mapping[str, str],
        folder: Path,
        site: str,
        wall: Callable[[], float],
    ) -> None:
        self.settings, self.site = settings, site
        passed = {name: environ[name] for name in OF_SSH if name in environ}
        self.environ = {**reduced(environ), **passed}
        self.socket = den.socket_of(settings, folder)
        self._failed, self._lock = self.socket.with_suffix(".failed"), self.socket.with_suffix(".lock")
        self._wall = wall
        self._stays = True  # until this very program has opened it

    def is_open(self) -> bool:
        """Whether somebody listens at the socket: its file alone may be left from one that was killed."""
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(LOCAL_S)
            try:
                probe.connect(str(self.socket))
            except OSError:
                return False
        return True

    def ready(self, deadline: float) -> None:
        """Opens it where that is ours to do. Raises NotSent where it is not, or cannot be done."""
        if self.is_open():
            return
        if self.settings.login == "person":
            raise NotSent(self.closed())
        self.opened(deadline)

    def opened(self, deadline: float, *, now: bool = False) -> None:
        """One login, by a key and without a question. `now`: although it failed a moment ago."""
        with self._alone(deadline):
            if self.is_open():
                return
            failed = backoff.read(self._failed)
            wait_s = failed.wait_s(self._wall()) if failed is not None and not now else 0.0
            if failed is not None and wait_s > 0:
                raise NotSent(f"{failed.trouble.why}; not tried again for {shown_duration(round(wait_s))}")
            self.socket.unlink(missing_ok=True)
            limit_s = min(self.settings.connect + LOGIN_S, deadline - time.monotonic())
            end = ended(self._opening(asks=False), given=b"", limit_s=limit_s, environ=self.environ)
            if end.code == 0 and self.is_open():
                backoff.write(self._failed, None)
                self._stays = False
                return
            said = end.err.decode("utf-8", "replace")
            waited_s = limit_s if end.code is None else None
            why = trouble(said, self.settings, site=self.site, waited_s=waited_s)
            backoff.write(self._failed, backoff.after(failed, why, now=self._wall()))
        raise NotSent(why.why)

    def asked(self) -> None:
        """One login in the terminal of a person, who is asked by ssh itself. Raises NotSent."""
        with self._alone(time.monotonic() + LOCAL_S):
            if self.is_open():
                return
            self.socket.unlink(missing_ok=True)
            # Without a session of its own: ssh asks at the terminal of this program.
            child = subprocess.Popen(
                self._opening(asks=True),
                env=self.environ,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )
            try:
                code: int | None = child.wait(PERSON_S_MAX)
            except subprocess.TimeoutExpired:
                code = None
            finally:
                if child.poll() is None:
                    child.kill()
                    child.wait()
            if code == 0 and self.is_open():
                backoff.write(self._failed, None)
                return
        if code is None:
            raise NotSent(f"nobody answered within {shown_duration(PERSON_S_MAX)}; nothing was opened")
        raise NotSent(f"ssh opened no connection to `{self.settings.host}`; it says why above")

    def closed(self) -> str:
        """Why nothing can be sent, where a person has to open it."""
        return (
            f"no connection to `{self.settings.host}` is open, and only a person may open it; "
            f"run `glidepath site login {self.site}`"
        )

    def why_closed(self) -> str:
        failed = backoff.read(self._failed)
        if self.settings.login == "person":
            return self.closed()
        return failed.trouble.why if failed is not None else ""

    def retire(self) -> None:
        """Over this one nothing gets through: what is under way may end, the next command opens another."""
        self._told("stop")
        self.socket.unlink(missing_ok=True)

    def end(self) -> None:
        """Closes it at once, whatever is under way."""
        self._told("exit")
        self.socket.unlink(missing_ok=True)

    def stay(self) -> None:
        """It is left open for others, although it was opened from here."""
        self._stays = True

    def leave(self) -> None:
        """Closes it once nobody uses it, if it was opened from here; else it is somebody else's."""
        if not self._stays:
            self._stays = True
            self._told("stop")

    def carrier(self, command: str) -> list[str]:
        """The words that run a command over it, and never by a login of their own."""
        words = [self.ssh(), "-F", "none", "-S", str(self.socket), "-T"]
        # Where the socket does not answer, ssh would connect by itself; this way that ends at once.
        for option in ("ControlMaster=no", "ProxyCommand=false", "BatchMode=yes", "LogLevel=ERROR"):
            words += ["-o", option]
        return [*words, "--", self.settings.host, command]

    def ssh(self) -> str:
        import shutil

        found = shutil.which("ssh", path=self.environ["PATH"])
        if found is None:
            raise NotSent("there is no `ssh` on this machine; install the client of OpenSSH")
        return found

    def _opening(self, *, asks: bool) -> list[str]:
        """The words that open it: as ssh is configured, but for what must not be otherwise."""
        own = self.settings
        words = [self.ssh()]
        words += ["-F", self._home(own.config)] if own.config else []
        words += ["-M", "-N", "-f", "-T", "-S", str(self.socket)]
        words += ["-i", self._home(own.identity), "-o", "IdentitiesOnly=yes"] if own.identity else []
        words += ["-J", own.jump] if own.jump else []
        words += ["-p", str(own.port)] if own.port else []
        words += ["-l", own.user] if own.user else []
        options = [
            f"ControlPersist={own.keep}",
            f"ConnectTimeout={own.connect}",
            "ConnectionAttempts=1",
            f"ServerAliveInterval={ALIVE_EACH_S}",
            f"ServerAliveCountMax={ALIVE_TIMES}",
            # Whatever the configuration of ssh says: a stranger in the place of the host is never believed.
            f"StrictHostKeyChecking={'ask' if asks else 'yes'}",
            *("ClearAllForwardings=yes", "ForwardAgent=no", "ForwardX11=no", "PermitLocalCommand=no"),
            *("RemoteCommand=none", "RequestTTY=no"),
            *(() if asks else ("BatchMode=yes", "LogLevel=ERROR")),
        ]
        for option in options:
            words += ["-o", option]
        return [*words, "--", own.host]

    def _told(self, what: str) -> None:
        """To the process that keeps it, which is on this machine; one that is gone hears nothing."""
        try:
            words = [self.ssh(), "-F", "none", "-S", str(self.socket), "-O", what, "--", self.settings.host]
            ended(words, given=b"", limit_s=LOCAL_S, environ=self.environ)
        except OSError:
            pass

    def _alone(self, deadline: float) -> AbstractContextManager[None]:
        den.made(self.socket.parent)
        busy = (
            f"another program is opening the connection to `{one_line(self.settings.host)}`; it waits there"
        )
        return den.alone(self._lock, deadline=deadline, busy=busy)

    def _home(self, path: str) -> str:
        """A shell would do this for a person; ssh does it for some options only."""
        if not path.startswith("~/"):
            return path
        return (self.environ.get("HOME") or str(Path.home())) + path[1:]
