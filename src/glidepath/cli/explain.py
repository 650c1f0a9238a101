"""`glidepath explain`: a job, a site, an offer or a pilot comes in, the reasons for how it stands go out.

The sentences are those of the journal; which term of an offer a job fails is worked out by the core's own
rule for what fits. It reads nothing live.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from glidepath.cli.atdesk import SERVER, at_desk, me, server_of, stopped
from glidepath.cli.explainjob import JOB, answer_about
from glidepath.cli.output import Reader
from glidepath.cli.session import opened
from glidepath.cli.verb import Answer, Exit, Noun, Options, Source, Stop, not_found
from glidepath.core.text import one_line

if TYPE_CHECKING:
    from glidepath.cli.session import Session
    from glidepath.cli.view import Scene
    from glidepath.core.provision.offer import Offer, SiteRules
    from glidepath.jobs.caller import Caller
    from glidepath.jobs.desk import JobDesk
    from glidepath.store.job import Job


_NUMBER = re.compile("[0-9]{1,18}")


class Explain(Reader):
    """Explain why a job waits, why a site got what it got, or why a pilot came and left"""

    options: ClassVar[Options] = {
        "thing": {
            "args": ("thing",),
            "metavar": "JOB|SITE|PILOT",
            "help": "a job number (`17`, or `1842.7` of HTCondor, with `SCHEDD#` before it where several "
            "have one), the name of a site or pilot, or `SITE/OFFER`",
        },
        **SERVER,
        **Reader.options,
    }

    def answer(self) -> Answer:
        thing = self.given["thing"]
        number = int(thing) if _NUMBER.fullmatch(thing) else None
        if number is not None and server_of(self):
            return self.far(number)
        if self.given["server"]:
            raise Stop(
                f"a server far away explains jobs by their number, and `{one_line(thing)}` is none",
                code=Exit.USAGE,
                hint="sites, pilots and jobs of HTCondor are explained where glidepath runs",
            )
        if JOB.fullmatch(thing):
            return answer_about(self, thing, self.last())
        with opened(self) as session:
            if number is not None:
                return self.job(session, number)
            scene = self.scene(session)
            sites = {str(site.name): site for site in scene.entry.rules.sites}
            offers = {str(key): offer for key, offer in scene.entry.rules.offers().items()}
            if thing in sites or thing in offers:
                return site_answer(scene, thing)
            return self.pilot(session, scene, [*sites, *offers])

    def last(self) -> Scene | None:
        """The last cycle where there is one; a job can be explained without."""
        from glidepath.cli.view import scene_now

        try:
            return scene_now(self)
        except Stop:
            return None

    def scene(self, session: Session) -> Scene:
        from glidepath.cli.view import scene_of

        return scene_of(session.latest(), self.caller.wall())

    def far(self, number: int) -> Answer:
        """What a server says of a job. Offers and groups of pools are not told there."""
        with at_desk(self) as (desk, caller):
            told = desk.show(caller, number)
            if "queue" in told:
                return placed_answer(desk, caller, number)
        item = {**told, **undecided("that is told where glidepath runs, not from far")}
        return Answer("Explanation", (told,), lines=tuple(job_lines(item)))

    def job(self, session: Session, number: int) -> Answer:
        from glidepath.cli.view import scene_of, sources_of
        from glidepath.jobs.errors import DeskError

        try:
            if "queue" in session.desk.show(me(), number):
                return placed_answer(session.desk, me(), number)
        except DeskError as error:
            raise stopped(error) from None
        job = session.jobs.get(number)
        entry = session.journal.latest()
        scene = None if entry is None else scene_of(entry, self.caller.wall())
        from glidepath.config import partitions_of

        pool = dict(partitions_of(session.located.settings)).get(job.spec.partition, job.spec.partition)
        item = job_item(job, scene, str(pool), self.caller.wall())
        sources: tuple[Source, ...] = () if scene is None else sources_of(scene)
        return Answer("Explanation", (item,), sources=sources, lines=tuple(job_lines(item)))

    def pilot(self, session: Session, scene: Scene, others: list[str]) -> Answer:
        from glidepath.cli.pilot import story, story_lines
        from glidepath.cli.view import sources_of

        thing = self.given["thing"]
        try:
            item = story(session, scene, thing)
        except Stop:
            known = [*others, *(str(track.name) for track in scene.tracks)]
            raise not_found("job, site, offer or pilot", thing, known) from None
        sources = sources_of(scene, site=item["site"])
        return Answer("Explanation", (item,), sources=sources, lines=story_lines(item))


def placed_answer(desk: JobDesk, caller: Caller, number: int) -> Answer:
    told = desk.explain(caller, number)
    return Answer("Explanation", (told,), lines=tuple(told["explained"]))


def site_answer(scene: Scene, thing: str) -> Answer:
    """The last decisions about a site and its offers, each with its numbers."""
    from glidepath.cli.view import action_text, decision_item, site_notes, sources_of

    about = [f"site:{thing}", f"offer:{thing}"]
    about += [f"offer:{key}" for key, offer in scene.entry.rules.offers().items() if offer.site == thing]
    found = [decision for decision in scene.entry.plan.decisions if decision.about in about]
    lines = [f"{thing}: cycle {scene.entry.cycle}, decided {scene.wall(scene.entry.snapshot.now)}"]
    for decision in found:
        action = action_text(decision)
        lines.append(f"  {decision.about}: {action + ', ' if action else ''}{decision.reason}")
    for health in scene.after.health:
        if health.about == thing or health.about.startswith(f"{thing}/"):
            last = f", last failure: {health.why}" if health.why else ""
            lines.append(f"  {health.about}: {health.joined} joined, {health.failed} failed{last}")
    site = thing.partition("/")[0]
    lines += [f"  {note}" for note in site_notes(scene, site) if thing == site]
    items = tuple({"name": decision.about, **decision_item(decision)} for decision in found)
    sources = sources_of(scene, site=site)
    return Answer("Explanation", items, sources=sources, lines=tuple(lines))


def undecided(why: str = "") -> dict[str, Any]:
    """Of a pulled job of which no decision is at hand."""
    return {"offers": [], "group_why": why, "asked": []}


def job_item(job: Job, scene: Scene | None, pool: str, wall: float) -> dict[str, Any]:
    from glidepath.jobs.items import item_of

    item: dict[str, Any] = {
        **item_of(job, wall),
        "pool": pool,
        **undecided(),
    }
    item["name"] = item["name"] or str(job.id)
    if scene is None:
        return item
    for site in scene.entry.rules.sites:
        item["offers"] += [offer_verdict(site, offer, job, pool) for offer in site.offers]
    item.update(_group(scene, job, pool))
    return item


def _group(scene: Scene, job: Job, pool: str) -> dict[str, Any]:
    """What was decided about all jobs that need the same, this one among them."""
    from glidepath.cli.view import action_text, why_of
    from glidepath.core.provision.demand import Demand
    from glidepath.core.provision.pilot import Submit
    from glidepath.core.quantity import PoolName

    group = Demand(PoolName(pool), job.spec.shape, idle=0, run_s_max=job.spec.run_s_max)
    fits = {offer.key for offer in scene.entry.rules.offers().values() if not terms(offer, job)}
    asked = [
        f"{decision.about.removeprefix('offer:')}: {action_text(decision)}"
        for decision in scene.entry.plan.decisions
        if isinstance(decision.action, Submit)
        and decision.action.pool == pool
        and decision.action.offer in fits
    ]
    coming = [track for track in scene.tracks if track.offer in fits and track.pool == pool]
    return {
        "group": group.name,
        "group_why": why_of(scene, f"demand:{group.name}"),
        "asked": asked,
        "pilots": [f"{track.name} {track.phase.value}" for track in coming],
    }


def offer_verdict(site: SiteRules, offer: Offer, job: Job, pool: str) -> dict[str, Any]:
    failing = terms(offer, job)
    if site.pools and pool not in site.pools:
        failing.insert(0, f"the site takes no jobs of the pool `{pool}`")
    return {"offer": offer.key, "fits": not failing, "because": failing}


def terms(offer: Offer, job: Job) -> list[str]:
    """Each term of the offer that the job fails, with both numbers; none where it fits."""
    from glidepath.core.units import shown_cpus, shown_duration, shown_size

    need, have = job.spec.request, offer.size
    pairs: list[tuple[int, int, str, Callable[[int], str]]] = [
        (need.cpu_milli, have.cpu_milli, "CPUs", shown_cpus),
        (need.memory_mib, have.memory_mib, "memory", shown_size),
        (need.disk_mib, have.disk_mib, "disk", shown_size),
        (need.gpus, have.gpus, "GPUs", str),
    ]
    failing = [
        f"{what}: the job needs {shown(asked)}, a pilot has {shown(there)}"
        for asked, there, what, shown in pairs
        if asked > there
    ]
    offered, choices = dict(offer.traits), dict(offer.choices) if offer.fitted else {}
    for key, value in job.spec.traits:
        if offered.get(key) != value and value not in choices.get(key, ()):
            there = offered.get(key) or ", ".join(choices.get(key, ())) or "none"
            failing.append(f"trait `{key}`: the job needs `{value}`, a pilot has `{there}`")
    run_s = job.spec.run_s_max
    if run_s is not None and run_s > offer.lifetime_s:
        failing.append(
            f"time: the job may run {shown_duration(run_s)}, a pilot lives {shown_duration(offer.lifetime_s)}"
        )
    if not failing:
        failing += _rounded_away(offer, job)
    return failing


def _rounded_away(offer: Offer, job: Job) -> list[str]:
    """The core has the last word: a fitted size can outgrow the offer by rounding up alone."""
    from glidepath.core.provision.offer import kind_for

    return (
        []
        if kind_for(offer, job.spec.shape)
        else ["size: rounded up to its step it is larger than the offer"]
    )


def job_lines(item: dict[str, Any]) -> list[str]:
    from glidepath.core.units import shown_duration

    head = f"job {item['id']} ({item['owner']}) is {item['state']}"
    if item["state"] == "queued":
        head += f": waiting for {shown_duration(item['age_s'])}"
    lines = [
        head + (f"; {item['why']}" if item["why"] else ""),
        f"  needs {item['shape']} in `{item['partition']}`",
    ]
    if item["pilot"]:
        lines.append(f"  attempt {item['attempt']} on {item['pilot']}")
    if item["state"] != "queued":
        code = "no exit code" if item["exit_code"] is None else f"exit code {item['exit_code']}"
        return [*lines, f"  ended {item['ended']}, {code}"] if item["ended"] else lines
    lines.append(f"  decided: {item['group_why'] or 'nothing yet; the next cycle will count it'}")
    for verdict in item["offers"]:
        lines.append(
            f"  {verdict['offer']}: " + ("fits" if verdict["fits"] else "; ".join(verdict["because"]))
        )
    lines += [f"  asked now: {one}" for one in item["asked"]]
    lines += [f"  pilot {one}" for one in item.get("pilots", [])[:20]]
    return lines


NOUN = Noun("explain", {"": Explain})
