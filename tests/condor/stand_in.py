"""A child that misbehaves on purpose: each question says how."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from glidepath.condor.child import MARK_BYTES


def main() -> None:
    for line in sys.stdin:
        asked = json.loads(line)
        match asked["how"]:
            case "echo":
                said = json.dumps(
                    {"pid": os.getpid(), "said": asked.get("say", ""), "env": sorted(os.environ)}
                )
                print(said, flush=True)
            case "hang":
                with Path(f"/proc/self/fd/{sys.argv[-1]}").open("r+b") as marks:
                    marks.write(b"mallory\0".ljust(MARK_BYTES, b"\0") + b"eve\0")
                if os.fork() == 0:
                    time.sleep(600)
                time.sleep(600)
            case "die":
                os._exit(3)
            case "nonsense":
                print("Warning: not JSON", flush=True)
            case "list":
                print("[1]", flush=True)
            case "flood":
                while True:  # Until it is killed, which is what the test is about.
                    sys.stdout.write("x" * 1_000_000)
            case "error":
                print(json.dumps({"error": "the\nworld"}), flush=True)


main()
