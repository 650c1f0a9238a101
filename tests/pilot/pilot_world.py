"""A real pool, real pilots as an ordinary user of this machine, and jobs of ordinary users of the pool."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bed.parts.condor import Pool
from bed.parts.condor_root import USERS
from tests.embedded.world import until

from glidepath.pilot import pilot_file

WAIT_S = 240.0
RIGHTS = ("ADVERTISE_STARTD", "ADVERTISE_MASTER")
IDENTITY = "glidepath-here@bed.example"
# The pool listens on this machine only; so does the pilot, or a machine without network could not be tested.
LINES = ["NETWORK_INTERFACE = 127.0.0.1"]
JOB = "executable = /bin/sh\ntransfer_executable = false\nlog = log.$(Cluster)\nrequest_disk = 1000\n"


def plain_python() -> str:
    """An interpreter that every user can run; that of the tests may be in somebody's home."""
    found = shutil.which("python3", path="/usr/bin:/usr/local/bin:/bin")
    assert found, "a python3 of the machine itself is needed"
    return found


class PilotWorld:
    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.home = pool.home("pilot") / "gp"
        self.pilots: dict[str, subprocess.Popen[bytes]] = {}
        self.clusters: list[int] = []

    def furnish(
        self,
        name: str,
        *,
        uid: int,
        terms: Mapping[str, object],
        token: str | None,
        settings: Mapping[str, str],
    ) -> Path:
        folder = self.home / "pilots" / name
        (folder / "tokens.d").mkdir(parents=True)
        self.home.chmod(0o755)
        pilot = pilot_file(self.home)
        told = {
            "GLIDEPATH_POOL_KIND": "condor",
            "GLIDEPATH_POOL": "bed",
            "GLIDEPATH_COLLECTOR": self.pool.address,
            "GLIDEPATH_TERMS": json.dumps({"lines": LINES, **terms}),
            "GLIDEPATH_CONDOR": str(self.pool.host_tree()),
            "GLIDEPATH_SITE": "here",
            "GLIDEPATH_OFFER": "here/small",
            "GLIDEPATH_RUN_TIME": "AllowedExecuteDuration,MaxWallTimeMins*60",
            **settings,
        }
        (folder / "settings.json").write_text(json.dumps(told))
        self.give_token(name, token)
        for path in (self.home, self.home / "pilots", pilot, folder, *folder.rglob("*")):
            os.chown(path, uid, uid)
        return folder

    def give_token(self, name: str, token: str | None = None) -> None:
        """As the backend does it: another file takes the place of the old one."""
        path = self.home / "pilots" / name / "tokens.d" / "bed.token"
        fresh = path.parent.parent / "token.new"
        fresh.write_text((self.pool.token(IDENTITY, RIGHTS) if token is None else token) + "\n")
        fresh.chmod(0o600)
        os.chown(fresh, path.parent.stat().st_uid, path.parent.stat().st_gid)
        fresh.rename(path)

    def start(
        self,
        name: str,
        *options: str,
        user: str = "pilot",
        terms: Mapping[str, object] | None = None,
        token: str | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> Path:
        uid = 0 if user == "root" else USERS[user]
        folder = self.furnish(name, uid=uid, terms=terms or {}, token=token, settings=settings or {})
        command = [plain_python(), "-I", str(pilot_file(self.home)), "--kind", "condor", "--name", name]
        command += ["--folder", str(folder), "--settings", str(folder / "settings.json"), "--pool", "bed"]
        command += ["--cpus-milli", "2000", "--memory-mib", "2000", "--disk-mib", "500", *options]
        # The run folder marks what belongs to this session, should it be forgotten.
        marks = {"GLIDEPATH_BED_RUN": os.environ["GLIDEPATH_BED_RUN"]}
        with (folder / "pilot.log").open("wb") as log:
            self.pilots[name] = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", **marks},
                cwd="/",
                user=uid,
                group=uid,
                extra_groups=[],
            )
        return folder

    def log(self, name: str) -> str:
        return (self.home / "pilots" / name / "pilot.log").read_text()

    def joined(self, name: str) -> None:
        until(
            f"{name} has joined",
            lambda: "joined the pool" in self.log(name) or self.gone(name),
            wait_s=WAIT_S,
        )
        assert "joined the pool" in self.log(name), self.log(name)

    def gone(self, name: str) -> bool:
        return self.pilots[name].poll() is not None

    def send(self, name: str, number: signal.Signals) -> None:
        self.pilots[name].send_signal(number)

    def ended(self, name: str, *, wait_s: float = WAIT_S) -> dict[str, Any]:
        """The summary of a pilot that has left, which is also the last line of what it said."""
        assert self.pilots[name].wait(wait_s) == 0, self.log(name)
        found: dict[str, Any] = json.loads((self.home / "pilots" / name / "summary.json").read_text())
        assert json.loads(self.log(name).splitlines()[-1]) == found
        return found

    def slots(self, name: str) -> list[dict[str, Any]]:
        return self.ads("-constraint", f'GlidepathPilot == "{name}"')

    def ads(self, *words: str) -> list[dict[str, Any]]:
        shown = self.pool.run("condor_status", *words, "-json").must("no ads").out
        found: list[dict[str, Any]] = json.loads(shown or "[]")
        return found

    def submit(self, script: str, *lines: str, user: str = "ann", count: int = 1, memory: str = "400") -> int:
        """The number of the new cluster; each job writes its output into a file of its own."""
        text = JOB + f"request_memory = {memory}\n" + "output = out.$(Cluster).$(Process)\n"
        text += "".join(f"{line}\n" for line in lines)
        text += f"arguments = \"-c '{script}'\"\nqueue {count}\n"
        ended = self.pool.run("condor_submit", "-terse", "-", user=user, given=text).must("no job")
        self.clusters.append(int(ended.out.split(".")[0]))
        return self.clusters[-1]

    def waiting(self, cluster: int) -> list[dict[str, Any]]:
        shown = self.pool.run("condor_q", str(cluster), "-json").must("no queue").out
        found: list[dict[str, Any]] = json.loads(shown or "[]")
        return found

    def statuses(self, cluster: int) -> list[int]:
        return [job["JobStatus"] for job in self.waiting(cluster)]

    def running(self, cluster: int, count: int = 1) -> None:
        met = lambda: self.statuses(cluster).count(2) == count  # noqa: E731 (said once, waited for once)
        until(f"{count} of {cluster} run", met, wait_s=WAIT_S)

    def done(self, *clusters: int, wait_s: float = WAIT_S) -> None:
        until(f"{clusters} are done", lambda: not any(map(self.waiting, clusters)), wait_s=wait_s)

    def output(self, cluster: int, number: int = 0, user: str = "ann") -> str:
        return (self.pool.home(user) / f"out.{cluster}.{number}").read_text()

    def begun(self, name: str) -> list[Path]:
        """The folders of jobs that this pilot has at work."""
        return list((self.home / "pilots" / name / "condor" / "execute").glob("dir_*"))

    def left(self, name: str) -> list[str]:
        """Programs of this pilot that still run, and files of it that should not be there any more."""
        marks = (f"/pilots/{name}/", f"glidepath-{name}-", f"GLIDEPATH_PILOT={name}\0")
        ours = os.environ["GLIDEPATH_BED_RUN"].encode()  # Another test run beside has pilots of such names.
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = path.read_bytes() + (path.parent / "environ").read_bytes()
            except OSError:
                continue
            if ours in words and any(mark.encode() in words for mark in marks):
                found.append(words.replace(b"\0", b" ").decode("utf-8", "replace")[:200])
        folder = self.home / "pilots" / name
        # Folders may go while they are looked through, which is no error to this one.
        there = [Path(at) / one for at, folders, files in os.walk(folder) for one in (*folders, *files)]
        execute = folder / "condor" / "execute"
        kept = [path for path in there if path.suffix == ".token" or path.parent == execute]
        kept += Path("/tmp").glob(f"glidepath-{name}-*")
        return found + [str(path) for path in kept]

    def close(self) -> None:
        for cluster in self.clusters:
            self.pool.run("condor_rm", str(cluster))
        for pilot in self.pilots.values():
            if pilot.poll() is None:
                pilot.send_signal(signal.SIGINT)
        for pilot in self.pilots.values():
            try:
                pilot.wait(WAIT_S)
            except subprocess.TimeoutExpired:
                pilot.kill()
                pilot.wait()
        shutil.rmtree(self.home, ignore_errors=True)


def names_of(ads: Sequence[Mapping[str, Any]], kind: str) -> list[str]:
    return sorted(str(ad["Name"]) for ad in ads if ad.get("SlotType") == kind)
