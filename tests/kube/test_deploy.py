"""How glidepath is installed: chart and Kustomize make the same objects, with few rights and no surprises.

The chart is rendered by the real helm and Kustomize by the real kubectl. Whether a real server takes them is
in `test_deploy_real.py`.
"""

from __future__ import annotations

import json
import os
import re
import runpy
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from bed.command import run
from bed.machine import Machine
from bed.parts.helm import Helm
from bed.place import Place

from glidepath.cli.drain import DrainSite
from glidepath.cli.parser import parsed
from glidepath.config import load
from glidepath.kube.checkup import NEEDED
from glidepath.kube.intent import SITE
from glidepath.pulse import Pulse
from kube.pod_security import restricted
from kube.rendered import (
    BASE,
    CHART,
    EXAMPLE,
    NAMESPACE,
    POSTGRES,
    ROOT,
    TOOL_S_MAX,
    USUAL,
    Object,
    chart,
    hooks,
    kustomized,
    pods,
    templated,
    toml,
)

GOLDEN = Path(__file__).parent / "golden"


# The same objects.


def test_chart_and_kustomize_make_the_same_objects(tmp_path: Path) -> None:
    overlay = {"namespace": NAMESPACE, "resources": [os.path.relpath(BASE, tmp_path.resolve())]}
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(overlay))
    theirs = kustomized(tmp_path.resolve())
    for each in theirs.values():
        assert each["metadata"].pop("namespace") == NAMESPACE
    made = chart(*USUAL)
    assert {name: each for name, each in made.items() if name not in hooks(made)} == theirs


def test_the_example_overlay_is_whole() -> None:
    made = kustomized(EXAMPLE)
    assert {each["metadata"]["namespace"] for each in made.values()} == {"my-group"}
    assert made["RoleBinding/glidepath"]["subjects"][0]["namespace"] == "my-group"
    [container] = made["Deployment/glidepath"]["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "images.example.org/my-group/glidepath:0.1.0"
    assert toml(made) == (EXAMPLE / "glidepath.toml").read_text(encoding="utf-8")


def test_the_version_is_that_of_glidepath() -> None:
    about = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert f'version = "{about["appVersion"]}"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize(("go", "told"), [((), "no `go`"), ((1, 20), "Go 1.20"), ((1, 26), "")])
def test_a_machine_that_cannot_build_helm_says_why(go: tuple[int, ...], told: str, tmp_path: Path) -> None:
    machine = Machine(0, "debian", "trixie", "x86_64", frozenset(), namespaces=False, mirror="", go=go)
    reasons = Helm().obstacles(machine, Place(tmp_path, tmp_path))
    assert [told in reason for reason in reasons] == ([True] if told else [])


# Rights.


def granted(role: Object) -> set[tuple[str, str, str]]:
    rows = set()
    for rule in role["rules"]:
        assert rule["apiGroups"] == [""]
        for resource in rule["resources"]:
            first, _, part = resource.partition("/")
            rows |= {(first, part, verb) for verb in rule["verbs"]}
    return rows


def test_the_role_is_as_written_down_and_as_doctor_needs_it() -> None:
    golden = yaml.safe_load((GOLDEN / "deploy-role.yaml").read_text(encoding="utf-8"))
    assert kustomized(BASE)["Role/glidepath"] == golden
    assert chart(*USUAL)["Role/glidepath"] == golden
    assert granted(golden) == set(NEEDED)
    assert "*" not in json.dumps(golden["rules"])


def test_secrets_are_created_only_where_that_was_asked_for_and_never_read() -> None:
    role = chart(*USUAL, "rights.createSecrets=true")["Role/glidepath"]
    assert granted(role) == {*NEEDED, ("secrets", "", "create")}


def test_nobody_gets_the_token_of_the_account_who_does_not_need_it() -> None:
    made = chart(*USUAL)
    assert made["ServiceAccount/glidepath"]["automountServiceAccountToken"] is False
    for more, hook in (((), False), (("home.kind=memory",), True)):
        made = pods(chart(*USUAL, *more))
        talks = {name: pod["spec"]["automountServiceAccountToken"] for name, pod in made.items()}
        assert talks == {"Deployment/glidepath": True, "Job/glidepath-drain": hook}


def test_a_policy_lets_nobody_in_and_out_only_to_what_is_needed() -> None:
    def ports(objects: dict[str, Object]) -> list[int]:
        spec = objects["NetworkPolicy/glidepath"]["spec"]
        assert (spec["policyTypes"], spec["ingress"]) == (["Ingress", "Egress"], [])
        return [port["port"] for rule in spec["egress"] for port in rule["ports"]]

    assert ports(chart(*USUAL)) == [53, 53, 443, 6443, 9618]
    assert ports(chart(*POSTGRES)) == [53, 53, 443, 6443, 9618, 5432]
    assert "NetworkPolicy/glidepath" not in chart(*USUAL, "networkPolicy.enabled=false")


@pytest.mark.parametrize(
    "made",
    [
        lambda: chart(*USUAL),
        lambda: chart(*POSTGRES, "pool.readTokenSecret=read", "image.pullSecrets={a,b}"),
        lambda: kustomized(BASE),
        lambda: kustomized(EXAMPLE),
    ],
    ids=["chart", "chart-postgresql", "base", "example"],
)
def test_every_pod_is_restricted(made: Any) -> None:
    found = pods(made())
    assert found
    for name, pod in found.items():
        assert not list(restricted(pod)), name
        assert pod["spec"]["enableServiceLinks"] is False
        for container in pod["spec"]["containers"]:
            assert container["securityContext"]["readOnlyRootFilesystem"] is True
            assert {"requests", "limits"} <= set(container["resources"])


# Values.


@pytest.mark.parametrize(
    ("wrong", "config", "told"),
    [
        ((), "", "set `pool.collector` to the host"),
        ((*USUAL, "replicas=2"), "", "SQLite, which has one owner; set `store.url`"),
        ((*USUAL, "replicas=3"), "", "replicas"),
        ((*USUAL, "offers=null"), "", "`offers` is empty"),
        ((*USUAL, "drain.sites={a}"), "", "`drain.sites` is for sites in `config`"),
        ((*USUAL, "pool.colector=x"), "", "'colector' not allowed"),
        ((*USUAL, "pool.name=Pool"), "", "does not match pattern"),
        ((*USUAL, 'site.image=a"b'), "", "does not match pattern"),
        ((*USUAL, "offers.worker.memory=8"), "", "offers/worker/memory"),
        ((*USUAL, "store.url=postgresql://gp:secret@db/gp"), "", "does not match pattern"),
        (("replicas=2",), "[pools.a]", "SQLite, which has one owner"),
        ((), '[store]\nurl = "postgresql://gp@db/gp"', "give its address as `store.url` too"),
        (("store.url=postgresql://gp@db/gp",), "[pools.a]", "write it there as `url` of `[store]`"),
    ],
)
def test_values_that_cannot_be_are_refused_with_a_sentence(
    wrong: tuple[str, ...], config: str, told: str
) -> None:
    done = templated(*wrong, config=config)
    assert done.code != 0
    assert told in done.err


WHOLE = """
[pools.campus]
collector = "cm.example.org"

[sites.west]
kind = "kubernetes"
kubernetes = { image = "pilot:1" }

[sites.west.offers.worker]
cpus = 1
memory = "1GiB"
disk = "1GiB"
"""


@pytest.mark.parametrize(
    ("set_", "config", "closed"),
    [
        (USUAL, "", False),
        ((*USUAL, "home.kind=memory"), "", False),
        (POSTGRES, "", False),
        ((*USUAL, "pool.readTokenSecret=read", "pool.trustDomain=example.org", "site.name=west"), "", False),
        ((*USUAL, "offers.gpu.cpus=0.5", "offers.gpu.memory=8GiB", "offers.gpu.disk=1TiB"), "", False),
        ((*USUAL, "offers.worker.pilotsMax=7", "offers.worker.gpus=2"), "", False),
        ((*USUAL, "draining=true"), "", True),
        ((*USUAL, "draining=true", "home.kind=memory"), "", True),
        (("drain.sites={west}",), WHOLE, False),
        (("drain.sites={west}", "home.kind=memory"), WHOLE, False),
        (("drain.sites={west}", "draining=true"), WHOLE, True),
    ],
)
def test_the_configuration_is_one_that_glidepath_takes(
    set_: tuple[str, ...], config: str, closed: bool, tmp_path: Path
) -> None:
    """That in force, and that with which the chart is removed where nothing else leads to the store."""
    made = chart(*set_, config=config)
    names = {"glidepath": closed, "glidepath-drain": True}
    assert ("ConfigMap/glidepath-drain" in made) is ("home.kind=memory" in set_)
    for name, shut in names.items():
        if f"ConfigMap/{name}" not in made:
            continue
        file = tmp_path / f"{name}.toml"
        file.write_text(toml(made, name), encoding="utf-8")
        [site] = load(file).settings.sites.values()
        assert len(site.windows) == shut
        assert all(window.start.year == 2000 and window.end.year == 2999 for window in site.windows)


def test_two_need_postgresql_and_then_keep_nothing_of_their_own() -> None:
    made = chart(*POSTGRES)
    spec = made["Deployment/glidepath"]["spec"]
    assert (spec["replicas"], spec["strategy"]["type"]) == (2, "RollingUpdate")
    [container] = spec["template"]["spec"]["containers"]
    password = [each for each in container["env"] if each["name"] == "PGPASSWORD"]
    assert password[0]["valueFrom"] == {"secretKeyRef": {"name": "db", "key": "password"}}
    assert "PersistentVolumeClaim/glidepath" not in made
    assert {"name": "home", "emptyDir": {}} in spec["template"]["spec"]["volumes"]
    assert chart(*USUAL)["Deployment/glidepath"]["spec"]["strategy"] == {"type": "Recreate"}


def test_every_value_is_explained_and_in_the_schema() -> None:
    lines = (CHART / "values.yaml").read_text(encoding="utf-8").splitlines()
    top = ""
    for number, line in enumerate(lines):
        if not (found := re.match(r"( {0,2})([A-Za-z]+):", line)):
            continue
        top = found[2] if not found[1] else top
        if not found[1] or top not in ("offers", "resources"):
            assert lines[number - 1].lstrip().startswith("#"), f"values.yaml:{number + 1}: say what it is"
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    known = yaml.safe_load("\n".join(lines))
    for name, value in known.items():
        inner = schema["properties"][name].get("properties")
        assert inner is None or set(inner) == {*value, *inner}, name


TYPES = {"array", "boolean", "integer", "number", "object", "string"}
KEYWORDS = {
    *("$schema", "title", "description", "type", "enum", "pattern", "properties", "additionalProperties"),
    *("propertyNames", "required", "items", "minItems", "uniqueItems"),
    *("minimum", "maximum", "exclusiveMinimum"),
}


def schemas(node: Object, at: str = "") -> Iterator[tuple[str, Object]]:
    yield at, node
    for name, each in node.get("properties", {}).items():
        yield from schemas(each, f"{at}/{name}")
    for key in ("additionalProperties", "items", "propertyNames"):
        if isinstance(node.get(key), dict):
            yield from schemas(node[key], f"{at}/{key}")


def test_the_schema_is_one_and_lets_nothing_through_unseen() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    assert schema["$schema"] == "http://json-schema.org/draft-07/schema#"
    for at, node in schemas(schema):
        assert set(node) <= KEYWORDS, at
        kinds = node.get("type", [])
        assert {kinds} if isinstance(kinds, str) else set(kinds) <= TYPES, at
        assert kinds or node["enum"], at
        re.compile(node.get("pattern", ""))
        assert set(node.get("required", ())) <= set(node.get("properties", ())), at
        if kinds == "object" and at != "/global":
            assert "additionalProperties" in node, f"{at}: anything could stand here"
            assert node["additionalProperties"] is not True, at
        if kinds == "string" and at not in ("/config",) and "tolerations" not in at:
            assert "pattern" in node or "enum" in node or at.startswith("/nodeSelector"), at


# Probes.


ALIVE = ("startupProbe", "livenessProbe")


def probe(name: str, environ: dict[str, str]) -> int:
    [container] = kustomized(BASE)["Deployment/glidepath"]["spec"]["template"]["spec"]["containers"]
    words = container[name]["exec"]["command"]
    return run(words, environ=environ, limit_s=TOOL_S_MAX).code


def test_probes_tell_a_cycle_that_is_overdue_from_one_that_is_young(tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environ = {"PATH": path, "HOME": str(tmp_path), "GLIDEPATH_HOME": str(tmp_path / "home")}
    assert probe("readinessProbe", environ) != 0
    run(["glidepath", "up", "--plain", "--until-idle"], limit_s=TOOL_S_MAX, environ=environ).must("no cycle")
    assert probe("readinessProbe", environ) == 0
    with sqlite3.connect(tmp_path / "home/glidepath.db") as store:
        store.execute("UPDATE cycles SET wall_s = wall_s - 3600")
    store.close()
    assert probe("readinessProbe", environ) == 3


def test_probes_tell_a_loop_that_turns_from_one_that_hangs_whatever_its_store_says() -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with tempfile.TemporaryDirectory(prefix="gp-") as home:
        environ = {"PATH": path, "HOME": home, "GLIDEPATH_HOME": home}
        at_s = [0.0]
        pulse = Pulse(Path(home), steady=lambda: at_s[0])
        assert [probe(name, environ) for name in ALIVE] == [1, 1]
        pulse.start()
        pulse.beat("cycle 1", 60)
        assert [probe(name, environ) for name in ALIVE] == [0, 0]
        at_s[0] = 61.0
        assert [probe(name, environ) for name in ALIVE] == [1, 1]
        pulse.stop()


# Removing it.


HOME = {"name": "home", "persistentVolumeClaim": {"claimName": "glidepath"}}


@pytest.mark.parametrize(
    ("set_", "home", "together"), [(USUAL, HOME, True), (POSTGRES, {"name": "home", "emptyDir": {}}, False)]
)
def test_the_hook_drains_every_site_through_the_store_of_glidepath(
    set_: tuple[str, ...], home: Object, together: bool
) -> None:
    made = chart(*set_, "drain.secondsMax=90")
    assert list(hooks(made)) == ["Job/glidepath-drain"]
    glidepath, hook = (pods(made)[name] for name in ("Deployment/glidepath", "Job/glidepath-drain"))
    [container], [other] = hook["spec"]["containers"], glidepath["spec"]["containers"]
    words = container["args"]
    given = {"names": [], "all": True, "wait": True, "timeout": 90, "why": "the chart is being removed"}
    parsed_ = parsed("glidepath site drain", DrainSite, words[2:])
    assert words[:2] == ["site", "drain"]
    assert {name: parsed_[name] for name in given} == given
    # It finds the same configuration and the same store, and on SQLite it must run beside its owner.
    assert (container["env"], container["image"]) == (other["env"], other["image"])
    assert home in hook["spec"]["volumes"]
    for name in ("home", "config"):
        here, there = (
            [
                (m["mountPath"], v)
                for m in c["volumeMounts"]
                for v in pod["spec"]["volumes"]
                if m["name"] == name == v["name"]
            ]
            for c, pod in ((container, hook), (other, glidepath))
        )
        assert here == there
    labels = {**glidepath["metadata"]["labels"]}
    affinity = hook["spec"].get("affinity", {}).get("podAffinity", {})
    terms = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", [])
    wanted = {"labelSelector": {"matchLabels": labels}, "topologyKey": "kubernetes.io/hostname"}
    assert terms == ([wanted] if together else [])


def test_the_hook_closes_the_sites_by_a_file_where_no_way_leads_to_the_store() -> None:
    made = chart(*USUAL, "home.kind=memory")
    told = {name: each["metadata"]["annotations"] for name, each in hooks(made).items()}
    assert list(told) == ["ConfigMap/glidepath-drain", "Job/glidepath-drain"]
    assert {each["helm.sh/hook"] for each in told.values()} == {"pre-delete"}
    weights = [int(each["helm.sh/hook-weight"]) for each in told.values()]
    assert weights == sorted(weights)
    volumes = pods(made)["Deployment/glidepath"]["spec"]["volumes"]
    [config] = [each["projected"]["sources"] for each in volumes if each["name"] == "config"]
    assert config == [
        {"configMap": {"name": "glidepath"}},
        {"configMap": {"name": "glidepath-drain", "optional": True}},
    ]
    assert not hooks(chart(*USUAL, "drain.onUninstall=false"))


def test_the_hook_waits_for_the_pods_of_the_sites_and_no_others() -> None:
    made = chart("drain.sites={west,east}", "drain.quietSeconds=7", "home.kind=memory", config=WHOLE)
    [container] = pods(made)["Job/glidepath-drain"]["spec"]["containers"]
    assert container["args"] == [(CHART / "files/wait.py").read_text(), "west,east", "7", "57600"]
    assert "$(" not in container["args"][0], "Kubernetes would put a variable there"
    assert f'"{SITE}' not in container["args"][0]
    closed = pods(chart(*USUAL, "draining=true", "home.kind=memory"))
    [draining] = closed["Job/glidepath-drain"]["spec"]["containers"]
    assert draining["args"][1:] == ["glidepath", "0", "57600"]


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        ([0] * 9, True),
        ([3, 2, 0, 0, 0, 0], True),
        ([3, 0, 1, 0, 0, 0, 0], True),
        ([0, None, 0, None, 0, None, 0, None, 0, None, 0], False),
        ([1] * 50, False),
    ],
)
def test_pods_are_gone_when_none_was_seen_for_a_while(seen: list[int | None], expected: bool) -> None:
    """Unseen is not gone, and one look without any is not enough."""
    gone = runpy.run_path(str(CHART / "files/wait.py"))["gone"]
    clock = [0.0]
    looks = iter(seen)

    def sleep(seconds: float) -> None:
        clock[0] += seconds

    found = gone(lambda: next(looks), quiet_s=12, limit_s=45, steady=lambda: clock[0], sleep=sleep)
    assert found is expected


def test_a_cluster_that_gives_no_list_is_not_an_empty_one() -> None:
    left = runpy.run_path(str(CHART / "files/wait.py"))["left"]

    class Odd:
        def __init__(self, *answers: bytes) -> None:
            self.answers = list(answers)

        def get(self, *_: object) -> bytes:
            if not self.answers:
                raise OSError("nothing answers")
            return self.answers.pop(0)

    api = Odd(b'{"items": [{}, {}]}', b"<html>", b"{}", b"[]")
    assert [left(api, "/pods", "a=b") for _ in range(5)] == [2, None, None, None, None]
