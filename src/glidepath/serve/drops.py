"""Files of agents that cannot reach the server: looked for now and then, answered in the same folder.

A file that is not signed by a token of its site, or not the next one, changes nothing.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

from glidepath.called.late import LateAnswer
from glidepath.called.signed import BODY_LETTERS_MAX, opened, signed
from glidepath.serve.desk import Denied, Desk
from glidepath.store.engine import StoreError
from glidepath.store.site_tokens import AGENT

REPORT, ORDERS = "report.json", "orders.json"
LOOK_S = 2.0


class Drops:
    """The folders of one server. `look` once, or a thread that looks until it is stopped."""

    def __init__(self, desk: Desk, folders: dict[str, Path], say: Callable[[str], None]) -> None:
        self.desk, self.folders, self.say = desk, folders, say
        self._stop = threading.Event()
        self._seen: dict[str, tuple[int, int]] = {}  # of each site: which report was answered
        self._said: dict[str, str] = {}

    def look(self) -> int:
        """How many reports were answered."""
        return sum(self._look(site, folder) for site, folder in self.folders.items())

    def run(self) -> None:
        while not self._stop.wait(LOOK_S):
            self.look()

    def stop(self) -> None:
        self._stop.set()

    def _look(self, site: str, folder: Path) -> bool:
        try:
            about = (folder / REPORT).stat()
        except OSError:
            return False
        mark = (about.st_ino, about.st_mtime_ns)
        if self._seen.get(site) == mark:
            return False
        try:
            self._answer(site, folder)
        except (OSError, ValueError, Denied) as error:
            if not isinstance(error, StoreError):
                self._seen[site] = mark  # It will not get better; the next one may.
            self._tell(site, f"the file of `{site}` is not used: {error}")
            return False
        self._seen[site] = mark
        self._tell(site, "")
        return True

    def _answer(self, site: str, folder: Path) -> None:
        with (folder / REPORT).open("rb") as file:
            text = file.read(2 * BODY_LETTERS_MAX)
        digests = self.desk.tokens.digests(site, use=AGENT)
        found = opened(text, digests, site=site, what=("report",))
        answer = self.desk.called(site, found.body)
        what = "late" if isinstance(answer, LateAnswer) else "orders"
        told = signed(site, found.token, digests[found.token], what=what, body=answer.model_dump_json())
        fresh = folder / f".{ORDERS}.new"
        fresh.unlink(missing_ok=True)
        # Readable by the group of the folder alone: whoever carries it must read it, and it may hold tokens.
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o640)
        with open(descriptor, "w") as out:  # noqa: PTH123 (a descriptor, made for few to read)
            out.write(told)
        fresh.replace(folder / ORDERS)

    def _tell(self, site: str, words: str) -> None:
        """The same trouble once, not at every look."""
        if words and self._said.get(site) != words:
            self.say(words)
        self._said[site] = words
