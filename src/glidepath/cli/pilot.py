"""`glidepath pilot`: where pilots stand, the story of one, and what it wrote."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar

from glidepath.cli import argument
from glidepath.cli.output import Reader, card, span
from glidepath.cli.pilotusage import Usage
from glidepath.cli.session import iso, located, opened
from glidepath.cli.verb import Answer, Column, Exit, Noun, Options, Stop, Verb, not_found
from glidepath.core.text import one_line

if TYPE_CHECKING:
    from glidepath.cli.session import Located, Session
    from glidepath.cli.view import Scene
    from glidepath.journal.entry import EndedPilot
    from glidepath.ports import Backend

PHASES = ("expected", "pending", "starting", "idle", "busy", "draining", "unknown", "done", "failed", "gone")
ENDED_MAX = 1000
LOG_BYTES_MAX = 16 * 1024 * 1024
LOG_BYTES_DEFAULT = 64 * 1024
# The cycle in which it was asked for is part of its name; see `core.provision.decide`.
_NAME = re.compile(r"gp-[a-z0-9]{1,32}-(?P<cycle>[a-z0-9]{1,12})-[a-z0-9]{1,12}")

NAME: Options = {"name": {"args": ("name",), "metavar": "NAME", "help": "the name of a pilot"}}


COLUMNS = (
    Column("NAME", lambda item: item["name"]),
    Column("OFFER", lambda item: item["offer"]),
    Column("POOL", lambda item: item["pool"]),
    Column("PHASE", lambda item: item["phase"]),
    Column("FOR", lambda item: span(item["phase_s"]), right=True),
    Column("AGE", lambda item: span(item["age_s"]), right=True),
    Column("JOBS", lambda item: item["jobs_run"], right=True),
    Column("SIZE", lambda item: item["size"]),
    Column("OWNER", lambda item: item["owner"], wide=True),
    Column("NODE", lambda item: item["node"], wide=True),
    Column("ID", lambda item: item["native_id"], wide=True),
    Column("WHY", lambda item: item["leaving"] or item["note"]),
)
ENDED_COLUMNS = (
    *COLUMNS[:4],
    Column("PENDING", lambda item: span(item["pending_s"]), right=True),
    Column("STARTING", lambda item: span(item["starting_s"]), right=True),
    Column("BUSY", lambda item: span(item["busy_s"]), right=True),
    Column("IDLE", lambda item: span(item["idle_s"]), right=True),
    Column("JOBS", lambda item: item["jobs_run"], right=True),
    Column("WHY", lambda item: item["why"]),
)


class List(Reader):
    """List the pilots that are not over, or with --ended the last ones that are"""

    options: ClassVar[Options] = {
        "site": {"args": ("--site",), "metavar": "NAME", "help": "only pilots of this site"},
        "phase": {"args": ("--phase",), "choices": PHASES, "help": "only pilots in this phase"},
        "ended": {
            "args": ("--ended",),
            "action": "store_true",
            "help": "those that are over, with where their time went",
        },
        "limit": {
            "args": ("--limit",),
            "type": argument.count,
            "default": ENDED_MAX,
            "metavar": "N",
            "help": "at most N",
        },
        **Reader.options,
    }

    def answer(self) -> Answer:
        from glidepath.cli.view import pilot_item, scene_now, sources_of

        given = self.given
        if given["ended"]:
            return self.over()
        scene = scene_now(self)
        tracks = [track for track in scene.tracks if given["site"] in (None, track.site)]
        tracks = [track for track in tracks if given["phase"] in (None, track.phase.value)]
        items = tuple(pilot_item(scene, track) for track in tracks[: given["limit"]])
        sources = sources_of(scene, site=given["site"])
        return Answer("PilotList", items, COLUMNS, sources, nothing="no pilot matches")

    def over(self) -> Answer:
        from glidepath.cli.view import scene_of

        given = self.given
        with opened(self) as session:
            scene = scene_of(session.latest(), self.caller.wall())
            rows = all_over(session, scene, site=given["site"])
        rows = [one for one in rows if given["phase"] in (None, one.ended.phase.value)]
        items = tuple(ended_item(one) for one in rows[: given["limit"]])
        return Answer("PilotList", items, ENDED_COLUMNS, nothing="no pilot has ended yet")


def all_over(session: Session, scene: Scene, *, site: str | None = None) -> list[EndedPilot]:
    """The last pilots that are over: those of which their site has a trace, then those that are closed.

    The scene is older than what is read here, so that one which is closed meanwhile is not missed.
    """
    closed = session.journal.ended(limit=ENDED_MAX, site=site)
    known = {row.ended.name for row in closed}
    rows = [row for row in scene.over if row.ended.name not in known and site in (None, row.ended.site)]
    return [*rows, *closed]


def ended_item(kept: EndedPilot) -> dict[str, Any]:
    ended = kept.ended
    return {
        "name": ended.name,
        "site": ended.site,
        "offer": ended.offer,
        "pool": ended.pool,
        "owner": ended.owner,
        "phase": ended.phase.value,
        "why": ended.why,
        "ended": iso(kept.ended_wall_s),
        "pending_s": ended.pending_s,
        "starting_s": ended.starting_s,
        "busy_s": ended.busy_s,
        "idle_s": ended.idle_s,
        "failed_s": ended.failed_s,
        "jobs_run": ended.jobs_run,
        "cpu_milli": ended.cpu_milli,
        "node": ended.node,
    }


class Show(Reader):
    """Show the story of one pilot: why it was asked for, what it did, why it left"""

    options: ClassVar[Options] = {**NAME, **Reader.options}

    def answer(self) -> Answer:
        from glidepath.cli.view import scene_of, sources_of

        with opened(self) as session:
            scene = scene_of(session.latest(), self.caller.wall())
            item = story(session, scene, self.given["name"])
        sources = sources_of(scene, site=item["site"], pool=item["pool"])
        return Answer("PilotList", (item,), COLUMNS, sources, lines=story_lines(item))


def story(session: Session, scene: Scene, name: str) -> dict[str, Any]:
    """All that the journal knows of a pilot, alive or over."""
    from glidepath.cli.view import pilot_item

    tracks = {str(track.name): track for track in scene.tracks}
    if name in tracks:
        item = pilot_item(scene, tracks[name])
    else:
        over = {str(one.ended.name): one for one in all_over(session, scene)}
        if name not in over:
            raise not_found(
                "pilot", name, [*tracks, *over], hint="`glidepath pilot list` shows those there are"
            )
        item = ended_item(over[name])
    return {**item, "asked_because": asked_because(session, name)}


def asked_because(session: Session, name: str) -> str:
    """The decision that asked for it; its cycle may be older than what the journal keeps."""
    from glidepath.core.provision.pilot import Submit

    match = _NAME.fullmatch(name)
    if match is None:
        return ""
    try:
        entry = session.journal.entry(int(match["cycle"], 36))
    except LookupError:
        return "the cycle that asked for it is no longer kept"
    for decision in entry.plan.decisions:
        if isinstance(decision.action, Submit) and name in decision.action.names:
            return f"cycle {entry.cycle}: {decision.reason}"
    return ""


def story_lines(item: dict[str, Any]) -> tuple[str, ...]:
    pairs: list[tuple[str, object]] = [
        (key, item.get(key)) for key in ("name", "offer", "pool", "owner", "phase", "size")
    ]
    pairs.append(("asked because", item["asked_because"]))
    pairs += [(key, item.get(key)) for key in ("asked", "started", "joined", "ends", "ended", "node")]
    for key in ("pending_s", "starting_s", "busy_s", "idle_s", "failed_s"):
        if key in item:
            pairs.append((key.removesuffix("_s"), span(item[key])))
    pairs += [
        ("jobs run", item["jobs_run"]),
        ("told to leave", item.get("leaving")),
        ("left because", item.get("why")),
    ]
    pairs.append(("note", item.get("note")))
    return card(pairs)


class Logs(Verb):
    """Print the last lines that a pilot itself wrote; what its jobs wrote is in `job logs`"""

    options: ClassVar[Options] = {
        **NAME,
        "bytes": {
            "args": ("--bytes",),
            "type": argument.count,
            "default": LOG_BYTES_DEFAULT,
            "metavar": "N",
            "help": "at most the last N bytes (default: 65536)",
        },
    }

    def run(self) -> int:
        from glidepath.cli.joblog import Pour
        from glidepath.cli.view import scene_of
        from glidepath.core.quantity import PilotName
        from glidepath.ports import WORLD_ERRORS

        name = self.given["name"]
        place = located(self)
        with opened(self, place=place) as session:
            scene = scene_of(session.latest(), self.caller.wall())
            site = story(session, scene, name)["site"]
        backend = backend_of(place, site)
        try:
            text = backend.logs(PilotName(name), bytes_max=min(self.given["bytes"], LOG_BYTES_MAX))
        except LookupError:
            raise Stop(
                f"the pilot `{one_line(name)}` left no output at `{site}`", code=Exit.NOT_FOUND
            ) from None
        except WORLD_ERRORS as error:
            raise Stop(f"the site `{site}` gave no output of `{one_line(name)}`: {error}") from None
        finally:
            # A connection that was opened for this is not left behind.
            getattr(backend, "close", lambda: None)()
        Pour(self.caller).write(text.encode("utf-8", "replace"))
        return Exit.DONE


def backend_of(place: Located, site: str) -> Backend:
    """The door to one site, only to read from it."""
    from typing import cast

    from glidepath.config import kind_settings
    from glidepath.core.quantity import SiteName
    from glidepath.plugins import BACKENDS, PluginError, load
    from glidepath.ports import BackendKind, Place

    table = place.settings.sites.get(site)
    if table is None:
        raise not_found("site", site, list(place.settings.sites), hint="it is no longer configured")
    try:
        kind = cast(BackendKind, load(BACKENDS, table.kind))
    except PluginError as error:
        raise Stop(str(error)) from None
    return kind(SiteName(site), kind_settings(table), Place(place.where.home, place.store_url))


NOUN = Noun("pilot", {"list": List, "show": Show, "logs": Logs, "usage": Usage})
