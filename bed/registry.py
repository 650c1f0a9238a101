"""The table of the parts that there are. A new part is one file in bed/parts and one line here."""

from __future__ import annotations

from bed.parts import Part
from bed.parts.condor import Condor
from bed.parts.gridengine import GridEnginePart
from bed.parts.helm import Helm
from bed.parts.kubernetes import Kubernetes
from bed.parts.postgres import Postgres
from bed.parts.slurm import SlurmPart
from bed.parts.sshd import Sshd
from bed.trouble import Trouble

PARTS: dict[str, type[Part]] = {
    "condor": Condor,
    "gridengine": GridEnginePart,
    "helm": Helm,
    "kubernetes": Kubernetes,
    "postgres": Postgres,
    "slurm": SlurmPart,
    "sshd": Sshd,
}


def part_named(name: str) -> Part:
    if name not in PARTS:
        raise Trouble(
            f"there is no part `{name}`; there are {', '.join(f'`{known}`' for known in sorted(PARTS))}"
        )
    return PARTS[name]()
