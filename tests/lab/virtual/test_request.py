"""Requests of submissions to the simulated Slurm, value by value."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mirage.duration import UNLIMITED_S
from mirage.errors import SlurmRefused
from mirage.job_state import MISSING
from mirage.lab.virtual.batch_request import BatchRequest, StartCondition, read_begin, read_request, read_wait
from mirage.sim.cluster import Cluster, NodeGroup, Partition
from mirage.sim.kernel.arrays import AFTER_ANY, AFTER_OK, AFTER_START, WHOLE_NODE
from mirage.slurm.records import Submission
from tests.support.small_slurm import BEGIN_S

SHARED = Cluster(
    (NodeGroup("big", 4, 8, 64), NodeGroup("small", 2, 0, 16)),
    (Partition("main"), Partition("gpu", ("big",), max_limit_s=1800, max_nodes=3)),
    True,
    {"high": 2.0, "low": 1.0},
)


def read(folder: Path, cluster: Cluster, script: str = "", **options: str | None) -> BatchRequest:
    (folder / "job.sh").write_text(f"#!/bin/sh\n{script}")
    given = {name.replace("_", "-"): value for name, value in options.items()}
    submission = Submission("job.sh", given, directory=str(folder))
    return read_request(submission, cluster, BEGIN_S, known=lambda job: job < 10)


def test_no_requests(tmp_path: Path) -> None:
    assert read(tmp_path, Cluster.pool(4)) == BatchRequest(
        name="job.sh", comment="", account="", partition=0, qos="", nodes=1, gpus=WHOLE_NODE, cpus=1, limit_s=3600,
        nice=0, held=False, wait=StartCondition(),
    )  # fmt: skip


def test_every_request(tmp_path: Path) -> None:
    found = read(
        tmp_path, SHARED, job_name="train", comment="a:b", account="phys", partition="gpu,main", qos="low", nodes="2",
        gpus_per_node="a100:3", ntasks_per_node="2", cpus_per_task="5", time="20", nice="50", hold=None,
        signal="B:SIGUSR2@300", begin="now+60", dependency="afterok:7",
    )  # fmt: skip
    assert found == BatchRequest(
        name="train", comment="a:b", account="phys", partition=1, qos="low", nodes=2, gpus=3, cpus=10, limit_s=1200,
        nice=50, held=True, wait=StartCondition(BEGIN_S + 60, 7, AFTER_OK, "afterok"), warning="USR2", warning_s=300,
    )  # fmt: skip


def test_nice_without_a_number_is_slurms_default(tmp_path: Path) -> None:
    assert read(tmp_path, Cluster.pool(4), nice=None).nice == 100


def test_an_array_is_refused_as_by_a_cluster_without_arrays(tmp_path: Path) -> None:
    with pytest.raises(SlurmRefused) as refused:
        read(tmp_path, Cluster.pool(4), "#SBATCH --array=0-9\n")
    assert refused.value.stderr == "sbatch: error: Batch job submission failed: Invalid job array specification"


@pytest.mark.parametrize("time", ["0", "0:00", "UNLIMITED"])
def test_no_limit(tmp_path: Path, time: str) -> None:
    assert read(tmp_path, Cluster.pool(4), time=time).limit_s == UNLIMITED_S


def test_the_command_line_counts_more_than_the_script(tmp_path: Path) -> None:
    script = "#SBATCH -N 3 -J script\n\n# a remark\n#SBATCH --time=5 # five\necho\n#SBATCH -q high\n"
    found = read(tmp_path, SHARED, script, nodes="2")
    assert (found.nodes, found.name, found.limit_s, found.qos) == (2, "script", 300, "")


@pytest.mark.parametrize(
    ("options", "size"),
    [
        ({}, (1, 0, 1)),
        ({"nodes": "2"}, (2, 0, 1)),
        ({"ntasks": "8"}, (1, 0, 8)),
        ({"ntasks": "8", "nodes": "2"}, (2, 0, 4)),
        ({"ntasks": "9", "nodes": "2", "cpus_per_task": "3"}, (2, 0, 15)),
        ({"ntasks": "9", "ntasks_per_node": "4"}, (3, 0, 4)),
        ({"ntasks_per_node": "4", "nodes": "3"}, (3, 0, 4)),
        ({"gpus_per_node": "4"}, (1, 4, 1)),
        ({"gres": "gpu:a100:2"}, (1, 2, 1)),
        ({"gpus": "7", "nodes": "2"}, (2, 4, 1)),
        ({"gpus": "a100:8"}, (1, 8, 1)),
        ({"exclusive": None, "gpus": "1"}, (1, WHOLE_NODE, 1)),
        ({"exclusive": "user", "gpus": "1"}, (1, 1, 1)),
    ],
)
def test_nodes_and_what_is_requested_of_each(
    tmp_path: Path, options: dict[str, str | None], size: tuple[int, int, int]
) -> None:
    found = read(tmp_path, SHARED, **options)
    assert (found.nodes, found.gpus, found.cpus) == size
    whole = read(tmp_path, Cluster.pool(4), **options)
    assert (whole.nodes, whole.gpus, whole.cpus) == (size[0], WHOLE_NODE, size[2])


@pytest.mark.parametrize(
    ("signal", "warning"),
    [
        ("USR1@120", ("USR1", 120)),
        ("B:TERM", ("TERM", 60)),
        ("R:SIGINT@9", ("INT", 9)),
        ("", ("", MISSING)),
    ],
)
def test_the_warning_before_the_limit(tmp_path: Path, signal: str, warning: tuple[str, int]) -> None:
    found = read(tmp_path, SHARED, signal=signal)
    assert (found.warning, found.warning_s) == warning


@pytest.mark.parametrize(
    ("partition", "time", "limit_s"),
    [("main", None, 3600), ("gpu", None, 1800), ("gpu", "30", 1800), ("main", "UNLIMITED", UNLIMITED_S)],
)
def test_the_time_limit(tmp_path: Path, partition: str, time: str | None, limit_s: int) -> None:
    options = {} if time is None else {"time": time}
    assert read(tmp_path, SHARED, partition=partition, **options).limit_s == limit_s


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"partition": "gpu", "time": "31"}, "Requested time limit is invalid (missing or exceeds some limit)"),
        ({"nodes": "7"}, "Node count specification invalid"),
        ({"nodes": "4", "partition": "gpu"}, "Node count specification invalid"),
        ({"nodes": "5", "gpus_per_node": "1"}, "Requested node configuration is not available"),
        ({"gpus": "9"}, "Requested node configuration is not available"),
        ({"nodes": "5", "cpus_per_task": "17"}, "Requested node configuration is not available"),
        ({"qos": "middle"}, "Invalid qos specification"),
        (
            {"dependency": "singleton"},
            "Job dependency problem (a simulated job waits for a job by its number, not for its name)",
        ),
        ({"dependency": "afterany"}, "Job dependency problem"),
        ({"dependency": "afterany:"}, "Job dependency problem"),
        ({"dependency": "afterany:x"}, "Job dependency problem"),
        ({"dependency": "afternotok:3"}, "Job dependency problem"),
        ({"dependency": "afterany:3?afterany:4"}, "Job dependency problem"),
        ({"dependency": "afterany:3:4"}, "Job dependency problem (a simulated job waits for one other at most)"),
    ],
)
def test_refusals_of_the_controller(tmp_path: Path, options: dict[str, str], words: str) -> None:
    with pytest.raises(SlurmRefused) as refused:
        read(tmp_path, SHARED, **options)
    assert refused.value.stderr == f"sbatch: error: Batch job submission failed: {words}"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"nodes": "four"}, '"four" is not a valid node count'),
        ({"nodes": "1,2"}, '"1,2" is not a valid node count'),
        ({"nodes": "-2"}, '"-2" is not a valid node count'),
        ({"nodes": "4-2"}, "Maximum node count 2 is less than minimum node count 4"),
        ({"mem": "4Q"}, "Invalid --mem specification"),
        ({"signal": "FOO@60"}, "Invalid --signal specification"),
        ({"time": "12h"}, "Invalid --time specification"),
        ({"N": "4"}, "unrecognized option '--N'"),
        ({"node": "4"}, "option '--node' is ambiguous; it may be --nodefile, --nodelist, --nodes"),
        ({"nodes": None}, "option '--nodes' requires an argument"),
    ],
)
def test_refusals_of_sbatch(tmp_path: Path, options: dict[str, str | None], words: str) -> None:
    with pytest.raises(SlurmRefused) as refused:
        read(tmp_path, SHARED, **options)
    assert refused.value.stderr == f"sbatch: error: {words}"


@pytest.mark.parametrize("nodes", ["2", "2-3", 2])
def test_a_number_of_nodes(tmp_path: Path, nodes: Any) -> None:
    assert read(tmp_path, SHARED, nodes=nodes).nodes == 2


def test_a_normal_qos_is_known_everywhere(tmp_path: Path) -> None:
    assert read(tmp_path, Cluster.pool(1), qos="normal").qos == "normal"


@pytest.mark.parametrize(
    ("dependency", "wait"),
    [
        ("", StartCondition()),
        ("after:3", StartCondition(MISSING, 3, AFTER_START, "after")),
        ("after:3+10", StartCondition(MISSING, 3, AFTER_START, "after")),
        ("afterok:3", StartCondition(MISSING, 3, AFTER_OK, "afterok")),
        ("afterok:12,afterany:4", StartCondition(MISSING, 4, AFTER_ANY, "afterany")),
        ("afterok:12:13", StartCondition()),
        ("afterany:3,", StartCondition(MISSING, 3, AFTER_ANY, "afterany")),
    ],
)
def test_dependencies_but_those_that_are_met(dependency: str, wait: StartCondition) -> None:
    assert read_wait("", dependency, BEGIN_S, lambda job: job < 10) == wait


@pytest.mark.usefixtures("newfoundland")
@pytest.mark.parametrize(
    ("text", "later_s"),
    [
        ("now", 0),
        ("now+90", 90),
        ("NOW+2minutes", 120),
        ("now+1hour", 3600),
        ("now+3days", 3 * 86_400),
        (" now+1week ", 7 * 86_400),
        ("06:30", 0),
        ("6:30:05", 5),
        ("06:29", 86_340),
        ("23:59:59", 17 * 3600 + 30 * 60 - 1),
        ("2026-11-21T07:00:00", 1800),
    ],
)
def test_begin_times(text: str, later_s: int) -> None:
    """At half past six in the morning of this machine's zone."""
    assert read_begin(text, BEGIN_S) - BEGIN_S == later_s


@pytest.mark.parametrize("text", ["soon", "now+1year", "now-60", "25:00", "24:00", "12:61", "12:00:60", "1:2:3", "-1"])
def test_begin_times_that_are_none(text: str) -> None:
    with pytest.raises(SlurmRefused) as refused:
        read_begin(text, BEGIN_S)
    assert refused.value.stderr == "sbatch: error: Invalid --begin specification"
