"""`glidepath explain 1842.7`: a job of another queue, asked about live, and what was decided for it.

The number of a job comes in; its terms from its own queue and the reasons of the journal go out. Here alone
does `explain` ask a pool, because the journal keeps groups and not their jobs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from glidepath.cli.output import span
from glidepath.cli.session import located
from glidepath.cli.verb import Answer, Exit, Stop, Verb, not_found

if TYPE_CHECKING:
    from glidepath.cli.session import Located
    from glidepath.cli.view import Scene
    from glidepath.core.provision.offer import Offer
    from glidepath.ports import Explains
    from glidepath.story import JobStory, OfferStory

# `CLUSTER.PROC`, or `SCHEDD#CLUSTER.PROC` where several schedds have such a number.
JOB = re.compile(r"(?:[^#\s]{1,200}#)?[0-9]{1,12}\.[0-9]{1,9}")
PILOTS_SHOWN_MAX = 20


def answer_about(verb: Verb, job: str, scene: Scene | None) -> Answer:
    place = located(verb)
    stories, failed = asked(place, job)
    if not stories and failed:
        raise Stop(f"nobody could be asked about `{job}`: {'; '.join(failed)}", code=Exit.FAILED)
    if not stories:
        raise not_found("job", job, [], hint="no schedd that is trusted has it; did it end already?")
    items = tuple(item_of(pool, story, scene) for pool, story in stories)
    lines = [line for item in items for line in lines_of(item)]
    return Answer("Explanation", items, lines=tuple(lines), notes=tuple(failed))


def asked(place: Located, job: str) -> tuple[list[tuple[str, JobStory]], list[str]]:
    """Every pool that knows such a job, and why the others could not be asked."""
    from glidepath.ports import WORLD_ERRORS

    stories: list[tuple[str, JobStory]] = []
    failed: list[str] = []
    for name, pool, offers in pools_of(place):
        try:
            stories += [(name, story) for story in pool.explain(job, offers)]
        except WORLD_ERRORS as error:
            failed.append(f"pool `{name}`: {error}")
        finally:
            pool.close()
    return stories, failed


def pools_of(place: Located) -> Iterable[tuple[str, Explains, tuple[Offer, ...]]]:
    from glidepath.assembly import pools_of
    from glidepath.config import rules_of, terms_of
    from glidepath.ports import Explains, Place

    here = Place(place.where.home, place.store_url, terms=terms_of(place.settings))
    offers = tuple(rules_of(place.settings).offers().values())
    for name, pool in pools_of(place.settings, here).items():
        if isinstance(pool, Explains):
            yield str(name), pool, offers


def item_of(pool: str, story: JobStory, scene: Scene | None) -> dict[str, Any]:
    from glidepath.core.units import shown_resources

    return {
        "name": f"{story.schedd}#{story.job}",
        "pool": pool,
        "job": story.job,
        "schedd": story.schedd,
        "owner": story.owner,
        "state": story.state,
        "age_s": story.age_s,
        "request": None if story.request is None else shown_resources(story.request),
        "run_s_max": story.run_s_max,
        "hold_reason": story.hold_reason,
        "set_aside": story.set_aside,
        "offers": [_verdict(offer) for offer in story.offers],
        **(
            _decided(pool, story, scene) if scene is not None else {"decided": "", "pilots": [], "likely": ""}
        ),
    }


def _verdict(offer: OfferStory) -> dict[str, Any]:
    because = [f"{term.whose}: {term.term} is {term.value}" for term in offer.failed]
    if offer.note:
        because.append(offer.note)
    return {"offer": str(offer.offer), "fits": offer.fits, "because": because}


def _decided(pool: str, story: JobStory, scene: Scene) -> dict[str, Any]:
    """What was decided about the group that the job belongs to, what is on its way, and when it may come."""
    from glidepath.cli.view import why_of
    from glidepath.core.provision.pilot import COMING

    fits = tuple(sorted(offer.offer for offer in story.offers if offer.fits))
    groups = [
        wanted.demand
        for wanted in scene.picture.wanted
        if wanted.demand.pool == pool
        and wanted.demand.shape.request == story.request
        and wanted.demand.run_s_max == story.run_s_max
    ]
    group = next((each for each in groups if each.fits == fits), groups[0] if len(groups) == 1 else None)
    coming = [t for t in scene.tracks if t.offer in fits and t.pool == pool and t.phase in COMING]
    return {
        "decided": "" if group is None else why_of(scene, f"demand:{group.name}"),
        "pilots": [f"{track.name} {track.phase.value}" for track in coming],
        "likely": likely(scene, fits, [scene.ago_s(track.asked_at) for track in coming]),
    }


def likely(scene: Scene, fits: Sequence[str], asked_s: Sequence[int]) -> str:
    """When a pilot may join, by how long those before it took; nothing where none did."""
    pace = {h.about: h.latency_s for h in scene.after.health if h.about in fits and h.latency_s}
    if not pace or not asked_s:
        return ""
    offer, latency_s = min(pace.items(), key=lambda pair: (pair[1], pair[0]))
    left_s = max(0, latency_s - max(asked_s))
    when = f"in about {span(left_s)}" if left_s else "any moment"
    return f"{when}: pilots of {offer} took {span(latency_s)} from being asked for to joining"


def lines_of(item: dict[str, Any]) -> list[str]:
    who = f"job {item['name']} ({item['owner']}) in `{item['pool']}`"
    lines = [f"{who} is {item['state']}, {span(item['age_s'])} old"]
    if item["hold_reason"]:
        lines.append(f"  held: {item['hold_reason']}")
    if item["set_aside"]:
        return [*lines, f"  set aside, nothing is started for it: {item['set_aside']}"]
    if item["request"]:
        run = f", for at most {span(item['run_s_max'])}" if item["run_s_max"] else ""
        lines.append(f"  needs {item['request']}{run}")
    if item["state"] == "idle":
        lines.append(f"  decided: {item['decided'] or 'nothing yet; the next cycle will count it'}")
    for verdict in item["offers"]:
        lines.append(
            f"  {verdict['offer']}: " + ("fits" if verdict["fits"] else "; ".join(verdict["because"]))
        )
    lines += [f"  pilot {one}" for one in item["pilots"][:PILOTS_SHOWN_MAX]]
    if item["likely"]:
        lines.append(f"  a pilot is likely {item['likely']}")
    return lines
