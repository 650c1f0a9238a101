"""Images without an engine or a registry: a root file system comes in, an archive for containerd goes out.

The archive is the one that `docker save` writes: a layer, a configuration, a manifest. The two images of the
bed itself are made here: the one that holds a pod's network, and a tiny one with a shell for tests.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import shutil
import struct
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bed.command import run
from bed.packages import environ
from bed.trouble import Trouble
from bed.versions import sha256_of

PAUSE = "bed.invalid/pause:1"
TINY = "bed.invalid/tiny:1"
PACK_S_MAX = 600
LIST_S_MAX = 30
# Of a root file system that is or was in use: what the kernel, a boot or another pool put there.
NOT_PACKED = ("proc", "sys", "dev", "run")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# `pause` for ever: mov eax, 34 (pause); syscall; jmp back.
WAITING = bytes.fromhex("b822000000 0f05 ebf7")
LOADED_AT = 0x400000
ELF_HEADER_BYTES, PROGRAM_HEADER_BYTES = 64, 56


def waiting_program() -> bytes:
    """A program for x86_64 that waits until it is killed, in 129 bytes: no compiler is needed for one."""
    start = ELF_HEADER_BYTES + PROGRAM_HEADER_BYTES
    size = start + len(WAITING)
    header = struct.pack(
        "<16sHHIQQQIHHHHHH",
        b"\x7fELF\x02\x01\x01",
        *(2, 62, 1),  # An executable, for x86_64, of the only version there is.
        *(LOADED_AT + start, ELF_HEADER_BYTES, 0, 0),
        *(ELF_HEADER_BYTES, PROGRAM_HEADER_BYTES, 1, 0, 0, 0),
    )
    readable_and_run = 5
    segment = struct.pack("<IIQQQQQQ", 1, readable_and_run, 0, LOADED_AT, LOADED_AT, size, size, 0x1000)
    return header + segment + WAITING


def pause_tree(tree: Path) -> None:
    tree.mkdir(parents=True)
    (tree / "pause").write_bytes(waiting_program())
    (tree / "pause").chmod(0o755)


def tiny_tree(tree: Path, busybox: Path) -> None:
    """A shell and the usual small tools, all of them busybox."""
    (tree / "bin").mkdir(parents=True)
    for name in ("etc", "tmp"):
        (tree / name).mkdir()
    (tree / "tmp").chmod(0o1777)
    (tree / "etc/passwd").write_text("root:x:0:0:root:/:/bin/sh\n", encoding="utf-8")
    shutil.copy(busybox, tree / "bin/busybox")
    listed = run([str(busybox), "--list"], environ=environ(), limit_s=LIST_S_MAX)
    for name in listed.must("busybox does not run on this machine").out.split():
        if name != "busybox":
            (tree / "bin" / name).symlink_to("busybox")


def pack(
    source: Path, archive: Path, name: str, *, command: Sequence[str] = (), entry: Sequence[str] = ()
) -> None:
    """Writes the archive of an image: of a root file system in a folder, or of a tar of one."""
    layer = archive.with_suffix(".layer")
    if source.is_dir():
        left_out = [f"--exclude=./{folder}/*" for folder in NOT_PACKED]
        words = [
            "tar",
            "--numeric-owner",
            "--sort=name",
            *left_out,
            "-C",
            str(source),
            "-cf",
            str(layer),
            ".",
        ]
        run(words, environ=environ(), limit_s=PACK_S_MAX).must(f"`{source}` could not be packed")
    else:
        with (
            gzip.open(source) if is_gzip(source) else source.open("rb") as read,
            layer.open("wb") as written,
        ):
            shutil.copyfileobj(read, written)
    digest = sha256_of(layer)
    config: dict[str, Any] = {
        "architecture": "amd64",
        "os": "linux",
        "config": {
            "Env": [f"PATH={PATH}"],
            "Cmd": list(command) or None,
            "Entrypoint": list(entry) or None,
            "WorkingDir": "/",
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    }
    text = json.dumps(config).encode()
    config_name = f"{hashlib.sha256(text).hexdigest()}.json"
    manifest = [{"Config": config_name, "RepoTags": [name], "Layers": [f"{digest}/layer.tar"]}]
    with tarfile.open(archive, "w") as made:
        made.add(layer, f"{digest}/layer.tar")
        for member, content in ((config_name, text), ("manifest.json", json.dumps(manifest).encode())):
            about = tarfile.TarInfo(member)
            about.size = len(content)
            made.addfile(about, io.BytesIO(content))
    layer.unlink()


def is_gzip(path: Path) -> bool:
    with path.open("rb") as stream:
        return stream.read(2) == b"\x1f\x8b"


def is_image(source: Path) -> bool:
    """Whether a file is an archive of an image already, and not of a root file system."""
    if source.is_dir():
        return False
    try:
        with tarfile.open(source) as archive:
            names = {member.name.removeprefix("./") for member in archive}
    except (tarfile.TarError, OSError) as error:
        raise Trouble(f"`{source}` is no archive that tar reads: {error}") from error
    return bool({"manifest.json", "index.json"} & names)
