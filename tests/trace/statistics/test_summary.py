import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirage.duration import UNLIMITED_S
from mirage.job_state import MISSING, JobState
from mirage.trace.read_trace import read_trace
from mirage.trace.statistics.occupancy import Occupancy
from mirage.trace.statistics.summary import describe, iso_utc
from mirage.trace.statistics.utilization import covered_s, inferred_capacity
from mirage.trace.table import JobTable


@pytest.fixture(scope="module")
def ls6(shared_data):
    return describe(read_trace(shared_data / "mirage-ls6/ls6-a100.log.gz").table)


def test_ls6_waits(ls6):
    waits = (ls6.wait_s.p50, ls6.wait_s.p75, ls6.wait_s.p90, ls6.wait_s.p95, ls6.wait_s.p99)
    assert [round(wait) for wait in waits] == [25, 4_758, 42_897, 76_853, 172_776]
    assert ls6.wait_s.mean / 3600 == pytest.approx(4.065, abs=0.001)


def test_ls6_limits(ls6):
    assert ls6.limit_s.p50 == 5 * 3600
    assert ls6.limit_use.at_limit_share == pytest.approx(0.158, abs=0.0005)
    assert ls6.limit_use.over_limit == 3_752
    assert ls6.zero_duration == 3_328


def test_ls6_sizes(ls6):
    assert ls6.sizes[0].nodes_to == 1
    assert ls6.sizes[0].jobs / ls6.jobs == pytest.approx(0.80, abs=0.005)
    assert sum(size.jobs for size in ls6.sizes) == ls6.jobs == 24_777


def test_ls6_busy_nodes(ls6):
    means = {iso_utc(month.begin_s)[:7]: round(month.mean_nodes) for month in ls6.busy.months}
    assert means.pop("2022-10") <= 1
    assert means == {"2022-11": 36, "2022-12": 55, "2023-01": 70, "2023-02": 69, "2023-03": 66}
    assert [month.peak_nodes for month in ls6.busy.months[-3:]] == [80, 76, 76]
    assert ls6.busy.peak == 80
    assert ls6.busy.capacity == 76


@pytest.mark.parametrize(
    ("name", "capacity"),
    [
        ("easy-reference/CTC-SP2.easy_clairvoyant.swf.gz", 338),
        ("easy-reference/KTH-SP2.easy_user_estimates.swf.gz", 100),
        ("easy-reference/SDSC-SP2.easy_clairvoyant.swf.gz", 128),
    ],
)
def test_the_capacity_of_a_simulated_machine_is_found_again(shared_data, name, capacity):
    assert inferred_capacity(read_trace(shared_data / name).table) == capacity


def test_the_capacity_of_theta_is_found_though_some_records_overlap(shared_data):
    busy = describe(read_trace(shared_data / "theta-2022/theta_2022.swf.gz").table).busy
    assert busy.peak > 4_360
    assert busy.capacity == pytest.approx(4_360, rel=0.005)


def test_a_workload_without_starts(shared_data):
    statistics = describe(read_trace(shared_data / "synthetic-reference/w5k.swf.gz").table)
    assert (statistics.wait_s, statistics.busy) == (None, None)
    assert statistics.run_s.count == 5_000
    assert statistics.limit_use.over_limit == 0


THREE = JobTable.build(
    ["1", "2", "3", "4"],
    submit_s=[0, 10, 20, 30],
    start_s=[0, 50, MISSING, 60],
    end_s=[100, 150, 40, 60],
    elapsed_s=[100, 100, 0, 0],
    limit_s=[100, 50, UNLIMITED_S, 10],
    nodes=[2, 3, 1, 1],
    state=[JobState.COMPLETED, JobState.TIMEOUT, JobState.CANCELLED, JobState.COMPLETED],
    user=["ada", "bo", "ada", ""],
    partition=["gpu", "gpu", "cpu", ""],
)


def test_jobs_that_start_before_their_submission_are_counted():
    table = JobTable.build(["1", "2", "3"], submit_s=[5, 5, MISSING], start_s=[4, 5, 1], nodes=[1, 1, 1])
    assert describe(table).starts_first == 1


def test_a_table_by_hand():
    statistics = describe(THREE)
    assert (statistics.longest_gap_s, describe(THREE[:1]).longest_gap_s) == (10, None)
    assert (statistics.jobs, statistics.users, statistics.unlimited) == (4, 2, 1)
    assert (statistics.zero_duration, statistics.never_started, statistics.starts_first) == (1, 1, 0)
    assert (statistics.wait_s.count, statistics.wait_s.p50, statistics.wait_s.max) == (3, 30, 40)
    assert (statistics.limit_use.over_limit, statistics.limit_use.at_limit_share) == (1, pytest.approx(2 / 3))
    assert statistics.states == {"COMPLETED": 2, "TIMEOUT": 1, "CANCELLED": 1}
    assert statistics.partitions == {"gpu": 2, "cpu": 1}
    assert statistics.gpus is None


def test_jobs_that_have_not_ended_have_no_run_time():
    table = JobTable.build(
        ["1", "2", "3", "4"],
        submit_s=[0, 0, 0, 0],
        start_s=[MISSING, 100, 100, 100],
        end_s=[MISSING, MISSING, MISSING, 160],
        elapsed_s=[0, 3_600, 7_200, 60],
        limit_s=[60, 3_600, 7_200, 600],
        nodes=[1, 1, 1, 1],
        state=[JobState.PENDING, JobState.RUNNING, JobState.SUSPENDED, JobState.COMPLETED],
    )
    statistics = describe(table)
    assert table.run_s.tolist() == [MISSING, MISSING, MISSING, 60]
    assert (statistics.run_s.count, statistics.run_s.max, statistics.zero_duration) == (1, 60, 0)
    assert (statistics.limit_use.use.count, statistics.limit_use.at_limit_share) == (1, 0)
    assert statistics.sizes[0].node_hours == pytest.approx((3_600 + 7_200 + 60) / 3_600)


def test_times_in_an_odd_order_enter_no_figure():
    table = JobTable.build(
        ["1", "2", "3"], submit_s=[50, 0, 0], start_s=[40, 20, 30], end_s=[60, 10, 90], elapsed_s=[20, 7, 60]
    )
    assert table.wait_s.tolist() == [MISSING, 20, 30]
    assert table.run_s.tolist() == [20, 7, 60]
    statistics = describe(table)
    assert (statistics.wait_s.count, statistics.wait_s.p50) == (2, 25)


def test_busy_nodes_by_hand():
    occupancy = Occupancy.of(THREE)
    assert occupancy.time_s.tolist() == [0, 50, 100, 150]
    assert occupancy.busy.tolist() == [2, 5, 3, 0]
    edges = np.array([0, 25, 75, 200])
    assert occupancy.mean(edges).tolist() == [2.0, 3.5, (25 * 5 + 50 * 3) / 125]
    assert occupancy.peak(edges).tolist() == [2, 5, 5]
    assert (occupancy.quantile(0.3), occupancy.quantile(0.6), occupancy.quantile(1)) == (2, 3, 5)


def test_a_burst_is_covered_to_its_end_and_a_log_to_its_last_submission():
    burst = JobTable.build(["1", "2"], submit_s=[0, 1], start_s=[1, 1], end_s=[100, 50], nodes=[1, 1])
    assert covered_s(burst, Occupancy.of(burst)) == (0, 100)
    log = JobTable.build(["1", "2"], submit_s=[0, 99], start_s=[1, 99], end_s=[90, 150], nodes=[1, 1])
    assert covered_s(log, Occupancy.of(log)) == (0, 99)
    assert covered_s(JobTable.build([]), Occupancy.of(JobTable.build([]))) == (0, 1)


def test_an_empty_table():
    statistics = describe(JobTable.build([]))
    assert (statistics.jobs, statistics.wait_s, statistics.busy, statistics.sizes) == (0, None, None, ())
    json.dumps(statistics.to_json())


def test_json_has_instants_and_no_nan(ls6):
    plain = json.loads(json.dumps(ls6.to_json(), allow_nan=False))
    assert plain["first_submit"] == "2022-10-05T11:52:48Z"
    assert plain["busy"]["months"][1]["begin"] == "2022-11-01T00:00:00Z"
    assert plain["wait_s"]["p50"] == 25


intervals = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20), st.integers(1, 5)), min_size=1, max_size=12)


@given(intervals, st.lists(st.integers(-5, 80), min_size=2, max_size=6, unique=True))
def test_the_step_function_against_counting_second_by_second(jobs, edges):
    start_s, run_s, nodes = np.array(jobs).T
    table = JobTable.build(range(len(jobs)), start_s=start_s, end_s=start_s + run_s, nodes=nodes)
    occupancy = Occupancy.of(table)
    if not occupancy:
        assert not run_s.any()
        return
    seconds = np.arange(-5, 80)
    held = (start_s <= seconds[:, None]) & (seconds[:, None] < start_s + run_s)
    busy = (held * nodes).sum(axis=1)
    edges = np.sort(edges)
    pairs = list(zip(edges[:-1] + 5, edges[1:] + 5))
    np.testing.assert_allclose(occupancy.mean(edges), [busy[a:b].mean() for a, b in pairs])
    np.testing.assert_array_equal(occupancy.peak(edges), [busy[a:b].max() for a, b in pairs])


def test_the_capacity_is_at_least_the_largest_job():
    table = JobTable.build(["1", "2"], start_s=[0, 1_000], end_s=[1_000, 1_001], nodes=[1, 64])
    assert inferred_capacity(table) == 64
    assert inferred_capacity(JobTable.build(["1"])) == 0
