"""The child: `python -I -m glidepath.condor.child FD` answers questions about one collector or schedd.

One line of JSON in, one out, until the input ends. It limits its own time and memory, because nobody may be
left to do so. What it is busy with stands in the shared page behind FD, for whoever has to kill it.
"""

from __future__ import annotations

import json
import mmap
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from glidepath.core.text import one_line

# The kernel ends the child by itself this long after the question's own limit, if the parent is gone.
GRACE_S = 5
MEMORY_BYTES_MAX = 4 << 30
# A hundred thousand terms, each a few hundred bytes deep; only what is used of it is ever there.
STACK_BYTES = 256 << 20
# What it is busy with, and what a process beside it is.
MARKS, MARK_BYTES = 2, 512
QUESTION_BYTES_MAX = 64 << 20
ADS_MAX = 200_000  # More slots than the largest pools have.

Answer = dict[str, Any]


class Marks:
    """The page that the parent reads after a kill; the second half is for a process beside this one."""

    def __init__(self, fd: int) -> None:
        self._page = mmap.mmap(fd, MARKS * MARK_BYTES)

    def __call__(self, text: str) -> None:
        self._write(text, 0)

    def beside(self, text: str) -> None:
        self._write(text, MARK_BYTES)

    def _write(self, text: str, at: int) -> None:
        words = text.encode("utf-8", "replace")[: MARK_BYTES - 1] + b"\0"
        self._page[at : at + len(words)] = words


class Asked:
    """The questions that a child can answer, and what it keeps from one to the next."""

    def __init__(self, marks: Marks) -> None:
        self._marks = marks
        self._readers: dict[str, Any] = {}

    def answer(self, asked: Mapping[str, Any]) -> Answer:
        kinds: dict[str, Callable[[Mapping[str, Any]], Answer]] = {
            "schedds": self._schedds,
            "slots": self._slots,
            "demand": self._demand,
            "waits": self._waits,
            "job": self._job,
        }
        return kinds.get(asked["ask"], self._probed)(asked)

    def _schedds(self, asked: Mapping[str, Any]) -> Answer:
        from glidepath.condor.binding import htcondor2

        names = ["Name", "MyAddress", "AuthenticatedIdentity", "CondorVersion"]
        ads = htcondor2.Collector(asked["collector"]).query(htcondor2.AdType.Schedd, projection=names)
        return {"schedds": [[_text(ad.get(name)) for name in names] for ad in ads[:ADS_MAX]]}

    def _slots(self, asked: Mapping[str, Any]) -> Answer:
        from glidepath.condor.binding import htcondor2
        from glidepath.condor.slots import CONSTRAINT, NAMES, pilot_rows

        ads = htcondor2.Collector(asked["collector"]).query(htcondor2.AdType.Slot, CONSTRAINT, list(NAMES))
        rows, foreign = pilot_rows(ads[:ADS_MAX], identity=asked["identity"], wall_s=time.time())
        return {"slots": rows, "foreign": foreign, "complete": len(ads) <= ADS_MAX}

    def _reader(self, asked: Mapping[str, Any]) -> Any:
        """The reader of that address; a schedd that came back at another one is read from the start."""
        from glidepath.condor.reader import Reader
        from glidepath.condor.schedd import ScheddQueue

        address = asked["address"]
        if address not in self._readers:
            self._readers = {
                address: Reader(ScheddQueue(address), mark=self._marks, beside=self._marks.beside)
            }
        return self._readers[address]

    def _demand(self, asked: Mapping[str, Any]) -> Answer:
        from glidepath.condor.answers import question_of, reading_table

        reader = self._reader(asked)
        question = question_of(asked)
        reading = reader.read(question)
        return {
            **reading_table(reading),
            "totals": list(reader.totals),
            "bad_offers": reader.matcher(question).bad,
        }

    def _waits(self, asked: Mapping[str, Any]) -> Answer:
        return {"totals": list(self._reader(asked).waits())}

    def _job(self, asked: Mapping[str, Any]) -> Answer:
        from glidepath.condor.answers import question_of
        from glidepath.condor.schedd import ScheddQueue
        from glidepath.condor.telling import told

        ad = ScheddQueue(asked["address"]).job(int(asked["cluster"]), int(asked["proc"]))
        if ad is None:
            return {"job": None}
        question = question_of(asked)
        matcher = self._reader(asked).matcher(question)
        server_s = ad.get("ServerTime")
        now_s = server_s if type(server_s) is int else int(time.time())
        return {"job": told(ad, question, matcher, schedd=asked["schedd"], now_s=now_s)}

    def _probed(self, asked: Mapping[str, Any]) -> Answer:
        from glidepath.condor.probe import probed

        return probed(asked)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def answered(asked: Asked, line: bytes) -> Answer:
    """Every failure becomes an answer; only a bug in the binding can end this process."""
    try:
        question = json.loads(line)
        # By default this signal ends the process, also inside a call that never returns to Python.
        signal.setitimer(signal.ITIMER_REAL, float(question["limit_s"]) + GRACE_S)
        return asked.answer(question)
    except ImportError as error:
        return {"error": f"HTCondor's binding is not installed here ({error}); install `glidepath[htcondor]`"}
    except Exception as error:  # noqa: BLE001 - The binding's exceptions share no base, and each is an answer.
        return {"error": one_line(f"{type(error).__name__}: {error}")}
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def serve(marks: Marks) -> None:
    asked = Asked(marks)
    # The binding's own words must not end up between our lines.
    answers, sys.stdout = sys.stdout.buffer, sys.stderr
    for line in iter(lambda: sys.stdin.buffer.readline(QUESTION_BYTES_MAX), b""):
        answers.write(json.dumps(answered(asked, line)).encode() + b"\n")
        answers.flush()
        marks("")
        marks.beside("")


def main(arguments: Sequence[str]) -> int:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
    # A thread, for its stack: an expression of many terms is walked down term by term.
    threading.stack_size(STACK_BYTES)
    served = threading.Thread(target=serve, args=(Marks(int(arguments[0])),))
    served.start()
    served.join()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
