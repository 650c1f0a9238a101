"""The image of glidepath itself for a real cluster, made of what these tests run with.

There is nowhere to build or fetch an image here, so what deploy/images/controller would install is taken from
the machine, under the same paths: the interpreter, what glidepath needs of its packages, and their libraries.
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


def controller_image(archive: Path) -> Path:
    """Writes the root file system as a tar."""
    packages = sorted({*_packages("glidepath", set())})
    stdlib = Path(sysconfig.get_path("stdlib"))
    files = {*_interpreter(), *_below(stdlib), *packages, *_below(Path(glidepath.__file__).parent)}
    programs = [path for path in files if ".so" in path.name or path.parent.name == "bin"]
    libraries = _libraries(programs) - files
    with tarfile.open(archive, "w") as made:
        above = {parent for path in (*files, *libraries) for parent in path.parents}
        for path in sorted(above):
            _folder(made, str(path), 0o755)
        for path in sorted(files):
            made.add(path, arcname=str(path), recursive=False)
        for path in sorted(libraries):
            made.add(path.resolve(), arcname=str(path), recursive=False)
        users = f"root:x:0:0::/:/sbin/nologin\nglidepath:x:{UID}:{UID}::/tmp:/sbin/nologin\n"
        _text(made, "etc/passwd", users)
        for name, mode in (("tmp", 0o1777), ("var/lib/glidepath", 0o755), ("proc", 0o755), ("dev", 0o755)):
            _folder(made, name, mode)
        link = tarfile.TarInfo("usr/local/bin/glidepath")
        link.type, link.linkname = tarfile.SYMTYPE, str(Path(sysconfig.get_path("scripts")) / "glidepath")
        made.addfile(link)
    return archive


def _folder(made: tarfile.TarFile, name: str, mode: int) -> None:
    """Whoever the machine's folder belongs to, all users of the image may go through."""
    about = tarfile.TarInfo(name.strip("/") or ".")
    about.type, about.mode = tarfile.DIRTYPE, mode
    made.addfile(about)


def _text(made: tarfile.TarFile, name: str, text: str) -> None:
    about = tarfile.TarInfo(name)
    about.size = len(text)
    made.addfile(about, io.BytesIO(text.encode()))


def _interpreter() -> Iterator[Path]:
    """The program, and every link on the way to it."""
    path = Path(os.path.normpath(sys.executable))
    for _ in range(10):
        yield path
        if not path.is_symlink():
            break
        path = Path(os.path.normpath(path.parent / path.readlink()))
    about = Path(sys.prefix) / "pyvenv.cfg"
    if about.exists():
        yield about
    yield Path(sysconfig.get_path("scripts")) / "glidepath"


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
