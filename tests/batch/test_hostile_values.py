"""Ten thousand random and hostile values for each dialect: whatever is taken stays one word of one option;
what is not, is refused with a sentence. No value makes a line, an option or a file.
"""

from __future__ import annotations

import random
import shlex
import subprocess
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from glidepath.batch.dialects import DIALECTS
from glidepath.batch.lines import ENTRIES, OPTIONS
from glidepath.batch.script import Made, Site, made
from glidepath.batch.settings import SETTINGS, BatchSettings
from glidepath.core.provision.pilot import PilotSpec
from glidepath.core.quantity import Instant, OfferKey, Owner, PilotName, PoolName, Resources, SiteName
from glidepath.remote.words import safe_path, safe_word

VALUES = 10_000
SEED = 20260
PLAIN = "Pl4ceh0lder"
TOOL_S = 60
FIELDS = (
    *("queue", "account", "qos", "memory_form", "nodes_form", "parallel", "gpu_type", "gpu_form", "python"),
    *("folder", "options", "setup", "avoid", "name", "pool", "trait", "secret"),
)
WORDS = ("a100", "long", "n1.west", "x_y", "u@h", "16gb", "smp-8", "gpu:2", "7", "A.b-c/d", "hep+cms", PLAIN)
BAD = (
    *(
        "\n",
        "\r",
        "\0",
        "\t",
        " ",
        "'",
        '"',
        "`",
        "$",
        "\\",
        ";",
        "&",
        "|",
        "<",
        ">",
        "(",
        ")",
        "{",
        "}",
        "*",
    ),
    *(
        "?",
        "[",
        "]",
        "!",
        "#",
        "~",
        "^",
        "%",
        ",",
        "=",
        "-",
        "--",
        "\u2028",
        "\x85",
        "\x1b[2J",
        "\u202e",
        "ü",
    ),
    *("$(id)", "`id`", "${IFS}", "&& id", "; id", "| id", "> /tmp/x", "\n#SBATCH --wrap=id", "\nqueue\n"),
    *("\n#$ -S /bin/id", "\n#PBS -v A=B", "-oProxyCommand=id", "--wrap=id", "../..", "/../", "%n", "%(x)s"),
    *("EOF\n", "@=end", "$ENV(HOME)", "$(DOLLAR)", "{folder}", "{0}", "\\\n", "'\"'\"'", " -l h_rt=1", ",1"),
)
SETUP = ("module load ", "module use /", "source /", "export A=", "ulimit -n ", ". /", "ml ", "export PATH=")


def spec_of(name: str = "gp-1-1", **more: Any) -> PilotSpec:
    told: dict[str, Any] = {
        "name": PilotName(name),
        "site": SiteName("west"),
        "offer": OfferKey("west/small"),
        "pool": PoolName("campus"),
        "size": Resources(4000, 8000, 1000, 1),
        "traits": (("arch", "x86_64"),),
        "lifetime_s": 7200,
        "idle_s": 600,
        "owner": Owner("me"),
        "asked_at": Instant(1000),
        "join": (("GLIDEPATH_COLLECTOR", "pool.example"), ("GLIDEPATH_POOL_KIND", "condor")),
        "secrets": (("campus.token", "a secret"),),
    }
    return PilotSpec(**{**told, **more})


def settings_of(kind: str, **more: Any) -> BatchSettings:
    return SETTINGS[kind].model_validate({"folder": "/scratch/gp", **more})


def rendered(kind: str, field: str, value: str) -> Made:
    """A job in which the value stands where it may come from; raises ValueError where it is refused."""
    own: dict[str, Any] = {}
    spec: dict[str, Any] = {}
    if field in ("options", "setup"):
        own[field] = [value]
    elif field == "avoid":
        spec["avoid"] = (value,)
    elif field == "trait":
        spec["traits"] = (("arch", value),)
    elif field == "secret":
        spec["secrets"] = ((value, "a secret"),)
    elif field in ("name", "pool"):
        spec[field] = value
    else:
        own[field] = f"/scratch/{value}" if field == "folder" else value
    settings = settings_of(kind, **own)
    site = Site(safe_path(f"{settings.folder}/west", "the folder"), "mark")
    return made(spec_of(**spec), settings.job("small"), DIALECTS[kind], site)


def values(kind: str) -> Iterator[tuple[str, str]]:
    """Fields and texts: plain ones, plain ones with something in them, and noise."""
    chance = random.Random(f"{SEED}-{kind}")
    names = sorted(ENTRIES if kind == "htcondor" else OPTIONS[kind])
    for number in range(VALUES):
        field = FIELDS[number % len(FIELDS)]
        text = chance.choice(WORDS) if chance.random() < 0.6 else noise(chance)
        for _ in range(chance.choice((0, 0, 1, 1, 2))):
            at = chance.randrange(len(text) + 1)
            text = text[:at] + chance.choice(BAD) + text[at:]
        if field == "options":
            name = chance.choice(names)
            between = " = " if kind == "htcondor" else "=" if name.startswith("--") else " "
            text = f"{name}{between}{text}" if chance.random() < 0.8 else text
        elif field == "setup":
            text = chance.choice(SETUP) + text
        elif field == "name":
            text = text.lower()
        yield field, text


def noise(chance: random.Random) -> str:
    letters = (chr(chance.choice((chance.randrange(32, 127), chance.randrange(0x3000)))) for _ in range(9))
    return "".join(letters)[: chance.randrange(1, 10)] * chance.choice((1, 1, 1, 40))


@lru_cache
def taken(kind: str) -> tuple[tuple[str, str, Made], ...]:
    """All that were not refused; a refusal is a sentence for people on one line."""
    found = []
    for field, text in values(kind):
        try:
            found.append((field, text, rendered(kind, field, text)))
        except ValueError as error:
            told = error.errors()[0]["msg"] if hasattr(error, "errors") else str(error)
            assert told
            assert told.isprintable(), told
    return tuple(found)


KINDS = pytest.mark.parametrize("kind", sorted(DIALECTS))


def everything(job: Made) -> list[str]:
    """Words and files of a job, one by one."""
    return [*job.words.argv, *(f"{file.name}\n{file.content}" for file in job.files)]


@KINDS
def test_what_is_taken_changes_nothing_but_its_own_place(kind: str) -> None:
    plain: dict[str, list[str]] = {}
    for field, text, job in taken(kind):
        if field in ("options", "setup"):
            continue
        if field not in plain:
            plain[field] = everything(rendered(kind, field, PLAIN.lower() if field == "name" else PLAIN))
        found = everything(job)
        stands = PLAIN.lower() if field == "name" else PLAIN
        expected = [each.replace(stands, text) for each in plain[field]]
        if field == "avoid" and not is_word(text):
            # What is no name of a node is not sent back to the site.
            expected = everything(rendered(kind, "queue" if kind != "htcondor" else "account", ""))
        if field == "trait":
            # Of what a pilot was asked for a digest is kept too.
            found, expected = (undigested(each) for each in (found, expected))
        if field in ("name", "pool"):
            found, expected = (undigested(each) for each in (found, expected))
        assert found == expected, (field, text)


def undigested(texts: list[str]) -> list[str]:
    return [text for text in texts if not text.startswith("asked\n")]


def is_word(text: str) -> bool:
    try:
        safe_word(text, "a node")
    except ValueError:
        return False
    return True


@KINDS
def test_an_option_is_one_option_and_a_line_one_line(kind: str) -> None:
    none = made_plain(kind)
    count = 0
    for field, text, job in taken(kind):
        assert "\n" not in "".join(job.words.argv)
        if field == "options" and kind == "htcondor":
            lines, usual = job.words.given.split("\n"), none.words.given.split("\n")
            ours = text.partition("=")[0].strip().lower() == "periodic_remove"
            assert len(lines) == len(usual) + (0 if ours else 1)
            assert ours or lines.count(text) == 1
            # What must hold is said last.
            assert [line for line in lines if not line.startswith("periodic_remove")][-3:] == [
                line for line in usual if not line.startswith("periodic_remove")
            ][-3:]
            count += 1
        elif field == "options":
            words = [text] if text.startswith("--") else text.split(" ", 1)
            assert set(words[0].split("=")[:1]) <= OPTIONS[kind]
            assert len(job.words.argv) == len(none.words.argv) + len(words)
            assert [word for word in job.words.argv if word in words][-len(words) :] == words
            count += 1
        elif field == "setup":
            lines, usual = (scripts_of(each)[-1].split("\n") for each in (job, none))
            assert len(lines) == len(usual) + 1
            assert lines.count(text) == 1
            count += 1
    assert count > 50  # Or the test would prove nothing.


def made_plain(kind: str) -> Made:
    site = Site(safe_path("/scratch/gp/west", "the folder"), "mark")
    return made(spec_of(), settings_of(kind).job("small"), DIALECTS[kind], site)


def scripts_of(job: Made) -> list[str]:
    """The last of them is the one that starts the pilots."""
    told = dict_of(job)
    return [told[name] for name in ("job", "start", "node") if name in told]


def dict_of(job: Made) -> dict[str, str]:
    return {file.name: file.content for file in job.files}


@KINDS
def test_no_value_makes_a_file(kind: str) -> None:
    names = {name for name in dict_of(made_plain(kind)) if "/" not in name}
    for field, text, job in taken(kind):
        pilot = text if field == "name" else "gp-1-1"
        secret = text if field == "secret" else "campus.token"
        assert {file.name for file in job.files} == {
            *names,
            f"{pilot}/settings.json",
            f"{pilot}/tokens.d/{secret}",
        }
        assert not {"..", ".", ""} & {part for file in job.files for part in file.name.split("/")}
        assert dict_of(job)["words"].count("\n") == dict_of(made_plain(kind))["words"].count("\n")


@KINDS
def test_a_shell_hands_every_word_on_as_it_is(kind: str, tmp_path: Path) -> None:
    jobs = {job.words.argv: field for field, _, job in taken(kind)}
    lines = [shlex.join(("stub", *argv)) for argv in jobs]
    # Words of a checked type need no quoting at all; options that a person wrote do.
    odd = set("&|()*<>!;'")
    bare = [argv for argv, field in jobs.items() if field != "options" and not odd & set("".join(argv))]
    lines += [" ".join(("stub", *argv)) for argv in bare]
    script = tmp_path / "all.sh"
    script.write_text("stub() { printf '%s\\0' \"$@\"; printf '\\1'; }\n" + "\n".join(lines) + "\n")
    words = ["bash", str(script)]
    done = subprocess.run(words, capture_output=True, timeout=TOOL_S, check=True, cwd=tmp_path)
    assert done.stderr == b""
    found = [tuple(each.split("\0")[:-1]) for each in done.stdout.decode().split("\1")[:-1]]
    assert found == [*jobs, *bare]
    assert len(jobs) >= (1 if kind == "htcondor" else 100)
    assert [each.name for each in tmp_path.iterdir()] == ["all.sh"]


@KINDS
def test_every_script_is_one_that_shells_read(kind: str, tmp_path: Path) -> None:
    texts = {text for _, _, job in taken(kind) for text in scripts_of(job)}
    assert len(texts) > 100
    script = tmp_path / "all.sh"
    bodies = (f"f{number}() {{\n{text}\n}}" for number, text in enumerate(sorted(texts)))
    script.write_text("\n".join(bodies) + "\n", encoding="utf-8")
    for shell in ("bash", "sh"):
        done = subprocess.run([shell, "-n", str(script)], capture_output=True, timeout=TOOL_S, check=False)
        assert (done.returncode, done.stderr) == (0, b"")
