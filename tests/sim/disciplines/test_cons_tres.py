"""Slurm's select/cons_tres on shared nodes: its choice of nodes and its windows of ends."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirage.sim.cluster import Cluster
from mirage.sim.simulation import Simulation
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings
from mirage.sim.workload import workload
from mirage.trace.table import JobTable

SETTINGS = SlurmSettings(bf_interval_s=1, bf_resolution_s=1, consecutive=True)
WHOLE, SMALL = {"gpus": 8}, {"gpus": 1}


def simulation(cluster: Cluster, *jobs: dict[str, int], setting: SlurmSettings = SETTINGS) -> Simulation:
    """One node for every job."""
    usual = {"submit_s": 0, "elapsed_s": 100, "limit_s": 100, "nodes": 1, "gpus": 8, "cpus": 1}
    columns = {name: [{**usual, **job}[name] for job in jobs] for name in usual}
    return Simulation(cluster, workload(JobTable.build(range(len(jobs)), **columns), cluster), "slurm", setting)


def two_runs_of_two(last: dict[str, int]) -> list[int]:
    """Free CPUs on five nodes after a job was placed: two free, one full, two in part."""
    brief = {**WHOLE, "elapsed_s": 5}
    others = [brief, brief, WHOLE, SMALL, SMALL]
    sim = simulation(Cluster.gpu(5, 8, 64), *others, {**last, "submit_s": 10})
    sim.advance(9)
    assert sim.state.free[:, 1].tolist() == [64, 64, 63, 62, 64]
    sim.advance(20)
    return [int(cpus) for cpus in sim.state.free[:, 1]]


def test_to_a_job_with_gpus_a_node_counts_the_cpus_of_its_tasks() -> None:
    assert two_runs_of_two(SMALL) == [63, 64, 63, 62, 64], "two nodes are two nodes, and the first run is taken"


def test_to_a_job_without_gpus_a_node_counts_its_free_cpus() -> None:
    assert two_runs_of_two({"gpus": 0}) == [64, 64, 63, 61, 64], "the second run has fewer"


def test_a_single_node_is_the_tightest_of_its_run() -> None:
    brief, cpus = {**WHOLE, "elapsed_s": 5}, {"gpus": 0, "cpus": 8}
    sim = simulation(Cluster.gpu(3, 8, 64), brief, SMALL, {**cpus, "submit_s": 10})
    sim.advance(20)
    assert sim.state.free[:, 1].tolist() == [64, 55, 64]


@pytest.mark.parametrize("consecutive", [True, False])
def test_limits_that_end_soon_after_each_other_are_one_end_to_the_plan(consecutive: bool) -> None:
    """The large job is planned at 120 s, when the second ends, and the small one is done."""
    half = {"gpus": 4}
    jobs = [{**half, "elapsed_s": 90}, {"limit_s": 120, "elapsed_s": 120}, {**WHOLE, "submit_s": 5},
            {**half, "submit_s": 10, "limit_s": 105, "elapsed_s": 80}]  # fmt: skip
    starts_s = starts(*jobs, setting=replace(SETTINGS, consecutive=consecutive))
    assert (starts_s[3] == 10) == consecutive
    assert starts_s[2] == 90, "the large job starts as soon as it can, whatever was planned"


def test_windows_grow_so_that_far_ends_are_one_end() -> None:
    """Ends at 100, 260, 290 s: windows end at 150 and 360 s, the large job starts at 290 s."""
    running = [{"gpus": 2}, {"gpus": 2, "limit_s": 260}, {"limit_s": 290, "elapsed_s": 290}]
    starts_s = starts(*running, {**WHOLE, "submit_s": 5}, {"gpus": 4, "submit_s": 10, "limit_s": 275})
    assert starts_s[4] == 10


def starts(*jobs: dict[str, int], setting: SlurmSettings = SETTINGS) -> list[int]:
    """When each job starts on two nodes of eight GPUs."""
    sim = simulation(Cluster.gpu(2, 8, 64), *jobs, setting=setting)
    sim.run()
    began = {int(segment.id): int(segment.start_s) for segment in sim.segments()}
    return [began[k] for k in range(len(jobs))]
