"""What runs on the worker: one file, standard library only, on any Python from 3.6.

A kind of pool to join and a size come in; jobs are run and a summary goes out. Here its file is built from
the modules in `parts`, which import nothing else of ours.
"""

from __future__ import annotations

import hashlib
import io
import os
import zipfile
from functools import lru_cache
from pathlib import Path

from glidepath import __version__

PARTS = Path(__file__).parent / "parts"
# The first time that the format knows: no clock and no check-out may change the bytes.
STAMP = (1980, 1, 1, 0, 0, 0)
FILE_MODE = 0o100644
UNIX = 3
DIGEST_LETTERS = 16

_START = """\
import sys

from glidepath.pilot.parts.__main__ import main

sys.exit(main())
"""


@lru_cache(maxsize=1)
def pilot_bytes() -> bytes:
    """The pilot as a zip application, the same bytes for the same sources."""
    members = {
        "__main__.py": _START.encode(),
        # In the file our package is made of this one part, so that its modules have one name everywhere.
        "glidepath/__init__.py": f'__version__ = "{__version__}"\n'.encode(),
        "glidepath/pilot/__init__.py": b"",
    }
    for part in sorted(PARTS.glob("*.py")):
        members[f"glidepath/pilot/parts/{part.name}"] = part.read_bytes()
    packed = io.BytesIO()
    # Not compressed: it is small, and a worker need not load the means to unpack it.
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(members):
            entry = zipfile.ZipInfo(name, STAMP)
            entry.create_system = UNIX
            entry.external_attr = FILE_MODE << 16
            archive.writestr(entry, members[name])
    return packed.getvalue()


@lru_cache(maxsize=1)
def pilot_name() -> str:
    """Other bytes have another name, so that a file of this name never changes under a pilot that runs."""
    return f"pilot-{hashlib.sha256(pilot_bytes()).hexdigest()[:DIGEST_LETTERS]}.pyz"


def pilot_file(folder: Path) -> Path:
    """The pilot's file in the folder, built if it is not there: the whole file or none of it."""
    content = pilot_bytes()
    path = folder / pilot_name()
    if not path.exists():
        fresh = folder / f".{path.name}.{os.getpid()}"
        with fresh.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    return path
