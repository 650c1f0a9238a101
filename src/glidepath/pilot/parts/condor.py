"""The pilot of an HTCondor pool: brings a startd of its size into the pool, watches it, and leaves by itself.

Settings come in from a file and tokens from a folder; jobs are the startd's business. One loop looks at the
daemons, at the ends of jobs and at the clock; everything else is in the modules beside it.
"""

import argparse
import os
import select
import signal
import subprocess
import time
from typing import Any, List, Optional

from glidepath.pilot.parts import condor_ready as ready
from glidepath.pilot.parts.common import Bell, leave_summary, say, told_in
from glidepath.pilot.parts.condor_ask import Ask, answer_of, offset_of
from glidepath.pilot.parts.condor_config import state_text
from glidepath.pilot.parts.guard import adopt_orphans, kill_below
from glidepath.pilot.parts.history import ROW_LENGTH, End, History, eats_jobs
from glidepath.pilot.parts.probes import Found, ad_lines, found_in

LOOK_S = 0.5  # Between two looks at jobs: a pilot that eats jobs must not eat many more.
SHOWS_S = 3.0  # From a job being given to us until it is seen at work, on a busy machine.
KNOCK_S = 2.0
REFUSALS_MAX = 3  # A collector that has just begun may not know its rules yet.
ASK_AGAIN_S = 300.0
TOKENS_S = 10.0
PROBE_EVERY_S = 60.0
STOP_GRACE_S = 3.0  # All of it together must stay below what the backend waits before it kills.
KILL_GRACE_S = 9.0  # Jobs that are not given back within it are missed for as long as their leases last.
END_GRACE_S = 20.0
LEAVE_S_MAX = 5.0
RECONFIG_S = 0.5  # Between a new word for HTCondor and the order to end: they are not kept in order.
LOG_BYTES = 1 << 16


class CondorPilot:
    """The life of one pilot: get ready, knock, start HTCondor, watch, leave."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.bell = Bell()
        self.born = self.counted_at = self.busy_at = time.monotonic()
        self.busy_s = self.idle_s = 0.0
        self.place: Optional[ready.Ready] = None
        self.guard: "Optional[subprocess.Popen[bytes]]" = None
        self.history: Optional[History] = None
        self.ends: List[End] = []
        self.jobs_run = self.jobs_failed = 0
        self.at_work = 0
        self.joined = False
        self.clock_offset_s: Optional[float] = None
        self.why = ""  # why it will leave, once that is clear
        self.latched = ""
        self.good = True
        self.end_by: Optional[float] = None  # when what still runs is told to stop
        self.told: List[Any] = []  # what is still to be sent to HTCondor, as (when, signal)
        self.ask: Optional[Ask] = None
        self.probe: Optional[Ask] = None
        self.probed = Found("", "", 0.0)
        self.ask_at = self.tokens_at = self.probe_at = 0.0
        self.started = 0.0
        self.asked_to_go = False

    def listen(self) -> None:
        self.bell.listen()

    # From the beginning to the end.

    def live(self) -> str:
        try:
            adopt_orphans()
            self.place = ready.prepare(self.args)
            why = self.knock()
            if not why:
                self.start()
                why = self.watch()
        except (OSError, ValueError) as error:
            self.good = False
            why = "could not start: %s" % " ".join(str(error).split())
        return why

    def stopped(self) -> bool:
        """Whether somebody told us to go while we were still getting ready."""
        self.asked_to_go = self.asked_to_go or bool(self.bell.noted()) or told_in(self.args.drain_file)
        return self.asked_to_go

    def knock(self) -> str:
        """Whether the collector would take our ads: a pilot that cannot join must not sit on a worker."""
        place = self.ready()
        refusals, last = 0, "no answer"
        until = time.monotonic() + self.args.silence_s
        turn = 0
        while True:
            if self.stopped():
                return "stopped"
            verdict, last = answer_of(place.knock(turn))
            if verdict == "welcome":
                return ""
            refusals = refusals + 1 if verdict == "refused" else 0
            if refusals >= REFUSALS_MAX * len(place.values.settings.collectors):
                self.good = False
                return "refused: %s" % last
            if time.monotonic() > until:
                self.good = False
                return "silence: %s" % last
            turn += 1
            self.wait(KNOCK_S)

    def ready(self) -> "ready.Ready":
        assert self.place is not None
        return self.place

    def start(self) -> None:
        place = self.ready()
        self.probed = found_in(place.probe().output, time.time())
        self.tell()
        self.history = History(os.path.join(place.values.local, "log", "startd_history"))
        self.guard = subprocess.Popen(
            place.guard_command(),
            stdin=subprocess.PIPE,
            env=place.guard_environ(),
            cwd="/",
            start_new_session=True,
        )
        self.started = self.busy_at = self.counted_at = time.monotonic()
        self.probe_at = self.started + PROBE_EVERY_S
        say("HTCondor is started from %s" % place.values.tree.root)

    def watch(self) -> str:
        # Ends with HTCondor, which is told to end at the latest when lifetime and grace are over.
        while True:
            now = time.monotonic()
            self.heed_signals(now)
            self.count(now)
            self.look_at_jobs(now)
            self.look_at_pool(now)
            self.look_at_worker(now)
            self.look_at_life(now)
            self.send_due(now)
            if self.guard is None or self.guard.poll() is not None:
                return self.how_it_ended()
            self.wait(LOOK_S)

    def wait(self, limit_s: float) -> None:
        if not self.bell.signals:
            ready_now, _, _ = select.select([self.bell.wake_read], [], [], limit_s)
            if ready_now:
                self.bell.heard()

    # What it looks at.

    def count(self, now: float) -> None:
        self.at_work = self.ready().jobs_at_work()
        if self.at_work:
            self.busy_s += now - self.counted_at
            self.busy_at = now
        else:
            self.idle_s += now - self.counted_at
        self.counted_at = now

    def look_at_jobs(self, now: float) -> None:
        fresh = self.history.fresh() if self.history is not None else []
        if not fresh:
            return
        self.jobs_run += sum(not end.given_back for end in fresh)
        self.jobs_failed += sum(end.failed for end in fresh)
        self.ends = (self.ends + fresh)[-4 * ROW_LENGTH :]
        self.busy_at = now
        if not self.latched and eats_jobs(self.ends):
            self.latched = eats_jobs(self.ends)
            self.good = False
            self.drain(now, "black hole: %s" % self.latched)
        self.tell()

    def look_at_pool(self, now: float) -> None:
        place = self.ready()
        if now >= self.tokens_at:
            self.tokens_at = now + TOKENS_S
            if place.renew_tokens():
                say("the token was renewed")
        if self.ask is None and now >= self.ask_at:
            self.ask = Ask(place.ask_command(), place.environ)
        if self.ask is not None and self.ask.over(now):
            found, self.ask = offset_of(self.ask.text()), None
            self.ask_at = now + (ASK_AGAIN_S if self.joined else KNOCK_S)
            if found is None:
                return
            if not self.joined:
                self.joined = True
                say("joined the pool %s" % place.values.settings.pool)
            self.clock_offset_s = found
            self.tell()

    def look_at_worker(self, now: float) -> None:
        place = self.ready()
        if self.probe is None and now >= self.probe_at:
            self.probe = Ask(place.probe_command(), place.environ, ready.PROBES_S_MAX)
            self.probe_at = now + PROBE_EVERY_S
        if self.probe is not None and self.probe.over(now):
            before, self.probed = self.probed, found_in(self.probe.text(), time.time())
            self.probe = None
            self.tell()
            if before.trouble != self.probed.trouble:
                say(self.probed.trouble or "what was wrong has gone")
                self.signal(signal.SIGHUP)  # The startd asks again at once.

    def look_at_life(self, now: float) -> None:
        place = self.ready()
        if not self.joined and not self.why and now > self.started + self.args.silence_s:
            self.good = False
            self.why = "silence: the collector did not list us within %d s" % self.args.silence_s
            self.end_now(now, STOP_GRACE_S)
        if not self.why and now >= place.stop_at:
            self.drain(now, "lifetime")
        if not self.why and not self.at_work and now - self.busy_at >= self.args.idle_s:
            self.drain(now, "idle")
        if self.why == "idle" and self.at_work and self.end_by is not None:
            self.take_again()
        if self.end_by is not None and not self.told and (now >= self.end_by or not self.at_work):
            self.end_now(now, END_GRACE_S)

    def how_it_ended(self) -> str:
        if self.why:
            return self.why
        code = self.guard.returncode if self.guard is not None else None
        if self.joined and code == 0 and time.monotonic() - self.busy_at >= self.args.idle_s - 2 * LOOK_S:
            return "idle"
        self.good = False
        return "HTCondor ended by itself with exit code %s: %s" % (code, self.ready().last_error())

    # What it does.

    def heed_signals(self, now: float) -> None:
        for number in self.bell.noted():
            # A controller may forget that it asked and repeat SIGUSR1; SIGTERM twice is a person in a hurry.
            if number == signal.SIGINT or (number == signal.SIGTERM and self.asked_to_go):
                self.why = "stopped"
                self.end_now(now, STOP_GRACE_S)
            else:
                self.asked_to_go = self.asked_to_go or number == signal.SIGTERM
                self.drain(now, "drained")
        if not self.why and told_in(self.args.drain_file):
            self.drain(now, "drained")

    def drain(self, now: float, why: str) -> None:
        """Take no more jobs; what runs has the grace to finish."""
        if self.why:
            return
        place = self.ready()
        self.why = why
        say("leaving: %s" % why)
        self.end_by = now + place.values.settings.grace_s
        place.write_state(state_text(draining=True, retirement_s=place.retirement_s))
        self.signal(signal.SIGHUP)
        # A job that was given to us a moment ago shows only now.
        self.told = [(now + SHOWS_S, None)]

    def take_again(self) -> None:
        """A job came in the very moment in which we wanted to go: it is not cut short for that."""
        place = self.ready()
        self.why, self.end_by, self.told = "", None, []
        say("a job has come; staying")
        place.write_state(state_text(draining=False, retirement_s=place.retirement_s))
        self.signal(signal.SIGHUP)

    def end_now(self, now: float, grace_s: float) -> None:
        """Jobs are told to stop, and after the grace they are stopped."""
        self.ready().write_state(state_text(draining=True, retirement_s=0))
        self.end_by = None
        self.signal(signal.SIGHUP)
        first = now + RECONFIG_S
        self.told = [
            (first, signal.SIGTERM),
            (first + grace_s, signal.SIGQUIT),
            (first + grace_s + KILL_GRACE_S, signal.SIGKILL),
        ]

    def send_due(self, now: float) -> None:
        while self.told and now >= self.told[0][0]:
            number = self.told.pop(0)[1]
            if number is not None:
                self.signal(number)

    def signal(self, number: int) -> None:
        if self.guard is None or self.guard.poll() is not None:
            return
        if number == signal.SIGKILL and self.guard.stdin is not None:
            # For the guard this is the end of the pilot: it kills all and cleans up.
            self.guard.stdin.close()
            self.guard.stdin = None
        else:
            self.guard.send_signal(number)

    def tell(self) -> None:
        """Leave for the startd what it will tell the pool of us."""
        lines = ad_lines(
            self.probed,
            latched=self.latched,
            offset_s=self.clock_offset_s,
            run=self.jobs_run,
            failed=self.jobs_failed,
        )
        ready.write(os.path.join(self.ready().values.local, "probe.ad"), "\n".join(lines) + "\n", 0o644)

    def leave(self, why: str) -> bool:
        """Whether all was well."""
        if self.guard is not None:
            self.signal(signal.SIGKILL)
            try:
                self.guard.wait(LEAVE_S_MAX)
            except subprocess.TimeoutExpired:
                self.guard.kill()
        kill_below(os.getpid())
        self.look_back()
        if self.place is not None:
            self.place.clean(self.args.folder)
        ready.forget(self.args.folder)
        good = self.good and (self.joined or why in ("stopped", "drained"))
        leave_summary(
            self.args.folder,
            {
                "name": self.args.name,
                "why": why,
                "ok": good,
                "jobs_run": self.jobs_run,
                "jobs_failed": self.jobs_failed,
                "busy_s": int(self.busy_s),
                "idle_s": int(self.idle_s),
            },
            self.args.last_words,
        )
        return good

    def look_back(self) -> None:
        """The jobs that ended between the last look and the end."""
        if self.history is None:
            return
        for end in self.history.fresh():
            self.jobs_run += not end.given_back
            self.jobs_failed += end.failed
        self.history.close()
