"""The command line of the bed: words come in, lines for a person (or JSON) and an exit code go out.

0: done; 1: something is wrong or left, and the text says what; 2: the words were not understood.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from typing import Any, NoReturn

from bed import leaks, lifecycle
from bed.machine import Machine
from bed.place import Instance, Place
from bed.registry import PARTS, part_named
from bed.running import state_of
from bed.trouble import Trouble


def say(text: str) -> None:
    print(text, flush=True)


def main(argv: Sequence[str]) -> int:
    asked = parser().parse_args(argv)
    try:
        return int(asked.act(asked, Place.of(os.environ)))
    except Trouble as trouble:
        print(f"bed: {trouble}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("bed: interrupted; what was begun is undone", file=sys.stderr)
        return 130


def undo_when_terminated() -> None:
    """A terminated run must undo what it began, as an interrupted one does."""
    signal.signal(signal.SIGTERM, _interrupt)


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="bed/ctl",
        description="Real servers for tests and trials. NAME is a part, or PART@OTHER for another one.",
        epilog="Folders: GLIDEPATH_BED_CACHE for what is built once, GLIDEPATH_BED_RUN for what runs.",
    )
    words = top.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, act: Any, told: str, names: str = "") -> argparse.ArgumentParser:
        added = words.add_parser(name, help=told, description=told)
        added.set_defaults(act=act)
        if names:
            added.add_argument("names", nargs=names, metavar="NAME")
        return added

    command("prepare", prepare, "build what is missing into the cache", "*")
    up_words = command("up", up, "start servers that are not up", "+")
    up_words.add_argument("--port", type=_port, default=0, help="listen on this port (default: any free one)")
    command("down", down, "stop servers and leave nothing behind (default: all)", "*")
    status_words = command("status", status, "what is up, where it listens, where its logs are", "*")
    status_words.add_argument("-o", "--output", choices=("text", "json"), default="text")
    command("leaks", leaks_left, "list what is left of the bed; exit 1 where there is something")
    command("parts", parts, "which parts this machine can host, and why not")
    return top


def _port(text: str) -> int:
    if not text.isdigit() or not 0 < int(text) < 65536:
        raise argparse.ArgumentTypeError(f"`{text}` is not a port")
    return int(text)


def prepare(asked: argparse.Namespace, place: Place) -> int:
    """With names, a part that cannot be hosted is an error; without, it is told and left out."""
    machine = Machine.here()
    for name in dict.fromkeys(Instance.named(name, place).part for name in asked.names or PARTS):
        part = part_named(name)
        reasons = part.obstacles(machine, place)
        if reasons and not asked.names:
            say(f"{name}: not on this machine: {'; '.join(reasons)}")
            continue
        lifecycle.prepare(part, machine, place, say)
    return 0


def up(asked: argparse.Namespace, place: Place) -> int:
    wanted = [Instance.named(name, place) for name in asked.names]
    if asked.port and len(wanted) > 1:
        raise Trouble("`--port` goes with one name only")
    for instance in wanted:
        part = part_named(instance.part)
        begun = time.monotonic()
        before = state_of(instance)
        state = part.up(instance, say, asked.port)
        took = "was up already" if before == state else f"up in {time.monotonic() - begun:.1f} s"
        say(f"{instance.name}: {took}; listens on {state.address}; logs in {state.logs}")
    return 0


def down(asked: argparse.Namespace, place: Place) -> int:
    code = 0
    for instance in named_or_all(asked.names, place):
        begun = time.monotonic()
        try:
            there = lifecycle.down(part_named(instance.part), instance, say)
        except Trouble as trouble:  # The others are stopped all the same.
            print(f"bed: {trouble}", file=sys.stderr)
            code = 1
            continue
        say(f"{instance.name}: {f'down in {time.monotonic() - begun:.1f} s' if there else 'was not up'}")
    return code


def named_or_all(names: Sequence[str], place: Place) -> list[Instance]:
    """The instances named, or every one that has a folder in this place."""
    if names:
        return [Instance.named(name, place) for name in names]
    folders = sorted(path.name for path in place.run.glob("*"))
    return [Instance.named(name.replace("-", "@", 1), place) for name in folders]


def status(asked: argparse.Namespace, place: Place) -> int:
    rows = [row_of(instance) for instance in named_or_all(asked.names, place)]
    if asked.output == "json":
        say(json.dumps({"cache": str(place.cache), "run": str(place.run), "instances": rows}, indent=1))
    elif not rows:
        say(f"nothing is up in {place.run}")
    else:
        for row in rows:
            say(f"{row['name']:16} {row['state']:5} {row['address']:24} {row['logs']}".rstrip())
    return 0


def row_of(instance: Instance) -> dict[str, Any]:
    """`dead` is a server that ended by itself; `down` removes its remains, and so does the next `up`."""
    part_named(instance.part)
    state = state_of(instance)
    if state is None:
        how = "dead" if instance.folder.exists() else "down"
        return {"name": instance.name, "state": how, "address": "", "port": 0, "pid": 0, "logs": ""}
    alive = state.alive()
    return {
        "name": instance.name,
        "state": "up" if alive else "dead",
        "address": state.address if alive else "",
        "port": state.port if alive else 0,
        "pid": state.pid if alive else 0,
        "logs": state.logs,
    }


def leaks_left(_: argparse.Namespace, place: Place) -> int:
    found = leaks.left(place)
    for one in found:
        say(str(one))
    return 1 if found else 0


def parts(_: argparse.Namespace, place: Place) -> int:
    machine = Machine.here()
    for name in sorted(PARTS):
        part = part_named(name)
        reasons = part.obstacles(machine, place)
        here = "cached" if part.prepared(place) else "yes, after `bed/ctl prepare`"
        told = "; ".join([here, *part.lacking(place)])
        say(f"{name:10} {'no: ' + '; '.join(reasons) if reasons else told}")
    return 0
