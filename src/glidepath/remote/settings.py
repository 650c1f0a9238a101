"""The table `[sites.NAME.KIND.ssh]` as a strict, frozen model: where commands are run, and how to get there.

Every field says its meaning and why its default is what it is: the reference page is made from that. What
looks like an option of ssh, or means something to it or to a shell, is refused here and gets no further.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from glidepath.config.fields import Span, Text
from glidepath.config.tables import HOUR_S, Table

_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?"
_ADDRESS = r"[0-9A-Fa-f:]{2,39}(?:%[A-Za-z0-9._-]{1,15})?"
_HOST = re.compile(rf"(?:{_NAME}|(?=[^%]*:){_ADDRESS})?")
_USER = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9_.+@-]{0,63})?")
_HOP = rf"(?:[A-Za-z0-9_][A-Za-z0-9_.+-]{{0,63}}@)?(?:{_NAME}|\[{_ADDRESS}\])(?::[0-9]{{1,5}})?"
_JUMP = re.compile(rf"(?:{_HOP}(?:,{_HOP}){{0,7}})?")
# ssh puts the values of `%` and `${}` into paths, and splits at quotes and blanks.
_FILE = re.compile(r"(?:(?:~/|/)[A-Za-z0-9_.,:+@=/-]{1,500})?")
SESSIONS_MAX = 64


def _fits(form: re.Pattern[str], what: str) -> AfterValidator:
    def check(value: str) -> str:
        if not form.fullmatch(value):
            raise ValueError(f"is {what}")
        return value

    return AfterValidator(check)


Host = Annotated[
    str, _fits(_HOST, "no name of a host: letters, digits, `.`, `-` and `_`, with a letter or digit first")
]
User = Annotated[
    str, _fits(_USER, "no name of a user: letters, digits and `_ . + @ -`, with no `-` and no dot first")
]
Jump = Annotated[str, _fits(_JUMP, "no way over other hosts; write `HOST` or `USER@HOST:PORT`, with commas")]
File = Annotated[
    str, _fits(_FILE, "no path of plain letters that begins with `/` or `~/`, without blanks and `%`")
]


class SshSettings(Table):
    """Where the commands of a site are run. They go over one connection, which is opened once and shared."""

    host: Host = Field(
        default="",
        description="Host on which the commands are run, as ssh knows it: a name, an address, or a `Host` of "
        "`~/.ssh/config`. Empty: this machine, without ssh.",
    )
    user: User = Field(default="", description="User there. Empty: as ssh is configured, else as here.")
    port: Annotated[int, Field(ge=1, le=65535)] | None = Field(
        default=None, description="Port of the server. Unset: as ssh is configured, else 22."
    )
    identity: File = Field(
        default="",
        description="File with the private key; no other is offered, so that no server counts useless ones "
        "as failures. Empty: what ssh is configured for, and the keys of the agent.",
    )
    config: File = Field(
        default="", description="File that ssh reads instead of `~/.ssh/config`. Empty: that one."
    )
    jump: Jump = Field(
        default="",
        description="Hosts over which the connection goes, as `ProxyJump` has them. Empty: as ssh is "
        "configured.",
    )
    login: Literal["key", "person"] = Field(
        default="key",
        description="Who opens the connection. `key`: glidepath by itself, whenever it needs one. `person`: "
        "somebody with a password or a second factor, by `glidepath site login`; glidepath then never tries "
        "by itself, so that it cannot lock an account.",
    )
    keep: Span = Field(
        default=8 * HOUR_S,
        description="How long the connection stays open while nothing is asked for. Eight hours span a "
        "working day; a running glidepath asks far more often.",
    )
    connect: Span = Field(
        default=20,
        description="How long the server may take to answer at first. Busy login nodes need several seconds.",
    )
    sessions: Annotated[int, Field(ge=1, le=SESSIONS_MAX)] = Field(
        default=8,
        description="Commands under way at once over the connection; more wait. Servers refuse more than "
        "their `MaxSessions`, which is 10 unless somebody changed it.",
    )
    path: Text = Field(
        default="",
        description="Folders with the commands of the batch system, such as `/opt/slurm/bin`, several with "
        "`:` between them; they go before the usual ones. Empty: the usual ones, which on a host are those "
        "that a command by ssh finds, and may be fewer than after a login.",
    )

    @model_validator(mode="after")
    def _agrees(self) -> SshSettings:
        if not self.host:
            said = [name for name in ("user", "port", "identity", "config", "jump") if getattr(self, name)]
            if said:
                raise ValueError(f"`{said[0]}` says how to reach a host, and no `host` is set")
        if self.path and not all(
            re.fullmatch(r"/[A-Za-z0-9_.+@/-]{0,500}", part) for part in self.path.split(":")
        ):
            raise ValueError("`path` must be absolute folders of plain letters, with `:` between them")
        return self
