"""The tables `[sites.NAME.slurm]`, `[sites.NAME.pbs]` and so on as strict, frozen models: one batch system.

Every field says its meaning and why its default is what it is: the reference page is made from that. A text
that could become an option, a line or a file that nobody wrote is refused here, and again where it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, Field, field_serializer, model_validator

from glidepath.batch.lines import option_refusal, setup_line
from glidepath.config.fields import Duration, Name, Size, Span, Text
from glidepath.config.tables import MINUTE_S, Table
from glidepath.core.quantity import Resources
from glidepath.core.units import shown_duration
from glidepath.remote.settings import SshSettings
from glidepath.remote.words import safe_path, safe_word, safe_words

NODES_MAX = 512
PER_NODE_MAX = 64
# What running jobs of a pilot have to end in, where the pool does not say otherwise.
GRACE_S = 20 * MINUTE_S
# Between the start of a job and that of its pilots, and between their end and the limit of the site.
MARGIN_S = 5 * MINUTE_S


def _word(check: Callable[[str, str], str], what: str) -> AfterValidator:
    """The same text where it is empty or what it should be."""

    def checked(value: str) -> str:
        return str(check(value, what)) if value else value

    return AfterValidator(checked)


Named = Annotated[str, _word(safe_word, "a name")]
Names = Annotated[str, _word(safe_words, "a name, or several with commas")]
Path = Annotated[str, _word(safe_path, "a path")]
Setup = Annotated[str, AfterValidator(setup_line)]


class JobSettings(Table):
    """What a job of the batch system looks like; an offer says only what is different from its site."""

    queue: Names = Field(
        default="", description="Queue or partition of the site. Empty: the site's own default."
    )
    account: Named = Field(
        default="", description="Account or allocation that pays. Empty: the user's default there."
    )
    qos: Named = Field(default="", description="Quality of service, where there is such. Empty: the default.")
    walltime: Duration = Field(
        default=0,
        description="What a job asks for as its time limit. Zero: the lifetime of the offer, what running "
        "jobs have to end in (the pool's `grace`), and five minutes.",
    )
    nodes: Annotated[int, Field(ge=1, le=NODES_MAX)] = Field(
        default=1,
        description="Nodes of one job; on each a pilot is started, so that pilots are asked for by so many.",
    )
    per_node: Annotated[int, Field(ge=1, le=PER_NODE_MAX)] = Field(
        default=1,
        description="Pilots beside each other on each node of a job, which asks for as much more. More than "
        "one groups small pilots where a site likes few large jobs.",
    )
    whole_node: bool = Field(
        default=False,
        description="Whether nodes are not shared with jobs of others. Some queues give nothing else.",
    )
    memory_percent: Annotated[int, Field(ge=100, le=1000)] = Field(
        default=100,
        description="Memory that is asked for, in percent of the pilot's. Sites that end jobs for a moment "
        "above their limit need 105 or 110.",
    )
    memory_by: Annotated[str, AfterValidator(lambda value: _one_of(value, ("node", "core", "none")))] = Field(
        default="node",
        description='Whether memory is asked for by `"node"`, by `"core"`, or not at all with `"none"`, '
        "where it comes with the cores.",
    )
    memory_per_core: Size = Field(
        default=0,
        description="Memory that comes with a core: so many cores are asked for that the pilot's memory "
        "fits. Zero: cores and memory are asked for as they are.",
    )
    memory_form: Named = Field(
        default="", description="How memory is asked for, where a system has several ways, such as `pmem`."
    )
    nodes_form: Named = Field(
        default="", description="The same for nodes, such as `nodes` instead of `select` for older PBS."
    )
    parallel: Named = Field(
        default="", description="Parallel environment of Grid Engine for pilots of more than one CPU."
    )
    disk: bool = Field(
        default=False,
        description="Whether the pilot's disk is asked for. Most sites do not count it, and then refuse.",
    )
    gpu_type: Named = Field(
        default="", description="What the site calls its GPUs. Empty: the offer's trait `gpu_type`, if any."
    )
    gpu_form: Named = Field(
        default="", description="How GPUs are asked for, where a system has several ways, such as `gres`."
    )
    options: Annotated[tuple[Text, ...], Field(strict=False)] = Field(
        default=(),
        description="Further options of the submit command, such as `--constraint=haswell` or "
        "`-l scratch=10gb`; for HTCondor further entries of the submit file, such as `rank = Memory`. Only "
        "known ones are taken, and none that glidepath sets itself. By default none.",
    )
    setup: Annotated[tuple[Setup, ...], Field(strict=False)] = Field(
        default=(),
        description="What a job does before its pilot: lines `module load NAME`, `module use PATH`, "
        "`source PATH`, `export NAME=VALUE` and `ulimit -n NUMBER`, in which nothing is filled in. By "
        "default none.",
    )
    htcondor: Path = Field(
        default="",
        description="Where nodes have HTCondor: path of a tarball or of an unpacked one, as nodes see it. "
        "Empty: what the pool's settings say.",
    )
    python: Annotated[str, AfterValidator(lambda value: _python(value))] = Field(
        default="python3",
        description="Python of 3.6 or later on the nodes, after `setup`: a name that is found there, or its "
        "path.",
    )


class BatchSettings(JobSettings):
    """A batch system as a site."""

    dialect: ClassVar[str] = ""

    folder: Annotated[str, AfterValidator(lambda value: safe_path(value, "`folder`").rstrip("/"))] = Field(
        description="Folder in which glidepath keeps what belongs to its pilots, on the host where commands "
        "are run. Nodes must see it under the same name (for HTCondor they need not). It must be there; a "
        "folder that is not is no empty one, and nothing is concluded from it."
    )
    ssh: SshSettings = Field(
        default_factory=SshSettings, description="Where commands are run. By default on this machine."
    )
    timeout: Span = Field(
        default=40,
        description="How long one call may take, with all its commands. Busy controllers take many seconds; "
        "it stays below the deadline of the cycle.",
    )
    accounting: bool = Field(
        default=True,
        description="Whether the site has accounting, in which jobs are looked up that its queue no longer "
        "knows. Without it they count as lost after `gone_after`.",
    )
    gone_after: Span = Field(
        default=30 * MINUTE_S,
        description="How long a job may be missing from the queue and from accounting, without a last word "
        "of its pilots, until it counts as lost. Accounting can lag by minutes.",
    )
    offers: Mapping[Name, JobSettings] = Field(
        default_factory=dict, description="What jobs of one offer have otherwise, by name of the offer."
    )

    @model_validator(mode="after")
    def _agrees(self) -> BatchSettings:
        for sentence in self._contradictions(JobSettings.model_construct(**_said(self))):
            raise ValueError(sentence)
        for offer in self.offers:
            for sentence in self._contradictions(self.job(offer)):
                raise ValueError(f"the offer `{offer}`: {sentence}")
        return self

    @field_serializer("offers")
    def _only_what_was_said(self, offers: Mapping[str, JobSettings]) -> dict[str, dict[str, Any]]:
        """What an offer does not say is the site's, and must not come back as a default of its own."""
        return {name: table.model_dump(exclude_unset=True) for name, table in offers.items()}

    def _contradictions(self, job: JobSettings) -> Iterator[str]:
        for option in job.options:
            if why := option_refusal(self.dialect, option):
                yield f"`options`: {why}"

    def job(self, offer: str) -> JobSettings:
        """What is written for the offer goes before what is written for the site."""
        said, own = _said(self), self.offers.get(offer)
        for name in own.model_fields_set if own is not None else ():
            said[name] = getattr(own, name)
        return JobSettings.model_construct(**said)


class SlurmSettings(BatchSettings):
    """Slurm as a site."""

    dialect: ClassVar[str] = "slurm"


class PbsSettings(BatchSettings):
    """PBS Pro, OpenPBS or Torque as a site."""

    dialect: ClassVar[str] = "pbs"


class SgeSettings(BatchSettings):
    """Grid Engine as a site."""

    dialect: ClassVar[str] = "sge"


class LsfSettings(BatchSettings):
    """LSF as a site."""

    dialect: ClassVar[str] = "lsf"


class HtcondorSettings(BatchSettings):
    """Another pool of HTCondor as a site: pilots are jobs of it."""

    dialect: ClassVar[str] = "htcondor"


SETTINGS: dict[str, type[BatchSettings]] = {
    each.dialect: each for each in (SlurmSettings, PbsSettings, SgeSettings, LsfSettings, HtcondorSettings)
}


def needed_s(job: JobSettings, lifetime_s: int, *, grace_s: int = GRACE_S) -> int:
    """The time limit with which a pilot can live so long, and its jobs can end after that."""
    return lifetime_s + grace_s + MARGIN_S


def walltime_refusal(job: JobSettings, lifetime_s: int) -> str:
    """Why the pilots of an offer could not live as long as it says; empty where they can."""
    needed = needed_s(job, lifetime_s)
    if not job.walltime or job.walltime >= needed:
        return ""
    return (
        f"`{shown_duration(job.walltime)}` is too short for pilots that live {shown_duration(lifetime_s)}: "
        f"with what their jobs have to end in they need {shown_duration(needed)}"
    )


def cores_of(job: JobSettings, size: Resources) -> int:
    """Cores that are asked for, for one pilot."""
    cores = max(1, -(-size.cpu_milli // 1000))
    if job.memory_per_core:
        cores = max(cores, -(-memory_of(job, size) // job.memory_per_core))
    return cores


def memory_of(job: JobSettings, size: Resources) -> int:
    """Memory that is asked for, for one pilot, in MiB."""
    return -(-size.memory_mib * job.memory_percent // 100)


def _said(settings: JobSettings) -> dict[str, Any]:
    return {name: getattr(settings, name) for name in JobSettings.model_fields}


def _one_of(value: str, known: tuple[str, ...]) -> str:
    if value not in known:
        listed = " or ".join(f"`{each}`" for each in known)
        raise ValueError(f"must be {listed}")
    return value


def _python(value: str) -> str:
    return safe_path(value, "`python`") if value.startswith("/") else safe_word(value, "`python`")
