"""What a job may say, checked before any of it becomes a part of a pod: a set comes in, a sentence goes out.

Nothing of a job is a name of an object, a volume source, a right or a selector: those come from the settings.
It refuses to know the cluster.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

from glidepath.cluster.kubernetes.settings import KubernetesClusterSettings
from glidepath.core.place.rank import KEY, RankSet, Work
from glidepath.core.text import one_line
from glidepath.kube.intent import node_named
from glidepath.kube.pod import ARCHITECTURES

RANKS_MAX = 5000
# A pod is one object of at most 1.5 MiB in the store of the cluster, and stands there once for each rank.
COMMAND_BYTES_MAX = 256 << 10
ENV_BYTES_MAX = 256 << 10
# All of a Secret may have 1 MiB.
FILES_BYTES_MAX = 768 << 10
FILES_MAX = 100
VOLUMES_MAX = 20
PORTS_MAX = 20
PATH_LETTERS_MAX = 1000
SECONDS_MAX = 10 * 366 * 86400
MEMORY_MIB_MIN = 8  # A container needs some memory to be started at all.
SIGNALS = frozenset(
    {"", "SIGUSR1", "SIGUSR2", "SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGALRM", "SIGCONT", "SIGWINCH"}
)
OURS = "/etc/glidepath"
TAKEN = frozenset({"/", "/dev", "/dev/shm", "/proc", "/sys", "/etc", "/dev/termination-log"})

# As the reference of images has it: a host with a port, a path of small letters, a tag, a digest.
IMAGE = re.compile(
    r"(?=.{1,400}\Z)"
    r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]{0,252}[A-Za-z0-9])?(?::[0-9]{1,5})?/)?"
    r"[a-z0-9]+(?:[._-]{1,2}[a-z0-9]+)*(?:/[a-z0-9]+(?:[._-]{1,2}[a-z0-9]+)*)*"
    r"(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?:@sha256:[0-9a-f]{64})?"
)
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")


def trouble(ranks: RankSet, settings: KubernetesClusterSettings) -> str:
    """Why this set can never be started here, on one line; empty where it can."""
    found = next(_troubles(ranks, settings), "")
    return one_line(found, letters_max=400)


def image_of(work: Work, settings: KubernetesClusterSettings) -> str:
    return work.image or settings.image


def _troubles(ranks: RankSet, settings: KubernetesClusterSettings) -> Iterator[str]:
    if not KEY.fullmatch(ranks.key):
        yield "the key of ranks is two whole numbers with a dot between them"
    if not 1 <= len(ranks.seats) <= RANKS_MAX:
        yield f"{len(ranks.seats)} ranks were asked for; from 1 to {RANKS_MAX} can be started"
    if not all(node_named(seat.node) for seat in ranks.seats):
        yield "a node is named as no node can be"
    if ranks.size.memory_mib < MEMORY_MIB_MIN or not ranks.size.cpu_milli:
        yield f"a rank needs some CPU and at least {MEMORY_MIB_MIN} MiB of memory"
    for what, amount in (
        *(("the time limit", ranks.limit_s), ("the time of the notice", ranks.notice_s)),
        *(("the grace", ranks.grace_s), ("the time to gather", ranks.gather_s_max)),
    ):
        if amount is not None and not 0 <= amount <= SECONDS_MAX:
            yield f"{what} is {amount} s, which is no time that can be kept"
    if ranks.notice_signal not in SIGNALS:
        known = ", ".join(sorted(SIGNALS - {""}))
        yield f"`{ranks.notice_signal}` is no signal for a notice; there are {known}"
    yield from _devices(ranks, settings)
    yield from _work(ranks.work, settings)
    yield from _mounts(ranks, settings)


def _devices(ranks: RankSet, settings: KubernetesClusterSettings) -> Iterator[str]:
    if ranks.gpu_milli and settings.gpu_share is None:
        yield "this cluster has no shares of GPUs; ask for whole ones"
    if ranks.gpu_milli and not 0 < ranks.gpu_milli <= 1000:
        yield f"a share of a GPU is {ranks.gpu_milli} thousandths; it must be from 1 to 1000"
    for name, count in ranks.counted:
        if name not in settings.counted:
            yield f"this cluster counts no `{name}`"
        if count < 0:
            yield f"{count} of `{name}` is no amount"
    if ranks.runtime and ranks.runtime not in settings.runtimes:
        known = ", ".join(f"`{name}`" for name in sorted(settings.runtimes)) or "none"
        yield f"this cluster has no runtime `{ranks.runtime}`; there is {known}"


def _work(work: Work, settings: KubernetesClusterSettings) -> Iterator[str]:
    image = image_of(work, settings)
    if not image:
        yield "the job names no image, and this cluster has no default"
    elif not IMAGE.fullmatch(image):
        yield f"`{image}` is no name of an image"
    elif settings.images and not image.startswith(settings.images):
        known = " or ".join(f"`{each}`" for each in settings.images)
        yield f"images here begin with {known}; `{image}` does not"
    if not work.command or not work.command[0]:
        yield "the command is empty"
    yield from _texts("the command", work.command, COMMAND_BYTES_MAX)
    names = [name for name, _ in work.env]
    for name in names:
        if not VARIABLE.fullmatch(name):
            yield f"`{name}` is no name of a variable"
        elif name.startswith("GLIDEPATH_"):
            yield f"the variable `{name}` is set by glidepath"
    if len(set(names)) != len(names):
        yield "a variable is set twice"
    yield from _texts("the variables", (*names, *(value for _, value in work.env)), ENV_BYTES_MAX)
    if work.workdir and not _absolute(work.workdir):
        yield f"the working directory `{work.workdir}` is no path that begins with `/` and has no `..`"
    if not 0 <= work.shm_mib <= 1 << 30:
        yield f"/dev/shm of {work.shm_mib} MiB is no size"
    if len(work.ports) > PORTS_MAX or len(set(work.ports)) != len(work.ports):
        yield f"at most {PORTS_MAX} ports can be served, each once"
    for port in work.ports:
        if not 1 <= port <= 65535:
            yield f"{port} is no port"


def _texts(what: str, texts: tuple[str, ...], bytes_max: int) -> Iterator[str]:
    size = 0
    for text in texts:
        if "\0" in text:
            yield f"{what} has a NUL character, which no program can be given"
        try:
            size += len(text.encode()) + 1
        except UnicodeEncodeError:
            yield f"{what} is not valid text; write it in UTF-8"
    if size > bytes_max:
        yield f"{what} has {size} bytes; at most {bytes_max} can be passed, use a file"


def _mounts(ranks: RankSet, settings: KubernetesClusterSettings) -> Iterator[str]:
    work = ranks.work
    if len(work.files) > FILES_MAX:
        yield f"{len(work.files)} files are put in; at most {FILES_MAX} can be, use an archive"
    yield from _texts("a file", tuple(file.content for file in work.files), FILES_BYTES_MAX)
    paths = [posixpath.normpath(file.path) for file in work.files]
    if len(set(paths)) != len(paths):
        yield "two files have one path"
    for file in work.files:
        if not _below(file.path):
            yield f"`{file.path}` is no path of a file: absolute or below the working directory, without `..`"
        elif _is_ours(file.path):
            yield f"`{file.path}` is in the folder of glidepath"
        if not 0 <= file.mode <= 0o777:
            yield f"`{file.mode:o}` is no mode of a file"
    if len(work.volumes) > VOLUMES_MAX:
        yield f"{len(work.volumes)} volumes are asked for; at most {VOLUMES_MAX} can be"
    mounted = [posixpath.normpath(volume.path) for volume in work.volumes]
    if len(set(mounted)) != len(mounted):
        yield "two volumes have one path"
    for volume in work.volumes:
        known = settings.volumes.get(volume.name)
        if known is None or (known.projects and ranks.project not in known.projects):
            yield f"there is no volume `{volume.name}` for this job"
        if not _absolute(volume.path) or posixpath.normpath(volume.path) in TAKEN or _is_ours(volume.path):
            yield f"`{volume.path}` is no place for a volume"


def _absolute(path: str) -> bool:
    return path.startswith("/") and not path.startswith("//") and _plain(path)


def _below(path: str) -> bool:
    # A path that begins with a dash would be taken for a switch by a careless command.
    return _plain(path) and not path.startswith(("-", "//")) and posixpath.normpath(path) not in (".", "/")


def _plain(path: str) -> bool:
    fits = 0 < len(path) <= PATH_LETTERS_MAX and path.isprintable() and ".." not in path.split("/")
    # A colon means something in a mount.
    return fits and ":" not in path and not path.endswith("/")


def _is_ours(path: str) -> bool:
    return (posixpath.normpath(path) + "/").startswith(f"{OURS}/")


ARCH_OF = {theirs: ours for ours, theirs in reversed(ARCHITECTURES.items())}
