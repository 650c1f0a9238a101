#!/usr/bin/env python3
"""A stand-in for Slurm, and no Slurm: `sbatch`, `squeue`, `sacct`, `scancel` and `srun` over one folder.

Its jobs are real processes of this machine. Each command moves the queue on; nothing runs in between but
jobs. What goes wrong is written into `faults.json`: a command's name, and how it fails.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

COMMANDS = ("sbatch", "squeue", "sacct", "scancel", "srun")
NODES = tuple(f"n{number}" for number in range(1, 9))
KILL_S = 6.0  # between being told to end and being killed
HANG_S = 600.0
LIVE = ("PENDING", "RUNNING", "COMPLETING")

State = dict[str, Any]


def install(
    folder: Path, *, slots: int = 4, program: str = __file__, commands: tuple[str, ...] = COMMANDS
) -> Path:
    """Makes a stand-in with its state under the folder; the folder of its commands goes out."""
    bin_folder, state = folder / "bin", folder / "state"
    bin_folder.mkdir(parents=True)
    (state / "jobs").mkdir(parents=True, exist_ok=True)
    for name in commands:
        command = bin_folder / name
        command.write_text(f'#!/bin/sh\nexec {sys.executable} -IS {program} {name} {state} "$@"\n')
        command.chmod(0o755)
    faults(state, slots=slots)
    return bin_folder


def faults(state: Path, **what: Any) -> None:
    """Changes what goes wrong; `None` mends it."""
    path = state / "faults.json"
    known = json.loads(path.read_text()) if path.exists() else {}
    known.update(what)
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps({name: each for name, each in known.items() if each is not None}))
    fresh.replace(path)


def jobs_of(state: Path) -> list[State]:
    return [json.loads(path.read_text()) for path in sorted((state / "jobs").glob("*.json"))]


class Queue:
    """The state, held by one command at a time."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.faults: State = json.loads((state / "faults.json").read_text())
        self.lock = (state / "lock").open("w")
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        self.jobs = {job["id"]: job for job in jobs_of(state)}

    def save(self, job: State) -> None:
        path = self.state / "jobs" / f"{job['id']}.json"
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps(job))
        fresh.replace(path)

    def turn(self) -> None:
        """Ends what has ended, starts what there is room for."""
        for job in self.jobs.values():
            if job["state"] in ("RUNNING", "COMPLETING"):
                self.look_at(job)
        for job in self.jobs.values():
            busy = {
                node for each in self.jobs.values() if each["state"] in LIVE[1:] for node in each["nodes"]
            }
            free = [node for node in NODES[: self.faults.get("slots", 4)] if node not in busy]
            if job["state"] == "PENDING" and len(free) >= job["wanted"] and not self.faults.get("held"):
                self.start(job, free[: job["wanted"]])

    def look_at(self, job: State) -> None:
        told = self.state / "jobs" / f"{job['id']}.exit"
        over = told.exists() and told.read_text().strip()
        now = time.time()
        if over or not alive(job["pid"], job["born"]):
            code = int(over) if over else 1
            ended = "CANCELLED" if job.get("cancelled") else "TIMEOUT" if job.get("late") else ""
            job.update(state=ended or ("FAILED" if code else "COMPLETED"), code=code, ended=now)
            sweep(job)
        elif not job.get("told") and now - job["started"] > job["walltime"]:
            job.update(late=True, told=now)
            end(job, signal.SIGTERM)
        elif job.get("told") and now - job["told"] > KILL_S:
            end(job, signal.SIGKILL)
        self.save(job)

    def start(self, job: State, nodes: list[str]) -> None:
        script = self.state / "jobs" / f"{job['id']}.sh"
        environ = {
            "PATH": f"{self.state.parent / 'bin'}:/usr/bin:/bin",
            "SLURM_JOB_ID": job["id"],
            "SLURM_JOB_NUM_NODES": str(len(nodes)),
            "SLURM_JOB_NODELIST": ",".join(nodes),
            "SLURMD_NODENAME": nodes[0],
            "TMPDIR": str(self.state / "tmp"),
            "STAND_IN_JOB": f"{self.state} {job['id']}",
        }
        (self.state / "tmp").mkdir(exist_ok=True)
        told = self.state / "jobs" / f"{job['id']}.exit"
        output = open(job["output"], "ab")  # noqa: SIM115, PTH123 (handed to the job)
        child = subprocess.Popen(
            ["/bin/sh", "-c", f"trap : TERM; /bin/sh {script}; echo $? >{told}"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environ,
            cwd=job["chdir"],
            start_new_session=True,
        )
        born = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[19]
        job.update(state="RUNNING", nodes=nodes, started=time.time(), pid=child.pid, born=born)
        self.save(job)


def alive(pid: int, born: str) -> bool:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return fields[0] != "Z" and fields[19] == born


def marked(job: State) -> list[int]:
    """Its processes, whatever became of their parents: a batch system knows them by their group."""
    found = []
    mark = f"STAND_IN_JOB={Path(sys.argv[2])} {job['id']}".encode()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if mark in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def end(job: State, number: signal.Signals) -> None:
    for pid in marked(job):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


def sweep(job: State) -> None:
    end(job, signal.SIGKILL)


def sbatch(queue: Queue, words: list[str]) -> int:
    options = dict(word[2:].partition("=")[::2] for word in words if word.startswith("--"))
    script = next(word for word in words if not word.startswith("-"))
    if "invalid" in options.get("partition", ""):
        sys.stderr.write("sbatch: error: invalid partition specified\n")
        sys.stderr.write("sbatch: error: Batch job submission failed: Invalid partition name specified\n")
        return 1
    hours, minutes, seconds = (int(part) for part in options["time"].split(":"))
    number = str(1000 + len(queue.jobs))
    job = {
        "id": number,
        "name": options["job-name"],
        "chdir": options["chdir"],
        "output": options["output"],
        "walltime": (hours * 60 + minutes) * 60 + seconds,
        "wanted": int(options.get("nodes", "1")),
        "avoid": options.get("exclude", ""),
        "state": "PENDING",
        "nodes": [],
        "code": 0,
    }
    (queue.state / "jobs" / f"{number}.sh").write_text(Path(script).read_text())
    queue.save(job)
    queue.jobs[number] = job
    queue.turn()
    print(number)
    return 0


def squeue(queue: Queue, words: list[str]) -> int:
    queue.turn()
    keep_s = queue.faults.get("min_age_s", 300)
    if banner := queue.faults.get("banner"):
        print(banner)
    print("JOBID|STATE|TIME|NODES|NODELIST|NAME|REASON")
    for job in queue.jobs.values():
        if job["state"] not in LIVE and time.time() - job["ended"] > keep_s:
            continue
        used = int(time.time() - job["started"]) if "started" in job else 0
        shown = f"{used // 3600:02d}:{used // 60 % 60:02d}:{used % 60:02d}"
        state = queue.faults.get("states", {}).get(job["id"]) or job["state"]
        nodes = ",".join(job["nodes"])
        why = "Resources" if state == "PENDING" else "None"
        print("|".join((job["id"], state, shown, str(job["wanted"]), nodes, job["name"], why)))
    return 0


def sacct(queue: Queue, words: list[str]) -> int:
    print("JobIDRaw|State|ExitCode|ElapsedRaw|NodeList|JobName")
    options = dict(word[2:].partition("=")[::2] for word in words if word.startswith("--"))
    named = [job["id"] for job in queue.jobs.values() if job["name"] == options.get("name")]
    for number in options["jobs"].split(",") if "jobs" in options else named:
        job = queue.jobs.get(number)
        if job is None or number in queue.faults.get("unaccounted", []):
            continue
        lasted = int(job.get("ended", time.time()) - job["started"]) if "started" in job else 0
        nodes = ",".join(job["nodes"]) or "None assigned"
        print("|".join((number, job["state"], f"{job['code']}:0", str(lasted), nodes, job["name"])))
    return 0


def scancel(queue: Queue, words: list[str]) -> int:
    queue.turn()
    for number in (word for word in words if not word.startswith("-")):
        job = queue.jobs.get(number)
        if job is None:
            sys.stderr.write(f"scancel: error: Kill job error on job id {number}: Invalid job id specified\n")
            return 1
        if job["state"] == "PENDING":
            job.update(state="CANCELLED", ended=time.time())
        elif job["state"] == "RUNNING":
            job.update(state="COMPLETING", cancelled=True, told=time.time())
            end(job, signal.SIGTERM)
        queue.save(job)
    return 0


def srun(words: list[str]) -> int:
    """One copy on each node of the job; signals are passed on, as it does."""
    program = words[next(number for number, word in enumerate(words) if not word.startswith("-")) :]
    nodes = os.environ["SLURM_JOB_NODELIST"].split(",")
    children = [subprocess.Popen(program, env={**os.environ, "SLURMD_NODENAME": node}) for node in nodes]
    for number in (signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, lambda told, _: [child.send_signal(told) for child in children])
    return max(child.wait() for child in children)


def main(argv: list[str], commands: Mapping[str, Callable[[Queue, list[str]], int]]) -> int:
    name, state, words = argv[0], Path(argv[1]), argv[2:]
    if name == "srun":
        return srun(words)
    queue = Queue(state)
    fault = queue.faults.get(name)
    if fault == "hang":
        queue.lock.close()
        time.sleep(HANG_S)
    if isinstance(fault, str) and fault.startswith("says "):
        sys.stderr.write(f"{name}: error: {fault[5:]}\n")
        return 1
    code = commands[name](queue, words)
    if fault == "hang after":
        sys.stdout.flush()
        queue.lock.close()
        time.sleep(HANG_S)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], {"sbatch": sbatch, "squeue": squeue, "sacct": sacct, "scancel": scancel}))
