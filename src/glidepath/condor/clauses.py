"""The terms of a ClassAd expression that must all hold: text comes in, its parts around `&&` go out.

For explaining only: which term fails is what people want to know. Text that is not understood stays whole.
"""

from __future__ import annotations

DEPTH_MAX = 200
CLAUSES_MAX = 100
_OPEN, _CLOSED = "([{", ")]}"


def clauses(text: str) -> tuple[str, ...]:
    """The terms in their order, without the brackets around each."""
    found: list[str] = []
    waiting = [text]
    while waiting and len(found) < CLAUSES_MAX:
        part = _bare(waiting.pop(0))
        pieces = _split(part)
        if len(pieces) == 1:
            found.append(part)
        else:
            waiting = [*pieces, *waiting]
    return tuple(found)


def _bare(text: str) -> str:
    """Without brackets that hold all of it."""
    text = text.strip()
    for _ in range(DEPTH_MAX):
        if not (text.startswith("(") and text.endswith(")")) or _end_of_first(text) != len(text) - 1:
            return text
        text = text[1:-1].strip()
    return text


def _end_of_first(text: str) -> int:
    """Where the bracket that opens at the start is closed."""
    for place, depth, _ in _walk(text):
        if depth == 0 and text[place] in _CLOSED:
            return place
    return -1


def _split(text: str) -> list[str]:
    """At every `&&` outside of brackets and strings; whole where a weaker operator joins the parts."""
    cuts = []
    for place, depth, quoted in _walk(text):
        if depth or quoted:
            continue
        pair = text[place : place + 2]
        if pair == "||" or (text[place] == "?" and text[place - 1 : place] != "="):
            return [text]
        if pair == "&&":
            cuts.append(place)
    pieces = [text[a:b] for a, b in zip([0, *(c + 2 for c in cuts)], [*cuts, len(text)], strict=True)]
    return pieces if all(piece.strip() for piece in pieces) else [text]


def _walk(text: str) -> list[tuple[int, int, bool]]:
    """Each letter's place, the brackets open after it, and whether it belongs to a string."""
    steps = []
    depth, quote = 0, ""
    place = 0
    while place < len(text):
        letter = text[place]
        if quote:
            if letter == "\\":
                steps.append((place, depth, True))
                place += 1
            elif letter == quote:
                quote = ""
            if place < len(text):
                steps.append((place, depth, True))
        elif letter in "\"'":
            quote = letter
            steps.append((place, depth, True))
        else:
            depth += (letter in _OPEN) - (letter in _CLOSED)
            steps.append((place, depth, False))
        place += 1
    return steps
