"""The promises of a backend, one test each. It refuses to know what kind of site stands behind it.

A subclass says how a backend is made and how its listing can be made to fail; everything else has a default.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, TypeVar

import pytest

from glidepath.core.cycle import Done, Refused, Unsure
from glidepath.core.provision.pilot import PilotSpec, SitePilot, SiteState, Target
from glidepath.core.quantity import Instant, OfferKey, Owner, PilotName, PoolName, Resources
from glidepath.ports import WORLD_ERRORS, Backend

T = TypeVar("T")

OVER = frozenset({SiteState.ENDED, SiteState.FAILED, SiteState.WITHDRAWN})
POLL_S = 0.05
LOG_BYTES = 100

HOSTILE_NAMES = (
    "",
    ".",
    "..",
    "../escape",
    "/etc/passwd",
    "a/b",
    "two words",
    "new\nline",
    "nul\0byte",
    "bell\x07",
    "$(reboot)",
    "`reboot`",
    "; reboot",
    "-rf",
    "'quote\"",
    "\u202egnp",
    "n" * 300,
)


class BackendConformance:
    """Subclass it, supply `make` and `break_listing`, and let pytest collect the subclass."""

    settle_s: ClassVar[float] = 30.0  # how long the site may take until a change shows in its listing
    drains: ClassVar[bool] = True  # false where a site cannot tell its pilots anything; then it must say so

    def make(self, home: Path) -> Backend:
        """A backend that keeps everything under this folder, which may not exist yet."""
        raise NotImplementedError("say how a backend is made")

    def break_listing(self, backend: Backend) -> AbstractContextManager[object]:
        """While this is entered, the site's listing cannot be had."""
        raise NotImplementedError("say how the listing is made to fail")

    def spec(self, backend: Backend, name: str) -> PilotSpec:
        """A pilot that this site can start."""
        return PilotSpec(
            name=PilotName(name),
            site=backend.site,
            offer=OfferKey(f"{backend.site}/small"),
            pool=PoolName("conformance"),
            size=Resources(cpu_milli=1000, memory_mib=512),
            traits=(("os", "linux"),),
            lifetime_s=300,
            idle_s=300,
            asked_at=self.now(),
            owner=Owner("ada"),
        )

    @pytest.fixture
    def backend(self, tmp_path: Path) -> Iterator[Backend]:
        home = tmp_path / "home"
        home.mkdir()
        made = self.make(home)
        yield made
        self.clear(made)

    # What the tests are made of.

    def now(self) -> Instant:
        return Instant(int(time.time()))

    def timed(self, backend: Backend, call: Callable[[], T]) -> T:
        """The answer of a call, which must come within the backend's own limit."""
        began = time.monotonic()
        try:
            return call()
        finally:
            took_s = time.monotonic() - began
            assert took_s <= backend.limit_s, (
                f"a call took {took_s:.1f} s; its limit is {backend.limit_s:g} s"
            )

    def listed(self, backend: Backend) -> dict[str, SitePilot]:
        listing = self.timed(backend, lambda: backend.list(now=self.now()))
        assert listing.complete
        names = [pilot.name for pilot in listing.pilots]
        assert len(names) == len(set(names)), f"a name is listed twice: {names}"
        return {pilot.name: pilot for pilot in listing.pilots}

    def submitted(self, backend: Backend, name: str) -> PilotSpec:
        spec = self.spec(backend, name)
        assert isinstance(self.timed(backend, lambda: backend.submit(spec)), Done)
        self.until(f"`{name}` is listed", lambda: name in self.listed(backend))
        return spec

    def until(self, what: str, met: Callable[[], bool]) -> None:
        deadline = time.monotonic() + self.settle_s
        while not met():
            assert time.monotonic() < deadline, f"not within settle_s = {self.settle_s:g}: {what}"
            time.sleep(POLL_S)

    def over(self, backend: Backend, name: str) -> bool:
        pilot = self.listed(backend).get(name)
        return pilot is None or pilot.state in OVER

    def clear(self, backend: Backend) -> None:
        """A site may take a while to let go of a pilot, so that it is asked again until all are gone."""

        def cleared() -> bool:
            left = self.listed(backend)
            for pilot in left.values():
                backend.remove(Target(pilot.name, pilot.native_id))
            return not left

        self.until("all pilots are removed", cleared)

    # The promises.

    def test_it_is_a_backend(self, backend: Backend) -> None:
        assert isinstance(backend, Backend)
        assert backend.limit_s > 0
        assert self.listed(backend) == {}

    def test_making_one_touches_nothing(self, tmp_path: Path) -> None:
        self.make(tmp_path / "not" / "there")
        assert list(tmp_path.iterdir()) == []

    def test_the_listing_shows_what_was_asked_for(self, backend: Backend) -> None:
        spec = self.submitted(backend, "conf-shown")
        seen = self.listed(backend)["conf-shown"]
        assert (seen.offer, seen.pool, seen.size) == (spec.offer, spec.pool, spec.size)
        assert (seen.traits, seen.owner, seen.asked_at) == (spec.traits, spec.owner, spec.asked_at)
        assert spec.asked_at <= seen.since <= self.now()

    def test_the_same_name_twice_makes_one_pilot(self, backend: Backend) -> None:
        spec = self.submitted(backend, "conf-once")
        before = self.listed(backend)
        again = replace(spec, asked_at=Instant(spec.asked_at + 1))
        assert isinstance(self.timed(backend, lambda: backend.submit(again)), Done)
        after = self.listed(backend)
        assert after.keys() == before.keys()
        assert after["conf-once"].native_id == before["conf-once"].native_id

    def test_the_same_name_for_something_else_is_refused(self, backend: Backend) -> None:
        spec = self.submitted(backend, "conf-other")
        other = replace(spec, size=spec.size + spec.size)
        assert isinstance(self.timed(backend, lambda: backend.submit(other)), Refused)
        assert self.listed(backend)["conf-other"].size == spec.size

    def test_a_removed_pilot_ends_or_vanishes_and_its_traces_can_be_cleared(self, backend: Backend) -> None:
        self.submitted(backend, "conf-removed")
        kept = self.submitted(backend, "conf-kept")
        pilot = self.listed(backend)["conf-removed"]
        target = Target(pilot.name, pilot.native_id)
        assert isinstance(self.timed(backend, lambda: backend.remove(target)), Done | Unsure)
        self.until("it is over", lambda: self.over(backend, "conf-removed"))
        self.timed(backend, lambda: backend.remove(target))
        self.until("its traces are gone", lambda: "conf-removed" not in self.listed(backend))
        assert not self.over(backend, kept.name), "removing one pilot ended another"

    def test_withdrawing_spares_what_has_started(self, backend: Backend) -> None:
        self.submitted(backend, "conf-withdrawn")
        target = Target(PilotName("conf-withdrawn"))
        withdrawn = self.timed(backend, lambda: backend.withdraw(target))
        if isinstance(withdrawn, Refused):
            assert "conf-withdrawn" in self.listed(backend), "it was refused and went all the same"
        else:
            assert isinstance(withdrawn, Done | Unsure)
            self.until("it is over", lambda: self.over(backend, "conf-withdrawn"))

    def test_withdrawing_what_is_gone_is_done(self, backend: Backend) -> None:
        never = Target(PilotName("conf-never"), "12345")
        assert isinstance(self.timed(backend, lambda: backend.withdraw(never)), Done)

    def test_removing_what_is_gone_is_done(self, backend: Backend) -> None:
        never = Target(PilotName("conf-never"), "12345")
        assert isinstance(self.timed(backend, lambda: backend.remove(never)), Done)

    def test_draining_what_is_gone_is_done(self, backend: Backend) -> None:
        never = Target(PilotName("conf-never"), "12345")
        assert isinstance(self.timed(backend, lambda: backend.drain(never)), Done)

    def test_a_drain_bears_repeating(self, backend: Backend) -> None:
        self.submitted(backend, "conf-drained")
        for _ in range(3):
            drained = self.timed(backend, lambda: backend.drain(Target(PilotName("conf-drained"))))
            assert isinstance(drained, Done | Unsure if self.drains else Refused)

    def test_a_failed_listing_raises_and_never_returns_less(self, backend: Backend) -> None:
        self.submitted(backend, "conf-hidden")
        with self.break_listing(backend), pytest.raises(WORLD_ERRORS):
            self.timed(backend, lambda: backend.list(now=self.now()))
        assert "conf-hidden" in self.listed(backend)

    @pytest.mark.parametrize("name", HOSTILE_NAMES)
    def test_a_hostile_name_is_refused(self, backend: Backend, name: str) -> None:
        spec = replace(self.spec(backend, "conf-plain"), name=PilotName(name))
        refused = self.timed(backend, lambda: backend.submit(spec))
        assert isinstance(refused, Refused)
        assert refused.why.isprintable()
        for act in (backend.withdraw, backend.remove, backend.drain):
            self.timed(backend, lambda act=act: act(Target(PilotName(name))))  # type: ignore[misc]
        with pytest.raises(LookupError):
            backend.logs(PilotName(name), bytes_max=LOG_BYTES)
        assert self.listed(backend) == {}

    def test_logs_of_an_unknown_pilot_are_a_lookup_error(self, backend: Backend) -> None:
        with pytest.raises(LookupError):
            self.timed(backend, lambda: backend.logs(PilotName("conf-never"), bytes_max=LOG_BYTES))

    def test_logs_are_bounded(self, backend: Backend) -> None:
        self.submitted(backend, "conf-logs")
        try:
            text = self.timed(backend, lambda: backend.logs(PilotName("conf-logs"), bytes_max=LOG_BYTES))
        except LookupError:
            return  # It has written nothing yet, and that was said.
        assert len(text) <= LOG_BYTES
