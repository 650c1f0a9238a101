"""What admins, and people of themselves, can ask of people, tokens and projects: rows of the table."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from glidepath.serve import peoplewords as words
from glidepath.serve.operation import Call, Operation, Reply, Run


def _me(call: Call) -> Reply:
    caller = call.caller
    return Reply({"name": caller.name, "role": caller.role.word, "projects": sorted(caller.projects)})


def _dry(call: Call) -> bool:
    return bool(call.body.dry) if call.body is not None else False


def _people(call: Call) -> Reply:
    return Reply({"people": call.register.people(call.caller)})


def _add(call: Call) -> Reply:
    body: words.PersonAsked = call.body
    made = call.register.add(call.caller, body.name, body.role, again=body.again, dry=body.dry)
    return Reply(made, 200 if body.dry else 201)


def _person(call: Call) -> Reply:
    return Reply(call.register.person(call.caller, call.path["name"]))


def _role(call: Call) -> Reply:
    body: words.RoleAsked = call.body
    return Reply(call.register.set_role(call.caller, call.path["name"], body.role, dry=body.dry))


def _leave(call: Call) -> Reply:
    return Reply(call.register.leave(call.caller, call.path["name"], dry=_dry(call)))


def _issue(call: Call) -> Reply:
    body = call.body or words.TokenAsked.model_validate({})
    found = call.register.issue(
        call.caller, call.path["name"], for_s=body.lasts, note=body.note, dry=body.dry
    )
    return Reply(found, 200 if body.dry else 201)


def _tokens(call: Call) -> Reply:
    return Reply({"tokens": call.register.tokens(call.caller, call.path["name"])})


def _revoke(call: Call) -> Reply:
    return Reply(call.register.revoke(call.caller, call.path["token"], dry=_dry(call)))


def _projects(call: Call) -> Reply:
    return Reply({"projects": call.register.projects(call.caller)})


def _project(call: Call) -> Reply:
    return Reply(call.register.project(call.caller, call.path["name"]))


def _add_project(call: Call) -> Reply:
    body: words.ProjectAsked = call.body
    made = call.register.add_project(call.caller, body.name, again=body.again, dry=body.dry)
    return Reply(made, 200 if body.dry else 201)


def _join(call: Call) -> Reply:
    body: words.MemberAsked = call.body
    return Reply(call.register.join(call.caller, call.path["name"], body.person, dry=body.dry))


def _part(call: Call) -> Reply:
    body: words.MemberAsked = call.body
    return Reply(call.register.part(call.caller, call.path["name"], body.person, dry=body.dry))


def _grant(call: Call) -> Reply:
    body: words.GrantAsked = call.body
    span = {"starts": body.starts, "ends": body.ends}
    made = call.register.wallets.grant(
        call.caller, call.path["name"], body.amount, **span, note=body.note, dry=body.dry
    )
    return Reply(made, 200 if body.dry else 201)


def _take(call: Call) -> Reply:
    body: words.TakeAsked = call.body
    return Reply(call.register.wallets.take(call.caller, call.path["name"], body.amount, dry=body.dry))


def _set(call: Call) -> Reply:
    body: words.ProjectSet = call.body
    done = call.register.wallets.set(
        call.caller, call.path["name"], parent=body.parent, weight=body.weight, dry=body.dry
    )
    return Reply(done)


def _close(call: Call) -> Reply:
    return Reply(call.register.close(call.caller, call.path["name"], dry=_dry(call)))


def _get(name: str, path: str, summary: str, *, run: Run, answer: type[BaseModel]) -> Operation:
    return Operation(name, "GET", path, summary, run=run, answer=answer)


def _post(name: str, path: str, summary: str, **more: Any) -> Operation:
    return Operation(name, "POST", path, summary, **{"body": words.DryAsked, **more})


MADE = {"body_needed": True, "statuses": (201, 200)}
PEOPLE_OPERATIONS: tuple[Operation, ...] = (
    _get("me", "/me", "Who the caller is, and what they may do", run=_me, answer=words.MeAnswer),
    _get("people", "/people", "Who there is; for admins", run=_people, answer=words.PeopleAnswer),
    _post(
        "add_person",
        "/people",
        "Let a person in; for admins",
        run=_add,
        answer=words.PersonItem,
        body=words.PersonAsked,
        **MADE,
    ),
    _get(
        "person",
        "/people/{name}",
        "One person with their tokens; everybody may see themselves",
        run=_person,
        answer=words.PersonShown,
    ),
    _post(
        "set_role",
        "/people/{name}/role",
        "Give a person another role; for admins",
        run=_role,
        answer=words.RoleAnswer,
        body=words.RoleAsked,
        body_needed=True,
    ),
    _post(
        "leave",
        "/people/{name}/leave",
        "Send a person away: their tokens end at once; for admins",
        run=_leave,
        answer=words.LeaveAnswer,
    ),
    _get(
        "tokens",
        "/people/{name}/tokens",
        "The tokens of a person, without their secrets; everybody may see their own",
        run=_tokens,
        answer=words.TokensAnswer,
    ),
    _post(
        "issue_token",
        "/people/{name}/tokens",
        "Issue a token, whose text is shown this once; for admins",
        run=_issue,
        answer=words.TokenIssued,
        body=words.TokenAsked,
        statuses=(201, 200),
    ),
    _post(
        "revoke_token",
        "/tokens/{token}/revoke",
        "End a token at once; everybody may end their own",
        run=_revoke,
        answer=words.TokenItem,
    ),
    _get(
        "projects",
        "/projects",
        "The caller's projects; operators see all",
        run=_projects,
        answer=words.ProjectsAnswer,
    ),
    _post(
        "add_project",
        "/projects",
        "Make a project; for admins",
        run=_add_project,
        answer=words.ProjectItem,
        body=words.ProjectAsked,
        **MADE,
    ),
    _get(
        "project",
        "/projects/{name}",
        "One project, who belongs to it, and what it may spend",
        run=_project,
        answer=words.ProjectShown,
    ),
    _post(
        "join",
        "/projects/{name}/join",
        "Let a person belong to a project; for admins",
        run=_join,
        answer=words.MemberAnswer,
        body=words.MemberAsked,
        body_needed=True,
    ),
    _post(
        "part",
        "/projects/{name}/part",
        "Take a person out of a project; for admins",
        run=_part,
        answer=words.MemberAnswer,
        body=words.MemberAsked,
        body_needed=True,
    ),
    _post(
        "grant",
        "/projects/{name}/grant",
        "Let a project spend more, for a time; for admins",
        run=_grant,
        answer=words.GrantAnswer,
        body=words.GrantAsked,
        **MADE,
    ),
    _post(
        "take",
        "/projects/{name}/take",
        "Take back what a project has not spent; for admins",
        run=_take,
        answer=words.GrantAnswer,
        body=words.TakeAsked,
        body_needed=True,
    ),
    _post(
        "set_project",
        "/projects/{name}/set",
        "Place a project below another, or give it another weight; for admins",
        run=_set,
        answer=words.WalletAnswer,
        body=words.ProjectSet,
        body_needed=True,
    ),
    _post(
        "close", "/projects/{name}/close", "Close a project; for admins", run=_close, answer=words.ProjectItem
    ),
)
