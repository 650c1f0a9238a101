"""A job for people: an item of the desk comes in, a row of a table and the lines of a card go out."""

from __future__ import annotations

from typing import Any

from glidepath.cli.output import span
from glidepath.cli.verb import Answer, Column, Item

EVENTS_SHOWN = 20
OVER = ("done", "failed", "cancelled")


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


def start_text(item: Item) -> str:
    likely = item.get("likely")
    return item.get("start") or item["started"] or (likely["start"] if likely else "")


def sure_text(item: Item) -> str:
    """How sure a start is: it was, it is promised, or so many of a hundred such jobs start in a span."""
    if item["started"] or item.get("promised"):
        return "promised" if not item["started"] else "began"
    likely = item.get("likely")
    if not likely:
        return ""
    return f"{round(100 * likely['confidence'])} % {likely['earliest']} to {likely['latest']}"


STARTS = (Column("START", start_text), Column("SURE", sure_text))


def answer_of(jobs: list[dict[str, Any]], *, columns: tuple[Column, ...] = COLUMNS, **more: Any) -> Answer:
    return Answer("JobList", tuple(jobs), columns, name=lambda item: item["id"], **more)


def pairs_of(item: Item) -> list[tuple[str, object]]:
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
    return [*pairs, *_placed_pairs(item)] if "queue" in item else pairs


def _placed_pairs(item: Item) -> list[tuple[str, object]]:
    """The lines below those that every job has."""
    why = f", {item['queue_why']}" if item["queue_why"] else ""
    pairs: list[tuple[str, object]] = [("queue", f"{item['queue']}{why}"), ("project", item["project"])]
    pairs += [("image", item["image"]), ("ranks", item["ranks"] if item["ranks"] > 1 else "")]
    pairs += [("nodes", ", ".join(item["nodes"])), ("start", item["start"]), ("ends", item["ends"])]
    if item["promised_first"] and item["promised_first"] != item["promised"]:
        pairs.append(("first promised", item["promised_first"]))
    pairs += [("beside", item["beside"]), ("files", ", ".join(item["files"]))]
    for rank in item["rank_list"]:
        end = f"{rank['state']} {rank['cause']}".strip()
        code = f" exit {rank['exit_code']}" if rank["exit_code"] is not None else ""
        why = f": {rank['why']}" if rank["why"] else ""
        pairs.append((f"rank {rank['rank']} of {rank['attempt']}", f"{end}{code} on {rank['node']}{why}"))
    for event in item["events"][-EVENTS_SHOWN:]:
        # Most sentences begin with what it is: `promised: start at ...`.
        told = event["text"].startswith(event["kind"])
        pairs.append((event["at"], event["text"] if told else f"{event['kind']}: {event['text']}"))
    return pairs
