"""`glidepath site drain`: the word that empties a site, and the wait until nothing of ours is left there.

The word is kept in the store, as a pause is; the controllers act on it. What is waited for is read from the
cycles that they record, so that unseen is never taken for empty. It kills nothing, and has no way to.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from glidepath.cli import argument
from glidepath.cli.output import DRY_RUN, OUTPUT, drawn, need
from glidepath.cli.pause import WHY, subject
from glidepath.cli.session import located, login, opened
from glidepath.cli.verb import Answer, Column, Exit, Options, Stop, Verb

if TYPE_CHECKING:
    from glidepath.cli.session import Located, Session
    from glidepath.cli.view import Scene

TIMEOUT_S = 1800
LOOK_S = 3
# A controller that is being replaced is away for a while; beyond this nobody will come.
ABSENT_S_MAX = 180

GONE, DRAINING, UNHEARD, UNSEEN, ABSENT = "gone", "draining", "unheard", "unseen", "nobody acts"
COLUMNS = (
    Column("NAME", lambda item: item["name"]),
    Column("STATE", lambda item: item["state"]),
    Column("LEFT", lambda item: item["left"], right=True),
    Column("PENDING", lambda item: item["pending"], right=True),
    Column("STARTING", lambda item: item["starting"], right=True),
    Column("BUSY", lambda item: item["busy"], right=True),
    Column("IDLE", lambda item: item["idle"], right=True),
    Column("DRAINING", lambda item: item["draining"], right=True),
    Column("UNKNOWN", lambda item: item["unknown"], right=True),
    Column("WHY", lambda item: item["why"]),
)


@dataclass(frozen=True)
class Standing:
    """How far the draining of one site or offer has come, by one recorded cycle."""

    about: str
    state: str
    left: int = 0
    why: str = ""
    phases: dict[str, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.about.partition(":")[2]

    def item(self) -> dict[str, Any]:
        named = {key: self.phases.get(key, 0) for key in ("starting", "busy", "idle", "draining", "unknown")}
        waits = self.phases.get("expected", 0) + self.phases.get("pending", 0)
        return {
            "name": self.name,
            "state": self.state,
            "left": self.left,
            "pending": waits,
            **named,
            "why": self.why,
        }


def standing(scene: Scene | None, about: str, *, heard: bool = True) -> Standing:
    """`heard` is false where it is only asked what is there, without a word that should have been heard."""
    from glidepath.cli.view import late, phases
    from glidepath.core.quantity import SiteName

    if scene is None:
        return Standing(about, ABSENT, why="nothing has been decided yet")
    kind, _, name = about.partition(":")
    # Those that are over and not yet cleared away are traces of ours too.
    ours = [t for t in scene.after.tracks if name == (t.site if kind == "site" else t.offer)]
    counts = phases(track for track in ours if track.live)
    site = SiteName(name.partition("/")[0])
    state, why = DRAINING, ""
    if late(scene):
        state, why = ABSENT, f"no cycle for {scene.age_s} s; is `glidepath up` running?"
    elif heard and about not in {pause.about for pause in scene.entry.snapshot.pauses if pause.drain}:
        state, why = UNHEARD, "the next cycle hears it"
    elif site in scene.picture.closed_sites:
        state, why = UNSEEN, scene.picture.closed_sites[site].value
    elif site not in {each.name for each in scene.entry.rules.sites}:
        state, why = UNHEARD, "the next cycle takes up the configuration"
    elif not ours:
        state = GONE
    return Standing(about, state, len(ours), why, counts)


class DrainSite(Verb):
    """Drain sites or offers: nothing more is asked for, what waits goes back, what runs finishes and leaves

    Jobs that run are let finish. The word holds until `glidepath site resume NAME`, also when this is
    interrupted. With --wait it ends when nothing of ours is left there, and exits with 3 when that was not so
    in time, or when no controller is there to act.
    """

    options: ClassVar[Options] = {
        "names": {
            "args": ("names",),
            "nargs": "*",
            "metavar": "NAME",
            "help": "sites, or `SITE/OFFER` for one offer",
        },
        "all": {"args": ("--all",), "action": "store_true", "help": "every site"},
        "wait": {
            "args": ("--wait",),
            "action": "store_true",
            "help": "show how it goes on, and end when nothing of ours is left there",
        },
        "timeout": {
            "args": ("--timeout",),
            "type": argument.duration,
            "default": TIMEOUT_S,
            "metavar": "SPAN",
            "help": "with --wait: how long at most (default: 30m)",
        },
        **WHY,
        **DRY_RUN,
        **OUTPUT,
    }

    def run(self) -> int:
        place = located(self)
        abouts = self._abouts(place)
        if self.given["dry_run"]:
            found = self._standings(abouts, heard=False)
            names = ", ".join(f"`{each.name}`" for each in found)
            pilots = sum(each.left for each in found)
            self.caller.say(f"would drain {names} with {pilots} pilots; nothing was changed")
            return self._shown(found, Exit.DONE)
        with opened(self, place=place, write=True) as session:
            self._speak(session, abouts)
        found = self._waited(abouts) if self.given["wait"] else self._standings(abouts)
        return self._shown(found, self._end(found))

    def _abouts(self, place: Located) -> list[str]:
        names, everywhere = self.given["names"], self.given["all"]
        need(names or everywhere, "name what to drain", hint="`--all` is every site")
        need(not (names and everywhere), "`--all` is every site; leave the names out")
        wanted = sorted(place.settings.sites) if everywhere else list(dict.fromkeys(names))
        need(wanted, "no site is configured")
        return [subject("site", name, place) for name in wanted]

    def _speak(self, session: Session, abouts: Sequence[str]) -> None:
        before = {pause.about for pause in session.journal.pauses() if pause.drain}
        for about in abouts:
            session.journal.pause(about, login(), self.given["why"], drain=True)
            shown = about.replace(":", " `", 1) + "`"
            self.caller.say(f"{shown} is drained" + (" already; the words are renewed" * (about in before)))

    def _standings(self, abouts: Iterable[str], *, heard: bool = True) -> list[Standing]:
        from glidepath.cli.view import scene_now

        try:
            scene = scene_now(self)
        except Stop as stop:
            return [Standing(about, ABSENT, why=str(stop)) for about in abouts]
        return [standing(scene, about, heard=heard) for about in abouts]

    def _waited(self, abouts: Sequence[str]) -> list[Standing]:
        began, told, absent_s = self.caller.wall(), "", 0
        found = self._standings(abouts)
        for _ in range(self.given["timeout"] // LOOK_S + 1):
            before, told = told, _progress(found)
            if told != before:
                self.caller.say(told)
            absent_s = absent_s + LOOK_S if any(each.state == ABSENT for each in found) else 0
            over = all(each.state == GONE for each in found) or absent_s > ABSENT_S_MAX
            if over or self.caller.wall() - began >= self.given["timeout"]:
                break
            self.caller.sleep(LOOK_S)
            found = self._standings(abouts)
        return found

    def _end(self, found: Sequence[Standing]) -> Exit:
        absent = [each for each in found if each.state == ABSENT]
        if absent:
            self.caller.say(f"nobody acts on it: {absent[0].why}; it is done when `glidepath up` runs again")
            return Exit.INCOMPLETE
        left = [each for each in found if each.state != GONE]
        if not self.given["wait"] or not left:
            return Exit.DONE
        names = ", ".join(f"`{each.name}`" for each in left)
        self.caller.say(f"{names} not empty in time; draining goes on, `glidepath site resume NAME` ends it")
        return Exit.INCOMPLETE

    def _shown(self, found: Sequence[Standing], code: Exit) -> int:
        answer = Answer("DrainList", tuple(each.item() for each in found), COLUMNS)
        self.caller.out.write(drawn(answer, self.given["output"], self.caller))
        self.caller.out.flush()
        return code


def _progress(found: Sequence[Standing]) -> str:
    """One line for people: what is left, and why it is not known where it is not."""
    parts = []
    for each in found:
        counts = ", ".join(f"{count} {phase}" for phase, count in each.phases.items() if count)
        said = counts or ("nothing is left" if each.state == GONE else "traces are cleared away")
        if each.state in (UNHEARD, UNSEEN):
            said = each.why
        elif each.state == ABSENT:
            said = ABSENT
        parts.append(f"{each.name}: {said}")
    return "; ".join(parts)
