"""Jobs of a cloud as pilots of ours: rows of a listing come in, what each was asked for and how it is go out.

A row is ours only where its name or label says so and checks; a broken one is a note, never a state.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from glidepath.cloud.answers import Row, code_of
from glidepath.cloud.label import Intent, intent_of, label_looks_ours, name_looks_ours, unfolded
from glidepath.core.provision.pilot import SiteState
from glidepath.core.quantity import PilotName, SiteName
from glidepath.core.text import one_line

NOTES_MAX = 20
OVER = frozenset({SiteState.ENDED, SiteState.FAILED})
_ID = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.:/@+=-]{0,254})")
# Of two jobs for one pilot, the one that is more alive is the pilot.
_LIVELIER = (
    SiteState.RUNNING,
    SiteState.LEAVING,
    SiteState.UNKNOWN,
    SiteState.PENDING,
    SiteState.ENDED,
    SiteState.FAILED,
)


@dataclass(frozen=True, slots=True)
class Job:
    """One job that is ours."""

    intent: Intent
    row: Row
    state: SiteState
    note: str

    @property
    def id(self) -> str:
        return self.row.id

    @property
    def over(self) -> bool:
        return self.state in OVER


@dataclass(frozen=True, slots=True)
class Jobs:
    """One listing: jobs by the name of their pilot, the liveliest first."""

    by_pilot: Mapping[PilotName, tuple[Job, ...]] = field(default_factory=dict)
    lacking: int = 0  # that may live and cannot be told
    notes: tuple[str, ...] = ()

    def of(self, name: str) -> tuple[Job, ...]:
        return self.by_pilot.get(PilotName(name), ())

    @property
    def surplus(self) -> tuple[Job, ...]:
        """Waiting jobs that nobody asked for: their pilot has another job, or had one."""
        return tuple(
            job
            for same in self.by_pilot.values()
            if len(same) > 1
            for number, job in enumerate(same)
            if job.state is SiteState.PENDING and (number or any(other.over for other in same))
        )


def jobs_of(rows: Iterable[Row], site: SiteName, states: Mapping[str, SiteState], *, labelled: bool) -> Jobs:
    """`states` has the cloud's words in small letters."""
    found: dict[PilotName, dict[str, Job]] = {}
    notes: list[str] = []
    lacking = 0
    for row in rows:
        state, note = _state(row, states)
        try:
            intent = _intent(row, site, labelled=labelled)
            if intent is not None and not _ID.fullmatch(row.id):
                raise ValueError(f"its number `{one_line(row.id)}` is none that could be sent back")
        except ValueError as error:
            lacking += state not in OVER
            notes.append(f"the job `{one_line(row.id)}` is left alone: {error}")
            continue
        if intent is not None and intent.site == site:
            # By number: while pages are read, jobs move from one to the next.
            found.setdefault(intent.pilot, {})[row.id] = Job(intent, row, state, note)
    ranked = {
        name: tuple(sorted(same.values(), key=lambda job: (_LIVELIER.index(job.state), job.id)))
        for name, same in found.items()
    }
    for name, same in sorted(ranked.items()):
        if len(same) > 1:
            notes.append(
                f"`{name}` has {len(same)} jobs; one that waits is taken out with the next change here"
            )
    if len(notes) > NOTES_MAX:
        notes[NOTES_MAX:] = [f"and {len(notes) - NOTES_MAX} more like these"]
    return Jobs(ranked, lacking, tuple(notes))


def _intent(row: Row, site: SiteName, *, labelled: bool) -> Intent | None:
    """None where the job is not ours: one that only looks a little like ours must not stop this site."""
    if labelled:
        return intent_of(row.name, row.label) if label_looks_ours(row.label, site) else None
    return unfolded(row.name) if name_looks_ours(row.name, site) else None


def _state(row: Row, states: Mapping[str, SiteState]) -> tuple[SiteState, str]:
    """What the cloud's word means, and the cloud's words, verbatim."""
    state = states.get(row.state.strip().lower(), SiteState.UNKNOWN)
    code = code_of(row.exit_code)
    if state is SiteState.ENDED and code:
        state = SiteState.FAILED
    words = [row.state, f"exit code {code}" if code is not None and state in OVER else "", row.reason]
    return state, one_line(", ".join(word for word in words if word))
