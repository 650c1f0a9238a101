"""Jobs as child processes, each in a session and a folder of its own, that end when the pilot ends.

What a job is comes in; the record of how it ended goes out, on the disk before anyone is told.
"""

import os
import signal
import subprocess
import time
from typing import Dict, List, Optional, Tuple

from glidepath.pilot.parts.common import (
    FOLDER_MODE,
    PASSED_ON,
    Message,
    die_with_parent,
    say,
    write_durably,
)

Key = Tuple[int, int]

TERM_GRACE_S = 5.0


class Job:
    def __init__(self, told: Message, folder: str) -> None:
        self.id = int(told["id"])
        self.attempt = int(told["attempt"])
        self.command = [str(arg) for arg in told["command"]]
        self.env = {str(key): str(value) for key, value in told["env"]}
        self.request = [int(part) for part in told["request"]]
        self.run_s_max = told["run_s_max"]
        self.folder = os.path.join(folder, str(self.id), str(self.attempt))
        self.child: "Optional[subprocess.Popen[bytes]]" = None
        self.started = 0.0
        self.started_wall = 0.0
        self.stop_how = ""
        self.kill_at: Optional[float] = None

    @property
    def key(self) -> Key:
        return (self.id, self.attempt)


class Runner:
    """The jobs that run here, as child processes in sessions of their own."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.jobs: Dict[Key, Job] = {}
        self.run = 0
        self.failed = 0

    def start(self, job: "Job", home: str) -> Optional[Message]:
        """None when the job runs, otherwise the record of why it could not."""
        pilot = os.getpid()
        job.started, job.started_wall = time.monotonic(), time.time()

        try:
            work = os.path.join(job.folder, "work")
            os.makedirs(work, FOLDER_MODE, exist_ok=True)
            old_record = os.path.join(job.folder, "exit.json")
            if os.path.exists(old_record):
                os.unlink(old_record)
            # One inside the other: the formatter would join them into a form that old interpreters refuse.
            with open(os.path.join(job.folder, "stdout"), "wb") as out:
                err = open(os.path.join(job.folder, "stderr"), "wb")  # noqa: SIM115
                try:
                    job.child = subprocess.Popen(
                        job.command,
                        stdin=subprocess.DEVNULL,
                        stdout=out,
                        stderr=err,
                        cwd=work,
                        env=self.environment(job, home),
                        start_new_session=True,
                        preexec_fn=lambda: die_with_parent(pilot),
                    )
                finally:
                    err.close()
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            number = getattr(error, "errno", None)
            why = os.strerror(number) if number else ascii(error)
            why = "%s could not be started: %s" % (ascii(job.command[0])[:100], why)
            return self.record(job, "not_started", why, exit_code=127)
        self.jobs[job.key] = job
        return None

    def environment(self, job: "Job", home: str) -> Dict[str, str]:
        env = {key: os.environ[key] for key in PASSED_ON if key in os.environ}
        env.update(job.env)
        env.update(
            GLIDEPATH_JOB=str(job.id),
            GLIDEPATH_ATTEMPT=str(job.attempt),
            GLIDEPATH_PILOT=self.name,
            GLIDEPATH_HOME=home,
            GLIDEPATH_CPUS=str(-(-job.request[0] // 1000)),
            GLIDEPATH_MEMORY_MIB=str(job.request[1]),
            GLIDEPATH_GPUS=str(job.request[3]),
        )
        return env

    def record(
        self,
        job: "Job",
        how: str,
        reason: str,
        *,
        exit_code: Optional[int] = None,
        number: Optional[int] = None,
    ) -> Message:
        """Written down before anyone is told: what is on the disk never runs again."""
        record = {
            "job": job.id,
            "attempt": job.attempt,
            "pilot": self.name,
            "how": how,
            "exit_code": exit_code,
            "signal": number,
            "reason": reason[:400],
            "started_wall": job.started_wall,
            "ended_wall": time.time(),
        }
        back = how in ("given_back", "outlived")
        self.run += not back
        self.failed += not back and (how != "exited" or exit_code != 0)
        try:
            os.makedirs(job.folder, FOLDER_MODE, exist_ok=True)
            write_durably(os.path.join(job.folder, "exit.json"), record)
        except OSError as error:
            # A full disk: the server still hears of it, and writes it down in its own place.
            say("job %d: its exit record could not be written: %s" % (job.id, error))
        return record

    def reap(self) -> List[Message]:
        """The records of all jobs that have ended since the last look."""
        records = []
        for job in list(self.jobs.values()):
            status = job.child.poll() if job.child is not None else 1
            if status is None:
                continue
            del self.jobs[job.key]
            self.signal_group(job, signal.SIGKILL)  # What it left in the background goes with it.
            exit_code, number = (status, None) if status >= 0 else (None, -status)
            how, reason = "exited", "exit code %d" % status if status else ""
            if number:
                how, reason = "signalled", "ended by signal %d" % number
            if job.stop_how:
                how, reason = job.stop_how, STOP_REASONS[job.stop_how] % (job.run_s_max or 0)
            records.append(self.record(job, how, reason, exit_code=exit_code, number=number))
        return records

    def signal_group(self, job: "Job", number: int) -> None:
        try:
            if job.child is not None:
                os.killpg(job.child.pid, number)
        except OSError:
            pass  # The group is gone, which is all that was wanted.

    def stop(self, job: "Job", how: str, grace_s: float) -> None:
        if job.child is not None and job.child.poll() is not None:
            return  # It ended by itself just now, and that is what is written down.
        if job.stop_how and job.kill_at is not None and job.kill_at <= time.monotonic() + grace_s:
            return
        if not job.stop_how:
            job.stop_how = how
            self.signal_group(job, signal.SIGTERM)
        job.kill_at = time.monotonic() + grace_s

    def enforce(self, now: float) -> None:
        for job in self.jobs.values():
            if not job.stop_how and job.run_s_max and now >= job.started + job.run_s_max:
                self.stop(job, "timed_out", TERM_GRACE_S)
            if job.kill_at is not None and now >= job.kill_at:
                self.signal_group(job, signal.SIGKILL)
                job.kill_at = now + 1.0

    def next_at(self) -> Optional[float]:
        times = [job.kill_at for job in self.jobs.values() if job.kill_at is not None]
        times += [
            job.started + job.run_s_max for job in self.jobs.values() if job.run_s_max and not job.stop_how
        ]
        return min(times) if times else None


STOP_REASONS = {
    "timed_out": "stopped at its time limit of %d s",
    "cancelled": "cancelled by a user%.0s",
    "given_back": "given back by a stopping pilot%.0s",
    "outlived": "stopped when its pilot reached the end of its lifetime%.0s",
}
