"""The real client of pyglidein 1.1.8, from the package index and unmodified, in a venv of its own.

It is a program for Python 2. The shim stands beside it and changes nothing of it on the disk: two modules
that have other names today (`urllib2`, `ConfigParser`), `xrange`, `iteritems` read as `items` while the
client is imported, request bodies taken as text, and output of commands given as text.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
import venv
from pathlib import Path

import pytest
from bed.cache import built, silent
from bed.place import Place

ROOT = Path(__file__).parents[2]
NAME = "pyglidein-1.1.8"
FETCH_S_MAX = 120
RUN_S_MAX = 60
SHIM = {
    "urllib2.py": """
from urllib.request import Request as _Request, urlopen

def Request(url, data=None, headers={}):
    return _Request(url, data=data.encode() if isinstance(data, str) else data, headers=headers)
""",
    "ConfigParser.py": """
from configparser import ConfigParser as SafeConfigParser
""",
    "classad.py": "",
    "htcondor.py": """
import subprocess

class Schedd:
    def xquery(self, requirements, projection):
        words = ['condor_q', '-constraint', requirements, '-af', *projection]
        shown = subprocess.run(words, stdout=subprocess.PIPE, check=True, text=True).stdout
        return [dict(zip(projection, map(int, line.split()))) for line in shown.splitlines()]
""",
    "sitecustomize.py": """
import builtins, importlib.machinery, subprocess, sys

builtins.xrange = range

def check_output(*args, **more):
    return subprocess.run(*args, stdout=subprocess.PIPE, check=True, text=True, **more).stdout

subprocess.check_output = check_output

class Loader(importlib.machinery.SourceFileLoader):
    def get_data(self, path):
        return super().get_data(path).replace(b'.iteritems()', b'.items()')

    def path_stats(self, path):
        raise OSError('nothing is compiled ahead')

class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.split('.')[0] != 'pyglidein':
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        spec.loader = Loader(name, spec.origin)
        return spec

sys.meta_path.insert(0, Finder)
""",
}


def client() -> Path:
    """The folder of the venv; made once and kept in the cache of the bed."""
    place = Place.of(os.environ)
    return built(place.cache, f"{NAME}-py{sys.version_info[0]}{sys.version_info[1]}", _build, silent)


def _build(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as fetched:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--no-binary", "pyglidein", "--require-hashes", "--dest", fetched]
        command += ["-r", str(ROOT / "requirements/pyglidein.lock")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_S_MAX, check=False)
        if done.returncode:
            pytest.skip(f"the client of pyglidein cannot be fetched: {done.stderr.strip()[-200:]}")
        with tarfile.open(Path(fetched) / f"{NAME}.tar.gz") as archive:
            archive.extractall(folder, filter="data")
    venv.create(folder / "venv", with_pip=False, symlinks=True)
    packages = next((folder / "venv/lib").glob("python*/site-packages"))
    (folder / NAME / "pyglidein").rename(packages / "pyglidein")


def run_client(work: Path, config: str, *, path: Path) -> str:
    """One round of the client, as its cron job does it; what it said. Programs of `path` come first."""
    (work / "cluster.config").write_text(config)
    secrets = work / "secrets"
    secrets.touch(mode=0o600)
    shim = work / "shim"
    shim.mkdir(exist_ok=True)
    for name, text in SHIM.items():
        (shim / name).write_text(text)
    searched = f"{path}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [
            str(client() / "venv/bin/python"),
            *("-c", "from pyglidein.client import main; main()"),
            *("--config", "cluster.config", "--secrets", "secrets", "--uuid", "ann@login"),
        ],
        cwd=work,
        env={"PATH": searched, "PYTHONPATH": str(shim), "HOME": str(work), "USER": "ann"},
        capture_output=True,
        text=True,
        timeout=RUN_S_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def package() -> Path:
    """Where the client's own files are, the script of glideins among them."""
    [found] = (client() / "venv/lib").glob("python*/site-packages/pyglidein")
    return found


CONFIG = """
[Glidein]
address = {address}/jsonrpc
site = west

[Cluster]
user = ann
os = RHEL7
scheduler = slurm
max_total_jobs = 10
limit_per_submit = 5
walltime_hrs = 14
submit_command = sbatch
running_cmd = squeue --count RUNNING
idle_cmd = squeue --count PENDING
prioritize_jobs = ["gpus", "memory"]

[SubmitFile]
filename = submit.slurm
local_dir = {work}
custom_header = #SBATCH --account=abc
"""
