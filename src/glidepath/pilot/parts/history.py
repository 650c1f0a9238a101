"""How the jobs of this pilot ended, as the startd writes it down, and whether the pilot eats them.

Text of the startd's history file comes in, ends of jobs go out. The startd writes an ad when a job has left
it, whatever became of the job; what the job's owner wrote into it is quoted there and stays on one line.
"""

import os
import re
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

ROW_LENGTH = 5  # So many jobs in a row; fewer happen by chance.
FAST_S = 10.0  # A job that ends sooner has hardly begun.
AD_BYTES_MAX = 4 << 20  # A longer one is skipped: its owner wrote it.
PIECE = 1 << 20
PIECES_MAX = 64  # At one look; the rest is read at the next.
LINE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*) = (.*)")
TAKEN = ("BadputCausedByDraining", "BadputCausedByPreemption")


class End(NamedTuple):
    """One job that has left."""

    owner: str
    run_s: float
    failed: bool
    given_back: bool  # It was not its end: the pilot, the pool or its owner took it away.


def end_of(ad: Dict[str, str]) -> Optional[End]:
    """None for an ad that is no job's, or that cannot be read."""

    def amount(name: str) -> Optional[float]:
        try:
            return float(ad[name])
        except (KeyError, ValueError):
            return None

    if "ClusterId" not in ad:
        return None
    run_s = amount("JobDuration")
    code, by_signal = amount("ExitCode"), ad.get("ExitBySignal", "").lower() == "true"
    # One that was taken away has an exit signal too: ours. One that never began has no duration, and whether
    # that was its owner's mistake or ours nobody says.
    taken = any(ad.get(name, "").lower() == "true" for name in TAKEN)
    ended = run_s is not None and not taken and (by_signal or code is not None)
    failed = ended and (by_signal or code != 0)
    return End(ad.get("Owner", "").strip('"'), run_s or 0.0, failed, not ended)


def eats_jobs(ends: Sequence[End]) -> str:
    """Why the pilot must take no more jobs: the last ones in a row failed at once. Empty when it need not."""
    last = [end for end in ends if not end.given_back][-ROW_LENGTH:]
    if len(last) < ROW_LENGTH or not all(end.failed and end.run_s <= FAST_S for end in last):
        return ""
    owners = len({end.owner for end in last})
    return "the last %d jobs, of %d owner%s, all failed within %d s" % (
        ROW_LENGTH,
        owners,
        "" if owners == 1 else "s",
        FAST_S,
    )


class History:
    """Follows the file as it grows and is replaced; what is half written is read when it is whole."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.file: Any = None
        self.rest = b""

    def close(self) -> None:
        if self.file is not None:
            self.file.close()
            self.file = None

    def fresh(self) -> List[End]:
        found = []
        for _ in range(PIECES_MAX):
            piece = self.piece()
            if not piece:
                break
            found += self.parse(piece)
        return found

    def piece(self) -> bytes:
        try:
            if self.file is None:
                self.file = open(self.path, "rb")  # noqa: SIM115 (followed until it is replaced)
            piece = self.file.read(PIECE)
            if not piece and os.fstat(self.file.fileno()).st_ino != os.stat(self.path).st_ino:
                # All of the old one has been read; the startd has begun another.
                self.file.close()
                self.rest = b""
                self.file = open(self.path, "rb")  # noqa: SIM115 (as above)
                piece = self.file.read(PIECE)
        except FileNotFoundError:
            return b""
        return bytes(piece)

    def parse(self, piece: bytes) -> List[End]:
        *lines, self.rest = (self.rest + piece).split(b"\n")
        ads: List[End] = []
        kept = []
        for line in lines:
            if not line.startswith(b"***"):
                kept.append(line)
                continue
            end = end_of(fields(kept))
            kept = []
            if end is not None:
                ads.append(end)
        self.rest = b"\n".join([*kept, self.rest])
        if len(self.rest) > AD_BYTES_MAX:
            self.rest = b""
        return ads


def fields(lines: Sequence[bytes]) -> Dict[str, str]:
    found = (LINE.fullmatch(line.decode("utf-8", "replace").strip()) for line in lines)
    return {one.group(1): one.group(2) for one in found if one}
