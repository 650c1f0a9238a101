"""What goes over ssh: words and standard input become one line for the shell there, and what comes back is
cut out of whatever else is said around it.

The shell there first says a word that nobody can guess, and is given the line only then: before that nothing
was sent, for sure. The line is run as a whole or not at all, and it holds the standard input too: where a
connection breaks meanwhile, no command works with half of it.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from glidepath.remote.child import Ended, Marks
from glidepath.remote.local import PASSED_ON
from glidepath.remote.runner import Ran

# A command there outlives our limit by this much at most: one that hangs must not pile up at the site.
OVERTIME_S = 5
ABSENT = "absent"  # said in place of a code where there is no such command
BEGIN, END = "begin", "end"

# Nothing in it means something else to csh or fish, which may be the login shell. The two halves of the word
# stand apart, so that a shell which repeats what it is told has not said it.
_GREETING = (
    "exec /bin/sh -c 'LC_ALL=C; export LC_ALL; m=MARK; for o in 1 2; do "
    'printf "%s-%s\\n" "$m" begin >&$o; done; IFS= read -r l || exit 1; eval "$l"\''
)
# What is looked up must be found as it will be run: by the same path, and in no function of a start file.
_LINE = (
    'n=$(printf "\\n_"); n=${n%_}; PATHS export PATH; set -- WORDS; '
    'if command -v "$1" >/dev/null 2>&1; then '
    'for v in PATH NAMES; do eval "[ -z \\"\\${$v+x}\\" ] || set -- \\"$v=\\$$v\\" \\"\\$@\\""; done; '
    'set -- env -i LC_ALL=C "$@"; '
    'if command -v timeout >/dev/null 2>&1; then set -- timeout -k OVER LIMIT "$@"; fi; '
    "GIVEN; c=$?; else c=absent; fi; "
    'for o in 1 2; do printf "\\n%s-%s %s\\n" "$m" end "$c" >&$o; done; exit 0'
)


@dataclass(frozen=True, slots=True)
class Heard:
    """What the command itself said; `word` is its code or `absent`, and empty where no end was heard."""

    word: str
    out: str
    err: str
    cut: bool

    def ran(self) -> Ran:
        return Ran(int(self.word) if self.word.isdigit() else None, self.out, self.err, self.cut)


def greeting(mark: str) -> str:
    """The command that ssh asks for: the same for all commands but for the word."""
    assert re.fullmatch(r"[a-z0-9-]+", mark)
    return _GREETING.replace("MARK", mark)


def marks(mark: str) -> Marks:
    return Marks(f"{mark}-{BEGIN}\n".encode(), f"\n{mark}-{END} ".encode())


def line(argv: Sequence[str], *, given: bytes, path: str, limit_s: float) -> bytes:
    """What the shell reads after its greeting, ending with the only line break in it."""
    words = " ".join(_quoted(word) for word in argv)
    # A command that does not read it makes no mistake, and nobody need hear of the broken pipe.
    fed = b"printf %b '" + _escaped(given) + b"' 2>/dev/null | " if given else b""
    fed += b'"$@"' if given else b'"$@" </dev/null'
    # In this order: what was put in is not looked through again.
    before, after = _LINE.split("GIVEN")
    before = before.replace("PATHS", f"PATH={path}:$PATH;" if path else "")
    before = before.replace("NAMES", " ".join(PASSED_ON))
    before = before.replace("LIMIT", str(math.ceil(limit_s) + OVERTIME_S)).replace("OVER", str(OVERTIME_S))
    head, tail = before.split("WORDS")
    return (
        head.encode()
        + words.encode("utf-8", "surrogateescape")
        + tail.encode()
        + fed
        + after.encode()
        + b"\n"
    )


def heard(ended: Ended, mark: str) -> Heard:
    """Raises nothing: an answer without its end has no word, whatever it looks like."""
    out, word = _between(ended.out, mark)
    err, word_of_err = _between(ended.err, mark)
    if not word and ended.cut:
        # What it printed was too much to be kept to its end; that it ended is known from elsewhere.
        word = word_of_err
    return Heard(word, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"), ended.cut)


def _between(text: bytes, mark: str) -> tuple[bytes, str]:
    these = marks(mark)
    _, begun, rest = text.partition(these.begin)
    if not begun:
        return b"", ""
    said, ended, tail = rest.partition(these.end)
    word, whole, _ = tail.partition(b"\n")
    return said, word.decode("ascii", "replace") if ended and whole else ""


def _quoted(word: str) -> str:
    """As one word for the shell; a line break in it comes from a variable, for there is only one line."""
    return shlex.quote(word).replace("\n", "'\"$n\"'")


def _escaped(given: bytes) -> bytes:
    """For `printf %b` between single quotes: no line break, no zero byte, and no backslash but ours."""
    text = given.replace(b"\\", b"\\\\").replace(b"\n", b"\\n").replace(b"\0", b"\\0000")
    return text.replace(b"'", b"'\\''")
