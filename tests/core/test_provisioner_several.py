"""Acts at a site that takes several at once: those of one verb side by side, verbs in turn."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

from core.leaf_builders import WEST, FakeSite, an_offer
from core.test_provisioner_acts import ACTS, EVERYTHING, a_plan, a_submit, shell, shown
from glidepath.calls import ThreadCalls
from glidepath.core.cycle import Done, NotTried, Outcome, Refused, Unsure
from glidepath.core.provision.offer import Limits, Rules, SiteRules
from glidepath.core.provision.pilot import PilotSpec
from glidepath.provisioner import REFUSALS_MAX

AT_ONCE = 3
WAIT_S_MAX = 60.0


@dataclass
class Several(FakeSite):
    """Nobody goes on before as many have come as are meant to be there together.

    The first comes alone, then there are two, and then as many as the site takes.
    """

    at_once: int = AT_ONCE
    meetings: tuple[threading.Barrier, ...] = field(default_factory=lambda: together(1, 2, AT_ONCE))
    come: Iterator[int] = field(default_factory=count)

    def submit(self, spec: PilotSpec) -> Outcome:
        meeting = self.meetings[min((next(self.come) + 1).bit_length(), len(self.meetings)) - 1]
        meeting.wait(WAIT_S_MAX)
        return super().submit(spec)


def together(*counts: int) -> tuple[threading.Barrier, ...]:
    return tuple(threading.Barrier(each) for each in counts)


ALONE = together(1)


def test_as_many_are_started_side_by_side_as_the_site_takes() -> None:
    names = [f"s{number}" for number in range(1 + 2 + 2 * AT_ONCE)]
    site = Several()
    found = shell(site, calls=ThreadCalls()).act(a_plan(a_submit(*names)))
    assert shown(found) == [f"submit {name}" for name in names]
    assert {did.outcome for did in found} == {Done()}
    assert sorted(spec.name for _, spec in site.asked) == names


def test_verbs_keep_the_plans_order() -> None:
    site = Several(meetings=ALONE)
    found = shell(site, calls=ThreadCalls()).act(a_plan(*EVERYTHING))
    assert shown(found) == ACTS
    assert [verb for verb, _ in site.asked] == [
        *["drain"],
        *["withdraw"] * 2,
        *["remove"] * 2,
        *["submit"] * 2,
    ]


def test_a_rate_per_second_is_kept_by_one_alone() -> None:
    slept: list[float] = []
    site = Several(meetings=ALONE)
    rules = Rules((), (SiteRules(WEST, (an_offer(),), limits=Limits(per_s_max=4)),))
    calls = ThreadCalls()
    found = shell(site, rules=rules, calls=calls, sleep=slept.append).act(a_plan(a_submit("s1", "s2", "s3")))
    assert {did.outcome for did in found} == {Done()}
    assert [spec.name for _, spec in site.asked] == ["s1", "s2", "s3"]
    assert slept == [0.25, 0.25]


def test_a_site_that_refuses_is_left_alone_soon() -> None:
    names = [f"s{number:02d}" for number in range(10 * REFUSALS_MAX)]
    site = Several(meetings=ALONE, at_once=len(names), otherwise=Refused("no"))
    found = shell(site, calls=ThreadCalls()).act(a_plan(a_submit(*names)))
    # Those that were on their way when it said so are not called back; so many had been begun at most.
    assert REFUSALS_MAX <= len(site.asked) < 2 * REFUSALS_MAX
    untried = [did.outcome for did in found if did.outcome != Refused("no")]
    assert set(untried) == {NotTried(f"the site refused {REFUSALS_MAX} others")}
    assert len(untried) == len(names) - len(site.asked)


def test_one_that_hangs_leaves_the_others_their_outcomes() -> None:
    class Hanging(Several):
        def submit(self, spec: PilotSpec) -> Outcome:
            return Done() if spec.name != "s1" else (gate.wait(WAIT_S_MAX), Done())[1]

    gate = threading.Event()
    names = [f"s{number}" for number in range(6)]
    found = shell(Hanging(limit_s=0.1), calls=ThreadCalls(), act_s_max=1.0).act(a_plan(a_submit(*names)))
    gate.set()
    assert {did.about: did.outcome for did in found} == {
        **dict.fromkeys(names, Done()),
        "s1": Unsure("no answer in time"),
    }
