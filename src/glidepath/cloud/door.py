"""What carries one request to a cloud and back, by its program or by its API: values come in, text goes out.

What went wrong is told by one question: may it have happened?
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from glidepath.cloud.answers import Row
from glidepath.cloud.places import Values
from glidepath.core.text import one_line

WORDS_MAX = 400
# What one answer may be; a listing of thousands of jobs has a few MB.
ANSWER_BYTES_MAX = 32 << 20


class Verb(StrEnum):
    SUBMIT = "submit"
    LIST = "list"
    SHOW = "show"
    CANCEL = "cancel"
    DELETE = "delete"
    DRAIN = "drain"
    LOGS = "logs"


class CloudError(OSError):
    """The cloud refused or could not, in its own words, without a secret of ours."""

    def __init__(
        self,
        message: str,
        *,
        refused: bool = False,
        unclear: bool = False,
        gone: bool = False,
        sent: bool = True,
    ) -> None:
        super().__init__(one_line(message, letters_max=WORDS_MAX))
        self.refused = refused  # it would be again
        self.unclear = unclear  # it may have happened
        self.gone = gone  # there is no such job
        self.sent = sent  # otherwise nothing can have happened


class LaterError(CloudError):
    """The cloud asked for patience, and that time is not over; nothing was sent."""


@dataclass(frozen=True, slots=True)
class Said:
    """One answer: the rows where a listing was asked for, else the text."""

    text: str = ""
    rows: tuple[Row, ...] = ()


class CloudDoor(Protocol):
    """One cloud, for all threads; nothing is opened before the first request."""

    def knows(self, verb: Verb) -> bool:
        """Whether the configuration says how."""
        ...

    def ask(self, verb: Verb, values: Values, *, deadline: float, gpus: bool = False) -> Said:
        """Raises CloudError, or OddAnswer where the answer is not understood."""
        ...

    def rendered(self, verb: Verb, values: Values, *, gpus: bool = False) -> str:
        """What would be sent, for people."""
        ...
