"""House rules that a reader relies on: who may import whom, how long things get, which words are not used.

Source files come in, findings as `file:line: error: ...` go out. A justified exception stands in a table
here, with its reason; everything else is mended where it is.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 500
POSITIONAL_MAX = 4

CODE_FOLDERS = ("src", "tests", "bench", "bed")
TEXT_FOLDERS = (*CODE_FOLDERS, "docs", ".ci", "deploy")
TEXT_ENDINGS = (".py", ".md", ".toml", ".in", ".svg", ".sh", ".yaml", ".yml")
ROOT_FILES = ("README.md", "CONTRIBUTING.md", "Makefile", "pyproject.toml", ".ci/run")

LONG_FILES: dict[str, str] = {}
# Packed into the pilot's one file, which runs on interpreters of other people's machines.
PILOT_PARTS = "src/glidepath/pilot/parts/"

# What each room may import of ours besides itself. A room that is not named here is a finding: whoever
# adds one says first what it may know. `*` is the top, which puts everything together.
ROOMS: dict[str, tuple[str, ...]] = {
    "core": (),
    "terms": (),
    "story": ("core",),
    "ports": ("core", "story", "terms"),
    "loop": ("core",),
    "clock": ("core",),
    "calls": ("ports",),
    "keptlog": (),
    "ranklog": ("core", "keptlog"),
    "watching": ("ports",),
    "provisioner": ("core", "ports", "calls"),
    "scheduler": ("core", "ports", "calls"),
    "shadow": ("core",),
    "ending": ("core", "ports", "calls"),
    "plugins": ("core",),
    "config": ("core", "plugins", "terms"),
    "store": ("core", "ports"),
    "journal": ("core", "store", "clock"),
    "status": ("core", "journal"),
    "pilot": (),
    "embedded": ("core", "ports", "pilot", "store", "terms"),
    "backends": ("core", "ports", "pilot", "config", "kube", "batch", "cloud", "called"),
    "called": ("core", "ports", "store", "journal", "config"),
    "agent": ("core", "ports", "plugins", "clock", "config", "called", "straight"),
    "beside": (),
    "remote": ("core", "ports", "config"),
    "batch": ("core", "ports", "pilot", "terms", "config", "remote"),
    "cloud": ("core", "ports", "pilot", "terms", "config", "remote"),
    "condor": ("core", "ports", "pilot", "story", "terms", "config"),
    "kube": ("core", "ports", "config", "terms"),
    "cluster": ("core", "ports", "pilot", "ranklog", "keptlog", "kube", "config"),
    "conformance": ("core", "ports", "plugins", "ranklog"),
    "policy": ("core", "plugins"),
    "sim": (
        *("core", "ports", "loop", "clock", "calls", "provisioner", "scheduler"),
        *("journal", "store", "policy", "plugins", "config"),
    ),
    "serve": (
        *("core", "ports", "journal", "store", "status", "config", "clock"),
        *("called", "ranklog", "jobs", "people", "notices"),
    ),
    "jobs": (
        *("core", "journal", "store", "config", "clock", "ranklog", "machinecode", "nudge", "straight"),
        "notices",
    ),
    "people": ("core", "clock", "store", "config", "jobs", "straight"),
    "straight": (),
    "sample": ("core", "store"),
    "metering": ("core", "store", "journal", "config"),
    "sweeping": ("core", "store", "ranklog", "config"),
    "notices": ("core", "clock", "config", "store", "straight"),
    "notifying": ("core", "clock", "config", "store", "notices"),
    "machine": (),
    "machinecode": ("core",),
    "pulse": (),
    "nudge": ("pulse",),
    "view": ("core", "store"),
    "assembly": ("*",),
    "placement": ("*",),
    "running": ("*",),
    "up": ("*",),
    "cli": ("*",),
    "__main__": ("cli",),
}
# Doors to one kind of place must not know each other, so that one can be removed without the next.
NEVER = {
    "cli": ("backends", "batch", "called", "cloud", "condor", "kube", "embedded", "pilot", "remote"),
    "assembly": ("backends", "batch", "called", "cloud", "condor", "kube", "remote", "cli"),
    "placement": ("backends", "batch", "called", "cloud", "condor", "kube", "remote", "cli"),
    "running": ("backends", "batch", "called", "cloud", "condor", "kube", "remote", "cli"),
    "up": ("backends", "batch", "called", "cloud", "condor", "kube", "remote", "cli"),
}
FOREIGN: dict[str, tuple[str, ...]] = {
    "sqlalchemy": ("store", "journal", "embedded", "called"),
    "psycopg": ("store",),
    "htcondor2": ("condor",),
    "classad2": ("condor",),
    "msgspec": ("kube", "cluster"),
    "urllib3": ("kube",),
    "yaml": ("kube", "cli"),
    "pydantic": (
        *("config", "plugins", "sim", "condor", "kube", "batch", "cloud", "remote"),
        *("called", "agent", "serve", "cluster", "jobs"),
    ),
    "jwt": ("people",),
    "starlette": ("serve",),
    "uvicorn": ("serve",),
    "anyio": ("serve",),
    "pydantic_core": ("config", "plugins", "serve"),
    "rich": ("cli",),
    "matplotlib": ("sim",),
    "numpy": ("core", "sim"),
    "numba": ("core",),
    "pytest": ("conformance",),
}
# The clock, chance, files, logs and the network are handed to the core, never fetched by it.
CORE_NEVER = frozenset(
    {
        *("asyncio", "datetime", "logging", "multiprocessing", "os", "pathlib", "random", "secrets"),
        *("shutil", "signal", "socket", "sqlite3", "subprocess", "tempfile", "threading", "time"),
        *("urllib", "uuid"),
    }
)
CORE_NEVER_CALLS = frozenset({"open", "print", "input", "exec", "eval", "globals", "__import__"})

BANNED_WORDS = frozenset({"utils", "helpers", "manager", "handle", "process", "data", "info"})
# Written in two halves, or this very line would be a finding.
UNFINISHED = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "X" + "XX")) + r")\b")
BOUND_WORDS = re.compile(r"until|deadline|_max$|limit|left$")


@dataclass(frozen=True)
class Source:
    """One Python file, read once."""

    path: Path
    name: str
    text: str
    tree: ast.Module

    @property
    def module(self) -> str:
        parts = Path(self.name).with_suffix("").parts
        return ".".join(parts[1:] if parts[0] == "src" else parts).removesuffix(".__init__")

    @property
    def room(self) -> str:
        return [*self.module.split("."), ""][1]


@lru_cache(maxsize=1)
def sources() -> tuple[Source, ...]:
    found = []
    for folder in CODE_FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            found.append(Source(path, str(path.relative_to(ROOT)), text, ast.parse(text, str(path))))
    return tuple(found)


Files = Sequence[Source]


def ours(files: Files) -> list[Source]:
    return [source for source in files if source.name.startswith("src/")]


def at(source: Source, line: int, message: str) -> str:
    return f"{source.name}:{line}: error: {message}"


def imports(source: Source) -> Iterator[tuple[int, str]]:
    """Every imported module with its line, those inside functions and for type checkers included."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.module == "glidepath":
                yield from ((node.lineno, f"glidepath.{alias.name}") for alias in node.names)
            else:
                # A relative one is named by its dots, and no rule knows such a name.
                yield node.lineno, "." * node.level + (node.module or "")


def functions(source: Source) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (n for n in ast.walk(source.tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))


def comments(source: Source) -> set[int]:
    tokens = tokenize.generate_tokens(io.StringIO(source.text).readline)
    return {token.start[0] for token in tokens if token.type == tokenize.COMMENT}


def own_imports(files: Files) -> Iterable[str]:
    for source in ours(files):
        room = source.room
        if room and room not in ROOMS:
            yield at(source, 1, f"the room `{room}` has no line in ROOMS; say first what it may know")
            continue
        for line, name in imports(source):
            if not name.startswith("glidepath.") or name == "glidepath.__version__":
                continue
            other = name.split(".")[1]
            allowed = ROOMS.get(room, ("*",))
            unknown = other != room and "*" not in allowed and other not in allowed
            if unknown or other in NEVER.get(room, ()):
                yield at(source, line, f"`{room}` must not import `{name}`")


def apart(files: Files) -> Iterable[str]:
    """The two halves of the core, and doors of one room that must not lean on each other."""
    for source in ours(files):
        for line, name in imports(source):
            for one, other in (("provision", "schedule"), ("schedule", "provision")):
                if source.module.startswith(f"glidepath.core.{one}") and name.startswith(
                    f"glidepath.core.{other}"
                ):
                    yield at(source, line, f"`core.{one}` must not import `{name}`")


def foreign_imports(files: Files) -> Iterable[str]:
    for source in ours(files):
        for line, name in imports(source):
            top = name.split(".")[0]
            if top in ("glidepath", "__future__") or top in sys.stdlib_module_names:
                continue
            if source.room not in FOREIGN.get(top, ()):
                rooms = ", ".join(f"`{room}`" for room in FOREIGN.get(top, ())) or "no room"
                yield at(source, line, f"`{top}` is imported here; it belongs to {rooms}")


def core_stays_pure(files: Files) -> Iterable[str]:
    for source in ours(files):
        if source.room != "core":
            continue
        for line, name in imports(source):
            if name.split(".")[0] in CORE_NEVER:
                yield at(source, line, f"the core must not import `{name}`; hand it the value")
        for node in ast.walk(source.tree):
            called = node.func if isinstance(node, ast.Call) else None
            if isinstance(called, ast.Name) and called.id in CORE_NEVER_CALLS:
                yield at(source, called.lineno, f"the core must not call `{called.id}`")


def pilot_stands_alone(files: Files) -> Iterable[str]:
    for source in ours(files):
        if source.name.startswith(PILOT_PARTS):
            for line, name in imports(source):
                ours_too = f"{name}.".startswith("glidepath.pilot.parts.") or name == "glidepath.__version__"
                if name.split(".")[0] not in sys.stdlib_module_names and not ours_too:
                    yield at(source, line, f"the pilot's one file imports `{name}`; it ships alone")


def long_functions(files: Files) -> Iterable[str]:
    for source in files:
        for function in functions(source):
            lines = (function.end_lineno or function.lineno) - function.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                yield at(
                    source,
                    function.lineno,
                    f"`{function.name}` has {lines} lines; at most {FUNCTION_LINES_MAX}",
                )


def long_files(files: Files) -> Iterable[str]:
    for source in files:
        lines = len(source.text.splitlines())
        if lines > FILE_LINES_MAX and source.name not in LONG_FILES:
            yield at(source, lines, f"the file has {lines} lines; at most {FILE_LINES_MAX}")


def many_positional(files: Files) -> Iterable[str]:
    for source in files:
        for function in functions(source):
            if function.name.startswith("test_"):
                continue  # Pytest hands over fixtures by name.
            names = [arg.arg for arg in (*function.args.posonlyargs, *function.args.args)]
            count = len(names) - (names[:1] in (["self"], ["cls"]))
            if count > POSITIONAL_MAX:
                yield at(
                    source,
                    function.lineno,
                    f"`{function.name}` takes {count} positional arguments; at most {POSITIONAL_MAX}, "
                    "name the rest after `*`",
                )


def words_of(name: str) -> set[str]:
    return set(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().strip("_").split("_"))


def banned_names(files: Files) -> Iterable[str]:
    for source in files:
        for word in sorted(words_of(source.path.stem) & BANNED_WORDS):
            yield at(source, 1, f"a module is named `{word}`, which says nothing")
        for node in ast.walk(source.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                    continue  # The name of a test is a sentence.
                for word in sorted(words_of(node.name) & BANNED_WORDS):
                    yield at(source, node.lineno, f"`{node.name}`: the word `{word}` says nothing")


def patches(files: Files) -> Iterable[str]:
    for source in files:
        if not source.name.startswith("tests/"):
            continue
        for line, name in imports(source):
            if name.startswith("unittest.mock") or name in ("mock", "pytest_mock"):
                yield at(source, line, f"`{name}` is not used here: if it seems needed, a door is missing")
        for node in ast.walk(source.tree):
            if isinstance(node, ast.ImportFrom) and node.module == "unittest":
                yield from (
                    at(source, node.lineno, "`unittest.mock` is not used here")
                    for alias in node.names
                    if alias.name == "mock"
                )
            if isinstance(node, ast.Attribute) and ast.unparse(node) in ("monkeypatch.setattr", "mock.patch"):
                message = f"`{ast.unparse(node)}`: hand the thing over instead of patching it"
                yield at(source, node.lineno, message)


def unfinished() -> Iterable[str]:
    paths = [ROOT / name for name in ROOT_FILES if (ROOT / name).is_file()]
    for folder in TEXT_FOLDERS:
        paths += [path for path in (ROOT / folder).rglob("*") if path.suffix in TEXT_ENDINGS]
    for path in sorted(set(paths)):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            if found := UNFINISHED.search(line):
                where = f"{path.relative_to(ROOT)}:{number}"
                yield f"{where}: error: `{found[0]}` without an issue; do it or drop it"


def missing_docstrings(files: Files) -> Iterable[str]:
    for source in files:
        due = source.name.startswith(("src/", "bench/", "bed/")) or source.path.stem == "__init__"
        if due and not ast.get_docstring(source.tree):
            yield at(source, 1, "the module does not say what comes in, what goes out, what it refuses")


def endless_loops(files: Files) -> Iterable[str]:
    for source in files:
        commented = comments(source)
        for node in ast.walk(source.tree):
            if not isinstance(node, ast.While) or not isinstance(node.test, ast.Constant):
                continue
            told = commented & set(range(node.lineno - 1, (node.end_lineno or node.lineno) + 1))
            compared = [part for part in ast.walk(node) if isinstance(part, ast.Compare)]
            names = [n.id for part in compared for n in ast.walk(part) if isinstance(n, ast.Name)]
            if not told and not any(BOUND_WORDS.search(name) for name in names):
                yield at(source, node.lineno, "an endless loop without a bound or a word on why it ends")


def shells(files: Files) -> Iterable[str]:
    for source in files:
        for node in ast.walk(source.tree):
            if not isinstance(node, ast.Call):
                continue
            if any(
                keyword.arg == "shell"
                and not (isinstance(keyword.value, ast.Constant) and keyword.value.value is False)
                for keyword in node.keywords
            ):
                yield at(source, node.lineno, "`shell=` turns words into commands; pass a list")
            called = ast.unparse(node.func)
            if called in ("os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput"):
                yield at(source, node.lineno, f"`{called}` goes through a shell; pass a list")


def future_annotations(files: Files) -> Iterable[str]:
    for source in ours(files):
        if source.name.startswith(PILOT_PARTS):
            continue  # The pilot runs on interpreters that do not know it.
        named = any(isinstance(n, ast.ImportFrom) and n.module == "__future__" for n in source.tree.body)
        if not named and any(True for _ in functions(source)):
            yield at(source, 1, "`from __future__ import annotations` is missing")


Rule = Callable[[Files], Iterable[str]]
RULES: tuple[Rule, ...] = (
    own_imports,
    apart,
    foreign_imports,
    core_stays_pure,
    pilot_stands_alone,
    long_functions,
    long_files,
    many_positional,
    banned_names,
    patches,
    missing_docstrings,
    endless_loops,
    shells,
    future_annotations,
)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_house_is_tidy(rule: Rule) -> None:
    findings = list(rule(sources()))
    assert not findings, "\n" + "\n".join(findings)


def test_nothing_is_left_half_done() -> None:
    findings = list(unfinished())
    assert not findings, "\n" + "\n".join(findings)


def test_an_exception_is_still_needed() -> None:
    for name in sorted(LONG_FILES):
        lines = len((ROOT / name).read_text(encoding="utf-8").splitlines())
        assert lines > FILE_LINES_MAX, f"{name}:1: error: no longer too long; take it out of LONG_FILES"


@pytest.mark.parametrize(
    ("name", "text", "rule"),
    [
        ("src/glidepath/core/odd.py", "import glidepath.loop", own_imports),
        ("src/glidepath/backends/odd.py", "from glidepath.provisioner import Doors", own_imports),
        ("src/glidepath/odd/new.py", "", own_imports),
        ("src/glidepath/cli/odd.py", "import glidepath.backends.local", own_imports),
        ("src/glidepath/core/schedule/odd.py", "import glidepath.core.provision.memory", apart),
        ("src/glidepath/core/odd.py", "import sqlalchemy", foreign_imports),
        ("src/glidepath/store/odd.py", "from rich import table", foreign_imports),
        ("src/glidepath/core/odd.py", "def f():\n    import time", core_stays_pure),
        ("src/glidepath/core/odd.py", "open('x')", core_stays_pure),
        ("src/glidepath/pilot/parts/odd.py", "import glidepath.pilot.remains", pilot_stands_alone),
        ("src/glidepath/pilot/parts/odd.py", "import attrs", pilot_stands_alone),
        ("tests/odd.py", "def f():\n" + "    a = 1\n" * FUNCTION_LINES_MAX, long_functions),
        ("tests/odd.py", "x = 1\n" * (FILE_LINES_MAX + 1), long_files),
        ("tests/odd.py", "class A:\n    def f(self, a, b, c, d, e): ...", many_positional),
        ("tests/odd.py", "def handle_it(): ...", banned_names),
        ("tests/odd.py", "class TaskManager: ...", banned_names),
        ("src/glidepath/core/utils.py", "", banned_names),
        ("tests/odd.py", "from unittest.mock import patch", patches),
        ("tests/odd.py", "def test(monkeypatch):\n    monkeypatch.setattr(a, 'b', 1)", patches),
        ("src/glidepath/core/odd.py", "x = 1", missing_docstrings),
        ("tests/odd.py", "def f():\n    while True:\n        g()", endless_loops),
        ("tests/odd.py", "import subprocess\nsubprocess.run('x', shell=True)", shells),
        ("tests/odd.py", "import os\nos.system('x')", shells),
        ("src/glidepath/core/odd.py", "import ast\ndef f(): ...", future_annotations),
    ],
)
def test_each_rule_bites(name: str, text: str, rule: Rule) -> None:
    found = list(rule([Source(ROOT / name, name, text, ast.parse(text))]))
    assert found
    assert re.match(rf"{re.escape(name)}:\d+: error: ", found[0])


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("def f(self, a, b, *, c, d, e, g): ...", many_positional),
        ("class Database:\n    def informed(self): ...", banned_names),
        ("def f(until):\n    while True:\n        if now() > until: return", endless_loops),
        ("# Ends with the connection.\nwhile True:\n    g()", endless_loops),
        ("import subprocess\nsubprocess.run(['x'], shell=False)", shells),
    ],
)
def test_no_rule_bites_without_cause(text: str, rule: Rule) -> None:
    assert not list(rule([Source(ROOT / "tests/odd.py", "tests/odd.py", text, ast.parse(text))]))
