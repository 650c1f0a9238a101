"""What goes into the places of a template for one pilot: a specification comes in, values and files go out.

The files are for this one request; they are gone when it is over, and nobody else can read them meanwhile.
"""

from __future__ import annotations

import base64
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from glidepath.cloud.bundle import bundle_of
from glidepath.cloud.label import folded, label_of
from glidepath.cloud.settings import CloudSettings
from glidepath.cloud.sizes import CPU_MILLI, Boxes
from glidepath.core.provision.pilot import PilotSpec
from glidepath.core.quantity import Resources

MIB_PER_GB = 1024  # What clouds call GB is mostly this, and never less than what is asked for.
MINUTE_S = 60


class Filling:
    """For the pilots of one site."""

    def __init__(self, settings: CloudSettings, folder: Path) -> None:
        self.settings = settings
        self.boxes = Boxes(settings.memory_per_cpu, settings.cpu_sizes)
        self._folder = folder

    def box(self, spec: PilotSpec) -> Resources:
        """The container that is asked for. Raises ValueError where the cloud has none so large."""
        found = self.boxes.holding(spec.size)
        if found is None:
            raise ValueError(self.boxes.refusal(spec.size))
        return found

    @contextmanager
    def of(self, spec: PilotSpec, *, write: bool = True) -> Iterator[dict[str, str]]:
        """All values; without `write` no file is made, and the values are only for people."""
        box = self.box(spec)
        values = {**self._told(spec), **_amounts(spec, box, grace_s=self.settings.walltime_grace)}
        bundle = bundle_of(spec, box)
        token = next((content for _, content in spec.secrets), "")
        values |= {"bundle": base64.b64encode(bundle).decode(), "token": token.strip()}
        names = {"file": f"{spec.name}.pyz", "token_file": f"{spec.name}.token"}
        values |= {f"{place}_name": name for place, name in names.items()}
        if not write:
            yield values | {place: f"/{name}" for place, name in names.items()}
            return
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix="ask-", dir=self._folder))
        try:
            contents = {"file": bundle, "token_file": token.encode()}
            for place, content in contents.items():
                if content:
                    _write(made / names[place], content)
                    values[place] = str(made / names[place])
            yield values
        finally:
            shutil.rmtree(made, ignore_errors=True)

    def _told(self, spec: PilotSpec) -> dict[str, str]:
        offer = spec.offer.partition("/")[2]
        own = self.settings.offers.get(offer)
        labelled = bool(self.settings.listing.label)
        letters_max = self.settings.name_letters_max
        name = spec.name if labelled else folded(spec, letters_max=letters_max)
        return {
            "name": name,
            "pilot": spec.name,
            "label": label_of(spec),
            "site": spec.site,
            "offer": offer,
            "pool": spec.pool,
            "image": (own.image if own else "") or self.settings.image,
            "gpu_type": (own.gpu_type if own else "") or dict(spec.traits).get("gpu_type", ""),
            "collector": dict(spec.join).get("GLIDEPATH_COLLECTOR", ""),
        }


def _amounts(spec: PilotSpec, box: Resources, *, grace_s: int) -> dict[str, str]:
    walltime_s = spec.lifetime_s + grace_s
    amounts = {
        "cpus": box.cpu_milli // CPU_MILLI,
        "cpus_milli": box.cpu_milli,
        "memory_mib": box.memory_mib,
        "memory_gb": -(-box.memory_mib // MIB_PER_GB),
        "disk_mib": box.disk_mib,
        "disk_gb": -(-box.disk_mib // MIB_PER_GB),
        "gpus": box.gpus,
        "lifetime_s": spec.lifetime_s,
        "idle_s": spec.idle_s,
        "walltime_s": walltime_s,
        "walltime_m": -(-walltime_s // MINUTE_S),
    }
    return {name: str(amount) for name, amount in amounts.items()}


def _write(path: Path, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "wb") as file:  # noqa: PTH123 (a descriptor, so that nobody else ever could read it)
        file.write(content)
