"""The page at the addresses of pyglidein, for people: what is wanted, and the clients. All is escaped."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from html import escape

from glidepath.called.nameless import Wanted
from glidepath.core.text import visible

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",  # The address may hold a secret.
    "Cache-Control": "no-store",
}
PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Queue Status</title>
<style>
body {{ font-family: sans-serif; margin: 2em; }}
table {{ border-collapse: collapse; margin-bottom: 2em; }}
th, td {{ text-align: left; padding: .2em 1em .2em 0; vertical-align: top; }}
td.num, th.num {{ text-align: right; }}
</style>
</head>
<body>
<h1>{title}</h1>
<h2>List of requirements</h2>
<table>
<tr><th class="num">Num</th><th class="num">CPUs</th><th class="num">Memory</th><th class="num">Disk</th>\
<th class="num">GPUs</th><th>OS</th></tr>
{rows}
</table>
<h2>Clients</h2>
<table>
<tr><th>UUID</th><th>Last update (UTC)</th><th>Stats</th></tr>
{clients}
</table>
</body>
</html>
"""
Said = tuple[float, Mapping[str, object]]


def page(title: str, rows: Mapping[Wanted, int], clients: Mapping[str, Said]) -> str:
    return PAGE.format(
        title=shown(title),
        rows="\n".join(_row(wanted, count) for wanted, count in sorted(rows.items(), key=_order)),
        clients="\n".join(_client(name, *said) for name, said in clients.items()),
    )


def shown(value: object) -> str:
    """Nothing of a stranger becomes markup, and nothing of it turns the text around."""
    return escape(visible(str(value)))


def _order(row: tuple[Wanted, int]) -> tuple[object, ...]:
    wanted, count = row
    return (-wanted.gpus, -wanted.memory, -wanted.cpus, -wanted.disk, wanted.os or "", count)


def _row(wanted: Wanted, count: int) -> str:
    numbers = (count, wanted.cpus, wanted.memory, wanted.disk, wanted.gpus)
    return "<tr>" + "".join(f'<td class="num">{each}</td>' for each in numbers) + _cell(wanted.os) + "</tr>"


def _client(name: str, wall_s: float, said: Mapping[str, object]) -> str:
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(wall_s))
    stats = "<br>".join(_lines(said.items()))
    return f"<tr>{_cell(name)}{_cell(when)}<td>{stats}</td></tr>"


def _lines(items: Iterable[tuple[str, object]]) -> list[str]:
    return [f"{shown(key)}: {shown(value)}" for key, value in items]


def _cell(value: object) -> str:
    return f"<td>{shown(value)}</td>"
