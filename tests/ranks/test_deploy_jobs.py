"""The rights for jobs in pods: just what the door asks for, by both ways, and none unless asked for."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import yaml

from glidepath.cluster.kubernetes.rights import APART, APART_GROUP, IN_CLUSTER, IN_NAMESPACE
from kube.rendered import BASE, NAMESPACE, ROOT, USUAL, chart, kustomized

GOLDEN = Path(__file__).parent / "golden"
COMPONENTS = ROOT / "deploy/kustomize/components"
KINDS = ("ClusterRole/glidepath-nodes", "ClusterRoleBinding/glidepath-nodes")


def granted(role: dict[str, Any], group: str = "") -> set[tuple[str, str, str]]:
    rows = set()
    for rule in role["rules"]:
        assert rule["apiGroups"] in ([""], [APART_GROUP])
        for resource in rule["resources"] if rule["apiGroups"] == [group] else ():
            first, _, part = resource.partition("/")
            rows |= {(first, part, verb) for verb in rule["verbs"]}
    return rows


def overlay(tmp_path: Path, *components: str) -> dict[str, Any]:
    here = tmp_path.resolve()
    listed = [os.path.relpath(COMPONENTS / name, here) for name in components]
    made = {"namespace": NAMESPACE, "resources": [os.path.relpath(BASE, here)], "components": listed}
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(made))
    return kustomized(here)


def test_nothing_beyond_the_namespace_is_granted_unless_it_is_asked_for() -> None:
    for made in (chart(*USUAL), chart(*USUAL, "rights.runJobs=true"), kustomized(BASE)):
        assert not [name for name in made if name.startswith("Cluster")]
    assert ("services", "", "create") not in granted(chart(*USUAL)["Role/glidepath"])


def test_the_role_for_jobs_is_what_the_door_asks_for(tmp_path: Path) -> None:
    by_chart = chart(*USUAL, "rights.runJobs=true")["Role/glidepath"]
    assert granted(by_chart) == set(IN_NAMESPACE)
    assert granted(overlay(tmp_path, "run-jobs")["Role/glidepath"]) == set(IN_NAMESPACE)
    for role in (by_chart, overlay(tmp_path, "run-jobs")["Role/glidepath"]):
        assert granted(role, APART_GROUP) == set(APART)
    assert not granted(chart(*USUAL)["Role/glidepath"], APART_GROUP)
    both = chart(*USUAL, "rights.runJobs=true", "rights.createSecrets=true")["Role/glidepath"]
    assert granted(both) == set(IN_NAMESPACE)


def test_the_cluster_role_is_as_written_down_and_reads_only(tmp_path: Path) -> None:
    golden = yaml.safe_load((GOLDEN / "deploy-see-nodes.yaml").read_text(encoding="utf-8"))
    by_chart, by_overlay = chart(*USUAL, "rights.seeNodes=true"), overlay(tmp_path, "see-nodes")
    for made in (by_chart, by_overlay):
        assert made[KINDS[0]] == golden
        assert granted(golden) == set(IN_CLUSTER)
        assert made[KINDS[1]]["subjects"] == [
            {"kind": "ServiceAccount", "name": "glidepath", "namespace": NAMESPACE}
        ]
    assert by_chart[KINDS[1]] == by_overlay[KINDS[1]]
