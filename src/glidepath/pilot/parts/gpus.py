"""The GPUs of this pilot: as many as it was given, with their properties, in the words of HTCondor.

The output of HTCondor's own discovery comes in where there is one; an inventory for the startd goes out.
Where nothing can be discovered, what the pilot was told is believed.
"""

import os
import re
from typing import Dict, List, NamedTuple, Optional, Tuple

from glidepath.pilot.parts.allocation import visible_gpus
from glidepath.pilot.parts.condor_config import Tree
from glidepath.pilot.parts.probes import run
from glidepath.pilot.parts.terms import plain, quoted

DISCOVERY = "condor_gpu_discovery"
DISCOVERY_S_MAX = 60.0
DETECTED = re.compile(r'^DetectedGPUs\s*=\s*(?:"([^"\n]*)"|0)\s*$', re.MULTILINE)
GPUS_MAX = 1000


class Found(NamedTuple):
    amount: int
    text: str = ""  # the inventory, as the startd reads it
    numbered: bool = False  # a job must be told the number in the name, not the name


def chosen(output: str, count: Optional[int]) -> Found:
    """The first ones of what was discovered, and their properties."""
    told = DETECTED.search(output)
    names = [name.strip() for name in (told.group(1) or "").split(",") if name.strip()] if told else []
    kept = names if count is None else names[:count]
    gone = {name.replace("-", "_") for name in names} - {name.replace("-", "_") for name in kept}
    lines = ['DetectedGPUs="%s"' % ", ".join(kept)]
    for line in output.splitlines():
        name = line.partition("=")[0].strip()
        if name and name != "DetectedGPUs" and name.replace("-", "_") not in gone:
            lines.append(line)
    return Found(len(kept), "\n".join(lines) + "\n") if kept else Found(0)


def believed(count: int, visible: Optional[Tuple[str, ...]], kind: str) -> Found:
    numbers = tuple(str(number) for number in range(count))
    seen = (visible if visible is not None and len(visible) >= count else numbers)[:count]
    numbered = all(one.isdigit() for one in seen)
    names = ["GPU-%s" % one if numbered else one for one in seen]
    if re.search(r'["\\]', kind):
        raise ValueError("the kind of GPU has a letter that does not belong there: %s" % ascii(kind)[:100])
    lines = ['DetectedGPUs="%s"' % ", ".join(names)]
    lines.append(
        "Common=[ %s]" % ("DeviceName=%s; " % quoted(plain(kind, "the kind of GPU")) if kind else "")
    )
    lines += ['%s=[ id="%s"; ]' % (name.replace("-", "_"), name) for name in names]
    return Found(count, "\n".join(lines) + "\n", numbered)


def found(count: Optional[int], tree: Tree, environ: Dict[str, str], kind: str) -> Found:
    """As many as were given; where nobody said how many, as many as are found."""
    if count == 0:
        return Found(0)
    visible = visible_gpus(environ)
    program = os.path.join(tree.libexec, DISCOVERY)
    discovered = Found(0)
    if os.path.exists(program):
        ended = run(discovery_command(program), limit_s=DISCOVERY_S_MAX, env=environ)
        discovered = chosen(ended.output, count) if ended.code == 0 else Found(0)
    if count is None or discovered.amount >= count:
        return discovered
    if discovered.amount:
        raise ValueError("%d GPUs were given, only %d are found" % (count, discovered.amount))
    return believed(min(count, GPUS_MAX), visible, kind)


def discovery_command(program: str) -> List[str]:
    return [program, "-extra", "-nested"]
