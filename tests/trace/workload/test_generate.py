"""Synthetic traces: valid rows, reproducible, with the marginals of their model."""

import math
import re
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirage.duration import DAY_S, HOUR_S
from mirage.errors import ConfigurationError, TraceError, UnknownName
from mirage.job_state import MISSING, JobState
from mirage.sim.cluster import Cluster
from mirage.sim.simulation import Simulation
from mirage.sim.workload import workload
from mirage.trace.read_trace import read_trace
from mirage.trace.statistics.marginals import MarginalComparison, Marginals, compare, hour_of_week
from mirage.trace.table import INT_COLUMNS, LABEL_COLUMNS, JobTable
from mirage.trace.workload.fit_workload import fit_workload
from mirage.trace.workload.generate_workload import generate_workload
from mirage.trace.workload.workload_json import builtin_model, builtin_models, model_from_json, model_to_json
from mirage.trace.workload.workload_model import DEFAULT_START_S

MODEL = builtin_model("lonestar6-like")


def assert_equal(a: JobTable, b: JobTable) -> None:
    for name in ("job_id", *INT_COLUMNS):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)
    for name in LABEL_COLUMNS:
        assert getattr(a, name).values() == getattr(b, name).values(), name


def offered_load(table: JobTable, nodes: int, span_s: float) -> float:
    return float(table.elapsed_s @ table.nodes) / (nodes * span_s)


@pytest.fixture(scope="module")
def quarter() -> JobTable:
    return generate_workload(MODEL, days=98, seed=3)


@pytest.fixture(scope="module")
def real(shared_data) -> JobTable:
    """The weeks to which the shipped model was fitted, 2022-12-12 to 2023-03-19."""
    table = read_trace(shared_data / "mirage-ls6" / "ls6-a100.log.gz").table
    return table[(table.submit_s >= 1_670_803_200) & (table.submit_s < 1_679_270_400)]


class TestRows:
    @settings(max_examples=40, deadline=None)
    @given(
        seed=st.integers(0, 2**32),
        days=st.floats(0.05, 20),
        load=st.floats(0.05, 2),
        nodes=st.integers(1, 200),
        start_s=st.integers(0, 2**31),
    )
    def test_every_row_is_valid(self, seed, days, load, nodes, start_s):
        t = generate_workload(MODEL, days=days, seed=seed, load=load, nodes=nodes, start_s=start_s)
        assert len(t) >= 1
        assert ((t.submit_s >= start_s) & (t.submit_s < start_s + days * DAY_S)).all()
        assert (np.diff(t.submit_s) >= 0).all()
        assert ((t.elapsed_s >= 1) & (t.elapsed_s <= t.limit_s)).all()
        assert ((t.nodes >= 1) & (t.nodes <= nodes)).all()
        assert (t.gpus == 3 * t.nodes).all()
        assert (t.cpus == 128 * t.nodes).all()
        assert (t.start_s == MISSING).all()
        assert (t.end_s == MISSING).all()
        assert ((t.state == JobState.TIMEOUT) == (t.elapsed_s == t.limit_s)).all()
        for label in (t.user, t.account, t.partition, t.qos, t.name):
            assert (label.codes >= 0).all()

    @settings(max_examples=20, deadline=None)
    @given(seed=st.integers(0, 2**32), jobs=st.integers(1, 5_000))
    def test_as_many_jobs_as_requested(self, seed, jobs):
        t = generate_workload(MODEL, jobs=jobs, seed=seed)
        assert len(t) == jobs
        assert t.job_id.tolist() == [str(i + 1) for i in range(jobs)]

    def test_a_user_has_one_account(self, quarter):
        pairs = set(zip(quarter.user.codes.tolist(), quarter.account.codes.tolist()))
        assert len(pairs) == len(quarter.user.names)

    def test_labels_are_numbered_in_order_of_appearance(self, quarter):
        for label in (quarter.user, quarter.name, quarter.account):
            first_codes = label.codes[np.sort(np.unique(label.codes, return_index=True)[1])]
            assert first_codes.tolist() == list(range(len(label.names)))


class TestSeed:
    def test_same_seed_same_trace(self):
        assert_equal(generate_workload(MODEL, days=10, seed=5), generate_workload(MODEL, days=10, seed=5))

    def test_other_seed_other_trace(self):
        a, b = generate_workload(MODEL, jobs=500, seed=5), generate_workload(MODEL, jobs=500, seed=6)
        assert (a.elapsed_s != b.elapsed_s).any()

    def test_a_known_trace_stays_what_it_was(self):
        t = generate_workload(MODEL, jobs=5, seed=1)
        assert t.submit_s[0] - DEFAULT_START_S == 128
        assert t.limit_s.tolist() == [21_600, 7_200, 600, 600, 600]
        assert t.elapsed_s.tolist() == [20_021, 1, 18, 1, 1]


class TestLoad:
    @pytest.mark.parametrize("load", [0.3, 0.9, 1.3])
    def test_days_at_a_load(self, load):
        t = generate_workload(MODEL, days=60, load=load, seed=1)
        assert offered_load(t, 76, 60 * DAY_S) == pytest.approx(load, rel=0.01)

    def test_a_number_of_jobs_at_a_load(self):
        t = generate_workload(MODEL, jobs=20_000, load=0.7, nodes=100, seed=1)
        assert offered_load(t, 100, float(np.ptp(t.submit_s))) == pytest.approx(0.7, rel=0.02)

    def test_a_higher_load_brings_more_of_the_same_jobs(self):
        few, many = (generate_workload(MODEL, days=30, load=load, seed=2) for load in (0.5, 1.0))

        def kinds(t):
            return sorted(zip(t.limit_s.tolist(), t.nodes.tolist(), t.elapsed_s.tolist()))

        missing = len(set(kinds(few)) - set(kinds(many)))
        assert len(many) > 1.5 * len(few)
        assert missing <= 10  # of the last burst, cut off by the end of the span

    def test_the_cluster_is_busy_enough_to_queue_and_idle_enough_to_recover(self):
        t = generate_workload(MODEL, days=84, seed=0)
        cluster = Cluster.pool(MODEL.nodes)
        wait_h = Simulation(cluster, workload(t, cluster), "easy").run().wait_s / HOUR_S
        day = (t.submit_s - t.submit_s[0]) // DAY_S
        worst = np.array([np.quantile(wait_h[day == d], 0.9) for d in np.unique(day)])
        assert (worst <= 2).mean() > 0.1
        assert ((worst > 2) & (worst <= 12)).mean() > 0.1
        assert (worst > 12).mean() > 0.05


class TestRefusals:
    @pytest.mark.parametrize(
        "arguments",
        [
            {},
            {"days": 1, "jobs": 1},
            {"days": 0},
            {"jobs": 0},
            {"days": 1, "load": 0},
            {"days": 1, "load": float("nan")},
            {"days": 1, "nodes": 0},
            {"days": 1, "seed": -1},
        ],
    )
    def test_values_out_of_range(self, arguments):
        with pytest.raises(ConfigurationError):
            generate_workload(MODEL, **arguments)

    @pytest.mark.parametrize("arguments", [{"jobs": 5.0}, {"start_s": 1.7e9}, {"start_s": math.nan}, {"nodes": 9.0}])
    def test_floats_are_refused_by_name(self, arguments):
        (name,) = arguments
        with pytest.raises(ConfigurationError, match=f"^{name} is .*; give a whole number, not a float$"):
            generate_workload(MODEL, **{"jobs": 5} | arguments)

    def test_what_is_no_model_or_no_table_is_refused(self):
        for days in ("30", timedelta(days=30)):
            with pytest.raises(ConfigurationError, match=rf"^days is {re.escape(repr(days))}; give a number$"):
                generate_workload(MODEL, days=days)
        with pytest.raises(ConfigurationError, match="a model is made by builtin_model or fit_workload, got 'l"):
            generate_workload("lonestar6-like", days=3)
        with pytest.raises(ConfigurationError, match=r"jobs must be a JobTable, such as read_trace\(file\)\.table"):
            fit_workload(MODEL)

    def test_more_than_fits_into_memory(self):
        with pytest.raises(ConfigurationError, match="fewer"):
            generate_workload(MODEL, jobs=100_000_000)


@pytest.mark.slow
class TestFit:
    def test_marginals_come_back(self, quarter):
        again = generate_workload(fit_workload(quarter, nodes=76), days=98, seed=11)
        a, b = Marginals.of(quarter), Marginals.of(again)
        assert b.busy_nodes == pytest.approx(a.busy_nodes, rel=0.02)
        assert b.jobs_per_day == pytest.approx(a.jobs_per_day, rel=0.25)
        assert b.mean_nodes == pytest.approx(a.mean_nodes, rel=0.2)
        assert b.dispersion == pytest.approx(a.dispersion, rel=0.35)
        assert b.size_share == pytest.approx(a.size_share, abs=0.07)
        assert b.use == pytest.approx(a.use, abs=0.12)
        assert b.used_up_share == pytest.approx(a.used_up_share, abs=0.04)
        assert b.instant_share == pytest.approx(a.instant_share, abs=0.06)
        assert b.top_user_share == pytest.approx(a.top_user_share, abs=0.12)
        assert np.corrcoef(a.hour_rate, b.hour_rate)[0, 1] > 0.6

    def test_parameters_come_back(self, quarter):
        again = fit_workload(quarter, nodes=76)
        assert again.load == pytest.approx(MODEL.load, rel=0.02)
        assert again.same_shape == pytest.approx(MODEL.same_shape, abs=0.1)
        assert again.same_use == pytest.approx(MODEL.same_use, abs=0.1)
        assert again.same_gap == pytest.approx(MODEL.same_gap, abs=0.1)
        assert again.return_share == pytest.approx(MODEL.return_share, abs=0.15)
        assert again.pace == pytest.approx(MODEL.pace, abs=0.3)
        assert (again.gpus_per_node, again.cpus_per_node, again.partitions) == (3, 128, ("gpu-a100",))

    def test_without_pace_the_weeks_are_wilder(self):
        def weekly_spread(pace):
            t = generate_workload(replace(MODEL, pace=pace), days=182, seed=4)
            work = np.bincount((t.submit_s - DEFAULT_START_S) // (7 * DAY_S), weights=t.elapsed_s * t.nodes)
            return work.std() / work.mean()

        assert weekly_spread(1.0) < 0.6 * weekly_spread(0.0)

    def test_no_habit_describes_fewer_than_five_users(self, quarter):
        assert all(h.users >= 5 for h in (*MODEL.habits, *fit_workload(quarter, nodes=76).habits))

    def test_the_nodes_are_the_most_busy_at_any_time(self):
        t = generate_workload(MODEL, days=3, seed=0)
        ran = t.with_columns(start_s=t.submit_s, end_s=t.submit_s + t.elapsed_s)
        busy = [t.nodes[(ran.start_s <= now) & (ran.end_s > now)].sum() for now in ran.start_s]
        assert fit_workload(ran).nodes == max(busy)

    def test_without_starts_the_nodes_must_be_given(self, quarter):
        with pytest.raises(ConfigurationError, match="--nodes"):
            fit_workload(quarter)

    @pytest.mark.parametrize("nodes", [None, 76])
    def test_jobs_that_run_for_no_time_describe_no_load(self, nodes):
        t = generate_workload(MODEL, days=3, seed=0)
        ended = t.with_columns(start_s=t.submit_s, end_s=t.submit_s, elapsed_s=0 * t.submit_s)
        with pytest.raises(ConfigurationError, match="have a run time of 0, so they keep no node busy"):
            fit_workload(ended, nodes=nodes)

    def test_one_user_and_one_shape(self):
        n = 60
        one = JobTable.build(
            range(n), submit_s=np.arange(n) * 7200, elapsed_s=[60] * n, limit_s=[600] * n, nodes=[2] * n
        )
        t = generate_workload(fit_workload(one, nodes=4), jobs=50)
        assert set(t.nodes.tolist()) == {2}
        assert set(t.elapsed_s.tolist()) == {60}
        assert len(t.user.names) == 1
        assert (t.gpus == MISSING).all()

    @pytest.mark.parametrize("n", [0, 1, 30])
    def test_less_than_a_day_is_refused(self, n):
        short = JobTable.build(range(n), submit_s=range(n), elapsed_s=[1] * n, limit_s=[60] * n, nodes=[1] * n)
        with pytest.raises(ConfigurationError, match="at least a day"):
            fit_workload(short, nodes=1)


class TestJson:
    def test_round_trip(self):
        text = model_to_json(MODEL)
        again = model_from_json(text)
        assert model_to_json(again) == text
        assert_equal(generate_workload(again, days=5, seed=1), generate_workload(MODEL, days=5, seed=1))

    def test_another_version_is_refused(self):
        with pytest.raises(TraceError, match=r"x.json:1: schema is 'mirage-workload/99'"):
            model_from_json('{"schema": "mirage-workload/99"}', source="x.json")

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "[]",
            "{",
            "7",
            '{"schema": "mirage-workload/1"}',
            '{"schema": "mirage-workload/1", "habits": 3}',
        ],
    )
    def test_what_is_no_model_is_refused(self, text):
        with pytest.raises(TraceError, match=r"^m:\d+: "):
            model_from_json(text, source="m")

    def test_an_unknown_model(self):
        with pytest.raises(UnknownName, match="lonestar6-like"):
            builtin_model("lonestar6")

    @pytest.mark.parametrize("name", builtin_models())
    def test_shipped_models_are_small_and_name_no_user(self, name):
        text = model_to_json(builtin_model(name))
        assert len(text) < 60_000
        assert "user" not in text.replace('"users"', "").replace('"top_user_share"', "")


class TestMarginals:
    @pytest.mark.parametrize(
        ("row", "verdict"),
        [
            (MarginalComparison("x", 10.0, 12.4), "good"),
            (MarginalComparison("x", 10.0, 12.6), "off: 26 % more"),
            (MarginalComparison("x", 28.09, 11.96, factor=1.5), "off: 57 % less"),
            (MarginalComparison("x", 10.0, 23.0), "off: 2.3 times as much"),
            (MarginalComparison("x", 0.0, 0.2, apart=0.25), "good"),
            (MarginalComparison("x", 0.0, 3.0, apart=0.25), "off: 3 instead of 0"),
            (MarginalComparison("x", 0.01, 0.05, apart=0.05, share=True), "good"),
            (MarginalComparison("x", 0.5, 0.6, apart=0.05, share=True), "off: 10 points more"),
            (MarginalComparison("x", 0.6, 0.48, apart=0.05, share=True), "off: 12 points less"),
            (MarginalComparison("x", 1.0, 0.4, apart=0.5, share=True), "off: 60 points less"),
        ],
    )
    def test_a_verdict_in_words(self, row, verdict):
        assert row.verdict == verdict

    def test_a_trace_is_like_itself(self, quarter):
        for row in compare(quarter, quarter):
            assert row.real == pytest.approx(row.synthetic)

    def test_hour_of_week(self):
        monday = DEFAULT_START_S
        assert hour_of_week(np.array([monday, monday + HOUR_S, monday - 1])).tolist() == [0, 1, 167]

    def test_of_known_jobs(self):
        t = JobTable.build(
            range(4),
            submit_s=[0, 0, 3600, 7200],
            elapsed_s=[60, 30, 0, 90],
            limit_s=[60] * 4,
            nodes=[1, 2, 3, 40],
            user=["a", "a", "b", "a"],
        )
        m = Marginals.of(t)
        assert m.size_share.tolist() == [0.25, 0.25, 0.25, 0, 0, 0.25]
        assert (m.used_up_share, m.instant_share, m.top_user_share) == (0.5, 0.25, 1.0)
        assert m.busy_nodes == pytest.approx((60 + 60 + 40 * 60) / 7200)  # a run counts to its limit

    def test_nothing_to_describe(self):
        with pytest.raises(ConfigurationError, match="none of 1 jobs"):
            Marginals.of(JobTable.build([1]))


class TestLikeLonestar6:
    """Against the trace that the shipped model was fitted to."""

    def test_marginals(self, real):
        rows = {row.marginal: row for row in compare(real, generate_workload(MODEL, days=98, seed=0))}
        for name, row in rows.items():
            if name.startswith("share") or name.startswith("use"):
                assert row.synthetic == pytest.approx(row.real, abs=0.08), name
        assert rows["busy nodes"].synthetic == pytest.approx(rows["busy nodes"].real, rel=0.01)
        assert rows["jobs a day"].synthetic == pytest.approx(rows["jobs a day"].real, rel=0.2)
        assert rows["limit h, 50%"].synthetic == pytest.approx(rows["limit h, 50%"].real, rel=0.35)
        assert rows["hour-of-week correlation"].synthetic > 0.75
        bursts = rows["burstiness (var/mean an hour)"]
        assert bursts.synthetic == pytest.approx(bursts.real, rel=0.35)

    def test_waits(self, real):
        def mean_wait_h(table):
            cluster = Cluster.pool(76)
            table = table.with_columns(
                elapsed_s=np.clip(table.run_s, 1, table.limit_s),
                start_s=np.full(len(table), MISSING),
                end_s=np.full(len(table), MISSING),
                nodes=np.minimum(table.nodes, 76),
            )
            return Simulation(cluster, workload(table, cluster), "easy").run().wait_s.mean() / HOUR_S

        synthetic = np.mean([mean_wait_h(generate_workload(MODEL, days=98, seed=seed)) for seed in range(6)])
        assert 0.7 < synthetic / mean_wait_h(real) < 2.2

    def test_the_shipped_model_is_the_fit(self, real):
        again = fit_workload(real, nodes=76)
        assert again.load == pytest.approx(MODEL.load, rel=1e-3)
        assert again.hour_weight == pytest.approx(MODEL.hour_weight, rel=1e-3)
        assert [h.users for h in again.habits] == [h.users for h in MODEL.habits]
        for ours, shipped in zip(again.habits, MODEL.habits):
            assert ours.use == pytest.approx(shipped.use, rel=1e-3, abs=1e-6)


def test_a_model_of_a_trace_with_an_impossible_row_is_named():
    model = replace(builtin_model("lonestar6-like"), load=3.9e-07, nodes=10**12)
    with pytest.raises(
        ConfigurationError, match=r"load of lonestar6-like is 3\.9e-07 of 1,000,000,000,000 nodes, so a row"
    ):
        generate_workload(model, days=1)
    assert len(generate_workload(model, days=1, load=0.5, nodes=8))
