"""The simulator against schedules computed by independent programs, job by job."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mirage.duration import DAY_S, HOUR_S
from mirage.provision.evaluation.episode import Scenario, play, warm_simulations
from mirage.provision.evaluation.evaluation_protocol import EvaluationProtocol
from mirage.provision.link_size import LinkSize
from mirage.sim.cluster import Cluster
from mirage.sim.schedule import Schedule
from mirage.sim.simulation import Simulation, simulate
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings
from mirage.sim.workload import Workload, workload
from mirage.trace.read_trace import read_trace
from mirage.trace.table import JobTable
from tests.support.event_by_event import replay_event_by_event

PROCESSORS = 352
ALL = SlurmSettings(max_job_test=10**9)


def synthetic(shared_data: Path, name: str) -> JobTable:
    return read_trace(shared_data / "synthetic-reference" / f"{name}.swf.gz").table


def replayed(table: JobTable, discipline: str, nodes: int = PROCESSORS, settings: SlurmSettings = ALL) -> Schedule:
    cluster = Cluster.pool(nodes)
    return simulate(cluster, workload(table, cluster), discipline, settings)


# -- synthetic workloads ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "discipline", "mean_wait_s", "makespan_s"),
    [
        ("w5k", "easy", 6284.888800, 579379),
        ("w5k", "fcfs", 21799.121200, 601440),
        ("w5k", "conservative", 8615.514600, 593894),
        ("w20k", "easy", 4569.094400, 2169014),
        ("w20k", "fcfs", 16112.255250, 2180731),
        ("w20k", "conservative", 6375.475600, 2175070),
        ("w5kp", "easy", 11191.888200, 591963),
        ("w5kp", "conservative", 12247.765600, 589351),
        ("w5k_ties", "easy", 5862.134000, 582929),
    ],
)
def test_mean_wait_and_makespan(
    shared_data: Path, name: str, discipline: str, mean_wait_s: float, makespan_s: int
) -> None:
    metrics = replayed(synthetic(shared_data, name), discipline).metrics()
    assert metrics["mean_wait_s"] == pytest.approx(mean_wait_s, abs=5e-7)
    assert metrics["makespan_s"] == makespan_s


@pytest.mark.parametrize("name", ["w5k", "w20k", "w5kp"])
@pytest.mark.parametrize(("discipline", "suffix"), [("easy", "ref0"), ("fcfs", "fcfs"), ("conservative", "cons")])
def test_every_start_is_the_reference_start(shared_data: Path, name: str, discipline: str, suffix: str) -> None:
    schedule = replayed(synthetic(shared_data, name), discipline)
    path = shared_data / "synthetic-reference" / f"{name}.{suffix}.csv.gz"
    reference = np.loadtxt(path, delimiter=",", dtype=np.int64)  # id, submit, start
    expected_s = dict(zip(reference[:, 0].tolist(), reference[:, 2].tolist()))
    started_s = dict(zip(schedule.table.job_id.astype(int).tolist(), schedule.start_s.tolist()))
    assert started_s == expected_s


@pytest.mark.parametrize(("name", "mean_wait_s"), [("w5k", 9576.802600), ("w20k", 7209.170200)])
def test_conservative_that_plans_the_first_hundred(shared_data: Path, name: str, mean_wait_s: float) -> None:
    schedule = replayed(synthetic(shared_data, name), "conservative", settings=SlurmSettings(max_job_test=100))
    assert schedule.metrics()["mean_wait_s"] == pytest.approx(mean_wait_s, abs=5e-7)


@pytest.mark.parametrize("name", ["w5k", "w5k_ties"])
@pytest.mark.parametrize("settings", [SlurmSettings(), SlurmSettings.lonestar6()], ids=["default", "lonestar6"])
def test_slurm_passes_left_out_change_no_start(shared_data: Path, name: str, settings: SlurmSettings) -> None:
    table = synthetic(shared_data, name)
    some, every = (
        replayed(table, "slurm", settings=replace(settings, every_pass=every_pass)) for every_pass in (False, True)
    )
    np.testing.assert_array_equal(some.start_s, every.start_s)


# -- real logs, waits simulated by pyss (docs/reports/simulator-known-answers.md) ---------------------------------

LOGS = {"KTH-SP2": 100, "SDSC-SP2": 128, "CTC-SP2": 338}
CASES = [
    # log, estimates, jobs whose start is the same with a second taken at once, mean bounded slowdown: ours, pyss
    ("KTH-SP2", "user_estimates", 28025, 92.69, 92.58),
    ("SDSC-SP2", "user_estimates", 51611, 87.81, 87.87),
    ("CTC-SP2", "user_estimates", 61660, 48.84, 49.57),
    ("KTH-SP2", "clairvoyant", 28481, 71.72, 71.72),  # all of them
    ("SDSC-SP2", "clairvoyant", 54006, 70.48, 70.48),
    ("CTC-SP2", "clairvoyant", 77199, 37.17, 37.17),
]


def published(shared_data: Path, log: str, estimates: str) -> Workload:
    """A log in the order of job numbers; a clairvoyant scheduler gets run times as limits."""
    table = read_trace(shared_data / "easy-reference" / f"{log}.easy_{estimates}.swf.gz").table
    table = table[np.argsort(table.job_id.astype(np.int64))]
    if estimates == "clairvoyant":
        table = table.with_columns(limit_s=table.run_s)
    return workload(table, Cluster.pool(LOGS[log]))


def mean_bounded_slowdown(table: JobTable, start_s: np.ndarray) -> float:
    return float(np.maximum(1, (start_s - table.submit_s + table.run_s) / np.maximum(table.run_s, 10)).mean())


@pytest.mark.parametrize(("log", "estimates", "alike", "ours", "theirs"), CASES)
def test_real_log_a_second_at_once(
    shared_data: Path, log: str, estimates: str, alike: int, ours: float, theirs: float
) -> None:
    jobs = published(shared_data, log, estimates)
    schedule = Simulation(Cluster.pool(LOGS[log]), jobs, "easy").run()
    assert mean_bounded_slowdown(jobs.table, jobs.table.start_s) == pytest.approx(theirs, abs=0.005)
    assert schedule.metrics()["mean_bounded_slowdown"] == pytest.approx(ours, abs=0.005)
    assert int((schedule.start_s == jobs.table.start_s).sum()) == alike


@pytest.mark.slow
@pytest.mark.parametrize(("log", "estimates"), [(log, kind) for log, kind, *_ in CASES])
def test_every_start_of_a_real_log_an_event_at_a_time(shared_data: Path, log: str, estimates: str) -> None:
    jobs = published(shared_data, log, estimates)
    np.testing.assert_array_equal(replay_event_by_event(jobs, LOGS[log]), jobs.table.start_s)


# -- the published Mirage simulator -------------------------------------------------------------------------------

BEGIN_S = int(np.datetime64("2023-03-01", "s").astype(np.int64))
REACTIVE_H = {0: 0.000, 9: 6.133, 21: 4.767, 22: 4.633, 23: 3.933, 24: 0.517, 100: 0.300, 120: 0.000}


@pytest.fixture(scope="module")
def lonestar6(shared_data: Path) -> JobTable:
    return read_trace(shared_data / "mirage-ls6" / "ls6-a100.log.gz").table


@pytest.mark.parametrize("window", REACTIVE_H)
def test_reactive_interruption_of_the_published_simulator(lonestar6: JobTable, window: int) -> None:
    cluster = Cluster.pool(88)
    begin_s = BEGIN_S + window * 4 * HOUR_S
    arriving = (lonestar6.submit_s >= begin_s) & (lonestar6.submit_s <= begin_s + 5 * DAY_S)
    jobs = workload(lonestar6[arriving], cluster)
    sim = Simulation(cluster, jobs, "mirage-2023", SlurmSettings.lonestar6(), begin_s=begin_s)
    sim.approach(begin_s + 2 * DAY_S)
    first_s = sim.run_until_started(sim.inject(nodes=1, limit_s=48 * HOUR_S))
    assert first_s is not None
    ends_s = first_s + 48 * HOUR_S
    sim.approach(ends_s)
    next_s = sim.run_until_started(sim.inject(nodes=1, limit_s=48 * HOUR_S))
    assert next_s is not None
    assert round((next_s - ends_s) / HOUR_S, 3) == REACTIVE_H[window]


def test_episodes_have_the_published_reactive_interruption(lonestar6: JobTable) -> None:
    cluster = Cluster.pool(88)
    setting = Scenario(cluster, workload(lonestar6, cluster), "mirage-2023", SlurmSettings.lonestar6())
    protocol = EvaluationProtocol.published(BEGIN_S)
    windows = sorted(REACTIVE_H)
    found_h = {
        window: round(play(sim, protocol, LinkSize(1), window).reactive_s / HOUR_S, 3)
        for window, sim in warm_simulations(setting, protocol, windows)
    }
    assert found_h == REACTIVE_H
