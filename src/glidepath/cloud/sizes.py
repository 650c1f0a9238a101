"""Sizes that a cloud has: a wanted size comes in, the smallest container that holds it goes out.

Clouds sell memory by the CPU and CPUs by the box; a pilot takes all of its box and divides it among jobs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from glidepath.core.quantity import Resources
from glidepath.core.units import shown_resources

CPU_MILLI = 1000


@dataclass(frozen=True, slots=True)
class Boxes:
    """What containers can be: memory for each CPU (zero: any), and numbers of CPUs (none: any)."""

    memory_per_cpu_mib: int = 0
    cpus: Sequence[int] = ()

    def holding(self, size: Resources) -> Resources | None:
        """The smallest container in which the size fits; None where the cloud has none so large."""
        cpus = -(-size.cpu_milli // CPU_MILLI)
        if self.memory_per_cpu_mib:
            cpus = max(cpus, -(-size.memory_mib // self.memory_per_cpu_mib))
        cpus = max(1, cpus)
        if self.cpus:
            enough = [each for each in sorted(self.cpus) if each >= cpus]
            if not enough:
                return None
            cpus = enough[0]
        memory_mib = cpus * self.memory_per_cpu_mib if self.memory_per_cpu_mib else size.memory_mib
        return Resources(cpus * CPU_MILLI, memory_mib, size.disk_mib, size.gpus)

    def refusal(self, size: Resources) -> str:
        """Why an offer of this very size cannot be, and the nearest that can; empty where it can."""
        fits = self.holding(size)
        if fits is None:
            largest = max(self.cpus)
            return f"the cloud has no container of {shown_resources(size)}; its largest has {largest} CPUs"
        if fits == size:
            return ""
        return (
            f"the cloud has no container of {shown_resources(size)}; the nearest that holds it has "
            f"{fits.cpu_milli // CPU_MILLI} CPUs and {fits.memory_mib} MiB of memory"
        )
