"""`glidepath plan`: observe and decide now, do nothing, and show every decision with its reason."""

from __future__ import annotations

from typing import ClassVar

from glidepath.cli.output import Reader
from glidepath.cli.verb import Answer, Column, Exit, Noun, Options

COLUMNS = (
    Column("ABOUT", lambda item: item["about"]),
    Column("ACTION", lambda item: item["text"]),
    Column("PILOTS", lambda item: ", ".join(item["pilots"]), wide=True),
    Column("WHY", lambda item: item["why"]),
)


class Plan(Reader):
    """Observe and decide now, do nothing, and show what would be done and why

    It never does anything; `--dry-run` is accepted for the habit of writing it.
    """

    options: ClassVar[Options] = {
        "dry_run": {"args": ("--dry-run",), "action": "store_true", "help": "always so: nothing is done"},
        "actions": {
            "args": ("--actions",),
            "action": "store_true",
            "help": "only what would be done, not what is left alone",
        },
        **Reader.options,
    }

    def answer(self) -> Answer:
        from glidepath.cli.session import located
        from glidepath.cli.view import action_text, decision_item, scene_of, sources_of
        from glidepath.running import UpOptions
        from glidepath.up import plan_once

        place = located(self).where
        scene = scene_of(plan_once(UpOptions(config=place.config, home=place.home)), self.caller.wall())
        items = tuple(
            {**decision_item(decision), "text": action_text(decision)}
            for decision in scene.entry.plan.decisions
            if decision.action is not None or not self.given["actions"]
        )
        return Answer(
            "DecisionList",
            items,
            COLUMNS,
            sources_of(scene),
            nothing="nothing would be done",
            name=lambda item: item["about"],
        )

    def run(self) -> int:
        code = super().run()
        if code == Exit.DONE:
            self.caller.say("nothing was done: a plan only looks")
        return code


NOUN = Noun("plan", {"": Plan})
