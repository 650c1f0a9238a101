"""The table `[pools.NAME.condor]` as a strict, frozen model: what a pool of HTCondor has to be told.

Every field says its meaning and why its default is what it is: the reference page is made from that. How
tokens are had is told in `tokens`, which has a model of its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, Field, ValidationError, field_validator

from glidepath.condor.slotad import ROUTE_DEFAULT
from glidepath.condor.tokens import TokenSettings
from glidepath.config.fields import AttributeName, Span, Text, Word
from glidepath.config.tables import MINUTE_S, Table
from glidepath.core.text import one_line

_COLLECTOR = re.compile(r"[A-Za-z0-9\[][A-Za-z0-9.:\[\]_-]*")
_SHA256 = re.compile(r"[0-9a-f]{64}")
COLLECTORS_MAX = 8
# HTCondor's own limits, that of CMS and other users of glideinWMS (in minutes), CERN's and DESY's.
RUN_TIME_DEFAULT = (
    *("AllowedExecuteDuration", "AllowedJobDuration"),
    *("MaxWallTimeMins", "MaxRuntime", "RequestRuntime"),
)


def _collectors(value: str) -> str:
    hosts = [host.strip() for host in value.split(",")]
    if len(hosts) > COLLECTORS_MAX or not all(_COLLECTOR.fullmatch(host) for host in hosts):
        raise ValueError("must be `HOST` or `HOST:PORT`, several with commas between them")
    return ",".join(hosts)


def _unaddressed(value: str) -> str:
    """Pilots refuse what they would fetch without a checksum; better said now than by each of them."""
    if value.startswith(("http://", "https://")):
        raise ValueError("an address needs a checksum; write both as `source` and `sha256` in `tarballs`")
    return value


def _digest(value: str) -> str:
    if not _SHA256.fullmatch(value):
        raise ValueError("must be the 64 letters that `sha256sum` prints")
    return value


def _token_table(value: Mapping[str, object]) -> Mapping[str, object]:
    """Checked here, so that a mistake is told with the others; used as it was written, by `tokens`."""
    try:
        TokenSettings.model_validate(dict(value))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ValueError(f"`{where}`: {one_line(first['msg'])}") from None
    return value


class ScheddSettings(Table):
    """Schedds that are trusted: both patterns must fit, from end to end; `*` stands for any letters."""

    name: Word = Field(default="*", description="Pattern for the schedd's name.")
    identity: Word = Field(
        default="condor@*",
        description="Pattern for the identity that the collector has checked. Daemons of a pool are `condor` "
        "in some domain; users are not.",
    )


class TarballSettings(Table):
    """HTCondor for workers of one operating system and architecture."""

    source: Word = Field(description="Path on the worker, or address, of the tarball.")
    sha256: Annotated[str, AfterValidator(_digest)] = Field(
        description="Its checksum, as `sha256sum` prints it; a tarball with another one is not unpacked."
    )


class CondorSettings(Table):
    """A pool of HTCondor: where it is, whom to believe, how its jobs are understood."""

    collector: Annotated[Word, AfterValidator(_collectors)] = Field(
        description="Host of the collector, with `:PORT` where that is not 9618; several with commas."
    )
    schedds: Annotated[tuple[ScheddSettings, ...], Field(strict=False)] = Field(
        default=(ScheddSettings(),),
        min_length=1,
        description="Which schedds are asked for jobs. By default all that the pool's own daemons advertise; "
        "one that a user could advertise is not believed.",
    )
    identity: Text = Field(
        default="",
        description="Pattern for the identity of our pilots. Slots that call themselves ours and are signed "
        "by others are ignored and counted. Unset, it is `glidepath*` in the trust domain.",
    )
    trust_domain: Text = Field(
        default="", description="The pool's TRUST_DOMAIN. Unset, pilots of every domain are believed."
    )
    token_folder: Text = Field(
        default="",
        description="Folder with our own token for reading from the pool, where it asks for one. Its files "
        "may be links, as those of a mounted Secret are, and may be replaced at any time. Unset, HTCondor's "
        "usual places.",
    )
    route: AttributeName = Field(
        default=ROUTE_DEFAULT,
        description="Attribute of jobs that names their community. The schedd must set it from the owner and "
        "keep users from changing it; the default is what the PRP uses.",
    )
    run_time: Annotated[tuple[AttributeName, ...], Field(strict=False)] = Field(
        default=RUN_TIME_DEFAULT,
        max_length=20,
        description="Attributes in which jobs state how long they may run, in seconds, or in minutes where "
        "the name ends in `Mins`. The shortest counts.",
    )
    full_every: Span = Field(
        default=2 * MINUTE_S,
        description="Longest time between two full reads of a queue. Between them only what changed is asked "
        "for; a change that leaves no trace there is seen this late.",
    )
    deadline: Span = Field(
        default=25,
        description="How long one question to a schedd or the collector may take. Below the deadline of the "
        "cycle, so that the others are heard.",
    )
    forget_after: Span = Field(
        default=20 * MINUTE_S,
        description="A schedd that the collector no longer lists is still asked for this long, since a "
        "restarted collector lists nobody.",
    )
    grace: Span = Field(
        default=20 * MINUTE_S,
        description="How long running jobs of a pilot that ends may take to finish. Tokens last as much "
        "longer.",
    )
    htcondor: Annotated[Word, AfterValidator(_unaddressed)] = Field(
        default="machine",
        description="Where pilots find HTCondor: `machine` for what is installed on the worker or in its "
        "container, or the path there of a tarball or an unpacked one. An address stands in `tarballs`, with "
        "its checksum.",
    )
    tarballs: Mapping[Word, TarballSettings] = Field(
        default_factory=dict,
        description="Tarballs by operating system and architecture, such as `Rocky9-x86_64`, each with its "
        "checksum; used instead of `htcondor`.",
    )
    tokens: Mapping[str, object] = Field(
        default_factory=dict,
        description="How pilots get their tokens: `file` or `folder` where they are supplied, else minted by "
        "`mint`; also `key`, `each` and `wait`.",
    )


class CheckedSettings(CondorSettings):
    """The same as it stands in a file: the table of tokens is checked with all others."""

    @field_validator("tokens")
    @classmethod
    def _tokens_checked(cls, value: Mapping[str, object]) -> Mapping[str, object]:
        return _token_table(value)
