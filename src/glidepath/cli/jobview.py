"""A job for people: a job of the store comes in, the stable item and the lines of a card go out.

Values of variables are left out everywhere: people put secrets there. It refuses to change anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from glidepath.cli.output import span
from glidepath.cli.session import iso
from glidepath.cli.verb import Answer, Column, Exit, Item, Stop

if TYPE_CHECKING:
    from glidepath.cli.session import Session
    from glidepath.store.job import Attempt, Job


def item_of(job: Job, now_wall: float) -> dict[str, Any]:
    """The stable form of a job."""
    spec = job.spec
    return {
        "id": job.id,
        "name": spec.name,
        "owner": spec.owner,
        "state": job.state.value,
        "why": job.reason,
        "exit_code": job.exit_code,
        "signal": job.signal,
        "partition": spec.partition,
        "shape": str(spec.shape),
        "cpu_milli": spec.request.cpu_milli,
        "memory_mib": spec.request.memory_mib,
        "disk_mib": spec.request.disk_mib,
        "gpus": spec.request.gpus,
        "traits": dict(spec.traits),
        "run_s_max": spec.run_s_max,
        "retries_max": spec.retries_max,
        "losses": job.losses,
        "attempt": job.attempt,
        "pilot": job.pilot,
        "command": list(spec.command),
        "env": [key for key, _ in spec.env],
        "submitted": iso(job.submitted_wall),
        "started": iso(job.started_wall),
        "ended": iso(job.ended_wall),
        "age_s": max(int(now_wall - job.submitted_wall), 0),
        "ran_s": _ran_s(job, now_wall),
    }


def _ran_s(job: Job, now_wall: float) -> int | None:
    if job.started_wall is None:
        return None
    return max(int((job.ended_wall or now_wall) - job.started_wall), 0)


def exit_text(item: Item) -> str:
    return (
        f"signal {item['signal']}"
        if item["signal"]
        else str(item["exit_code"] if item["exit_code"] is not None else "")
    )


COLUMNS = (
    Column("ID", lambda item: item["id"], right=True),
    Column("NAME", lambda item: item["name"]),
    Column("OWNER", lambda item: item["owner"]),
    Column("STATE", lambda item: item["state"]),
    Column("EXIT", exit_text),
    Column("AGE", lambda item: span(item["age_s"]), right=True),
    Column("RAN", lambda item: span(item["ran_s"]), right=True),
    Column("PARTITION", lambda item: item["partition"], wide=True),
    Column("PILOT", lambda item: item["pilot"], wide=True),
    Column("COMMAND", lambda item: " ".join(item["command"]), wide=True),
    Column("SHAPE", lambda item: item["shape"]),
    Column("WHY", lambda item: item["why"]),
)


START = Column("START", lambda item: item.get("start") or item["started"] or "")


def answer_of(jobs: list[dict[str, Any]], *, columns: tuple[Column, ...] = COLUMNS, **more: Any) -> Answer:
    return Answer("JobList", tuple(jobs), columns, name=lambda item: item["id"], **more)


def found_job(session: Session, number: int) -> Job:
    try:
        return session.jobs.get(number)
    except LookupError:
        from glidepath.jobs.kept import no_such_job

        why = no_such_job(number, session.located.settings.keep)
        more = "`glidepath job list --all` shows those that are kept"
        raise Stop(f"{why}; {more}", code=Exit.NOT_FOUND) from None


def attempt_item(attempt: Attempt) -> dict[str, Any]:
    return {
        "attempt": attempt.attempt,
        "pilot": attempt.pilot,
        "started": iso(attempt.started_wall),
        "ended": iso(attempt.ended_wall),
        "how": attempt.how.value if attempt.how else None,
        "exit_code": attempt.exit_code,
        "signal": attempt.signal,
    }


def pairs_of(item: dict[str, Any]) -> list[tuple[str, object]]:
    import shlex

    plain = (
        "id",
        "name",
        "owner",
        "state",
        "why",
        "partition",
        "shape",
        "pilot",
        "submitted",
        "started",
        "ended",
    )
    pairs: list[tuple[str, object]] = [(key, item[key]) for key in plain]
    pairs += [("exit", exit_text(item)), ("age", span(item["age_s"])), ("ran", span(item["ran_s"]))]
    pairs += [
        ("time limit", span(item["run_s_max"])),
        ("losses", f"{item['losses']} of {item['retries_max']} allowed"),
    ]
    pairs += [("command", shlex.join(item["command"])), ("variables", ", ".join(item["env"]))]
    for one in item["attempts"]:
        end = f"{one['how']} {exit_text(one)}".strip() if one["how"] else "not ended"
        pairs.append((f"attempt {one['attempt']}", f"{end} on {one['pilot']}, started {one['started']}"))
    return pairs
