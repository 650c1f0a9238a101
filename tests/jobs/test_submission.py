"""A wish for a job: what may be written, what is refused and where, how it is shown and written again."""

from __future__ import annotations

from typing import Any

import pytest

from glidepath.jobs.errors import Unusable
from glidepath.jobs.submission import KEYS, PLACED_ONLY, Submission, read_submission, written
from glidepath.jobs.values import ENDLESS

LEAST = {"command": ["true"]}
WHOLE: dict[str, Any] = {
    "command": ["sh", "-c", "true"],
    "name": "fit",
    "partition": "here",
    "queue": "interactive",
    "cpus": "0.5",
    "mem": "4GiB",
    "disk": "10GiB",
    "gpus": 2,
    "trait": {"arch": "arm64", "os": "el9"},
    "time": "1d2h",
    "retries": 0,
    "env": {"A": "1", "B": "=x y="},
    "ranks": 2,
    "image": "docker.io/library/python:3.13",
    "workdir": "/srv/work",
    "files": [{"path": "in/a.txt", "content": "x\n", "mode": 493}],
    "volumes": [{"name": "data", "path": "/data", "read_only": True}],
    "port": [8080, 8081],
    "terminal": True,
    "shm": "1GiB",
    "gpu_share": 500,
    "gpu_kind": ["h100", "a100"],
    "runtime": "gvisor",
    "exclusive": True,
    "project": "astro",
    "start_after": "+2h",
    "start_before": "2030-01-31T08:00:00Z",
    "deadline": "2030-02-01T08:00:00+01:00",
    "beside": 7,
    "same_node": True,
    "on_loss": "go-on",
    "stoppable": True,
    "notice": "5m",
    "gather": "20m",
}


def refused(**wish: Any) -> tuple[tuple[str, str], ...]:
    with pytest.raises(Unusable) as caught:
        read_submission({**LEAST, **wish})
    return caught.value.places


def test_every_key_is_read_and_what_is_written_again_is_the_same_wish() -> None:
    assert set(WHOLE) == set(KEYS)
    wish = read_submission(WHOLE)
    assert written(wish) == WHOLE
    assert read_submission(written(wish)) == wish
    assert wish.placed_only == tuple(key for key in KEYS if key in PLACED_ONLY)


def test_a_wish_that_says_the_least_has_the_defaults_and_says_nothing_of_places() -> None:
    wish = read_submission(LEAST)
    assert (wish.cpus, wish.mem, wish.disk, wish.gpus, wish.time, wish.retries) == (1000, 512, 0, 0, None, 3)
    assert wish.placed_only == ()
    assert written(wish) == LEAST


@pytest.mark.parametrize(
    ("key", "value", "read"),
    [
        ("cpus", 2, 2000),
        ("cpus", "500m", 500),
        ("cpus", 0.25, 250),
        ("mem", "1.5GiB", 1536),
        ("disk", 0, 0),
        ("disk", "0", 0),
        ("time", "none", ENDLESS),
        ("time", None, None),
        ("time", "1-12:00:00", 129600),
        ("env", ["B=2", "A=x=y"], (("B", "2"), ("A", "x=y"))),
        ("env", {"N": 4, "F": 0.5}, (("N", "4"), ("F", "0.5"))),
        ("env", "A=1", (("A", "1"),)),
        ("trait", ["os=el9", "arch=arm64"], (("arch", "arm64"), ("os", "el9"))),
        ("port", 80, (80,)),
        ("gpu_kind", "h100", ("h100",)),
    ],
)
def test_a_value_may_be_written_in_any_of_its_forms(key: str, value: object, read: object) -> None:
    wish = read_submission({**LEAST, key: value})
    assert getattr(wish, key) == read
    assert read_submission(written(wish)) == wish


@pytest.mark.parametrize("mode", ["755", "0755", 0o755])
def test_the_mode_of_a_file_may_be_octal_text(mode: object) -> None:
    wish = read_submission({**LEAST, "files": [{"path": "a", "mode": mode}]})
    assert [file.mode for file in wish.files] == [0o755]


NO_TABLE = "each is a table of `path`, `content` and perhaps `mode`"


@pytest.mark.parametrize(
    ("wish", "places"),
    [
        ({"cpu": 1}, [("cpu", "unknown key; did you mean `cpus`?")]),
        ({"command": "true"}, [("command", "is not a list of texts")]),
        ({"command": ["true", 1]}, [("command", "is not a list of texts")]),
        ({"command": []}, [("command", "the command is empty")]),
        ({"command": [""]}, [("command", "the command names no program")]),
        (
            {"command": ["a\0b"]},
            [("command", "argument 0 of the command has a NUL character, which no program can be given")],
        ),
        (
            {"command": ["a", "\udc80"]},
            [("command", "argument 1 of the command is not valid text; write it in UTF-8")],
        ),
        (
            {"command": ["x" * 1_000_000]},
            [("command", "the command has 1000001 bytes; at most 131072 can be passed, use a file")],
        ),
        (
            {"command": ["x"] * 500_000},
            [("command", "the command has 1000000 bytes; at most 131072 can be passed, use a file")],
        ),
        (
            {"name": "a\x1b[2J"},
            [("name", "the name has the control character U+001B at place 2; leave it out")],
        ),
        ({"name": None}, [("name", "must be text, not `None`")]),
        (
            {"cpus": True},
            [("cpus", "must be a number of CPUs such as `4` or `0.5`, or `500m` for thousandths")],
        ),
        (
            {"cpus": float("nan")},
            [
                (
                    "cpus",
                    "`nan` is not a number of CPUs; write a number of CPUs such as `4` or `0.5`, "
                    "or `500m` for thousandths",
                )
            ],
        ),
        ({"cpus": 10**5000}, [("cpus", "a number that long is not taken")]),
        ({"cpus": 0}, [("cpus", "the request for CPU is 0; it must be from 1 to 1000000000")]),
        (
            {"mem": 4},
            [("mem", "`4` has no unit; write `512MiB`, `4GiB`, `1TiB`, or `4GB` for powers of ten")],
        ),
        (
            {"mem": False},
            [("mem", "must be text with a unit; write `512MiB`, `4GiB`, `1TiB`, or `4GB` for powers of ten")],
        ),
        ({"gpus": True}, [("gpus", "must be a whole number, not `true`")]),
        ({"gpus": 1.0}, [("gpus", "must be a whole number, not `1.0`")]),
        ({"gpus": 10**5000}, [("gpus", "a number that long is not taken")]),
        ({"gpus": -1}, [("gpus", "the request for GPUs is -1; it must be from 0 to 1024")]),
        ({"retries": 101}, [("retries", "retries_max is 101; it must be from 0 to 100")]),
        ({"ranks": "2"}, [("ranks", 'must be a whole number, not the text `"2"`')]),
        ({"ranks": 0}, [("ranks", "the number of ranks is 0; it must be from 1 to 10000")]),
        ({"time": 7200}, [("time", "must be text with a unit such as `2h`, or `none` for no limit")]),
        ({"time": "0s"}, [("time", "the run time limit is 0 s; it must be from 1 s to ten years")]),
        ({"queue": "fast"}, [("queue", "`fast` is none of `interactive`, `batch`")]),
        ({"queue": 1}, [("queue", "must be one of `interactive`, `batch`")]),
        (
            {"on_loss": "requeu"},
            [("on_loss", "`requeu` is none of `end`, `requeue`, `go-on`; did you mean `requeue`?")],
        ),
        ({"env": {"A": True}}, [("env", "is not a text or a number")]),
        ({"env": {"A": ["x"]}}, [("env", "is not a text or a number")]),
        ({"env": ["A"]}, [("env", "`A` is not `KEY=VALUE`")]),
        ({"env": ["A=1", "A=2"]}, [("env", "a variable is set twice")]),
        (
            {"env": {"A\n": "1"}},
            [("env", "the name of a variable must be letters, digits and `_`, no digit first")],
        ),
        (
            {"env": {"A": "\0"}},
            [("env", "the variable `A` has a NUL character, which no program can be given")],
        ),
        (
            {"env": {"A": "x" * 200_000}},
            [("env", "the variables have 200003 bytes; at most 131072 can be passed")],
        ),
        ({"trait": ["a=b", "a=c"]}, [("trait", "traits must be sorted and each named once")]),
        (
            {"image": "$(reboot)"},
            [("image", "the image is not a name such as `docker.io/library/python:3.13`")],
        ),
        (
            {"workdir": "/a/../etc"},
            [("workdir", "the working directory has `.`, `..` or a slash at its end")],
        ),
        ({"workdir": "here"}, [("workdir", "the working directory is not absolute")]),
        ({"files": "x"}, [("files", 'must be a list, not the text `"x"`')]),
        ({"files": ["x"]}, [("files[1]", NO_TABLE)]),
        ({"files": [{"content": "x"}]}, [("files[1].path", NO_TABLE)]),
        ({"files": [{"path": "a", "mod": 1}]}, [("files[1].mod", "unknown key; did you mean `mode`?")]),
        (
            {"files": [{"path": "a", "mode": "999"}]},
            [("files[1].mode", "is three octal digits such as `755`")],
        ),
        ({"files": [{"path": "a", "mode": 10**9}]}, [("files", "the mode of a file is not from 000 to 777")]),
        (
            {"files": [{"path": "../a"}]},
            [("files", "the path of a file has `.`, `..` or a slash at its end")],
        ),
        ({"files": [{"path": "a"}] * 2}, [("files", "two files have the same path")]),
        (
            {"files": [{"path": "a", "content": "x" * 300_000}]},
            [("files", "at most 100 files of 262144 bytes in all go with a job")],
        ),
        ({"volumes": [{"name": "a", "path": "b"}]}, [("volumes", "the path of a volume is not absolute")]),
        ({"port": [0]}, [("port", "the port is 0; it must be from 1 to 65535")]),
        ({"port": [80, 80]}, [("port", "at most 16 ports are taken, each once")]),
        ({"port": ["80"]}, [("port[1]", 'must be a whole number, not the text `"80"`')]),
        ({"shm": "2PiB"}, [("shm", "`2PiB` is more than 1 PiB")]),
        ({"gpu_share": 1000}, [("gpu_share", "the share of a GPU is 1000; it must be from 0 to 999")]),
        ({"exclusive": "yes"}, [("exclusive", "is `true` or `false`")]),
        ({"stoppable": 1}, [("stoppable", "is `true` or `false`")]),
        (
            {"start_after": "tomorrow"},
            [("start_after", "`tomorrow` is no time; write `2030-01-31T08:00:00Z`, or `+2h` from now")],
        ),
        (
            {"deadline": "2030-01-31T08:00:00"},
            [
                (
                    "deadline",
                    "`2030-01-31T08:00:00` is no time; write `2030-01-31T08:00:00Z`, or `+2h` from now",
                )
            ],
        ),
        ({"beside": 0}, [("beside", "`beside` names a job by its number")]),
        ({"beside": 2**63}, [("beside", "a number that long is not taken")]),
        ({"same_node": True}, [("", "`same_node` needs a job to be beside")]),
        ({"gather": "0s"}, [("gather", "the time to gather is 0; it must be from 1 to 604800")]),
        ({"notice": "8d"}, [("notice", "the time of the notice is 691200; it must be from 0 to 604800")]),
        ({"partition": "x" * 100}, [("partition", "the partition has 100 characters; at most 63 are kept")]),
    ],
)
def test_a_mistake_is_told_with_its_key(wish: dict[str, Any], places: list[tuple[str, str]]) -> None:
    assert list(refused(**wish)) == places


def test_every_mistake_is_told_at_once() -> None:
    with pytest.raises(Unusable) as caught:
        read_submission({"memm": "1GiB", "cpus": "many", "queue": "fast", "gpus": -1})
    assert [key for key, _ in caught.value.places] == ["command", "queue", "cpus", "gpus", "memm"]
    assert caught.value.why.startswith("5 mistakes: `command`: this key is needed; ")


def test_a_thousand_mistakes_make_a_short_answer() -> None:
    with pytest.raises(Unusable) as caught:
        read_submission({**LEAST, **{f"k{number}" * 5000: 1 for number in range(1000)}})
    assert len(caught.value.places) == 100
    assert max(len(key) + len(what) for key, what in caught.value.places) < 400
    assert len(caught.value.why) < 2000


@pytest.mark.parametrize("wish", [None, [], "command", 5, {1: 2}])
def test_what_is_no_table_is_no_wish(wish: object) -> None:
    with pytest.raises(Unusable, match="a table of keys and values"):
        read_submission(wish)


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize(
    "value",
    [[[]], {"\0": {}}, "\udc80", "\x00", b"bytes", 10**5000, float("inf"), True, -1.5, object(), [None]],
    ids=range(11),
)
def test_whatever_stands_at_a_key_is_read_or_refused_and_nothing_else(key: str, value: Any) -> None:
    try:
        wish = read_submission({**LEAST, key: value})
    except Unusable as refusal:
        why, again = refusal.why, None
    else:
        why, again = "", read_submission(written(wish)) == wish
    assert again or (again is None and why)
    assert why.isprintable()


def test_the_schema_describes_every_key_with_its_bounds_and_defaults_as_one_writes_them() -> None:
    schema = Submission.model_json_schema()
    assert schema["required"] == ["command"]
    assert schema["additionalProperties"] is False
    assert list(schema["properties"]) == list(KEYS)
    for table in (schema, *schema["$defs"].values()):
        assert all(one["description"].endswith(".") for one in table["properties"].values())
    defaults = {key: one["default"] for key, one in schema["properties"].items() if key != "command"}
    assert (defaults["cpus"], defaults["mem"], defaults["notice"], defaults["env"]) == (
        "1",
        "512MiB",
        "0s",
        {},
    )
    assert read_submission({**LEAST, **defaults}) == read_submission(LEAST)
    assert schema["properties"]["ranks"] == {
        "default": 1,
        "description": "Placed: nodes at once, all or none; the command runs on each.",
        "maximum": 10000,
        "minimum": 1,
        "type": "integer",
    }
