"""The settings of notices: which ways out there are, how many messages, and which networks they may reach.

People say where they want them; what is here is the operator's, and by default nothing is sent.
"""

from __future__ import annotations

import ipaddress
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from glidepath.config.address import checked_mail, loopback
from glidepath.config.fields import Positive, Span, Text, Word
from glidepath.config.tables import DAY_S, MINUTE_S, Table

# What stands for no place at all, or for whatever is at this very machine's cable.
_NO_NETWORK = tuple(
    ipaddress.ip_network(text)
    for text in ("0.0.0.0/8", "169.254.0.0/16", "224.0.0.0/3", "::/128", "fe80::/10", "ff00::/8")
)
PER_HOUR_MAX = 10_000


def _network(text: str) -> str:
    try:
        found = ipaddress.ip_network(text)
    except ValueError:
        raise ValueError("must be a network such as `10.20.0.0/16` or `fd00:1::/32`") from None
    for no in _NO_NETWORK:
        if found.version == no.version and found.overlaps(no):
            raise ValueError(f"must not hold addresses of `{no}`, where no webhook can be")
    return str(found)


def _server(text: str) -> str:
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 1 <= int(port) <= 65535 or " " in text:
        raise ValueError("must be a server and its port, such as `mail.example.org:587`")
    return text


def _domain(text: str) -> str:
    checked_mail(f"somebody@{text}")
    return text.lower()


Network = Annotated[str, AfterValidator(_network)]
Networks = Annotated[tuple[Network, ...], Field(strict=False)]


class SmtpSettings(Table):
    """The server that takes mail of notices, and to whom they may go."""

    server: Annotated[Word, AfterValidator(_server)] = Field(
        description="The server and its port, such as `mail.example.org:587`."
    )
    sender: Annotated[str, AfterValidator(checked_mail)] = Field(
        description="The address that notices come from."
    )
    security: Literal["starttls", "tls", "none"] = Field(
        default="starttls",
        description="How the connection is kept secret: turned to TLS after the first words, TLS from the "
        "beginning (port 465), or not at all. The server's certificate is checked.",
    )
    user: Text = Field(default="", description="The name to log in with. By default nobody logs in.")
    password_file: Text = Field(
        default="",
        description="The file with the password, which nobody else may read (`chmod 600`). It is read at "
        "each message, so that it may be replaced.",
    )
    ca_file: Text = Field(
        default="",
        description="Certificates that the server's is checked with. By default the system's.",
    )
    domains: Annotated[tuple[Annotated[str, AfterValidator(_domain)], ...], Field(strict=False)] = Field(
        default=(),
        description="What may stand behind the `@` of addresses that people name. By default the domain of "
        "`sender` alone, so that nobody has strangers written to.",
    )

    @model_validator(mode="after")
    def _agrees(self) -> SmtpSettings:
        if bool(self.user) != bool(self.password_file):
            raise ValueError("needs both `user` and `password_file`, or neither")
        if self.user and self.security == "none" and not loopback(self.server.rpartition(":")[0].strip("[]")):
            raise ValueError('must not send a password in the open; take `security = "starttls"` or `"tls"`')
        return self

    @property
    def to_domains(self) -> tuple[str, ...]:
        return self.domains or (self.sender.rpartition("@")[2].lower(),)


class NoticesSettings(Table):
    """Notices to people about their jobs. By default none are sent."""

    webhooks: bool = Field(
        default=False,
        description="Whether people may have notices posted to an address of their choice. By default not: "
        "this glidepath would call whatever they name.",
    )
    networks: Networks = Field(
        default=(),
        description="Private networks that webhooks may be in, such as `10.20.0.0/16`; there plain `http` "
        "will do. By default none: who may name an address here could else reach what only this machine can.",
    )
    closed: Networks = Field(
        default=(),
        description="Public networks that webhooks may not be in, such as those of one's own machine room.",
    )
    ca_file: Text = Field(
        default="",
        description="Certificates that those of webhooks are checked with. By default the system's.",
    )
    smtp: SmtpSettings | None = Field(
        default=None, description="The server for mail. By default none, and nobody gets mail."
    )
    per_hour: Annotated[Positive, Field(le=PER_HOUR_MAX)] = Field(
        default=30,
        description="How many messages one person is sent in an hour at most. What comes beyond waits, and "
        "is told in one message when the hour is over.",
    )
    ahead: Span = Field(
        default=10 * MINUTE_S,
        description="So long before a job reaches its time limit its owner is told that time is almost out. "
        "Jobs submitted with `--notice` are told when they get their signal.",
    )
    give_up: Span = Field(
        default=3 * DAY_S,
        description="An address that took nothing for so long is switched off, and its owner is told. A "
        "long weekend is no reason to lose it.",
    )

    @property
    def on(self) -> bool:
        return self.webhooks or self.smtp is not None
