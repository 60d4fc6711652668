"""Preemption by QOS, requeue, hold-down, and other actions of slurmctld on running jobs."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirage.errors import ClusterError, ConfigurationError
from mirage.sim.check_schedule import check_schedule
from mirage.sim.cluster import Cluster
from mirage.sim.kernel.arrays import NEVER_S
from mirage.sim.simulation import Simulation
from mirage.sim.slurm_conf.qos import with_qos
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings
from mirage.sim.workload import workload
from mirage.trace.table import JobTable
from tests.support.audit import audit
from tests.support.clusters import Case, cases, grouped, pools, shared

QOS = {"low": 0.0, "normal": 100.0, "high": 1000.0}
PREEMPTS = {"normal": ("low",), "high": ("low", "normal")}
SETTINGS = SlurmSettings(weight_qos=1000, bf_interval_s=1, requeue_hold_s=6)


def run(cluster: Cluster, *jobs: dict[str, object], setting: SlurmSettings = SETTINGS) -> list[list[tuple[int, int]]]:
    """Start and end of every stretch in which each job ran."""
    cluster = replace(cluster, qos_factors=QOS, qos_preempts=PREEMPTS)
    names = ("submit_s", "elapsed_s", "limit_s", "nodes", "gpus", "qos")
    usual = {"submit_s": 0, "elapsed_s": 100, "limit_s": 200, "nodes": 1, "gpus": -1}
    columns = {name: [({**usual, **job})[name] for job in jobs] for name in names}
    table = JobTable.build(range(len(jobs)), **columns)
    sim = Simulation(cluster, workload(table, cluster), "slurm", setting)
    sim.run()
    segments = sim.segments()
    return [[(int(s.start_s), int(s.end_s)) for s in segments[segments.id == k]] for k in range(len(jobs))]


def test_a_higher_qos_takes_the_nodes_of_a_lower_one_which_begins_anew() -> None:
    low, high = run(Cluster.pool(2), {"qos": "low", "nodes": 2}, {"qos": "high", "nodes": 2, "submit_s": 50})
    assert high == [(50, 150)]
    assert low == [(0, 50), (150, 250)]


def test_a_preempted_job_is_held_back_though_there_is_room() -> None:
    low, high = run(Cluster.pool(1), {"qos": "low"}, {"qos": "high", "submit_s": 50, "elapsed_s": 2})
    assert high == [(50, 52)]
    assert low[1] == (56, 156)


def test_no_job_is_preempted_without_success() -> None:
    low, normal, high = run(
        Cluster.pool(2), {"qos": "low"}, {"qos": "high"}, {"qos": "high", "nodes": 2, "submit_s": 50}
    )
    assert low == normal == [(0, 100)]
    assert high == [(100, 200)]


def test_a_requeued_job_is_ranked_at_once() -> None:
    """Priorities are constant here, so the period of their computation does not matter."""
    dice = np.random.default_rng(3)
    jobs = [
        {"qos": str(qos), "submit_s": int(at), "elapsed_s": int(lasts), "limit_s": 500, "nodes": int(nodes)}
        for qos, at, lasts, nodes in zip(
            dice.choice(list(QOS), 150), np.sort(dice.integers(0, 18_000, 150)), dice.integers(1, 400, 150),
            dice.integers(1, 5, 150),
        )
    ]  # fmt: skip
    often, seldom = (
        run(Cluster.pool(4), *jobs, setting=replace(SETTINGS, weight_age=0, calc_period_s=period_s, every_pass=True))
        for period_s in (1, 10**7)
    )
    assert often == seldom
    assert sum(len(stretches) > 1 for stretches in often) > 10  # displaced


def test_one_s_own_qos_is_left_alone() -> None:
    first, second = run(Cluster.pool(1), {"qos": "normal"}, {"qos": "normal", "submit_s": 50})
    assert (first, second) == ([(0, 100)], [(100, 200)])


@pytest.mark.parametrize(("youngest_first", "displaced"), [(False, 0), (True, 1)])
def test_the_lowest_qos_goes_first_or_the_youngest(youngest_first: bool, displaced: int) -> None:
    jobs = ({"qos": "low"}, {"qos": "normal", "submit_s": 10}, {"qos": "high", "submit_s": 50})
    found = run(Cluster.pool(2), *jobs, setting=replace(SETTINGS, youngest_first=youngest_first))
    assert found[displaced][0][1] == 50
    assert found[1 - displaced][0][1] > 50


def test_of_two_alike_the_younger_goes() -> None:
    old, young, _ = run(
        Cluster.pool(2), {"qos": "low"}, {"qos": "low", "submit_s": 10}, {"qos": "high", "submit_s": 50}
    )
    assert [len(old), len(young)] == [1, 2]


def test_on_shared_nodes_only_jobs_with_needed_gpus_are_preempted() -> None:
    small = {"qos": "low", "gpus": 4}
    jobs = [small, {**small, "submit_s": 1}, {**small, "submit_s": 2}, {"qos": "high", "gpus": 8, "submit_s": 50}]
    found = run(Cluster.gpu(2, 8), *jobs)
    assert found[3] == [(50, 150)]
    assert sum(len(stretches) > 1 for stretches in found[:3]) == 1, "the one that had a node for itself"


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(case=cases(pools() | grouped() | shared()), data=st.data())
def test_the_books_balance_under_every_preemption(case: Case, data: st.DataObject) -> None:
    cluster = replace(case.cluster, qos_factors=QOS, qos_preempts=PREEMPTS)
    seed = data.draw(st.integers(0, 2**32 - 1))
    table = case.jobs.table
    qos = np.random.default_rng(seed).choice(list(QOS), len(table))
    table = JobTable.build(
        table.job_id, **{n: getattr(table, n) for n in ("submit_s", "elapsed_s", "limit_s", "nodes", "gpus", "cpus")},
        user=table.user, partition=table.partition, qos=qos.tolist(),
    )  # fmt: skip
    sim = Simulation(cluster, workload(table, cluster), "slurm", SETTINGS)
    while sim.step() < NEVER_S:
        audit(sim)
    check_schedule(sim.schedule(), cluster)
    jobs, last = sim.workload.jobs, sim.segments()
    ends = {int(segment.id): int(segment.end_s - segment.start_s) for segment in last}
    for job in jobs:
        assert ends[int(job.id)] == min(job.run_s, job.limit_s), "its last stretch is the whole job: nothing was kept"


def test_limits_are_checked_only_periodically() -> None:
    (job,) = run(
        Cluster.pool(1), {"qos": "low", "elapsed_s": 500, "limit_s": 100}, setting=replace(SETTINGS, limit_check_s=30)
    )
    (start_s, end_s) = job[0]
    assert 100 <= end_s - start_s < 130


def test_slurm_s_choice_of_nodes_preserves_large_gaps() -> None:
    jobs = [{"qos": "low", "gpus": 8, "elapsed_s": k} for k in (100, 5, 100, 5, 5)]
    setting = replace(SETTINGS, consecutive=True)
    cluster = replace(Cluster.gpu(5, 8), qos_factors=QOS)
    columns = {name: [job[name] for job in jobs] for name in ("gpus", "elapsed_s", "qos")}
    table = JobTable.build(range(6), submit_s=[0] * 5 + [10], limit_s=[200] * 6, nodes=[1] * 6,
                           **{name: [*values, values[0]] for name, values in columns.items()})  # fmt: skip
    sim = Simulation(cluster, workload(table, cluster), "slurm", setting)
    sim.advance(20)
    assert sim.state.free[:, 0].tolist() == [0, 0, 0, 8, 8], "the gap of one node, not the first of two neighbours"


def test_qos_are_read_from_sacctmgr(tmp_path: Path) -> None:
    table = tmp_path / "qos.txt"
    table.write_text("Name|Priority|GraceTime|Preempt\nnormal|100|00:00:00|low\nlow|0|00:00:00|\n")
    cluster = with_qos(Cluster.pool(2), table)
    assert cluster.qos_factors == {"normal": 100.0, "low": 0.0}
    assert cluster.qos_preempts == {"normal": ("low",), "low": ()}
    table.write_text("nothing of the kind\n")
    with pytest.raises(ConfigurationError, match="sacctmgr -P show qos"):
        with_qos(Cluster.pool(2), table)
    with pytest.raises(ClusterError, match="no QOS 'gold'"):
        replace(cluster, qos_preempts={"gold": ("low",)})


@pytest.fixture(scope="module")
def fidelity() -> ModuleType:
    path = Path(__file__).parents[3] / "benchmarks" / "simulator" / "fidelity.py"
    spec = importlib.util.spec_from_file_location("fidelity", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("name", "observed", "conf", "most_s", "waits"),
    [("w60", "w60.nopreempt.observed", "fid60", 320, 0.2), ("w1", "w1.observed", "fid1", 11, 0.35)],
)
def test_the_starts_of_a_real_slurm(
    name: str, observed: str, conf: str, most_s: float, waits: float, fidelity: ModuleType, shared_data: Path
) -> None:
    """At most twice as far from a real replay as real replays from each other."""
    folder = shared_data / "slurm-fidelity"
    real = fidelity.read_replay(folder / f"{observed}.csv")
    launch_s = fidelity.launch_s(folder / f"{name}.csv", [folder / f"{observed}.csv"])
    ours = fidelity.simulated(folder / f"{name}.csv", folder / "conf" / conf / "slurm.conf", real, launch_s)
    found = fidelity.compared(ours, real)
    assert found["jobs"] == 200
    assert found["mean_absolute_error_s"] <= most_s
    assert abs(found["mean_wait_ratio"] - 1) <= waits
    assert abs(found["makespan_ratio"] - 1) <= 0.05


def test_the_ratio_of_errors_lies_within_what_draws_of_replays_give(fidelity: ModuleType) -> None:
    alike = {pair: 2.0 for pair in ((0, 1), (0, 2), (1, 2))}
    assert fidelity.ratio_between([3.0, 3.0, 3.0], alike) == (1.5, 1.5)
    low, high = fidelity.ratio_between([1.0, 3.0, 5.0], alike)
    assert low < 1.5 < high
