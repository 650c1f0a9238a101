"""What this pilot was given: by its arguments, by the limits of its control group, by its batch system.

Pure functions over the environment and the texts of files; whole numbers go out, None where nothing was said.
What is not a plain number is taken for not said.
"""

import os
import re
from typing import Callable, Dict, Mapping, NamedTuple, Optional, Tuple

Read = Callable[[str], Optional[str]]  # the text of a file, or None where there is none

CGROUPS = "/sys/fs/cgroup"
MIB = 1024 * 1024
# Beyond this a limit is the kernel's way to say that there is none.
MEMORY_BYTES_MAX = 1 << 50
CPUS_MAX = 1 << 16
LEVELS_MAX = 64  # of nested control groups
DIGITS = re.compile(r"[0-9]{1,18}")
SIZE = re.compile(r"([0-9]{1,15})(b|kb|mb|gb|tb|k|m|g|t)?", re.IGNORECASE)
SIZE_BYTES = {"": 1, "b": 1, "k": 1024, "m": MIB, "g": 1024 * MIB, "t": MIB * MIB}


class Said(NamedTuple):
    """What one place says of our share; None where it says nothing."""

    cpus: Optional[int] = None
    memory_mib: Optional[int] = None
    disk_mib: Optional[int] = None
    gpus: Optional[int] = None
    ends_at: Optional[float] = None  # wall time at which everything is taken away


class Given(NamedTuple):
    """What the pilot offers, and when it must be gone."""

    cpus: int
    memory_mib: int
    disk_mib: int
    gpus: Optional[int]  # None: as many as are found
    ends_at: Optional[float]


def number(text: Optional[str], *, most: int = 10**15) -> Optional[int]:
    """A positive whole number, or nothing."""
    found = DIGITS.fullmatch((text or "").strip())
    value = int(found.group()) if found else 0
    return value if 0 < value <= most else None


def least(*values: Optional[int]) -> Optional[int]:
    told = [value for value in values if value is not None]
    return min(told) if told else None


def levels(path: str) -> Tuple[str, ...]:
    """The group and all above it: the tightest limit on the way counts. The root stands for a name space."""
    parts = [part for part in path.split("/") if part][:LEVELS_MAX]
    return tuple("/" + "/".join(parts[:count]) if count else "" for count in range(len(parts), -1, -1))


def cgroup(own: str, read: Read) -> Said:
    """The limits of our control groups, of either version; `own` is the text of /proc/self/cgroup."""
    cpus: Optional[int] = None
    memory: Optional[int] = None
    for line in own.splitlines():
        _, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        for level in levels(path):
            if names == "":
                cpus = least(cpus, cpu_max(read(CGROUPS + level + "/cpu.max")))
                memory = least(memory, memory_mib(read(CGROUPS + level + "/memory.max")))
            if "cpu" in names.split(","):
                base = CGROUPS + "/" + names + level
                quota, period = read(base + "/cpu.cfs_quota_us"), read(base + "/cpu.cfs_period_us")
                cpus = least(cpus, cpu_max("%s %s" % (quota, period)))
            if "memory" in names.split(","):
                memory = least(
                    memory, memory_mib(read(CGROUPS + "/memory" + level + "/memory.limit_in_bytes"))
                )
    return Said(cpus=cpus, memory_mib=memory)


def cpu_max(text: Optional[str]) -> Optional[int]:
    """`200000 100000` is two CPUs; half a CPU still runs one job at a time."""
    words = (text or "").split()
    if len(words) != 2:
        return None
    quota, period = number(words[0]), number(words[1])
    return max(1, quota // period) if quota and period else None


def memory_mib(text: Optional[str]) -> Optional[int]:
    bytes_max = number(text, most=10**19)
    return max(1, bytes_max // MIB) if bytes_max and bytes_max < MEMORY_BYTES_MAX else None


def slurm(environ: Mapping[str, str]) -> Said:
    """The allocation of a Slurm job on this node."""
    if "SLURM_JOB_ID" not in environ:
        return Said()
    cpus = number(environ.get("SLURM_CPUS_ON_NODE"), most=CPUS_MAX)
    memory = number(environ.get("SLURM_MEM_PER_NODE"))
    per_cpu = number(environ.get("SLURM_MEM_PER_CPU"))
    if memory is None and per_cpu is not None and cpus is not None:
        memory = per_cpu * cpus
    end = number(environ.get("SLURM_JOB_END_TIME"))
    gpus = number(environ.get("SLURM_GPUS_ON_NODE"), most=CPUS_MAX)
    return Said(cpus, memory, None, gpus, float(end) if end else None)


def pbs(environ: Mapping[str, str], now: float) -> Said:
    """The allocation of a PBS job on this node; it tells how long it may run, not since when."""
    if "PBS_JOBID" not in environ:
        return Said()
    names = ("PBS_NUM_PPN", "NCPUS", "OMP_NUM_THREADS")
    cpus = next((n for n in (number(environ.get(name), most=CPUS_MAX) for name in names) if n), None)
    memory = size_mib(environ.get("PBS_RESC_MEM") or environ.get("PBS_RESC_TOTAL_MEM"))
    walltime = number(environ.get("PBS_WALLTIME"), most=10**9)
    gpus = number(environ.get("PBS_NUM_GPUS") or environ.get("PBS_NGPUS"), most=CPUS_MAX)
    return Said(cpus, memory, None, gpus, now + walltime if walltime else None)


def size_mib(text: Optional[str]) -> Optional[int]:
    """`4gb` or bytes, as PBS writes them."""
    found = SIZE.fullmatch((text or "").strip())
    if not found:
        return None
    unit = (found.group(2) or "").lower()
    amount = int(found.group(1)) * SIZE_BYTES[unit[:1]]
    return max(1, amount // MIB) if 0 < amount < MEMORY_BYTES_MAX else None


def visible_gpus(environ: Mapping[str, str]) -> Optional[Tuple[str, ...]]:
    """The devices that the batch system or the container lets us see; None where nothing is said."""
    for name in ("CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"):
        if name in environ:
            words = [word.strip() for word in environ[name].split(",")]
            return tuple(word for word in words if re.fullmatch(r"[A-Za-z0-9_/.:-]{1,80}", word))
    return None


def given(told: Said, limits: Said, batch: Said, machine: Said) -> Given:
    """Arguments first; else the tighter of limits and allocation; else all that the machine has."""
    sizes: Dict[str, int] = {}
    for name in ("cpus", "memory_mib", "disk_mib"):
        one = getattr(told, name)
        if one is None:
            one = least(getattr(limits, name), getattr(batch, name))
        if one is None:
            one = getattr(machine, name)
        sizes[name] = max(1, one or 0)
    gpus = told.gpus if told.gpus is not None else batch.gpus
    ends = [said.ends_at for said in (told, limits, batch) if said.ends_at is not None]
    return Given(sizes["cpus"], sizes["memory_mib"], sizes["disk_mib"], gpus, min(ends) if ends else None)


def of_machine(folder: str) -> Said:
    """All of this machine that the process may use, and the room where it works."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    room = os.statvfs(folder)
    return Said(len(os.sched_getaffinity(0)), memory // MIB, room.f_bavail * room.f_frsize // MIB, None, None)


def read_text(path: str) -> Optional[str]:
    try:
        with open(path) as file:
            return file.read(1 << 16)
    except (OSError, ValueError):
        return None
