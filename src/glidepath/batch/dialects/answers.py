"""What all dialects do with an answer: is it whole, which of its words decide, how much of it is repeated.

How a command ended comes in; its text, or an outcome with the system's own words, goes out. Words are looked
up in tables of the dialects: what a system really says, and whether asking again makes sense.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from xml.etree import ElementTree

from glidepath.batch.dialect import JobSeen, OddAnswer
from glidepath.core.cycle import Failed, Refused, Unsure
from glidepath.core.text import one_line
from glidepath.remote.runner import Ran
from glidepath.remote.words import SafeLine

IDS_MAX = 2000  # in one command: more would not fit into what a system takes as one argument
NODES_MAX = 5000  # of one job; a range in a name could stand for more than there is memory
LINES_MAX = 500_000
GREETING_LINES_MAX = 200
NO_ANSWER = "gave no answer in time"
_PADDED = re.compile(r" *\| *")
_NUMBER = re.compile(r"[0-9]{1,18}")
_CLOCK = re.compile(r"(?:([0-9]{1,6})-)?(?:([0-9]{1,6}):)?([0-9]{1,6}):([0-9]{1,2})")
_PIECE = re.compile(r"([A-Za-z0-9_.-]*)(?:\[([0-9,-]{1,20000})\])?")


def odd(program: str, found: str) -> OddAnswer:
    return OddAnswer(f"`{program}` answered what it never does: {one_line(found) or 'nothing'}")


def whole(ran: Ran, program: str) -> str:
    """The text of a command that did what it was told, all of it."""
    if ran.code is None:
        raise OddAnswer(f"`{program}` {NO_ANSWER}")
    if ran.cut:
        raise OddAnswer(f"`{program}` printed more than is kept")
    if ran.code != 0:
        raise OddAnswer(f"`{program}` ended with exit code {ran.code}: {said(ran)}")
    return ran.out


def whole_but(ran: Ran, program: str, gone: Iterable[str]) -> str:
    """The same where the command also says which of the things asked for do not exist, and fails by that."""
    complaints = [line for line in ran.err.splitlines() if line.strip()]
    known = complaints and all(holds(line, gone) for line in complaints)
    return whole(Ran(0, ran.out, "", ran.cut) if ran.code and known else ran, program)


def table(text: str, header: str, program: str) -> list[str]:
    """Lines below the header. What comes before it is a greeting; without one it is no answer at all, not an
    empty one. The last line must have come to its end."""
    lines = rows(text, program)
    if not text.endswith("\n"):
        raise odd(program, lines[-1] if lines else "")
    for number_of_line, line in enumerate(lines[:GREETING_LINES_MAX]):
        if _PADDED.sub("|", line.strip()) == header:
            return lines[number_of_line + 1 :]
    raise odd(program, lines[0] if lines else "")


def document(text: str, program: str, begin: str) -> ElementTree.Element:
    """The XML from `begin` on, after a greeting if there is one. One that defines things of its own is not
    read: a few lines of such can stand for more than there is memory."""
    at = text.find(begin)
    if at < 0 or "<!" in text[at:]:
        raise odd(program, text[:200])
    try:
        return ElementTree.fromstring(text[at:])
    except (ElementTree.ParseError, ValueError) as error:
        raise OddAnswer(f"`{program}` printed no whole XML: {one_line(str(error))}") from None


def both(ran: Ran) -> Ran:
    """Where a program complains on its standard output, for `ended`."""
    return Ran(ran.code, "", f"{ran.err}\n{ran.out}", ran.cut) if ran.code else ran


def said(ran: Ran) -> str:
    """The last thing that it said, for people."""
    lines = [line.strip() for text in (ran.err, ran.out) for line in text.splitlines() if line.strip()]
    errs = [line.strip() for line in ran.err.splitlines() if line.strip()]
    return one_line((errs or lines)[-1]) if lines else "no message"


def rows(text: str, program: str) -> list[str]:
    """Lines that hold something. Only a line feed ends one: a name may hold what others take for an end."""
    found = [line for line in text.split("\n") if line.strip()]
    if len(found) > LINES_MAX:
        raise OddAnswer(f"`{program}` printed {len(found)} lines; at most {LINES_MAX} are read")
    return found


def holds(text: str, words: Iterable[str]) -> bool:
    low = text.lower()
    return any(word in low for word in words)


def judged(
    ran: Ran, program: str, *, refusals: Iterable[str], doubts: Iterable[str], nothing: Iterable[str] = ()
) -> Refused | Failed | Unsure:
    """What a submit command that gave no number means. Words of a table are in small letters; `nothing` are
    those by which it says that it has not queued anything, whatever its exit code is."""
    text = f"{ran.err}\n{ran.out}"
    if ran.code is None:
        return Unsure(f"`{program}` {NO_ANSWER}; the job may be queued")
    told = f"`{program}` exit {ran.code}: {said(ran)}"
    # Doubts first: a time-out that also names the queue is still a time-out.
    if holds(text, doubts):
        return Unsure(f"{told}; the job may be queued")
    if holds(text, refusals):
        return Refused(told)
    # Killed, silent, or content: nobody knows how far it got.
    if not text.strip() or not 0 < ran.code <= 128:
        return Failed(told) if holds(text, nothing) else Unsure(f"{told}; the job may be queued")
    return Failed(told)


def number_in(ran: Ran, program: str, form: re.Pattern[str]) -> str | Unsure:
    """The one number in what a submit command printed, among greetings; none or two are no answer."""
    found = {each[1] for line in ran.out.split("\n") if (each := form.fullmatch(line.strip()))}
    if len(found) == 1 and not ran.cut:
        return found.pop()
    printed = one_line(ran.out.strip()) or "nothing"
    return Unsure(f"`{program}` printed no number: {printed}; the job may be queued")


def ended(
    ran: Ran, program: str, *, gone: Iterable[str], refusals: Iterable[str]
) -> Failed | Refused | Unsure | None:
    """What came of a command that ends jobs: one that is gone already is no mistake."""
    if ran.code is None:
        return Unsure(f"`{program}` {NO_ANSWER}")
    text = f"{ran.err}\n{ran.out}"
    told = f"`{program}` exit {ran.code}: {said(ran)}"
    if holds(text, refusals):
        return Refused(told)
    complaints = [line for line in ran.err.splitlines() if line.strip()]
    if ran.code == 0 or (complaints and all(holds(line, gone) for line in complaints)):
        return None
    return Failed(told)


def ids_of(native_ids: tuple[str, ...], form: re.Pattern[str]) -> tuple[str, ...]:
    """Numbers of jobs as words for a command: they came from outside once, and are checked again."""
    for each in native_ids:
        if not form.fullmatch(each):
            raise ValueError(f"`{one_line(each)}` is no number of a job")
    if not native_ids:
        raise ValueError("no number of a job is given")
    return native_ids[:IDS_MAX]


def number(text: str) -> int | None:
    return int(text) if _NUMBER.fullmatch(text) and text.isascii() else None


def seconds(text: str) -> int | None:
    """`1-02:03:04`, `02:03:04` or `03:04`, as batch systems write spans; None for anything else."""
    found = _CLOCK.fullmatch(text) if text.isascii() else None
    if found is None:
        return None
    days, hours, minutes, rest = (int(part or 0) for part in found.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + rest


def clock(total_s: int) -> str:
    """Hours, minutes and seconds, which every one of them reads; hours may be more than a day."""
    return f"{total_s // 3600}:{total_s // 60 % 60:02d}:{total_s % 60:02d}"


def options_of(options: tuple[SafeLine, ...]) -> tuple[str, ...]:
    """Words of the options that a person wrote: a short one and its value are two."""
    found: list[str] = []
    for line in options:
        found += [line] if line.startswith("--") else line.split(" ", 1)
    return tuple(found)


def named_once(seen: list[JobSeen], program: str) -> tuple[JobSeen, ...]:
    """A number that is told twice with two states is an answer that nobody understands."""
    found: dict[str, JobSeen] = {}
    for job in seen:
        other = found.setdefault(job.native_id, job)
        if other.state is not job.state:
            raise odd(program, f"job {job.native_id} is both {other.word} and {job.word}")
    return tuple(found.values())


def hosts(text: str) -> tuple[str, ...]:
    """Names of `node[01-03,07],login` one by one; the text as it is where it is not understood."""
    found: list[str] = []
    for piece in re.findall(r"(?:[^,\[]|\[[^\]]*\])+", text[:100_000]):
        names = _expanded(piece, NODES_MAX - len(found))
        if names is None:
            return (one_line(text),)
        found += names
    return tuple(found)


def _expanded(piece: str, room: int) -> list[str] | None:
    names, at = [""], 0
    for _ in range(len(piece)):
        if at >= len(piece):
            break
        found = _PIECE.match(piece, at)
        if found is None or found.end() == at:
            return None
        at = found.end()
        ends = _numbers(found[2], room) if found[2] else [""]
        if ends is None or len(names) * len(ends) > room:
            return None
        names = [name + found[1] + end for name in names for end in ends]
    return names


def _numbers(ranges: str, room: int) -> list[str] | None:
    found: list[str] = []
    for part in ranges.split(","):
        first, _, last = part.partition("-")
        low, high = number(first), number(last or first)
        if low is None or high is None or high < low or high - low >= room - len(found):
            return None
        found += [str(each).zfill(len(first)) for each in range(low, high + 1)]
    return found
