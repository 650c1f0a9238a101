"""`glidepath pilot usage`: where the hours of pilots went, what they cost, and what was wasted, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from glidepath.cli.output import Reader
from glidepath.cli.session import iso, opened
from glidepath.cli.usage import SPAN, WITH_CSV, amount, csv_of
from glidepath.cli.verb import Answer, Column, Exit, Options, Stop

if TYPE_CHECKING:
    from glidepath.journal.pilot_sums import PilotLine, PilotSums

KEYS = ("site", "offer", "pool", "owner")
CAUSES = ("unclaimed", "starting", "failed")
AMOUNTS = (
    amount("pilots", "PILOTS"),
    amount("unused", "UNUSED", wide=True),
    amount("jobs_run", "JOBS"),
    amount("busy_hours", "USED-H"),
    amount("cpu_hours", "CPU-H", wide=True),
    *(amount(f"{cause}_hours", f"{cause.upper()}-H") for cause in CAUSES),
    Column("WASTED-%", lambda item: f"{item['wasted_percent']:.1f}", right=True),
    amount("cost", "COST"),
)


class Usage(Reader):
    """Show where the hours of pilots that are over went: used by jobs, or wasted, by cause

    Unclaimed is time without a job, starting is time until it joined its pool, failed is all of a pilot that
    came to nothing and what it took to notice that one was lost. The cost is at the prices of offers today.
    """

    options: ClassVar[Options] = {
        "by": {
            "args": ("--by",),
            "default": "site",
            "metavar": "KEYS",
            "help": "apart by which of site, offer, pool and owner, with commas in between; empty for one "
            "sum (default: site)",
        },
        "step": {
            "args": ("--step",),
            "choices": ("all", "month", "day"),
            "default": "all",
            "help": "apart by month or day, in UTC (default: all)",
        },
        **SPAN,
        **Reader.options,
        **WITH_CSV,
    }

    def answer(self) -> Answer:
        from glidepath.config import prices_of
        from glidepath.core.text import known_word
        from glidepath.journal.pilot_sums import pilot_lines
        from glidepath.store.usage import Step, TooMany

        given, now = self.given, self.caller.wall()
        by = tuple(dict.fromkeys(word for word in given["by"].split(",") if word))
        try:
            for word in by:
                known_word(word, KEYS)
            span = span_of(given["since"], given["until"], now)
        except ValueError as error:
            raise Stop(str(error), code=Exit.USAGE) from None
        with opened(self) as session:
            prices = prices_of(session.located.settings)
            try:
                lines = pilot_lines(session.store, span, Step(given["step"]), by=by, price_milli=prices)
            except TooMany as error:
                raise Stop(f"{error}; ask for a longer step or a shorter time") from None
        keys = tuple(name for name in KEYS if name in by)
        when = (Column("START", lambda item: item["start"]),) if given["step"] != "all" else ()
        return Answer(
            "PilotUsageList",
            tuple(pilot_usage_item(line, keys) for line in lines),
            (*when, *(key_column(name) for name in keys), *AMOUNTS),
            nothing="no pilot has ended in this time",
            notes=("pilots that are not over are counted when they are",) if lines else (),
            name=lambda item: " ".join(str(item[key]) for key in keys) or "all",
        )

    def show(self, answer: Answer) -> int:
        if self.given["output"] != "csv":
            return super().show(answer)
        self.caller.out.write(csv_of(("start", *KEYS, *ITEM_KEYS), answer.items))
        return Exit.DONE


def span_of(since: str, until: str, wall: float) -> Any:
    from glidepath.core.quantity import Instant
    from glidepath.jobs.usage import past_of
    from glidepath.store.usage import Span

    first, last = past_of(since, wall=wall), past_of(until, wall=wall) if until else wall
    if last <= first:
        raise ValueError("`--until` must be later than `--since`")
    return Span.of(Instant(int(first)), Instant(int(last)))


def key_column(name: str) -> Column:
    return Column(name.upper(), lambda item: item[name])


ITEM_KEYS = (
    *("pilots", "unused", "jobs_run", "busy_hours", "cpu_hours"),
    *(f"{cause}_hours" for cause in CAUSES),
    *("wasted_hours", "wasted_percent", "cost"),
)


def pilot_usage_item(line: PilotLine, keys: tuple[str, ...]) -> dict[str, Any]:
    sums = line.sums
    whose = {**dict.fromkeys(KEYS), **dict(zip(keys, line.whose, strict=True))}
    return {
        "start": None if line.start is None else iso(float(line.start)),
        **whose,
        "pilots": sums.pilots,
        "unused": sums.unused,
        "jobs_run": sums.jobs_run,
        "busy_hours": _hours(sums.busy_s),
        "cpu_hours": _hours(sums.cpu_milli_s / 1000),
        **{f"{cause}_hours": _hours(sums.waste_s[cause]) for cause in CAUSES},
        "wasted_hours": _hours(sums.waste_s.total()),
        "wasted_percent": _wasted_percent(sums),
        "cost": round(sums.cost_micro / 1_000_000, 6),
    }


def _wasted_percent(sums: PilotSums) -> float:
    wasted_s = sums.waste_s.total()
    return round(100 * wasted_s / max(1, wasted_s + sums.busy_s), 1)


def _hours(seconds: float) -> float:
    return round(seconds / 3600, 6)
