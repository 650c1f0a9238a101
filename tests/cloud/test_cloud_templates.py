"""What fills a template: no value adds a word, an option, a line, a part of a path or a key."""

from __future__ import annotations

import json
import random
import shlex
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from cloud.cloud_builders import TOKEN, backend_of, by_command, by_rest, spec
from cloud.queue_service import KEY
from glidepath.cloud.places import (
    FORMS,
    OF_JOB,
    OF_PILOT,
    check_body,
    check_template,
    filled_body,
    filled_path,
    filled_words,
)

HOSTILE = 10_000
PIECES = [
    *("-rf", "--name=x", "-", "--", " ", "\t", "\n", "\r\n", "\0", "\x1b[2J", "\x85", "\u2028", "\u202e"),
    *("$(reboot)", "`reboot`", "${HOME}", "; reboot", "| sh", "&& sh", "> /etc/passwd", "*", "?", "~", "!!"),
    *("'", '"', "\\", "''", '"""', "{", "}", "{key}", "{token}", "{{", "}}", "%00", "%2f", "%n", "../", "/"),
    *(
        "a",
        "A100",
        "gp-1",
        "west",
        "16",
        "0",
        "x" * 300,
        "\ud800",
        "é",
        "漢字",
        "ａ",
        "١٢",
        "\ufeff",
        ",",
        ":",
    ),
    *('"}, "admin": true, "x": {"', "]", "[", "#", "?x=1", "&y=2", "=", "@", "http://evil/", "NaN", "1e9"),
]


def hostile() -> list[str]:
    chance = random.Random(8)
    found = ["", *PIECES]
    while len(found) < HOSTILE:
        found.append("".join(chance.choice(PIECES) for _ in range(chance.randint(1, 4))))
    return found


WORDS = (
    *("lcli", "{name}", "--image={image}", "--gpu={gpu_type}", "cores:{cpus},{memory_gb}", "{id}"),
    *("{collector}", "{file}", "{{literal}}"),
)
PLACES = ("name", "image", "gpu_type", "cpus", "memory_gb", "id", "collector", "file")
GOOD = {
    "name": "gp-1",
    "image": "a/b:1",
    "gpu_type": "A100",
    "cpus": "4",
    "memory_gb": "8",
    "id": "J1",
    "collector": "cm.example:9618",
    "file": "/tmp/x.pyz",
}


def test_ten_thousand_values_make_as_many_words_as_there_were_and_no_option() -> None:
    taken, refused = [], []
    for number, value in enumerate(hostile()):
        place = PLACES[number % len(PLACES)]
        try:
            words = filled_words(WORDS, {**GOOD, place: value})
        except ValueError as error:
            refused.append(str(error))
            continue
        assert len(words) == len(WORDS)
        options = [word for word in words if word.startswith("-")]
        assert [option.partition("=")[0] for option in options] == ["--image", "--gpu"]
        assert all(word.isprintable() for word in words), value
        taken.append(words)
    assert len(taken) > 100
    assert all(why.isprintable() for why in refused)
    # A program prints its words as it got them.
    for words in taken[:: len(taken) // 100]:
        stub = subprocess.run(["printf", "%s\\0", *words[1:]], capture_output=True, check=True)
        assert stub.stdout.decode().split("\0")[:-1] == words[1:]
        shell = subprocess.run(
            ["sh", "-c", f"printf '%s\\0' {shlex.join(words[1:])}"], capture_output=True, check=True
        )
        assert shell.stdout == stub.stdout


def test_ten_thousand_values_stay_one_part_of_a_path_or_one_value_of_a_query() -> None:
    template = "/jobs/{id}/of/{gpu_type}?pool={pilot}&x={site}"
    good = {"id": "J1", "gpu_type": "A100", "pilot": "gp-1", "site": "west"}
    taken = 0
    for number, value in enumerate(hostile()):
        place = ("id", "gpu_type", "pilot", "site")[number % 4]
        try:
            made = filled_path(template, {**good, place: value})
        except (ValueError, UnicodeEncodeError):
            continue
        taken += 1
        at = urlsplit(made)
        assert made.isascii()
        assert made.isprintable()
        assert (len(at.path.split("/")), set(parse_qs(at.query)), at.fragment) == (5, {"pool", "x"}, "")
    assert taken > 100


def test_ten_thousand_values_change_no_key_and_no_kind_of_a_document() -> None:
    template = {
        "name": "{name}",
        "box": {"cpus": "{cpus}", "gpu": ["{gpu_type}", "{cpus:text}"]},
        "keep": True,
    }
    taken = 0
    for number, value in enumerate(hostile()):
        place = ("name", "cpus", "gpu_type")[number % 3]
        try:
            made = filled_body(template, {"name": "gp-1", "cpus": "4", "gpu_type": "A100", place: value})
        except ValueError:
            continue
        taken += 1
        read = json.loads(json.dumps(made))
        assert read == made
        assert (set(read), set(read["box"]), len(read["box"]["gpu"])) == (
            {"name", "box", "keep"},
            {"cpus", "gpu"},
            2,
        )
        assert isinstance(read["box"]["cpus"], int)
        assert read["keep"] is True
    assert taken > 100


@pytest.mark.parametrize("place", sorted(FORMS))
def test_every_place_refuses_nothing_at_all(place: str) -> None:
    with pytest.raises(ValueError):
        filled_words((f"x{{{place}}}",), {})


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("{nmae}", "did you mean `{name}`"),
        ("{key}", "would be seen by everybody"),
        ("--token={token}", "would be seen by everybody"),
        ("{bundle}", "would be seen by everybody"),
        ("{id}", "is not known then"),
        ("{gpu_type}", "must not begin a word; write `--option={gpu_type}`"),
        ("{}", "names no place"),
        ("{name!r}", "is written `{name}`"),
        ("{name:>9}", "is written `{name}`"),
        ("{name.x}", "is no place"),
        ("{name[0]}", "is no place"),
        ("{", "stands for a brace"),
        ("two\nlines", "one line of printable text"),
    ],
)
def test_a_template_says_what_is_wrong_with_it(template: str, words: str) -> None:
    with pytest.raises(ValueError) as caught:
        check_template(template, OF_PILOT, word=True)
    assert words in str(caught.value)


def test_a_body_is_a_document_of_bounded_depth() -> None:
    deep: Any = "x"
    for _ in range(20):
        deep = [deep]
    for bad in (deep, {"a": "{nmae}"}, {"a": [object()]}):
        with pytest.raises(ValueError):
            check_body(bad, OF_JOB)
    check_body({"a": [1, 2.5, True, "{id}", {"b": "{pilot}"}]}, OF_JOB)


def test_what_would_be_sent_by_a_command_is_shown_without_secrets(tmp_path: Path) -> None:
    cloud = backend_of(by_command("http://127.0.0.1:1", env={"POOL_TOKEN": "{token}"}), tmp_path)
    first, *rest = cloud.render(spec()).splitlines()
    words = shlex.split(first)
    assert words[:3] == ["LANCIUM_API_KEY=<key>", "LCLI_URL=http://127.0.0.1:1", "POOL_TOKEN=<token>"]
    assert words[-6:] == ["--input-file", "/gp-1.pyz", "--mem", "32", "--cores", "16"]
    assert rest[-1].startswith("--kind=condor --name=gp-1 --pool=pool --cpus-milli=16000 --memory-mib=32768")
    assert not any(secret in first for secret in (KEY, TOKEN))
    assert list(tmp_path.iterdir()) == []


def test_what_would_be_sent_to_an_api_is_shown_without_secrets(tmp_path: Path) -> None:
    text = backend_of(by_rest("https://cloud.example/v1"), tmp_path).render(spec())
    head, _, rest = text.partition("\n\n")
    assert head.splitlines() == ["POST https://cloud.example/v1/jobs", "Authorization: Bearer <key>"]
    body, _, _ = rest.partition("\n\n#")
    found = json.loads(body)
    assert (found["cpus"], found["memory_gb"], found["files"]) == (16, 32, {"pilot.pyz": "<bundle>"})
    assert found["name"].startswith("gp-1_g1")
    assert not any(secret in text for secret in (KEY, TOKEN))
    assert list(tmp_path.iterdir()) == []
