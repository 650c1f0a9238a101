"""The description of the JSON API, made from the very models and the very table that serve it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from glidepath import __version__
from glidepath.called.late import LateAnswer
from glidepath.called.words import Orders, Report
from glidepath.serve.jobops import LOG_PATH, LOG_SUMMARY
from glidepath.serve.jobwords import ErrorAnswer, LogWish
from glidepath.serve.operation import PREFIX, Operation

REFERENCE = "#/components/schemas/{model}"
WHY = {
    "400": "the request cannot be read",
    "401": "no token that is in force",
    "403": "the caller may not do that",
    "404": "there is no such thing, or not for this caller",
    "408": "the body did not come in time",
    "409": "it cannot be done as things stand",
    "413": "the body is too long",
    "422": "the request is not as described, or could never be done",
    "429": "too many calls",
    "503": "the store, or the scheduler, does not answer",
}
SITE_STATUSES = ("401", "404", "408", "413", "422", "429", "503")
KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "The same key twice gives the same job, so that a submission may be sent again.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 200},
}
NUMBER = {"type": "integer", "minimum": 0, "maximum": 10**18 - 1}
NAME = {"type": "string"}


def document(operations: Iterable[Operation] = ()) -> dict[str, Any]:
    """All that this server can be asked."""
    table = tuple(operations)
    wanted: list[tuple[type[BaseModel], Any]] = [(Report, "validation"), (Orders, "serialization")]
    wanted += [(LateAnswer, "serialization"), (ErrorAnswer, "serialization")]
    for each in table:
        wanted.append((each.answer, "serialization"))
        wanted += [(each.body, "validation")] if each.body else []
    names, schemas = models_json_schema(list(dict.fromkeys(wanted)), ref_template=REFERENCE)
    paths = _site_paths(names)
    for each in table:
        of_path = paths.setdefault(PREFIX + each.path, {})
        of_path[each.method.lower()] = _operation(each, names)
    if table:
        paths[PREFIX + LOG_PATH] = {"get": _log_operation(names)}
    bearer = {"type": "http", "scheme": "bearer"}
    return {
        "openapi": "3.1.0",
        "info": {"title": "glidepath", "version": __version__},
        "paths": paths,
        "components": {
            "securitySchemes": {"site": bearer, "person": bearer},
            "schemas": schemas["$defs"],
        },
    }


def _site_paths(names: Any) -> dict[str, Any]:
    site = {"name": "site", "in": "path", "required": True, "schema": {"type": "string"}}
    errors = _errors(names, SITE_STATUSES)
    late: dict[str, Any] = {"description": "the report is not the next one; nothing was changed"}
    late["content"] = _json(names[(LateAnswer, "serialization")])
    call = {
        "operationId": "call",
        "summary": "One call of a site's agent: its report goes in, its orders come out",
        "security": [{"site": []}],
        "requestBody": {"required": True, "content": _json(names[(Report, "validation")])},
        "responses": {
            "200": {
                "description": "what the agent is to do",
                "content": _json(names[(Orders, "serialization")]),
            },
            "409": late,
            **errors,
        },
    }
    share = {
        "operationId": "share",
        "summary": "What the server holds for the site, in numbers",
        "security": [{"site": []}],
        "responses": {"200": {"description": "the share", "content": _json({"type": "object"})}, **errors},
    }
    return {
        "/api/v1/sites/{site}/call": {"parameters": [site], "post": call},
        "/api/v1/sites/{site}": {"parameters": [site], "get": share},
    }


def _operation(each: Operation, names: Any) -> dict[str, Any]:
    content = _json(names[(each.answer, "serialization")])
    if each.also:
        content[each.also] = {"schema": {"type": "string"}}
    good = {"description": each.summary, "content": content}
    statuses = ["401", "403", "404", "422", "429", "503"]
    if each.method == "POST":
        statuses += ["400", "408", "409", "413"]
    described: dict[str, Any] = {
        "operationId": each.name,
        "summary": each.summary,
        "security": [{"person": []}],
        "parameters": [*map(_in_path, each.parameters), *_in_query(each.query)],
        "responses": {**{str(status): good for status in each.statuses}, **_errors(names, sorted(statuses))},
    }
    if each.name == "submit":
        described["parameters"].append(KEY)
    if each.body is not None:
        wanted = _json(names[(each.body, "validation")])
        described["requestBody"] = {"required": each.body_needed, "content": wanted}
    return described


def _log_operation(names: Any) -> dict[str, Any]:
    whole = {"type": "string", "format": "binary"}
    return {
        "operationId": "log",
        "summary": LOG_SUMMARY,
        "security": [{"person": []}],
        "parameters": [_in_path("job"), _in_path("rank"), *_in_query(LogWish)],
        "responses": {
            "200": {"description": LOG_SUMMARY, "content": {"application/octet-stream": {"schema": whole}}},
            **_errors(names, ("401", "404", "422", "429", "503")),
        },
    }


def _in_path(name: str) -> dict[str, Any]:
    schema = NUMBER if name in ("job", "rank") else NAME
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _in_query(model: type[BaseModel] | None) -> list[dict[str, Any]]:
    if model is None:
        return []
    described = model.model_json_schema(ref_template=REFERENCE)
    return [
        {
            "name": name,
            "in": "query",
            "required": False,
            "description": schema.get("description", ""),
            "schema": {key: value for key, value in schema.items() if key not in ("title", "description")},
        }
        for name, schema in described["properties"].items()
    ]


def _errors(names: Any, statuses: Iterable[str]) -> dict[str, Any]:
    content = _json(names[(ErrorAnswer, "serialization")])
    return {status: {"description": WHY[status], "content": content} for status in statuses}


def _json(schema: Any) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}
