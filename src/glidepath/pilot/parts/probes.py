"""Whether this worker can do what it offers: scratch, GPUs, containers, the clock.

What was promised comes in; `GlidepathHealthy` and one sentence in `GlidepathWhy` go out, for the startd to
take into its slot. The probes run in a process of their own, so that a disk that hangs hangs nothing else.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

from glidepath.pilot.parts.terms import old_quoted

CLOCK_S_MAX = 60  # Tokens and time limits go wrong beyond a minute or so.
PROBE_S_MAX = 20.0
ROOM_MIB_MIN = 64
OUTPUT_BYTES_MAX = 1 << 16
CONTAINERS = ("apptainer", "singularity")
OWN_FOLDERS = ("bin", "sbin", "lib", "lib64", "usr")
IMAGE = ".glidepath-image"
# What an offer may promise of containers; the last one is of images in one file.
PROMISES = ("hassingularity", "hascontainer", "hassandboximage", "hassif")


class Found(NamedTuple):
    """What the probes found, and when."""

    trouble: str
    containers: str
    at: float
    sif: bool = False  # an image in one file was started


class Ended(NamedTuple):
    code: Optional[int]  # None: it did not end within its time
    output: str


def run(
    command: Sequence[str], *, limit_s: float = PROBE_S_MAX, env: Optional[Dict[str, str]] = None
) -> Ended:
    """A short program, killed with its whole group at its limit."""
    try:
        child = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=env,
            start_new_session=True,
        )
    except OSError as error:
        return Ended(127, str(error))
    try:
        output, _ = child.communicate(timeout=limit_s)
        code: Optional[int] = child.returncode
    except subprocess.TimeoutExpired:
        output, code = b"", None
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except OSError:
        pass
    child.wait()
    if child.stdout is not None:
        child.stdout.close()
    return Ended(code, output[-OUTPUT_BYTES_MAX:].decode("utf-8", "replace"))


def scratch_trouble(folder: str, size_mib: int) -> str:
    """Writable, and with room; a job on a full disk fails within seconds."""
    path = os.path.join(folder, ".glidepath-probe-%d" % os.getpid())
    try:
        with open(path, "wb") as file:
            file.write(b"x" * 4096)
            file.flush()
            os.fsync(file.fileno())
        os.unlink(path)
        room = os.statvfs(folder)
    except OSError as error:
        return "scratch cannot be written: %s" % (error.strerror or error)
    free_mib = room.f_bavail * room.f_frsize // (1024 * 1024)
    if free_mib < min(size_mib, ROOM_MIB_MIN):
        return "scratch has only %d MiB left" % free_mib
    return ""


def gpu_trouble(gpus: int, which: Optional[str], ended: Optional[Ended]) -> str:
    """Whether as many GPUs answer as are offered; where no tool can ask them, they are believed."""
    if not gpus or which is None or ended is None:
        return ""
    if ended.code is None:
        return "the GPUs do not answer within %d s" % PROBE_S_MAX
    answering = sum(line.startswith("GPU ") for line in ended.output.splitlines())
    if ended.code != 0 or answering < gpus:
        return "%d of %d GPUs answer" % (answering, gpus)
    return ""


def clock_trouble(offset_s: Optional[float]) -> str:
    if offset_s is not None and abs(offset_s) > CLOCK_S_MAX:
        return "the clock is %d s away from the collector's" % offset_s
    return ""


def container_program(path: str) -> str:
    return next((found for found in (shutil.which(name, path=path) for name in CONTAINERS) if found), "")


def container_test(folder: str) -> Tuple[str, str]:
    """The runtime and why it does not work: a folder with this machine's own programs is started in it."""
    runtime = container_program(os.environ.get("PATH", os.defpath))
    if not runtime:
        return "", "there is no apptainer or singularity"
    image = os.path.join(folder, IMAGE)
    try:
        for name in ("dev", "etc", "proc", "sys", "tmp", "var/tmp", "root", "home", *OWN_FOLDERS):
            os.makedirs(os.path.join(image, name), exist_ok=True)
    except OSError as error:
        return runtime, "no container could be made: %s" % (error.strerror or error)
    return runtime, start_trouble(runtime, folder, image, "a container")


def sif_test(runtime: str, folder: str) -> Optional[str]:
    """The same image in one file, as most jobs bring theirs: why it is not started; None: none could be made.

    HTCondor tries one of its own, which the packages of some distributions leave out; there it says of no
    worker that it can, and those jobs would come nowhere.
    """
    packed = os.path.join(folder, IMAGE + ".sif")
    if not os.path.exists(packed):
        fresh = packed + ".new"
        made = run([runtime, "build", "--force", fresh, os.path.join(folder, IMAGE)], env=in_folder(folder))
        if made.code != 0 or not os.path.exists(fresh):
            return None
        os.replace(fresh, packed)
    return start_trouble(runtime, folder, packed, "an image in one file")


def start_trouble(runtime: str, folder: str, image: str, what: str) -> str:
    """Why the runtime does not start the image; each of this machine's own folders is seen inside."""
    binds = []
    for name in OWN_FOLDERS:
        if os.path.isdir("/" + name):
            binds += ["--bind", "/%s:/%s:ro" % (name, name)]
    ended = run([runtime, "exec", "--contain", *binds, image, "/bin/true"], env=in_folder(folder))
    if ended.code == 0:
        return ""
    last = (ended.output.strip().splitlines() or ["no word"])[-1]
    return "%s does not start %s: %s" % (os.path.basename(runtime), what, last[:200])


def in_folder(folder: str) -> Dict[str, str]:
    """What a runtime unpacks goes into our scratch and leaves with it, not into a common folder."""
    names = ("APPTAINER_TMPDIR", "APPTAINER_CACHEDIR", "SINGULARITY_TMPDIR", "SINGULARITY_CACHEDIR")
    return dict(os.environ, **dict.fromkeys(names, folder))


def ad_lines(found: Found, *, latched: str, offset_s: Optional[float], run: int, failed: int) -> List[str]:
    """The attributes, as the startd takes them from us; the first trouble is the one that is told."""
    trouble = latched or clock_trouble(offset_s) or found.trouble
    return [
        "GlidepathHealthy = %s" % str(not trouble).lower(),
        "GlidepathWhy = %s" % old_quoted(trouble.rstrip("\\")),
        "GlidepathProbedAt = %d" % found.at,
        "GlidepathJobsRun = %d" % run,
        "GlidepathJobsFailed = %d" % failed,
        "GlidepathContainers = %s" % old_quoted(found.containers),
        # Where we have not seen it, HTCondor's own word stands.
        *(["HasSIF = true"] if found.sif else []),
        "-",
    ]


def found_in(text: str, now: float) -> Found:
    """What a probe printed; one that did not end or broke down is itself the trouble."""
    try:
        told = json.loads(text.strip().splitlines()[-1])
        return Found(str(told["trouble"]), str(told["containers"]), now, told.get("sif") is True)
    except (ValueError, KeyError, TypeError, IndexError):
        return Found("the probes do not end", "", now)


def promised_containers(attributes: Sequence[Tuple[str, str]]) -> str:
    """What the attributes of an offer promise: `no` containers, `yes`, or `sif` for one-file images too."""
    said = {name.lower() for name, text in attributes if text.strip().lower() != "false"}
    if PROMISES[-1] in said:
        return "sif"
    return "yes" if said.intersection(PROMISES) else "no"


def main(words: List[str]) -> int:
    """`SCRATCH DISK_MIB GPUS CONTAINERS`: what was promised; one line of JSON says what is wrong with it."""
    scratch, disk_mib, gpus, promised = words[0], int(words[1]), int(words[2]), words[3]
    troubles = [scratch_trouble(scratch, disk_mib)]
    smi = shutil.which("nvidia-smi")
    troubles.append(gpu_trouble(gpus, smi, run([smi, "-L"]) if gpus and smi else None))
    runtime, broken = container_test(scratch)
    packed = broken or sif_test(runtime, scratch)
    # Where none was promised, HTCondor finds out by itself, and container jobs do not come. What could not
    # be tried is believed.
    troubles.append({"no": "", "yes": broken, "sif": packed or ""}[promised])
    found = {
        "trouble": next((one for one in troubles if one), ""),
        "containers": "" if broken else os.path.basename(runtime),
        "sif": packed == "",
    }
    sys.stdout.write(json.dumps(found) + "\n")
    return 0
