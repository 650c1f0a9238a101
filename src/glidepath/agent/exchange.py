"""One call to the demand server over HTTP: a report goes out, orders come in, or an OSError with the reason.

No redirect is followed, which could carry the token elsewhere, and no answer is read beyond its bound.
"""

from __future__ import annotations

import urllib.error
import urllib.request
from http.client import HTTPException
from pathlib import Path
from typing import Protocol

from pydantic import ValidationError

from glidepath.called.late import LateAnswer
from glidepath.called.words import Orders, Report
from glidepath.core.text import one_line
from glidepath.straight import read_token, straight_opener

ANSWER_BYTES_MAX = 64 << 20
WORDS_MAX = 300


class NotHeard(OSError):
    """The server gave no answer that can be used; asking again may help."""


class CutOff(OSError):
    """The server does not know our token any more; a person has to get another one."""


class Exchange(Protocol):
    """How reports reach the server. None where the answer is still to come."""

    def call(self, report: Report) -> Orders | LateAnswer | None: ...


class HttpExchange:
    """Calls one server as one site."""

    def __init__(self, server: str, site: str, token_path: Path, *, ca_file: str, timeout_s: float) -> None:
        self.url = f"{server}/api/v1/sites/{site}/call"
        self._token_path = token_path
        self._ca_file = ca_file
        self._timeout_s = timeout_s

    def call(self, report: Report) -> Orders | LateAnswer | None:
        # Read anew each time: a token may be replaced while we run.
        headers = {
            "Authorization": f"Bearer {read_token(self._token_path)}",
            "Content-Type": "application/json",
            "User-Agent": "glidepath-agent",
        }
        body = report.model_dump_json(exclude_defaults=True).encode()
        request = urllib.request.Request(self.url, data=body, headers=headers, method="POST")
        try:
            with straight_opener(self._ca_file).open(request, timeout=self._timeout_s) as answer:
                text = answer.read(ANSWER_BYTES_MAX + 1)
        except urllib.error.HTTPError as error:
            with error:
                return self._refused(error)
        except (OSError, HTTPException) as error:
            cause = getattr(error, "reason", error)
            raise NotHeard(f"the server does not answer: {one_line(str(cause))}") from None
        if len(text) > ANSWER_BYTES_MAX:
            raise NotHeard(f"the server's answer is longer than {ANSWER_BYTES_MAX} bytes")
        try:
            orders = Orders.model_validate_json(text)
        except ValidationError as error:
            raise NotHeard(f"the server's answer is not understood: {error.error_count()} faults") from None
        if orders.nonce != report.nonce:
            raise NotHeard("the server's answer is for another call")
        return orders

    def _refused(self, error: urllib.error.HTTPError) -> LateAnswer:
        text = error.read(ANSWER_BYTES_MAX)
        said = one_line(text.decode("utf-8", "replace").strip(), letters_max=WORDS_MAX)
        if error.code == 409:
            try:
                return LateAnswer.model_validate_json(text)
            except ValidationError:
                raise NotHeard(f"the server's answer is not understood: {said}") from None
        if error.code in (401, 403):
            raise CutOff(f"the server refuses the token (HTTP {error.code}): {said}")
        raise NotHeard(f"the server answers HTTP {error.code}: {said}")
