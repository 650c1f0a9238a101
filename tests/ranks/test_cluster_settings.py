"""A cluster of Kubernetes in a configuration file: its table is checked, shown again, and makes a door."""

from __future__ import annotations

from pathlib import Path

import pytest

from glidepath.cluster.kubernetes.door import KubernetesCluster
from glidepath.config import ConfigError, cluster_own, load, show
from glidepath.core.quantity import Resources
from glidepath.placement import cluster_door, overheads_of
from glidepath.ports import Place

GOOD = """\
[clusters.lab]
kind = "kubernetes"

[clusters.lab.kubernetes]
namespace = "jobs"
image = "images.example.org/a:1"
stated = [{ name = "cap", cpus = 4, memory = "8GiB" }]

[clusters.lab.kubernetes.runtimes.kata]
runtime_class = "kata-qemu"
cpus = 0.25
memory = "160MiB"

[partitions.pods]
cluster = "lab"
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "glidepath.toml"
    path.write_text(text)
    return path


def test_a_cluster_of_its_settings_is_made_and_opens_nothing(tmp_path: Path) -> None:
    settings = load(written(tmp_path, GOOD)).settings
    door = cluster_door("lab", settings.clusters["lab"], Place(tmp_path / "home", ""))
    assert isinstance(door, KubernetesCluster)
    assert (door.name, door.settings.namespace) == ("lab", "jobs")
    assert not (tmp_path / "home").exists()
    assert overheads_of(cluster_own(settings.clusters["lab"])) == (("kata", Resources(250, 160)),)


def test_what_is_shown_is_read_again_as_the_same(tmp_path: Path) -> None:
    settings = load(written(tmp_path, GOOD)).settings
    again = load(written(tmp_path, show(settings))).settings
    assert cluster_own(again.clusters["lab"]) == cluster_own(settings.clusters["lab"])


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('namespce = "x"', "did you mean `namespace`"),
        ("user = 0", "clusters.lab.kubernetes.user"),
        ('stated = [{ name = "A B", cpus = 1, memory = "1GiB" }]', "no name of an object"),
        ('env = { GLIDEPATH_RANK = "1" }', "are set by glidepath"),
    ],
)
def test_each_mistake_is_named_with_its_key(tmp_path: Path, line: str, words: str) -> None:
    text = f'[clusters.lab]\nkind = "kubernetes"\n[clusters.lab.kubernetes]\n{line}\n'
    with pytest.raises(ConfigError) as caught:
        load(written(tmp_path, text + '[partitions.pods]\ncluster = "lab"\n'))
    assert words in str(caught.value)


def test_a_kind_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="kubernetes"):
        load(written(tmp_path, '[clusters.lab]\nkind = "nomad"\n'))
