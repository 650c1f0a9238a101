"""A whole glidepath that asks real batch sites for pilots, over ssh, for the jobs of a real pool."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bed.parts.batch_root import USERS
from bed.parts.batch_site import Site
from bed.parts.condor import Pool
from bed.parts.gridengine import GridEngine
from bed.parts.slurm import Slurm
from tests.bed_site import LINES, CondorSite

from grid.grid_world import POOL, RIGHTS, Grid
from scenes.several import seldom

WAIT_S = 240.0
# A look at a site is a few commands over ssh: cycles are as short as these allow.
HEAD = """
[cycle]
min = "1s"
max = "3s"
deadline = "40s"

[policy]
name = "steady"
release_after = "5m"
reserve_percent = 0

[pilots]
withdraw_after = "1m"
left_min = "10s"
join_slack = "10s"
useful_min = "30s"
"""
SITE = """
[sites.{name}]
kind = "{kind}"
"""
# Of the backend, wherever it works: the tables of a site, or those of its agent.
OWN = """
[{table}]
folder = "{folder}"
timeout = "25s"
{lines}

[{table}.ssh]
host = "127.0.0.1"
user = "{user}"
port = {port}
identity = "{identity}"
config = "{config}"
path = "{path}"
login = "{login}"
"""
OFFERED = """
[sites.{name}.offers.small]
{offer}
limits = {{ live_max = {live_max} }}

[sites.{name}.offers.small.condor]
lines = {condor_lines}
"""
OFFER = {"cpus": 2, "memory": "1500MiB", "disk": "2GiB", "lifetime": "1h", "idle": "6s"}
KINDS: dict[type[Site], str] = {Slurm: "slurm", GridEngine: "sge", CondorSite: "htcondor"}
# What the sites of the bed want to be told.
OWN_LINES: dict[str, list[str]] = {
    "slurm": ['queue = "long"', 'account = "abc123"'],
    "sge": ['parallel = "smp"', 'memory_by = "none"'],
    "htcondor": [],
}


@dataclass
class Asked:
    """One site of a glidepath."""

    at: Site
    name: str
    user: str = "pilot"
    login: str = "key"
    live_max: int = 2
    # Lines of the site's own table and values of the offer, instead of the usual ones.
    lines: list[str] = field(default_factory=list)
    offer: dict[str, Any] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        return KINDS[type(self.at)]


class Sites(Grid):
    """One glidepath with batch sites; jobs of its pool get pilots there."""

    def __init__(self, home: Path, pool: Pool) -> None:
        self.asked_of: list[Asked] = []
        self.extra = ""
        super().__init__(home, pool)

    def configure(self, *_: object, **more: Any) -> None:
        """The pool and all sites; `grace` is what running jobs have to end in."""
        token = self.home / "pool.token"
        token.write_text(self.pool.token("glidepath-bed@bed.example", RIGHTS) + "\n")
        token.chmod(0o600)
        named = {"address": self.pool.address, "tree": self.pool.host_tree(), "token": token}
        text = HEAD + POOL.format(name="bed", deadline="8s", **named)
        if "grace" in more:
            text = text.replace("[pools.bed.condor]", f'[pools.bed.condor]\ngrace = "{more["grace"]}"')
        self.config.write_text(text + "".join(self._table(each) for each in self.asked_of) + self.extra)

    def at(self, site: Site, name: str = "", **more: Any) -> Asked:
        """One more site, with a folder of its own in the user's home there."""
        made = Asked(site, name or KINDS[type(site)], **more)
        self.asked_of.append(made)
        folder = self.folder(made)
        folder.mkdir()
        os.chown(folder, USERS[made.user], USERS[made.user])
        self.configure()
        return made

    def folder(self, asked: Asked) -> Path:
        """The folder of the site, by its path on this machine and there."""
        home = asked.at.pool.home("pilot") if isinstance(asked.at, CondorSite) else asked.at.home(asked.user)
        return home / self.home.name

    def _table(self, asked: Asked) -> str:
        about = SITE.format(name=asked.name, kind=asked.kind)
        return about + self.own(asked, f"sites.{asked.name}.{asked.kind}") + self.offered(asked)

    def own(self, asked: Asked, table: str) -> str:
        """How the site is reached and spoken to, under the name of its table."""
        _, port = asked.at.address.split(":")
        config = self.home / f"{asked.name}.ssh"
        config.write_text(f"UserKnownHostsFile {asked.at.known_hosts}\n")
        return OWN.format(
            table=table,
            folder=self.folder(asked),
            path=asked.at.pool.folder / "tools" if isinstance(asked.at, CondorSite) else "",
            user=asked.user,
            port=port,
            identity=asked.at.key(asked.user),
            config=config,
            login=asked.login,
            lines="\n".join(asked.lines or OWN_LINES[asked.kind]),
        )

    def offered(self, asked: Asked) -> str:
        offer = "\n".join(f"{name} = {json.dumps(value)}" for name, value in {**OFFER, **asked.offer}.items())
        told = {"name": asked.name, "live_max": asked.live_max, "condor_lines": json.dumps(LINES)}
        return OFFERED.format(offer=offer, **told)

    # What is seen.

    def slots(self) -> list[str]:
        """Of our own pilots only: what was killed elsewhere is in the pool until it is forgotten there."""
        ours = set(self.asked())
        return [name for name in super().slots() if name in ours]

    def source(self, asked: Asked) -> dict[str, Any]:
        """How the site was seen last."""
        sources = self.ask("site", "status")["sources"]
        found: dict[str, Any] = next(each for each in sources if each["name"] == f"site {asked.name}")
        return found

    def pilots_at(self, asked: Asked) -> list[str]:
        return sorted(each["name"] for each in self.pilots() if each["site"] == asked.name)

    def cycles_later(self, count: int = 3) -> None:
        """Nothing more is to come after so many more looks at everything."""

        def cycle() -> int:
            return int(self.ask("journal", "list")["items"][-1]["cycle"])

        after = cycle() + count
        seldom(lambda: cycle() >= after, self.said, within_s=WAIT_S)

    def accounted(
        self, asked: Asked, number: str, *columns: str, not_yet: tuple[str, ...] = ("PENDING", "RUNNING")
    ) -> list[str]:
        """What Slurm's accounting has of a job, which it hears of later than the queue does."""
        words = ["--noheader", "--parsable2", "--allocations", f"--jobs={number}"]

        def shown(names: str) -> list[str]:
            answer = asked.at.run("sacct", *words, f"--format={names}").must("no accounting")
            return answer.out.strip().split("|")

        seldom(lambda: shown("State")[0] not in ("", *not_yet), lambda: f"{shown('ALL')}", within_s=WAIT_S)
        return shown(",".join(columns))

    def accounted_of(self, asked: Asked, pilot: str, *columns: str) -> list[str]:
        """The same for the job of a pilot."""
        words = [
            "--noheader",
            "--parsable2",
            "--allocations",
            f"--user={asked.user}",
            "--format=JobName,JobID",
        ]
        rows = asked.at.run("sacct", *words).must("no accounting").out.splitlines()
        [number] = [row.split("|")[1] for row in rows if row.split(".")[0] == pilot]
        return self.accounted(asked, number, *columns)

    def jobs_at(self, asked: Asked) -> list[str]:
        """The numbers of this user's jobs in the queue, whatever they do."""
        if asked.kind == "slurm":
            words = ["squeue", "--noheader", "--format=%i", f"--user={asked.user}"]
            return asked.at.run(*words).must("no queue").out.split()
        if isinstance(asked.at, CondorSite):
            return asked.at.pool.run("condor_q", "-af", "ClusterId").must("no queue").out.split()
        rows = asked.at.run("qstat", "-u", asked.user).must("no queue").out.splitlines()[2:]
        return [row.split()[0] for row in rows]

    def take_away(self, asked: Asked, *numbers: str) -> None:
        """Behind the back of glidepath."""
        if isinstance(asked.at, CondorSite):
            asked.at.pool.run("condor_rm", *numbers).must("the job was not removed")
            return
        word = "scancel" if asked.kind == "slurm" else "qdel"
        asked.at.run(word, *numbers, user=asked.user).must("the job was not removed")

    def kept(self, asked: Asked) -> list[str]:
        """Jobs of which the folder of the site has a trace."""
        jobs = self.folder(asked) / asked.name / "jobs"
        return sorted(path.name for path in jobs.iterdir()) if jobs.exists() else []

    def left_at(self, asked: Asked) -> list[str]:
        """In its queue, in its folder, on its nodes."""
        return [*self.jobs_at(asked), *self.kept(asked), *worked_in(asked)]

    def nothing_is_kept(self) -> None:
        def left() -> list[list[str]]:
            return [self.left_at(asked) for asked in self.asked_of]

        seldom(lambda: not any(left()), lambda: f"left: {left()}", within_s=WAIT_S)

    def close(self) -> None:
        super().close()
        while self.asked_of:
            self._cleared(self.asked_of.pop())
        self._forgotten()

    def _forgotten(self) -> None:
        """A pilot that was killed is in the pool for as long as it may only be silent, and is given jobs."""
        ours = ",".join(self.asked())
        wanted = f'stringListMember(GlidepathPilot, "{ours}")'
        query = f'MyType = "Query"\nTargetType = "Machine"\nRequirements = {wanted}\n'
        told = self.pool.run("condor_advertise", "INVALIDATE_STARTD_ADS", "-", given=query)
        told.must("the pool does not forget")
        seldom(lambda: not self.slots(), lambda: f"in the pool: {self.slots()}", within_s=WAIT_S)

    def _cleared(self, asked: Asked) -> None:
        numbers = self.jobs_at(asked)
        if numbers:
            self.take_away(asked, *numbers)
        seldom(lambda: not self.jobs_at(asked), lambda: f"jobs at {asked.name}", within_s=WAIT_S)
        # Whoever was killed could not close its connection.
        asked.at.hang_up()
        # A pilot that outlives its job would take jobs of the next test.
        seldom(lambda: not programs_of(asked), lambda: f"left: {programs_of(asked)}", within_s=WAIT_S)
        shutil.rmtree(self.folder(asked), ignore_errors=True)


def programs_of(asked: Asked) -> str:
    """What still runs on the site's nodes for its user."""
    if isinstance(asked.at, CondorSite):
        return asked.at.pool.run("pgrep", "-a", "-u", asked.user).out
    return asked.at.run("pgrep", "-a", "-u", asked.user).out


def worked_in(asked: Asked) -> list[str]:
    """Folders of pilots where jobs work on the site's nodes."""
    if isinstance(asked.at, CondorSite):
        return sorted(path.name for path in (asked.at.pool.folder / "execute").glob("dir_*"))
    return sorted(path.name for path in (asked.at.folder / "tmp").glob("**/gp-*.*"))
