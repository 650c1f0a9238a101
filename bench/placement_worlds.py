"""Large clusters with queues, for the measurements of placement: made up from a seed, or Alibaba's."""

from __future__ import annotations

import random
from dataclasses import replace

from bench.rerun import FOLDER
from glidepath.core.quantity import Instant, NodeName, Owner, Resources
from glidepath.core.schedule.acts import Start
from glidepath.core.schedule.cluster import Cluster, Node, Partition, PartitionName, Queue
from glidepath.core.schedule.decide import decide
from glidepath.core.schedule.job import Ask, Book, Job, JobName, Memory, Running, World
from glidepath.sim.rerun import gputrace

NOW = Instant(1_000_000)
SIZES = ((16, 64, 0), (32, 128, 0), (32, 256, 0), (64, 256, 0), (64, 512, 4), (96, 768, 8))
WEIGHTS = (3, 4, 2, 4, 2, 1)
KINDS = ("A100", "H100", "L40S")
LIMITS_S = (600, 1800, 3600, 2 * 3600, 6 * 3600, 12 * 3600, 86400, 2 * 86400, 3 * 86400)
USERS, INTERACTIVE, SHAPES = 300, 500, 600
MAIN = PartitionName("main")
TRACE = ("node_list_all_node", "pod_list_default")


def cluster_of(nodes: int, seed: int = 1) -> Cluster:
    draw = random.Random(seed)
    made = []
    for at in range(nodes):
        cpus, memory, gpus = draw.choices(SIZES, WEIGHTS)[0]
        size = Resources(cpus * 1000, memory * 1024, 0, gpus)
        made.append(Node(NodeName(f"n{at:05}"), size, gpu_kind=draw.choice(KINDS) if gpus else ""))
    return Cluster(tuple(made), (Partition(MAIN, tuple(node.name for node in made)),))


def asks(draw: random.Random, count: int) -> list[Ask]:
    """Distinct shapes: CPUs and memory, gangs, whole GPUs and shares of one."""
    found: dict[Ask, None] = {}
    while len(found) < count:
        sort = draw.random()
        cpus = draw.choice((1, 2, 4, 6, 8, 12, 16, 24, 32))
        memory = cpus * draw.choice((1, 2, 4, 6, 8)) * 1024
        if sort < 0.6:
            ask = Ask(Resources(cpus * 1000, memory))
        elif sort < 0.75:
            ask = Ask(Resources(cpus * 1000, memory), nodes=draw.choice((2, 3, 4, 8, 16)))
        elif sort < 0.9:
            gpus = draw.choice((1, 1, 2, 4))
            kinds = draw.choice(((), (), ("A100",), ("A100", "H100")))
            ask = Ask(Resources(cpus * 1000, memory, 0, gpus), gpu_kinds=kinds)
        else:
            ask = Ask(Resources(cpus * 1000, memory), gpu_milli=draw.choice((125, 250, 333, 500)))
        found[ask] = None
    return list(found)


def jobs_of(count: int, seed: int = 2, *, interactive: int = INTERACTIVE, prefix: str = "w") -> list[Job]:
    draw = random.Random(seed)
    shapes = asks(random.Random(7), SHAPES)
    small = [ask for ask in shapes if ask.nodes == 1 and ask.size.cpu_milli <= 8000]
    wanted = set(draw.sample(range(count), min(interactive, count)))
    made = []
    for at in range(count):
        is_interactive = at in wanted
        made.append(
            Job(
                name=JobName(f"{prefix}{at}"),
                owner=Owner(f"u{int(draw.paretovariate(1.0)) % USERS}"),
                partition=MAIN,
                queue=Queue.INTERACTIVE if is_interactive else Queue.BATCH,
                ask=draw.choice(small if is_interactive else shapes),
                came_at=Instant(NOW - count + at),
                limit_s=draw.choice(LIMITS_S[:5] if is_interactive else LIMITS_S),
            )
        )
    return made


def loaded(cluster: Cluster, candidates: list[Job]) -> list[Running]:
    """The jobs that start on the empty cluster, begun at different times before now."""
    draw = random.Random(3)
    world = World(NOW, cluster, tuple(candidates))
    known = {job.name: job for job in candidates}
    starts = [one for one in decide(world, Book(), Memory()).plan.actions if isinstance(one, Start)]
    ages = [draw.random() * (known[one.job].limit_s or 0) for one in starts]
    return [
        Running(known[one.job], Instant(NOW - int(age)), one.places)
        for one, age in zip(starts, ages, strict=True)
    ]


def world_of(cluster: Cluster, running: list[Running], waiting: list[Job]) -> World:
    return World(NOW, cluster, tuple(waiting), tuple(running))


def renamed(job: Job, name: str, came_at: int) -> Job:
    return replace(job, name=JobName(name), came_at=Instant(came_at))


def pods_of() -> tuple[Cluster, list[Running], list[Job]] | None:
    """Alibaba's nodes full of its pods; the pods that have no room, and all of them once more, wait."""
    nodes, pods = (FOLDER / f"alibaba-gpu-v2023-openb_{name}.csv.gz" for name in TRACE)
    if not nodes.exists() or not pods.exists():
        return None
    cluster = gputrace.cluster_of(nodes)
    jobs = [replace(pod.job, came_at=Instant(0)) for pod in gputrace.pods_of(pods)]
    again = [renamed(job, f"{job.name}-again", 1) for job in jobs]
    running = loaded(cluster, [*jobs, *again])
    runs = {one.job.name for one in running}
    return cluster, running, [job for job in (*jobs, *again) if job.name not in runs]
