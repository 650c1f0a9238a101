"""What Grid Engine says of a site: settings of its queues and a listing of hosts come in, facts go out."""

from __future__ import annotations

import re
from dataclasses import dataclass
from xml.etree import ElementTree

from glidepath.batch.dialect import OddAnswer, QueueFacts
from glidepath.batch.dialects.answers import number, odd, seconds
from glidepath.core.text import one_line

NO_LIMIT = frozenset({"INFINITY", "NONE", "none", ""})
GPU_NAMES = ("gpu", "gpus", "ngpus")
PARALLEL_NAMES = ("smp", "threaded", "threads", "shm", "openmp", "multicore", "mthread")
EXCLUSIVE_NAMES = ("exclusive", "excl")
# Disabled, suspended, unreachable, in error, or configured wrongly: nothing starts there now.
CLOSED = frozenset("dDsSCuEoc")
_FACTORS = {"": 1 / (1 << 20), "K": 1 / (1 << 10), "M": 1.0, "G": float(1 << 10), "T": float(1 << 20)}
_AMOUNT = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?)([KMGT]?)")


@dataclass(frozen=True, slots=True)
class Host:
    """One host of a queue: its slots there, and what the whole of it has."""

    slots: int
    memory_mib: int
    gpus: int
    exclusive: bool
    state: str


def facts(settings: str, hosts: ElementTree.Element) -> tuple[QueueFacts, ...]:
    if hosts.tag != "qhost":
        raise odd("qhost", hosts.tag)
    carried = _carried(hosts)
    queues = _queues(settings)
    return tuple(_facts(name, told, carried.get(name, [])) for name, told in queues.items())


def _queues(settings: str) -> dict[str, dict[str, str]]:
    """By name; a value that goes on in the next line ends with a backslash."""
    found: dict[str, dict[str, str]] = {}
    told: dict[str, str] | None = None
    for line in re.sub(r"\\\n\s*", "", settings).split("\n"):
        name, _, value = line.strip().partition(" ")
        if name == "qname":
            told = found.setdefault(value.strip(), {})
        elif name and told is not None:
            told[name] = value.strip()
    if not found and not settings.strip().lower().startswith("no cluster queue"):
        raise odd("qconf", settings)
    return found


def _carried(hosts: ElementTree.Element) -> dict[str, list[Host]]:
    found: dict[str, list[Host]] = {}
    for host in hosts.iter("host"):
        values = {each.get("name", ""): (each.text or "").strip() for each in host}
        for queue in host.iter("queue"):
            told = {each.get("name", ""): (each.text or "").strip() for each in queue}
            slots = number(told.get("slots", ""))
            if slots is None:
                raise odd("qhost", f"{queue.get('name')} on {host.get('name')}: {told}")
            found.setdefault(queue.get("name", ""), []).append(
                Host(
                    slots=slots,
                    memory_mib=_mib(values.get("mem_total", "")),
                    gpus=max((_whole(values.get(name, "")) for name in GPU_NAMES), default=0),
                    exclusive=any(name in values for name in EXCLUSIVE_NAMES),
                    state=told.get("state_string", ""),
                )
            )
    return found


def _facts(name: str, told: dict[str, str], hosts: list[Host]) -> QueueFacts:
    limits = [_limit(told.get(key, ""), name) for key in ("h_rt", "s_rt")]
    environments = [word for word in re.split(r"[ ,]+", told.get("pe_list", "NONE")) if word not in NO_LIMIT]
    kinds = sorted({(host.slots, host.memory_mib, host.gpus) for host in hosts})
    notes = [f"hosts with {slots} slots, {memory} MiB, {gpus} GPUs" for slots, memory, gpus in kinds]
    notes = notes if len(kinds) > 1 else []
    if environments:
        notes.append(one_line(f"parallel environments: {', '.join(environments)}"))
    if hosts and all(host.exclusive for host in hosts):
        notes.append("a host can be had whole, by its resource `exclusive`")
    return QueueFacts(
        name=name,
        walltime_s_max=min((limit for limit in limits if limit is not None), default=None),
        nodes=len(hosts),
        # Without a parallel environment a job has one slot, wherever it runs.
        nodes_max=None if environments else 1,
        cpus_per_node=min((host.slots for host in hosts), default=0) or None,
        memory_mib_per_node=min((host.memory_mib for host in hosts), default=0) or None,
        gpus_per_node=min((host.gpus for host in hosts), default=None),
        whole_node=False,
        parallel=_of_one_host(environments),
        open=any(not CLOSED & set(host.state) for host in hosts),
        notes=tuple(notes),
    )


def _of_one_host(environments: list[str]) -> str:
    """By its usual name; how one places its slots is not in what was asked."""
    return next((name for name in PARALLEL_NAMES if name in environments), next(iter(environments), ""))


def _limit(text: str, queue: str) -> int | None:
    """The least of `24:00:00,[big=48:00:00]`, for a job may land on any host of the queue."""
    found = []
    for piece in re.split(r"[,\[\]]+", text):
        value = piece.rpartition("=")[2].strip()
        if value in NO_LIMIT:
            continue
        limit = number(value) if number(value) is not None else seconds(value)
        if limit is None:
            raise OddAnswer(f"`qconf` says a time of {one_line(text)} for `{one_line(queue)}`")
        found.append(limit)
    return min(found, default=None)


def _mib(text: str) -> int:
    found = _AMOUNT.fullmatch(text.upper())
    return int(float(found[1]) * _FACTORS[found[2]]) if found else 0


def _whole(text: str) -> int:
    found = _AMOUNT.fullmatch(text.upper())
    return int(float(found[1])) if found else 0
