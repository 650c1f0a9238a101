"""Bytes of files come in, tables with their places go out; a file that is no good becomes problems.

It refuses to know what the tables mean. Sizes are looked at before anything is read, and only plain
files are opened: a pipe would wait for ever, and a disk image would fill the memory.
"""

from __future__ import annotations

import os
import re
import stat
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glidepath.config.lines import KEY_PARTS_MAX, NEST_MAX, Lines, scan
from glidepath.config.problems import Problem, shown_key
from glidepath.core.text import one_line

FOLDER = "conf.d"
FILE_BYTES_MAX = 1024**2  # A thousand sites fit in a fifth of this; more is not a configuration.
FILES_MAX = 1000
ALL_BYTES_MAX = 16 * 1024**2

_AT_LINE = re.compile(r" \(at line (\d+), column \d+\)$")
_AT_END = " (at end of document)"


@dataclass(frozen=True, slots=True)
class Source:
    """One file that could be parsed: its name as shown, its content, its tables and their places."""

    file: str
    content: bytes
    tables: dict[str, Any]
    lines: Lines


def paths_of(main: Path) -> tuple[list[Path], list[Problem]]:
    """The main file and the files of the folder beside it, in the order of their names."""
    folder = main.parent / FOLDER
    try:
        with os.scandir(folder) as entries:
            # Editors leave their locks and copies as hidden files; those are nobody's settings.
            found = sorted(e.name for e in entries if e.name.endswith(".toml") and not e.name.startswith("."))
    except FileNotFoundError:
        found = []
    except (OSError, ValueError) as error:
        return [main], [_refused(folder, error)]
    if len(found) > FILES_MAX:
        message = f"has {len(found)} files, and {FILES_MAX} are the most that are read"
        return [main], [Problem(str(folder), None, "", message, "join some of them")]
    return [main, *(folder / name for name in found)], []


def sources_of(main: Path) -> tuple[list[Source], list[Problem]]:
    """All files that can be parsed, and what is wrong with the others."""
    paths, problems = paths_of(main)
    sources: list[Source] = []
    left = ALL_BYTES_MAX
    for path in paths:
        content = _content(path)
        if isinstance(content, Problem):
            problems.append(content)
            continue
        left -= len(content)
        if left < 0:
            message = f"all files together are over {ALL_BYTES_MAX // 1024**2} MiB; the rest is left out"
            problems.append(Problem(str(path), None, "", message, "make the configuration smaller"))
            break
        parsed = _parsed(str(path), content)
        if isinstance(parsed, Problem):
            problems.append(parsed)
        else:
            sources.append(parsed)
    return sources, problems


def read_source(path: Path) -> Source | Problem:
    """One file that stands alone."""
    content = _content(path)
    return content if isinstance(content, Problem) else _parsed(str(path), content)


def _content(path: Path) -> bytes | Problem:
    file = str(path)
    try:
        about = path.stat()
        if stat.S_ISDIR(about.st_mode):
            return Problem(
                file, None, "", "is a folder, not a file", "name the file, for example `glidepath.toml`"
            )
        if not stat.S_ISREG(about.st_mode):
            return Problem(file, None, "", "is not a plain file", "put the settings into a plain file")
        if about.st_size > FILE_BYTES_MAX:
            return _too_large(file, about.st_size)
        with path.open("rb") as opened:
            content = opened.read(FILE_BYTES_MAX + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path itself.
        return _refused(path, error)
    return _too_large(file, len(content)) if len(content) > FILE_BYTES_MAX else content


def _too_large(file: str, size: int) -> Problem:
    message = (
        f"is {size / 1024**2:.1f} MiB large, and {FILE_BYTES_MAX // 1024**2} MiB is the most that is read"
    )
    return Problem(file, None, "", message, f"is this the right file? Parts can go into `{FOLDER}/`")


def _refused(path: Path, error: OSError | ValueError) -> Problem:
    if isinstance(error, FileNotFoundError):
        return Problem(str(path), None, "", "there is no such file", "check the path")
    said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return Problem(
        str(path), None, "", f"cannot be read: {one_line(said)}", "check the path and its permissions"
    )


def _parsed(file: str, content: bytes) -> Source | Problem:
    def at(offset: int) -> int:
        return content.count(b"\n", 0, offset) + 1

    if (nul := content.find(b"\0")) >= 0:
        return Problem(
            file, at(nul), "", "holds a NUL byte", "this is not a text file; write it anew as UTF-8"
        )
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        return Problem(file, at(error.start), "", "is not UTF-8 text", "save the file as UTF-8")
    if text.startswith("\ufeff"):
        return Problem(file, 1, "", "begins with a byte order mark", "save the file as UTF-8 without one")
    lines = scan(text.replace("\r\n", "\n"))
    if lines.too_deep:
        message = f"is nested deeper than {NEST_MAX} or has a key of more than {KEY_PARTS_MAX} parts"
        return Problem(file, lines.too_deep, "", message, "no setting stands that deep")
    try:
        return Source(file, content, tomllib.loads(text), lines)
    except (ValueError, RecursionError) as error:
        return _syntax(file, text, lines, str(error))


def _syntax(file: str, text: str, lines: Lines, said: str) -> Problem:
    found = _AT_LINE.search(said)
    if said.endswith(_AT_END):
        line: int | None = max(1, len(text.splitlines()))
        said = said.removesuffix(_AT_END) + " at the end of the file"
    else:
        line = int(found[1]) if found else None
        said = _AT_LINE.sub("", said)
    for loc, first, second in lines.repeats:
        if second == line:
            message = f"is already defined at line {first}"
            return Problem(file, line, shown_key(loc), message, "keep one of the two")
    return Problem(file, line, "", f"is not valid TOML: {one_line(said)}", "")
