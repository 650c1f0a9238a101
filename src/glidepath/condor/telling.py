"""Works out the story of one job, in the child: its ad comes in, a table for `story` goes out.

Every term of the job's Requirements and of the slot's START is tried by itself, both ways.
"""

from __future__ import annotations

from typing import Any

from glidepath.condor.binding import ClassAd, ClassAdException, ExprTree
from glidepath.condor.clauses import clauses
from glidepath.condor.evaluate import BadJob, owner_of, request_of, run_s_of, shown
from glidepath.condor.match import Matcher, matches, with_request
from glidepath.condor.reading import Question
from glidepath.condor.refs import TEXT_LETTERS_MAX
from glidepath.condor.slotad import start_terms
from glidepath.core.provision.offer import Offer, kind_for
from glidepath.core.quantity import Shape
from glidepath.core.text import one_line
from glidepath.core.units import exact_resources
from glidepath.terms import NO_TERMS

STATES = {
    1: "idle",
    2: "running",
    3: "removed",
    4: "completed",
    5: "held",
    6: "transferring output",
    7: "suspended",
}
TERM_LETTERS_MAX = 300
FAILED_MAX = 20
LIMITS = (
    ("RequestCpus", "Cpus"),
    ("RequestMemory", "Memory"),
    ("RequestDisk", "Disk"),
    ("RequestGPUs", "GPUs"),
)


def told(ad: ClassAd, question: Question, matcher: Matcher, *, schedd: str, now_s: int) -> dict[str, Any]:
    status, queued = ad.get("JobStatus"), ad.get("QDate")
    hold, owner = ad.get("HoldReason"), ad.get("Owner")
    table: dict[str, Any] = {
        "job": f"{ad.get('ClusterId')}.{ad.get('ProcId')}",
        "schedd": schedd,
        "owner": one_line(owner) if isinstance(owner, str) else "?",
        "state": STATES.get(status, "unknown") if isinstance(status, int) else "unknown",
        "age_s": max(0, now_s - queued) if type(queued) is int else 0,
        "hold_reason": one_line(hold) if isinstance(hold, str) and status == 5 else "",
        "request": None,
        "run_s_max": None,
        "set_aside": "",
        "offers": [],
    }
    try:
        owner_of(ad)
        request = request_of(ad)
        table["run_s_max"] = run_s_of(ad, question.run_names)
        fit = matcher.fit(ad, request, now_s=now_s)
    except BadJob as bad:
        table["set_aside"] = str(bad)
        return table
    table["request"] = request.as_tuple()
    shape = Shape(request, fit.traits)
    table["offers"] = [
        _offer(ad, offer, shape, matcher=matcher, question=question) for offer in matcher.offers
    ]
    table["offers"] += [
        {"offer": key, "fits": False, "failed": [], "note": why} for key, why in sorted(matcher.bad.items())
    ]
    return table


def _offer(
    ad: ClassAd, offer: Offer, shape: Shape, *, matcher: Matcher, question: Question
) -> dict[str, Any]:
    kind = kind_for(offer, shape) or kind_for(offer, Shape(shape.request))
    size = kind.size if kind is not None else offer.size
    traits = kind.traits if kind is not None else offer.traits
    slot = matcher.slot(kind) if kind is not None else matcher.largest(offer)
    row: dict[str, Any] = {"offer": offer.key, "fits": False, "failed": [], "note": ""}
    if slot is None:
        return {**row, "note": "its attributes are not ClassAd text"}
    job = with_request(ad, shape.request)
    row["fits"] = kind_for(offer, shape) is not None and matches(job, slot)
    if row["fits"]:
        return row
    row["failed"] = _failed(
        job, slot, start_terms(question.terms.get(offer.key, NO_TERMS), route=matcher.route)
    )
    if kind is None and not shape.request.fits_in(offer.size):
        row["note"] = f"its pilots have {exact_resources(offer.size)}"
    elif kind_for(offer, shape) is None:
        row["note"] = f"its pilots have {_traits(traits)}, {_traits(shape.traits)} is needed"
    elif not row["failed"]:
        row["note"] = f"no single term fails at {exact_resources(size)}"
    return row


def _traits(traits: tuple[tuple[str, str], ...]) -> str:
    return " ".join(f"{key}={value}" for key, value in traits) or "no traits"


def _failed(job: ClassAd, slot: ClassAd, start: tuple[str, ...]) -> list[tuple[str, str, str]]:
    found = []
    try:
        requirements = str(job.lookup("Requirements"))[:TEXT_LETTERS_MAX]
    except KeyError:
        found.append(("job", "Requirements", "missing"))
        requirements = "true"
    for term in clauses(requirements):
        value = _value(term, job, slot)
        if value is not None:
            found.append(("job", _short(term), value))
    for text in start:
        for term in clauses(text):
            value = _value(term, slot, job)
            if value is not None:
                found.append(("offer", _short(term), value))
    for wanted, had in LIMITS:
        term = f"TARGET.{had} >= ({wanted} ?: 0)"
        value = _value(term, job, slot)
        if value is not None and not any(had in term_text for _, term_text, _ in found):
            found.append(("offer", f"{had} >= {wanted}", value))
    return found[:FAILED_MAX]


def _value(term: str, scope: ClassAd, target: ClassAd) -> str | None:
    """What the term came to, with the values it looked at; None where it holds."""
    try:
        expression = ExprTree(term)
        value = expression.eval(scope, target)
    except ClassAdException:
        return "cannot be evaluated"
    if value is True or (type(value) in (int, float) and value):
        return None
    seen = [
        text for name in ClassAd().externalRefs(expression)[:4] if (text := _looked_up(name, scope, target))
    ]
    return "; ".join([shown(value), *seen])


def _looked_up(reference: str, scope: ClassAd, target: ClassAd) -> str:
    where, dot, name = reference.partition(".")
    ads = {"target": [target], "my": [scope]}.get(where.lower() if dot else "", [scope, target])
    name = name if dot and where.lower() in ("target", "my") else where
    for ad in ads:
        if name in ad:
            try:
                return f"{name} is {_plain(ad.eval(name))}"
            except ClassAdException:
                return f"{name} cannot be evaluated"
    return f"{name} is undefined" if name else ""


def _plain(value: object) -> str:
    if type(value) in (int, float):
        return str(value)
    return f"`{one_line(value, letters_max=60)}`" if isinstance(value, str) else shown(value)


def _short(term: str) -> str:
    return one_line(term, letters_max=TERM_LETTERS_MAX)
