"""`glidepath alive`: whether the loop of this home turns, for the probes of a cluster and for scripts."""

from __future__ import annotations

from glidepath.cli.verb import Exit, Noun, Stop, Verb


class Alive(Verb):
    """Say whether the glidepath of this home is alive: exits with 1 when none runs, or its loop hangs

    One that stands by is alive. Neither a pool nor a store is asked, so that no trouble of theirs starts it
    anew.
    """

    def run(self) -> int:
        from glidepath.cli.where import where
        from glidepath.pulse import ask

        place = where(self.caller.environ, home=self.given["home"], config=self.given["config"])
        try:
            beat = ask(place.home)
        except OSError as error:
            raise Stop(str(error), hint="start it with `glidepath up`") from None
        if beat.late:
            most = f"{beat.within_s:.0f} s are the most it should take"
            raise Stop(f"the loop hangs: {beat.doing}, for {beat.ago_s:.0f} s; {most}")
        print(f"alive: {beat.doing}, {beat.ago_s:.0f} s ago", file=self.caller.out)
        return Exit.DONE


NOUN = Noun("alive", {"": Alive})
