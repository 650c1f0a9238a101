"""The settings of an agent, in a file of its own at its site: TOML comes in, a checked table goes out.

Written by the site's admin, who may know nothing of the provisioner's configuration, and read by nobody else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, AwareDatetime, Field, ValidationError, model_validator

from glidepath.config.address import checked_url
from glidepath.config.checks import check_kind, own_values
from glidepath.config.fields import Name, Span, Text, Word
from glidepath.config.files import read_source
from glidepath.config.problems import ConfigError, Problem, shown_key
from glidepath.config.tables import MINUTE_S, LimitSettings, OwnTable, Table, with_own
from glidepath.config.wording import findings_of
from glidepath.plugins import BACKENDS, Catalog, Installed

POLL_S = 30


def _server(url: str) -> str:
    example, why = "https://glidepath.example.org", "the token would be read on the way"
    return checked_url(url, example=example, why=why).rstrip("/")


class DowntimeSettings(Table):
    """A span in which the site is closed."""

    start: AwareDatetime = Field(
        description="When it begins: a TOML date and time with its offset, by the clock of this machine."
    )
    end: AwareDatetime = Field(description="When it ends, written like `start`.")
    why: Text = Field(default="", description="What people are told about it. By default nothing.")


class AgentSettings(Table):
    """What an agent needs to know: whom it calls, as which site, and what starts pilots here."""

    site: Name = Field(description="The name of the site, as the server's configuration has it.")
    server: Annotated[str, AfterValidator(_server)] | None = Field(
        default=None,
        description="Address of the demand server. Without `https` only on this machine itself. Unset "
        "where files are exchanged instead, see `drop`.",
    )
    drop: Text = Field(
        default="",
        description="A folder through which signed files are exchanged, where the server cannot be reached "
        "at all. By default none.",
    )
    token_file: Word = Field(
        description="The file with the site's token, readable by its owner alone. A relative path starts at "
        "this file's folder."
    )
    ca_file: Text = Field(
        default="", description="Certificates that the server's is checked with. By default the system's."
    )
    poll: Span = Field(
        default=POLL_S,
        description="How often the agent calls. The server may ask for less often, never for more.",
    )
    poll_max: Span = Field(
        default=10 * MINUTE_S,
        description="How long the agent waits at most between two calls while the server is not there.",
    )
    timeout: Span = Field(default=30, description="How long one call may take.")
    kind: Word = Field(description="Which backend starts pilots here, for example `slurm` or `local`.")
    limits: LimitSettings = Field(
        default_factory=LimitSettings,
        description="The site's own limits, whatever the server asks for. By default there are none.",
    )
    downtimes: Annotated[tuple[DowntimeSettings, ...], Field(strict=False)] = Field(
        default=(), description="Spans in which the site is closed. By default none."
    )
    own: OwnTable = Field(
        default_factory=dict,
        description="The sub-table named like `kind`: keys that only this backend knows.",
    )

    @model_validator(mode="before")
    @classmethod
    def _own_apart(cls, raw: object) -> object:
        return with_own(raw, cls.model_fields)

    @model_validator(mode="after")
    def _one_way(self) -> AgentSettings:
        if bool(self.server) == bool(self.drop):
            raise ValueError("needs either `server` or `drop`")
        if self.kind == "called":
            raise ValueError("`kind` cannot be `called`: an agent starts pilots itself")
        return self


@dataclass(frozen=True, slots=True)
class LoadedAgent:
    """Settings that passed every check, and where they stand."""

    settings: AgentSettings
    path: Path

    @property
    def token_path(self) -> Path:
        return self.path.parent / Path(self.settings.token_file).expanduser()

    @property
    def drop_path(self) -> Path:
        return self.path.parent / Path(self.settings.drop).expanduser()


def load_agent(path: Path, *, catalog: Catalog | None = None) -> LoadedAgent:
    """The settings of the file; raises `ConfigError` with all problems."""
    source = read_source(path)
    if isinstance(source, Problem):
        raise ConfigError((source,))
    tables: dict[str, Any] = dict(source.tables)
    found = list(check_kind((), tables, BACKENDS, catalog or Installed()))
    settings = None
    try:
        settings = AgentSettings.model_validate(tables)
    except ValidationError as error:
        found = [*findings_of(error, AgentSettings, ()), *found]
    if found or settings is None:
        raise ConfigError(
            tuple(
                Problem(source.file, source.lines.of(each.loc), shown_key(each.loc), each.message, each.hint)
                for each in dict.fromkeys(found)
            )
        )
    return LoadedAgent(settings, path)


def agent_kind_settings(settings: AgentSettings, *, catalog: Catalog | None = None) -> Mapping[str, object]:
    """The backend's own keys as its plug-in validated them, with its defaults."""
    return own_values((catalog or Installed()).load(BACKENDS, settings.kind), settings.own)


__all__ = ["AgentSettings", "LoadedAgent", "agent_kind_settings", "load_agent"]
