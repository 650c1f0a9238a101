"""Slurm: a site of real daemons (controller, accounting with its database, two nodes) beside a login node.

A name and a few settings come in; tools run as a user inside, and daemons to be stopped and started go out.
Every user may submit; partitions differ in their limits (slurm_config.py).
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from typing import Any, ClassVar

from bed.parts import slurm_config
from bed.parts.batch_root import DATABASE_WORDS
from bed.parts.batch_site import BatchPart, Daemon, Site

NODES = ("node1", "node2")
# More than any machine of tests has: what waits there costs nothing.
SETTINGS: dict[str, Any] = {
    "cpus": 4,
    "memory_mib": 6000,
    "disk_mib": 20000,
    # How long the controller remembers a job that has ended; it looks once a minute.
    "kept_s": 300,
}


class Slurm(Site):
    """One site with Slurm."""

    order = ("munged", "mariadbd", "slurmdbd", "slurmctld", *NODES)
    tools = ("sbatch", "squeue", "sacct", "scancel", "scontrol", "sinfo", "srun", "salloc", "sacctmgr")

    def ports(self) -> tuple[str, ...]:
        return ("slurmctld", "slurmdbd", *NODES)

    def daemon(self, name: str) -> Daemon:
        if name == "munged":
            files = {"log": "munged.log", "pid": "munged.pid", "seed": "munged.seed"}
            options = (f"--{kind}-file=/run/munge/{file}" for kind, file in files.items())
            return Daemon(("/usr/sbin/munged", "--foreground", "--force", *options), user="munge")
        if name == "mariadbd":
            words = f"/usr/sbin/{DATABASE_WORDS}{self.folder}/database --pid-file=/run/mysqld/mysqld.pid"
            return Daemon(tuple(words.split()))
        if name in NODES:
            return Daemon(("/usr/sbin/slurmd", "-D", "-N", name))
        return Daemon((f"/usr/sbin/{name}", "-D"))

    def furnish(self, settings: Mapping[str, Any]) -> None:
        shutil.copytree(self.build / "database", self.folder / "database")
        for name in ("slurm", "state", "spool", *(f"spool/{node}" for node in NODES)):
            (self.folder / name).mkdir(mode=0o755)
        ports = self.about()["ports"]
        text = slurm_config.slurm_text(self.folder, ports, NODES, settings={**SETTINGS, **settings})
        self.write("slurm/slurm.conf", text)
        self.write("slurm/cgroup.conf", slurm_config.CGROUP)
        self.write("slurm/slurmdbd.conf", slurm_config.slurmdbd_text(ports), mode=0o600)

    def answers(self, daemon: str) -> bool:
        if daemon == "munged":
            return self.inside("munge", "--no-input").code == 0
        if daemon == "mariadbd":
            return self.inside("test", "-S", "/run/mysqld/mysqld.sock").code == 0
        if daemon == "slurmdbd":
            return self.inside("sacctmgr", "-n", "show", "cluster").code == 0
        if daemon == "slurmctld":
            return self.inside("scontrol", "ping").code == 0
        shown = self.inside("sinfo", "--noheader", f"--nodes={daemon}", "--format=%T").out.split()
        return bool(shown) and set(shown) <= {"idle", "mixed", "allocated", "completing"}


class SlurmPart(BatchPart):
    """The part of the bed; `Slurm` is one instance of it."""

    name: ClassVar[str] = "slurm"
    site: ClassVar[type[Site]] = Slurm


Slurm.part = SlurmPart()
