"""Why a job may not go on, and when it ends."""

from __future__ import annotations

import pytest

from glidepath.core.account.right import Bar, Claim, Lost, Mount, Rights, VolumeRule, bar
from glidepath.core.account.run import MILLIONTHS
from glidepath.core.account.wallet import Purse, Tree
from glidepath.core.quantity import Instant

NOW = Instant(10_000)
ADA = Claim("ada", "physics")
DRY = {"science": Purse("science", 100 * MILLIONTHS, 0)}
TREE = Tree({"physics": "science"})
MOUNTED = Claim("ada", "physics", (Mount("scratch"),))


@pytest.mark.parametrize(
    ("claim", "rights", "expected"),
    [
        (ADA, Rights(), None),
        (Claim("ada", ""), Rights(closed=frozenset({"physics"}), members={}), None),
        (
            ADA,
            Rights(closed=frozenset({"physics"})),
            Bar(Lost.CLOSED, "the project `physics` is closed", NOW),
        ),
        (ADA, Rights(members={"physics": frozenset({"ada"})}), None),
        (
            ADA,
            Rights(members={"physics": frozenset({"bob"})}),
            Bar(Lost.MEMBER, "`ada` does not belong to the project `physics` any more", NOW),
        ),
        (ADA, Rights(members={"biology": frozenset()}), None),
        (MOUNTED, Rights(), None),
        (MOUNTED, Rights(volumes={"scratch": VolumeRule()}), None),
        (MOUNTED, Rights(volumes={}), Bar(Lost.VOLUME, "there is no volume `scratch` any more", NOW)),
        (
            MOUNTED,
            Rights(volumes={"scratch": VolumeRule(frozenset({"bob"}))}),
            Bar(Lost.VOLUME, "the volume `scratch` is not for `ada` any more", NOW),
        ),
        (MOUNTED, Rights(volumes={"scratch": VolumeRule(projects=frozenset({"physics"}))}), None),
        (
            MOUNTED,
            Rights(volumes={"scratch": VolumeRule(read_only=True)}),
            Bar(
                Lost.VOLUME,
                "the volume `scratch` can only be read by now, and the job may write to it",
                NOW,
            ),
        ),
        (
            ADA,
            Rights(TREE, DRY, {"science": Instant(9_000)}),
            Bar(
                Lost.DRY,
                "the project `science`, which `physics` draws from, has nothing left to spend: "
                "100 of 100 credits are spent",
                Instant(12_600),
            ),
        ),
        (ADA, Rights(purses=DRY), None),
    ],
)
def test_the_first_right_that_is_missing_is_the_reason(
    claim: Claim, rights: Rights, expected: Bar | None
) -> None:
    assert bar(claim, rights, NOW) == expected
