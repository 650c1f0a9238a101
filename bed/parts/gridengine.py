"""Grid Engine: a site of real daemons (master, one execution host) beside a login node.

A name and a few settings come in; tools run as a user inside, and daemons to be stopped and started go out.
There are two queues, `all.q` and `short.q`, and a parallel environment `smp` for the cores of one host.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from bed.command import Ended
from bed.parts.batch_site import BatchPart, Daemon, Site

ADMIN = "sgeadmin"
PROGRAMS = "/usr/lib/gridengine"
SPOOLS = ("qmaster", "qmaster/job_scripts", "spooldb", "execd")
SETTINGS: dict[str, Any] = {
    "slots": 4,
    # How often the execution host tells the master what became of its jobs.
    "report_s": 2,
}
BOOTSTRAP = """admin_user              {admin}
default_domain          none
ignore_fqdn             false
spooling_method         berkeleydb
spooling_lib            libspoolb
spooling_params         {folder}/sge/spooldb
binary_path             /usr/sbin
qmaster_spool_dir       {folder}/sge/qmaster
security_mode           none
listener_threads        2
worker_threads          2
scheduler_threads       1
"""
HOST = """hostname              login
load_scaling          NONE
complex_values        NONE
user_lists            NONE
xuser_lists           NONE
projects              NONE
xprojects             NONE
usage_scaling         NONE
report_variables      NONE
"""
# The package's own thresholds make jobs wait, because the machine's load is that of all tests.
QUEUE = {
    "hostlist": "@allhosts",
    "load_thresholds": "NONE",
    "pe_list": "smp",
    "shell_start_mode": "unix_behavior",
}
QUEUES = {"all.q": "INFINITY", "short.q": "0:30:0"}
PARALLEL = """pe_name            smp
slots              999
user_lists         NONE
xuser_lists        NONE
start_proc_args    NONE
stop_proc_args     NONE
allocation_rule    $pe_slots
control_slaves     FALSE
job_is_first_task  TRUE
urgency_slots      min
accounting_summary FALSE
qsort_args         NONE
"""
SCHEDULE = {
    "schedule_interval": "0:0:2",
    "flush_submit_sec": "1",
    "flush_finish_sec": "1",
    "job_load_adjustments": "NONE",
    "load_adjustment_decay_time": "0:0:0",
}


class GridEngine(Site):
    """One site with Grid Engine."""

    order = ("qmaster", "execd")
    tools = ("qsub", "qstat", "qacct", "qdel", "qconf", "qhost", "qhold", "qrls", "qmod", "qalter")

    def ports(self) -> tuple[str, ...]:
        return ("qmaster", "execd")

    def environ(self, user: str) -> dict[str, str]:
        return {**super().environ(user), **self._own_environ()}

    def _own_environ(self) -> dict[str, str]:
        ports = self.about()["ports"]
        return {
            "SGE_ROOT": "/var/lib/gridengine",
            "SGE_CELL": "default",
            "SGE_ARCH": "lx-amd64",
            "SGE_QMASTER_PORT": str(ports["qmaster"]),
            "SGE_EXECD_PORT": str(ports["execd"]),
        }

    def daemon(self, name: str) -> Daemon:
        # With this it neither leaves its terminal nor forks.
        return Daemon((f"{PROGRAMS}/sge_{name}",), environ={"SGE_ND": "1"})

    def furnish(self, settings: Mapping[str, Any]) -> None:
        for name in ("sge", *(f"sge/{spool}" for spool in SPOOLS), "cell", "cell/common"):
            (self.folder / name).mkdir(mode=0o755)
        common = {
            "bootstrap": BOOTSTRAP.format(admin=ADMIN, folder=self.folder),
            "act_qmaster": "login",
            "host_aliases": "login localhost",
        }
        for name, text in common.items():
            self.write(f"cell/common/{name}", text)
        lines = [f"export {name}={value}" for name, value in self._own_environ().items()]
        (self.folder / "defaults").mkdir()
        self.write("defaults/gridengine", "\n".join(lines))

    def make_ready(self, daemon: str) -> None:
        if daemon == "qmaster":
            self._make_cell()
        if daemon == "execd":
            self._configure({**SETTINGS, **self.about()["settings"]})

    def _make_cell(self) -> None:
        owned = [str(self.folder / name) for name in ("sge", "cell")]
        self.inside("chown", "-R", f"{ADMIN}:{ADMIN}", *owned).must("no folders for Grid Engine")
        words = [f"/usr/share/gridengine/scripts/init_cluster /var/lib/gridengine default {owned[0]}/spooldb"]
        become = ["setpriv", f"--reuid={ADMIN}", f"--regid={ADMIN}", "--clear-groups", "--"]
        self.inside(*become, "sh", "-c", f"{words[0]} {ADMIN}").must("Grid Engine's cell was not made")

    def _configure(self, settings: Mapping[str, Any]) -> None:
        """Tells the master of its one host, its queues, and how soon it looks after them."""
        for words in (("-ah", "login"), ("-as", "login")):
            self._qconf(*words, told="the host was not taken")
        self._file("-Ae", HOST, told="the execution host was not taken")
        self._file("-Ahgrp", "group_name @allhosts\nhostlist login\n", told="no group of hosts")
        self._file("-Ap", PARALLEL, told="no parallel environment")
        usual = self._shown("-sq")
        for name, h_rt in QUEUES.items():
            own = {"qname": name, "slots": str(settings["slots"]), "h_rt": h_rt}
            self._file("-Aq", replaced(usual, {**QUEUE, **own}), told=f"no queue `{name}`")
        self._file("-Msconf", replaced(self._shown("-ssconf"), SCHEDULE), told="no schedule")
        wanted = {
            "execd_spool_dir": f"{self.folder}/sge/execd",
            "load_report_time": f"00:00:{settings['report_s']:02}",
            "reporting_params": "accounting=true reporting=false flush_time=00:00:01 joblog=false "
            "sharelog=00:00:00",
            "mailer": "/bin/true",
        }
        self._file("-Mconf", replaced(self._shown("-sconf"), wanted), told="no configuration", name="global")

    def _qconf(self, *words: str, told: str) -> Ended:
        return self.inside("qconf", *words).must(told)

    def _shown(self, word: str) -> str:
        return self._qconf(word, told="Grid Engine does not tell its configuration").out

    def _file(self, option: str, text: str, *, told: str, name: str = "told") -> None:
        self._qconf(option, str(self.write(f"etc/{name}", text)), told=told)

    def answers(self, daemon: str) -> bool:
        if daemon == "qmaster":
            return self.inside("qconf", "-sh").code == 0
        # `qhost` has a dash for the load of a host that has not spoken yet.
        shown = self.inside("qhost").out.splitlines()
        rows = [line.split() for line in shown]
        return any(row[0] == "login" and row[3:4] != ["-"] for row in rows if row)


class GridEnginePart(BatchPart):
    """The part of the bed; `GridEngine` is one instance of it."""

    name: ClassVar[str] = "gridengine"
    site: ClassVar[type[Site]] = GridEngine


GridEngine.part = GridEnginePart()


def replaced(shown: str, wanted: Mapping[str, str]) -> str:
    """What the master told of itself, with other values; its long lines go on after a backslash."""
    lines = shown.replace("\\\n", " ").splitlines()
    rows = [line.split(None, 1) for line in lines if line.strip() and not line.startswith("#")]
    kept = {row[0]: row[1] if len(row) > 1 else "" for row in rows}
    return "\n".join(f"{name} {value}" for name, value in {**kept, **wanted}.items())
