"""What a pilot was given, from whoever says it: tables of environments and kernel files."""

from __future__ import annotations

import pytest

from glidepath.pilot.parts.allocation import Given, Said, cgroup, given, pbs, size_mib, slurm, visible_gpus

ROOT = "/sys/fs/cgroup"


@pytest.mark.parametrize(
    ("own", "files", "expected"),
    [
        ("0::/\n", {"/cpu.max": "200000 100000\n", "/memory.max": "2147483648\n"}, Said(2, 2048)),
        ("0::/\n", {"/cpu.max": "max 100000\n", "/memory.max": "max\n"}, Said()),
        ("0::/a/b\n", {"/a/cpu.max": "300000 100000", "/a/b/cpu.max": "max 100000"}, Said(3)),
        ("0::/a/b\n", {"/a/cpu.max": "100000 100000", "/a/b/cpu.max": "400000 100000"}, Said(1)),
        ("0::/a\n", {"/a/cpu.max": "50000 100000"}, Said(1)),
        ("0::/../../x\n", {"/cpu.max": "200000 100000"}, Said(2)),
        (
            "4:memory:/j\n3:cpu,cpuacct:/j\n",
            {
                "/memory/j/memory.limit_in_bytes": "1073741824\n",
                "/cpu,cpuacct/j/cpu.cfs_quota_us": "400000\n",
                "/cpu,cpuacct/j/cpu.cfs_period_us": "100000\n",
            },
            Said(4, 1024),
        ),
        (
            "4:memory:/\n3:cpu,cpuacct:/\n",
            {
                "/memory/memory.limit_in_bytes": "9223372036854771712\n",
                "/cpu,cpuacct/cpu.cfs_quota_us": "-1\n",
                "/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
            },
            Said(),
        ),
        ("0::/\n", {"/cpu.max": "nonsense", "/memory.max": "-5"}, Said()),
        ("0::/\n", {"/cpu.max": "100000 0", "/memory.max": "0x10"}, Said()),
        ("", {}, Said()),
        ("nonsense\n::::\n0::", {}, Said()),
    ],
)
def test_the_tightest_limit_of_our_control_groups_counts(
    own: str, files: dict[str, str], expected: Said
) -> None:
    assert cgroup(own, {ROOT + path: text for path, text in files.items()}.get) == expected


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, Said()),
        ({"SLURM_CPUS_ON_NODE": "4"}, Said()),
        (
            {
                "SLURM_JOB_ID": "7",
                "SLURM_CPUS_ON_NODE": "4",
                "SLURM_MEM_PER_NODE": "8000",
                "SLURM_JOB_END_TIME": "1800000000",
                "SLURM_GPUS_ON_NODE": "2",
            },
            Said(4, 8000, None, 2, 1800000000.0),
        ),
        ({"SLURM_JOB_ID": "7", "SLURM_CPUS_ON_NODE": "4", "SLURM_MEM_PER_CPU": "2000"}, Said(4, 8000)),
        ({"SLURM_JOB_ID": "7", "SLURM_MEM_PER_NODE": "0", "SLURM_CPUS_ON_NODE": "4(x2)"}, Said()),
        ({"SLURM_JOB_ID": "7", "SLURM_JOB_END_TIME": "soon", "SLURM_GPUS_ON_NODE": "-1"}, Said()),
    ],
)
def test_an_allocation_of_slurm(environ: dict[str, str], expected: Said) -> None:
    assert slurm(environ) == expected


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"NCPUS": "4"}, Said()),
        ({"PBS_JOBID": "7.x", "NCPUS": "4"}, Said(4)),
        (
            {
                "PBS_JOBID": "7.x",
                "PBS_NUM_PPN": "8",
                "NCPUS": "4",
                "PBS_WALLTIME": "3600",
                "PBS_NUM_GPUS": "1",
            },
            Said(8, None, None, 1, 4600.0),
        ),
        ({"PBS_JOBID": "7.x", "PBS_RESC_MEM": "4294967296"}, Said(None, 4096)),
        ({"PBS_JOBID": "7.x", "PBS_RESC_MEM": "4gb", "NCPUS": "many"}, Said(None, 4096)),
    ],
)
def test_an_allocation_of_pbs(environ: dict[str, str], expected: Said) -> None:
    assert pbs(environ, 1000.0) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1gb", 1024),
        ("512MB", 512),
        ("1", 1),
        ("2t", 2097152),
        ("", None),
        ("x", None),
        ("9999999999tb", None),
    ],
)
def test_sizes_as_pbs_writes_them(text: str, expected: int | None) -> None:
    assert size_mib(text) == expected


@pytest.mark.parametrize(
    ("told", "limits", "batch", "expected"),
    [
        (Said(), Said(), Said(), Given(8, 16000, 90000, None, None)),
        (Said(2, 3000, 500, 1), Said(4, 4000), Said(6, 6000), Given(2, 3000, 500, 1, None)),
        (Said(), Said(4, 4000), Said(6, 3000, None, 2, 50.0), Given(4, 3000, 90000, 2, 50.0)),
        (Said(gpus=0), Said(), Said(gpus=2), Given(8, 16000, 90000, 0, None)),
        (Said(ends_at=70.0), Said(), Said(ends_at=50.0), Given(8, 16000, 90000, None, 50.0)),
    ],
    ids=["all of the machine", "arguments win", "the tighter one", "none means none", "the earlier end"],
)
def test_arguments_come_first_then_the_tighter_of_limits_and_allocation(
    told: Said, limits: Said, batch: Said, expected: Given
) -> None:
    assert given(told, limits, batch, Said(8, 16000, 90000)) == expected


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, None),
        ({"CUDA_VISIBLE_DEVICES": ""}, ()),
        ({"CUDA_VISIBLE_DEVICES": "0, 3"}, ("0", "3")),
        ({"CUDA_VISIBLE_DEVICES": "GPU-12ab,MIG-GPU-1/2/3"}, ("GPU-12ab", "MIG-GPU-1/2/3")),
        ({"CUDA_VISIBLE_DEVICES": 'x"; START = true,1'}, ("1",)),
        ({"GPU_DEVICE_ORDINAL": "1"}, ("1",)),
    ],
)
def test_only_the_gpus_that_we_are_let_see_are_ours(
    environ: dict[str, str], expected: tuple[str, ...] | None
) -> None:
    assert visible_gpus(environ) == expected
