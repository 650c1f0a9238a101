"""What a placed job asked for is read from the store as it was written, also by a version before."""

from __future__ import annotations

import json

from glidepath.core.quantity import Resources
from glidepath.core.schedule.cluster import Queue
from glidepath.store.job import JobSpec
from glidepath.store.placed_spec import PlacedSpec, spec_of, spec_text

JOB = JobSpec("main", "ada", ("true",), request=Resources(cpu_milli=1000))


def test_what_is_written_is_read_again() -> None:
    spec = PlacedSpec(JOB, Queue.BATCH, nodes=3, notice_s=60, notice_signal="SIGTERM", ports=(80,))
    assert spec_of(JOB, Queue.BATCH, spec_text(spec)) == spec


def test_a_job_that_was_submitted_to_an_earlier_version_gets_its_notice_all_the_same() -> None:
    text = json.dumps({"warn_s": 60, "warn_signal": "SIGTERM"})
    expected = PlacedSpec(JOB, Queue.BATCH, notice_s=60, notice_signal="SIGTERM")
    assert spec_of(JOB, Queue.BATCH, text) == expected
