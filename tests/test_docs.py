"""The documents say what the program does: pages are compared with the code, and their commands are run.

A page's ```console blocks run in order in one fresh home. `background` after the word starts a program that
goes on, `ctrl-c` ends it, `kill-9` kills it. A ```toml block that begins with `# file: NAME` is a file.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from glidepath.cli.main import commands
from glidepath.cli.reference import page as commands_page
from glidepath.config import reference as configuration_page
from glidepath.config.page import TABLES
from glidepath.core.because import Because
from glidepath.core.provision.pilot import PilotPhase

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])

COMMAND_S_MAX = 60
PAGE_S_MAX = 240
PAGES_AT_ONCE = 3
# What a page shows is sometimes true only after the next cycle; readers are asked again until then.
SETTLE_S_MAX = 15.0
POLL_S = 0.3
START_S_MAX = 15.0
STOP_S_MAX = 20.0
READERS = re.compile(
    r"glidepath (explain|demand|pool status|(job|site|pilot|journal) (list|show|status|logs))\b"
)
EXIT = re.compile(r"\s+# exit (\d+)\s*$")
FENCE = re.compile(r"^```(?P<words>[a-z][^\n]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Step:
    """One command of a page, the code it must end with and the lines it must print among others."""

    command: str
    code: int = 0
    lines: tuple[str, ...] = ()


@dataclass
class Block:
    kind: str  # console, background, ctrl-c, kill-9 or file
    steps: list[Step] = field(default_factory=list)
    name: str = ""
    body: str = ""


def blocks_of(text: str) -> Iterator[Block]:
    for fence in FENCE.finditer(text):
        words, body = fence["words"].split(), fence["body"]
        if words[0] == "toml" and (named := re.match(r"# file: (\S+)\n", body)):
            yield Block("file", name=named[1], body=body)
        elif words[0] == "console":
            yield Block(words[1] if len(words) > 1 else "console", list(steps_of(body)))


def steps_of(body: str) -> Iterator[Step]:
    parts = re.split(r"^\$ ", body, flags=re.MULTILINE)
    if parts[0].strip():
        yield Step("", lines=sure_lines(parts[0]))
    for part in parts[1:]:
        command, _, output = part.partition("\n")
        found = EXIT.search(command)
        yield Step(EXIT.sub("", command), int(found[1]) if found else 0, sure_lines(output))


def sure_lines(text: str) -> tuple[str, ...]:
    """Lines that are the same on every machine: no numbers, names of pilots or times, nothing left out."""
    lines = [" ".join(line.split()) for line in text.splitlines()]
    return tuple(line for line in lines if line and not re.search(r"\d|\.\.\.", line))


def said(text: str, lines: tuple[str, ...]) -> list[str]:
    """The lines that the text does not have."""
    there = {" ".join(line.split()) for line in text.splitlines()}
    return [line for line in lines if line not in there]


class Reader:
    """A person who follows one page in a fresh home of their own."""

    def __init__(self, folder: Path) -> None:
        self.work = folder / "work"
        self.home = folder / "home"
        self.work.mkdir()
        kept = {key: os.environ[key] for key in ("LANG", "TMPDIR", "USER", "LOGNAME") if key in os.environ}
        self.env = {
            **kept,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(folder),
            "GLIDEPATH_HOME": str(self.home),
            "NO_COLOR": "1",
        }
        self.running: subprocess.Popen[bytes] | None = None
        self.log = folder / "background.log"

    def follow(self, block: Block) -> None:
        if block.kind == "file":
            (self.work / block.name).write_text(block.body, encoding="utf-8")
        elif block.kind == "background":
            self.start(block.steps[0])
        elif block.kind == "ctrl-c":
            self.stop(block.steps[0].lines if block.steps else ())
        elif block.kind == "kill-9":
            self.kill()
        else:
            for step in block.steps:
                self.do(step)

    def do(self, step: Step) -> None:
        until = time.monotonic() + SETTLE_S_MAX
        code, text = self.run(step.command)
        while (said(text, step.lines) or code != step.code) and READERS.search(step.command):
            if time.monotonic() > until:
                break
            time.sleep(POLL_S)
            code, text = self.run(step.command)
        missing = said(text, step.lines)
        assert code == step.code, f"`{step.command}` ended with {code}, not {step.code}:\n{text}"
        assert not missing, f"`{step.command}` does not print {missing}:\n{text}"

    def run(self, command: str) -> tuple[int, str]:
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=self.work,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=COMMAND_S_MAX,
            check=False,
        )
        return done.returncode, done.stdout.decode("utf-8", "replace")

    def start(self, step: Step) -> None:
        assert self.running is None, "one program in the background is enough for a page"
        with self.log.open("wb") as log:
            self.running = subprocess.Popen(
                ["sh", "-c", f"exec {step.command}"],
                cwd=self.work,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.wait_for(step.lines)

    def wait_for(self, lines: tuple[str, ...]) -> None:
        until = time.monotonic() + START_S_MAX
        socket = self.home / "status.sock"
        while not socket.exists() or said(self.log.read_text(errors="replace"), lines):
            alive = self.running is not None and self.running.poll() is None
            assert alive, f"it ended early:\n{self.log.read_text(errors='replace')}"
            assert time.monotonic() < until, f"it does not start:\n{self.log.read_text(errors='replace')}"
            time.sleep(POLL_S)

    def stop(self, lines: tuple[str, ...]) -> None:
        assert self.running is not None, "nothing runs in the background"
        self.running.send_signal(signal.SIGINT)
        code = self.running.wait(STOP_S_MAX)
        self.running = None
        text = self.log.read_text(errors="replace")
        assert code == 0, f"after Ctrl-C it ended with {code}:\n{text}"
        assert not said(text, lines), f"after Ctrl-C it does not say {said(text, lines)}:\n{text}"

    def kill(self) -> None:
        assert self.running is not None, "nothing runs in the background"
        self.running.kill()
        self.running.wait(STOP_S_MAX)
        self.running = None
        # Left behind by the killed one; the next is there when it has made its own.
        (self.home / "status.sock").unlink(missing_ok=True)

    def leave(self) -> None:
        """Whatever a page did, nothing of it goes on."""
        if self.running is not None:
            self.running.send_signal(signal.SIGINT)
            try:
                self.running.wait(STOP_S_MAX)
            except subprocess.TimeoutExpired:
                self.running.kill()
                self.running.wait(STOP_S_MAX)
        for lock in self.home.glob("pilots/*/lock"):
            number = lock.read_text().split()[:1]
            if number and Path(f"/proc/{number[0]}/cmdline").exists():
                os.kill(int(number[0]), signal.SIGKILL)


def follow(path: Path) -> None:
    """All of one page, by a person who leaves nothing behind."""
    # Not `tmp_path`: its long names leave no room for the path of a socket.
    folder = Path(tempfile.mkdtemp(prefix="gp-docs-"))
    reader = Reader(folder)
    try:
        for block in blocks_of(path.read_text(encoding="utf-8")):
            reader.follow(block)
    finally:
        reader.leave()
        shutil.rmtree(folder, ignore_errors=True)


def pages_with_commands() -> list[Path]:
    found = []
    for path in PAGES:
        kinds = {block.kind for block in blocks_of(path.read_text(encoding="utf-8"))}
        if kinds - {"file"}:
            found.append(path)
    return found


@pytest.fixture(scope="module")
def followed(request: pytest.FixtureRequest) -> Iterator[dict[Path, Future[None]]]:
    """The chosen pages, a few at once: most of their time is waiting."""
    items = [item for item in request.session.items if isinstance(item, pytest.Function)]
    chosen = {
        item.callspec.params["path"]
        for item in items
        if item.originalname == test_the_commands_of_a_page_do_what_it_shows.__name__
    }
    with ThreadPoolExecutor(PAGES_AT_ONCE) as pool:
        # The longest first, so that it does not come last and alone.
        yield {path: pool.submit(follow, path) for path in sorted(chosen, key=_length, reverse=True)}


def _length(path: Path) -> int:
    return path.read_text(encoding="utf-8").count("\n$ ")


@pytest.mark.parametrize("path", pages_with_commands(), ids=lambda path: str(path.relative_to(ROOT)))
def test_the_commands_of_a_page_do_what_it_shows(path: Path, followed: dict[Path, Future[None]]) -> None:
    followed[path].result(timeout=PAGE_S_MAX)


@pytest.mark.parametrize(
    ("page", "complaint"),
    [
        ("```console\n$ echo here\nthere\n```", "does not print"),
        ("```console\n$ false\n```", "ended with 1, not 0"),
        ("```console\n$ true  # exit 2\n```", "ended with 0, not 2"),
        ("```console background\n$ glidepath up --config nowhere.toml\n```", "it ended early"),
        ("```console ctrl-c\n```", "nothing runs"),
    ],
)
def test_a_page_that_is_wrong_is_caught(page: str, complaint: str, tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text(page + "\n")
    with pytest.raises(AssertionError, match=complaint):
        follow(path)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path: Path) -> None:
    text = FENCE.sub("", path.read_text(encoding="utf-8"))
    targets = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text)
    lost = [t for t in targets if not re.match(r"[a-z]+:", t) and not (path.parent / t).exists()]
    assert not lost, f"{path.relative_to(ROOT)}: these lead nowhere: {lost}"


def test_every_page_is_reached_from_the_first_one() -> None:
    text = (DOCS / "README.md").read_text(encoding="utf-8")
    unnamed = [
        name
        for path in DOCS.rglob("*.md")
        if (name := str(path.relative_to(DOCS))) not in ("README.md",) and f"({name})" not in text
    ]
    assert not unnamed, f"docs/README.md does not name {unnamed}"


def test_every_reason_is_explained_with_its_sentence() -> None:
    text = (DOCS / "reference/reasons.md").read_text(encoding="utf-8")
    parts = re.split(r"^### `(\w+)`\n", text, flags=re.MULTILINE)
    told = dict(zip(parts[1::2], parts[2::2], strict=True))
    assert sorted(told) == sorted(reason.name for reason in Because)
    for reason in Because:
        part = " ".join(told[reason.name].split())
        assert f"> {reason.value}" in part, f"{reason.name}: the page has another sentence"
        assert "**Means:**" in part, f"{reason.name}: the page does not say what it means"
        assert "**Do:**" in part, f"{reason.name}: the page does not say what to do"


def test_every_phase_of_a_pilot_is_in_the_glossary() -> None:
    text = (DOCS / "glossary.md").read_text(encoding="utf-8")
    assert not [phase.value for phase in PilotPhase if f"`{phase.value}`" not in text]


def test_the_glossary_has_one_meaning_for_a_word() -> None:
    text = (DOCS / "glossary.md").read_text(encoding="utf-8")
    words = re.findall(r"^\| \*\*(.+?)\*\* \|", text, flags=re.MULTILINE)
    assert len(words) > 50
    assert not {word for word in words if words.count(word) > 1}
    assert words == sorted(words, key=str.lower)


def test_every_setting_is_described_in_the_reference() -> None:
    text = configuration_page()
    for title, table in TABLES:
        for key, setting in table.model_fields.items():
            assert setting.description, f"`{key}` of {title} has no description"
            if key not in ("own", "numbers"):
                assert f"`{key}`" in text, f"`{key}` of {title} is not in the reference"


def test_every_command_is_in_the_reference() -> None:
    text = commands_page()
    for noun, verb, summary in commands():
        assert f"glidepath {noun} {verb}".strip() in text
        assert summary in text


@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("configuration.md", configuration_page),
        ("commands.md", commands_page),
    ],
)
def test_a_generated_page_is_up_to_date(name: str, made: object) -> None:
    path = DOCS / "reference" / name
    assert path.exists(), f"docs/reference/{name} is not there; run `make docs`"
    assert callable(made)
    assert path.read_text(encoding="utf-8") == made(), f"docs/reference/{name} is old; run `make docs`"


def claims() -> list[tuple[str, str]]:
    """Every proof that requirements.md names: a file and, for tests, the name in it."""
    text = (DOCS / "requirements.md").read_text(encoding="utf-8")
    tests = re.findall(r"`((?:tests|src/glidepath/conformance)/[\w/]+\.py)(?:::(\w+))?`", text)
    return tests + [(name, "") for name in re.findall(r"`(bench/\w+\.py)`", text)]


def test_every_promise_names_a_proof_that_exists() -> None:
    wrong = []
    for name, test in claims():
        path = ROOT / name
        if not path.exists():
            wrong.append(f"there is no {name}")
        elif test and not re.search(rf"^\s*(async )?def {test}\(", path.read_text("utf-8"), re.MULTILINE):
            wrong.append(f"{name} has no {test}")
    assert not wrong, "\n" + "\n".join(wrong)


def test_no_promise_is_without_a_proof() -> None:
    text = (DOCS / "requirements.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith("| promise")]
    assert len(rows) > 50
    bare = [
        row for row in rows if "(missing)" in row or not re.search(r"`(tests|src|bench|\.ci|Makefile)", row)
    ]
    assert not bare, "\n" + "\n".join(bare)


def test_decisions_are_numbered_and_say_why_not() -> None:
    paths = sorted((DOCS / "decisions").glob("*.md"))
    assert [path.name[:4] for path in paths] == [f"{n:04d}" for n in range(1, len(paths) + 1)]
    for path in paths:
        text = path.read_text(encoding="utf-8")
        for title in ("## Context", "## Decision", "## Why not the next best"):
            assert title in text, f"{path.name} has no `{title}`"


@pytest.mark.parametrize("word", ["`make run`", "`make test`", "Apache-2.0", "docs/pictures/flow.svg"])
def test_the_readme_names_what_a_newcomer_needs(word: str) -> None:
    assert word in (ROOT / "README.md").read_text(encoding="utf-8")
