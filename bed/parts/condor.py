"""HTCondor: a pool of real daemons (collector, negotiator, schedd under one master) on a port of its own.

A name and some configuration come in; an address, tokens, tools run as a user inside, and an environment
for the machine's own tools go out. The daemons run in a root file system of their own in private
namespaces: the machine sees none of their mounts, and ending their first process ends them all.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from bed import lifecycle, versions
from bed.cache import Say, built, silent
from bed.command import Ended, alone, namespaces, run
from bed.machine import Machine
from bed.namespace import entering, first_inside, members
from bed.parts import condor_containers, condor_root
from bed.parts.condor_config import DOMAIN, client_text, network, pool_text
from bed.parts.condor_root import USERS
from bed.place import Instance, Place
from bed.ports import free_port
from bed.running import State, began, end, remember, send, start, state_of
from bed.trouble import Trouble

DAEMONS = ("collector", "negotiator", "schedd")
ARCHITECTURE = "x86_64"
UP_S_MAX = 60
# Time for the master to end its daemons itself; what it leaves is killed.
SOFT_S_MAX = 5
TOOL_S_MAX = 30
POLL_S = 0.1
TOKEN_S = 24 * 3600
TOOL_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
OWNED_BY_CONDOR = ("log", "spool", "lock", "run", "execute", "s")
ONLY_ROOT = ("passwords.d", "tokens.d")
OPEN_TO_ALL = ("conf.d", "client", "client/tokens.d", "home")

# The first program of the namespaces. It makes the mounts, then waits for the master, which must not be the
# first program itself: the kernel takes back the order to die with its parent from a program that changes
# its user. The root file system is read-only, so that no test changes what the next one starts from. So is
# /proc/sys: the kernel's settings are the machine's own in any namespace, and HTCondor's master tunes them
# where it can. But who may make namespaces may only mount a /proc in them where one is seen whole, and
# apptainer does so for every job: so there is a whole one, where nothing looks for it. The root file system
# takes the machine's place for good: in a chroot the kernel gives ordinary users no namespaces at all.
INSIDE = """
set -e
root=$1 run=$2 condor=$3
shift 3
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --bind "$root/proc/sys" "$root/proc/sys"
mount -o remount,bind,ro "$root/proc/sys"
mount --rbind /dev "$root/dev"
mount --bind /tmp "$root/tmp"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mkdir -p "$root/run/condor" "$root/run/lock/condor"
chown "$condor" "$root/run/condor" "$root/run/lock/condor"
mkdir -m 700 "$root/run/whole"
mkdir "$root/run/whole/proc"
mount -t proc proc "$root/run/whole/proc"
mkdir -p "$root$run"
mount --bind "$run" "$root$run"
mount --bind "$run/home" "$root/home"
mount -o remount,bind,ro "$root"
cd "$root"
pivot_root . .
umount -l .
cd /
"$@" &
wait $!
"""


class Condor:
    """The part of the bed; `Pool` is one instance of it."""

    name = "condor"

    def __init__(self) -> None:
        self.table = versions.section(self.name)

    def build_folder(self, place: Place) -> Path:
        return place.cache / f"condor-{versions.key(self.table, condor_root.BUILD_FORMAT)}"

    def prepared(self, place: Place) -> bool:
        return self.build_folder(place).is_dir()

    def obstacles(self, machine: Machine, place: Place) -> list[str]:
        reasons = []
        if machine.uid != 0:
            reasons.append("not root, and only root may give it a root file system of its own")
        if machine.architecture != ARCHITECTURE:
            reasons.append(f"the pinned packages are for {ARCHITECTURE}, this is {machine.architecture}")
        missing = sorted({"unshare", "nsenter", "pivot_root", "setpriv"} - machine.tools)
        if missing:
            reasons.append(f"no {', '.join(f'`{tool}`' for tool in missing)} (package util-linux)")
        elif machine.uid == 0 and not machine.namespaces:
            reasons.append("the kernel or a container forbids private mount and PID namespaces")
        return reasons if self.prepared(place) else [*reasons, *obstacles_to_build(machine)]

    def lacking(self, place: Place) -> list[str]:
        why = condor_containers.why_none(self.build_folder(place))
        return [why] if why else []

    def prepare(self, machine: Machine, place: Place, say: Say) -> None:
        folder = self.build_folder(place)
        built(place.cache, folder.name, lambda to: condor_root.build(to, self.table, machine, say), say)

    def up(self, instance: Instance, say: Say, port: int) -> State:
        return Pool(instance.name, place=instance.place, say=say).up(port=port)

    def down(self, instance: Instance) -> None:
        if state := up_now(instance):
            masters = members(state, "condor_master")
            end(state, softly=masters, number=signal.SIGQUIT, soft_s_max=SOFT_S_MAX)


def obstacles_to_build(machine: Machine) -> list[str]:
    if machine.system != "debian":
        return [
            f"not Debian but `{machine.system}`, and packages are taken from the machine's own apt sources"
        ]
    if "apt-get" not in machine.tools:
        return ["no `apt-get`, so that neither debootstrap nor packages can be had"]
    if not machine.mirror:
        return [f"no apt source of `{machine.codename}` names a mirror that debootstrap can read"]
    return []


class Pool:
    """One pool, by its name; any number of these objects may speak of the same one."""

    def __init__(self, name: str = "condor", *, place: Place | None = None, say: Say = silent) -> None:
        self.part = Condor()
        self.instance = Instance.named(name, place or Place.of(os.environ))
        if self.instance.part != self.part.name:
            raise Trouble(f"`{name}` is not a pool; say `condor` or `condor@two`")
        self.folder = self.instance.folder
        self.build = self.part.build_folder(self.instance.place)
        self.say = say

    # What it is.

    @property
    def schedd_name(self) -> str:
        return f"{self.instance.label}@{DOMAIN}"

    @property
    def state(self) -> State:
        state = up_now(self.instance)
        if not state:
            raise Trouble(f"`{self.instance.name}` is not up")
        return state

    @property
    def address(self) -> str:
        """Address and port of the shared port, which is the collector's where the pool has one."""
        return self.state.address

    @property
    def tarball(self) -> Path:
        """HTCondor for machines like this one."""
        return self.build / "condor-host.tar.gz"

    @property
    def tarball_sha256(self) -> str:
        return str(json.loads((self.build / "about.json").read_text(encoding="utf-8"))["tarball_sha256"])

    @property
    def without_containers(self) -> str:
        """Why there is no apptainer inside; empty where there is."""
        return condor_containers.why_none(self.build)

    def home(self, user: str) -> Path:
        """The user's home: by this path on the machine and inside."""
        return self.folder / "home" / user

    # Up and down.

    def up(
        self,
        *,
        extra_config: str = "",
        daemons: Sequence[str] = DAEMONS,
        collector: Pool | None = None,
        port: int = 0,
        address: str = "127.0.0.1",
        tied: bool = False,
    ) -> State:
        """Starts it where it is not up; with `collector` it joins that pool; `tied`, it ends with us."""

        def begin() -> State:
            chosen = free_port(address, [port] if port else ())
            ours = f"{address}:{chosen}"
            theirs = collector.address if collector else ours
            self._furnish(collector)
            net = network(address=address, collector=theirs, schedd=self.schedd_name)
            self._write("conf.d/90-extra.config", extra_config)
            self._write(
                "condor_config",
                pool_text(self.folder, port=chosen, daemons=daemons, schedd=self.schedd_name, network=net),
            )
            self._write("client/network", net)
            state = self._start(ours, chosen, tied=tied)
            self._wait(lambda: self._answers(daemons), f"did not answer in {UP_S_MAX} s")
            return state

        state = lifecycle.up(self.part, self.instance, self.say, begin)
        if port and state.port != port:
            raise Trouble(f"`{state.name}` is up on port {state.port}; `down` it first to have port {port}")
        return state

    def down(self) -> None:
        lifecycle.down(self.part, self.instance, self.say)

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self.down()

    def _furnish(self, collector: Pool | None) -> None:
        uid, gid = self._condor_ids()
        for names, mode, owner in (
            (OWNED_BY_CONDOR, 0o755, (uid, gid)),
            (ONLY_ROOT, 0o700, (0, 0)),
            (OPEN_TO_ALL, 0o755, (0, 0)),
        ):
            for name in names:
                path = self.folder / name
                path.mkdir()
                path.chmod(mode)
                os.chown(path, *owner)
        for user, number in USERS.items():
            self.home(user).mkdir()
            os.chown(self.home(user), number, number)
        if collector:  # One pool has one signing key: the other's negotiator must be believed here.
            shutil.copy2(collector.folder / "passwords.d/POOL", self.folder / "passwords.d/POOL")

    def _condor_ids(self) -> tuple[int, int]:
        lines = (self.build / "root/etc/passwd").read_text(encoding="utf-8").splitlines()
        fields = next(line.split(":") for line in lines if line.startswith("condor:"))
        return int(fields[2]), int(fields[3])

    def _write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.write_text(f"{text.rstrip()}\n", encoding="utf-8")
        path.chmod(0o644)

    def _start(self, address: str, port: int, *, tied: bool) -> State:
        uid, gid = self._condor_ids()
        inside = ["sh", "-c", INSIDE, "bed", str(self.build / "root"), str(self.folder), f"{uid}:{gid}"]
        words = (alone if tied else namespaces)(*inside, "/usr/sbin/condor_master", "-f")
        logs = self.folder / "log"
        pid = start(words, self.instance, environ=self._environ("/"), output=logs / "output")
        state = State(self.instance.name, pid, began(pid), address, port, str(logs))
        remember(self.instance, state)
        return state

    def _environ(self, home: str) -> dict[str, str]:
        return {
            "PATH": TOOL_PATH,
            "LC_ALL": "C.UTF-8",
            "HOME": home,
            "CONDOR_CONFIG": str(self.folder / "condor_config"),
        }

    # Waiting.

    def _wait(self, done: Callable[[], bool], otherwise: str) -> None:
        until = time.monotonic() + UP_S_MAX
        while not done():
            if not up_now(self.instance):
                raise Trouble(f"`{self.instance.name}`: its first program has ended")
            if time.monotonic() > until:
                raise Trouble(f"`{self.instance.name}` {otherwise}")
            time.sleep(POLL_S)

    def _answers(self, daemons: Sequence[str]) -> bool:
        """The collector shows each of these daemons of this instance, and the schedd answers a query."""
        state = up_now(self.instance)
        if not state or not first_inside(state):
            return False
        own = {"collector": "Collector", "negotiator": "Negotiator", "schedd": "Scheduler"}
        shown = self.run("condor_status", "-any", "-af", "MyType", "Name", timeout_s=UP_S_MAX)
        rows = [line.split(" ", 1) for line in shown.out.splitlines()]
        kinds = {row[0] for row in rows if row[0] != "Scheduler" or row[1:] == [self.schedd_name]}
        if not {own[name] for name in daemons} <= kinds:
            return False
        return "schedd" not in daemons or self.run("condor_q", "-totals", timeout_s=UP_S_MAX).code == 0

    # Using it.

    def run(
        self, *words: str, user: str = "root", timeout_s: float = TOOL_S_MAX, given: str | None = None
    ) -> Ended:
        """Runs a program inside as that user, in its home."""
        if user != "root" and user not in USERS:
            raise Trouble(f"there is no user `{user}` inside; there are root, {', '.join(USERS)}")
        home = "/" if user == "root" else str(self.home(user))
        environ = {**self._environ(home), "USER": user}
        done = run(self.beside(*words, user=user), environ=environ, limit_s=timeout_s, given=given)
        return replace(done, words=words)  # Whoever reads of a failure knows the tool, not the way to it.

    def beside(self, *words: str, user: str) -> list[str]:
        """The command by which whoever is root here runs a program inside as that user, in its home."""
        home = "/" if user == "root" else str(self.home(user))
        number = USERS.get(user, 0)
        become = ["setpriv", f"--reuid={number}", f"--regid={number}", "--clear-groups", "--"]
        return entering(first_inside(self.state), "env", f"--chdir={home}", *become, *words)

    def token(self, identity: str, authz: Sequence[str] = (), lifetime_s: int = TOKEN_S) -> str:
        """A token of this pool; without `authz` it has every right of that identity."""
        rights = [word for right in authz for word in ("-authz", right)]
        words = ["condor_token_create", "-identity", identity, *rights, "-lifetime", str(lifetime_s)]
        return self.run(*words).must(f"no token for `{identity}`").out.strip()

    def reconfig(self) -> None:
        """Makes the daemons of this instance read `conf.d` again; they do so a moment later."""
        # Its own master by its file, not `-all`: that asks the collector, which may not know it yet, and
        # would reach the masters of pilots too.
        self.run("condor_reconfig").must(f"`{self.instance.name}` was not reconfigured")

    def host_environment(self, tokens: Path | None = None) -> dict[str, str]:
        """For this machine's own tools and daemons of HTCondor as clients of the pool, as whatever user."""
        tree = self.host_tree()
        config = self.folder / "client/condor_config"
        net = (self.folder / "client/network").read_text(encoding="utf-8")
        self._write("client/condor_config", client_text(config.parent, tree=tree, network=net))
        chosen = {"_CONDOR_SEC_TOKEN_DIRECTORY": str(tokens)} if tokens else {}
        path = f"{tree}/bin:{tree}/sbin:{os.environ.get('PATH', TOOL_PATH)}"
        return {"PATH": path, "LC_ALL": "C.UTF-8", "CONDOR_CONFIG": str(config), **chosen}

    def host_tree(self) -> Path:
        """HTCondor for this machine: in the cache where every user can get there, otherwise a copy."""
        tree = self.build / "host/condor"
        if all(folder.stat().st_mode & 0o001 for folder in tree.parents):
            return tree
        copy = self.folder / "host/condor"
        if not copy.is_dir():
            growing = self.folder / "host/growing"
            shutil.copytree(tree, growing, symlinks=True, dirs_exist_ok=True)
            growing.rename(copy)
        return copy

    # Hurting it.

    def processes(self, daemon: str) -> list[int]:
        return members(self.state, f"condor_{daemon}")

    def kill(self, daemon: str) -> None:
        """Ends it without a word; it stays dead until `restart`."""
        self._send(daemon, signal.SIGKILL)
        self._wait(lambda: not self.processes(daemon), f"still has a {daemon} after it was killed")

    def pause(self, daemon: str) -> None:
        """It accepts and never answers, until `resume`."""
        self._send(daemon, signal.SIGSTOP)

    def resume(self, daemon: str) -> None:
        self._send(daemon, signal.SIGCONT)

    def restart(self, daemon: str) -> None:
        """Starts it anew, killed or not, and waits until it answers."""
        if self.processes(daemon):
            self.kill(daemon)
        self.run("condor_on", "-daemon", daemon).must(f"the {daemon} was not started")
        self._wait(lambda: bool(self.processes(daemon)), f"has no {daemon} after it was started")
        self._wait(lambda: self._answers([daemon]), f"has a {daemon} that does not answer")

    def _send(self, daemon: str, number: signal.Signals) -> None:
        found = self.processes(daemon)
        if not found:
            raise Trouble(f"`{self.instance.name}` has no {daemon} that runs")
        for pid in found:
            send(pid, number)


def up_now(instance: Instance) -> State | None:
    """The state of an instance that runs."""
    state = state_of(instance)
    return state if state and state.alive() else None
