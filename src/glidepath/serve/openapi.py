"""The description of the JSON API, made from the very models that read it."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from glidepath import __version__
from glidepath.called.late import LateAnswer
from glidepath.called.words import Orders, Report

REFERENCE = "#/components/schemas/{model}"


def document() -> dict[str, Any]:
    models: list[tuple[type[BaseModel], Any]] = [(Report, "validation"), (Orders, "serialization")]
    models.append((LateAnswer, "serialization"))
    names, schemas = models_json_schema(models, ref_template=REFERENCE)
    refs = {model: names[(model, mode)] for model, mode in models}
    site = {"name": "site", "in": "path", "required": True, "schema": {"type": "string"}}
    errors = {
        status: {"description": why, "content": _json({"$ref": "#/components/schemas/Denied"})}
        for status, why in (
            ("401", "no token of this site that is in force"),
            ("404", "no such site is configured"),
            ("408", "the body did not come in time"),
            ("413", "the body is too long"),
            ("422", "the body is not as described"),
            ("429", "too many calls"),
            ("503", "the store does not answer"),
        )
    }
    call = {
        "summary": "One call of a site's agent: its report goes in, its orders come out",
        "requestBody": {"required": True, "content": _json(refs[Report])},
        "responses": {
            "200": {"description": "what the agent is to do", "content": _json(refs[Orders])},
            "409": {
                "description": "the report is not the next one; nothing was changed",
                "content": _json(refs[LateAnswer]),
            },
            **errors,
        },
    }
    share = {
        "summary": "What the server holds for the site, in numbers",
        "responses": {"200": {"description": "the share", "content": _json({"type": "object"})}, **errors},
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "glidepath demand server", "version": __version__},
        "security": [{"site": []}],
        "paths": {
            "/api/v1/sites/{site}/call": {"parameters": [site], "post": call},
            "/api/v1/sites/{site}": {"parameters": [site], "get": share},
        },
        "components": {
            "securitySchemes": {"site": {"type": "http", "scheme": "bearer"}},
            "schemas": {
                **schemas["$defs"],
                "Denied": {"type": "object", "properties": {"error": {"type": "string"}}},
            },
        },
    }


def _json(schema: Any) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}
