"""The image of glidepath itself for a real cluster, made of what these tests run with.

There is nowhere to build or fetch an image here, so what deploy/images/controller would install is taken from
the machine: the interpreter and its libraries under the same paths, what glidepath needs of packages where
that interpreter looks for them. The folder of these tests may be below one that pods mount over, as /tmp is.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

import glidepath

EXTRAS = {"htcondor", "kubernetes", "postgresql", "binary"}
LEFT_OUT = {"test", "tests", "idlelib", "tkinter", "site-packages", "dist-packages", "lib2to3", "ensurepip"}
UID = 20000
LIBRARY = re.compile(r"(?:=>\s+)?(/\S+) \(0x")
LIST_S_MAX = 60
START = "#!{program}\nimport sys\n\nfrom glidepath.cli.main import main\n\nsys.exit(main())\n"


def controller_image(archive: Path) -> Path:
    """Writes the root file system as a tar."""
    program = Path(sys.executable).resolve()
    place, ours = _site_packages(program), Path(glidepath.__file__).parent
    platlib = Path(sysconfig.get_path("platlib"))
    files = {path: path for path in (program, *_below(Path(sysconfig.get_path("stdlib"))))}
    files |= {path: place / path.relative_to(platlib) for path in _packages("glidepath", set())}
    files |= {path: place / path.relative_to(ours.parent) for path in _below(ours)}
    libraries = _libraries([path for path in files if ".so" in path.name or path == program])
    files |= {path: path for path in libraries if path not in files}
    with tarfile.open(archive, "w") as made:
        for path in sorted({parent for there in files.values() for parent in there.parents}):
            _folder(made, str(path), 0o755)
        for path, there in sorted(files.items()):
            made.add(path.resolve(), arcname=str(there), recursive=False)
        users = f"root:x:0:0::/:/sbin/nologin\nglidepath:x:{UID}:{UID}::/tmp:/sbin/nologin\n"
        _text(made, "etc/passwd", users)
        for name, mode in (("tmp", 0o1777), ("var/lib/glidepath", 0o755), ("proc", 0o755), ("dev", 0o755)):
            _folder(made, name, mode)
        _text(made, "usr/local/bin/glidepath", START.format(program=program), mode=0o755)
    return archive


def _folder(made: tarfile.TarFile, name: str, mode: int) -> None:
    """Whoever the machine's folder belongs to, all users of the image may go through."""
    about = tarfile.TarInfo(name.strip("/") or ".")
    about.type, about.mode = tarfile.DIRTYPE, mode
    made.addfile(about)


def _text(made: tarfile.TarFile, name: str, text: str, *, mode: int = 0o644) -> None:
    about = tarfile.TarInfo(name)
    about.size, about.mode = len(text), mode
    made.addfile(about, io.BytesIO(text.encode()))


def _site_packages(program: Path) -> Path:
    """Where the interpreter itself looks, outside of any virtual environment."""
    words = [str(program), "-I", "-c", "import sysconfig; print(sysconfig.get_path('platlib'))"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=LIST_S_MAX, check=True)
    return Path(done.stdout.strip())


def _below(folder: Path) -> Iterator[Path]:
    for at, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in LEFT_OUT and not name.startswith("config-")]
        yield from (Path(at) / name for name in names)


def _packages(name: str, seen: set[str]) -> Iterator[Path]:
    """The files of a package and of all that it needs; a package that is not installed is not needed here."""
    plain = re.sub(r"[-_.]+", "-", name).lower()
    if plain in seen:
        return
    seen.add(plain)
    try:
        found: Distribution = distribution(name)
    except PackageNotFoundError:
        return
    for file in found.files or ():
        path = Path(os.path.normpath(str(found.locate_file(file))))
        if path.is_file() and path.is_relative_to(sysconfig.get_path("platlib")):
            yield path
    for needed in found.requires or ():
        word = re.match(r"[A-Za-z0-9._-]+", needed)
        extra = re.search(r"extra\s*==\s*[\"']([^\"']+)", needed)
        if word and (extra is None or extra[1] in EXTRAS):
            yield from _packages(word[0], seen)


def _libraries(programs: Iterable[Path]) -> set[Path]:
    """The shared libraries that the loader of this machine finds for them, and the loader itself."""
    words = ["ldd", *(str(path) for path in programs)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=LIST_S_MAX, check=False)
    return {Path(os.path.normpath(path)) for path in LIBRARY.findall(done.stdout)}
