"""One file that is a whole pilot: its program, what it is told and its token; started by `python3 FILE`.

A specification comes in, bytes go out. Everything that differs from pilot to pilot is inside, so that the
command in the container is the same for all, and no value needs a place in it.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping

from glidepath.core.provision.pilot import PilotSpec
from glidepath.core.quantity import Resources
from glidepath.pilot import STAMP, pilot_bytes

TOLD, PILOT = "told.json", "pilot.pyz"
# On any Python from 3.6, as the pilot itself.
_START = '''\
"""Unpacks what this pilot is told into a folder of its own, and becomes the pilot."""

import json
import os
import sys
import zipfile


def write(folder, name, content):
    path = os.path.join(folder, name)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(file, "wb") as out:
        out.write(content)
    return path


def main():
    os.umask(0o077)
    here = os.path.dirname(os.path.abspath(__file__))
    with zipfile.ZipFile(here) as archive:
        told, pilot = json.loads(archive.read("told.json").decode()), archive.read("pilot.pyz")
    for above in (os.getcwd(), os.environ.get("TMPDIR", "/tmp"), "/tmp"):
        folder = os.path.join(above, told["name"])
        try:
            os.makedirs(os.path.join(folder, "tokens.d"), 0o700, exist_ok=True)
            break
        except OSError as error:
            sys.stderr.write("%s\\n" % error)
    else:
        return 1
    for name in told["tokens"]:
        write(os.path.join(folder, "tokens.d"), name, told["tokens"][name].encode())
    settings = dict(told["settings"], GLIDEPATH_TOKENS=os.path.join(folder, "tokens.d"))
    if not told["tokens"]:
        del settings["GLIDEPATH_TOKENS"]
    words = [sys.executable, "-I", write(folder, "pilot.pyz", pilot)] + told["arguments"]
    words += ["--folder=" + folder, "--drain-file=" + os.path.join(folder, "drain")]
    words += ["--settings=" + write(folder, "settings.json", json.dumps(settings).encode())]
    words += ["--last-words=" + os.path.join(folder, "last-words")]
    sys.stdout.flush()
    os.execv(sys.executable, words)


if __name__ == "__main__":
    sys.exit(main())
'''


def arguments_of(spec: PilotSpec, box: Resources) -> list[str]:
    """Each argument is one word, so that no value can be taken for an option."""
    names = ("cpus-milli", "memory-mib", "disk-mib", "gpus")
    sizes = zip(names, box.as_tuple(), strict=True)
    return [
        "--kind=condor",
        f"--name={spec.name}",
        f"--pool={dict(spec.join).get('GLIDEPATH_POOL', spec.pool)}",
        *(f"--{name}={amount}" for name, amount in sizes),
        *(f"--trait={key}={value}" for key, value in spec.traits),
        f"--lifetime-s={spec.lifetime_s}",
        f"--idle-s={spec.idle_s}",
    ]


def told_of(spec: PilotSpec, box: Resources) -> Mapping[str, object]:
    return {
        "name": spec.name,
        "arguments": arguments_of(spec, box),
        "settings": {**dict(spec.join), "GLIDEPATH_SITE": spec.site, "GLIDEPATH_OFFER": spec.offer},
        "tokens": dict(spec.secrets),
    }


def bundle_of(spec: PilotSpec, box: Resources) -> bytes:
    """`box` is the size of its container, all of which it offers to jobs."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in (
            ("__main__.py", _START.encode()),
            (PILOT, pilot_bytes()),
            (TOLD, json.dumps(told_of(spec, box)).encode()),
        ):
            entry = zipfile.ZipInfo(name, STAMP)
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    return packed.getvalue()
