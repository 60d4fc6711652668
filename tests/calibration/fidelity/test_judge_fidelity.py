"""Judgement of fidelity: equal, late and degenerate histories, and the values of its JSON."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from mirage.calibration.fidelity.correlation import Estimate
from mirage.calibration.fidelity.judge_fidelity import judge
from mirage.duration import DAY_S, HOUR_S
from mirage.sim.cluster import Cluster
from mirage.sim.simulation import Simulation
from mirage.sim.workload import workload
from mirage.trace.read_trace import read_trace
from tests.support.made_up_histories import MONDAY_S, history

SUBMITS = np.arange(0, 70 * 24, 5)
WAITS = SUBMITS % 17 / 2.0


def test_a_history_agrees_with_itself() -> None:
    recorded = history(SUBMITS, WAITS)
    found = judge(recorded, recorded)
    assert (found.moving_average.mape, found.mean_wait_ratio, found.starts.mean_absolute_s) == (
        0, Estimate(1, (1, 1)), 0,
    )  # fmt: skip
    assert found.rank_correlation.value == pytest.approx(1)
    assert found.rank_correlation.interval == pytest.approx((1, 1))
    assert found.pearson.value == pytest.approx(1)
    assert (found.whole.wasserstein_h, found.whole.kolmogorov_smirnov) == (0, 0)
    assert (found.busy_nodes.share_of_mean, found.waiting_jobs.share_of_mean) == (0, 0)
    assert found.busy_nodes.correlation == pytest.approx(1)
    assert (found.starts.within_60_s, found.resampled, found.shift_s) == (1, "week", 0)


def test_every_figure_shows_a_late_simulation() -> None:
    late = np.where(np.arange(len(WAITS)) % 2, WAITS + 2, WAITS + 0.1)
    found = judge(history(SUBMITS, WAITS), history(SUBMITS, late))
    assert found.starts.mean_s == pytest.approx(1.05 * HOUR_S)
    assert found.starts.mean_absolute_s == pytest.approx(1.05 * HOUR_S)
    assert (found.starts.within_60_s, found.starts.within_10_min, found.starts.within_1_h) == (0, 0.5, 0.5)
    assert found.mean_wait_ratio.value == pytest.approx((WAITS.mean() + 1.05) / WAITS.mean())
    assert found.moving_average.bias == found.moving_average.mape > 0.2
    assert found.recorded_wait_s.mean == pytest.approx(WAITS.mean() * HOUR_S)
    assert found.simulated_wait_s.max == pytest.approx(late.max() * HOUR_S)


def test_a_bound_of_starts_belongs_to_it() -> None:
    late_h = [0, 60 / 3600, 61 / 3600, 1 / 6, 601 / 3600, 1, 3601 / 3600, 2]
    starts = judge(history(range(8), [0] * 8), history(range(8), late_h)).starts
    assert (starts.within_60_s, starts.within_10_min, starts.within_1_h) == (2 / 8, 4 / 8, 6 / 8)
    assert starts.median_absolute_s == (600 + 601) / 2


def test_months_are_those_of_the_submissions() -> None:
    found = judge(history(SUBMITS, WAITS), history(SUBMITS, WAITS + (SUBMITS >= 30 * 24)))
    assert [(one.month, one.jobs) for one in found.months] == [("2023-01", 144), ("2023-02", 135), ("2023-03", 57)]
    assert [one.mean_absolute_error_s for one in found.months] == [0, HOUR_S, HOUR_S]
    assert [round(one.rank_correlation, 9) for one in found.months] == [1, 1, 1]
    assert found.months[0].busy_difference == 0 < found.months[1].busy_difference
    assert sum(one.jobs for one in found.months) == found.counts.compared == len(SUBMITS)


def test_a_month_has_the_figures_of_its_jobs() -> None:
    """On 31 January two jobs of an hour, on two and three nodes; the second is simulated late."""
    submit_h = [30 * 24 - 10, 30 * 24 - 9, 30 * 24 - 8, 30 * 24 + 40]
    recorded = history(submit_h, [0, 1, 3, 2], nodes=[2, 3, 1, 4])
    january, february = judge(recorded, history(submit_h, [0, 25, 1, 6], nodes=[2, 3, 1, 4])).months
    assert (january.month, january.jobs, february.jobs) == ("2023-01", 3, 1)
    assert january.recorded_wait_s == pytest.approx(4 / 3 * HOUR_S)
    assert january.simulated_wait_s == pytest.approx(26 / 3 * HOUR_S)
    assert january.mean_absolute_error_s == pytest.approx(26 / 3 * HOUR_S)
    assert january.rank_correlation == pytest.approx(0.5)
    assert january.pearson == pytest.approx(np.corrcoef([0, 1, 3], [0, 25, 1])[0, 1])
    assert (february.rank_correlation, february.pearson) == (None, None)
    assert january.busy_difference == pytest.approx((3 + 1 + 1) / 10), "of the ten hours of January from the first job"
    assert february.busy_difference == pytest.approx(3 / 40), "until the last submission"


def test_a_span_selects_its_days() -> None:
    recorded = history(SUBMITS, WAITS)
    whole = judge(recorded, recorded)
    assert (whole.from_s, whole.until_s) == (MONDAY_S, MONDAY_S + 70 * DAY_S)
    part = judge(recorded, recorded, from_s=MONDAY_S + 7 * DAY_S, until_s=MONDAY_S + 28 * DAY_S, resamples=0)
    assert (part.from_s, part.until_s) == (MONDAY_S + 7 * DAY_S, MONDAY_S + 28 * DAY_S)
    assert (len(part.moving_average.windows), part.resampled, part.rank_correlation.interval) == (8, "", None)
    assert part.busy_nodes.hours == 21 * 24


@pytest.mark.parametrize(
    ("recorded_h", "simulated_h"), [([0.0], [0.0]), ([2.0], [1.0]), ([0.0] * 9, [0.0] * 9), ([3.0] * 9, [3.0] * 9)]
)
def test_one_job_ties_and_no_wait_at_all_are_judged_without_a_correlation(recorded_h, simulated_h) -> None:
    submits = range(len(recorded_h))
    found = judge(history(submits, recorded_h), history(submits, simulated_h))
    assert (found.rank_correlation, found.pearson) == (Estimate(None, None), Estimate(None, None))
    assert found.moving_average.mape is None
    assert (found.mean_wait_ratio.value is None) == (recorded_h[0] == 0)
    assert json.loads(json.dumps(found.to_json(), allow_nan=False))["counts"]["compared"] == len(recorded_h)


def test_the_keys_of_the_json() -> None:
    plain = judge(history(SUBMITS, WAITS), history(SUBMITS, WAITS)).to_json()
    assert sorted(plain) == [
        "busy_nodes", "classes", "counts", "from", "mean_wait_ratio", "months", "moving_average", "pearson",
        "rank_correlation", "recorded_wait_s", "resampled", "shift_s", "simulated_wait_s", "starts", "until",
        "waiting_jobs", "whole",
    ]  # fmt: skip
    assert (plain["from"], plain["until"]) == ("2023-01-02T00:00:00Z", "2023-03-13T00:00:00Z")
    assert plain["moving_average"]["windows"][0] == {
        "begin": "2023-01-02T00:00:00Z", "jobs": 68, "recorded_wait_s": pytest.approx(WAITS[:68].mean() * HOUR_S),
        "simulated_wait_s": pytest.approx(WAITS[:68].mean() * HOUR_S),
    }  # fmt: skip
    assert sorted(plain["busy_nodes"]) == [
        "begin", "correlation", "hours", "mean_absolute_difference", "recorded_mean", "share_of_mean", "simulated_mean",
    ]  # fmt: skip
    assert json.dumps(plain, allow_nan=False)


def test_a_schedule_is_judged_as_it_comes_out_of_a_simulation() -> None:
    n = 40
    table = history(range(n), [0] * n, nodes=[2] * n)
    cluster = Cluster.pool(2)
    schedule = Simulation(cluster, workload(table, cluster), "fcfs").run()
    found = judge(table, schedule)
    assert (found.counts.compared, found.starts.mean_absolute_s) == (n, 0)
    narrow = Simulation(cluster, workload(table[::-1].with_columns(submit_s=table.submit_s * 0 + MONDAY_S), cluster))
    burst = judge(table, narrow.run())
    assert burst.counts.submitted_apart == n - 1
    assert burst.simulated_wait_s.max == (n - 1) * HOUR_S


@pytest.mark.slow
def test_lonestar6_replayed_plainly_is_far_from_itself(shared_data: Path) -> None:
    """The figures of docs/reports/fidelity.md."""
    from mirage.sim.slurm_conf.slurm_settings import SlurmSettings

    table = read_trace(shared_data / "mirage-ls6" / "ls6-a100.log.gz").table
    cluster = Cluster.pool(76)
    schedule = Simulation(cluster, workload(table, cluster, refuse=False), "slurm", SlurmSettings.lonestar6()).run()
    february_s, april_s = 1_675_209_600, 1_680_307_200
    found = judge(table, schedule, from_s=february_s, until_s=april_s, resamples=0)
    assert found.counts.compared == found.counts.recorded == 11_931
    assert len(found.moving_average.windows) == 46
    assert found.recorded_wait_s.mean == pytest.approx(5.06 * HOUR_S, rel=0.01)
    assert found.moving_average.mape > 0.2
    assert found.rank_correlation.value > 0.4
