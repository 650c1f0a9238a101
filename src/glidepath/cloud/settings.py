"""The table `[sites.NAME.cloud]` as a strict, frozen model: how a cloud is spoken to, and what it answers.

Every field says its meaning and why its default is what it is: the reference page is made from that.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from glidepath.cloud.answers import check_items, check_path
from glidepath.cloud.places import (
    OF_JOB,
    OF_KEY,
    OF_PILOT,
    OF_SECRETS,
    Form,
    check_body,
    check_template,
)
from glidepath.config.fields import Count, Name, Positive, Size, Span, Text, Word
from glidepath.config.tables import MINUTE_S, Table
from glidepath.core.provision.pilot import SiteState

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_HEADER = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,99}")
_PATH_LETTERS = re.compile(r"/[A-Za-z0-9_.~!$&'()*+,;=:@/?{}-]{0,1000}")
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
OURS_NEVER = frozenset({"PATH", "HOME", "LD_PRELOAD", "LD_LIBRARY_PATH"})
# What a header cannot be: it would say where one request ends and the next begins.
HEADERS_NEVER = frozenset({"host", "content-length", "transfer-encoding", "connection", "content-type"})

TOKENS = {**OF_PILOT, **OF_SECRETS}
# A request goes elsewhere: paths of files on this machine mean nothing there.
OF_BODY = {place: form for place, form in TOKENS.items() if place not in ("file", "token_file")}


def _fits(form: re.Pattern[str], what: str) -> AfterValidator:
    def check(value: str) -> str:
        if not form.fullmatch(value):
            raise ValueError(f"is {what}")
        return value

    return AfterValidator(check)


def _words(known: Mapping[str, Form]) -> AfterValidator:
    def check(words: tuple[str, ...]) -> tuple[str, ...]:
        for number, word in enumerate(words):
            check_template(word, known if number else {}, word=True)
        if words and (not words[0] or words[0].startswith("-")):
            raise ValueError("must begin with the name of a program")
        return words

    return AfterValidator(check)


def _more_words(words: tuple[str, ...]) -> tuple[str, ...]:
    for word in words:
        check_template(word, OF_PILOT, word=True)
    return words


def _variables(env: Mapping[str, str]) -> Mapping[str, str]:
    for name, value in env.items():
        if name in OURS_NEVER:
            raise ValueError(f"`{name}` decides which programs are run; set it where glidepath is started")
        check_template(value, {**TOKENS, **OF_KEY})
    return env


def _headers(headers: Mapping[str, str]) -> Mapping[str, str]:
    for name, value in headers.items():
        if name.lower() in HEADERS_NEVER:
            raise ValueError(f"`{name}` is set by glidepath itself; remove it")
        check_template(value, OF_KEY)
    return headers


Variable = Annotated[str, _fits(_VARIABLE, "no name of a variable")]
Header = Annotated[str, _fits(_HEADER, "no name of a header")]
SubmitWords = Annotated[tuple[str, ...], Field(strict=False, min_length=1), _words(OF_PILOT)]
MoreWords = Annotated[tuple[str, ...], Field(strict=False), AfterValidator(_more_words)]
ListWords = Annotated[tuple[str, ...], Field(strict=False, min_length=1), _words({})]
JobWords = Annotated[tuple[str, ...], Field(strict=False), _words(OF_JOB)]
DeleteWords = Annotated[tuple[str, ...], Field(strict=False, min_length=1), _words(OF_JOB)]
ItemsPath = Annotated[str, AfterValidator(check_items)]
FieldPath = Annotated[str, AfterValidator(check_path)]
ApiPath = Annotated[str, _fits(_PATH_LETTERS, "no path: it begins with `/` and has no blank and no `#`")]
State = Literal["pending", "running", "leaving", "ended", "failed", "unknown"]


class CommandSettings(Table):
    """The cloud's own program on this machine: words with places, each filled by one checked value.

    No shell is between: a place is always inside one word, and no value can be taken for an option.
    """

    submit: SubmitWords = Field(
        description='Queues a container, such as `["lcli", "job", "run", "--name", "{name}"]`. What it '
        "prints is not read: its job is found again by name."
    )
    submit_gpus: MoreWords = Field(
        default=(), description="Words that are added for a pilot with GPUs. By default none."
    )
    list: ListWords = Field(description="Prints all jobs in the form that `listing` describes.")
    show: JobWords = Field(
        default=(),
        description="Prints the job `{id}` alone, in the same form. By default all are listed for that.",
    )
    delete: DeleteWords = Field(
        description="Takes the job `{id}` out of the listing; it ends one that runs if `cancel` is not set."
    )
    cancel: JobWords = Field(
        default=(), description="Ends the job `{id}` and leaves it in the listing. By default as `delete`."
    )
    drain: JobWords = Field(
        default=(),
        description="Tells the pilot in the job `{id}` to take nothing new, for example by sending its "
        "container SIGUSR1. By default it cannot be told, and leaves when it is idle.",
    )
    logs: JobWords = Field(
        default=(), description="Prints the output of the job `{id}`. By default there is none to be had."
    )
    env: Annotated[Mapping[Variable, str], AfterValidator(_variables)] = Field(
        default_factory=dict,
        description='Variables of these programs, such as `{ EXAMPLE_API_KEY = "{key}" }`. Only here, and '
        "never in words, may stand `{key}`, `{bundle}` and `{token}`; what tells of a pilot is set only for "
        "`submit`.",
    )
    refused: Annotated[tuple[Word, ...], Field(strict=False)] = Field(
        default=("quota", "not authorized", "forbidden", "invalid", "unknown image"),
        description="Where a failed `submit` prints one of these, in any case, asking again would not help.",
    )
    gone: Annotated[tuple[Word, ...], Field(strict=False)] = Field(
        default=("job not found", "no such job", "does not exist"),
        description="Where another failed command prints one of these, the job is gone.",
    )


class EndpointSettings(Table):
    """One request: `submit`, `list`, `show`, `delete`, `cancel`, `drain` and `logs` are such tables."""

    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"] = Field(description="Its method.")
    path: ApiPath = Field(
        description="Path below `url`, with its query where there is one; places in it are quoted."
    )
    body: Mapping[str, Any] = Field(
        default_factory=dict,
        description='Document that is sent as JSON; texts have places. `"{cpus}"` becomes the number, '
        '`"{cpus:text}"` a text. By default none is sent.',
    )
    body_gpus: Mapping[str, Any] = Field(
        default_factory=dict,
        description="Keys that are added for a pilot with GPUs, one level deep. By default none.",
    )


class RestSettings(Table):
    """A small REST API that speaks JSON."""

    url: Word = Field(
        description="Where it is: `https://HOST`, and a path before all others if there is one."
    )
    ca_file: Text = Field(
        default="", description="File of authorities that are believed. Empty: those of this machine."
    )
    headers: Annotated[Mapping[Header, str], AfterValidator(_headers)] = Field(
        default_factory=dict,
        description='Headers of every request, such as `{ Authorization = "Bearer {key}" }`.',
    )
    submit: EndpointSettings = Field(description="Queues a container.")
    list: EndpointSettings = Field(description="Answers all jobs, or a page of them.")
    show: EndpointSettings | None = Field(default=None, description="Answers the job `{id}` alone.")
    delete: EndpointSettings = Field(description="Takes the job `{id}` out of the listing.")
    cancel: EndpointSettings | None = Field(
        default=None, description="Ends the job `{id}` and leaves it in the listing. Unset: as `delete`."
    )
    drain: EndpointSettings | None = Field(
        default=None,
        description="Tells the pilot in the job `{id}` to take nothing new. Unset: it cannot be.",
    )
    logs: EndpointSettings | None = Field(
        default=None, description="Answers the output of the job `{id}` as text. Unset: there is none."
    )
    next: FieldPath = Field(
        default="", description="Where a page says what follows it. Empty: there is one page."
    )
    next_param: Text = Field(
        default="",
        description="Parameter of the query that asks for that page. Empty: what follows is a path or a URL "
        "of the same server.",
    )
    pages_max: Positive = Field(
        default=1000, description="More pages than this are taken for a listing without an end."
    )

    @model_validator(mode="after")
    def _agrees(self) -> RestSettings:
        at = urlsplit(self.url)
        if at.scheme not in ("https", "http") or not at.hostname or at.query or at.fragment or at.username:
            raise ValueError("`url` must be `https://HOST`, with a port and a path if need be")
        try:
            _ = at.port
        except ValueError:
            raise ValueError("`url`: the port is no number from 1 to 65535") from None
        if at.scheme == "http" and at.hostname not in _LOOPBACK:
            raise ValueError("`url`: the key would be read by everybody on the way; write `https://`")
        for name in ("submit", "list", "show", "delete", "cancel", "drain", "logs"):
            if (endpoint := getattr(self, name)) is not None:
                known = OF_BODY if name == "submit" else {} if name == "list" else OF_JOB
                _check_endpoint(name, endpoint, known)
        return self


def _check_endpoint(name: str, endpoint: EndpointSettings, known: Mapping[str, Form]) -> None:
    try:
        check_template(endpoint.path, {place: form for place, form in known.items() if not form.secret})
        check_body(endpoint.body, known)
        check_body(endpoint.body_gpus, known)
    except ValueError as error:
        raise ValueError(f"`{name}`: {error}") from None


class ListingSettings(Table):
    """How the answer is read: where jobs are in it, and which column or key is what."""

    form: Literal["json", "csv", "columns"] = Field(
        default="json",
        description="`json`, `csv` with a line of headings, or `columns` that begin below their headings.",
    )
    items: ItemsPath = Field(
        default="[]",
        description="JSON: where the list of jobs is, such as `jobs[]`. By default the document is the list.",
    )
    id: FieldPath = Field(
        default="id", description="Heading of the column, or path of the key, of the number."
    )
    name: FieldPath = Field(default="name", description="The same for the name that the job was given.")
    state: FieldPath = Field(default="status", description="The same for the word that tells its state.")
    label: FieldPath = Field(
        default="",
        description="The same for the label, where the cloud has such: then `submit` must send `{label}`. "
        "Empty: what a pilot was asked for is folded into the name.",
    )
    exit_code: FieldPath = Field(
        default="", description="The same for the exit code; any but zero is a failure. By default not told."
    )
    reason: FieldPath = Field(default="", description="The same for words on why. By default not told.")
    node: FieldPath = Field(default="", description="The same for the node it runs on. By default not told.")
    started: FieldPath = Field(
        default="",
        description="The same for when it began: a time as `2030-01-31T08:00:00Z`, or seconds since 1970.",
    )
    ended: FieldPath = Field(default="", description="The same for when it ended.")
    empty: Text = Field(
        default="",
        description="What is printed instead of headings where there is no job at all. By default headings "
        "are always expected, and an empty answer is no answer.",
    )


class CloudOfferSettings(Table):
    """What one offer has otherwise."""

    image: Text = Field(default="", description="Image of its pilots. Empty: as the site's.")
    gpu_type: Text = Field(
        default="",
        description="What the cloud calls its GPUs, for `{gpu_type}`. Empty: the offer's trait `gpu_type`.",
    )


class CloudSettings(Table):
    """A cloud with a queue of containers as a site."""

    way: Literal["command", "rest"] = Field(
        description="Whether it is spoken to by its own program or by a REST API."
    )
    command: CommandSettings | None = Field(default=None, description='For `way = "command"`.')
    rest: RestSettings | None = Field(default=None, description='For `way = "rest"`.')
    listing: ListingSettings = Field(
        default_factory=ListingSettings, description="How listings are read, whatever the way."
    )
    states: Mapping[str, State] = Field(
        description='What the cloud\'s words for states mean, such as `{ queued = "pending" }`. Any other '
        "word is shown as it is and means `unknown`: a pilot that may live.",
    )
    image: Text = Field(default="", description="Image of pilots, for `{image}`. By default none is named.")
    key_file: Text = Field(
        default="",
        description="File with the API key, for `{key}`; read before each use, so that it can be renewed. "
        "Nobody else may be able to read it.",
    )
    key_variable: Annotated[str, _fits(re.compile(rf"(?:{_VARIABLE.pattern})?"), "no name of a variable")] = (
        Field(default="", description="Variable of glidepath's own environment with the API key instead.")
    )
    has_token: bool = Field(
        default=False,
        description="Whether the image brings a token for the pool; then none is made, or sent there.",
    )
    name_letters_max: Annotated[int, Field(ge=40, le=4000)] = Field(
        default=128,
        description="Letters of a job's name at most. 128 is the least that common queues have.",
    )
    memory_per_cpu: Size = Field(
        default=0,
        description="Memory that comes with each CPU, where the cloud ties them. Zero: any memory.",
    )
    cpu_sizes: Annotated[tuple[Positive, ...], Field(strict=False)] = Field(
        default=(), description="CPUs that a container can have, such as `[16, 48]`. By default any number."
    )
    walltime_grace: Span = Field(
        default=25 * MINUTE_S,
        description="How much longer than its lifetime a container may run, for `{walltime_s}`: jobs that "
        "run when the lifetime is over have 20 minutes to end, and some minutes are for the start.",
    )
    timeout: Span = Field(
        default=20,
        description="How long one call may take, with all its requests. Less than that is common; a "
        "listing that takes longer is too slow to decide by.",
    )
    at_once: Annotated[int, Field(ge=1, le=16)] = Field(
        default=4,
        description="Pilots that are asked for at the same time: one command takes a second or more.",
    )
    logs_read_max: Count = Field(
        default=5,
        description="Ended pilots whose output is read in one listing, to tell why they ended. More would "
        "make listings slow after many failures at once.",
    )
    offers: Mapping[Name, CloudOfferSettings] = Field(
        default_factory=dict, description="What pilots of one offer have otherwise, by name of the offer."
    )

    @model_validator(mode="after")
    def _agrees(self) -> CloudSettings:
        table = self.command if self.way == "command" else self.rest
        if table is None:
            raise ValueError(f'`way = "{self.way}"` needs the table `{self.way}`')
        if self.key_file and self.key_variable:
            raise ValueError("`key_file` and `key_variable` are both set; keep one")
        said = _texts(table)
        if "{key}" in said and not (self.key_file or self.key_variable):
            raise ValueError("`{key}` is used; set `key_file` or `key_variable`")
        submit = _submit_texts(table)
        if self.listing.label and "{label}" not in submit:
            raise ValueError("`listing.label` is set, and `submit` does not send `{label}`")
        needed = ("{name}", "{pilot}") if self.listing.label else ("{name}",)
        if not any(each in submit for each in needed):
            raise ValueError("`submit` must send `{name}`: by it a job is found again")
        if self.listing.form != "json" and self.way == "rest":
            raise ValueError('`listing.form` must be `json` for `way = "rest"`')
        return self


def _submit_texts(table: CommandSettings | RestSettings) -> str:
    """All texts that are filled in when a pilot is asked for."""
    if isinstance(table, CommandSettings):
        return _texts((table.submit, table.submit_gpus, table.env))
    return _texts(table.submit)


def wanted_by(settings: CloudSettings) -> frozenset[str]:
    """The places that stand somewhere in what asks for a pilot."""
    table = settings.command if settings.way == "command" else settings.rest
    assert table is not None, "the settings were checked"
    texts = _submit_texts(table)
    return frozenset(place for place in TOKENS if f"{{{place}}}" in texts or f"{{{place}:" in texts)


def _texts(value: object) -> str:
    """All texts of a table in one, to look for a place in."""
    if isinstance(value, str):
        return value
    if isinstance(value, Table):
        value = dict(value)
    if isinstance(value, Mapping):
        return "\n".join(_texts(each) for each in value.values())
    if isinstance(value, (tuple, list)):
        return "\n".join(_texts(each) for each in value)
    return ""


STATES = {state.value: state for state in SiteState}
