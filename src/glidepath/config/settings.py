"""The tables of `glidepath.toml` as strict, frozen models; what is not named here is refused.

Every field says its meaning and why its default is what it is: the reference page is made from that.
The models know nothing of files and lines, and nothing of each other's names; `checks` compares them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from glidepath.config.accounting import AccountingSettings
from glidepath.config.cluster import ClusterSettings, PartitionSettings
from glidepath.config.fields import COUNT_MAX, Amount, Duration, Name, Positive, Size, Span, Text, Word
from glidepath.config.notices import NoticesSettings
from glidepath.config.oidc import OidcSettings
from glidepath.config.problems import did_you_mean
from glidepath.config.site import SiteSettings
from glidepath.config.tables import DAY_S, MINUTE_S, LimitSettings, Own, OwnTable, Table, only_own, with_own
from glidepath.core.provision.offer import First
from glidepath.core.text import one_line
from glidepath.core.units import duration_s

_STORE_URL = re.compile(r"(sqlite|postgresql(\+psycopg)?)://.*")
_PASSWORD = re.compile(r"[^/]*://[^/@]*:[^/@]*@|.*[?&]password=", re.IGNORECASE)


def _store_url(url: str) -> str:
    if not _STORE_URL.fullmatch(url) or not url.isprintable():
        raise ValueError("must be `sqlite:///FILE` or `postgresql://USER@HOST/NAME`")
    # This file is read by many and printed by `glidepath config show`; a password here would leak.
    if _PASSWORD.match(url):
        raise ValueError("must not hold a password; put it into `~/.pgpass` or `PGPASSWORD`")
    return url


def _order(word: str) -> str:
    known = [first.value for first in First]
    if word.removeprefix("-") not in known:
        near = did_you_mean(word.removeprefix("-"), known)
        listed = ", ".join(f"`{each}`" for each in known)
        raise ValueError(
            f"`{one_line(word)}` is no order; {near or f'there are {listed}, each also with `-`'}"
        )
    return word


class StoreSettings(Table):
    """Where the journal and the jobs are kept, and for how long."""

    url: Annotated[str, AfterValidator(_store_url)] | None = Field(
        default=None,
        description="Address of the store: `sqlite:///FILE` or `postgresql://USER@HOST/NAME`, without a "
        "password. "
        "Unset, it is an SQLite file in the home folder, because that needs no set-up.",
    )
    retention: Span = Field(
        default=30 * DAY_S,
        description="How long cycles are kept in the journal. A month answers most questions of why.",
    )
    cycles_max: Positive = Field(
        default=1_000_000,
        description="How many cycles are kept at most, whatever their age, so that the store stays within "
        "a few GB.",
    )


class KeepSettings(Table):
    """How long jobs that are over are kept, and what belongs to them. Each is removed some time after."""

    jobs: Span = Field(
        default=90 * DAY_S,
        description="How long a job that is over can be listed and shown, with its ranks and events, counted "
        "from its end. Three months are a quarter's report. A job that one which is not over stands `beside` "
        "stays for as long.",
    )
    logs: Span = Field(
        default=30 * DAY_S,
        description="How long what a job wrote is kept, counted from its end; never longer than the job. "
        "Logs are most of what a home holds.",
    )
    log_size: Annotated[Size, Field(ge=1)] = Field(
        default=1024,
        description="How much is kept of each output of each rank of a placed job: the first quarter of this "
        "from its beginning, the rest of what came last. What lies between goes while the job runs. A GiB "
        "holds what people read, and few jobs together fill a disk.",
    )
    client_keys: Span = Field(
        default=7 * DAY_S,
        description="How long a client key is known at least, counted from its submission; never longer than "
        "the job. Within this time the same submission gives the same job, and later it may give a new one. "
        "It must outlive every client that tries again: a week is longer than a weekend's outage.",
    )

    @model_validator(mode="after")
    def _within_the_job(self) -> KeepSettings:
        for name, span_s in (("logs", self.logs), ("client_keys", self.client_keys)):
            if span_s > self.jobs:
                raise ValueError(f"`{name}` must not be longer than `jobs`, which they belong to")
        return self


class CycleSettings(Table):
    """How often glidepath looks and decides."""

    min: Span = Field(
        default=10,
        description="Shortest time between two cycles; a change wakes the next one, but never sooner than "
        "this. "
        "Sites and pools are spared more frequent questions.",
    )
    max: Span = Field(
        default=2 * MINUTE_S,
        description="Longest time between two cycles when nothing changes. Bounds how late a silent change "
        "is seen.",
    )
    deadline: Span = Field(
        default=MINUTE_S,
        description="How long one cycle waits for its sources; what has not answered by then counts as "
        "unseen, "
        "so that one slow site does not hold up the others.",
    )


class PilotSettings(Table):
    """What holds for pilots of all sites."""

    withdraw_after: Duration = Field(
        default=2 * MINUTE_S,
        description="A pending pilot is taken back when no job has needed it for this long. "
        "Shorter spans throw away places in a site's queue at each ripple of demand.",
    )
    left_min: Duration = Field(
        default=5 * MINUTE_S,
        description="A free pilot with less life left than this counts as no supply, since few jobs would "
        "finish.",
    )
    join_slack: Duration = Field(
        default=2 * MINUTE_S,
        description="What passes of a pilot's life before its first job can start: joining the pool and "
        "being matched. An offer must outlive a job's stated run time by this much to be asked for it; "
        "without it a pilot could be started for a job that it can never take.",
    )
    useful_min: Duration = Field(
        default=15 * MINUTE_S,
        description="A pilot that could live less than this before a maintenance window is not started; "
        "starting it would cost more than it does.",
    )


def _number(value: object) -> int:
    if isinstance(value, str):
        return duration_s(one_line(value))
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= COUNT_MAX:
        raise ValueError(f'must be a whole number from 0 to {COUNT_MAX} or a duration such as `"5m"`')
    return value


class PolicySettings(Table):
    """The rule by which pressure follows demand, and the numbers of that rule."""

    name: Word = Field(
        default="steady", description="Which policy decides. `steady` suits most sites; see the list below."
    )
    numbers: Annotated[Mapping[str, Annotated[int, BeforeValidator(_number)]], BeforeValidator(only_own)] = (
        Field(
            default_factory=dict,
            description="The policy's own numbers, written directly in `[policy]`: whole numbers as they "
            "are (`nmin = 5`), "
            'durations as text (`release_after = "5m"`), which the policy knows in seconds as '
            "`release_after_s`. "
            "Unset ones have the policy's own defaults.",
        )
    )

    @model_validator(mode="before")
    @classmethod
    def _numbers_apart(cls, raw: object) -> object:
        if not isinstance(raw, dict):
            return raw
        numbers = Own()
        for key, value in raw.items():
            if key == "name":
                continue
            seconds_key = f"{key}_s" if isinstance(value, str) else key
            if seconds_key in numbers:
                raise ValueError(f"`{one_line(key)}` is given twice, as a duration and in seconds")
            numbers[seconds_key] = value
        name = {"name": raw["name"]} if "name" in raw else {}
        return {**name, "numbers": numbers}


def named_by_collector(raw: Any) -> Any:
    """`collector = "cm.example.org"` in a pool's table is short for the kind `condor` with that collector."""
    if not isinstance(raw, dict) or "collector" not in raw or raw.get("kind", "condor") != "condor":
        return raw
    own = raw.get("condor", {})
    if not isinstance(own, dict):
        return raw
    if "collector" in own:
        raise ValueError("`collector` is given twice, here and in the table `condor`")
    rest = {key: value for key, value in raw.items() if key != "collector"}
    return {**rest, "kind": "condor", "condor": {"collector": raw["collector"], **own}}


class PoolSettings(Table):
    """One pool that pilots join."""

    kind: Word = Field(
        description="Which kind of pool this is: `embedded`, or `condor` for one of HTCondor. May be left "
        "out where `collector` is given."
    )
    limits: LimitSettings = Field(
        default_factory=LimitSettings,
        description="Limits over all pilots of this pool. By default there are none.",
    )
    stale_after: Span = Field(
        default=3 * MINUTE_S,
        description="Demand and slots older than this are not acted on. A few missed readings are normal, "
        "more are not.",
    )
    hold: Duration = Field(
        default=10 * MINUTE_S,
        description="Demand that cannot be seen is held this long at its last value, so that a short outage "
        "takes no pilots away.",
    )
    decay: Duration = Field(
        default=10 * MINUTE_S,
        description="After `hold`, unseen demand falls to nothing over this span, since old demand is "
        "mostly gone.",
    )
    silent_after: Span = Field(
        default=15 * MINUTE_S,
        description="A pilot that had joined and was not heard of for this long counts as unknown, not as "
        "gone. "
        "Pools forget a worker after about as long.",
    )
    own: OwnTable = Field(
        default_factory=dict,
        description="The sub-table named like `kind`: keys that only this kind of pool knows. For a pool of "
        "HTCondor, `collector` may also stand in the pool's own table, as it is often the only one.",
    )

    @model_validator(mode="before")
    @classmethod
    def _own_apart(cls, raw: object) -> object:
        return with_own(named_by_collector(raw), cls.model_fields)


class OwnerSettings(Table):
    """What one owner of jobs may have."""

    limits: LimitSettings = Field(
        default_factory=LimitSettings,
        description="Limits over the pilots started for this owner's jobs. By default there are none.",
    )


class BudgetSettings(Table):
    """What pilots may cost together in a period, at the prices of their offers."""

    amount: Amount = Field(
        description="What pilots may cost in one period, in the currency of `price`: for the time in which "
        "they are in their pool. A pilot that lives is counted with all that it can still cost, so that this "
        "is never exceeded; what it leaves unused is free again when it is over."
    )
    per: Literal["day", "week", "month"] = Field(
        default="month",
        description="How long a period is: a day, a week from Monday, or a month, in UTC. Budgets mostly "
        "come by the month.",
    )
    sites: Annotated[tuple[Name, ...], Field(strict=False)] = Field(
        default=(), description="The sites whose pilots it pays for. By default all."
    )


def _listen(text: str) -> str:
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 <= int(port) <= 65535 or not text.isprintable():
        raise ValueError("must be an address and a port such as `127.0.0.1:8787` or `[::]:8787`")
    return text


class ServeSettings(Table):
    """The server: sites that can only call out call it, and people submit jobs to it by HTTP."""

    listen: Annotated[str, AfterValidator(_listen)] | None = Field(
        default=None,
        description="Address and port that agents call, such as `0.0.0.0:8787`. Unset, `glidepath up` serves "
        "nothing, because a port that nobody needs should not be open.",
    )
    certificate: Text = Field(
        default="",
        description="File with the server's certificate, for `https`. Unset, it speaks plain `http`: then "
        "put it behind something that adds `https`, or listen on this machine alone.",
    )
    key: Text = Field(default="", description="File with the key of the certificate.")
    calls_per_minute: Positive = Field(
        default=60,
        description="How often one site may call in a minute; more is answered with 429. An agent calls "
        "twice a minute, and a few times in a row after it did something.",
    )
    person_calls_per_minute: Positive = Field(
        default=6000,
        description="How often one person may call the API of jobs in a minute; more is answered with 429. "
        "A script that submits one job after the other gets along with a hundred a second.",
    )
    open: bool = Field(
        default=False,
        description="Whether `/jsonrpc` without a token shows the whole demand to everybody, and `/` a page "
        "of it, as the server of pyglidein did. By default not: each client has an address of its own.",
    )
    drops: Mapping[Name, Text] = Field(
        default_factory=dict,
        description="For sites that cannot reach the server at all: the folder of each, in which the files "
        "of its agent arrive and are answered. By default none.",
    )
    oidc: OidcSettings | None = Field(
        default=None,
        description="An OIDC provider whose tokens people may show. By default none: people show the tokens "
        "of `glidepath person issue`.",
    )


class Settings(Table):
    """Everything that can be configured."""

    store: StoreSettings = Field(default_factory=StoreSettings, description="Where things are kept.")
    keep: KeepSettings = Field(
        default_factory=KeepSettings, description="How long jobs that are over are kept."
    )
    accounting: AccountingSettings = Field(
        default_factory=AccountingSettings, description="What placed jobs are charged."
    )
    cycle: CycleSettings = Field(default_factory=CycleSettings, description="How often glidepath decides.")
    pilots: PilotSettings = Field(default_factory=PilotSettings, description="What holds for all pilots.")
    policy: PolicySettings = Field(default_factory=PolicySettings, description="How pressure follows demand.")
    limits: LimitSettings = Field(
        default_factory=LimitSettings, description="Limits over all pilots of all sites."
    )
    first: Annotated[tuple[Annotated[str, AfterValidator(_order)], ...], Field(strict=False)] = Field(
        default=(),
        description="What is served before the rest where not all can be: `gpus`, `cpus`, `memory` or `disk` "
        "of which a job asks for most, `oldest` for who has waited longest, `jobs` for what most wait; with "
        "`-` in front, such as `-memory`, for least. What is equal in the first is told apart by the second. "
        "By default none: what most sites can serve comes last.",
    )
    serve: ServeSettings = Field(
        default_factory=ServeSettings, description="The demand server for sites that call."
    )
    notices: NoticesSettings = Field(
        default_factory=NoticesSettings, description="What people are told of their jobs, and how."
    )
    pools: Mapping[Name, PoolSettings] = Field(
        default_factory=dict, description="The pools that pilots join."
    )
    partitions: Mapping[Name, PartitionSettings] = Field(
        default_factory=dict,
        description="The places that jobs are submitted to with `glidepath job submit`; an embedded pool "
        "without one has one of its own name.",
    )
    clusters: Mapping[Name, ClusterSettings] = Field(
        default_factory=dict, description="The clusters that glidepath places jobs on."
    )
    owners: Mapping[Word, OwnerSettings] = Field(
        default_factory=dict, description="Limits of single owners of jobs."
    )
    budgets: Mapping[Name, BudgetSettings] = Field(
        default_factory=dict, description="What pilots may cost, by the budget's name. By default anything."
    )
    sites: Mapping[Name, SiteSettings] = Field(
        default_factory=dict, description="The places that start pilots."
    )
