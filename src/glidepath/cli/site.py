"""`glidepath site`: the sites and their offers as the last cycle saw them, with what was decided and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from glidepath.cli.drain import DrainSite
from glidepath.cli.output import Reader
from glidepath.cli.pause import PauseSite, ResumeSite
from glidepath.cli.sitelogin import Login, Logout
from glidepath.cli.siteprobe import Probe
from glidepath.cli.siterender import Render
from glidepath.cli.verb import Answer, Column, Noun, Options, not_found

if TYPE_CHECKING:
    from glidepath.cli.view import Scene
    from glidepath.core.provision.offer import Offer, SiteRules

PHASES = (
    Column("PENDING", lambda item: item["expected"] + item["pending"], right=True),
    Column("STARTING", lambda item: item["starting"], right=True),
    Column("BUSY", lambda item: item["busy"], right=True),
    Column("IDLE", lambda item: item["idle"], right=True),
    Column("DRAINING", lambda item: item["draining"], right=True, wide=True),
    Column("UNKNOWN", lambda item: item["unknown"], right=True),
    Column("WHY", lambda item: item["why"]),
)
SITE_COLUMNS = (
    Column("SITE", lambda item: item["name"]),
    Column("OFFERS", lambda item: len(item["offers"]), right=True),
    Column("POOLS", lambda item: ", ".join(item["pools"]) or "all", wide=True),
    Column("LIVE", lambda item: item["live"], right=True),
    *PHASES,
)
OFFER_COLUMNS = (
    Column("OFFER", lambda item: item["name"]),
    Column("SIZE", lambda item: item["size"]),
    Column(
        "LIVE",
        lambda item: f"{item['live']}/{item['live_max']}" if item["live_max"] else item["live"],
        right=True,
    ),
    Column("FAILED", lambda item: item["failed"], right=True, wide=True),
    Column(
        "LATENCY", lambda item: f"{item['latency_s']}s" if item["latency_s"] else "", right=True, wide=True
    ),
    *PHASES,
)


class List(Reader):
    """List the sites with their pilots, and how each was judged in the last cycle"""

    options: ClassVar[Options] = Reader.options

    def answer(self) -> Answer:
        from glidepath.cli.view import scene_now, sources_of

        scene = scene_now(self)
        items = tuple(site_item(scene, site) for site in scene.entry.rules.sites)
        return Answer("SiteList", items, SITE_COLUMNS, sources_of(scene))


class Status(Reader):
    """Show the offers of the sites: pilots by phase, limits, and the last decision with its numbers"""

    options: ClassVar[Options] = {
        "name": {"args": ("name",), "nargs": "?", "metavar": "NAME", "help": "only this site"},
        **Reader.options,
    }

    def answer(self) -> Answer:
        from glidepath.cli.view import scene_now, site_notes, sources_of

        scene = scene_now(self)
        name, sites = self.given["name"], scene.entry.rules.sites
        if name is not None and name not in [site.name for site in sites]:
            raise not_found("site", name, [str(site.name) for site in sites])
        items = tuple(
            offer_item(scene, offer) for site in sites if name in (None, site.name) for offer in site.offers
        )
        sources, notes = sources_of(scene, site=name), site_notes(scene, name)
        return Answer("OfferList", items, OFFER_COLUMNS, sources, notes=notes)


def site_item(scene: Scene, site: SiteRules) -> dict[str, Any]:
    from glidepath.cli.view import phases, why_of

    tracks = [track for track in scene.tracks if track.site == site.name]
    return {
        "name": site.name,
        "offers": [offer.key for offer in site.offers],
        "pools": list(site.pools),
        "live": len(tracks),
        **phases(tracks),
        "paused": _paused(scene, f"site:{site.name}"),
        "why": _paused(scene, f"site:{site.name}") or why_of(scene, f"site:{site.name}"),
    }


def offer_item(scene: Scene, offer: Offer) -> dict[str, Any]:
    from glidepath.cli.view import phases, why_of
    from glidepath.core.units import shown_resources

    tracks = [track for track in scene.tracks if track.offer == offer.key]
    health = {one.about: one for one in scene.after.health}.get(offer.key)
    return {
        "name": offer.key,
        "site": offer.site,
        "size": ("up to " if offer.fitted else "") + shown_resources(offer.size),
        "live": len(tracks),
        "live_max": offer.limits.live_max,
        **phases(tracks),
        "failed": health.failed if health else 0,
        "latency_s": health.latency_s if health else 0,
        "why": why_of(scene, f"offer:{offer.key}"),
    }


def _paused(scene: Scene, about: str) -> str:
    for pause in scene.entry.snapshot.pauses:
        if pause.about == about:
            word = "DRAINED" if pause.drain else "PAUSED"
            return f"{word} by {pause.by}" + (f": {pause.why}" if pause.why else "")
    return ""


VERBS = {
    "list": List,
    "status": Status,
    "pause": PauseSite,
    "drain": DrainSite,
    "resume": ResumeSite,
    "probe": Probe,
    "render": Render,
    "login": Login,
    "logout": Logout,
}
NOUN = Noun("site", VERBS)
