"""Demand: jobs become groups that lose no job, do not depend on their order, and name what fits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.leaf_builders import POOL, a_job, a_shape, an_offer
from glidepath.core.provision.demand import OWNERS_KEPT_MAX, Demand, JobAd, grouped, most_first
from glidepath.core.quantity import Instant, OfferKey, Owner, PoolName, Resources

ANN, BOB = Owner("ann"), Owner("bob")
SMALL, LARGE = a_shape(1000), a_shape(6000)
LIMITED = OfferKey("west/big")


def test_no_job_is_no_demand() -> None:
    assert grouped(POOL, [], [an_offer()]) == ()


def test_jobs_are_grouped_by_shape_and_stated_run_time() -> None:
    jobs = [
        a_job(shape=LARGE, owner=BOB, queued_at=Instant(9)),
        a_job(owner=ANN, queued_at=Instant(7)),
        a_job(owner=BOB, queued_at=Instant(5)),
        a_job(owner=BOB, queued_at=Instant(8)),
        a_job(owner=ANN, running=True, queued_at=Instant(1)),
        a_job(owner=ANN, queued_at=Instant(3), run_s_max=600),
    ]
    found = grouped(POOL, jobs, [an_offer()])
    assert found == (
        Demand(POOL, SMALL, 3, 1, Instant(5), ((BOB, 2), (ANN, 1)), None, (LIMITED,)),
        Demand(POOL, SMALL, 1, 0, Instant(3), ((ANN, 1),), 600, (LIMITED,)),
        Demand(POOL, LARGE, 1, 0, Instant(9), ((BOB, 1),), None, ()),
    )


def test_a_group_that_only_runs_waits_for_nothing_and_has_no_age() -> None:
    found = grouped(POOL, [a_job(running=True), a_job(running=True)], [])
    assert found == (Demand(POOL, SMALL, 0, running=2),)


def test_a_run_time_of_nothing_is_no_stated_run_time() -> None:
    """Two groups would have one name, and neither would be known to end."""
    jobs = [a_job(run_s_max=0), a_job(run_s_max=None, running=True), a_job(run_s_max=1)]
    assert grouped(POOL, jobs, []) == (
        Demand(POOL, SMALL, 1, 1, Instant(0), ((ANN, 1),)),
        Demand(POOL, SMALL, 1, 0, Instant(0), ((ANN, 1),), 1),
    )


def test_offers_that_fit_are_named_in_a_fixed_order_fixed_and_fitted() -> None:
    offers = [
        an_offer(name="zeta"),
        an_offer(name="small", size=Resources(500, 8192)),
        an_offer(name="fitted", size=Resources(8000, 8192), size_min=Resources(1000, 1024)),
        an_offer(name="alpha", traits=(("os", "el9"),)),
    ]
    (group,) = grouped(POOL, [a_job()], (offer for offer in offers))
    assert group.fits == ("west/alpha", "west/fitted", "west/zeta")
    (group,) = grouped(POOL, [a_job(shape=a_shape(traits=(("os", "el9"),)))], offers)
    assert group.fits == ("west/alpha",)


@pytest.mark.parametrize(
    ("demand", "name"),
    [
        (Demand(POOL, SMALL, 1), "pool: 1 CPU 1GiB"),
        (Demand(POOL, a_shape(1000, 1060), 1), "pool: 1 CPU 1060MiB"),
        (Demand(POOL, a_shape(1001, 1024), 1), "pool: 1.001 CPU 1GiB"),
        (Demand(PoolName("osg"), LARGE, 1, run_s_max=3600), "osg: 6 CPU 1GiB run<=3600s"),
    ],
)
def test_a_group_is_named_by_pool_shape_and_run_time(demand: Demand, name: str) -> None:
    assert demand.name == name


JOBS = st.builds(
    JobAd,
    st.sampled_from([SMALL, LARGE, a_shape(1000, 1060), a_shape(traits=(("os", "el9"),))]),
    st.sampled_from([ANN, BOB, Owner("cay")]),
    st.booleans(),
    st.integers(0, 100).map(Instant),
    st.sampled_from([None, 0, 600, 3600]),
)


@given(st.lists(JOBS, max_size=30), st.randoms(use_true_random=False))
def test_no_job_is_lost_or_counted_twice_whatever_the_order(jobs: list[JobAd], chance: object) -> None:
    found = grouped(POOL, jobs, [an_offer()])
    assert sum(group.idle for group in found) == sum(not job.running for job in jobs)
    assert sum(group.running for group in found) == sum(job.running for job in jobs)
    assert len({group.name for group in found}) == len(found)
    for group in found:
        alike = [j for j in jobs if (j.shape, j.run_s_max or None) == (group.shape, group.run_s_max)]
        mine = [j for j in alike if not j.running]
        assert group.idle == len(mine)
        assert sum(count for _, count in group.owners) == group.idle
        assert group.oldest_at == min((job.queued_at for job in mine), default=None)
    shuffled = list(jobs)
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    assert grouped(POOL, shuffled, [an_offer()]) == found


def test_only_the_owners_with_most_are_named_and_ties_go_by_name() -> None:
    owners = {Owner(f"u{number:02}"): 1 + (number >= 25) for number in range(30)}
    kept = most_first(owners)
    assert len(kept) == OWNERS_KEPT_MAX
    assert kept[:6] == (("u25", 2), ("u26", 2), ("u27", 2), ("u28", 2), ("u29", 2), ("u00", 1))
    assert kept[-1] == ("u14", 1)
