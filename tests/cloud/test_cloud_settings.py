"""The table `[sites.NAME.cloud]`: what is wrong is said when it is read; what is right does what it says."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from pydantic import ValidationError

from cloud.cloud_builders import by_command, by_rest, settings
from glidepath.backends.cloud import backend as kind
from glidepath.cloud.answers import OddAnswer, rows_of, seconds_of
from glidepath.cloud.settings import CloudSettings, ListingSettings, wanted_by
from glidepath.config.checks import own_values
from glidepath.core.quantity import Resources

URL = "https://cloud.example/v1"


def changed(table: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    made = deepcopy(table)
    *above, last = path.split(".")
    at = made
    for key in above:
        at = at[key]
    if value is None:
        at.pop(last)
    else:
        at[last] = value
    return made


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("way", "command", '`way = "command"` needs the table `command`'),
        ("rest.url", "http://cloud.example/v1", "the key would be read by everybody on the way"),
        ("rest.url", "ftp://cloud.example", "must be `https://HOST`"),
        ("rest.url", "https://cloud.example:99999", "the port is no number"),
        ("rest.url", "https://ada:pw@cloud.example", "must be `https://HOST`"),
        ("rest.url", "https://cloud.example/v1?x=1", "must be `https://HOST`"),
        ("rest.headers", {"Host": "x"}, "is set by glidepath itself"),
        ("rest.headers", {"X\nY": "x"}, "no name of a header"),
        ("rest.headers", {"X": "{token}"}, "has no place here"),
        ("rest.submit.path", "/jobs?key={key}", "has no place here"),
        ("rest.submit.path", "jobs", "no path"),
        ("rest.submit.path", "/jobs#x", "no path"),
        ("rest.submit.path", "/jobs/{id}", "is not known then"),
        ("rest.submit.body", {"key": "{key}"}, "has no place here"),
        ("rest.submit.body", {"name": "{pilot}"}, "must send `{name}`"),
        ("rest.submit.body", {"name": "{name}", "file": "{file}"}, "has no place here"),
        ("rest.list.path", "/jobs/{name}", "has no place here"),
        ("rest.delete.path", "/jobs/{name}", "has no place here"),
        ("listing.form", "csv", "must be `json` for"),
        ("listing.items", "jobs", "is no path of a list"),
        ("listing.id", "a..b", "is no heading and no path"),
        ("listing.label", "label", "`submit` does not send `{label}`"),
        ("states", {"queued": "waiting"}, "pending"),
        ("key_variable", None, "set `key_file` or `key_variable`"),
        ("key_file", "/a/key", "are both set"),
        ("key_variable", "no-name", "no name of a variable"),
        ("name_letters_max", 39, "greater than or equal to 40"),
        ("at_once", 17, "less than or equal to 16"),
        ("surprise", 1, "Extra inputs are not permitted"),
    ],
)
def test_what_is_wrong_with_an_api_is_said(path: str, value: Any, words: str) -> None:
    with pytest.raises(ValidationError) as caught:
        settings(changed(by_rest(URL), path, value))
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("command.submit", [], "at least 1 item"),
        ("command.submit", ["-x", "{name}"], "must begin with the name of a program"),
        ("command.submit", ["{image}", "{name}"], "no place here"),
        ("command.submit", ["lcli", "{name}", "{key}"], "would be seen by everybody"),
        ("command.submit", ["lcli", "{name}", "--x={token}"], "would be seen by everybody"),
        ("command.submit", ["lcli", "{pilot}"], "must send `{name}`"),
        ("command.submit_gpus", ["{gpu_type}"], "must not begin a word"),
        ("command.list", ["lcli", "{id}"], "has no place here"),
        ("command.delete", None, "Field required"),
        ("command.env", {"PATH": "/tmp"}, "decides which programs are run"),
        ("command.env", {"A B": "x"}, "no name of a variable"),
        ("command.env", {"KEY": "{kye}"}, "did you mean `{key}`"),
    ],
)
def test_what_is_wrong_with_a_command_is_said(path: str, value: Any, words: str) -> None:
    with pytest.raises(ValidationError) as caught:
        settings(changed(by_command(URL), path, value))
    assert words in str(caught.value)


def test_only_what_a_template_asks_for_is_made() -> None:
    assert wanted_by(settings(by_rest(URL))) == {
        *("name", "image", "cpus", "memory_gb", "bundle", "walltime_m", "gpus"),
    }
    assert {"file", "name"} <= wanted_by(settings(by_command(URL)))
    assert "token_file" not in wanted_by(settings(by_command(URL)))


def test_an_offer_that_the_cloud_does_not_have_is_told_with_the_nearest_that_it_has() -> None:
    own = own_values(kind, by_rest(URL, memory_per_cpu="2GiB", cpu_sizes=[16, 48]))
    sizes = {
        "good": Resources(16_000, 32_768),
        "odd": Resources(20_000, 32_768),
        "huge": Resources(64_000, 1),
    }
    found = dict(kind.unfit(own, sizes))
    assert sorted(found) == ["huge", "odd"]
    assert "the nearest that holds it has 48 CPUs and 98304 MiB" in found["odd"]
    assert "its largest has 48 CPUs" in found["huge"]


CSV = ListingSettings(form="csv", node="where")
COLUMNS = ListingSettings(form="columns", id="JOB ID", name="NAME", state="STATE", empty="No jobs")
JSON = ListingSettings(items="a.b[]", state="s")
TABLE = """\
Welcome to the cloud
JOB ID  NAME            STATE
------  --------------  -------
1       gp-1            running

22      two words       on hold
"""


@pytest.mark.parametrize(
    ("layout", "text", "rows"),
    [
        (CSV, 'id,name,status,where\r\n1,"a,b",running,n1\r\n\r\n', [("1", "a,b", "running", "n1")]),
        (CSV, 'hello\nwhere, status ,id,name\nn1, on hold ,1,"x\ny"\n', [("1", "x\ny", "on hold", "n1")]),
        (CSV, "id,name,status,where\n", []),
        (COLUMNS, TABLE, [("1", "gp-1", "running", ""), ("22", "two words", "on hold", "")]),
        (COLUMNS, "No jobs found\n", []),
        (JSON, '{"a": {"b": [{"id": 1, "name": "x", "s": true}]}}', [("1", "x", "True", "")]),
        (JSON, '{"a": {"b": []}}', []),
    ],
)
def test_a_listing_is_read_in_its_form(layout: ListingSettings, text: str, rows: list[Any]) -> None:
    found = rows_of(text, layout)
    assert [(row.id, row.name, row.state, row.node) for row in found] == rows


@pytest.mark.parametrize(
    ("layout", "text"),
    [
        (CSV, ""),
        (CSV, "id,name,status\n1,x,running\n"),
        (CSV, "id,name,status,where\n1,x,running\n"),
        (CSV, "id,name,status,where\n1,x,running,n1,more\n"),
        (CSV, "id,name,status,where\n1,,running,n1\n"),
        (CSV, "x\n" * 500),
        (COLUMNS, ""),
        (COLUMNS, "JOB ID  NAME  STATE\n1       a-name-that-reaches  running\n"),
        (COLUMNS, "JOB ID  NAME  STATE\n1\n"),
        (JSON, ""),
        (JSON, "null"),
        (JSON, "{}"),
        (JSON, '{"a": {"b": [{"id": {}, "name": "x", "s": "y"}]}}'),
        (JSON, '{"a": {"b": [{"id": "1", "name": "' + "x" * 5000 + '", "s": "y"}]}}'),
    ],
)
def test_what_is_no_listing_raises(layout: ListingSettings, text: str) -> None:
    with pytest.raises(OddAnswer) as caught:
        rows_of(text, layout)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2030-01-31T08:00:00Z", 1_896_076_800),
        ("2030-01-31T09:00:00+01:00", 1_896_076_800),
        ("1896076800.5", 1_896_076_800.5),
        ("2030-01-31T08:00:00", None),
        ("yesterday", None),
        ("nan", None),
        ("inf", None),
        ("-5", None),
        ("", None),
    ],
)
def test_a_time_of_the_cloud_is_read_or_left(text: str, seconds: float | None) -> None:
    assert seconds_of(text) == seconds


def test_the_defaults_are_those_of_the_reference() -> None:
    found = settings(by_rest(URL))
    assert isinstance(found, CloudSettings)
    assert (found.walltime_grace, found.name_letters_max, found.at_once) == (1500, 128, 4)
