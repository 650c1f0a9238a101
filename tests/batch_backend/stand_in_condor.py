#!/usr/bin/env python3
"""A stand-in for HTCondor as a site, and no HTCondor: the commands for jobs over one folder.

Each job is a process of this machine in a folder of its own, with the files that were named for it; new files
are brought back when it ends by itself. It does not match anything with anything.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from pathlib import Path
from xml.sax.saxutils import escape

sys.path.insert(0, str(Path(__file__).parent))

import stand_in_slurm as stand_in
from stand_in_slurm import Queue, State

COMMANDS = ("condor_submit", "condor_q", "condor_history", "condor_rm")
STATUS = {
    "PENDING": 1,
    "RUNNING": 2,
    "COMPLETING": 3,
    "CANCELLED": 3,
    "COMPLETED": 4,
    "FAILED": 4,
    "TIMEOUT": 3,
}
RUN = """\
cd {scratch} || exit 1
trap 'kill -TERM "$pid"' TERM
./job & pid=$!
until wait "$pid"; code=$?; ! kill -0 "$pid" 2>/dev/null; do :; done
if [ ! -e {removed} ]; then
  for file in *; do if [ -f "$file" ] && [ ! -e "../{number}.in/$file" ]; then cp "$file" {home}/; fi; done
fi
rm -rf {scratch}
exit "$code"
"""


def install(folder: Path, *, slots: int = 4) -> Path:
    (folder / "state").mkdir(parents=True, exist_ok=True)
    return stand_in.install(folder, slots=slots, program=__file__, commands=COMMANDS)


def condor_submit(queue: Queue, words: list[str]) -> int:
    entries = dict(
        (part.strip() for part in line.split("=", 1)) for line in sys.stdin.read().split("\n") if "=" in line
    )
    entries = {name.lower(): value for name, value in entries.items()}
    number = f"{len(queue.jobs) + 1}.0"
    scratch = queue.state / "scratch" / number
    brought = queue.state / "scratch" / f"{number}.in"
    for folder in (scratch, brought):
        folder.mkdir(parents=True)
    for path in [*entries["transfer_input_files"].split(","), entries["executable"]]:
        for folder in (scratch, brought):
            copy = folder / Path(path).name
            copy.write_bytes(Path(path).read_bytes())
            copy.chmod(0o700)
    queue.state.joinpath("jobs", f"{number}.sh").write_text(
        RUN.format(scratch=scratch, home=Path.cwd(), number=number, removed=queue.state / f"{number}.removed")
    )
    job: State = {
        "id": number,
        "name": entries["+glidepathkey"].strip('"'),
        "chdir": str(scratch),
        "output": entries["output"],
        "walltime": 10**6,
        "wanted": 1,
        "state": "PENDING",
        "nodes": [],
        "code": 0,
    }
    queue.save(job)
    queue.jobs[number] = job
    queue.turn()
    print(f"{number} - {number}")
    return 0


def told(jobs: list[State], *, past: bool) -> None:
    print('<?xml version="1.0"?>\n<!DOCTYPE classads SYSTEM "classads.dtd">\n<classads>')
    for job in jobs:
        cluster, _, proc = job["id"].partition(".")
        facts: dict[str, int | str] = {
            "ClusterId": int(cluster),
            "ProcId": int(proc),
            "JobStatus": STATUS[job["state"]],
            "GlidepathKey": job["name"],
            "ServerTime": int(time.time()),
        }
        if job["nodes"]:
            facts["LastRemoteHost" if past else "RemoteHost"] = f"slot1@{job['nodes'][0]}"
            facts["JobCurrentStartDate"] = int(job["started"])
        if job["state"] in ("COMPLETED", "FAILED"):
            facts["ExitCode"] = job["code"]
        if job["state"] == "CANCELLED":
            facts["RemoveReason"] = "via condor_rm (by user ada)"
        print("<c>")
        for name, value in facts.items():
            tag = "i" if isinstance(value, int) else "s"
            print(f'<a n="{name}"><{tag}>{escape(str(value))}</{tag}></a>')
        print("</c>")
    print("</classads>")


def condor_q(queue: Queue, words: list[str]) -> int:
    queue.turn()
    told([job for job in queue.jobs.values() if job["state"] in stand_in.LIVE], past=False)
    return 0


def condor_history(queue: Queue, words: list[str]) -> int:
    jobs = [job for job in queue.jobs.values() if job["id"] in words and job["state"] not in stand_in.LIVE]
    told([job for job in jobs if job["id"] not in queue.faults.get("unaccounted", [])], past=True)
    return 0


def condor_rm(queue: Queue, words: list[str]) -> int:
    queue.turn()
    if words[0] == "-constraint":
        found = re.search(r"ClusterId == (\d+) && ProcId == (\d+)", words[1])
        assert found
        number = f"{found[1]}.{found[2]}"
        job = queue.jobs.get(number)
        if job is None or job["state"] != "PENDING":
            sys.stderr.write(f"Couldn't find/remove all jobs matching constraint {words[1]}\n")
            return 1
    else:
        number = words[0]
        job = queue.jobs.get(number)
        if job is None or job["state"] not in stand_in.LIVE:
            sys.stderr.write(f"Job {number} not found\n")
            return 1
    if job["state"] == "PENDING":
        job.update(state="CANCELLED", ended=time.time())
    else:
        queue.state.joinpath(f"{number}.removed").touch()
        job.update(state="COMPLETING", cancelled=True, told=time.time())
        os.killpg(job["pid"], signal.SIGTERM)
    queue.save(job)
    return 0


if __name__ == "__main__":
    sys.exit(
        stand_in.main(
            sys.argv[1:],
            {
                "condor_submit": condor_submit,
                "condor_q": condor_q,
                "condor_history": condor_history,
                "condor_rm": condor_rm,
            },
        )
    )
