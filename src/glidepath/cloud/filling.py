"""What goes into the places of a template for one pilot: a specification comes in, values and files go out.

The files are for this one request; they are gone when it is over, and nobody else can read them meanwhile.
"""

from __future__ import annotations

import base64
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from glidepath.cloud.bundle import bundle_of
from glidepath.cloud.label import folded, label_of
from glidepath.cloud.settings import CloudSettings, wanted_by
from glidepath.cloud.sizes import CPU_MILLI, Boxes
from glidepath.core.provision.pilot import PilotSpec
from glidepath.core.quantity import PilotName, Resources

MIB_PER_GB = 1024  # What clouds call GB is mostly this, and never less than what is asked for.
MINUTE_S = 60
ASK = "ask-"
# A program that was left alone by our death has given up by then, or the cloud has what it was told.
CUT_SHORT_S_MAX = 600.0


class Filling:
    """For the pilots of one site. What no template asks for is not made, least of all written to a disk."""

    def __init__(self, settings: CloudSettings, folder: Path) -> None:
        self.settings = settings
        self.boxes = Boxes(settings.memory_per_cpu, settings.cpu_sizes)
        self._folder = folder
        self._wanted = wanted_by(settings)
        self._lock = threading.Lock()
        self._open: set[Path] = set()  # folders of requests that this process is making

    def box(self, spec: PilotSpec) -> Resources:
        """The container that is asked for. Raises ValueError where the cloud has none so large."""
        found = self.boxes.holding(spec.size)
        if found is None:
            raise ValueError(self.boxes.refusal(spec.size))
        return found

    def cut_short(self, name: PilotName, *, wall: float) -> bool:
        """Whether an earlier life ended while it asked for this pilot, so that its program may still run.

        What was left so long ago that no program runs any more is cleared away here.
        """
        found = False
        with suppress(FileNotFoundError):
            for entry in list(os.scandir(self._folder)):
                # What is put behind the name has no `-`.
                asked_for, _, _ = entry.name.removeprefix(ASK).rpartition("-")
                with self._lock:
                    ours = Path(entry.path) in self._open
                if ours or not entry.name.startswith(ASK):
                    continue
                if wall - entry.stat().st_mtime > CUT_SHORT_S_MAX:
                    shutil.rmtree(entry.path, ignore_errors=True)
                elif asked_for == name:
                    found = True
        return found

    @contextmanager
    def of(self, spec: PilotSpec) -> Iterator[dict[str, str]]:
        """All values, with files that are there until the request is over."""
        values, contents = self._values(spec)
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Also where there is nothing to write: what is left of it tells the next life of a request cut short.
        made = Path(tempfile.mkdtemp(prefix=f"{ASK}{spec.name}-", dir=self._folder))
        with self._lock:
            self._open.add(made)
        try:
            for place, content in contents.items():
                path = made / values[f"{place}_name"]
                _write(path, content)
                values[place] = str(path)
            yield values
        finally:
            shutil.rmtree(made, ignore_errors=True)
            with self._lock:
                self._open.discard(made)

    def shown(self, spec: PilotSpec) -> dict[str, str]:
        """The same values for people: nothing is written, and files have no folder."""
        values, contents = self._values(spec)
        return values | {place: f"/{values[f'{place}_name']}" for place in contents}

    def _values(self, spec: PilotSpec) -> tuple[dict[str, str], dict[str, bytes]]:
        """The texts, and the contents of files that are still to be written."""
        box = self.box(spec)
        values = {**self._told(spec), **_amounts(spec, box, grace_s=self.settings.walltime_grace)}
        values |= {"file_name": f"{spec.name}.pyz", "token_file_name": f"{spec.name}.token"}
        token = next((content for _, content in spec.secrets), "")
        contents: dict[str, bytes] = {}
        if {"bundle", "file"} & self._wanted:
            bundle = bundle_of(spec, box)
            values["bundle"] = base64.b64encode(bundle).decode()
            contents["file"] = bundle
        values["token"] = token.strip()
        contents["token_file"] = token.encode()
        return values, {place: told for place, told in contents.items() if told and place in self._wanted}

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
