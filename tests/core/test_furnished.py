"""A site that has the token of its pilots needs none of the pool; one that has not is not given up on."""

from __future__ import annotations

from core.leaf_builders import WEST_BIG, FakePool, FakeSite
from core.test_provisioner_acts import a_plan, a_submit, shell
from glidepath.core.cycle import Done, NotTried
from glidepath.core.quantity import OfferKey


class FurnishedSite(FakeSite):
    """A site that has the token of one of its offers."""

    def furnished(self, offer: OfferKey) -> bool:
        return offer == WEST_BIG


def test_a_pool_is_not_asked_for_a_token_that_the_site_has() -> None:
    site, none = FurnishedSite(), FakePool(secret=RuntimeError("nothing mints here"))
    other = OfferKey("west/other")
    found = shell(site, pools=(none,)).act(a_plan(a_submit("s1"), a_submit("s2", offer=other)))
    refused = NotTried("the pool cannot be joined: nothing mints here")
    assert [did.outcome for did in found] == [Done(), refused]
    ((_, spec),) = site.asked
    assert (spec.name, spec.secrets) == ("s1", ())
    shell(site, pools=(FakePool(secret="abc"),)).act(a_plan(a_submit("s3"), a_submit("s4", offer=other)))
    assert [(spec.name, bool(spec.secrets)) for _, spec in site.asked[1:]] == [("s3", False), ("s4", True)]
