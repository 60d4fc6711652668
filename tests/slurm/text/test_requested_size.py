"""Size of a job from sbatch's options, and Slurm's estimate from what sbatch prints."""

from __future__ import annotations

import pytest

from mirage.duration import DAY_S, HOUR_S
from mirage.errors import ConfigurationError, UnknownName
from mirage.job_state import MISSING
from mirage.slurm.records import Machine, Node, SlurmPartition
from mirage.slurm.text.requested_size import requested_size
from mirage.slurm.text.start_estimate import read_estimate

PARTITIONS = ("main", "short")
MACHINE = Machine(
    tuple(Node(f"n{k}", "idle", True, 64, 8, PARTITIONS) for k in range(4)),
    (
        SlurmPartition("short", False, HOUR_S, MISSING, ("n0",)),
        SlurmPartition("main", True, 2 * DAY_S, 4 * HOUR_S, ("n0", "n1", "n2", "n3")),
    ),
)


@pytest.mark.parametrize(
    ("given", "nodes", "gpus", "cpus"),
    [
        ({}, 1, 0, 1),
        ({"nodes": "2"}, 2, 0, 1),
        ({"nodes": "2-4", "gpus-per-node": "a100:4"}, 2, 4, 1),
        ({"ntasks": "100"}, 2, 0, 50),
        ({"ntasks": "8", "ntasks-per-node": "2", "cpus-per-task": "4"}, 4, 0, 8),
        ({"gpus": "16"}, 2, 8, 1),
        ({"gpus": "4", "nodes": "2"}, 2, 2, 1),
        ({"gpus": "16", "nodes": "1"}, 1, 16, 1),
        ({"ntasks": "4", "gpus-per-task": "1"}, 1, 4, 4),
        ({"gres": "gpu:2,license:1"}, 1, 2, 1),
        ({"gpus": "4", "cpus-per-gpu": "8"}, 1, 4, 32),
        ({"gpus": "16", "cpus-per-gpu": "8"}, 2, 8, 64),
        ({"nodes": "2", "gpus-per-node": "2", "cpus-per-gpu": "3"}, 2, 2, 6),
        ({"nodes": "2", "mincpus": "32"}, 2, 0, 32),
        ({"ntasks": "2", "tres-per-task": "gres/gpu:2,cpu=8"}, 1, 4, 2),
        ({"gres": "gpu:a100"}, 1, 1, 1),
        ({"exclusive": None, "nodes": "3"}, 3, -1, -1),
    ],
)
def test_nodes_and_what_is_requested_of_each(given: dict[str, str | None], nodes: int, gpus: int, cpus: int) -> None:
    size = requested_size(given, MACHINE, shared=True)
    assert (size.nodes, size.gpus, size.cpus) == (nodes, gpus, cpus)


def test_where_nodes_are_given_out_whole_only_their_number_counts() -> None:
    size = requested_size({"ntasks": "65", "mem": "4G"}, MACHINE, shared=False)
    assert (size.nodes, size.gpus, size.cpus, size.remarks) == (2, -1, -1, ())


def test_limit_and_partition_are_the_cluster_s_by_default() -> None:
    assert requested_size({}, MACHINE, shared=False).partitions == ("main",)
    assert requested_size({}, MACHINE, shared=False).limit_s == 4 * HOUR_S
    assert requested_size({"partition": "short"}, MACHINE, shared=False).limit_s == HOUR_S
    assert requested_size({"time": "90"}, MACHINE, shared=False).limit_s == 90 * 60
    with pytest.raises(ConfigurationError, match="a limit of UNLIMITED is too long"):
        requested_size({"time": "0"}, MACHINE, shared=False)


def test_of_several_partitions_those_that_take_the_limit_count() -> None:
    size = requested_size({"partition": "short,main", "time": "2:00:00"}, MACHINE, shared=False)
    assert size.partitions == ("main",)
    with pytest.raises(ConfigurationError, match="a limit of 3-00:00:00 is too long: main takes 2-00:00:00 at most"):
        requested_size({"time": "3-0"}, MACHINE, shared=False)
    with pytest.raises(UnknownName, match="Did you mean 'main'"):
        requested_size({"partition": "mian"}, MACHINE, shared=False)


@pytest.mark.parametrize(
    ("option", "remark", "of_whole_nodes"),
    [
        ("nodelist", "it requests nodes by name, which is ignored", True),
        ("exclude", "it excludes nodes by name, which is ignored", True),
        ("constraint", "its constraints are ignored", True),
        ("time-min", "forecast with its whole limit, not with its --time-min", True),
        ("deadline", "its deadline is ignored", True),
        ("switches", "forecast as if any switches would do", True),
        ("contiguous", "forecast as if its nodes need not be contiguous", True),
        ("core-spec", "cores that it reserves for the system are ignored", False),
        ("mem", "memory is ignored", False),
        ("extra-node-info", "the layout of sockets and cores is ignored", False),
        ("gpus-per-socket", "GPUs for each socket are ignored", False),
        ("tmp", "disk space of nodes is ignored", True),
    ],
)
def test_what_is_not_weighed_is_reported(option: str, remark: str, of_whole_nodes: bool) -> None:
    assert requested_size({option: "1"}, MACHINE, shared=True).remarks == (remark,)
    assert requested_size({option: "1"}, MACHINE, shared=False).remarks == ((remark,) if of_whole_nodes else ())


def test_other_gres_than_gpus_are_reported() -> None:
    size = requested_size({"gres": "gpu:a100:2,nvme:1,craynetwork:0"}, MACHINE, shared=True)
    assert size.remarks == ("gres nvme:1 is ignored", "gres craynetwork:0 is ignored")


def test_of_a_range_of_nodes_the_fewest_count() -> None:
    size = requested_size({"nodes": "2-4"}, MACHINE, shared=True)
    assert (size.nodes, size.remarks) == (2, ("forecast with the fewest of the requested nodes, 2 of 2-4",))


def test_what_is_not_weighed_is_reported_once() -> None:
    size = requested_size({"mem": "4G", "mem-per-cpu": "1G", "dependency": "after:1"}, MACHINE, shared=True)
    assert size.remarks == ("forecast as if its dependency were satisfied", "memory is ignored")


@pytest.mark.parametrize("when", ["1790000000", "2026-09-21T14:13:20"])
def test_an_estimate_of_slurm_is_read(when: str, utc: None) -> None:
    printed = f"sbatch: Job 7 to start at {when} using 4 processors on nodes n[1-2] in partition main\n"
    estimate = read_estimate(f"sbatch: Pending job 3\n{printed}")
    assert estimate is not None
    assert (estimate.start_s, estimate.nodes, estimate.partition) == (1_790_000_000, "n[1-2]", "main")


def test_an_estimate_of_an_old_slurm_names_no_partition(utc: None) -> None:
    estimate = read_estimate("sbatch: Job 7 to start at 2026-09-21T14:13:20 using 1 processors on n1")
    assert estimate is not None
    assert (estimate.nodes, estimate.partition) == ("n1", "")


@pytest.mark.parametrize(
    "printed", ["", "sbatch: hello", "sbatch: Job 7 to start at N/A using 1 processors on nodes n1"]
)
def test_no_time_is_no_estimate(printed: str) -> None:
    assert read_estimate(printed) is None
