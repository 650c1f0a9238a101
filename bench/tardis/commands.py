"""Commands of HTCondor and Slurm over a world: words come in, an exit code and what is printed go out.

Only what TARDIS's adapters and glidepath's dialect of Slurm ask for is understood; anything else is an error
that both would show. It refuses to know time: the world is moved by whoever calls.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.tardis.world import CORES, Worker, World

LISTED_S = 300.0  # so long `squeue` knows a job that is over, as `MinJobAge` has it
MEMORY_MIB = 16384
HOST = "cm.world"
_DRONE = re.compile(r"TardisDroneUuid=([^,\s]+)")


@dataclass(frozen=True)
class Printed:
    code: int
    out: str = ""
    err: str = ""


def run(world: World, argv: Sequence[str], wall: float) -> Printed:
    """`wall` is the time of day that goes with the world's present moment."""
    name, *words = argv
    known: dict[str, Callable[[World, list[str], float], Printed]] = {
        "condor_q": condor_q,
        "condor_status": condor_status,
        "condor_drain": condor_drain,
        "sbatch": sbatch,
        "squeue": squeue,
        "sacct": sacct,
        "scancel": scancel,
    }
    return known[name](world, words, wall)


# HTCondor.


def condor_q(world: World, words: list[str], wall: float) -> Printed:
    """`-json`: all jobs that wait or run."""
    assert words == ["-json"], words
    rows = [_job(world, job, 1, wall) for job in world.waiting]
    rows += [_job(world, job, 2, wall) for worker in world.workers.values() for job in sorted(worker.jobs)]
    return Printed(0, json.dumps(rows))


def _job(world: World, job: int, status: int, wall: float) -> dict[str, int]:
    return {"ProcId": job, "JobStatus": status, "QDate": int(wall - (world.now - world.came[job]))}


def condor_status(world: World, words: list[str], wall: float) -> Printed:
    if "-collector" in words:
        return Printed(0, f"{HOST}\n")
    if "-master" in words:
        return Printed(0, f"{HOST}\t{int(wall) - 1_000_000}\n")
    there = [worker for worker in world.workers.values() if worker.live and worker.joined]
    if words == ["-json"]:
        return Printed(0, json.dumps([_slot(worker) for worker in there]))
    begin = words.index("-af:t") + 1
    wanted = words[begin : next((n for n in range(begin, len(words)) if words[n][0] == "-"), len(words))]
    rows = ["\t".join(_cell(worker, attribute) for attribute in wanted) for worker in there]
    return Printed(0, "".join(f"{row}\n" for row in rows))


def _slot(worker: Worker) -> dict[str, object]:
    return {
        "GlidepathPilot": worker.name,
        "Cpus": worker.free,
        "Memory": worker.free * MEMORY_MIB // CORES,
        "NumDynamicSlots": len(worker.jobs),
        "Draining": worker.draining,
        "JobsRun": worker.jobs_run,
    }


def _cell(worker: Worker, attribute: str) -> str:
    """One attribute of the partitionable slot; an expression is a share of what is in use."""
    state, activity = "Unclaimed", "Idle"
    if worker.draining:
        state, activity = "Drained", "Retiring" if worker.jobs else "Idle"
    named = {
        "Machine": f"n{worker.number}.world",
        "Name": f"slot1@n{worker.number}.world",
        "State": state,
        "Activity": activity,
        "TardisDroneUuid": worker.name,
    }
    return named.get(attribute, f"{len(worker.jobs) / CORES:.4f}")


def condor_drain(world: World, words: list[str], wall: float) -> Printed:
    number = re.fullmatch(r"slot1@n(\d+)\.world", words[-1])
    worker = world.workers.get(int(number[1])) if number else None
    if worker is None or not worker.open:
        return Printed(1, err=f"no such machine: {words[-1]}\n")
    world.drain(world.now, worker)
    return Printed(0, f"Sent request to drain {words[-1]}\n")


# Slurm.


def sbatch(world: World, words: list[str], wall: float) -> Printed:
    number = len(world.workers) + 1
    if drone := _DRONE.search(" ".join(words)):
        worker = Worker(number, drone[1], world.now, idle_s_max=float("inf"), leaves=False)
        world.submit(world.now, worker)
        return Printed(0, f"Submitted batch job {number}\n")
    folder = Path(words[-1]).parent
    told = dict(line.partition("=")[::2] for line in (folder / "words").read_text().splitlines())
    # What the script of the job does first: who makes this folder has the pilot.
    (folder / "started").mkdir()
    idle_s = float(told["--idle-s"])
    worker = Worker(number, folder.name, world.now, idle_s_max=idle_s, folder=str(folder))
    worker.key = next(word.partition("=")[2] for word in words if word.startswith("--job-name="))
    world.submit(world.now, worker)
    return Printed(0, f"{number}\n")


def squeue(world: World, words: list[str], wall: float) -> Printed:
    known = [worker for worker in world.workers.values() if _listed(world, worker)]
    if "-o" in words:
        ids = {int(each) for each in words[-1].removeprefix("--job=").split(",")}
        rows = [f"{w.number}|n{w.number}|{w.state}" for w in known if w.number in ids]
        if not rows and len(ids) == 1:
            return Printed(1, err="slurm_load_jobs error: Invalid job id specified\n")
        return Printed(0, "".join(f"{row}\n" for row in rows))
    rows = ["JOBID|STATE|TIME|NODES|NODELIST|NAME|REASON"]
    for worker in known:
        used_s = int((world.now if worker.live else worker.ended_at) - worker.submitted_at)
        used = f"{used_s // 60}:{used_s % 60:02d}"
        rows.append(f"{worker.number}|{worker.state}|{used}|1|n{worker.number}|{worker.key}|None")
    return Printed(0, "".join(f"{row}\n" for row in rows))


def _listed(world: World, worker: Worker) -> bool:
    return worker.live or world.now - worker.ended_at < LISTED_S


def sacct(world: World, words: list[str], wall: float) -> Printed:
    told = dict(word.partition("=")[::2] for word in words if "=" in word)
    ids = {int(each) for each in told.get("--jobs", "").split(",") if each}
    rows = ["JobIDRaw|State|ExitCode|ElapsedRaw|NodeList|JobName"]
    for worker in world.workers.values():
        if worker.number in ids or worker.key == told.get("--name"):
            lasted = int((world.now if worker.live else worker.ended_at) - worker.submitted_at)
            rows.append(f"{worker.number}|{worker.state}|0:0|{lasted}|n{worker.number}|{worker.key}")
    return Printed(0, "".join(f"{row}\n" for row in rows))


def scancel(world: World, words: list[str], wall: float) -> Printed:
    for word in words:
        if word.isdigit() and int(word) in world.workers:
            world.cancel(world.now, world.workers[int(word)])
    return Printed(0)
