"""What a job wrote: a job number comes in, its output goes to stdout, in pieces of bounded size.

A terminal gets the text made safe; a pipe gets the bytes as they are.
"""

from __future__ import annotations

import codecs
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from glidepath.cli import argument
from glidepath.cli.atdesk import SERVER, at_desk
from glidepath.cli.verb import Caller, Exit, Options, Verb
from glidepath.core.text import visible

if TYPE_CHECKING:
    from glidepath.jobs.desk import LogAsked, LogPiece

POLL_S = 0.5
# A week: a job that runs longer is better read again than followed.
FOLLOW_LOOKS_MAX = int(7 * 86400 / POLL_S)


class Pour:
    """Bytes to stdout: raw into a pipe, safe text onto a terminal, whole characters across pieces."""

    def __init__(self, caller: Caller) -> None:
        self._out = caller.out
        self._raw = None if caller.out.isatty() else getattr(caller.out, "buffer", None)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def write(self, piece: bytes) -> None:
        if self._raw is not None:
            self._raw.write(piece)
            return
        self._out.write(visible(self._decoder.decode(piece), keep="\n\t"))

    def flush(self) -> None:
        if self._raw is not None:
            self._raw.flush()
        self._out.flush()


class Logs(Verb):
    """Print what a job wrote, from its latest attempt"""

    options: ClassVar[Options] = {
        "id": {"args": ("id",), "type": argument.number, "metavar": "ID", "help": "a job number"},
        "rank": {
            "args": ("--rank",),
            "type": argument.count,
            "default": 0,
            "metavar": "N",
            "help": "of a placed job: what this rank wrote (default: 0)",
        },
        "stderr": {"args": ("--stderr",), "action": "store_true", "help": "its stderr instead of its stdout"},
        "attempt": {
            "args": ("--attempt",),
            "type": argument.count,
            "metavar": "N",
            "help": "an earlier attempt",
        },
        "bytes": {
            "args": ("--bytes",),
            "type": argument.number,
            "metavar": "N",
            "help": "only the last N bytes",
        },
        "follow": {"args": ("-f", "--follow"), "action": "store_true", "help": "go on until the job is over"},
        **SERVER,
    }

    def run(self) -> int:
        from glidepath.jobs.desk import LOG_PIECE_BYTES_MAX, LogAsked

        given = self.given
        asked = LogAsked(given["rank"], given["stderr"], given["attempt"] or None)
        if given["bytes"] is not None:
            asked = replace(asked, offset=-given["bytes"])
        pour = Pour(self.caller)
        with at_desk(self) as (desk, caller):
            if given["bytes"] == 0:
                asked = replace(asked, offset=desk.log(caller, given["id"], asked).size)
            for look in range(FOLLOW_LOOKS_MAX if given["follow"] else 1):
                if look:
                    self.caller.sleep(POLL_S)
                piece = desk.log(caller, given["id"], asked)
                # Whether it is over was asked before the rest is read, so that nothing of the end is missed.
                over, asked = piece.over, replace(asked, attempt=piece.attempt)
                for _ in range(piece.size // LOG_PIECE_BYTES_MAX + 2):
                    pour.write(_gone(piece, asked) + piece.content)
                    asked = replace(asked, offset=piece.end)
                    if piece.end >= piece.size:
                        break
                    piece = desk.log(caller, given["id"], asked)
                pour.flush()
                if over:
                    break
        return Exit.DONE


def _gone(piece: LogPiece, asked: LogAsked) -> bytes:
    """What is said in the place of bytes that are not kept."""
    from glidepath.keptlog import gone_words

    wanted = asked.offset if asked.offset >= 0 else max(piece.size + asked.offset, 0)
    return gone_words(piece.start - wanted) if piece.start > wanted else b""
