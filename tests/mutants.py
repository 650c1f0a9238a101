"""`make mutants`: mistakes are planted into the core one by one, and some test must notice each.

Sources and the list of allowed survivors come in, a verdict for every mutant goes out. All tests are
collected once and a fork tries each mutant: the code of one function is swapped in place, and only the tests
that reach it are run, the quickest first. What stands outside of functions is tried in a fork that imports
anew. It refuses to judge by tests that fail without any change.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import importlib
import importlib.machinery
import json
import os
import resource
import signal
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import CodeType, FrameType, FunctionType
from typing import Any

import hypothesis
import pytest
from _pytest.runner import runtestprotocol
from tests.mutations import CORE, ROOT, Mutant, mutants_of, targets

TESTS = ROOT / "tests/core"
ALLOWED = ROOT / "tests/mutants_allowed.toml"
REACH = ROOT / ".pytest_cache/mutants_reach.json"
# What a mutant may cost. Tests beyond it are the slow random ones, which seldom see a single change; of them
# only one storm is tried, after all others.
TESTS_S_MAX = 10.0
LAST = "tests/core/test_mutants_storms.py::"
# Of processor time, so that a busy machine makes no verdict; a test that takes this long is in a loop.
TEST_S_FACTOR, TEST_S_MIN = 10, 3
TRIAL_S_MAX = 180
MEMORY_MAX = 4 << 30
EXAMPLES_MAX = 30
LIKELY_MAX = 2
DEFAULTS = "tests/core/test_mutants_defaults.py"
# Whole histories take seconds each; the storms of `test_mutants_storms.py` stand for them.
LEFT_OUT = ("test_worlds.py",)
KILLED, SURVIVED, TIMED_OUT, UNREACHED = "killed", "SURVIVED", "timed out", "unreached"
# The plug-in of hypothesis finds it loaded, which matters to nobody here.
QUIET = ("-W", "ignore::pytest.PytestAssertRewriteWarning", "-p", "no:cacheprovider")


Result = tuple[Mutant, str, str]
# A trial runs in a fork: it tells which test noticed, or nothing.
Trial = Callable[[Mutant], str]


def farm(work: Sequence[Mutant], jobs: int, trial: Trial) -> Iterator[Result]:
    """So many forks at a time, one for each mutant, each with its verdict and the test that noticed."""
    live: dict[int, tuple[Mutant, int]] = {}
    for mutant in work:
        if len(live) >= jobs:
            yield _reaped(live)
        inlet, outlet = os.pipe()
        pid = os.fork()
        if pid == 0:
            _alone()
            os.write(outlet, trial(mutant).encode())
            os._exit(0)
        os.close(outlet)
        live[pid] = (mutant, inlet)
    for _ in range(len(live)):
        yield _reaped(live)


def _alone() -> None:
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (1, 2):
        os.dup2(nowhere, stream)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX, MEMORY_MAX))
    signal.setitimer(signal.ITIMER_REAL, TRIAL_S_MAX)


def _reaped(live: dict[int, tuple[Mutant, int]]) -> Result:
    pid, status = os.wait()
    mutant, inlet = live.pop(pid)
    with os.fdopen(inlet, "rb") as stream:
        told = stream.read().decode()
    if os.WIFSIGNALED(status):
        late = os.WTERMSIG(status) in (signal.SIGPROF, signal.SIGALRM)
        return mutant, TIMED_OUT if late else KILLED, told
    # A mutant that ends its own fork was noticed, too.
    return mutant, KILLED if told or status else SURVIVED, told


Reach = dict[str, tuple[float, list[str]]]


class Calm:
    """A pytest plugin: properties are tried on few examples, always the same ones, and not made smaller."""

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            test = getattr(item, "obj", None)
            test = getattr(test, "__func__", test)
            if found := getattr(test, "_hypothesis_internal_use_settings", None):
                test._hypothesis_internal_use_settings = hypothesis.settings(
                    found,
                    max_examples=min(EXAMPLES_MAX, found.max_examples),
                    derandomize=True,
                    database=None,
                    deadline=None,
                    phases=(hypothesis.Phase.explicit, hypothesis.Phase.generate),
                    suppress_health_check=list(hypothesis.HealthCheck),
                )


@dataclass
class Warm(Calm):
    """A pytest plugin that takes the place of the run: what each test reaches, then all the trials."""

    work: Sequence[Mutant]
    jobs: int
    tell: Callable[[Result], None]
    note: Callable[[str], None]
    items: dict[str, pytest.Item] = field(default_factory=dict)
    reach: Reach = field(default_factory=dict)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self.items = {item.nodeid: item for item in session.items if item.path.name not in LEFT_OUT}
        self.reach = measured(self.items)
        for name in self.items.keys() - self.reach.keys():
            self.note(name)
        gc.collect()
        gc.freeze()
        noticed: dict[str, list[str]] = {}

        def trial(mutant: Mutant) -> str:
            swap(mutant)
            due = due_tests(self.reach, mutant.reaches)
            first = [name for name in noticed.get(mutant.reaches, []) if name in due]
            for name in dict.fromkeys([*first, *due]):
                if not passes(self.items[name], self.reach[name][0]):
                    return name
            return ""

        reached = [mutant for mutant in self.work if due_tests(self.reach, mutant.reaches)]
        for mutant in set(self.work) - set(reached):
            self.tell((mutant, UNREACHED, ""))
        for mutant, verdict, by in farm(reached, self.jobs, trial):
            if by:
                noticed.setdefault(mutant.reaches, []).insert(0, by)
            self.tell((mutant, verdict, by))
        return True


def due_tests(reach: Reach, *keys: str) -> list[str]:
    """The tests that reach any of these functions, the quickest first, as many as there is time for."""
    wanted = set(keys)
    rows = sorted(
        (took_s, name) for name, (took_s, reached) in reach.items() if wanted & set(reached or [""])
    )
    names, spent_s = [], 0.0
    for took_s, name in rows:
        spent_s += took_s
        if spent_s > TESTS_S_MAX and names:
            break
        names.append(name)
    storms = [name for _, name in rows if name.startswith(LAST)]
    return [*(name for name in names if name not in storms), *storms[:1]]


def passes(item: pytest.Item, took_s: float) -> bool:
    signal.setitimer(signal.ITIMER_PROF, TEST_S_MIN + TEST_S_FACTOR * took_s)
    return not any(report.failed for report in runtestprotocol(item, log=False, nextitem=None))


def swap(mutant: Mutant) -> None:
    """Put the changed code into the living function; whoever imported it has the change, too."""
    module = sys.modules[mutant.module]
    code: CodeType = mutant.code()
    found: Any = module
    for name in mutant.function.split("."):
        code = next(c for c in code.co_consts if isinstance(c, CodeType) and c.co_name == name)
        found = vars(found)[name]
    if hasattr(found, "cache_clear"):
        found.cache_clear()
    living(found).__code__ = code


def living(found: Any) -> FunctionType:
    for name in ("fget", "__func__", "__wrapped__"):
        found = getattr(found, name, found)
    assert isinstance(found, FunctionType), found
    return found


def measured(items: dict[str, pytest.Item]) -> Reach:
    """What each test reaches and how long it takes; kept on disk until the test or the sources change."""
    kept = json.loads(REACH.read_text()) if REACH.exists() else {}
    sources = sorted(CORE.rglob("*.py"))
    sources += [path for path in sorted(TESTS.glob("*.py")) if not path.name.startswith("test_")]
    base = hashlib.sha256(b"".join(path.read_bytes() for path in sources))
    codes = _codes()
    found: Reach = {}
    fresh: dict[str, Reach] = {}
    for path in sorted({item.path for item in items.values()}):
        digest = base.copy()
        digest.update(path.read_bytes())
        here = {name: item for name, item in items.items() if item.path == path}
        rows = kept.get(digest.hexdigest())
        fresh[digest.hexdigest()] = rows if rows is not None else _aside(here, codes)
        found |= fresh[digest.hexdigest()]
    REACH.parent.mkdir(exist_ok=True)
    REACH.write_text(json.dumps(fresh))
    return found


def _aside(items: dict[str, pytest.Item], codes: dict[int, str]) -> Reach:
    """In a fork: a test may spoil its own table, and must find it whole when it is run on a mutant."""
    inlet, outlet = os.pipe()
    pid = os.fork()
    if pid == 0:
        with os.fdopen(outlet, "w") as stream:
            json.dump(_reach(items, codes), stream)
        os._exit(0)
    os.close(outlet)
    with os.fdopen(inlet) as stream:
        found: Reach = json.load(stream)
    os.waitpid(pid, 0)
    return found


def _reach(items: dict[str, pytest.Item], codes: dict[int, str]) -> Reach:
    found: Reach = {}
    for name, item in items.items():
        reached: set[str] = set()

        def heard(frame: FrameType, event: str, _: Any, reached: set[str] = reached) -> None:
            if event == "call" and (key := codes.get(id(frame.f_code))):
                reached.add(key)

        started = time.process_time()
        sys.setprofile(heard)
        try:
            reports = runtestprotocol(item, log=False, nextitem=None)
        finally:
            sys.setprofile(None)
        # A test that fails without any change proves nothing about one.
        if all(report.passed for report in reports):
            found[name] = (round(time.process_time() - started, 4), sorted(reached))
    return found


def _codes() -> dict[int, str]:
    """The living code of every function that can be changed, and of what is defined inside of it."""
    found: dict[int, str] = {}

    def note(code: CodeType, key: str) -> None:
        found[id(code)] = key
        for inner in code.co_consts:
            if isinstance(inner, CodeType):
                note(inner, key)

    for path in targets([]):
        module = importlib.import_module(".".join(path.relative_to(ROOT / "src").with_suffix("").parts))
        for function in {m.function for m in mutants_of(path) if not m.cold}:
            living_one: Any = module
            for name in function.split("."):
                living_one = vars(living_one)[name]
            note(living(living_one).__code__, f"{module.__name__}:{function}")
    return found


@dataclass
class Chosen(Calm):
    """A pytest plugin: only these tests, in this order; the first that fails is named."""

    names: list[str]
    failed: str = ""

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        super().pytest_collection_modifyitems(items)
        places = {name: place for place, name in enumerate(self.names)}
        items[:] = sorted((i for i in items if i.nodeid in places), key=lambda i: places[i.nodeid])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed = self.failed or report.nodeid


def cold_trial(mutant: Mutant, reach: Reach, first: Sequence[str]) -> str:
    """Import everything anew with the change in place; for constants, tables and defaults."""

    class Loader(importlib.machinery.SourceFileLoader):
        def get_code(self, fullname: str) -> CodeType | None:
            return mutant.code() if fullname == mutant.module else super().get_code(fullname)

    class Finder(importlib.machinery.PathFinder):
        @classmethod
        def find_spec(cls, fullname: str, path: Any = None, target: Any = None) -> Any:
            spec = super().find_spec(fullname, path, target) if fullname == mutant.module else None
            if spec is not None:
                spec.loader = Loader(fullname, str(mutant.path))
            return spec

    assert mutant.module not in sys.modules
    sys.meta_path.insert(0, Finder)
    keys = {key for _, reached in reach.values() for key in reached}
    due = due_tests(reach, mutant.reaches) or due_tests(reach, "", *keys)
    signal.setitimer(signal.ITIMER_PROF, TEST_S_FACTOR * TESTS_S_MAX)
    # The files that noticed the last ones first: to import them all costs more than to run them.
    likely = {name.split("::")[0] for name in first[:LIKELY_MAX] if name} | {DEFAULTS}
    for names in ([name for name in due if name.split("::")[0] in likely], due):
        chosen = Chosen(names)
        code = pytest.main(["-x", *QUIET, *sorted({n.split("::")[0] for n in names})], plugins=[chosen])
        if chosen.failed or code not in (0, 5):
            return chosen.failed or f"pytest ended with {code}"
    return ""


def warm_trials(work: Sequence[Mutant], jobs: int, show: Callable[[Result], None]) -> list[Mutant]:
    """In a fork of its own, so that this one has nothing of ours imported; those that no test reaches."""
    inlet, outlet = os.pipe()
    log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - it is closed with this run
    pid = os.fork()
    if pid == 0:
        os.close(inlet)
        with os.fdopen(outlet, "w", buffering=1) as stream:
            places = {mutant: place for place, mutant in enumerate(work)}

            def tell(result: Result) -> None:
                stream.write(json.dumps([places[result[0]], *result[1:]]) + "\n")

            def note(name: str) -> None:
                stream.write(json.dumps([-1, "", name]) + "\n")

            os.dup2(log.fileno(), 1)
            code = pytest.main([*QUIET, str(TESTS)], plugins=[Warm(work, jobs, tell, note)])
        os._exit(code)
    os.close(outlet)
    unreached = []
    with os.fdopen(inlet) as lines:
        for line in lines:
            place, verdict, by = json.loads(line)
            if place < 0:
                print(f"not used, it fails without any change: {by}", file=sys.stderr)
            elif verdict == UNREACHED:
                unreached.append(work[place])
            else:
                show((work[place], verdict, by))
    _, status = os.waitpid(pid, 0)
    if status:
        log.seek(0)
        raise SystemExit(f"the tests could not be collected\n{log.read()}")
    return unreached


Allowed = dict[tuple[str, ...], str]


def allowed_in(files: set[str]) -> Allowed:
    rows = tomllib.loads(ALLOWED.read_text()).get("allowed", []) if ALLOWED.exists() else []
    keys = ("file", "function", "operator", "was", "becomes")
    found = {tuple(row[key] for key in keys): row["why"] for row in rows if row["file"] in files}
    assert all(found.values()), "every allowed survivor has its reason"
    return found


@dataclass
class Score:
    total: int
    started: float = field(default_factory=time.monotonic)
    results: list[Result] = field(default_factory=list)

    def show(self, result: Result) -> None:
        self.results.append(result)
        counts = Counter(verdict for _, verdict, _ in self.results)
        told = ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))
        line = f"{len(self.results)} of {self.total}: {told}, {time.monotonic() - self.started:.0f} s"
        if sys.stderr.isatty():
            print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)
        elif len(self.results) % 100 == 0:
            print(line, file=sys.stderr, flush=True)

    def told(self, mutants: Sequence[Mutant], allowed: Allowed, ran: Sequence[Mutant]) -> int:
        verdicts = {mutant: verdict for mutant, verdict, _ in self.results}
        survived = [m for m in ran if verdicts[m] == SURVIVED and m.key not in allowed]
        known = {mutant.key for mutant in mutants}
        stale = [key for key in allowed if key not in known]
        stale += [m.key for m in ran if m.key in allowed and verdicts[m] != SURVIVED]
        print(f"\n{'file':34} mutants  killed  timed out  allowed  SURVIVED")
        for file in dict.fromkeys(mutant.file for mutant in mutants):
            here = [m for m in mutants if m.file == file]
            counts = Counter(verdicts.get(m, "") for m in here if m.key not in allowed)
            print(
                f"{file:34} {len(here):7} {counts[KILLED]:7} {counts[TIMED_OUT]:10} "
                f"{sum(m.key in allowed for m in here):8} {counts[SURVIVED]:9}"
            )
        for mutant in survived:
            print(shown(mutant))
        for key in stale:
            print(f"stale in {ALLOWED.name}: {' | '.join(key)}")
        return 1 if survived or stale else 0


def shown(mutant: Mutant) -> str:
    return f"\n{mutant.id}\n  {mutant.file}:{mutant.line}\n  - {mutant.was}\n  + {mutant.becomes}"


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("files", nargs="*", help="ends of file names, such as `provision/flow.py`; or all")
    parser.add_argument("--function", help="only this one, for example `Stock.take`")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--list", action="store_true", help="print the mutants and run nothing")
    parser.add_argument("--show", metavar="ID", help="print one mutant and who notices it")
    parser.add_argument("--allowed", action="store_true", help="run the allowed ones, too")
    options = parser.parse_args(argv)
    mutants = [mutant for path in targets(options.files) for mutant in mutants_of(path)]
    allowed = allowed_in({mutant.file for mutant in mutants})
    if options.function:
        mutants = [mutant for mutant in mutants if mutant.function == options.function]
        allowed = {key: why for key, why in allowed.items() if key[1] == options.function}
    if options.show:
        mutants = [mutant for mutant in mutants if mutant.id == options.show]
        allowed = {key: why for key, why in allowed.items() if key in {m.key for m in mutants}}
    if options.list or not mutants:
        print("\n".join(map(shown, mutants)) or "no such mutant")
        return 0 if mutants else 2
    ran = [m for m in mutants if options.allowed or options.show or m.key not in allowed]
    score = Score(len(ran))
    cold = [mutant for mutant in ran if mutant.cold]
    cold += warm_trials([mutant for mutant in ran if not mutant.cold], options.jobs, score.show)
    reach: Reach = {
        name: row for rows in json.loads(REACH.read_text()).values() for name, row in rows.items()
    }
    noticed: list[str] = []
    for result in farm(cold, options.jobs, lambda mutant: cold_trial(mutant, reach, noticed)):
        noticed.insert(0, result[2])
        score.show(result)
    if options.show:
        print("\n".join(f"{shown(m)}\n  {verdict} {by}" for m, verdict, by in score.results))
    return score.told(mutants, allowed, ran)


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(main(sys.argv[1:]))
