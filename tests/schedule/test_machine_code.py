"""Plans are made at once, as the loops are written, and by machine code when that has been made."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

BEGIN = """
import sys
from glidepath.machinecode import spare
assert spare(0)
from glidepath.core.schedule import compiled, rehearsal
from glidepath.core.schedule.decide import decide
from glidepath.core.schedule.job import Book, Memory
def planned():
    return decide(rehearsal._world(), Book(), Memory())
"""
# Every loop that was left plain has to be among those that were run.
EVERY_LOOP = (
    BEGIN
    + """
ran = set()
sys.setprofile(lambda frame, event, arg: ran.add(frame.f_code) if event == "call" else None)
rehearsal.rehearse()
sys.setprofile(None)
print(sorted(function.__name__ for function, _ in compiled._left if function.__code__ not in ran))
assert "numba" not in sys.modules
"""
)
SWITCHED = (
    BEGIN
    + """
before = planned()
plain = {id(function) for function, _ in compiled._left}
assert "numba" not in sys.modules
assert compiled.take_up() == len(plain) > 40
modules = [m for name, m in sys.modules.items() if name.startswith("glidepath.core")]
assert not [n for m in modules for n, value in vars(m).items() if id(value) in plain and n != "function"]
assert all(type(code).__name__ == "CPUDispatcher" for code in compiled.made)
assert planned() == before
print(sum(bool(code.signatures) for code in compiled.made) > 0)
"""
)


def python(script: str, **environ: str) -> str:
    kept = {name: value for name, value in os.environ.items() if name != "NUMBA_DISABLE_JIT"}
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**kept, **environ},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_rehearsal_runs_every_loop() -> None:
    # These are for reruns of logs alone.
    assert python(EVERY_LOOP) == "['keep_again', 'restore']"


def test_the_plan_is_the_same_when_machine_code_takes_the_place_of_the_loops() -> None:
    assert python(SWITCHED) == "True"


@pytest.mark.parametrize(("word", "left"), [("0", "False"), ("1", "False")])
def test_the_environment_says_it_for_good(word: str, left: str) -> None:
    script = "from glidepath.machinecode import spare; print(spare(0))"
    assert python(script, NUMBA_DISABLE_JIT=word) == left


def test_many_jobs_are_planned_by_machine_code_only_where_it_is_there(tmp_path: Path) -> None:
    script = "from glidepath import machinecode as m; print(m.is_made(), m.spare(301))"
    folder = {"NUMBA_CACHE_DIR": str(tmp_path)}
    assert python(script, **folder) == "False True"
    python("from glidepath import machinecode as m; m._mark_path().touch()", **folder)
    assert python(script, **folder) == "True False"
