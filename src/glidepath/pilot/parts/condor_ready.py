"""Everything that must be there before HTCondor starts: its programs, folders, configuration, tokens.

The pilot's arguments come in, a place that is ready goes out; ValueError or OSError say what is missing. The
file system is written here and nowhere else, apart from what HTCondor itself writes.
"""

import argparse
import json
import os
import platform
import pwd
import shlex
import shutil
import sys
import tempfile
import time
from typing import Dict, List, Tuple

from glidepath import __version__
from glidepath.pilot.parts import allocation, condor_source, gpus
from glidepath.pilot.parts.common import PASSED_ON, say
from glidepath.pilot.parts.condor_ask import ASK_S_MAX
from glidepath.pilot.parts.condor_config import Values, config_text, state_text, trait_mistake
from glidepath.pilot.parts.probes import Ended, container_program, promised_containers, run
from glidepath.pilot.parts.terms import Settings, line, quoted, settings_of

SETTINGS_BYTES_MAX = 1 << 20
TOKEN_BYTES_MAX = 1 << 16
TOKENS_MAX = 20
INIT_S_MAX = 600.0
# Kept free before a batch system takes everything away: for the end itself, after the grace.
END_MARGIN_S = 60
LIFE_S_MIN = 30
PROBES_S_MAX = 90.0  # All of them together; each has a limit of its own.
PASSED_GPU = ("CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "NVIDIA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
MARKS = ("GLIDEPATH_PILOT", "GLIDEPATH_HOME")
FOLDERS = ("log", "spool", "lock", "run")
SECRET_FOLDERS = ("tokens.d", "passwords.d")
ERROR_LINES = 400


class Ready:
    """A place that is ready to start HTCondor in."""

    def __init__(self, values: Values, folder: str, environ: Dict[str, str], stop_at: float) -> None:
        self.values = values
        self.folder = folder
        self.environ = environ
        self.stop_at = stop_at  # on the steady clock
        self.retirement_s = max(0, int(values.stop_at - time.time())) + values.settings.grace_s
        self.tokens: Dict[str, bytes] = {}

    def tool(self, name: str) -> str:
        return os.path.join(self.values.tree.bin, name)

    def knock(self, turn: int) -> Ended:
        collectors = self.values.settings.collectors
        asked = ["-verbose", "-type", "collector", "-pool", collectors[turn % len(collectors)]]
        program = self.tool("condor_ping")
        if not os.path.exists(program):
            return Ended(0, "")  # A lean tarball has none; then the pool is asked when HTCondor runs.
        self.renew_tokens()
        rights = ["ADVERTISE_STARTD", "ADVERTISE_MASTER"]
        return run([program, *asked, *rights], limit_s=ASK_S_MAX, env=self.environ)

    def ask_command(self) -> List[str]:
        wanted = "GlidepathPilot == %s" % quoted(self.values.name)
        return [
            self.tool("condor_status"),
            *("-constraint", wanted, "-limit", "1", "-af", "MyCurrentTime", "LastHeardFrom"),
        ]

    def guard_command(self) -> List[str]:
        inside = self.values.local.startswith(self.folder + "/")
        scratch = self.values.execute if inside else self.values.local
        master = os.path.join(self.values.tree.sbin, condor_source.MASTER)
        # Marked are HTCondor and its jobs, not the guard: whoever sweeps up after us leaves it to its work.
        marked = ["%s=%s" % (name, self.environ[name]) for name in MARKS]
        return [*own_command(), "guard", scratch, "env", *marked, master, "-f"]

    def guard_environ(self) -> Dict[str, str]:
        return {name: value for name, value in self.environ.items() if name not in MARKS}

    def probe_command(self) -> List[str]:
        values = self.values
        containers = promised_containers(values.settings.terms.attributes)
        return [*own_command(), "probe", values.execute, str(values.disk_mib), str(values.gpus), containers]

    def probe(self) -> Ended:
        return run(self.probe_command(), limit_s=PROBES_S_MAX, env=self.environ)

    def jobs_at_work(self) -> int:
        """Each starter has a folder of its own from its beginning to its end."""
        try:
            return sum(name.startswith("dir_") for name in os.listdir(self.values.execute))
        except OSError:
            return 0

    def write_state(self, text: str) -> None:
        write(os.path.join(self.values.local, "now.config"), text, 0o644)

    def renew_tokens(self) -> bool:
        """Copy what is new where tokens come from; HTCondor reads its own copy at every handshake."""
        fresh = tokens_in([os.path.join(self.folder, "tokens.d"), self.values.settings.tokens])
        if not fresh or fresh == self.tokens:
            return False
        renewed = bool(self.tokens)
        for name, content in fresh.items():
            if self.tokens.get(name) != content:
                write(
                    os.path.join(self.values.local, "tokens.d", name),
                    content.decode("utf-8", "replace"),
                    0o600,
                )
        self.tokens = fresh
        return renewed

    def last_error(self) -> str:
        """The last thing that HTCondor complained about, for the summary."""
        for name in ("StartLog", "MasterLog"):
            text = allocation.read_text(os.path.join(self.values.local, "log", name)) or ""
            for told in reversed(text.splitlines()[-ERROR_LINES:]):
                if "ERROR" in told or "DENIED" in told or "Failed" in told:
                    return " ".join(told.split())[:300]
        return "it gave no reason"

    def clean(self, folder: str) -> None:
        """Scratch, tokens and what was unpacked go; the logs stay where the pilot's folder is."""
        local = self.values.local
        for name in (*SECRET_FOLDERS, "release", "spool", "lock", "run", "condor.tar"):
            path = os.path.join(local, name)
            shutil.rmtree(path, ignore_errors=True) if os.path.isdir(path) else remove(path)
        shutil.rmtree(self.values.execute, ignore_errors=True)
        if not local.startswith(folder + "/"):
            try:
                shutil.copytree(os.path.join(local, "log"), os.path.join(folder, "log"))
            except (OSError, shutil.Error):
                pass  # Logs are for people; the end of the pilot does not wait for them.
            shutil.rmtree(local, ignore_errors=True)


def forget(folder: str) -> None:
    """What only a living pilot needs; also after one that could not start."""
    shutil.rmtree(os.path.join(folder, "tokens.d"), ignore_errors=True)
    remove(os.path.join(folder, "settings.json"))


def own_command() -> List[str]:
    """This very file, for the guard and for the probes."""
    return [sys.executable, "-I", os.path.abspath(sys.argv[0])]


def remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass


def write(path: str, text: str, mode: int) -> None:
    """The whole file or none of it, never readable by more people than meant."""
    fresh = path + ".new"
    remove(fresh)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    os.chmod(fresh, mode)
    os.replace(fresh, path)


def tokens_in(folders: List[str]) -> Dict[str, bytes]:
    found: Dict[str, bytes] = {}
    for folder in [one for one in folders if one]:
        try:
            names = sorted(os.listdir(folder))
        except OSError:
            continue
        for name in [one for one in names if not one.startswith(".")][:TOKENS_MAX]:
            try:
                with open(os.path.join(folder, name), "rb") as file:
                    content = file.read(TOKEN_BYTES_MAX)
            except OSError:
                continue  # It is being replaced just now, and read at the next look.
            found[name] = content
    return found


def settings_in(path: str) -> Settings:
    try:
        with open(path, "rb") as file:
            told = json.loads(file.read(SETTINGS_BYTES_MAX).decode())
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError("the settings cannot be read: %s" % error) from None
    if not isinstance(told, dict):
        raise ValueError("the settings must be one JSON object")
    return settings_of(told)


def workplace(args: argparse.Namespace) -> Tuple[str, str]:
    """The folders of HTCondor and of its jobs. As root they stand where other users can get at theirs."""
    if os.geteuid() != 0:
        local = os.path.join(args.folder, "condor")
    else:
        local = tempfile.mkdtemp(prefix="glidepath-%s-" % args.name[:40])
        os.chmod(local, 0o755)
    execute = os.path.join(local, "execute")
    for name in (*FOLDERS, "execute"):
        os.makedirs(os.path.join(local, name), 0o755, exist_ok=True)
    for name in SECRET_FOLDERS:
        os.makedirs(os.path.join(local, name), 0o700, exist_ok=True)
    return local, execute


def condor_user(local: str) -> str:
    """As root: the user that the daemons are where they need not be root, and whose the folders are."""
    if os.geteuid() != 0:
        return ""
    for name in ("condor", "daemon"):
        try:
            found = pwd.getpwnam(name)
        except KeyError:
            continue
        for folder in (*FOLDERS, "execute"):
            os.chown(os.path.join(local, folder), found.pw_uid, found.pw_gid)
        return "%d.%d" % (found.pw_uid, found.pw_gid)
    raise ValueError("as root, a user condor or daemon is needed for HTCondor's daemons")


def share(args: argparse.Namespace, folder: str, environ: Dict[str, str]) -> allocation.Given:
    cpus = None if args.cpus_milli is None else max(1, args.cpus_milli // 1000)
    told = allocation.Said(cpus, args.memory_mib, args.disk_mib or None, args.gpus, None)
    limits = allocation.cgroup(allocation.read_text("/proc/self/cgroup") or "", allocation.read_text)
    batch = allocation.slurm(environ)
    if batch == allocation.Said():
        batch = allocation.pbs(environ, time.time())
    return allocation.given(told, limits, batch, allocation.of_machine(folder))


def prepare(args: argparse.Namespace) -> Ready:
    """All of it, or an error with its reason; HTCondor is not started yet."""
    settings = settings_in(args.settings)
    local, execute = workplace(args)
    try:
        return prepare_in(args, settings, local, execute)
    except (OSError, ValueError):
        if not local.startswith(args.folder + "/"):
            shutil.rmtree(local, ignore_errors=True)
        raise


def prepare_in(args: argparse.Namespace, settings: Settings, local: str, execute: str) -> Ready:
    outer = dict(os.environ)
    began, began_wall = time.monotonic(), time.time()
    given = share(args, execute, outer)
    lifetime_s = args.lifetime_s
    if given.ends_at is not None:
        lifetime_s = min(lifetime_s, given.ends_at - began_wall - settings.grace_s - END_MARGIN_S)
    if lifetime_s < LIFE_S_MIN and lifetime_s < args.lifetime_s:
        raise ValueError("the batch system leaves no time for jobs, only for the grace at the end")
    path = outer.get("PATH", os.defpath)
    names = condor_source.system_names(allocation.read_text("/etc/os-release") or "", platform.machine())
    tree = condor_source.tree_from(condor_source.chosen(settings.sources, names), local, path)
    environ = environment(args, outer, local)
    settings = initialised(settings, environ, local)
    ids = condor_user(local)
    found = gpus.found(given.gpus, tree, environ, dict(args.trait).get("gpu_type", ""))
    values = Values(
        name=args.name,
        local=local,
        execute=execute,
        tree=tree,
        cpus=given.cpus,
        memory_mib=given.memory_mib,
        disk_mib=given.disk_mib,
        gpus=found.amount,
        gpus_numbered=found.numbered,
        stop_at=int(began_wall + lifetime_s),
        idle_s=int(args.idle_s),
        settings=settings,
        version=__version__,
        home=environ["GLIDEPATH_HOME"],
        condor_ids=ids,
        environ=outer,
        containers=container_program(path),
        procd=os.path.exists(os.path.join(tree.sbin, "condor_procd")),
    )
    place = Ready(values, args.folder, environ, began + lifetime_s)
    write(os.path.join(local, "condor_config"), config_text(values), 0o644)
    place.write_state(state_text(draining=False, retirement_s=place.retirement_s))
    write(os.path.join(local, "probe"), "#!/bin/sh\nexec cat %s/probe.ad\n" % shlex.quote(local), 0o755)
    if found.amount:
        write(os.path.join(local, "gpus"), "#!/bin/sh\ncat <<'end'\n%send\n" % found.text, 0o755)
    place.renew_tokens()
    check_machine(place, args)
    return place


def environment(args: argparse.Namespace, outer: Dict[str, str], local: str) -> Dict[str, str]:
    """What HTCondor sees of ours: little, and the marks by which its jobs are found after a crash."""
    environ = {name: outer[name] for name in (*PASSED_ON, *PASSED_GPU) if name in outer}
    environ["CONDOR_CONFIG"] = os.path.join(local, "condor_config")
    environ["GLIDEPATH_PILOT"] = args.name
    environ["GLIDEPATH_HOME"] = os.path.realpath(os.path.dirname(os.path.dirname(args.folder)))
    return environ


def initialised(settings: Settings, environ: Dict[str, str], local: str) -> Settings:
    """Run the offer's own program; the lines that it leaves are lines of the offer."""
    program = settings.terms.init
    if not program:
        return settings
    lines = os.path.join(local, "init.config")
    write(lines, "", 0o600)
    told = dict(environ, GLIDEPATH_INIT_CONFIG=lines, PILOT_CONFIG_FILE=lines, GLIDEPATH_SITE=settings.site)
    ended = run([program], limit_s=INIT_S_MAX, env=told)
    last = (ended.output.strip().splitlines() or ["it said nothing"])[-1][:200]
    if ended.code != 0:
        how = "did not end within %d s" % INIT_S_MAX if ended.code is None else "ended with %d" % ended.code
        raise ValueError("the init program %s %s: %s" % (program, how, last))
    say("the init program has ended: %s" % ascii(last))
    text = allocation.read_text(lines) or ""
    added = tuple(line(one, "a line of the init program") for one in text.splitlines() if one.strip())
    return settings._replace(terms=settings.terms._replace(lines=settings.terms.lines + added))


def check_machine(place: Ready, args: argparse.Namespace) -> None:
    """HTCondor's own word on what this machine is, against what the offer promises."""
    ended = run([place.tool("condor_config_val"), "ARCH", "OPSYSANDVER"], env=place.environ)
    words = ended.output.split()
    if ended.code != 0 or len(words) != 2:
        last = (ended.output.strip().splitlines() or ["it said nothing"])[-1][:300]
        raise ValueError("HTCondor does not take its configuration: %s" % last)
    mistake = trait_mistake(args.trait, words[0], words[1])
    if mistake:
        raise ValueError(mistake)
