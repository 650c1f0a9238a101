"""On which line a key stands: TOML text comes in, a map from key paths to lines goes out.

`tomllib` gives values without places. This scanner follows the same grammar only as far as places need
it, never judges a value, and stops at what it does not understand: the parser will say what is wrong.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right
from dataclasses import dataclass, field

from glidepath.config.problems import Loc

# Nobody nests or dots deeper in earnest, and the parser takes quadratic time or all its stack on it.
KEY_PARTS_MAX = 16
NEST_MAX = 32

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_QUOTED = re.compile(r'"(?:\\.|[^"\\\n])*"' r"|'[^'\n]*'")
_TOKEN = re.compile(
    r'(?P<string>"""(?:\\.|[^\\])*?""""{0,2}'
    r"|'''.*?''''{0,2}"
    r'|"(?!"")(?:\\.|[^"\\\n])*"'
    r"|'(?!'')[^'\n]*')"
    r"|(?P<open>[\[{])|(?P<close>[\]}])|(?P<comment>#[^\n]*)|(?P<newline>\n)|(?P<part>[,=])"
    r"""|(?P<word>[^\s"'\[\]{},=#]+)|(?P<space>[ \t\r]+)""",
    re.DOTALL,
)


@dataclass(slots=True)
class Lines:
    """Where keys stand, which stand twice, and the line where the nesting gets out of hand."""

    at: dict[Loc, int] = field(default_factory=dict)
    repeats: list[tuple[Loc, int, int]] = field(default_factory=list)
    too_deep: int | None = None

    def of(self, loc: Loc) -> int | None:
        """The line of the key, or of the nearest table around it that has one."""
        for length in range(len(loc), 0, -1):
            if loc[:length] in self.at:
                return self.at[loc[:length]]
        return None

    def note(self, loc: Loc, line: int, *, final: bool) -> None:
        if loc not in self.at:
            self.at[loc] = line
        elif final:
            self.repeats.append((loc, self.at[loc], line))


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.pos = 0
        self.starts = [match.end() for match in re.finditer("\n", text)]
        self.lines = Lines()
        self.arrays: dict[Loc, int] = {}  # how many tables each array of tables has so far

    def line(self) -> int:
        return bisect_right(self.starts, self.pos) + 1

    def skip(self, pattern: re.Pattern[str]) -> None:
        match = pattern.match(self.text, self.pos)
        self.pos = match.end() if match else self.pos

    def took(self, mark: str) -> bool:
        if not self.text.startswith(mark, self.pos):
            return False
        self.pos += len(mark)
        return True

    def key(self) -> tuple[str, ...] | None:
        """A dotted key; None where there is none or too much of it."""
        parts: list[str] = []
        for _ in range(KEY_PARTS_MAX):
            self.skip(_SPACE)
            if match := _BARE.match(self.text, self.pos):
                parts.append(match[0])
            elif match := _QUOTED.match(self.text, self.pos):
                parts.append(_unquoted(match[0]))
            else:
                return None
            self.pos = match.end()
            self.skip(_SPACE)
            if not self.took("."):
                return tuple(parts)
        self.lines.too_deep = self.line()
        return None

    def resolved(self, key: tuple[str, ...]) -> Loc:
        """The key with the number of the latest table wherever it passes through an array of tables."""
        loc: Loc = ()
        for part in key:
            loc = (*loc, part)
            if loc in self.arrays:
                loc = (*loc, self.arrays[loc] - 1)
        return loc

    def value(self) -> bool:
        """Moves behind one value; false where it is not understood."""
        depth = dots = 0
        for _ in range(len(self.text) + 1):
            match = _TOKEN.match(self.text, self.pos)
            if match is None:
                return self.pos == len(self.text) and not depth
            kind = match.lastgroup
            if kind == "newline" and not depth:
                return True
            depth += (kind == "open") - (kind == "close")
            dots = dots + match[0].count(".") if kind == "word" else dots * (kind in ("string", "space"))
            if depth > NEST_MAX or dots >= KEY_PARTS_MAX:
                self.lines.too_deep = self.line()
                return False
            self.pos = match.end()
        return False

    def header(self) -> Loc | None:
        """`[table]` or `[[array of tables]]`: where the keys below it belong."""
        line, array = self.line(), self.took("[[")
        if not array:
            self.took("[")
        key = self.key()
        if key is None or not self.took("]]" if array else "]"):
            return None
        self.note_above(key, line)
        if array:
            loc = (*self.resolved(key[:-1]), key[-1])
            self.lines.note(loc, line, final=False)
            self.arrays[loc] = self.arrays.get(loc, 0) + 1
            loc = (*loc, self.arrays[loc] - 1)
        else:
            loc = self.resolved(key)
        self.lines.note(loc, line, final=True)
        return loc

    def note_above(self, key: tuple[str, ...], line: int) -> None:
        for length in range(1, len(key)):
            self.lines.note(self.resolved(key[:length]), line, final=False)

    def scan(self) -> Lines:
        table: Loc = ()
        for _ in range(len(self.text) + 1):
            self.skip(_BLANK)
            if self.pos >= len(self.text):
                break
            if self.text.startswith("[", self.pos):
                header = self.header()
                if header is None:
                    break
                table = header
                continue
            line, key = self.line(), self.key()
            if key is None or not self.took("="):
                break
            for length in range(1, len(key)):
                self.lines.note((*table, *key[:length]), line, final=False)
            self.lines.note((*table, *key), line, final=True)
            if not self.value():
                break
        return self.lines


def _unquoted(word: str) -> str:
    if word.startswith("'") or "\\" not in word:
        return word[1:-1]
    try:
        return str(tomllib.loads(f"word = {word}")["word"])
    except ValueError:
        return word[1:-1]


def scan(text: str) -> Lines:
    """The places of all keys, as far as the text can be followed."""
    return _Scanner(text).scan()
