"""Settings of a Kubernetes site: strict, told in sentences, and an offer's before its site's."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from pydantic import ValidationError

from glidepath.config.checks import own_values
from glidepath.config.tables import Table
from glidepath.config.wording import findings_of
from glidepath.kube import settings as module
from glidepath.kube.pod import pod_of
from glidepath.kube.settings import KubernetesSettings, PodSettings
from kube.pod_builders import Kind, env, mounts, pod, settings, spec


def refusals(**said: Any) -> list[str]:
    """What `config check` would say of the table, as `key: message`."""
    try:
        own_values(Kind, said)
    except ValidationError as error:
        return [f"{'.'.join(map(str, each.loc))}: {each.message}" for each in findings_of(error, None, ())]
    return []


BAD: list[tuple[dict[str, Any], str]] = [
    ({"imag": "x"}, "imag: unknown key"),
    ({"offers": {"a": {"kubeconfig": "x"}}}, "offers.a.kubeconfig: unknown key"),
    ({"offers": {"a": {"shm": 5}}}, "offers.a.shm: `5` has no unit"),
    ({"shm": "5parsecs"}, "shm: "),
    ({"shm": 64}, "shm: `64` has no unit"),
    ({"labels": {"glidepath/site": "x"}}, "labels.glidepath/site: begins with `glidepath/`"),
    ({"annotations": {"glidepath/intent": "{}"}}, "annotations.glidepath/intent: begins with `glidepath/`"),
    ({"labels": {"a b": "x"}}, "labels.a b: is no key of a label"),
    ({"labels": {"Upper.org/x": "x"}}, "is no key of a label"),
    ({"labels": {"a..b/x": "x"}}, "is no key of a label"),
    ({"labels": {"a": "x" * 64}}, "labels.a: is no value of a label"),
    ({"labels": {"a": "-"}}, "labels.a: is no value of a label"),
    ({"labels": {"a": "x\n"}}, "labels.a: is no value of a label"),
    ({"annotations": {"a": "x\ny"}}, "annotations.a: must be one line"),
    (
        {"annotations": {"container.apparmor.security.beta.kubernetes.io/htcondor": "unconfined"}},
        'write `level = "apptainer"`',
    ),
    ({"env": {"1X": "x"}}, "env.1X: is no name of a variable"),
    ({"env": {"X-Y": "x"}}, "is no name of a variable"),
    ({"env": {"X": 5}}, "env.X: must be text"),
    ({"env": {"X": "a\x00"}}, "env.X: must be one line"),
    ({"env": {"X": "x" * 5000}}, "env.X: must be one line"),
    ({"env": {"HOME": "/x"}}, "`HOME` is set by the preset `glidepath`"),
    ({"preset": "osg", "env": {"NUM_CPUS": "9"}}, "`NUM_CPUS` is set by the preset `osg`"),
    ({"preset": "osg", "env": {"CONDOR_HOST": "cm"}}, "write `POOL`"),
    ({"preset": "osg", "env": {"TOKEN": "x"}}, "name its Secret in `token_secret`"),
    ({"preset": "osg", "level": "image"}, "does not run as root"),
    (
        {"env": {"CONDOR_HOST": "cm"}, "offers": {"a": {"preset": "osg"}}},
        "the offer `a`: `env`: `CONDOR_HOST`",
    ),
    ({"user": 0}, "user: "),
    ({"user": True}, "user: "),
    ({"level": "privileged"}, "level: "),
    ({"preset": "mine"}, "preset: "),
    ({"pull_policy": "Sometimes"}, "pull_policy: "),
    ({"runtime_class": "Kata!"}, "runtime_class: is no name of an object"),
    ({"priority_class": "a b"}, "priority_class: is no name of an object"),
    ({"token_secret": "../x"}, "token_secret: is no name of an object"),
    ({"token_secret": "t", "token_key": "a/b"}, "token_key: is no key of a Secret"),
    ({"token_key": "k"}, "`token_key`: names a key of `token_secret`"),
    ({"namespace": "a/b"}, "namespace: is no name of an object"),
    ({"resources": {"cpu": "1"}}, "resources.cpu: is asked for by the size of the offer"),
    ({"resources": {"fuse": "1"}}, "resources.fuse: is no resource that nodes can have"),
    ({"resources": {"example.org/fuse": "0.5"}}, "`example.org/fuse` is counted"),
    ({"resources": {"example.org/fuse": 1}}, "must be text"),
    ({"resources": {"hugepages-2Mi": "many"}}, "is no amount"),
    ({"gpus": {"resource": "memory"}}, "gpus.resource: is asked for by the size"),
    ({"nodes": [{"key": "a"}]}, "needs one of `any_of`, `none_of` and `exists`"),
    ({"nodes": [{"key": "a", "any_of": ["x"], "exists": True}]}, "needs one of"),
    ({"nodes": [{"any_of": ["x"]}]}, "nodes.0.key: this key is needed"),
    ({"tolerations": [{"key": "a", "within": "5m"}]}, "`within` is only for"),
    ({"tolerations": [{"key": "a", "within": 300}]}, "has no unit"),
    ({"tolerations": [{"key": "a", "effect": "Never"}]}, "tolerations.0.effect: "),
    ({"claims": [{"claim": "C", "path": "/x"}]}, "claims.0.claim: is no name of an object"),
    ({"claims": [{"claim": "c", "path": "x"}]}, "claims.0.path: must be a path"),
    ({"claims": [{"claim": "c", "path": "/a/../b"}]}, "claims.0.path: must be a path"),
    ({"claims": [{"claim": "c", "path": "/a:b"}]}, "claims.0.path: must be a path"),
    ({"claims": [{"claim": "c", "path": "//"}]}, "claims.0.path: would hide all of the image"),
    ({"claims": [{"claim": "c", "path": "/etc/glidepath/told"}]}, "`/etc/glidepath/told` is used twice"),
    ({"configs": [{"name": "a", "path": "/x"}, {"name": "b", "path": "/x/"}]}, "`/x` is used twice"),
    ({"secrets": [{"name": "a", "path": "/x", "key": "../y"}]}, "secrets.0.key: is no key of a Secret"),
    ({"shm": "1GiB", "claims": [{"claim": "c", "path": "/dev/shm"}]}, "`/dev/shm` is used twice"),
    (
        {
            "claims": [{"claim": "c", "path": "/x"}],
            "offers": {"a": {"secrets": [{"name": "s", "path": "/x"}]}},
        },
        "the offer `a`: `/x` is used twice",
    ),
    ({"offers": {"Bad Name": {}}}, "is not a usable name"),
    ({"changes_per_second": -1}, "changes_per_second: "),
    ({"pods_max": 0}, "pods_max: "),
    ({"tls_unverified": "yes"}, "tls_unverified: must be `true` or `false`"),
]


@pytest.mark.parametrize(("said", "sentence"), BAD)
def test_what_cannot_be_is_refused_in_a_sentence(said: dict[str, Any], sentence: str) -> None:
    found = refusals(**said)
    assert any(sentence in each for each in found), found


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"labels": {"k8s-app": "x", "example.org/zone": "", "PodCPUs": "1"}},
        {"env": {"_x": "", "ADDITIONAL_REQUIREMENTS": 'Owner=?="a"&&' * 100}},
        {"resources": {"hugepages-2Mi": "64Mi", "example.org/fuse": "1"}},
        {"preset": "osg", "level": "image", "user": 1000},
        {"preset": "prp", "env": {"POOL": "condor.igwn.org"}},
        {"namespace": "ns-1", "runtime_class": "gvisor", "priority_class": "system.low"},
    ],
)
def test_what_people_write_is_taken(said: dict[str, Any]) -> None:
    assert refusals(**said) == []


def test_what_an_offer_says_goes_before_its_site() -> None:
    site = settings(
        level="apptainer",
        nodes=[{"key": "zone", "any_of": ["a"]}],
        env={"A": "site", "B": "site"},
        labels={"team": "site"},
        shm="1GiB",
        offers={
            "gpu": {
                "image": "gpu:1",
                "level": "restricted",
                "nodes": [{"key": "gpu", "exists": True}],
                "env": {"B": "offer", "C": "offer"},
                "gpus": {"resource": "amd.com/gpu"},
                "shm": "0MiB",
            }
        },
    )
    usual, gpu = site.pod("worker"), site.pod("gpu")
    assert (usual.image, usual.level, usual.shm) == ("pilot:1", "apptainer", 1024)
    assert (gpu.image, gpu.level, gpu.shm) == ("gpu:1", "restricted", 0), "also where it is the default again"
    assert [each.key for each in gpu.nodes] == ["gpu"], "a list takes the place of the site's"
    assert gpu.env == {"A": "site", "B": "offer", "C": "offer"}, "a table goes key by key"
    assert (gpu.labels, gpu.gpus.resource) == ({"team": "site"}, "amd.com/gpu")
    assert type(gpu) is PodSettings


def test_a_shared_cluster_is_spared_where_nothing_else_is_said() -> None:
    usual = settings()
    assert (usual.changes_per_second, usual.pods_max) == (20, 3000)
    said = settings(changes_per_second=0, pods_max=7)
    assert (said.changes_per_second, said.pods_max) == (0, 7)


def test_settings_come_back_from_their_values_as_they_were() -> None:
    text = """
    image = "pilot:1"
    shm = "2GiB"
    user = 7
    tolerations = [{ key = "a", effect = "NoExecute", within = "1h" }]
    gpu_types = { a10 = { nodes = [{ key = "p", any_of = ["A10"] }] } }
    [offers.big]
    shm = "4GiB"
    claims = [{ claim = "c", path = "/c" }]
    tolerations = []
    """
    found = settings(**tomllib.loads(text))
    assert found == KubernetesSettings.model_validate(tomllib.loads(text))
    assert found.tolerations[0].within == 3600
    assert found.offers["big"].model_fields_set == {"shm", "claims", "tolerations"}
    big = found.pod("big")
    assert (big.shm, big.tolerations, big.claims[0].read_only, big.user) == (4096, (), True, 7)
    assert found.pod("other").gpu_types["a10"].nodes[0].any_of == ("A10",)


@pytest.mark.parametrize(
    ("preset", "env_said"),
    [
        ("glidepath", {"HOME": "/x", "PHYSICAL_HOSTNAME": "x", "K8S_NAMESPACE": "x"}),
        ("osg", {"NUM_CPUS": "99", "CONDOR_HOST": "x", "TOKEN": "x", "RETIREMENT_HOURS": "99"}),
        (
            "prp",
            {"CONDOR_HOST": "x", "NUM_CPUS": "99", "K8S_PROVISIONER_TYPE": "x", "PHYSICAL_HOSTNAME": "x"},
        ),
    ],
)
def test_nothing_goes_before_what_a_pod_needs(preset: str, env_said: dict[str, str]) -> None:
    """The settings refuse it; a pod does not rely on that."""
    unchecked = settings(preset=preset).pod("").model_copy(update={"env": env_said})
    assert env(pod_of(spec(), unchecked, namespace="ns")) == env(pod(preset=preset))


def test_usual_variables_give_way() -> None:
    found = env(pod(preset="prp", env={"K8S_DOMAIN": "example.org", "OTHER": "x"}))
    assert (found["K8S_DOMAIN"], found["FORCE_K8SNAMESPACE_MATCHING"], found["OTHER"]) == (
        "example.org",
        "yes",
        "x",
    )


def test_every_field_says_what_it_means() -> None:
    tables = [each for each in vars(module).values() if isinstance(each, type) and issubclass(each, Table)]
    for table in tables:
        for name, field in table.model_fields.items():
            assert field.description, f"{table.__name__}.{name}"
            assert field.description.endswith("."), f"{table.__name__}.{name}"


def test_a_pod_of_an_offer_is_made_of_both() -> None:
    said = {"claims": [{"claim": "c", "path": "/c"}], "offers": {"worker": {"preset": "osg"}}}
    assert {"/c", "/pilot"} <= set(mounts(pod(**said)))
