"""One batch site: a machine of its own, named `login`, whose daemons and users see nothing else of this one
but its loopback and the folder of the instance.

A name comes in; homes, programs run as a user inside, a login node by ssh, and daemons that are stopped and
started go out. Which daemons there are, the parts say: Slurm, Grid Engine, or the login node alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from bed import lifecycle
from bed.cache import Say, locked, silent
from bed.command import Ended, alone, namespaces, run
from bed.leaks import every_pid, read
from bed.machine import Machine
from bed.namespace import first_inside, space_of
from bed.parts import batch_login, batch_root
from bed.parts.batch_root import USERS
from bed.place import Instance, Place
from bed.ports import free_port
from bed.running import State, began, end, remember, send, start, state_of
from bed.trouble import Trouble

ADDRESS = "127.0.0.1"
UP_S_MAX = 120
INSIDE_S_MAX = 20
TOOL_S_MAX = 60
POLL_S = 0.1
TOOL_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
ABOUT = "site.json"
READY = "inside"
SSHD = "sshd"
TRIES_MAX = 200
# Folders of the root file system that are the instance's own where it has one of this name. What jobs leave
# in /tmp goes with the instance.
OWN = {
    "tmp": "/tmp",
    "etc": "/etc/bed",
    "home": "/home",
    "slurm": "/etc/slurm",
    "cell": "/var/lib/gridengine/default",
    "defaults": "/etc/default",
}

# The first program. The root file system takes the machine's place, and is read-only: what a daemon writes is
# in the folder of the instance, or gone with it. So are the kernel's settings. The name of the machine is the
# one in the root file system's own list of hosts. The first program waits, and takes in the orphans of jobs.
INSIDE = """
set -e
root=$1 run=$2
shift 2
chroot "$root" hostname login
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --bind "$root/proc/sys" "$root/proc/sys"
mount -o remount,bind,ro "$root/proc/sys"
mount --rbind /dev "$root/dev"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mkdir "$root/run/sshd" "$root/run/munge" "$root/run/mysqld"
chroot "$root" chown munge /run/munge
for shown in "$@"; do
    from=${shown%%=*} to=${shown#*=}
    mkdir -p "$root$to"
    mount --bind "$from" "$root$to"
done
mount -o remount,bind,ro "$root"
cd "$root"
pivot_root . .
umount -l .
cd /
: > "$run/inside"
sleep infinity &
wait $!
"""


@dataclass(frozen=True)
class Daemon:
    """One server inside: its words, whose it is, and what else is in its environment."""

    words: tuple[str, ...]
    user: str = "root"
    environ: Mapping[str, str] = field(default_factory=dict)
    # Where it writes something else over its words, what stands there.
    title: bytes = b""


class BatchPart:
    """What the parts with a batch site have in common: all of them run in one root file system."""

    name: ClassVar[str]
    site: ClassVar[type[Site]]

    def prepared(self, place: Place) -> bool:
        return batch_root.build_folder(place).is_dir()

    def obstacles(self, machine: Machine, place: Place) -> list[str]:
        return batch_root.obstacles(machine, place)

    def lacking(self, place: Place) -> list[str]:
        return []

    def prepare(self, machine: Machine, place: Place, say: Say) -> None:
        batch_root.prepare(machine, place, say)

    def up(self, instance: Instance, say: Say, port: int) -> State:
        return self.site(instance.name, place=instance.place, say=say).up(port=port)

    def down(self, instance: Instance) -> None:
        state = state_of(instance)
        if state and state.alive():
            end(state, softly=[], number=signal.SIGKILL, soft_s_max=0)


class Site:
    """One site, by its name; any number of these objects may speak of the same one."""

    part: ClassVar[BatchPart]
    # The daemons in the order in which they are started; the login node's comes last, for every site has one.
    order: ClassVar[tuple[str, ...]] = ()
    # Programs of the batch system that users call.
    tools: ClassVar[tuple[str, ...]] = ()

    def __init__(self, name: str = "", *, place: Place | None = None, say: Say = silent) -> None:
        self.instance = Instance.named(name or self.part.name, place or Place.of(os.environ))
        if self.instance.part != self.part.name:
            raise Trouble(f"`{name}` is not a site of `{self.part.name}`")
        self.folder = self.instance.folder
        self.build = batch_root.build_folder(self.instance.place)
        self.say = say
        # What this object started: whoever starts a program has to take note of its end.
        self._children: dict[str, int] = {}

    # What each kind of site says of itself.

    def daemon(self, name: str) -> Daemon:
        """How the daemon of that name is started."""
        raise NotImplementedError

    def furnish(self, settings: Mapping[str, Any]) -> None:
        """Puts files into the folder before anything runs; `settings` are those given to `up`."""

    def answers(self, daemon: str) -> bool:
        """Whether the daemon, which runs, does its work."""
        raise NotImplementedError

    def make_ready(self, daemon: str) -> None:
        """Does what must be done inside before this daemon starts; all before it answer."""

    # What it is.

    @property
    def state(self) -> State:
        state = state_of(self.instance)
        if not state or not state.alive():
            raise Trouble(f"`{self.instance.name}` is not up")
        return state

    @property
    def address(self) -> str:
        """Address and port of the login node's ssh."""
        return self.state.address

    @property
    def known_hosts(self) -> Path:
        """For `UserKnownHostsFile` of a client on this machine."""
        return self.folder / "client/known_hosts"

    def key(self, user: str) -> Path:
        """The private key by which this user is let in."""
        return self.folder / "client" / user

    def home(self, user: str) -> Path:
        """The user's home: by this path on this machine and inside, where it is also below /home."""
        return self.folder / "home" / user

    def log(self, daemon: str) -> str:
        path = self.folder / "log" / daemon
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    def about(self) -> dict[str, Any]:
        try:
            return dict(json.loads((self.folder / ABOUT).read_text(encoding="utf-8")))
        except (OSError, ValueError) as error:
            raise Trouble(f"`{self.instance.name}` is not up: {error}") from error

    def port(self, name: str) -> int:
        return int(self.about()["ports"][name])

    # Up and down.

    def ports(self) -> tuple[str, ...]:
        """The names of the ports that it needs besides that of ssh."""
        return ()

    def up(self, *, port: int = 0, tied: bool = False, shown: Sequence[Path] = (), **settings: Any) -> State:
        """Starts it where it is not up; `tied`, it ends with us. Folders of this machine that are `shown`
        are there inside too, by the same path. Further settings are those of the kind of site."""
        state = lifecycle.up(
            self.part,
            self.instance,
            self.say,
            lambda: self._begin(port, tied=tied, shown=shown, settings=settings),
        )
        if port and state.port != port:
            raise Trouble(f"`{state.name}` is up on port {state.port}; `down` it first to have port {port}")
        return state

    def down(self) -> None:
        lifecycle.down(self.part, self.instance, self.say)
        self._reap()

    def __enter__(self) -> Site:
        return self

    def __exit__(self, *_: object) -> None:
        self.down()

    def _begin(self, port: int, *, tied: bool, shown: Sequence[Path], settings: Mapping[str, Any]) -> State:
        for name in ("log", "client", "etc", "home", "tmp"):
            (self.folder / name).mkdir()
        (self.folder / "tmp").chmod(0o1777)
        for user, number in USERS.items():
            self.home(user).mkdir(mode=0o755)
            os.chown(self.home(user), number, number)
        # One site at a time chooses its ports, or two could choose the same before they listen.
        with locked(self.instance.place.cache / "locks/batch-ports", self.say, "ports for the site"):
            chosen = self._chosen_ports(port)
            self.write(ABOUT, json.dumps({"ports": chosen, "settings": settings}, default=str))
            batch_login.furnish(self.folder, self.build / "root", chosen[SSHD])
            self.furnish(settings)
            state = self._start_first(chosen[SSHD], tied=tied, shown=shown)
            batch_login.make_keys(self.folder, self.inside)
            for name in (*self.order, SSHD):
                self.make_ready(name)
                self._launch(name)
                self.wait_for(name)
        return state

    def _chosen_ports(self, port: int) -> dict[str, int]:
        chosen = {SSHD: free_port(ADDRESS, [port] if port else ())}
        for name in self.ports():
            for _ in range(TRIES_MAX):
                found = free_port(ADDRESS)
                if found not in chosen.values():
                    chosen[name] = found
                    break
            else:
                raise Trouble(f"no port of its own for `{name}` in {TRIES_MAX} tries")
        return chosen

    def _start_first(self, port: int, *, tied: bool, shown: Sequence[Path]) -> State:
        own = [f"{self.folder / name}={at}" for name, at in OWN.items() if (self.folder / name).is_dir()]
        own += [f"{path}={path}" for path in (self.folder, *shown)]
        words = ["unshare", "--uts", "--", "sh", "-c", INSIDE, "bed", str(self.build / "root")]
        words = (alone if tied else namespaces)(*words, str(self.folder), *own)
        logs = self.folder / "log"
        pid = start(words, self.instance, environ=self.environ("root"), output=logs / "first")
        state = State(self.instance.name, pid, began(pid), f"{ADDRESS}:{port}", port, str(logs))
        remember(self.instance, state)
        self.wait((self.folder / READY).exists, "made no namespaces", s_max=INSIDE_S_MAX)
        return state

    def write(self, name: str, text: str, mode: int = 0o644) -> Path:
        path = self.folder / name
        path.touch(mode=mode)
        path.chmod(mode)
        path.write_text(f"{text.rstrip()}\n", encoding="utf-8")
        return path

    # Starting and waiting.

    def environ(self, user: str) -> dict[str, str]:
        home = "/root" if user == "root" else f"/home/{user}"
        return {
            "PATH": TOOL_PATH,
            "LC_ALL": "C.UTF-8",
            "HOME": home,
            "USER": user,
            "LOGNAME": user,
            "SHELL": "/bin/bash",
        }

    def _daemon(self, name: str) -> Daemon:
        if name == SSHD:
            return Daemon(batch_login.WORDS, title=batch_login.LISTENER)
        if name not in self.order:
            raise Trouble(f"there is no daemon `{name}`; there are {', '.join((*self.order, SSHD))}")
        return self.daemon(name)

    def _launch(self, name: str) -> None:
        daemon = self._daemon(name)
        become = [] if daemon.user == "root" else ["setpriv", f"--reuid={daemon.user}"]
        become += [f"--regid={daemon.user}", "--clear-groups", "--"] if become else []
        words = entering(first_inside(self.state), "env", "--chdir=/", *become, *daemon.words)
        environ = {**self.environ("root"), **daemon.environ}
        self._children[name] = start(words, self.instance, environ=environ, output=self.folder / "log" / name)

    def _reap(self) -> None:
        for pid in self._children.values():
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)

    def wait(self, done: Callable[[], bool], otherwise: str, *, s_max: float = UP_S_MAX) -> None:
        until = time.monotonic() + s_max
        while not done():
            state = state_of(self.instance)
            if not state or not state.alive():
                raise Trouble(f"`{self.instance.name}`: its first program has ended")
            if time.monotonic() > until:
                raise Trouble(f"`{self.instance.name}` {otherwise}")
            time.sleep(POLL_S)

    def wait_for(self, name: str) -> None:
        """Waits until the daemon of that name runs and does its work."""

        def done() -> bool:
            self._reap()
            if name in self._children and not began(self._children[name]):
                raise Trouble(f"`{self.instance.name}`: its {name} has ended")
            if not self.processes(name):
                return False
            return batch_login.answers(self.state.port) if name == SSHD else self.answers(name)

        self.wait(done, f"has a {name} that does not answer in {UP_S_MAX} s")

    # Using it.

    def run(
        self, *words: str, user: str = "root", timeout_s: float = TOOL_S_MAX, given: str | None = None
    ) -> Ended:
        """Runs a program inside as that user, in its home."""
        done = run(self.beside(*words, user=user), limit_s=timeout_s, given=given)
        return replace(done, words=words)  # Whoever reads of a failure knows the tool, not the way to it.

    def inside(self, *words: str) -> Ended:
        return self.run(*words)

    def beside(self, *words: str, user: str) -> list[str]:
        """The command by which whoever is root here runs a program inside as that user, in its home."""
        if user != "root" and user not in USERS:
            raise Trouble(f"there is no user `{user}` inside; there are root, {', '.join(USERS)}")
        number = USERS.get(user, 0)
        become = ["setpriv", f"--reuid={number}", f"--regid={number}", "--clear-groups", "--"]
        environ = self.environ(user)
        told = [f"{name}={value}" for name, value in environ.items()]
        return entering(
            first_inside(self.state), "env", "-i", f"--chdir={environ['HOME']}", *told, *become, *words
        )

    def commands(self, user: str, *more: str) -> Path:
        """A folder with the tools of the batch system, and others by name, that run inside as that user.

        It is for a glidepath on this machine that is to behave as one on the login node.
        """
        folder = self.folder / "commands" / user
        folder.mkdir(parents=True, exist_ok=True)
        for tool in (*self.tools, *more):
            words = " ".join(shlex.quote(word) for word in self.beside(tool, user=user))
            self.write(f"commands/{user}/{tool}", f'#!/bin/sh\nexec {words} "$@"', mode=0o755)
        return folder

    # Hurting it.

    def processes(self, name: str) -> list[int]:
        """The processes of one daemon, by its command; its jobs are not among them."""
        daemon = self._daemon(name)
        wanted = [word.encode() for word in daemon.words]
        return [
            pid
            for pid, words in self._commands()
            if words == wanted or (daemon.title and daemon.title in words[0])
        ]

    def _commands(self) -> list[tuple[int, list[bytes]]]:
        """Every process inside with its words."""
        space = space_of(first_inside(self.state))
        inside = [pid for pid in every_pid() if space_of(pid) == space]
        return [(pid, read(pid, "cmdline").rstrip(b"\0").split(b"\0")) for pid in inside]

    def stop(self, name: str) -> None:
        """Tells it to end, as an administrator does; it stays so until `restart`."""
        self._end(name, signal.SIGTERM)

    def kill(self, name: str) -> None:
        """Ends it without a word; it stays dead until `restart`."""
        self._end(name, signal.SIGKILL)

    def _end(self, name: str, number: signal.Signals) -> None:
        self._send(name, number)
        self.wait(lambda: not self.processes(name), f"still has a {name} after it was told to end")
        self._reap()

    def pause(self, name: str) -> None:
        """It accepts and never answers, until `resume`."""
        self._send(name, signal.SIGSTOP)

    def resume(self, name: str) -> None:
        self._send(name, signal.SIGCONT)

    def restart(self, name: str) -> None:
        """Starts it anew, ended or not, and waits until it answers."""
        if self.processes(name):
            self.kill(name)
        self._launch(name)
        self.wait_for(name)

    def hang_up(self) -> None:
        """Ends every connection that somebody has to the login node, which goes on."""
        for pid, words in self._commands():
            if words[0].startswith(b"sshd: ") and batch_login.LISTENER not in words[0]:
                send(pid, signal.SIGKILL)

    def _send(self, name: str, number: signal.Signals) -> None:
        found = self.processes(name)
        if not found:
            raise Trouble(f"`{self.instance.name}` has no {name} that runs")
        for pid in found:
            send(pid, number)


def entering(first: int, *words: str) -> list[str]:
    """The command, run beside the process `first` in its namespaces, and so on that machine."""
    return ["nsenter", f"--target={first}", "--mount", "--pid", "--uts", "--", *words]
