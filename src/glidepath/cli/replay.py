"""`glidepath replay`: a kept cycle is decided again from what it saw, and compared with what was decided.

With another policy the same cycle shows what that one would have done. It reads only the journal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from glidepath.cli import argument
from glidepath.cli.output import Reader, need
from glidepath.cli.session import START, opened
from glidepath.cli.verb import Answer, Exit, Noun, Options, Stop

if TYPE_CHECKING:
    from glidepath.cli.session import Session
    from glidepath.core.cycle import Plan
    from glidepath.core.provision.pilot import PilotAction
    from glidepath.journal.entry import Entry

LAST_MAX = 10_000
# Enough to see what differs; the whole of it is in `-o json`.
LINES_MAX = 40


class Replay(Reader):
    """Decide a kept cycle again and say whether the decision is the same; exits with 1 when it is not

    With --policy it shows what that policy would have decided instead, and then a difference is no failure.
    """

    options: ClassVar[Options] = {
        "cycle": {
            "args": ("cycle",),
            "nargs": "?",
            "type": argument.count,
            "metavar": "CYCLE",
            "help": "a cycle number (default: the last one)",
        },
        "policy": {
            "args": ("--policy",),
            "metavar": "NAME",
            "help": "decide with this policy and its default numbers",
        },
        "last": {"args": ("--last",), "type": argument.count, "metavar": "N", "help": "the last N cycles"},
        **Reader.options,
    }

    def run(self) -> int:
        self.differs = False
        code = super().run()
        return Exit.FAILED if self.differs and not self.given["policy"] else code

    def answer(self) -> Answer:
        need(
            self.given["cycle"] is None or self.given["last"] is None, "name a cycle or `--last N`, not both"
        )
        items, lines = [], []
        with opened(self) as session:
            for number in self.cycles(session):
                entry = self.entry(session, number)
                item = compared(entry, again(entry, self.given["policy"]))
                items.append(item)
                lines += told(item, self.given["policy"])
                self.progress(len(items))
        self.differs = any(not item["equal"] for item in items)
        return Answer("ReplayList", tuple(items), lines=tuple(lines), name=lambda item: item["cycle"])

    def entry(self, session: Session, number: int) -> Entry:
        try:
            return session.journal.entry(number)
        except LookupError as error:
            raise Stop(str(error.args[0]), code=Exit.NOT_FOUND) from None

    def cycles(self, session: Session) -> list[int]:
        if self.given["cycle"] is not None:
            return [self.given["cycle"]]
        limit = 1 if self.given["last"] is None else min(self.given["last"], LAST_MAX)
        found = sorted(header.cycle for header in session.journal.headers(limit=limit))
        if not found:
            raise Stop("nothing has been decided yet: the journal is empty", hint=START)
        return found

    def progress(self, count: int) -> None:
        if self.caller.err.isatty() and self.given["last"]:
            self.caller.err.write(
                f"\r\x1b[K{count} of {self.given['last']} cycles"
                if count < self.given["last"]
                else "\r\x1b[K"
            )
            self.caller.err.flush()


def again(entry: Entry, policy: str | None) -> Plan[PilotAction]:
    """The same pure functions on the same values; only the policy may be another."""
    from glidepath.core.provision.decide import decide
    from glidepath.core.provision.picture import look
    from glidepath.plugins import PluginError
    from glidepath.policy import policy_kind

    rule = entry.rules.policy
    try:
        chosen = policy_kind(policy or rule.name)(dict(rule.numbers) if policy in (None, rule.name) else {})
    except PluginError as error:
        raise Stop(str(error), code=Exit.NOT_FOUND) from None
    return decide(look(entry.snapshot, entry.memory, entry.rules), entry.rules, chosen)


def compared(entry: Entry, plan: Plan[PilotAction]) -> dict[str, Any]:
    from glidepath.cli.view import action_text, decision_item

    before = [{**decision_item(one), "text": action_text(one)} for one in entry.plan.decisions]
    after = [{**decision_item(one), "text": action_text(one)} for one in plan.decisions]
    return {
        "cycle": entry.cycle,
        "equal": plan == entry.plan,
        "decisions": len(before),
        "wake_after_s": {"kept": entry.plan.wake_after_s, "again": plan.wake_after_s},
        "only_kept": [one for one in before if one not in after],
        "only_again": [one for one in after if one not in before],
    }


def told(item: dict[str, Any], policy: str | None) -> list[str]:
    who = f"with `{policy}`" if policy else "again"
    if item["equal"]:
        return [f"cycle {item['cycle']}: decided {who}, the same in all {item['decisions']} decisions"]
    lines = [f"cycle {item['cycle']}: decided {who}, it DIFFERS"]
    rows = [("-", one) for one in item["only_kept"]] + [("+", one) for one in item["only_again"]]
    for sign, one in rows[:LINES_MAX]:
        action = f"{one['text']}, " if one["text"] else ""
        lines.append(f"  {sign} {one['about']}: {action}{one['why']}")
    if len(rows) > LINES_MAX:
        lines.append(f"  and {len(rows) - LINES_MAX} more; `-o json` has all")
    kept, now = item["wake_after_s"]["kept"], item["wake_after_s"]["again"]
    if kept != now:
        lines.append(f"  - next cycle after {kept} s")
        lines.append(f"  + next cycle after {now} s")
    return lines


NOUN = Noun("replay", {"": Replay})
