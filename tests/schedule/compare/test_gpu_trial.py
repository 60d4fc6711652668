"""Trials: settings, jobs that fit, and outcomes that are stored."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import asdict, replace
from math import inf, nan
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

from mirage.errors import ConfigurationError
from mirage.schedule.compare.assumptions import Assumptions
from mirage.schedule.compare.gpu_comparison_row import GpuComparisonRow
from mirage.schedule.compare.gpu_trial import GpuOutcome, GpuSetting, GpuTrial, begin, fitting, play, read
from mirage.schedule.compare.preemption_costs import PreemptionCosts
from mirage.schedule.compare.scheduler_text import SchedulerText
from mirage.schedule.gpu_cluster import GpuCluster, ServerGroup
from mirage.schedule.scheduler_contract import GpuPlan, GpuStart, GpuView
from mirage.schedule.schedulers.gpu_scheduler_registry import SCHEDULERS, GpuSchedulerSpec
from mirage.schedule.speeds.profiles import Profiles, no_profiles, read_profiles
from mirage.schedule.speeds.speed_arrays import NO_TABLE
from mirage.schedule.workload.gpu_jobs import GpuJobs
from mirage.schedule.workload.gpu_workload import GpuWorkload
from mirage.study.trial import TrialFailure
from tests.support.toy_profiles import CLUSTER, write_profiles

ONE_GPU = GpuSetting(GpuCluster((ServerGroup("only", "gpu", 1, 1),)))


def workload(jobs: GpuJobs, setting: GpuSetting, **of: Any) -> GpuWorkload:
    return GpuWorkload("w", jobs, no_profiles(setting.cluster), **of)


@pytest.mark.parametrize(
    ("option", "value", "most"),
    [
        ("cost_spread", -0.001, "inf"),
        ("cost_spread", nan, "inf"),
        ("cost_spread", inf, "inf"),
        ("later_s", -1.0, "1e+10"),
        ("later_s", 1e10, "1e+10"),
        ("later_s", nan, "1e+10"),
    ],
)
def test_a_number_out_of_its_range_is_refused(option: str, value: float, most: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        GpuSetting(CLUSTER, **{option: value})
    assert str(refused.value) == f"{option} is {value}; give a number of 0 or more, below {most}"


def test_numbers_at_the_ends_of_their_ranges_are_taken() -> None:
    for cost_spread, later_s in ((0.0, 0.0), (1e300, 9.99e9)):
        setting = GpuSetting(CLUSTER, cost_spread=cost_spread, later_s=later_s)
        assert (setting.cost_spread, setting.later_s) == (cost_spread, later_s)


def test_jobs_must_fit_on_one_kind_where_types_have_several_and_a_scheduler_wants_it() -> None:
    """Also in two pools; two types of one kind each are no reason."""
    fifo, sia = SchedulerText.of("fifo"), SchedulerText.of("sia")
    first = ServerGroup("a", "gpu", 1, 2)
    for second, kinds_differ in (
        (ServerGroup("b", "gpu", 1, 1), True),
        (ServerGroup("b", "gpu", 1, 2, "inference"), True),
        (ServerGroup("b", "gpu", 3, 2), False),
        (ServerGroup("b", "other", 1, 1), False),
    ):
        setting = GpuSetting(GpuCluster((first, second)), seed=3)
        assert setting.under([fifo, sia]) == replace(setting, one_kind=kinds_differ)
        assert replace(setting, one_kind=True).under([fifo]) == setting


@pytest.mark.parametrize(
    "rows", ["time_s,pool,servers\n3600,b,1\n7200,b,2", "time_s,pool,requests_per_s\n3600,b,1\n7200,b,9"]
)
@pytest.mark.parametrize(
    ("submit_s", "refused"),
    [((0, 3599), True), ((0, 3600), False), ((7200, 9000), False), ((7201, 9000), True)],
)
def test_demand_on_another_clock_than_the_jobs_is_refused(
    tmp_path: Path, rows: str, submit_s: tuple[float, float], refused: bool
) -> None:
    (tmp_path / "demand.csv").write_text(rows)
    cluster = GpuCluster((ServerGroup("a", "gpu", 1, 2, "training"), ServerGroup("b", "gpu", 2, 2, "b")))
    assumptions = Assumptions(server_slots=8, service_s=1, notice_s=0)
    setting = GpuSetting(cluster, demand=str(tmp_path / "demand.csv"), assumptions=assumptions)
    refusal = pytest.raises(ConfigurationError, match=r"from 3,600 s to 7,200 s, .* on one clock")
    with refusal if refused else nullcontext():
        assert len(setting.demand_of(SimpleNamespace(submit_s=np.array(submit_s)))) == 2  # type: ignore[arg-type]


def test_demand_that_does_not_change_may_begin_before_the_jobs(tmp_path: Path) -> None:
    (tmp_path / "demand.csv").write_text("time_s,pool,servers\n0,b,1")
    setting = GpuSetting(GpuCluster((ServerGroup("b", "gpu", 2, 2, "b"),)), demand=str(tmp_path / "demand.csv"))
    assert len(setting.demand_of(SimpleNamespace(submit_s=np.array([9000.0])))) == 1  # type: ignore[arg-type]


def test_an_outcome_is_read_back_as_it_was_stored() -> None:
    row = GpuComparisonRow("w", "fifo", 1.5, 2, 3, 4, 5, 6, 7, None, 8.25, 9, 10, 11)
    outcome = GpuOutcome(row, (1.0, 2.5), (("no GPU", 3), ("no run time", 1)), ("a remark", "another"))
    plain = json.loads(json.dumps(asdict(outcome)))
    assert GpuOutcome.from_json(plain) == outcome
    assert GpuOutcome.from_json(plain | {"left_out": [], "notes": []}) == GpuOutcome(row, (1.0, 2.5))
    with pytest.raises(ValueError, match="invalid literal"):
        GpuOutcome.from_json(plain | {"left_out": [["no GPU", "three"]]})
    for name in plain:
        with pytest.raises(KeyError, match=name):
            GpuOutcome.from_json({key: value for key, value in plain.items() if key != name})
    with pytest.raises(TypeError, match="mean_jct_s"):
        GpuOutcome.from_json(plain | {"row": {"workload": "w"}})


def test_jobs_that_fit_nowhere_are_counted_by_the_gpus_that_there_are() -> None:
    """On the slow type there are 4 GPUs, on the fast one 8; the other reasons stay."""
    setting = GpuSetting(
        GpuCluster((ServerGroup("a", "slow", 2, 2), ServerGroup("b", "fast", 1, 8))), skip_impossible=True
    )
    jobs = GpuJobs.linear([0, 1, 2, 3], [9, 8, 20, 12], [5, 6, 7, 8], min_gpus=[9, 8, 10, 3], max_gpus=[9, 16, 20, 12])
    found = fitting(workload(jobs, setting, left_out={"no GPU": 2}), setting)
    assert found.jobs.id.tolist() == [1, 3]
    assert (found.jobs.gpus.tolist(), found.jobs.min_gpus.tolist(), found.jobs.max_gpus.tolist()) == (
        [8, 8],
        [8, 3],
        [8, 8],
    )
    assert found.left_out == {"no GPU": 2, "more than 8 GPUs needed": 2}


def test_a_job_that_fits_nowhere_is_refused_with_the_reason() -> None:
    setting = GpuSetting(GpuCluster((ServerGroup("a", "gpu", 2, 2), ServerGroup("b", "gpu", 1, 3))))
    jobs = GpuJobs.linear([0, 1, 2], [7, 8, 9], [5, 5, 5], name=("fits", "wide", "wider"))
    remedy = "give --skip-impossible to leave such jobs out, or a larger --cluster"
    for chosen, first, needed, there in (
        (setting, "wide", 8, "7 of one type"),
        (replace(setting, one_kind=True), "fits", 7, "4 of one type, one size and one pool"),
    ):
        with pytest.raises(ConfigurationError) as refused:
            fitting(workload(jobs, chosen), chosen)
        assert str(refused.value) == f"w: job {first!r} needs {needed} GPUs, but there are {there}; {remedy}"
    skipping = replace(setting, skip_impossible=True)
    with pytest.raises(ConfigurationError) as refused:
        fitting(workload(jobs[1:], skipping), skipping)
    assert str(refused.value) == "w: no job fits on the 7 GPUs of one type; give a larger --cluster"
    assert fitting(workload(jobs, skipping), skipping).jobs.name == ("fits",)


def test_types_on_which_a_model_does_not_run_do_not_count(tmp_path: Path) -> None:
    setting = GpuSetting(
        GpuCluster((*CLUSTER.groups, ServerGroup("x", "h100", 9, 9))), str(write_profiles(tmp_path / "p"))
    )
    (tmp_path / "w.csv").write_text(
        "name,time,application,num_replicas,batch_size,category\na,0,toy,5,40,rigid\n", encoding="utf-8"
    )
    for one_kind, alike in ((False, "one type"), (True, "one type, one size and one pool")):
        trial = GpuTrial(str(tmp_path / "w.csv"), SchedulerText.of("fifo"))
        _, failure = begin(replace(setting, one_kind=one_kind))(trial)
        assert isinstance(failure, TrialFailure)
        assert f"w.csv: job 'a' needs 5 GPUs, but there are 4 of {alike} on which toy runs; give --skip" in str(failure)


def test_a_job_of_a_pool_fits_on_one_kind_of_its_pool() -> None:
    setting = GpuSetting(
        GpuCluster((ServerGroup("a", "gpu", 1, 8, "training"), ServerGroup("b", "gpu", 2, 2, "inference"))),
        one_kind=True,
        skip_impossible=True,
    )
    jobs = GpuJobs.linear([0, 1, 2, 3], [8, 8, 4, 5], [5, 5, 5, 5], pool=[-1, 0, 1, 1])
    found = fitting(workload(jobs, setting), setting)
    assert (found.jobs.id.tolist(), found.left_out) == ([0, 1, 2], {"more than 4 GPUs needed": 1})


def test_the_first_jobs_of_a_file_are_played_later(tmp_path: Path) -> None:
    path = tmp_path / "w.csv"
    rows = ["2017-01-01 00:00:10,5,1", "2017-01-01 00:00:20,6,1", "2017-01-01 00:00:30,7,1", "2017-01-01 00:00:40,0,1"]
    path.write_text("\n".join(["timestamp,duration,num_gpus", *rows, ""]))
    profiles = no_profiles(CLUSTER)
    whole = read(GpuSetting(CLUSTER), str(path), profiles)
    assert (whole.jobs.submit_s.tolist(), whole.left_out) == ([0, 10, 20], {"no run time or no GPU": 1})
    part = read(GpuSetting(CLUSTER, first_jobs=2, later_s=7.5), str(path), profiles)
    assert (part.jobs.submit_s.tolist(), part.jobs.run_s.tolist()) == ([7.5, 17.5], [5, 6])
    assert part.left_out == {"no run time or no GPU (of the whole file)": 1}
    assert part.path == whole.path == str(path)


@pytest.mark.parametrize("row", ["a,1e17,100,1", "a,0,1e16,1"])
def test_times_that_cannot_be_resolved_are_refused(tmp_path: Path, row: str) -> None:
    path = tmp_path / "w.csv"
    path.write_text(f"job_id,submit_s,run_s,gpus\n{row}\n")
    with pytest.raises(ConfigurationError, match=r"w\.csv: job 'a' is submitted .* times must be below 1e\+10 s"):
        read(GpuSetting(CLUSTER), str(path), no_profiles(CLUSTER))


def test_an_outcome_has_all_measures_of_its_row_and_what_was_left_out() -> None:
    """The first job is killed at 10 after a start of 4 s, and does its 6 s again from 25 on."""
    costs = PreemptionCosts(restart_s=4.0, checkpoint_s=1000.0)
    setting = replace(ONE_GPU, preemption_costs=costs)
    jobs = GpuJobs.linear([0, 10], [1, 1], [100, 15])
    of = workload(jobs, setting, left_out={"no GPU": 1}, notes=("a remark",))
    outcome, log = play(setting, of, SchedulerText.of("srtf"))
    row = outcome.row
    assert (row.workload, row.scheduler, row.jobs) == ("w", "srtf", 2)
    assert (row.mean_jct_s, row.mean_wait_s, row.makespan_s) == ((129 + 15) / 2, 7.5, 129)
    assert row.p99_jct_s == pytest.approx(15 + 0.99 * 114)
    assert (row.preemptions, row.restarts) == (1, 1)
    assert (row.gpu_h * 3600, row.lost_gpu_h * 3600, row.overhead_gpu_h * 3600) == pytest.approx((129, 10, 4))
    assert (row.policy_ms, row.policy_p95_ms) == (None, None)
    assert (outcome.jct_s, outcome.left_out, outcome.notes) == ((129, 15), (("no GPU", 1),), ("a remark",))
    assert log.rows.due_s.tolist() == [129, 25]


def test_costs_are_drawn_by_the_seed_of_the_setting() -> None:
    jobs = GpuJobs.linear([0, 10], [1, 1], [100, 5], restart_s=50)  # the second job preempts the first

    def overhead_h(**options: Any) -> float:
        setting = replace(ONE_GPU, **options)
        return play(setting, workload(jobs, setting), SchedulerText.of("srtf"))[0].row.overhead_gpu_h

    assert overhead_h(seed=1) == overhead_h(seed=2) == pytest.approx(50 / 3600)
    assert overhead_h(cost_spread=0.5, seed=1) == overhead_h(cost_spread=0.5, seed=1)
    assert len({overhead_h(cost_spread=0.5, seed=seed) for seed in (1, 2)} | {overhead_h()}) == 3


class Known:
    """FIFO that records the run times that it knows, and the way to preempt that it got."""

    observed: ClassVar[list[Any]] = []

    def __init__(self, preempt: str) -> None:
        self.observed.append(preempt)

    def decide(self, view: GpuView) -> GpuPlan:
        self.observed.append(view.jobs.run_s.tolist())
        return GpuPlan(tuple(GpuStart(job) for job in view.jobs.id[view.jobs.pending].tolist()))


@pytest.mark.parametrize(("knows_run_s", "known_s"), [(True, 30.0), (False, nan)])
def test_a_scheduler_knows_run_times_if_its_specification_requests_them(
    knows_run_s: bool, known_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Known, "observed", [])
    spec = GpuSchedulerSpec(f"{__name__}:Known", "", {"preempt": "save"}, knows_run_s)
    monkeypatch.setitem(SCHEDULERS, "known", spec)
    setting = replace(ONE_GPU, preemption_costs=PreemptionCosts(checkpoint_s=9.0))
    play(setting, workload(GpuJobs.linear([5], [1], [30]), setting), SchedulerText.of("known"))
    assert Known.observed[::2] == ["kill", "kill"], "to warm up, and to play"
    np.testing.assert_array_equal(Known.observed[1::2], [[known_s]] * 2)


def test_measured_speeds_are_those_of_the_profiles(tmp_path: Path) -> None:
    profiles = read_profiles(write_profiles(tmp_path / "profiles"), CLUSTER)
    jobs = replace(
        GpuJobs.linear([0], [1], [1], max_gpus=4), model=np.zeros(1, np.int64), work=np.full(1, 300.0),
        batch=np.full(1, 10), models=profiles.models,
    )  # fmt: skip
    setting = GpuSetting(CLUSTER)
    outcome, _ = play(setting, GpuWorkload("w", jobs, profiles), SchedulerText.of("fifo"))
    assert outcome.jct_s == (300.0,)
    nowhere = profiles.speeds._replace(rows=np.full_like(profiles.speeds.rows, NO_TABLE))
    with pytest.raises(ConfigurationError, match="needs 1 GPU, but there are 0 of one type on which toy runs"):
        fitting(GpuWorkload("w", jobs, Profiles(profiles.models, nowhere)), setting)
