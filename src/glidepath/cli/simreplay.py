"""`glidepath sim replay`: the jobs and sites of a journal again, under another policy or other limits.

Three rows go out: what was recorded, the same rules simulated (how far the model can be trusted), and the
rules that were asked about.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from glidepath.cli import argument
from glidepath.cli.output import Reader
from glidepath.cli.simview import score_item
from glidepath.cli.verb import Answer, Column, Exit, Options, Stop

if TYPE_CHECKING:
    from collections.abc import Iterator

    from glidepath.core.provision.offer import PolicyRule, Rules
    from glidepath.journal.entry import Entry
    from glidepath.sim.history import History
    from glidepath.sim.score import Score

COLUMNS = (
    Column("RULES", lambda item: item["rules"]),
    Column("JOBS", lambda item: f"{item['jobs']:,}", right=True),
    Column("WAIT MEAN", lambda item: _span(item["wait_mean_s"]), right=True),
    Column("P95", lambda item: _span(item["wait_p95_s"]), right=True),
    Column("BUSY H", lambda item: f"{item['busy_h']:,.1f}", right=True),
    Column("WASTE H", lambda item: f"{item['wasted_h']:,.1f}", right=True),
    Column("PILOTS", lambda item: f"{item['asked']:,}", right=True),
    Column("UNUSED", lambda item: f"{item['unused']:,}", right=True),
    Column("COST", lambda item: f"{item['cost_milli'] / 1000:,.2f}", right=True),
)


def _span(seconds: float) -> str:
    from glidepath.core.units import shown_duration

    return shown_duration(round(seconds))


class SimReplay(Reader):
    """Simulate the recorded past again: what would another policy or other limits have cost

    The journal of a live system says what waited and ran, and how its sites behaved. The first row is what
    was recorded, the second the same rules simulated: how far those two agree is how far to trust the third.
    """

    options: ClassVar[Options] = {
        "source": {
            "args": ("--from",),
            "metavar": "JOURNAL",
            "help": "a home folder, a store file or a store URL (default: the store of this home)",
        },
        "policy": {"args": ("--policy",), "metavar": "NAME", "help": "what if this policy had decided"},
        "change": {
            "args": ("--set",),
            "action": "append",
            "default": [],
            "metavar": "KEY=N",
            "help": "what if this limit had been set, for example `sites.west.live_max=20`; may be repeated",
        },
        "since": {
            "args": ("--since-cycle",),
            "type": argument.count,
            "metavar": "CYCLE",
            "help": "only cycles after this one",
        },
        "match": {
            "args": ("--match-every",),
            "type": argument.duration,
            "default": 60,
            "metavar": "DURATION",
            "help": "how often the pool matches jobs to slots (default: 60s, a negotiator's cycle)",
        },
        "seed": {
            "args": ("--seed",),
            "type": argument.count,
            "default": 1,
            "metavar": "N",
            "help": "of the chance in start delays and matching (default: 1)",
        },
        **Reader.options,
    }

    def answer(self) -> Answer:
        from glidepath.sim.change import changed
        from glidepath.sim.study import rules_under

        history = self.history()
        was = history.scenario.rules
        try:
            rules = changed(was, self.given["change"])
            policy = self.policy(was)
            rules = rules_under(rules, policy, None)
        except ValueError as error:
            raise Stop(str(error), code=Exit.USAGE) from None
        self.caller.say(f"seed {self.given['seed']}")
        rows: list[tuple[str, Score]] = [("as recorded", history.recorded.score)]
        rows.append((f"simulated: as it was ({was.policy.name})", self.simulated(history, was)))
        asked = ", ".join([*([rules.policy.name] if policy else []), *self.given["change"]])
        if asked:
            rows.append((f"simulated: {asked}", self.simulated(history, rules)))
        for note in history.notes:
            self.caller.say(f"note: {note}")
        items = tuple({"rules": name, **score_item(score)} for name, score in rows)
        if not asked:
            self.caller.say("name a `--policy` or a `--set` to see what it would have cost")
        return Answer("WhatIfList", items, COLUMNS, name=lambda item: item["rules"])

    def policy(self, was: Rules) -> PolicyRule | None:
        from glidepath.core.provision.offer import PolicyRule
        from glidepath.plugins import PluginError
        from glidepath.policy import policy_kind

        name = self.given["policy"]
        if name is None:
            return None
        try:
            policy_kind(name)
        except PluginError as error:
            raise Stop(str(error), code=Exit.USAGE) from None
        return PolicyRule(name)

    def simulated(self, history: History, rules: Rules) -> Score:
        from dataclasses import replace

        from glidepath.sim.study import simulated

        return simulated(replace(history.scenario, rules=rules), self.given["seed"]).result.score

    def history(self) -> History:
        from glidepath.sim.history import HistoryError, history_of
        from glidepath.store.engine import StoreError, open_store
        from glidepath.store.migrations import migrate

        try:
            with open_store(self.url(), read_only=True) as store:
                migrate(store)
                return history_of(self.entries(store), match_s=max(1, self.given["match"]))
        except HistoryError as error:
            raise Stop(str(error)) from None
        except StoreError as error:
            raise Stop(str(error), code=Exit.NOT_FOUND) from None
        except ValueError as error:
            raise Stop(str(error), code=Exit.USAGE) from None

    def entries(self, store: Any) -> Iterator[Entry]:
        from glidepath.journal.journal import Journal

        since = self.given["since"]
        for count, entry in enumerate(Journal(store).entries(since_cycle=-1 if since is None else since)):
            if self.caller.err.isatty() and count % 500 == 0:
                self.caller.err.write(f"\r\x1b[Kread {count:,} cycles")
                self.caller.err.flush()
            yield entry
        if self.caller.err.isatty():
            self.caller.err.write("\r\x1b[K")

    def url(self) -> str:
        from glidepath.cli.session import located

        given = self.given["source"]
        if given is None:
            return located(self).store_url
        if "://" in given:
            return str(given)
        path = Path(given).expanduser()
        return f"sqlite:///{path / 'glidepath.db' if path.is_dir() else path}"
