"""The configuration that we ship for schedds: the community of a job comes from its owner alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from bed.parts.condor import Pool
from tests.bed_pool import MEANT, nothing_is_left, pool

__all__ = ["nothing_is_left"]
pytestmark = pytest.mark.real

SHIPPED = Path(__file__).parents[2] / "deploy/condor/60-glidepath-routing.conf"
JOB = "executable = /bin/true\ntransfer_executable = false\nrequest_disk = 1000\n"
REFUSED = "RequestK8SNamespace is set by this schedd from the owner of a job, and for ann it is icecube"


@pytest.fixture(scope="module")
def routed() -> Iterator[Pool]:
    made = pool("condor@routed")
    # Beside the pool's own folder, which is made when it starts; every user may read it there.
    where = made.home("ann").parent.parent / "communities.map"
    shipped = SHIPPED.read_text().replace("/etc/condor/glidepath-communities.map", str(where))
    made.up(extra_config=shipped, tied=True)
    MEANT.add(made.folder)
    try:
        where.write_text("* ann icecube\n* /^be.*$/ ligo\n")
        where.chmod(0o644)
        made.reconfig()
        yield made
    finally:
        made.down()
        MEANT.discard(made.folder)


def submit(routed: Pool, user: str, *lines: str) -> tuple[int, str]:
    text = JOB + "".join(f"{line}\n" for line in (*lines, "queue"))
    ended = routed.run("condor_submit", "-terse", "-", user=user, given=text)
    return ended.code, ended.out.split(".")[0] if ended.code == 0 else ended.err


@pytest.mark.parametrize(("user", "community"), [("ann", "icecube"), ("ben", "ligo"), ("pilot", "undefined")])
def test_every_job_has_the_community_of_its_owner(routed: Pool, user: str, community: str) -> None:
    code, cluster = submit(routed, user)
    assert code == 0, cluster
    told = routed.run("condor_q", cluster, "-af", "RequestK8SNamespace").must("no queue").out
    assert told.strip() == community


@pytest.mark.parametrize(
    "line",
    [
        '+RequestK8SNamespace = "ligo"',
        'My.RequestK8SNamespace = strcat("li", "go")',
        '+RequestK8SNamespace = "ICECUBE"',
        "+RequestK8SNamespace = undefined",
    ],
)
def test_a_forged_community_is_refused_or_has_no_effect(routed: Pool, line: str) -> None:
    code, said = submit(routed, "ann", line)
    if code:
        assert REFUSED in said
    else:
        told = routed.run("condor_q", said, "-af", "RequestK8SNamespace").must("no queue").out
        assert (line, told.strip()) == ("+RequestK8SNamespace = undefined", "icecube")


def test_the_community_cannot_be_changed_afterwards(routed: Pool) -> None:
    _, cluster = submit(routed, "ann")
    ended = routed.run("condor_qedit", f"{cluster}.0", 'RequestK8SNamespace="ligo"', user="ann")
    told = routed.run("condor_q", cluster, "-af", "RequestK8SNamespace").must("no queue").out
    assert (ended.code != 0, "immutable" in ended.err, told.strip()) == (True, True, "icecube")
