"""The pilot's own command: joins a pool of one kind, runs its jobs, and leaves by itself.

Arguments come in, the kind of pool is chosen, and the lock of the pilot's name is held to the end.
"""

import argparse
import os
import sys
from typing import Any, List, Optional

from glidepath.pilot.parts.common import NAME, detach, say, start_of, take_lock


def arguments(argv: Optional[List[str]]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="glidepath-pilot", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--name", required=True)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--kind", choices=("embedded", "condor"), default="embedded", help="of the pool")
    parser.add_argument("--socket", help="of the embedded pool")
    parser.add_argument("--settings", help="a JSON file that says how to join the pool")
    parser.add_argument("--pool", default="")
    parser.add_argument("--cpus-milli", type=int)
    parser.add_argument("--memory-mib", type=int)
    parser.add_argument("--disk-mib", type=int)
    parser.add_argument("--gpus", type=int)
    parser.add_argument("--trait", action="append", default=[], help="`name=value`, may be repeated")
    parser.add_argument("--lifetime-s", type=float, default=14 * 3600.0)
    parser.add_argument("--idle-s", type=float, default=600.0)
    parser.add_argument("--silence-s", type=float, default=120.0)
    parser.add_argument("--drain-file", help="once something is written in it, no more jobs are taken")
    parser.add_argument("--last-words", help="a file for the summary; a pilot that fails then ends with 1")
    parser.add_argument("--detach", action="store_true", help="go on in the background")
    args = parser.parse_args(argv)
    if not NAME.fullmatch(args.name):
        parser.error("the name must be small letters, digits, `-` and `.`")
    needed = "socket" if args.kind == "embedded" else "settings"
    if getattr(args, needed) is None:
        parser.error("a pool of kind %s needs --%s" % (args.kind, needed))
    args.trait = [trait.partition("=")[::2] for trait in args.trait]
    args.folder = os.path.abspath(args.folder)
    return args


def pilot_of(args: argparse.Namespace) -> Any:
    """Only what this kind needs is imported, so that the other kinds cost no time."""
    if args.kind == "condor":
        from glidepath.pilot.parts.condor import CondorPilot

        return CondorPilot(args)
    from glidepath.pilot.parts.embedded import Pilot

    return Pilot(args)


def main(argv: Optional[List[str]] = None) -> int:
    words = sys.argv[1:] if argv is None else argv
    if words[:1] == ["guard"]:
        from glidepath.pilot.parts import guard

        return guard.main(words[1:])
    if words[:1] == ["probe"]:
        from glidepath.pilot.parts import probes

        return probes.main(words[1:])
    args = arguments(words)
    lock = take_lock(args.folder)
    if lock is None:
        say("another process is the pilot %s already" % args.name)
        return 0
    tell = None
    if args.detach:
        tell = detach()
        if tell is None:
            return 0
    pilot = pilot_of(args)
    pilot.listen()  # Before the lock names us: whoever reads it may send a signal at once.
    os.ftruncate(lock, 0)
    os.pwrite(lock, ("%d %s\n" % (os.getpid(), start_of(os.getpid()))).encode(), 0)
    if tell is not None:
        os.close(tell)
    good = pilot.leave(pilot.live())
    return 0 if good or args.last_words is None else 1


if __name__ == "__main__":
    sys.exit(main())
