"""What may be asked of a job: anybody's mapping comes in, a checked `Submission` or every mistake goes out.

The body of the API, a submit file and the options of the command line all end here, with the same keys and
the same units. It refuses to know which partitions there are and who asks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, ConfigDict, Field, ValidationError, model_validator

from glidepath.config.problems import PROBLEMS_MAX, shown_key
from glidepath.config.tables import Table
from glidepath.config.wording import findings_of
from glidepath.core.place.rank import File, Volume
from glidepath.core.text import one_line
from glidepath.jobs import values
from glidepath.jobs.errors import Unusable
from glidepath.store import placed_spec as places

# So many mistakes of one wish are named in its one sentence; all of them are in the places.
NAMED_MAX = 5
KEY_LETTERS_MAX = 100
# Of each rank, where a wish says nothing of it.
MEMORY_MIB = 512
FILE_FORM = "each is a table of `path`, `content` and perhaps `mode`"
VOLUME_FORM = "each is a table of `name`, `path` and perhaps `read_only`"
_FORMS = {"files": FILE_FORM, "volumes": VOLUME_FORM}
_NO_TABLE = ("this key is needed", "must be a table")


def _as_written(schema: dict[str, Any], model: type[Any]) -> None:
    """Defaults as one would write them, with their units."""
    written = model(command=("true",)).model_dump(mode="json") if model is Submission else {}
    for key, shown in schema["properties"].items():
        shown.pop("title", None)
        if "default" in shown and key in written:
            shown["default"] = written[key]


class FileSubmission(Table):
    """A file that is there, whole and with this content, before the command begins."""

    model_config = ConfigDict(json_schema_extra=_as_written)

    path: str = Field(
        description="Where: absolute, or below the working directory; never with `..`.",
        max_length=places.PATH_CHARS_MAX,
    )
    content: str = Field(default="", description="What is in it, as text in UTF-8.")
    mode: values.Mode = Field(
        default=0o644, description="Its permissions: a number, or three octal digits as text."
    )


class VolumeSubmission(Table):
    """Storage of the cluster that the job sees at a path."""

    model_config = ConfigDict(json_schema_extra=_as_written)

    name: str = Field(
        description="One of the volumes that the cluster offers, by name.", max_length=places.PATH_CHARS_MAX
    )
    path: str = Field(description="Where it is seen: an absolute path.", max_length=places.PATH_CHARS_MAX)
    read_only: values.Flag = Field(default=False, description="Whether it can only be read.")


def _files(found: tuple[FileSubmission, ...]) -> tuple[FileSubmission, ...]:
    places.checked_files(tuple(File(each.path, each.content, each.mode) for each in found))
    return found


def _volumes(found: tuple[VolumeSubmission, ...]) -> tuple[VolumeSubmission, ...]:
    places.checked_volumes(tuple(Volume(each.name, each.path, each.read_only) for each in found))
    return found


Files = Annotated[tuple[FileSubmission, ...], Field(strict=False), AfterValidator(_files)]
Volumes = Annotated[tuple[VolumeSubmission, ...], Field(strict=False), AfterValidator(_volumes)]


class Submission(Table):
    """One job as it is asked for. What says `Placed:` is only for jobs that are placed on a cluster."""

    model_config = ConfigDict(json_schema_extra=_as_written)

    command: values.Command = Field(
        description="The program and its arguments, as they are: no shell looks at them."
    )
    name: values.Name = Field(default="", description="A name for people.")
    partition: values.PartitionWord | None = Field(
        default=None, description="Where it goes. By default the first by name that the other keys fit."
    )
    queue: values.QueueWord | None = Field(
        default=None,
        description="Placed: in strict order with a promised start, or reordered. By default interactive "
        "with a port or a terminal, else batch.",
    )
    cpus: values.Cpus = Field(default=1000, description="CPUs of each rank, such as `2`, `0.5` or `500m`.")
    mem: values.Size = Field(default=MEMORY_MIB, description="Memory of each rank, such as `4GiB`.")
    disk: values.Size = Field(default=0, description="Disk of each rank, such as `10GiB`.")
    gpus: values.Gpus = Field(default=0, description="GPUs of each rank.")
    trait: values.Traits = Field(
        default=(), description="Properties that the pilot or node must have, such as `arch`: `arm64`."
    )
    time: values.Limit | None = Field(
        default=None,
        description="The run time limit, such as `2h`, or `none`. By default none in a pool, that of the "
        "partition where it is placed.",
    )
    retries: values.Retries = Field(
        default=3, description="How often it is run again after its pilot or node was lost."
    )
    env: values.Env = Field(default=(), description="Variables of the job by name.")
    ranks: values.Ranks = Field(
        default=1, description="Placed: nodes at once, all or none; the command runs on each."
    )
    image: values.Image = Field(default="", description="Placed: its container image.")
    workdir: values.Folder = Field(
        default="", description="Placed: where it begins. By default a fresh folder of its own."
    )
    files: Files = Field(default=(), description="Placed: files that are there before the command begins.")
    volumes: Volumes = Field(default=(), description="Placed: storage of the cluster that it sees.")
    port: values.Ports = Field(default=(), description="Placed: the ports that it serves at.")
    terminal: values.Flag = Field(
        default=False, description="Placed: somebody will sit at a terminal of it, which it brings itself."
    )
    shm: values.Shm = Field(default=64, description="Placed: the size of /dev/shm, such as `1GiB`.")
    gpu_share: values.GpuShare = Field(default=0, description="Placed: thousandths of one GPU.")
    gpu_kind: values.GpuKinds = Field(default=(), description="Placed: only GPUs of these kinds.")
    runtime: values.Runtime = Field(default="", description="Placed: its runtime class.")
    exclusive: values.Flag = Field(default=False, description="Placed: nobody else on its nodes.")
    project: values.Payer = Field(
        default="", description="Placed: who pays; one of the caller's own projects."
    )
    start_after: values.When | None = Field(
        default=None, description=f"Placed: not before; {values.WHEN_FORMS}."
    )
    start_before: values.When | None = Field(
        default=None, description="Placed: it starts by then, or not at all."
    )
    deadline: values.When | None = Field(default=None, description="Placed: it is over by then.")
    beside: values.Neighbour | None = Field(
        default=None, description="Placed: starts with the job of this number, or while it runs."
    )
    same_node: values.Flag = Field(
        default=False, description="Placed: on the nodes of the job that it is beside."
    )
    on_loss: values.LossWord = Field(
        default="requeue", description="Placed: what becomes of it when it loses a node."
    )
    stoppable: values.Flag = Field(
        default=False, description="Placed: may be ended for others, and waits again."
    )
    notice: values.Notice = Field(
        default=0, description="Placed: SIGUSR1 so long before its limit, such as `5m`. By default none."
    )
    gather: values.Gather = Field(
        default=300,
        description="Placed: all ranks are in place within this, image and files included, or none begins.",
    )

    @model_validator(mode="after")
    def _whole(self) -> Submission:
        places.checked_neighbour(self.beside, self.same_node)
        return self

    @property
    def placed_only(self) -> tuple[str, ...]:
        """The keys that say more than nothing, and that only a job knows that is placed."""
        found = type(self).model_fields
        return tuple(key for key in PLACED_ONLY if getattr(self, key) != found[key].default)


PLACED_ONLY = tuple(
    key for key, field in Submission.model_fields.items() if (field.description or "").startswith("Placed:")
)
KEYS = tuple(Submission.model_fields)


def read_submission(wish: object) -> Submission:
    """An `Unusable` names every mistake with its key."""
    if not isinstance(wish, Mapping) or not all(isinstance(key, str) for key in wish):
        raise Unusable("a job is asked for with a table of keys and values")
    try:
        return Submission.model_validate(dict(wish))
    except ValidationError as error:
        raise unusable(_places(error)) from None


def written(wish: Submission) -> dict[str, Any]:
    """The mapping that is read as the same wish again; what is as by default is left out."""
    said: dict[str, Any] = wish.model_dump(mode="json", exclude_defaults=True)
    return said


def unusable(mistakes: tuple[tuple[str, str], ...]) -> Unusable:
    """One sentence for all mistakes; those with no key of their own stand for themselves."""
    said = [f"`{key}`: {what}" if key else what for key, what in mistakes[:NAMED_MAX]]
    if len(mistakes) == 1:
        return Unusable(said[0], mistakes)
    more = f"; and {len(mistakes) - NAMED_MAX} more" if len(mistakes) > NAMED_MAX else ""
    return Unusable(f"{len(mistakes)} mistakes: {'; '.join(said)}{more}", mistakes)


def _places(error: ValidationError) -> tuple[tuple[str, str], ...]:
    found = []
    for each in findings_of(error, Submission, ())[:PROBLEMS_MAX]:
        # Of a choice, pydantic also names the branch, which nobody wrote.
        parts = (part for place, part in enumerate(each.loc) if place == 0 or isinstance(part, int))
        loc = each.loc if each.loc[:1] and each.loc[0] in _FORMS else tuple(parts)
        message = f"{each.message}; {each.hint}" if each.hint else each.message
        if loc[:1] and loc[0] in _FORMS and message.startswith(_NO_TABLE):
            message = _FORMS[str(loc[0])]
        found.append((one_line(shown_key(loc), letters_max=KEY_LETTERS_MAX), message))
    return tuple(found)
