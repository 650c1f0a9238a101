"""`lcli job run|show|delete`: a command as a cloud of this kind had one, over the queue service of the tests.

    lcli job show -f csv [ID]      three columns: id, name and status
    lcli job run --name NAME --command COMMAND --image IMAGE --input-file FILE --mem GB --cores N [...]
    lcli job delete ID

The key is in `LANCIUM_API_KEY`, as there; where the service is comes from `LCLI_URL`. `LCLI_BEFORE` is a text
that is printed before anything else, and `LCLI_PLAIN` writes cells without quotes, as the original did.
"""

from __future__ import annotations

import argparse
import base64
import csv
import json
import os
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any


def ask(method: str, path: str, body: Any = None) -> Any:
    request = urllib.request.Request(
        os.environ["LCLI_URL"] + path,
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {os.environ['LANCIUM_API_KEY']}"},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.loads(answer.read())


def show(given: argparse.Namespace) -> None:
    rows = [ask("GET", f"/jobs/{given.id}")] if given.id else ask("GET", "/jobs")["jobs"]
    print(os.environ.get("LCLI_BEFORE", ""), end="")
    cells = [["id", "name", "status"]] + [[row["id"], row["name"], row["status"]["phase"]] for row in rows]
    if os.environ.get("LCLI_PLAIN"):
        print("\n".join(",".join(each) for each in cells))
    else:
        csv.writer(sys.stdout).writerows(cells)


def run(given: argparse.Namespace) -> None:
    file = Path(given.input_file)
    body = {"name": given.name, "image": given.image, "command": given.command, "cpus": given.cores}
    body |= {"memory_gb": given.mem, "gpus": given.gpu_count, "gpu_type": given.gpu}
    body["files"] = {"pilot.pyz": base64.b64encode(file.read_bytes()).decode()}
    print(f"job {ask('POST', '/jobs', body)['id']} was added")


def delete(given: argparse.Namespace) -> None:
    ask("DELETE", f"/jobs/{given.id}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="lcli")
    verbs = parser.add_subparsers(required=True).add_parser("job").add_subparsers(required=True)
    showing = verbs.add_parser("show")
    showing.add_argument("-f", choices=["csv"], required=True)
    showing.add_argument("id", nargs="?")
    showing.set_defaults(call=show)
    running = verbs.add_parser("run")
    for option in ("--name", "--command", "--image", "--input-file", "--mem", "--cores"):
        running.add_argument(option, required=True)
    running.add_argument("--gpu-count", default="0")
    running.add_argument("--gpu", default="")
    running.set_defaults(call=run)
    deleting = verbs.add_parser("delete")
    deleting.add_argument("id")
    deleting.set_defaults(call=delete)
    given = parser.parse_args()
    try:
        given.call(given)
    except urllib.error.HTTPError as error:
        print(f"Error: Job not found ({error.code})" if error.code == 404 else f"Error: {error}")
        return 1
    except OSError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
