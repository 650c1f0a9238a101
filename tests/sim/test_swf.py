"""Traces: what a row becomes, what every bad row is told, and that no file costs more than one line."""

from __future__ import annotations

import gzip
import io
import sys
import tracemalloc
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import pytest

from glidepath.core.quantity import Owner, PoolName, Resources, Shape
from glidepath.sim.arrival import Arrival
from glidepath.sim.swf import IDLE_LINES_MAX, LINE_BYTES_MAX, SwfError, SwfOptions, SwfTrace

POOL = PoolName("grid")
ONE = Shape(Resources(1000, 2048))
REAL = Path(__file__).parents[2].parent / "shared" / "traces"
# Jobs that are wanted of each, and rows without a run time; from the README beside the traces.
REAL_JOBS = {
    "LCG-2005-1.swf.gz": (188_041, 0),
    "SDSC-SP2-1998-4.2-cln.swf.gz": (54_044, 5_671),
    "lublin_256.swf.gz": (10_000, 0),
}
ROWS_MANY = 200_000
ROWS_WARM = 20_000  # by then all that is shared between rows is there
ROWS_TRACED = 20_000  # the last ones only, because tracing takes five times as long as reading
PEAK_BYTES_MAX = 2 * 1024**2
LONG_LINE_BYTES = 64 * 1024**2
PLACES = {
    "job": 1,
    "submit": 2,
    "run": 4,
    "procs": 5,
    "cpu": 6,
    "memory": 7,
    "procs_asked": 8,
    "run_asked": 9,
    "memory_asked": 10,
    "status": 11,
    "user": 12,
}


def a_row(**fields: Any) -> str:
    """A row in which everything is unknown but a job of one processor and a minute, at 0."""
    row: list[Any] = [-1] * 18
    for name, value in {"job": 1, "submit": 0, "run": 60, "procs": 1, "user": 7, **fields}.items():
        row[PLACES[name] - 1] = value
    return " ".join(map(str, row))


def some_options(**more: Any) -> SwfOptions:
    return SwfOptions(**{"pool": POOL, **more})


def a_trace(folder: Path, *rows: str | bytes, name: str = "t.swf", **options: Any) -> SwfTrace:
    text = b"".join((row.encode() if isinstance(row, str) else row) + b"\n" for row in rows)
    path = folder / name
    path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    return SwfTrace(path, some_options(**options))


def an_arrival(at: int = 0, **more: Any) -> Arrival:
    row: dict[str, Any] = {"pool": POOL, "shape": Shape(Resources(1000, 1024)), "owner": Owner("user7")}
    return Arrival(at=at, **{**row, "run_s": 60, **more})


def refusal(trace: SwfTrace) -> str:
    with pytest.raises(SwfError) as caught:
        list(trace)
    return str(caught.value).replace(str(trace.path), "FILE")


@pytest.mark.parametrize(
    ("fields", "options", "expected"),
    [
        ({}, {}, an_arrival()),
        ({"user": -1}, {}, an_arrival(owner=Owner("unknown"))),
        ({"user": 0}, {}, an_arrival(owner=Owner("user0"))),
        ({"run": 0}, {}, an_arrival(run_s=0)),
        ({"run": "12.0"}, {}, an_arrival(run_s=12)),
        ({"run": "12.7", "cpu": "142.00"}, {}, an_arrival(run_s=12)),
        ({"run": "1.2e2"}, {}, an_arrival(run_s=120)),
        ({"run": "5.", "cpu": ".5"}, {}, an_arrival(run_s=5)),
        ({"run_asked": 900}, {}, an_arrival()),
        ({"run_asked": 900}, {"limits": True}, an_arrival(run_s_max=900)),
        ({"run_asked": -1}, {"limits": True}, an_arrival()),
        ({"run_asked": 0}, {"limits": True}, an_arrival()),
        ({"procs": 4}, {}, an_arrival(shape=Shape(Resources(4000, 4096)))),
        ({"procs": 4, "procs_asked": 8}, {}, an_arrival(shape=Shape(Resources(8000, 8192)))),
        ({"procs": 4, "procs_asked": 0}, {}, an_arrival(shape=Shape(Resources(4000, 4096)))),
        ({"memory": 1025}, {}, an_arrival(shape=Shape(Resources(1000, 2)))),
        ({"memory": 1025, "memory_asked": 1024}, {}, an_arrival(shape=Shape(Resources(1000, 1)))),
        ({"procs": 3, "memory": 1000}, {}, an_arrival(shape=Shape(Resources(3000, 3)))),
        ({"procs": 4, "memory": 9999}, {"shape": ONE}, an_arrival(shape=ONE)),
        ({"procs": 4}, {"cpus_max": 4}, an_arrival(shape=Shape(Resources(4000, 4096)))),
        ({"status": 5}, {}, an_arrival()),
    ],
)
def test_a_row_becomes_one_arrival(
    tmp_path: Path, fields: dict[str, Any], options: dict[str, Any], expected: Arrival
) -> None:
    assert list(a_trace(tmp_path, a_row(**fields), **options)) == [expected]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [0, 10, 10, 110, 200]),
        ({"speed": 200}, [0, 5, 5, 55, 100]),
        ({"speed": 50}, [0, 20, 20, 220, 400]),
        ({"speed": 300}, [0, 3, 3, 36, 66]),
        ({"jobs_max": 2}, [0, 10]),
        ({"span_s": 110}, [0, 10, 10]),
        ({"first_s": 0}, [1000, 1010, 1010, 1110, 1200]),
        ({"first_s": 1010}, [0, 0, 100, 190]),
        ({"first_s": 1005, "span_s": 106}, [5, 5, 105]),
        ({"first_s": 1005, "span_s": 106, "speed": 50}, [10, 10, 210]),
    ],
)
def test_times_are_those_of_the_wanted_part(
    tmp_path: Path, options: dict[str, Any], expected: list[int]
) -> None:
    rows = [a_row(submit=submit) for submit in (1000, 1010, 1010, 1110, 1200)]
    assert [arrival.at for arrival in a_trace(tmp_path, *rows, **options)] == expected


def test_what_is_left_out_is_counted_by_its_reason(tmp_path: Path) -> None:
    rows = [
        a_row(submit=1),
        a_row(submit=5, run=-1),
        a_row(submit=6, run=-1),
        a_row(submit=7, procs=0),
        a_row(submit=8, procs=-1),
        a_row(submit=9, procs=65),
        a_row(submit=-1, status=2),
        a_row(submit=-1, status=3),
        a_row(submit=-1, status=4),
        a_row(submit=10),
    ]
    trace = a_trace(tmp_path, *rows, first_s=5, cpus_max=64)
    expected = {
        "before first_s": 1,
        "no run time": 2,
        "no processors": 2,
        "more processors than cpus_max": 1,
        "part of a job that has its own row": 3,
    }
    for _ in range(2):  # The second reading must not add to the first.
        assert list(trace) == [an_arrival(5)]
        assert (trace.rows, trace.jobs, trace.left_out) == (10, 1, expected)


LONG = "9" * 50
BAD_ROWS: list[tuple[str | bytes, str]] = [
    ("1 2 3", "3 fields; a row has 18"),
    (a_row() + " 5", "19 fields; a row has 18"),
    (a_row() + "\r" + a_row(), "36 fields; a row has 18"),
    (a_row(run="ten"), "field 4 is `ten`, which is not a number"),
    (a_row(status="1_0"), "field 11 is `1_0`, which is not a number"),
    (a_row(user="0x10"), "field 12 is `0x10`, which is not a number"),
    (a_row(cpu="\x1b[2J"), "field 6 is `\\x1b[2J`, which is not a number"),
    (a_row(run="٣"), "field 4 is `\\u0663`, which is not a number"),
    (a_row(run="1." + LONG), f"field 4 is `1.{'9' * 35}...`, which is not a number"),
    (a_row(run="nan"), "field 4 is `nan`, which is not finite"),
    (a_row(submit="-Infinity"), "field 2 is `-Infinity`, which is not finite"),
    (a_row(cpu="1e999"), "field 6 is `1e999`, which is not finite"),
    (a_row(run="-0.5"), "field 4 is `-0.5`, a fraction below zero"),
    (a_row(submit=-1), "the submit time is negative: -1"),
    (a_row(submit=99), "not sorted: submitted at 99, the row before at 100"),
    (a_row(submit=3_162_240_001), "the submit time is more than 100 years: 3162240001"),
    (a_row(submit=LONG), "the submit time is more than 100 years: beyond 10^30"),
    (a_row(submit="-" + LONG), "the submit time is negative: beyond -10^30"),
    (a_row(submit=100, run=-2), "the run time is negative: -2"),
    (a_row(submit=100, run=316_224_001), "the run time is more than ten years: 316224001"),
    (a_row(submit=100, run_asked=-3), "the requested time is negative: -3"),
    (a_row(submit=100, run_asked=10**9), "the requested time is more than ten years: 1000000000"),
    (a_row(submit=100, procs=-4), "the number of allocated processors is negative: -4"),
    (
        a_row(submit=100, procs=10_000_001),
        "the number of allocated processors is more than ten million: 10000001",
    ),
    (a_row(submit=100, procs_asked=-9), "the number of requested processors is negative: -9"),
    (
        a_row(submit=100, procs_asked=10**8),
        "the number of requested processors is more than ten million: 100000000",
    ),
    (a_row(submit=100, memory=-8), "the used memory is negative: -8"),
    (a_row(submit=100, memory=2**50 + 1), "the used memory is more than 1 EiB: 1125899906842625"),
    (a_row(submit=100, memory_asked="1e20"), f"the requested memory is more than 1 EiB: {10**20}"),
    (
        a_row(submit=100, procs=2, memory=2**50),
        "the memory of all processors is more than 1 EiB: 2251799813685248 KiB",
    ),
    (a_row(submit=100, user=-5), "the number of the user is negative: -5"),
    (a_row(submit=100, user=2**32), "the number of the user is more than 4294967295: 4294967296"),
    (b"1 2 \xff 4", "the row is not UTF-8 text"),
    (b"\x00\x00", "1 field; a row has 18"),
    ("0 " * LINE_BYTES_MAX, "the line is longer than 4096 bytes"),
    ("; " + "x" * LINE_BYTES_MAX, "the line is longer than 4096 bytes"),
]


@pytest.mark.parametrize("name", ["t.swf", "t.swf.gz"])
@pytest.mark.parametrize(("row", "expected"), BAD_ROWS)
def test_a_bad_row_is_named_by_its_line(tmp_path: Path, name: str, row: str | bytes, expected: str) -> None:
    trace = a_trace(tmp_path, "; Version: 2.2", "", a_row(submit=100), row, a_row(submit=100), name=name)
    assert refusal(trace) == f"FILE:4: {expected}"
    assert trace.jobs == 1


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"run": -1}, "FILE:2: the row has no run time"),
        ({"procs": 0}, "FILE:2: the row has no processors"),
        ({"procs": -1, "procs_asked": -1}, "FILE:2: the row has no processors"),
    ],
)
def test_a_missing_number_is_an_error_where_that_is_wanted(
    tmp_path: Path, fields: dict[str, Any], expected: str
) -> None:
    trace = a_trace(tmp_path, a_row(), a_row(**fields), on_missing="error")
    assert refusal(trace) == expected


def test_headers_may_be_in_latin_1_and_lines_may_end_as_on_windows(tmp_path: Path) -> None:
    rows = [b"\xef\xbb\xbf; Acknowledge: \xc5ke\r", b"\r", b"  ; more\r", a_row().encode() + b"\r"]
    assert list(a_trace(tmp_path, *rows)) == [an_arrival()]


def test_a_last_line_without_an_end_is_a_row(tmp_path: Path) -> None:
    path = tmp_path / "t.swf"
    path.write_text(a_row())
    assert list(SwfTrace(path, some_options())) == [an_arrival()]


@pytest.mark.parametrize(
    ("rows", "options", "expected"),
    [
        ([], {}, "FILE: the trace has no rows"),
        (["; Version: 2.2", ""], {}, "FILE: the trace has no rows"),
        ([a_row(run=-1)], {}, "FILE: no job is left of 1 rows read; 1 no run time"),
        ([a_row(), a_row()], {"first_s": 9}, "FILE: no job is left of 2 rows read; 2 before first_s"),
        ([a_row(submit=9)], {"first_s": 0, "span_s": 9}, "FILE: no job is left of 1 rows read"),
    ],
)
def test_a_trace_without_jobs_is_an_error(
    tmp_path: Path, rows: list[str], options: dict[str, Any], expected: str
) -> None:
    assert refusal(a_trace(tmp_path, *rows, **options)) == expected


def test_a_file_that_cannot_be_read_is_an_error_that_says_why(tmp_path: Path) -> None:
    text = "".join(a_row(job=number, submit=number) + "\n" for number in range(2000)).encode()
    packed = gzip.compress(text)
    files = {
        "plain.swf.gz": text,
        "packed.swf": packed,
        "cut.swf.gz": packed[:-9],
        "empty.swf.gz": b"",
        "more.swf.gz": packed + b"more",
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "folder.swf").mkdir()
    (tmp_path / "folder.swf.gz").mkdir()
    unreadable = ("folder.swf", "folder.swf.gz", "none.swf", "none.swf.gz", "a\nb.swf", "nul\0.swf")
    found = {name: refusal(SwfTrace(tmp_path / name, some_options())) for name in (*files, *unreadable)}
    assert found.pop("more.swf.gz").startswith("FILE:2001: the compressed file is broken here: ")
    assert found.pop("cut.swf.gz").endswith(": the compressed file is cut off here")
    assert found.pop("a\nb.swf") == f"{tmp_path}/a\\nb.swf: there is no such file"
    assert found.pop("nul\0.swf") == f"{tmp_path}/nul\\x00.swf: it cannot be read: embedded null byte"
    assert found == {
        "plain.swf.gz": "FILE:1: this is not gzip although its name ends in `.gz`",
        "packed.swf": "FILE:1: this is gzip; the name of a compressed trace ends in `.gz`",
        "empty.swf.gz": "FILE: the trace has no rows",
        "folder.swf": "FILE: this is a folder, not a trace",
        "folder.swf.gz": "FILE: this is a folder, not a trace",
        "none.swf": "FILE: there is no such file",
        "none.swf.gz": "FILE: there is no such file",
    }


def test_a_damaged_trace_gives_jobs_in_order_or_one_error(tmp_path: Path) -> None:
    rng = Random(4)
    rows = [a_row(job=number, submit=number * 7, procs=number % 5) for number in range(1, 40)]
    whole = "\n".join(["; Version: 2.2", *rows, ""]).encode()
    refusals = []
    for number in range(300):
        name = ("t.swf", "t.swf.gz")[number % 2]
        content = bytearray(gzip.compress(whole) if number % 4 == 1 else whole)
        for _ in range(rng.randrange(1, 4)):
            content[rng.randrange(len(content))] = rng.randrange(256)
        damaged = gzip.compress(bytes(content)) if number % 4 == 3 else bytes(content)
        (tmp_path / name).write_bytes(damaged)
        times = [0]
        try:
            times += [arrival.at for arrival in SwfTrace(tmp_path / name, some_options())]
        except SwfError as error:
            refusals.append(str(error))
        assert times == sorted(times)
    assert 0 < len(refusals) < 300
    assert all(text.startswith(str(tmp_path)) and text.isprintable() for text in refusals)


def peak_bytes(jobs: Iterable[Arrival]) -> tuple[int, str]:
    """The most memory that a reading took from here on, and its error if it had one."""
    error = ""
    tracemalloc.start()
    try:
        for _ in jobs:
            pass
    except SwfError as found:
        error = str(found)
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return peak, error


def many_rows(count: int) -> Iterator[bytes]:
    """Every row has its own user, time and shape, so that nothing is small by being shared."""
    for number in range(count):
        row = a_row(job=number, submit=number, procs=number % 9000 + 1, memory=number, user=number)
        yield row.encode() + b"\n"


def test_the_memory_does_not_grow_with_the_rows(tmp_path: Path) -> None:
    path = tmp_path / "many.swf.gz"
    with gzip.open(path, "wb", compresslevel=1) as file, io.BufferedWriter(file) as buffered:
        buffered.writelines(many_rows(ROWS_MANY))
    trace = SwfTrace(path, some_options())
    jobs = iter(trace)
    assert sum(1 for _ in islice(jobs, ROWS_WARM)) == ROWS_WARM
    blocks = sys.getallocatedblocks()
    assert sum(1 for _ in islice(jobs, ROWS_MANY - ROWS_WARM - ROWS_TRACED)) > 0
    assert sys.getallocatedblocks() - blocks < ROWS_WARM // 10
    peak, error = peak_bytes(jobs)
    assert (error, trace.jobs) == ("", ROWS_MANY)
    assert peak < PEAK_BYTES_MAX


def test_a_line_without_an_end_is_never_read_whole(tmp_path: Path) -> None:
    plain, packed = tmp_path / "long.swf", tmp_path / "long.swf.gz"
    with plain.open("wb") as file:
        file.truncate(LONG_LINE_BYTES)  # Zeros that take no place on the disk.
    with gzip.open(packed, "wb", compresslevel=1) as file:
        for _ in range(LONG_LINE_BYTES // 2**20):
            file.write(b"1" * 2**20)
    for path in (plain, packed):
        peak, error = peak_bytes(SwfTrace(path, some_options()))
        assert error == f"{path}:1: the line is longer than {LINE_BYTES_MAX} bytes"
        assert peak < PEAK_BYTES_MAX


def test_a_small_file_that_unpacks_to_empty_lines_ends_with_an_error(tmp_path: Path) -> None:
    path = tmp_path / "empty.swf.gz"
    path.write_bytes(gzip.compress(b"\n" * (IDLE_LINES_MAX + 1), compresslevel=1))
    expected = "FILE:1000001: more than 1000000 header or empty lines"
    assert refusal(SwfTrace(path, some_options())) == expected


@pytest.mark.parametrize("name", sorted(REAL_JOBS))
def test_a_trace_of_the_archive_is_read_whole(tmp_path: Path, name: str) -> None:
    """Where the traces are not at hand, a small one with the same oddities takes their place."""
    jobs, missing = REAL_JOBS[name]
    path = REAL / name
    if not path.is_file():
        jobs, missing = 300, 2
        rows = [a_row(job=number, submit=number * 3, cpu="142.00") for number in range(jobs)]
        path = a_trace(tmp_path, b"; Queue: 1 \xe5", *rows, *[a_row(submit=9999, run=-1)] * 2, name=name).path
    trace = SwfTrace(path, some_options(shape=ONE, limits=True))
    at, count = 0, 0
    for arrival in trace:
        assert arrival.at >= at
        at, count = arrival.at, count + 1
    assert (count, trace.left_out) == (jobs, {"no run time": missing} if missing else {})


def test_a_reader_that_stops_early_reads_no_further(tmp_path: Path) -> None:
    trace = a_trace(tmp_path, a_row(), a_row(submit=5), "not a row")
    assert list(islice(trace, 2)) == [an_arrival(0), an_arrival(5)]
    assert trace.rows == 2


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"pool": ""}, "`pool` must be the name of a pool"),
        (
            {"shape": Shape(Resources())},
            "`shape` must ask for something; a job of nothing fits any number of times",
        ),
        ({"cpus_max": 0}, "`cpus_max` must be a whole number from 1 to 10000000, not `0`"),
        ({"jobs_max": -1}, "`jobs_max` must be a whole number from 1 to 100000000, not `-1`"),
        ({"first_s": "1h"}, "`first_s` must be a whole number from 0 to 3162240000, not `1h`"),
        ({"span_s": 1.5}, "`span_s` must be a whole number from 1 to 3162240000, not `1.5`"),
        ({"speed": 0}, "`speed` must be a whole number from 1 to 1000000, not `0`"),
        ({"speed": None}, "`speed` must be a whole number from 1 to 1000000, not `None`"),
        ({"speed": True}, "`speed` must be a whole number from 1 to 1000000, not `True`"),
        ({"limits": "yes"}, "`limits` must be true or false, not `yes`"),
        ({"on_missing": "skip"}, "`on_missing` must be `leave out` or `error`, not `skip`"),
    ],
)
def test_an_odd_option_is_an_error_that_names_it(options: dict[str, Any], expected: str) -> None:
    with pytest.raises(ValueError) as caught:
        some_options(**options)
    assert str(caught.value) == expected
