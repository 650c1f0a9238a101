"""What a pilot may be told of its pool and its offer, checked before it gets near a configuration file.

Settings come in as text, values go out, and ValueError says in one sentence what is wrong. A line break or a
macro in a name would be a line of configuration that nobody wrote; such text is refused.
"""

import json
import re
from typing import Any, Dict, List, Mapping, NamedTuple, Tuple

Pairs = Tuple[Tuple[str, str], ...]

ROUTE_DEFAULT = "RequestK8SNamespace"
GRACE_S = 1200  # What a running job is left when the pilot's lifetime is over.
TEXT_MAX = 4000
LIST_MAX = 1000
ATTRIBUTE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
COLLECTOR = re.compile(
    r"(?:[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?(?:\?sock=[A-Za-z0-9_.-]{1,80})?"
)
POOL = re.compile(r"[A-Za-z0-9_.-]{1,120}")
DOMAIN = re.compile(r"[A-Za-z0-9_.:-]{1,250}")
RUN_TIME = re.compile(r"([A-Za-z_][A-Za-z0-9_]{0,127})(?:\*([0-9]{1,6}))?")
SHA256 = re.compile(r"[0-9a-fA-F]{64}")
MACRO = re.compile(r"\$\$?[A-Za-z_]*\$?\(|\$\$")
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
NESTED_MAX = 100
PIECES = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'|//|/\*|.')
PAIRS = {"(": ")", "[": "]", "{": "}"}


class Terms(NamedTuple):
    """Whom the offer serves, and what its pilots say and run besides; see `glidepath.terms`."""

    community: str = ""
    owners: Tuple[str, ...] = ()
    owners_refused: Tuple[str, ...] = ()
    groups: Tuple[str, ...] = ()
    groups_refused: Tuple[str, ...] = ()
    attributes: Pairs = ()
    start: Tuple[str, ...] = ()
    lines: Tuple[str, ...] = ()
    init: str = ""


class Settings(NamedTuple):
    """How to join, as the backend wrote it down."""

    pool: str
    collectors: Tuple[str, ...]
    site: str
    offer: str
    terms: Terms
    route: str
    run_time: Tuple[Tuple[str, int], ...]  # attributes, and the seconds in one unit of each
    sources: Dict[str, Dict[str, str]]  # of HTCondor, by operating system and architecture
    grace_s: int
    trust_domain: str
    tokens: str  # a folder from which tokens are copied besides our own, or nothing


def plain(text: Any, what: str) -> str:
    """Text that cannot become more than one value of one line."""
    if not isinstance(text, str) or len(text) > TEXT_MAX:
        raise ValueError("%s must be a text of at most %d letters" % (what, TEXT_MAX))
    if CONTROL.search(text):
        raise ValueError("%s must not have a line break or another control character" % what)
    if MACRO.search(text):
        raise ValueError("%s must not have a macro of HTCondor (`$`) in it: %s" % (what, ascii(text)[:100]))
    if text.rstrip().endswith("\\"):
        raise ValueError("%s must not end with a backslash, which would join it to the next line" % what)
    return text


def quoted(text: str) -> str:
    """A ClassAd string that reads back as exactly this text."""
    return '"%s"' % text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")


def old_quoted(text: str) -> str:
    """The same in the syntax of configuration files, where a backslash is a letter like others."""
    text = CONTROL.sub(" ", text)
    if text.endswith("\\"):
        raise ValueError("a text must not end with a backslash in HTCondor's files: %s" % ascii(text)[:100])
    return '"%s"' % text.replace('"', '\\"')


def old_syntax(text: str) -> str:
    """An expression in the syntax of configuration files; the door and people write it in the new one."""

    def old(piece: str) -> str:
        if not piece.startswith('"'):
            return piece
        inside = piece[1:-1]
        if re.search(r"\\[^\\\"]", re.sub(r'\\[\\"]', "", inside)):
            raise ValueError("a backslash in a text is written twice: %s" % ascii(piece)[:100])
        return old_quoted(re.sub(r'\\([\\"])', r"\1", inside))

    return "".join(old(piece) for piece in PIECES.findall(text))


def expression(text: Any, what: str) -> str:
    """One ClassAd expression: in brackets it stays one, whatever is in it."""
    found = plain(text, what).strip()
    if not found:
        raise ValueError("%s must not be empty" % what)
    open_brackets: List[str] = []
    for piece in PIECES.findall(found):
        if piece in ("//", "/*", '"', "'", "#") or (piece == ";" and not open_brackets):
            raise ValueError("%s is not one expression (%s): %s" % (what, piece, ascii(text)[:100]))
        if piece in PAIRS and len(open_brackets) < NESTED_MAX:
            open_brackets.append(PAIRS[piece])
        elif piece in PAIRS or (
            piece in PAIRS.values() and (not open_brackets or open_brackets.pop() != piece)
        ):
            raise ValueError("%s has brackets that do not match: %s" % (what, ascii(text)[:100]))
    if open_brackets:
        raise ValueError("%s has a bracket that is not closed: %s" % (what, ascii(text)[:100]))
    return found


def line(text: Any, what: str) -> str:
    """A line of configuration that the operator wrote: it may use macros, but it stays one line."""
    if not isinstance(text, str) or len(text) > TEXT_MAX or CONTROL.search(text.replace("\t", " ")):
        raise ValueError("%s must be one line" % what)
    if text.rstrip().endswith("\\") or "@=" in text:
        raise ValueError("%s must not go on in the next line: %s" % (what, ascii(text)[:100]))
    return text


def listed(found: Any, what: str) -> Tuple[Any, ...]:
    if not isinstance(found, list) or len(found) > LIST_MAX:
        raise ValueError("%s must be a list of at most %d" % (what, LIST_MAX))
    return tuple(found)


def terms_of(text: str) -> Terms:
    try:
        found = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        raise ValueError("GLIDEPATH_TERMS is not JSON") from None
    if not isinstance(found, dict):
        raise ValueError("GLIDEPATH_TERMS must be one JSON object")
    names = {
        name: tuple(plain(one, "the offer's %s" % name) for one in listed(found.get(name, []), name))
        for name in ("owners", "owners_refused", "groups", "groups_refused")
    }
    attributes = []
    for pair in listed(found.get("attributes", []), "attributes"):
        if not isinstance(pair, list) or len(pair) != 2 or not ATTRIBUTE.fullmatch(str(pair[0])):
            raise ValueError(
                "an attribute of the offer must be a name and a value, not %s" % ascii(pair)[:100]
            )
        attributes.append((str(pair[0]), expression(pair[1], "the attribute %s" % pair[0])))
    return Terms(
        community=plain(found.get("community", ""), "the community"),
        attributes=tuple(attributes),
        start=tuple(expression(one, "a START term") for one in listed(found.get("start", []), "start")),
        lines=tuple(line(one, "a line of the offer") for one in listed(found.get("lines", []), "lines")),
        init=plain(found.get("init", ""), "the path of the init program"),
        **names,
    )


def settings_of(told: Mapping[str, Any]) -> Settings:
    """All of them, or the first thing that is wrong. Names that are not known are for later pilots."""

    def said(name: str, default: str = "") -> str:
        return plain(told.get(name, default), name) or default

    collectors = tuple(one.strip() for one in said("GLIDEPATH_COLLECTOR").split(",") if one.strip())
    if not collectors or not all(COLLECTOR.fullmatch(one) for one in collectors):
        raise ValueError("GLIDEPATH_COLLECTOR must name the pool's collector, as `host` or `host:port`")
    for name, form in (("GLIDEPATH_POOL", POOL), ("GLIDEPATH_TRUST_DOMAIN", DOMAIN)):
        if said(name) and not form.fullmatch(said(name)):
            raise ValueError("%s has letters that do not belong there: %s" % (name, ascii(said(name))[:100]))
    route = said("GLIDEPATH_ROUTE", ROUTE_DEFAULT)
    if not ATTRIBUTE.fullmatch(route):
        raise ValueError("GLIDEPATH_ROUTE must be the name of an attribute, not %s" % ascii(route)[:100])
    grace = said("GLIDEPATH_GRACE_S", str(GRACE_S))
    if not re.fullmatch("[0-9]{1,6}", grace):
        raise ValueError("GLIDEPATH_GRACE_S must be seconds, not %s" % ascii(grace)[:100])
    return Settings(
        pool=said("GLIDEPATH_POOL"),
        collectors=collectors,
        site=said("GLIDEPATH_SITE"),
        offer=said("GLIDEPATH_OFFER"),
        terms=terms_of(str(told.get("GLIDEPATH_TERMS", ""))),
        route=route,
        run_time=run_times(said("GLIDEPATH_RUN_TIME")),
        sources=sources_of(said("GLIDEPATH_CONDOR", "machine"), said("GLIDEPATH_CONDOR_SHA256")),
        grace_s=int(grace),
        trust_domain=said("GLIDEPATH_TRUST_DOMAIN"),
        tokens=said("GLIDEPATH_TOKENS"),
    )


def run_times(text: str) -> Tuple[Tuple[str, int], ...]:
    """`MaxRunTime,MaxWallTimeMins,Limit*3600`: attributes of seconds, of minutes, of so many seconds."""
    found = []
    for word in (one.strip() for one in text.split(",") if one.strip()):
        parts = RUN_TIME.fullmatch(word)
        if not parts:
            raise ValueError("GLIDEPATH_RUN_TIME must name attributes, not %s" % ascii(word)[:100])
        usual = 60 if parts.group(1).endswith("Mins") else 1
        found.append((parts.group(1), int(parts.group(2) or usual)))
    return tuple(found)


def sources_of(text: str, sha256: str) -> Dict[str, Dict[str, str]]:
    """Where HTCondor comes from; one place for every system stands under `*`."""
    if not text.startswith("{"):
        found: Any = {"*": {"from": text, "sha256": sha256}}
    else:
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            raise ValueError("GLIDEPATH_CONDOR is not JSON") from None
    for system, source in found.items():
        if not isinstance(source, dict) or not isinstance(source.get("from"), str):
            raise ValueError("GLIDEPATH_CONDOR must say `from` for %s" % ascii(system)[:100])
        digest = source.get("sha256", "")
        if digest and not (isinstance(digest, str) and SHA256.fullmatch(digest)):
            raise ValueError("GLIDEPATH_CONDOR has a sha256 that is none, for %s" % ascii(system)[:100])
        if re.match("https?://", source["from"]) and not digest:
            raise ValueError("GLIDEPATH_CONDOR has an address without a sha256, for %s" % ascii(system)[:100])
    return {str(system): dict(source) for system, source in found.items()}
