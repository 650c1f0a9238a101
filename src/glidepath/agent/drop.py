"""The exchange by files, for a site that cannot reach the server at all: a report lies in a folder, orders
come back into it, and somebody else carries both.

An answer is used once and only where it is for the last report, so that an old file that comes back does
nothing.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from pydantic import ValidationError

from glidepath.agent.exchange import NotHeard
from glidepath.agent.keep import write_whole
from glidepath.called.late import LateAnswer
from glidepath.called.signed import BODY_LETTERS_MAX, Signed, opened, signed
from glidepath.called.words import Orders, Report
from glidepath.straight import read_token

REPORT, ORDERS = "report.json", "orders.json"


class DropExchange:
    """One site's folder."""

    def __init__(self, folder: Path, site: str, token_path: Path) -> None:
        self.folder = folder
        self.site = site
        self._token_path = token_path

    def call(self, report: Report) -> Orders | LateAnswer | None:
        """Orders for the report that lay there, or the new report beside the wait for its answer."""
        token, digest = _parts(read_token(self._token_path))
        answer = self._answer(token, digest)
        if answer is not None:
            return answer
        text = signed(
            self.site, token, digest, what="report", body=report.model_dump_json(exclude_defaults=True)
        )
        write_whole(self.folder / REPORT, text)
        return None

    def _answer(self, token: str, digest: str) -> Orders | LateAnswer | None:
        """What answers the report that lies there; it is taken away with that report."""
        asked = self._read(REPORT, token, digest, what=("report",))
        found = self._read(ORDERS, token, digest, what=("orders", "late"))
        if asked is None or found is None:
            return None
        model = Orders if found.what == "orders" else LateAnswer
        try:
            nonce = Report.model_validate_json(asked.body).nonce
            answer = model.model_validate_json(found.body)
        except ValidationError as error:
            raise NotHeard(f"`{ORDERS}` is not understood: {error.error_count()} faults") from None
        if answer.nonce != nonce:
            return None  # For an earlier report; ours is still under way.
        for name in (REPORT, ORDERS):  # The second may hold tokens.
            (self.folder / name).unlink(missing_ok=True)
        return answer

    def _read(self, name: str, token: str, digest: str, *, what: tuple[str, ...]) -> Signed | None:
        path = self.folder / name
        try:
            with path.open("rb") as file:
                text = file.read(2 * BODY_LETTERS_MAX)
        except FileNotFoundError:
            return None
        try:
            return opened(text, {token: digest}, site=self.site, what=what)
        except ValueError as error:
            raise NotHeard(f"`{path}` is not used: {error}") from None


def _parts(text: str) -> tuple[str, str]:
    """The id of a token and the digest of its secret."""
    words = text.split(".")
    if len(words) != 4:
        raise ValueError("the token is not one of a site")
    return words[2], hashlib.sha256(words[3].encode()).hexdigest()
