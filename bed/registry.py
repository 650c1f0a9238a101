"""The table of the parts that there are. A new part is one file in bed/parts and one line here."""

from __future__ import annotations

from bed.parts import Part
from bed.parts.condor import Condor
from bed.parts.helm import Helm
from bed.parts.kubernetes import Kubernetes
from bed.parts.postgres import Postgres
from bed.trouble import Trouble

PARTS: dict[str, type[Part]] = {
    "condor": Condor,
    "helm": Helm,
    "kubernetes": Kubernetes,
    "postgres": Postgres,
}


def part_named(name: str) -> Part:
    if name not in PARTS:
        raise Trouble(
            f"there is no part `{name}`; there are {', '.join(f'`{known}`' for known in sorted(PARTS))}"
        )
    return PARTS[name]()
