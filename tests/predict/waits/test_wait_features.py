"""Features at submission against a count over all jobs; none uses the future."""

import numpy as np
import pytest

from mirage.job_state import MISSING
from mirage.predict.waits.wait_features import (
    FEATURES,
    QUEUE,
    names_of,
    rows_of_sample,
    size_class,
    waits_at_submission,
)
from mirage.trace.table import JobTable, Labels

DAY_S = 86_400


def made_up_table(seed=0, n=400):
    """Jobs of three partitions and five users over four days; some never start or end."""
    rng = np.random.default_rng(seed)
    submit_s = 1_700_000_000 + np.sort(rng.integers(0, 4 * DAY_S, n))
    wait_s = (10 ** rng.uniform(0, 5, n)).astype(np.int64) * (rng.random(n) < 0.9)
    start_s = np.where(rng.random(n) < 0.8, submit_s + wait_s, MISSING)
    run_s = rng.integers(1, 40_000, n)
    end_s = np.where(start_s >= 0, start_s + run_s, np.where(rng.random(n) < 0.5, submit_s + run_s, MISSING))
    end_s = np.where((start_s >= 0) & (rng.random(n) < 0.1), MISSING, end_s)
    table = JobTable.build(
        [str(k) for k in range(n)],
        submit_s=submit_s,
        start_s=start_s,
        end_s=end_s,
        limit_s=rng.integers(1, 48, n) * 3600,
        nodes=2 ** rng.integers(0, 5, n) + rng.integers(0, 2, n),
        partition=[f"p{k}" for k in rng.integers(0, 3, n)],
        user=[f"u{k}" for k in rng.integers(0, 5, n)],
    )
    return table[rng.permutation(n)]


TABLE = made_up_table()
SAMPLE = waits_at_submission(TABLE, names_of(TABLE))
JOBS = TABLE[rows_of_sample(TABLE)]
NAMES = [feature.name for feature in FEATURES]


def value_of(name, row):
    return SAMPLE.inputs[row, NAMES.index(name)]


@pytest.mark.parametrize("row", [0, 1, 7, 100, 250, 399])
def test_the_queue_equals_a_count_over_every_job(row):
    now = JOBS.submit_s[row]
    before = np.arange(len(JOBS)) < row
    started, ended = JOBS.start_s >= 0, JOBS.end_s >= 0
    left_s = np.where(started, JOBS.start_s, np.where(ended, JOBS.end_s, 2**60))
    pending = before & (left_s >= now)
    running = before & started & (JOBS.start_s < now) & (~ended | (JOBS.end_s >= now))
    partition = JOBS.partition.codes == JOBS.partition.codes[row]
    user = JOBS.user.codes == JOBS.user.codes[row]
    for name, group in (("all", np.ones(len(JOBS), dtype=bool)), ("partition", partition), ("user", user)):
        p, r = pending & group, running & group
        assert value_of(f"{name}_pending_jobs", row) == p.sum()
        assert value_of(f"{name}_pending_nodes", row) == JOBS.nodes[p].sum()
        assert value_of(f"{name}_pending_node_h", row) == pytest.approx((JOBS.nodes * JOBS.limit_s)[p].sum() / 3600)
        assert value_of(f"{name}_running_jobs", row) == r.sum()
        assert value_of(f"{name}_running_nodes", row) == JOBS.nodes[r].sum()
        left = (JOBS.nodes * (JOBS.start_s + JOBS.limit_s - now))[r].sum() / 3600
        assert value_of(f"{name}_running_node_h", row) == pytest.approx(max(left, 0), rel=1e-5, abs=1e-2)
    smaller = pending & partition & (np.floor(np.log2(JOBS.nodes)) <= np.floor(np.log2(JOBS.nodes[row])))
    assert value_of("not_larger_pending_jobs", row) == smaller.sum()
    assert value_of("not_larger_pending_nodes", row) == JOBS.nodes[smaller].sum()
    assert value_of("oldest_pending_age", row) == (now - JOBS.submit_s[pending].min() if pending.any() else 0)
    day = before & user & (JOBS.submit_s >= now - DAY_S)
    assert value_of("user_day_jobs", row) == day.sum()
    assert value_of("user_day_node_h", row) == pytest.approx((JOBS.nodes * JOBS.limit_s)[day].sum() / 3600)


@pytest.mark.parametrize("row", [0, 60, 399])
def test_recent_waits_fade_with_time(row):
    now = JOBS.submit_s[row]
    group = (JOBS.start_s >= 0) & (JOBS.start_s < now) & (JOBS.user.codes == JOBS.user.codes[row])
    if not group.any():
        assert np.isnan(value_of("user_recent_wait_6h", row))
        return
    wait = np.log10(np.maximum((JOBS.start_s - JOBS.submit_s)[group], 1))
    weight = 0.5 ** ((now - JOBS.start_s[group]) / (6 * 3600))
    assert value_of("user_recent_wait_6h", row) == pytest.approx((weight * wait).sum() / weight.sum(), rel=1e-4)
    assert value_of("user_since_start", row) == now - JOBS.start_s[group].max()


def test_nothing_later_than_the_submission_changes_a_feature():
    now = JOBS.submit_s[200]
    hidden = JOBS.with_columns(
        start_s=np.where(JOBS.start_s >= now, MISSING, JOBS.start_s),
        end_s=np.where(JOBS.end_s >= now, MISSING, JOBS.end_s),
        elapsed_s=np.full(len(JOBS), MISSING),
        state=np.full(len(JOBS), MISSING),
    )[:201]
    np.testing.assert_array_equal(waits_at_submission(hidden, names_of(TABLE)).inputs, SAMPLE.inputs[:201])


def test_waits_and_those_that_never_ended():
    started = JOBS.start_s >= 0
    np.testing.assert_array_equal(SAMPLE.started, started)
    np.testing.assert_array_equal(SAMPLE.waited_s[started], (JOBS.start_s - JOBS.submit_s)[started])
    withdrawn = ~started & (JOBS.end_s >= 0)
    np.testing.assert_array_equal(SAMPLE.waited_s[withdrawn], (JOBS.end_s - JOBS.submit_s)[withdrawn])
    log_wait, is_bound = SAMPLE.known_at(int(JOBS.submit_s[200]) + 1)
    age_s = JOBS.submit_s[200] + 1 - JOBS.submit_s[: len(log_wait)]
    over = started[: len(log_wait)] & (SAMPLE.waited_s[: len(log_wait)] <= age_s)
    np.testing.assert_array_equal(is_bound, ~over)
    assert np.all(10**log_wait <= age_s + 1e-6)


def test_a_job_that_must_wait_for_another_waits_from_when_it_may_start():
    table = JobTable.build(["1", "2"], submit_s=[100, 100], eligible_s=[100, 900], start_s=[150, 1000], user=["a", "a"])
    sample = waits_at_submission(table, names_of(table))
    assert sample.request_s.tolist() == [100, 900]
    assert sample.waited_s.tolist() == [50, 100]


def test_jobs_without_a_submission_are_left_out():
    table = JobTable.build(["1", "2"], submit_s=[MISSING, 100], start_s=[5, 150])
    assert len(waits_at_submission(table, names_of(table))) == 1


def test_an_unknown_name_is_missing_and_an_unknown_partition_a_class_of_its_own():
    names = names_of(JobTable.build(["1"], partition=["gpu"], user=["a"]))
    labels = Labels.of(["gpu", "new", None])
    assert size_class(labels, np.array([1, 4, 8]), names).tolist() == [0, 4, 5]
    table = JobTable.build(["1", "2"], submit_s=[5, 6], user=["a", "z"])
    column = NAMES.index("user")
    np.testing.assert_array_equal(waits_at_submission(table, names).inputs[:, column], [0, np.nan])


def test_every_feature_has_a_name_of_its_own():
    assert len(set(NAMES)) == len(NAMES) == SAMPLE.inputs.shape[1]
    assert len(QUEUE) == 33
