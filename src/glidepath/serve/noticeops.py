"""What people can ask of where their notices go: rows of the table of operations, each only of the caller."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from glidepath.notices.address import URL_LETTERS_MAX
from glidepath.serve.jobwords import Said
from glidepath.serve.operation import Call, Operation, Reply
from glidepath.serve.peoplewords import DryAsked, Name

Kind = Literal["start", "moved", "limit", "again", "end"]


class NoticeAsked(DryAsked):
    to: Annotated[str, Field(max_length=URL_LETTERS_MAX)] = Field(
        strict=True, description="A mail address, or the address of a webhook."
    )
    name: Name = Field("", strict=True, description="Its name; by default `mail` or `webhook`.")
    on: Annotated[list[Kind], Field(max_length=10)] = Field(
        default_factory=list, description="What is told there; by default all."
    )


class NoticeItem(Said):
    name: str
    kind: Literal["webhook", "mail"]
    to: str
    on: list[str]
    state: Literal["on", "failing", "off", "closed"] = Field(
        description="`off` after nothing was taken for long; `closed` where the operator lets nothing out."
    )
    why: str = Field(description="What was wrong the last time; empty where nothing was.")
    made: str | None
    sent: str | None = Field(description="When something was taken last.")
    failing: str | None = Field(description="Since when nothing is taken.")
    testing: bool = Field(description="Whether a test is on its way.")
    tested: str = Field(description="What became of the last test.")


class NoticeSet(NoticeItem):
    new: bool
    secret: str = Field(description="What letters to a webhook are signed with; shown this once.")


class NoticesAnswer(Said):
    notices: list[NoticeItem]


def _list(call: Call) -> Reply:
    return Reply({"notices": list(call.desk.notices.list(call.caller))})


def _show(call: Call) -> Reply:
    return Reply(call.desk.notices.show(call.caller, call.path["name"]))


def _set(call: Call) -> Reply:
    body: NoticeAsked = call.body
    done = call.desk.notices.set(call.caller, body.to, name=body.name, on=body.on, dry=body.dry)
    return Reply(done, 201 if done["new"] and not body.dry else 200)


def _test(call: Call) -> Reply:
    dry = call.body is not None and call.body.dry
    return Reply(call.desk.notices.test(call.caller, call.path["name"], dry=dry))


def _remove(call: Call) -> Reply:
    dry = call.body is not None and call.body.dry
    return Reply(call.desk.notices.remove(call.caller, call.path["name"], dry=dry))


NOTICE_OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "notices", "GET", "/notices", "Where the caller has notices sent", run=_list, answer=NoticesAnswer
    ),
    Operation(
        "set_notice",
        "POST",
        "/notices",
        "Have notices of the caller's jobs sent by mail or to a webhook, or change what is told there",
        run=_set,
        answer=NoticeSet,
        body=NoticeAsked,
        body_needed=True,
        statuses=(201, 200),
    ),
    Operation(
        "notice", "GET", "/notices/{name}", "One of them, and how it went", run=_show, answer=NoticeItem
    ),
    Operation(
        "test_notice",
        "POST",
        "/notices/{name}/test",
        "Have a test sent there soon; what became of it is in `tested` then",
        run=_test,
        answer=NoticeItem,
        body=DryAsked,
    ),
    Operation(
        "remove_notice",
        "POST",
        "/notices/{name}/remove",
        "Send nothing there any more",
        run=_remove,
        answer=NoticeItem,
        body=DryAsked,
    ),
)
