"""What a cluster is asked to run and what it says of it, as values: sets of ranks, nodes, listings.

One attempt at a job is one set; it has one rank on each of its nodes. The key of a set is its name at the
cluster, for ever: nothing else is ever started under it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import NewType

from glidepath.core.quantity import Instant, NodeName, Resources
from glidepath.core.schedule.cluster import Counted, Node

SetKey = NewType("SetKey", str)  # `JOB.ATTEMPT`
ClusterName = NewType("ClusterName", str)

KEY = re.compile(r"[1-9][0-9]{0,17}\.[1-9][0-9]{0,8}")


def set_key(job: int, attempt: int) -> SetKey:
    return SetKey(f"{job}.{attempt}")


def split_key(key: str) -> tuple[int, int]:
    """Job and attempt; a ValueError for anything that is not a key."""
    if not KEY.fullmatch(key):
        raise ValueError("a key of ranks is two whole numbers with a dot between them")
    job, _, attempt = key.partition(".")
    return int(job), int(attempt)


@dataclass(frozen=True, slots=True)
class Seat:
    """Where one rank is to run, and which GPUs of that node it has."""

    node: NodeName
    devices: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class File:
    """A file that is there, whole and with this content, before the command begins."""

    path: str  # absolute, or below the working directory; never with `..`
    content: str
    mode: int = 0o644


@dataclass(frozen=True, slots=True)
class Volume:
    """Storage of the cluster that ranks see at a path."""

    name: str  # of a claim, or a path of the node where the cluster is told to allow it
    path: str
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class Work:
    """What every rank of a set runs, wherever it sits."""

    command: tuple[str, ...]
    image: str = ""  # none where the cluster has no images
    env: tuple[tuple[str, str], ...] = ()
    workdir: str = ""  # none: a fresh folder of the rank's own
    files: tuple[File, ...] = ()
    volumes: tuple[Volume, ...] = ()
    shm_mib: int = 64  # of /dev/shm, where the cluster makes one
    ports: tuple[int, ...] = ()  # that the ranks serve at


@dataclass(frozen=True, slots=True)
class RankSet:
    """One attempt at a job, as a cluster is asked for it: all ranks or none."""

    key: SetKey
    seats: tuple[Seat, ...]  # one for each rank, rank 0 first
    work: Work
    size: Resources  # of each rank
    owner: str
    project: str = ""
    name: str = ""  # for people; may be anything printable
    gpu_milli: int = 0  # a share of the one GPU of its seat
    counted: Counted = ()
    runtime: str = ""
    exclusive: bool = False
    limit_s: int | None = None  # counted from when its commands began
    notice_s: int = 0  # so long before the limit notice is given; 0 for none
    notice_signal: str = "SIGUSR1"
    grace_s: int = 30  # between being told to end and being killed
    gather_s_max: int = 300  # every rank is in place within this, or none of them begins
    log_bytes_max: int = 1 << 30  # of each output of each rank; what is more is not kept
    peers: tuple[int, ...] = ()  # numbers of jobs that it may speak with, and they with it


class RankState(StrEnum):
    ASKED = "asked"  # it has not begun: queued, pulling its image, waiting for the others
    RUNNING = "running"
    OVER = "over"  # and nothing of it runs any more
    UNSURE = "unsure"  # its node has not been heard of: it may run


class Cause(StrEnum):
    """How a rank came to be over; one word for each thing that an owner is told in other words."""

    NONE = ""  # it is not over
    EXITED = "exited"
    SIGNALLED = "signalled"
    LIMIT = "limit"  # its time was up
    STOPPED = "stopped"  # we said so
    MEMORY = "memory"  # it took more than it asked for
    IMAGE = "image"  # cannot be had
    SETUP = "setup"  # files, working directory, volumes or command were not as asked; nothing began
    REFUSED = "refused"  # the node or another scheduler had no room after all; nothing began
    NOT_GATHERED = "not gathered"  # the others were not in place in time; nothing began
    EVICTED = "evicted"  # by the cluster, for its own reasons
    NODE_LOST = "node lost"
    RESTARTED = "restarted"  # its node went down and came back


@dataclass(frozen=True, slots=True)
class RankSeen:
    rank: int
    node: NodeName
    state: RankState
    cause: Cause = Cause.NONE
    exit_code: int | None = None
    signal: int | None = None
    why: str = ""  # in the cluster's words, one line
    host: str = ""  # the name that other ranks reach it by
    began_at: Instant | None = None  # its command
    ended_at: Instant | None = None


@dataclass(frozen=True, slots=True)
class SetSeen:
    """A set that the cluster knows, with all its ranks, those that are over too until it is cleared."""

    key: SetKey
    ranks: tuple[RankSeen, ...]
    limit_s: int | None = None  # as the cluster keeps it now
    made: bool = True  # all of it; otherwise the start broke off, and is to be asked for again

    @property
    def over(self) -> bool:
        return all(rank.state is RankState.OVER for rank in self.ranks)


@dataclass(frozen=True, slots=True)
class SetListing:
    """All our sets at a cluster."""

    sets: tuple[SetSeen, ...]
    age_s: int = 0  # how old it was when it was given


@dataclass(frozen=True, slots=True)
class NodeSeen:
    """A node with its whole size, and how much of it is not ours to give."""

    node: Node
    others: Resources = Resources()  # what other tenants run there


@dataclass(frozen=True, slots=True)
class NodeListing:
    nodes: tuple[NodeSeen, ...]
    age_s: int = 0
    notes: tuple[str, ...] = ()  # what else its door has to say to people
    unkept: tuple[str, ...] = ()  # which limits of jobs are not kept there, for those whom it concerns


def variables(ranks: RankSet, rank: int, hosts: tuple[str, ...]) -> dict[str, str]:
    """What a rank is told of itself and the others, beside what its owner set."""
    job, attempt = split_key(ranks.key)
    return {
        "GLIDEPATH_JOB": str(job),
        "GLIDEPATH_ATTEMPT": str(attempt),
        "GLIDEPATH_RANK": str(rank),
        "GLIDEPATH_RANKS": str(len(ranks.seats)),
        "GLIDEPATH_HOSTS": ",".join(hosts),
        "GLIDEPATH_GPUS": ",".join(str(device) for device in ranks.seats[rank].devices),
        "GLIDEPATH_CPU_MILLI": str(ranks.size.cpu_milli),
        "GLIDEPATH_MEMORY_MIB": str(ranks.size.memory_mib),
    }


def rank_file(hosts: tuple[str, ...]) -> str:
    """The content of the file that `GLIDEPATH_RANK_FILE` names: the host of each rank on its own line."""
    return "".join(f"{host}\n" for host in hosts)
