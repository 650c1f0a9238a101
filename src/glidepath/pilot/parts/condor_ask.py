"""Questions to the pool by HTCondor's own tools: would you take us, and do you see us.

A command and its output come in, a verdict goes out. A tool that hangs is killed with its group at its limit.
"""

import os
import re
import signal
import subprocess
import tempfile
import time
from typing import Dict, List, Optional, Tuple

from glidepath.pilot.parts.probes import Ended

ASK_S_MAX = 20.0
OUTPUT_BYTES_MAX = 1 << 16
# What HTCondor's tools say when the other side heard us and said no.
REFUSED = re.compile(r"DENIED|AUTHENTICATE:100[0-9]|SECMAN:20(?:02|03|04|09|10)|[Ff]ailed to authenticate")
SPEECH = re.compile(r"(?:[A-Z_]+:[0-9]+:|ERROR: ?)(.*)")


def answer_of(ended: Ended) -> Tuple[str, str]:
    """`welcome`, `refused` or `silent`, and the words for it."""
    if ended.code == 0:
        return "welcome", ""
    if ended.code is None:
        return "silent", "the collector gave no answer within %d s" % ASK_S_MAX
    lines = [line.strip() for line in ended.output.splitlines() if line.strip()]
    spoken = [found.group(1) for found in map(SPEECH.match, lines) if found]
    words = (spoken or lines or ["exit code %d" % ended.code])[0][:300]
    if "security policy is invalid" in ended.output:
        words = "there is no token that could be shown to this pool"
    return ("refused" if REFUSED.search(ended.output) else "silent"), words


class Ask:
    """One question that runs beside the loop."""

    def __init__(self, command: List[str], env: Dict[str, str], limit_s: float = ASK_S_MAX) -> None:
        self.until = time.monotonic() + limit_s
        self.output = tempfile.TemporaryFile()  # noqa: SIM115 (closed when it is read)
        self.child: "Optional[subprocess.Popen[bytes]]" = None
        try:
            self.child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=self.output,
                stderr=subprocess.DEVNULL,
                env=env,
                start_new_session=True,
            )
        except OSError:
            pass  # No answer is an answer, and the next question may do better.

    def over(self, now: float) -> bool:
        if self.child is None or self.child.poll() is not None:
            return True
        if now < self.until:
            return False
        try:
            os.killpg(self.child.pid, signal.SIGKILL)
        except OSError:
            pass
        self.child.wait()
        return True

    def text(self) -> str:
        """What it said; once, when it is over."""
        self.output.seek(0)
        text = self.output.read(OUTPUT_BYTES_MAX).decode("utf-8", "replace")
        self.output.close()
        return text


def offset_of(text: str) -> Optional[float]:
    """How far our clock is ahead of the collector's; None where it does not list us.

    Each line has our time at sending and the collector's at receiving.
    """
    for line in text.splitlines():
        words = line.split()
        if len(words) == 2 and all(re.fullmatch(r"[0-9]{1,12}", word) for word in words):
            return float(int(words[0]) - int(words[1]))
    return None
