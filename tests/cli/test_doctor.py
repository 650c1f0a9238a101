"""The doctor looks at everything, changes nothing, and one bad finding never hides the others."""

from __future__ import annotations

import json
from pathlib import Path

from glidepath.cli.verb import Exit

from . import scene
from .conftest import WALL, Cli

NAMES = ["python", "home", "disk", "socket path", "clock", "configuration"]
NAMES += ["store", "plug-ins", "postgresql", "pilots", "cluster here"]


def findings(cli: Cli, wall: float = WALL, **environ: str) -> dict[str, dict[str, str]]:
    ran = cli("doctor", "-o", "json", wall=wall, **environ)
    return {item["name"]: item for item in json.loads(ran.out)["items"]}


def test_a_machine_without_a_home_is_well_and_stays_without_one(cli: Cli, home: Path) -> None:
    ran = cli("doctor")
    assert [line.split("  ")[0] for line in ran.out.splitlines()[1:]] == NAMES
    found = findings(cli)
    assert found["home"]["found"] == f"`{home}` is not there yet; `glidepath up` makes it"
    assert found["store"]["found"] == f"`{home}/glidepath.db` is not there yet; `glidepath up` makes it"
    assert {name: one["verdict"] for name, one in found.items() if one["verdict"] == "fail"} == {}
    assert not home.exists()


def test_pilots_that_nobody_looks_after_are_named(cli: Cli, home: Path) -> None:
    scene.write(home)
    assert findings(cli, wall=WALL)["pilots"]["found"] == "2 on the books"
    later = findings(cli, wall=WALL + 1000)["pilots"]
    assert later["verdict"] == "warn"
    assert later["found"] == "2 may still be alive, nobody has looked for 1040 s"


def test_a_home_that_others_can_write_is_a_warning_with_a_fix(cli: Cli, home: Path) -> None:
    home.mkdir()
    home.chmod(0o777)
    found = findings(cli)["home"]
    assert (found["verdict"], found["fix"]) == ("warn", f"chmod go-w {home}")


def test_a_home_that_is_a_file_fails(cli: Cli, home: Path) -> None:
    home.write_text("")
    ran = cli("doctor")
    assert ran.code == Exit.FAILED
    assert f"`{home}` is not a folder; choose another with `--home`" in ran.out


def test_a_bad_configuration_is_one_finding_among_the_others(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "bad.toml"
    file.write_text("[pols.x]\n")
    ran = cli("doctor", GLIDEPATH_CONFIG=str(file))
    assert ran.code == Exit.FAILED
    assert "configuration  fail" in ran.out
    assert "disk" in ran.out


def test_a_home_too_long_for_a_socket_is_told_before_anything_starts(cli: Cli, tmp_path: Path) -> None:
    found = findings(cli, GLIDEPATH_HOME=str(tmp_path / ("x" * 120)))
    assert found["socket path"]["verdict"] == "warn"


def test_a_store_that_is_no_database_fails_and_the_rest_is_still_told(cli: Cli, home: Path) -> None:
    home.mkdir()
    (home / "glidepath.db").write_bytes(b"no database" * 1000)
    found = findings(cli)
    assert found["store"]["verdict"] == "fail"
    assert list(found) == NAMES
