"""What a user may ask of a placed job, beside what every job has: checked once, here, and kept verbatim.

It refuses to know tables and clusters. Times are instants of the steady timeline; whoever reads what people
write turns their clock into it.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from typing import Any

from glidepath.core.place.rank import File, Volume, Work
from glidepath.core.place.record import Terms
from glidepath.core.quantity import Instant, Owner, Resources
from glidepath.core.schedule.cluster import DEVICE_MILLI, Counted, PartitionName, ProjectName, Queue
from glidepath.core.schedule.job import Ask, Job, JobName, OnLoss
from glidepath.store.job import JobSpec, checked_text

NODES_MAX = 10_000
FILES_MAX = 100
FILE_BYTES_MAX = 256 * 1024  # of all files of a job together
VOLUMES_MAX = 32
PORTS_MAX = 16
PATH_CHARS_MAX = 1024
IMAGE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._/:@-]{0,510}[A-Za-z0-9])?")
WORD = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
COUNTED_KEY = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._/-]{0,126}[A-Za-z0-9])?")
SIGNALS = ("SIGHUP", "SIGINT", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGTERM", "SIGCONT")
SPAN_S_MAX = 7 * 86400
SHM_MIB_MAX = 1 << 24
COUNTS_MAX = 1 << 20
PORT_MAX = 65535
MODE_MAX = 0o777
# Numbers by the name of their field: what people call it, the least and the most.
BOUNDS = {
    "nodes": ("number of ranks", 1, NODES_MAX),
    "gpu_milli": ("share of a GPU", 0, DEVICE_MILLI - 1),
    "shm_mib": ("size of /dev/shm", 0, SHM_MIB_MAX),
    "notice_s": ("time of the notice", 0, SPAN_S_MAX),
    "grace_s": ("grace", 0, 3600),
    "gather_s": ("time to gather", 1, SPAN_S_MAX),
}


@dataclass(frozen=True, slots=True)
class PlacedSpec:
    """A job for a placed partition. `job.retries_max` bounds attempts lost by no fault of its own."""

    job: JobSpec
    queue: Queue
    project: str = ""
    application: str = ""
    nodes: int = 1  # ranks, one on each node
    gpu_milli: int = 0
    gpu_kinds: tuple[str, ...] = ()
    counted: Counted = ()
    runtime: str = ""
    exclusive: bool = False
    image: str = ""
    workdir: str = ""
    files: tuple[File, ...] = ()
    volumes: tuple[Volume, ...] = ()
    shm_mib: int = 64
    ports: tuple[int, ...] = ()
    terminal: bool = False
    first_at: Instant | None = None
    latest_at: Instant | None = None
    deadline_at: Instant | None = None
    beside: int | None = None
    same_node: bool = False
    on_loss: OnLoss = OnLoss.REQUEUE
    stoppable: bool = False
    notice_s: int = 0
    notice_signal: str = "SIGUSR1"
    grace_s: int = 30
    gather_s: int = 300
    queue_why: str = ""  # where the queue was not named

    def __post_init__(self) -> None:
        for what, word in (("project", self.project), ("application", self.application)):
            checked_payer(what, word)
        checked_image(self.image)
        for what, word in (("runtime", self.runtime), *(("kind of GPU", kind) for kind in self.gpu_kinds)):
            checked_word(what, word)
        for name in BOUNDS:
            checked_bound(name, getattr(self, name))
        _check_counted(self.counted)
        checked_ports(self.ports)
        checked_neighbour(self.beside, self.same_node)
        if self.workdir:
            checked_path("working directory", self.workdir, absolute=True)
        checked_files(self.files)
        checked_volumes(self.volumes)
        if self.notice_signal not in SIGNALS:
            raise ValueError(f"the signal of the notice must be one of {', '.join(SIGNALS)}")

    @property
    def work(self) -> Work:
        job = self.job
        return Work(
            command=job.command,
            image=self.image,
            env=job.env,
            workdir=self.workdir,
            files=self.files,
            volumes=self.volumes,
            shm_mib=self.shm_mib,
            ports=self.ports,
        )

    @property
    def terms(self) -> Terms:
        return Terms(self.notice_s, self.notice_signal, self.grace_s, self.gather_s)

    def asked(self, number: int, came_at: Instant, limit_s: int | None) -> Job:
        """The job as the scheduler knows it, with the limit that it has by now."""
        ask = Ask(
            size=self.job.request,
            nodes=self.nodes,
            gpu_milli=self.gpu_milli,
            gpu_kinds=self.gpu_kinds,
            counted=self.counted,
            traits=self.job.traits,
            runtime=self.runtime,
            exclusive=self.exclusive,
        )
        return Job(
            name=JobName(str(number)),
            owner=Owner(self.job.owner),
            partition=PartitionName(self.job.partition),
            queue=self.queue,
            ask=ask,
            came_at=came_at,
            limit_s=limit_s,
            project=ProjectName(self.project),
            application=self.application,
            first_at=self.first_at,
            latest_at=self.latest_at,
            deadline_at=self.deadline_at,
            beside=None if self.beside is None else JobName(str(self.beside)),
            same_node=self.same_node,
            on_loss=self.on_loss,
            stoppable=self.stoppable,
        )


def checked_payer(what: str, word: str) -> str:
    return checked_text(what, word, chars_max=100, empty=True)


def checked_image(image: str) -> str:
    if image and not IMAGE.fullmatch(image):
        raise ValueError("the image is not a name such as `docker.io/library/python:3.13`")
    return image


def checked_word(what: str, word: str) -> str:
    if word and not WORD.fullmatch(word):
        raise ValueError(f"the {what} is not a word of letters, digits, `.`, `_` and `-`")
    return word


def checked_bound(name: str, value: int) -> int:
    """A number within the bounds that a field of this name has."""
    what, least, most = BOUNDS[name]
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ValueError(f"the {what} is {value}; it must be from {least} to {most}")
    return value


def _check_counted(counted: Counted) -> None:
    for name, count in counted:
        if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= COUNTS_MAX:
            raise ValueError(f"the number of {name} is {count}; it must be from 1 to {COUNTS_MAX}")
        if not COUNTED_KEY.fullmatch(name):
            raise ValueError("the name of something counted must be letters, digits, `.`, `_`, `-` and `/`")


def checked_ports(ports: tuple[int, ...]) -> tuple[int, ...]:
    for port in ports:
        if isinstance(port, bool) or not isinstance(port, int) or not 1 <= port <= PORT_MAX:
            raise ValueError(f"the port is {port}; it must be from 1 to {PORT_MAX}")
    if len(ports) > PORTS_MAX or len(set(ports)) != len(ports):
        raise ValueError(f"at most {PORTS_MAX} ports are taken, each once")
    return ports


def checked_number_of(beside: int) -> int:
    if beside < 1:
        raise ValueError("`beside` names a job by its number")
    return beside


def checked_neighbour(beside: int | None, same_node: bool) -> None:
    if beside is not None:
        checked_number_of(beside)
    if same_node and beside is None:
        raise ValueError("`same_node` needs a job to be beside")


def checked_files(files: tuple[File, ...]) -> tuple[File, ...]:
    if len(files) > FILES_MAX or sum(len(file.content.encode()) for file in files) > FILE_BYTES_MAX:
        raise ValueError(f"at most {FILES_MAX} files of {FILE_BYTES_MAX} bytes in all go with a job")
    for file in files:
        checked_path("path of a file", file.path)
        if not 0 <= file.mode <= MODE_MAX:
            raise ValueError("the mode of a file is not from 000 to 777")
    _check_once("file", [file.path for file in files])
    return files


def checked_volumes(volumes: tuple[Volume, ...]) -> tuple[Volume, ...]:
    if len(volumes) > VOLUMES_MAX:
        raise ValueError(f"at most {VOLUMES_MAX} volumes are taken")
    for volume in volumes:
        checked_path("path of a volume", volume.path, absolute=True)
        checked_text("name of a volume", volume.name, chars_max=PATH_CHARS_MAX)
    _check_once("volume", [volume.path for volume in volumes])
    return volumes


def _check_once(what: str, paths: list[str]) -> None:
    if len(set(paths)) != len(paths):
        raise ValueError(f"two {what}s have the same path")


def checked_path(what: str, path: str, *, absolute: bool = False) -> str:
    checked_text(what, path, chars_max=PATH_CHARS_MAX)
    parts = path.split("/")
    if ".." in parts or "." in parts or path.endswith("/"):
        raise ValueError(f"the {what} has `.`, `..` or a slash at its end")
    if absolute and not path.startswith("/"):
        raise ValueError(f"the {what} is not absolute")
    return path


# Text for the store, and back. Jobs wait for longer than a name lasts.

_EARLIER_NAMES = (("warn_s", "notice_s"), ("warn_signal", "notice_signal"))

_text = partial(json.dumps, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def spec_text(spec: PlacedSpec) -> str:
    """Everything but what the table of jobs has already."""
    own = asdict(replace(spec, job=_NOBODY))
    del own["job"]
    default = asdict(_PLAIN)
    return _text({key: value for key, value in own.items() if value != default[key]})


def spec_of(job: JobSpec, queue: Queue, text: str) -> PlacedSpec:
    own: dict[str, Any] = json.loads(text)
    for old, new in _EARLIER_NAMES:
        if old in own:
            own[new] = own.pop(old)
    for key in ("gpu_kinds", "ports"):
        if key in own:
            own[key] = tuple(own[key])
    if "counted" in own:
        own["counted"] = tuple((name, count) for name, count in own["counted"])
    if "files" in own:
        own["files"] = tuple(File(**file) for file in own["files"])
    if "volumes" in own:
        own["volumes"] = tuple(Volume(**volume) for volume in own["volumes"])
    if "on_loss" in own:
        own["on_loss"] = OnLoss(own["on_loss"])
    own["queue"] = queue
    known = {each.name for each in fields(PlacedSpec)}
    return PlacedSpec(job=job, **{key: value for key, value in own.items() if key in known})


_NOBODY = JobSpec("none", "nobody", ("true",), request=Resources(cpu_milli=1))
_PLAIN = PlacedSpec(_NOBODY, Queue.BATCH)
