"""Watches that end at once, and streams that fall silent: how often ours asks, how soon it notices.

`python -m bench.kube_watch` follows four broken servers on loopback at the same time for a minute and a half.
Lists work on all of them; watches end at once, well or without a word, or say nothing, with their head or
without. The official client follows the first of them beside. Times are the servers' own. It needs
`.venv-bench`.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack

from bench.kube_stand_in import StandIn, pages_of, serving
from bench.kube_world import NAMESPACE, official, pods_path, told
from bench.machine import header
from glidepath.kube.api import Api
from glidepath.kube.reflector import Reflector
from glidepath.kube.shapes import Pod

FOLLOW_S = 100.0
OFFICIAL_S = 5.0
LIST_S_MAX = 10.0
PER_S_MAX = 2.0
SILENT_S_MAX = 90.0
WINDOW_S = 10.0
CLOSING, SILENT = ("empty", "gone"), ("silent", "mute")
POD = {
    "metadata": {"name": "gp-sample", "uid": "1", "resourceVersion": "1"},
    "spec": {"containers": [{"name": "pilot"}]},
    "status": {"phase": "Running"},
}


def most_per_s(times: Sequence[float]) -> float:
    """In the busiest stretch of so many seconds."""
    return max(sum(1 for at in times if 0 <= at - start < WINDOW_S) for start in times) / WINDOW_S


def closing(word: str, server: StandIn) -> bool:
    asked = sorted([*server.lists, *server.watches])
    busiest, mean = most_per_s(asked), len(asked) / FOLLOW_S
    print(
        f"  {word:6} {len(server.watches):4} watches and {len(server.lists):3} lists in {FOLLOW_S:g} s: "
        f"{mean:.2f} requests a second, at most {busiest:.1f} in {WINDOW_S:g} s (target {PER_S_MAX:g})"
    )
    return busiest <= PER_S_MAX and len(server.watches) > 1


def silence(word: str, server: StandIn) -> bool:
    """Noticed when it is asked again."""
    if len(server.watches) < 2:
        print(f"  {word:6} not noticed in {FOLLOW_S:g} s (target {SILENT_S_MAX:g} s)")
        return False
    took_s = server.watches[1] - server.watches[0]
    print(f"  {word:6} noticed after {took_s:.1f} s (target {SILENT_S_MAX:g} s)")
    return took_s <= SILENT_S_MAX


def beside(pages: Sequence[bytes]) -> None:
    """The official client, which has no target here."""
    with serving(pages, "empty") as server:
        words = [official(), "-m", "bench.kube_official"]
        told(words, url=server.url, namespace=NAMESPACE, for_s=OFFICIAL_S)
        asked = len(server.watches)
    print(f"  the official client asks {asked / OFFICIAL_S:.0f} times a second where watches end at once")


def main(words: list[str]) -> int:
    argparse.ArgumentParser(description=__doc__).parse_args(words)
    print(header("python -m bench.kube_watch"))
    official()
    pages = pages_of(POD, 1)
    with ExitStack() as stack:
        servers = {word: stack.enter_context(serving(pages, word)) for word in (*CLOSING, *SILENT)}
        followers = [Reflector(Api(server.access), pods_path(), Pod) for server in servers.values()]
        for each in followers:
            each.heard(wait_s=LIST_S_MAX)
        time.sleep(FOLLOW_S)
        for each in followers:
            each.stop()
        met = [closing(word, servers[word]) for word in CLOSING]
        met += [silence(word, servers[word]) for word in SILENT]
    beside(pages)
    print("targets met" if all(met) else "targets missed")
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
