"""The objects that chart and Kustomize make, by their names: values and folders come in, plain tables go out.

The chart is rendered by the real helm and Kustomize by the real kubectl.
"""

from __future__ import annotations

import copy
import json
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from bed.command import Ended, run
from bed.parts import kube_build
from bed.parts.helm import Helm
from bed.parts.kubernetes import Kubernetes
from tests.bed_pool import needs, place

Object = dict[str, Any]

ROOT = Path(__file__).parent.parent.parent
CHART = ROOT / "deploy/chart/glidepath"
BASE = ROOT / "deploy/kustomize/base"
EXAMPLE = ROOT / "deploy/kustomize/overlays/example"
NAMESPACE = "group"
# What stands in the base of Kustomize too: the chart has no default for it.
USUAL = ("pool.collector=cm.example.org",)
POSTGRES = (*USUAL, "store.url=postgresql://gp@db.example.org/gp", "store.passwordSecret=db", "replicas=2")
TOOL_S_MAX = 60


@cache
def helm_program() -> Path:
    part = Helm()
    needs(part)
    return part.program(place())


@cache
def kubectl_words() -> tuple[str, ...]:
    if found := shutil.which("kubectl"):
        return (found,)
    part = Kubernetes()
    needs(part)
    return (str(kube_build.piece(place(), "servers", part.table) / "kube"), "kubectl")


def helm(*words: str, kubeconfig: Path | None = None, limit_s: float = TOOL_S_MAX) -> Ended:
    access = {"KUBECONFIG": str(kubeconfig)} if kubeconfig else {}
    # It keeps what it learns of a cluster in its home.
    with tempfile.TemporaryDirectory() as home:
        environ = {"HOME": home, "PATH": os.environ["PATH"], **access}
        return run([str(helm_program()), *words], limit_s=limit_s, environ=environ)


def values(*set_: str, config: str = "") -> list[str]:
    words = [word for each in set_ for word in ("--set", each)]
    return words + (["--set-json", f"config={json.dumps(config)}"] if config else [])


def templated(*set_: str, config: str = "", release: str = "glidepath") -> Ended:
    words = ["template", release, str(CHART), "--namespace", NAMESPACE, "--kube-version", "1.34"]
    return helm(*words, *values(*set_, config=config))


@cache
def _chart(set_: tuple[str, ...], config: str) -> dict[str, Object]:
    return by_name(templated(*set_, config=config).must("the chart was not rendered").out)


def chart(*set_: str, config: str = "") -> dict[str, Object]:
    """Rendered once for each set of values; the caller may change what it gets."""
    return copy.deepcopy(_chart(set_, config))


def kustomized(folder: Path) -> dict[str, Object]:
    done = run([*kubectl_words(), "kustomize", str(folder)], limit_s=TOOL_S_MAX)
    return by_name(done.must("Kustomize made nothing").out)


def by_name(text: str) -> dict[str, Object]:
    found = [each for each in yaml.safe_load_all(text) if each]
    names = [f"{each['kind']}/{each['metadata']['name']}" for each in found]
    assert len(set(names)) == len(names)
    return dict(zip(names, found, strict=True))


def hooks(objects: dict[str, Object]) -> dict[str, Object]:
    return {k: v for k, v in objects.items() if "helm.sh/hook" in v["metadata"].get("annotations", {})}


def pods(objects: dict[str, Object]) -> dict[str, Object]:
    """The pods that these objects would make."""
    return {
        name: {"metadata": {}, **each["spec"]["template"]}
        for name, each in objects.items()
        if "template" in each.get("spec", {})
    }


def toml(objects: dict[str, Object], name: str = "glidepath") -> str:
    return str(objects[f"ConfigMap/{name}"]["data"]["glidepath.toml"])
