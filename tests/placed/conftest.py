"""Homes with a cluster of two nodes on this machine, and a `glidepath up` that always ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.postgres import shared_server

from whole.running import Running, house

CONFIG = """
[clusters.lab]
kind = "local"
cpus = 2
memory = "1GiB"
disk = "1GiB"
nodes = 2
stale_after = "1m"
cycle_max = "2s"

[partitions.desk]
cluster = "lab"
limit_max = "1d"
endless = true
{store}
"""

# A credit for each second of a CPU, so that a project runs dry while somebody looks.
ACCOUNTING = """
[accounting]
interval = "1s"
cpu_hour = 3600
warning = "3s"
"""


def config_text(store: str = "") -> str:
    return CONFIG.format(store=f'[store]\nurl = "{store}"\n' if store else "")


@pytest.fixture
def home() -> Iterator[Path]:
    with house() as found:
        (found / "lab.toml").write_text(config_text())
        yield found


@pytest.fixture
def home_with_books(home: Path) -> Path:
    (home / "lab.toml").write_text(config_text() + ACCOUNTING)
    return home


@pytest.fixture
def house_of(home: Path) -> Callable[[str], Path]:
    """The home, with another line in the table of its cluster."""

    def made(line: str) -> Path:
        file = home / "lab.toml"
        file.write_text(file.read_text().replace("nodes = 2\n", f"nodes = 2\n{line}\n"))
        return home

    return made


@pytest.fixture
def up(home: Path) -> Iterator[Callable[..., Running]]:
    started: list[Running] = []

    def start(*words: str, **environ: str) -> Running:
        running = Running(home, "--config", str(home / "lab.toml"), *words, **environ)
        started.append(running)
        return running

    yield start
    for running in started:
        running.close()


@pytest.fixture
def database(request: pytest.FixtureRequest) -> Iterator[str]:
    with shared_server(request.config).database() as url:
        yield url
