"""Alibaba's trace of shared GPUs is read as it is written, and what is wrong is told with its line."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from glidepath.core.quantity import Resources
from glidepath.sim.rerun.gputrace import NODE_COLUMNS, POD_COLUMNS, GpuTraceError, cluster_of, pods_of
from schedule.logs import FOLDER, PUBLIC

NODES, PODS = ",".join(NODE_COLUMNS), ",".join(POD_COLUMNS)
POD = "p1,6000,12288,1,460,V100M16|T4,LS,Running,100,7300,200"


def written(folder: Path, *lines: str) -> Path:
    path = folder / "part.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_nodes_have_their_kind_of_gpu_and_one_partition(tmp_path: Path) -> None:
    found = cluster_of(written(tmp_path, NODES, "n1,32000,262144,0,", "n2,96000,786432,8,G2"))
    assert [(node.name, node.size, node.gpu_kind) for node in found.nodes] == [
        ("n1", Resources(32000, 262144, 0, 0), ""),
        ("n2", Resources(96000, 786432, 0, 8), "G2"),
    ]
    assert [part.nodes for part in found.partitions] == [("n1", "n2")]


@pytest.mark.parametrize(
    ("row", "gpus", "share", "kinds", "limit_s", "run_s"),
    [
        (POD, 0, 460, ("V100M16", "T4"), 7200, 7100),
        ("p1,6000,12288,1,1000,,LS,Running,100,7300,100", 1, 0, (), 7200, 7200),
        ("p1,6000,12288,4,1000,,LS,Running,100,7301,100", 4, 0, (), 10800, 7201),
        ("p1,6000,12288,0,0,,BE,Pending,100,100,", 0, 0, (), 3600, None),
    ],
)
def test_a_pod_is_a_job_with_a_limit_of_whole_hours(
    tmp_path: Path, row: str, gpus: int, share: int, kinds: tuple[str, ...], limit_s: int, run_s: int | None
) -> None:
    (pod,) = pods_of(written(tmp_path, PODS, row))
    ask = pod.job.ask
    assert (ask.size.gpus, ask.gpu_milli, ask.gpu_kinds) == (gpus, share, kinds)
    assert (pod.job.limit_s, pod.run_s) == (limit_s, run_s)


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (POD.replace("6000", "six"), "`cpu_milli` is `six`"),
        (POD.replace("6000", "-1"), "`cpu_milli` is `-1`"),
        (POD + ",more", "12 fields"),
        (POD.replace(",1,460", ",2,460"), "a share is of one GPU"),
        (POD.replace("7300", "150"), "its times go backwards"),
        (POD.replace("7300", "9" * 30), "a whole number is expected"),
    ],
)
def test_a_bad_row_is_told_with_file_and_line(tmp_path: Path, row: str, why: str) -> None:
    path = written(tmp_path, PODS, POD, row)
    with pytest.raises(GpuTraceError) as told:
        pods_of(path)
    assert str(told.value).startswith(f"{path}:3: ")
    assert why in str(told.value)


def test_other_columns_and_a_torn_file_are_told(tmp_path: Path) -> None:
    with pytest.raises(GpuTraceError, match=r"part\.csv:1: the columns are name,cpu"):
        pods_of(written(tmp_path, "name,cpu"))
    torn = tmp_path / "torn.csv.gz"
    torn.write_bytes(gzip.compress(f"{PODS}\n{POD}\n".encode() * 50)[:-20])
    with pytest.raises(GpuTraceError, match=r"torn.csv.gz"):
        pods_of(torn)


if PUBLIC:

    def test_the_public_trace_is_read_whole() -> None:
        cluster = cluster_of(FOLDER / "alibaba-gpu-v2023-openb_node_list_all_node.csv.gz")
        pods = pods_of(FOLDER / "alibaba-gpu-v2023-openb_pod_list_default.csv.gz")
        assert (len(cluster.nodes), sum(node.size.gpus for node in cluster.nodes)) == (1523, 6212)
        assert (len(pods), sum(pod.job.ask.gpu_milli > 0 for pod in pods)) == (8152, 3078)
        assert sum(pod.run_s is None for pod in pods) == 897
