"""JSON-RPC 2.0 as clients of pyglidein speak it: a body comes in, a checked call goes out, or an error with
its code. One call in a body; a batch is refused, as the original does.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass
from typing import Any

from glidepath.called.nameless import Counted

BODY_BYTES_MAX = 64 << 10
UUID_LETTERS_MAX = 200
PARTITIONS_MAX = 50
PARTITION_LETTERS_MAX = 100
# `min_idle_time` of an empty queue is the longest span that Python knows.
NUMBER_MAX = 10**15
METRICS = (
    *("glideins_launched", "glideins_running", "glideins_idle"),
    *("avg_idle_time", "min_idle_time", "max_idle_time"),
)
PARSE, INVALID, NO_METHOD, PARAMS = -32700, -32600, -32601, -32602
WORDS = {PARSE: "Parse error", INVALID: "Invalid Request", NO_METHOD: "Method not found"}
WORDS[PARAMS] = "Invalid params"


@dataclass(frozen=True, slots=True)
class RpcError(Exception):
    code: int
    why: str
    id: Any = None


@dataclass(frozen=True, slots=True)
class GetState:
    id: Any


@dataclass(frozen=True, slots=True)
class Monitoring:
    """What a client says of itself, of either generation of its words."""

    id: Any
    uuid: str
    timestamp: float | None
    metrics: dict[str, dict[str, int]]

    @property
    def counted(self) -> Counted:
        launched, running, idle = (sum(self.metrics.get(name, {}).values()) for name in METRICS[:3])
        return Counted(launched=launched, idle=idle, running=running)

    @property
    def mark(self) -> str:
        """By which it is known if it comes again; clients tell seconds, and may say two things in one, or
        one thing twice with another number."""
        if self.timestamp is None:
            return ""
        told = json.dumps([self.id, self.timestamp, self.metrics], sort_keys=True)
        return hashlib.sha256(told.encode()).hexdigest()[:16]

    @property
    def sums(self) -> dict[str, int]:
        """One number for each, as the page shows it."""
        return {name: sum(of.values()) for name, of in self.metrics.items()}


def read_call(body: bytes) -> GetState | Monitoring:
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        raise RpcError(PARSE, "the body is not JSON") from None
    if not isinstance(said, dict):
        raise RpcError(INVALID, "the body is not one call")
    number = said.get("id")
    if isinstance(number, bool) or not isinstance(number, int | float | str | None) or _odd(number):
        raise RpcError(INVALID, "`id` is neither a number nor text")
    version, method = said.get("jsonrpc"), said.get("method")
    if isinstance(version, bool) or version not in ("2.0", 2.0):
        raise RpcError(INVALID, "jsonrpc is not 2.0", number)
    if not isinstance(method, str) or method.startswith("_"):
        raise RpcError(INVALID, "`method` is not the name of one", number)
    params = said.get("params", {})
    if method not in ("get_state", "monitoring"):
        raise RpcError(NO_METHOD, "there are `get_state` and `monitoring`", number)
    if not isinstance(params, dict):
        raise RpcError(PARAMS, "`params` is not an object", number)
    return GetState(number) if method == "get_state" else _monitoring(number, params)


def _odd(number: Any) -> bool:
    if isinstance(number, str):
        return len(number) > UUID_LETTERS_MAX
    return isinstance(number, float) and not math.isfinite(number)


def _monitoring(number: Any, params: dict[str, Any]) -> Monitoring:
    uuid = params.get("uuid")
    if not isinstance(uuid, str) or not 0 < len(uuid) <= UUID_LETTERS_MAX:
        raise RpcError(PARAMS, "`uuid` is not text", number)
    newer = "timestamp" in params and "metrics" in params
    metrics, timestamp = (params["metrics"], params["timestamp"]) if newer else (params, None)
    if not isinstance(metrics, dict):
        raise RpcError(PARAMS, "`metrics` is not an object", number)
    if timestamp is not None and (type(timestamp) not in (int, float) or not 0 <= timestamp < NUMBER_MAX):
        raise RpcError(PARAMS, "`timestamp` is not a moment", number)
    try:
        read = {name: _partitions(name, metrics[name]) for name in METRICS if name in metrics}
    except ValueError as error:
        raise RpcError(PARAMS, str(error), number) from None
    return Monitoring(number, uuid, timestamp, read)


def _partitions(metric: str, value: Any) -> dict[str, int]:
    """Older clients say one number, newer ones one for each partition."""
    rows = value if isinstance(value, dict) else {"Cluster": value}
    if len(rows) > PARTITIONS_MAX or any(len(name) > PARTITION_LETTERS_MAX for name in rows):
        raise ValueError("there are too many partitions, or their names are too long")
    least = -NUMBER_MAX if metric in METRICS[3:] else 0  # Of spans: two clocks of a site may differ.
    return {name: max(0, _count(each, least)) for name, each in rows.items()}


def _count(value: Any, least: int) -> int:
    if type(value) not in (int, float) or not least <= value <= NUMBER_MAX or value != int(value):
        raise ValueError("a metric is not a whole number that is not negative")
    return int(value)


def error_text(error: RpcError) -> dict[str, Any]:
    told = {"code": error.code, "message": WORDS[error.code], "data": error.why}
    return {"jsonrpc": "2.0", "error": told, "id": error.id}


def result_text(number: Any, result: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "result": result, "id": number}
