"""Jobs and answers for tests of dialects: what does not matter to a test is filled in here."""

from __future__ import annotations

from typing import Any

from glidepath.batch.dialect import BatchJob
from glidepath.remote.runner import Ran
from glidepath.remote.words import safe_line, safe_path, safe_word, safe_words

FOLDER = "/scratch/glidepath/gp-1-1"


def a_job(**more: Any) -> BatchJob:
    """Texts come in as they are and are checked, as where settings are read."""
    told: dict[str, Any] = {"key": "gp-1-1.mark", "script": f"{FOLDER}/job.sh", "output": f"{FOLDER}/job.out"}
    told |= {"walltime_s": 5400, "cpus": 8, "memory_mib": 16000, **more}
    for name in ("script", "output"):
        told[name] = safe_path(told[name], name)
    for name in ("key", "gpu_type", "gpu_form", "memory_form", "parallel", "nodes_form"):
        told[name] = safe_word(told[name], name) if told.get(name) else None
    for name in ("account", "qos"):
        told[name] = safe_word(told[name], name) if told.get(name) else None
    told["queue"] = safe_words(told["queue"], "queue") if told.get("queue") else None
    told["avoid"] = tuple(safe_word(each, "avoid") for each in told.get("avoid", ()))
    told["options"] = tuple(safe_line(each, "options") for each in told.get("options", ()))
    told["files"] = tuple(safe_path(each, "files") for each in told.get("files", ()))
    return BatchJob(**told)


def said(out: str, err: str = "", code: int | None = 0) -> Ran:
    return Ran(code, out, err)
