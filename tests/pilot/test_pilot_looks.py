"""What the pilot makes of what it sees: ends of jobs, answers of the pool, probes, GPUs, processes."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import pytest

from glidepath.pilot.parts.condor_ask import answer_of, offset_of
from glidepath.pilot.parts.gpus import Found, believed, chosen
from glidepath.pilot.parts.guard import below
from glidepath.pilot.parts.history import End, History, eats_jobs
from glidepath.pilot.parts.probes import (
    Ended,
    ad_lines,
    clock_trouble,
    found_in,
    gpu_trouble,
    run,
    scratch_trouble,
)
from glidepath.pilot.parts.probes import Found as Probed

ENDED = 'Owner = "ann"\nClusterId = 1\nExitBySignal = false\nExitCode = {}\nJobDuration = {}\n'
TAKEN = (
    'Owner = "ann"\nClusterId = 2\nBadputCausedByPreemption = true\nExitBySignal = true\nJobDuration = 9.5\n'
)
NEVER = 'Owner = "ann"\nClusterId = 3\nExitBySignal = false\nExitStatus = 0\n'
KILLED = (
    'Owner = "ben"\nClusterId = 4\nBadputCausedByDraining = false\nExitBySignal = true\nJobDuration = 3\n'
)
BANNER = "*** Offset = 0 ClusterId = 1 ProcId = 0\n"
FAST = End("ann", 1.0, True, False)
GOOD = End("ann", 1.0, False, False)


def ends_in(path: Path) -> list[End]:
    with closing(History(str(path))) as history:
        return history.fresh()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (ENDED.format(0, 3.5), End("ann", 3.5, False, False)),
        (ENDED.format(7, 0.1), End("ann", 0.1, True, False)),
        (KILLED, End("ben", 3.0, True, False)),
        (TAKEN, End("ann", 9.5, False, True)),
        (NEVER, End("ann", 0.0, False, True)),
        (ENDED.format("error", "undefined"), End("ann", 0.0, False, True)),
    ],
    ids=["well", "badly", "by a signal", "taken away", "never begun", "nonsense"],
)
def test_how_a_job_ended_is_read_from_the_startds_history(tmp_path: Path, text: str, expected: End) -> None:
    path = tmp_path / "history"
    path.write_text(text + BANNER)
    assert ends_in(path) == [expected]


def test_the_history_is_followed_as_it_grows_and_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "history"
    history = History(str(path))
    assert history.fresh() == []
    path.write_text(ENDED.format(0, 1)[:30])
    assert history.fresh() == []
    with path.open("a") as file:
        file.write(ENDED.format(0, 1)[30:] + BANNER + ENDED.format(0, 2) + BANNER + "MyType = 5\n" + BANNER)
    assert [end.run_s for end in history.fresh()] == [1.0, 2.0]
    path.rename(tmp_path / "history.old")
    with (tmp_path / "history.old").open("a") as file:
        file.write(ENDED.format(0, 3) + BANNER)
    assert [end.run_s for end in history.fresh()] == [3.0]
    path.write_text(ENDED.format(0, 4) + BANNER)
    assert [end.run_s for end in history.fresh()] == [4.0]
    history.close()


def test_an_owner_cannot_write_the_end_of_another_job_into_his_own(tmp_path: Path) -> None:
    path = tmp_path / "history"
    text = (
        ENDED.format(0, 1) + 'Note = "a\\n*** Offset\\nClusterId = 9"\n' + "Big = " + "x" * (5 << 20) + "\n"
    )
    path.write_text(text + BANNER + ENDED.format(0, 2) + BANNER)
    assert ends_in(path)[-1].run_s == 2.0


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        ([FAST] * 4, ""),
        ([FAST] * 5, "the last 5 jobs, of 1 owner, all failed within 10 s"),
        ([GOOD, *[FAST] * 5], "the last 5 jobs, of 1 owner, all failed within 10 s"),
        ([*[FAST] * 4, GOOD], ""),
        ([*[FAST] * 4, FAST._replace(run_s=11.0)], ""),
        ([*[FAST] * 4, FAST._replace(failed=False, given_back=True)], ""),
        (
            [*[FAST] * 3, FAST._replace(given_back=True), *[FAST._replace(owner="ben")] * 2],
            "the last 5 jobs, of 2 owners, all failed within 10 s",
        ),
    ],
)
def test_a_pilot_whose_last_jobs_all_failed_at_once_eats_jobs(ends: list[End], expected: str) -> None:
    assert eats_jobs(ends) == expected


@pytest.mark.parametrize(
    ("ended", "expected"),
    [
        (Ended(0, "succeeded"), ("welcome", "")),
        (Ended(None, ""), ("silent", "the collector gave no answer within 20 s")),
        (
            Ended(1, 'ADVERTISE_STARTD failed!\nSECMAN:2010:Received "DENIED" from server for user x@y.\n'),
            ("refused", 'Received "DENIED" from server for user x@y.'),
        ),
        (
            Ended(1, "X failed!\nAUTHENTICATE:1003:Failed to authenticate with any method\n"),
            ("refused", "Failed to authenticate with any method"),
        ),
        (
            Ended(1, "X failed!\nSECMAN:2002:Configuration Problem: The security policy is invalid.\n"),
            ("refused", "there is no token that could be shown to this pool"),
        ),
        (
            Ended(1, "ERROR: failed to make connection to <127.0.0.1:1>\n"),
            ("silent", "failed to make connection to <127.0.0.1:1>"),
        ),
        (Ended(44, ""), ("silent", "exit code 44")),
    ],
)
def test_a_refusal_is_told_from_silence(ended: Ended, expected: tuple[str, str]) -> None:
    assert answer_of(ended) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", None), ("100 90\n", 10.0), ("undefined undefined\n", None), ("x\n100 190\n5 5\n", -90.0)],
)
def test_the_clock_is_compared_with_the_collectors(text: str, expected: float | None) -> None:
    assert offset_of(text) == expected


def test_what_is_wrong_first_is_told() -> None:
    lines = ad_lines(Probed("no disk", "apptainer", 5.0), latched="", offset_s=900.0, run=3, failed=1)
    assert lines == [
        "GlidepathHealthy = false",
        'GlidepathWhy = "the clock is 900 s away from the collector\'s"',
        "GlidepathProbedAt = 5",
        "GlidepathJobsRun = 3",
        "GlidepathJobsFailed = 1",
        'GlidepathContainers = "apptainer"',
        "-",
    ]
    well = ad_lines(Probed("", "", 5.0), latched="", offset_s=None, run=0, failed=0)
    assert well[:2] == ["GlidepathHealthy = true", 'GlidepathWhy = ""']
    odd = ad_lines(Probed('a"b\nc\\', "", 5.0), latched="", offset_s=0.0, run=0, failed=0)
    assert odd[1] == 'GlidepathWhy = "a\\"b c"'


@pytest.mark.parametrize("offset_s", [None, 0.0, 60.0, -60.0])
def test_a_clock_within_a_minute_is_good(offset_s: float | None) -> None:
    assert clock_trouble(offset_s) == ""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"trouble": "x", "containers": "apptainer"}\n', Probed("x", "apptainer", 7.0)),
        ("", Probed("the probes do not end", "", 7.0)),
        ("Traceback\n", Probed("the probes do not end", "", 7.0)),
        ("[]\n", Probed("the probes do not end", "", 7.0)),
    ],
)
def test_a_probe_that_breaks_down_is_itself_the_trouble(text: str, expected: Probed) -> None:
    assert found_in(text, 7.0) == expected


@pytest.mark.parametrize(
    ("gpus", "which", "ended", "expected"),
    [
        (0, "smi", Ended(1, ""), ""),
        (2, None, None, ""),
        (2, "smi", Ended(0, "GPU 0: A\nGPU 1: A\n"), ""),
        (2, "smi", Ended(0, "GPU 0: A\n"), "1 of 2 GPUs answer"),
        (2, "smi", Ended(9, "No devices\n"), "0 of 2 GPUs answer"),
        (2, "smi", Ended(None, ""), "the GPUs do not answer within 20 s"),
    ],
)
def test_gpus_that_are_offered_must_answer(
    gpus: int, which: str | None, ended: Ended | None, expected: str
) -> None:
    assert gpu_trouble(gpus, which, ended) == expected


def test_scratch_must_be_there_and_have_room(tmp_path: Path) -> None:
    assert scratch_trouble(str(tmp_path), 0) == ""
    assert scratch_trouble(str(tmp_path / "no"), 0) == "scratch cannot be written: No such file or directory"
    assert list(tmp_path.iterdir()) == []


def test_a_program_that_hangs_is_killed_with_all_that_it_started() -> None:
    assert run(["sh", "-c", "sleep 600 & sleep 600"], limit_s=0.2) == Ended(None, "")
    assert run(["sh", "-c", "echo out; echo err >&2; exit 3"]) == Ended(3, "out\nerr\n")
    assert run(["/nowhere/x"]).code == 127


DISCOVERED = (
    'DetectedGPUs="GPU-aa, GPU-bb"\nCommon=[ Capability=8.0; ]\n'
    'GPU_aa=[ id="GPU-aa"; ]\nGPU_bb=[ id="GPU-bb"; ]\n'
)


@pytest.mark.parametrize(
    ("output", "count", "expected"),
    [
        (DISCOVERED, 2, Found(2, DISCOVERED)),
        (DISCOVERED, None, Found(2, DISCOVERED)),
        (
            DISCOVERED,
            1,
            Found(1, 'DetectedGPUs="GPU-aa"\nCommon=[ Capability=8.0; ]\nGPU_aa=[ id="GPU-aa"; ]\n'),
        ),
        ("DetectedGPUs=0\n", None, Found(0)),
        ("", 2, Found(0)),
    ],
)
def test_of_the_gpus_that_are_found_as_many_are_offered_as_were_given(
    output: str, count: int | None, expected: Found
) -> None:
    assert chosen(output, count) == expected


@pytest.mark.parametrize(
    ("visible", "kind", "expected"),
    [
        (None, "", 'DetectedGPUs="GPU-0"\nCommon=[ ]\nGPU_0=[ id="GPU-0"; ]\n'),
        (("3",), "A100", 'DetectedGPUs="GPU-3"\nCommon=[ DeviceName="A100"; ]\nGPU_3=[ id="GPU-3"; ]\n'),
        (("GPU-aa",), "", 'DetectedGPUs="GPU-aa"\nCommon=[ ]\nGPU_aa=[ id="GPU-aa"; ]\n'),
    ],
)
def test_gpus_that_cannot_be_asked_are_believed(
    visible: tuple[str, ...] | None, kind: str, expected: str
) -> None:
    assert believed(1, visible, kind).text == expected


def test_a_kind_of_gpu_with_odd_letters_is_refused() -> None:
    with pytest.raises(ValueError, match="letter that does not belong"):
        believed(1, None, 'A"; x')


def test_all_that_descend_from_a_process_are_found() -> None:
    assert below(1, {2: 1, 3: 2, 4: 3, 5: 9, 6: 1}) == [2, 6, 3, 4]
    assert below(os.getpid(), {}) == []
