"""The tables of one site: what it offers, when it is closed, and how patient we are with it.

Every field says its meaning and why its default is what it is: the reference page is made from that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AwareDatetime, Field, model_validator

from glidepath.config.fields import (
    AttributeName,
    Count,
    Cpus,
    Duration,
    Name,
    Positive,
    Price,
    Size,
    Span,
    Text,
    TraitName,
    Word,
)
from glidepath.config.tables import HOUR_S, MINUTE_S, LimitSettings, OwnTable, Table, with_own


class AmountSettings(Table):
    """An amount of compute; a part that is not set is zero."""

    cpus: Cpus = Field(
        default=0, description="CPUs, in thousandths at the finest. Zero: not bounded or not rounded."
    )
    memory: Size = Field(default=0, description="Memory. Zero: not bounded or not rounded.")
    disk: Size = Field(default=0, description="Scratch disk. Zero: not bounded or not rounded.")
    gpus: Count = Field(default=0, description="GPUs. Zero: not bounded or not rounded.")


class CondorSettings(Table):
    """What the pilots of an offer say and run in a pool of HTCondor, besides what glidepath says itself."""

    attributes: Mapping[AttributeName, Word | bool | int | float] = Field(
        default_factory=dict,
        description="Attributes of the slot that jobs may ask for, such as `{ HasCvmfs = true }`. By default "
        "none.",
    )
    start: Annotated[tuple[Word, ...], Field(strict=False)] = Field(
        default=(),
        description="Terms in the language of ClassAds, such as `TARGET.WantsGpu =?= true`; a pilot takes "
        "only jobs for which all of them hold, and none is started for others. By default none.",
    )
    lines: Annotated[tuple[Word, ...], Field(strict=False)] = Field(
        default=(),
        description="Lines that are added to the HTCondor configuration of a pilot. By default none.",
    )
    init: Text = Field(
        default="",
        description="A program on the worker that a pilot runs before it joins; where it fails the pilot "
        "leaves. By default none.",
    )


class OfferSettings(Table):
    """One kind of pilot that the site can start."""

    cpus: Cpus = Field(description="CPUs of a pilot; of the largest one where the offer is fitted.")
    memory: Size = Field(description="Memory of a pilot; of the largest one where the offer is fitted.")
    disk: Size = Field(
        default=0,
        description="Scratch disk of a pilot. By default none, so jobs that ask for disk do not fit.",
    )
    gpus: Count = Field(default=0, description="GPUs of a pilot. By default none.")
    traits: Mapping[TraitName, Word] = Field(
        default_factory=dict,
        description='What a pilot is besides its size, for example `{ arch = "x86_64" }`. By default '
        "nothing is said.",
    )
    lifetime: Span = Field(
        default=14 * HOUR_S,
        description="How long a pilot lives at most. Fourteen hours fit most jobs and most queues.",
    )
    idle: Span = Field(
        default=10 * MINUTE_S,
        description="How long a pilot stays without work before it leaves. Long enough to bridge a gap "
        "between jobs.",
    )
    price: Price = Field(
        default=0,
        description="Price of one pilot for an hour, in any currency; only compared among offers. By "
        "default free.",
    )
    weight: Positive = Field(
        default=100,
        description="Share of the demand that comes here, relative to the weights of other offers that fit.",
    )
    limits: LimitSettings = Field(
        default_factory=LimitSettings,
        description="Limits over the pilots of this offer. By default there are none.",
    )
    jobs: Literal["any", "cpu", "gpu"] = Field(
        default="any",
        description="Which jobs its pilots are started for and take: `cpu` only those that ask for no GPU, "
        "`gpu` only those that ask for one. By default all that fit.",
    )
    fitted: bool = Field(
        default=False,
        description="Whether each pilot is sized from the jobs it is started for, up to the size above. "
        "By default all pilots have the full size.",
    )
    community: Text = Field(
        default="",
        description="Only jobs that their schedd routed to this word are served, see the pool's `route`. "
        "By default jobs of every community and of none.",
    )
    owners: Annotated[tuple[Word, ...], Field(strict=False)] = Field(
        default=(),
        description="Owners whose jobs are served, where `*` stands for any letters. By default all.",
    )
    owners_refused: Annotated[tuple[Word, ...], Field(strict=False)] = Field(
        default=(), description="Owners whose jobs are not served, written like `owners`. By default none."
    )
    groups: Annotated[tuple[Word, ...], Field(strict=False)] = Field(
        default=(),
        description="Accounting groups whose jobs are served, written like `owners`. By default all.",
    )
    groups_refused: Annotated[tuple[Word, ...], Field(strict=False)] = Field(
        default=(),
        description="Accounting groups whose jobs are not served, written like `owners`. By default none.",
    )
    condor: CondorSettings = Field(
        default_factory=CondorSettings, description="What pilots say and run in a pool of HTCondor."
    )
    min: AmountSettings | None = Field(
        default=None,
        description="Fitted offers: the smallest pilot that is started. Unset: as small as the job.",
    )
    step: AmountSettings | None = Field(
        default=None,
        description="Fitted offers: sizes are rounded up to multiples of this. Unset: no rounding.",
    )
    choices: Mapping[TraitName, Annotated[tuple[Word, ...], Field(strict=False, min_length=1)]] = Field(
        default_factory=dict,
        description="Fitted offers: traits that are taken from the job, with the values that the site has, "
        "for example "
        '`{ gpu_type = ["a10", "a100"] }`. By default none.',
    )


class WindowSettings(Table):
    """A span in which the site is closed for maintenance."""

    start: AwareDatetime = Field(
        description="When the window begins: a TOML date and time with its offset, such as "
        "`2030-01-31T08:00:00+01:00`."
    )
    end: AwareDatetime = Field(description="When the window ends, written like `start`.")
    why: Text = Field(default="", description="What people are told about it. By default nothing.")


class SiteSettings(Table):
    """One place that can start pilots, and how patient we are with it."""

    kind: Word = Field(description="Which backend talks to the site, for example `local`.")
    pools: Annotated[tuple[Name, ...], Field(strict=False)] = Field(
        default=(),
        description="Pools whose jobs the site accepts. By default, and with an empty list, all of them.",
    )
    limits: LimitSettings = Field(
        default_factory=LimitSettings,
        description="Limits over all pilots of this site. By default there are none.",
    )
    pool_limits: Mapping[Name, LimitSettings] = Field(
        default_factory=dict,
        description="Limits over the pilots that one pool has here, by name of the pool, such as "
        "`{ campus = { live_max = 20 } }`. A pool that is not named has those of the site alone.",
    )
    on_exit: Literal["stop", "leave"] = Field(
        default="leave",
        description="What becomes of the pilots when glidepath is stopped: `stop` ends them, `leave` lets "
        "them work on. "
        "By default `stop` for kind `local`, where they would be left behind on this machine, and `leave` "
        "otherwise.",
    )
    stale_after: Span = Field(
        default=3 * MINUTE_S,
        description="A listing older than this is not acted on. A few missed readings are normal.",
    )
    listing_lag: Duration = Field(
        default=0,
        description="How far the site's listing trails its queue. By default it does not; sites with "
        "caches need it.",
    )
    appear_within: Span = Field(
        default=10 * MINUTE_S,
        description="How long a pilot that was asked for may stay unlisted before it is written off.",
    )
    missing_after: Span = Field(
        default=5 * MINUTE_S,
        description="How long a pilot may be missing from the listing before it is written off. "
        "One odd listing must not end it on the books.",
    )
    pending_max_age: Span = Field(
        default=6 * HOUR_S,
        description="A pilot that is pending for longer is withdrawn. Busy queues take hours, rarely more.",
    )
    patience: Duration = Field(
        default=15 * MINUTE_S,
        description="A pilot that is pending for longer no longer keeps others from being asked for "
        "elsewhere.",
    )
    failures_max: Positive = Field(
        default=5,
        description="Failures in a row after which an offer rests; twice as many rest the whole site. "
        "Fewer would react to bad luck.",
    )
    backoff: Span = Field(
        default=MINUTE_S,
        description="How long the breaker of an offer rests when it opens; each opening in a row doubles it.",
    )
    backoff_max: Span = Field(
        default=HOUR_S, description="The longest rest after failures, so that a mended site is found again."
    )
    refused_wait: Span = Field(
        default=10 * MINUTE_S,
        description="After a refusal, how long until one pilot is tried again. Refusals rarely mend "
        "themselves sooner.",
    )
    drain_lead: Duration = Field(
        default=HOUR_S,
        description="How long before a window the pilots that would outlive its start are drained.",
    )
    node_failures_max: Positive = Field(
        default=3, description="Failures in a row on one node after which that node alone is avoided."
    )
    quarantine: Duration = Field(
        default=HOUR_S, description="How long a bad node is avoided, after which it may have been mended."
    )
    repeat_within: Duration = Field(
        default=2 * MINUTE_S,
        description="How long something between glidepath and the site may still repeat a request to start a "
        "pilot. Until then the name of a pilot that ended or is not needed is left at the site, which knows "
        "by it that it has this one already. By default no time for kind `local`, where nothing is between, "
        "and for kind `called`, whose tickets keep anything from being repeated.",
    )
    share_lost_after: Duration = Field(
        default=0,
        description="How long a site may be unseen before pilots on their way there no longer keep others "
        "from being asked for elsewhere, whatever `patience` is left. They still count against limits. "
        "By default `patience` alone decides; for kind `called` it is ten minutes.",
    )
    offers: Mapping[Name, OfferSettings] = Field(
        default_factory=dict,
        description="The kinds of pilots that can be started here, by name; at least one is needed.",
    )
    windows: Annotated[tuple[WindowSettings, ...], Field(strict=False)] = Field(
        default=(), description="Spans in which the site is closed. By default none."
    )
    own: OwnTable = Field(
        default_factory=dict,
        description="The sub-table named like `kind`: keys that only this backend knows.",
    )

    @model_validator(mode="before")
    @classmethod
    def _own_apart(cls, raw: object) -> object:
        if isinstance(raw, dict) and raw.get("kind") == "local":
            raw = {"on_exit": "stop", "repeat_within": "0s", **raw}
        if isinstance(raw, dict) and raw.get("kind") == "called":
            raw = {"share_lost_after": "10m", "repeat_within": "0s", **raw}
        return with_own(raw, cls.model_fields)
