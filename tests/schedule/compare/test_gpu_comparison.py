"""Comparisons of schedulers: rows by hand, means, and results that are found again."""

from __future__ import annotations

import json
import pickle
import re
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from mirage.errors import ConfigurationError, ContractBroken, MirageError, SlurmError, TraceError, UnknownName
from mirage.schedule.compare.gpu_comparison import FILE, compare, trial_keys
from mirage.schedule.compare.gpu_comparison_row import MEAN, GpuComparisonRow, mean_rows, policy_times_ms
from mirage.schedule.compare.gpu_trial import WARM_UP_DECISIONS, GpuSetting, GpuTrial, begin
from mirage.schedule.compare.scheduler_text import SchedulerText
from mirage.schedule.gpu_cluster import GpuCluster, ServerGroup
from mirage.schedule.scheduler_contract import Event, GpuPlan, GpuStart, GpuView, Surroundings
from mirage.schedule.schedulers.gpu_scheduler_registry import SCHEDULERS, GpuSchedulerSpec
from tests.support.toy_profiles import CLUSTER, write_profiles

ONE_GPU = GpuSetting(GpuCluster((ServerGroup("only", "gpu", 1, 1),)))


def _philly(folder: Path, name: str, jobs: list[tuple[int, int, int]]) -> str:
    """A workload of (submission, run time, GPUs)."""
    rows = [f"2017-01-01 00:{at_s // 60:02d}:{at_s % 60:02d},{run_s},{gpus},0,x" for at_s, run_s, gpus in jobs]
    path = folder / f"{name}.csv"
    path.write_text("\n".join(["timestamp,duration,num_gpus,gpu_time,cluster", *rows, ""]))
    return str(path)


@pytest.fixture
def workloads(tmp_path: Path) -> list[str]:
    first = _philly(tmp_path, "first", [(0, 100, 1), (10, 50, 1), (20, 20, 1)])
    return [first, _philly(tmp_path, "second", [(0, 60, 1)])]


def test_rows_by_hand(workloads: list[str]) -> None:
    # in order of submission the three end at 100, 150 and 170; shortest first at 100, 170 and 120
    found = compare(workloads, ["fifo", "sjf"], ONE_GPU)
    assert [(Path(row.workload).name, row.scheduler) for row in found.rows] == [
        ("first", "fifo"), ("first", "sjf"), ("second", "fifo"), ("second", "sjf"), (MEAN, "fifo"), (MEAN, "sjf"),
    ]  # fmt: skip
    fifo, sjf = found.rows[:2]
    assert fifo.mean_jct_s == pytest.approx((100 + 140 + 150) / 3)
    assert sjf.mean_jct_s == pytest.approx((100 + 160 + 100) / 3)
    assert fifo.mean_wait_s == pytest.approx((0 + 90 + 130) / 3)
    assert fifo.makespan_s == pytest.approx(170)
    assert fifo.gpu_h == pytest.approx(170 / 3600)
    assert (fifo.preemptions, fifo.lost_gpu_h, fifo.jobs) == (0, 0.0, 3)
    assert found.rows[4].mean_jct_s == pytest.approx((130 + 60) / 2)
    assert found.outcomes[1].jct_s == pytest.approx((100, 160, 100))


def test_measured_jobs_take_the_time_of_their_model(tmp_path: Path) -> None:
    (tmp_path / "w.csv").write_text("name,time,application,num_replicas,batch_size\na,30,toy,1,10\n")
    setting = GpuSetting(CLUSTER, str(write_profiles(tmp_path / "profiles")))
    (row,) = compare([str(tmp_path / "w.csv")], ["fifo"], setting).rows
    # 300 units at one a second on a fast GPU, and 12 s to start
    assert row.mean_jct_s == pytest.approx(312.0)
    assert row.overhead_gpu_h == pytest.approx(12 / 3600)
    later = compare([str(tmp_path / "w.csv")], ["fifo"], replace(setting, later_s=1.0)).rows[0]
    assert later.mean_jct_s == pytest.approx(312.0)


def test_results_are_found_again_until_something_changes(workloads: list[str], tmp_path: Path) -> None:
    results = tmp_path / "results"
    completed: list[tuple[int, int]] = []
    first = compare(workloads, ["fifo"], ONE_GPU, resume_folder=results, progress=lambda *at: completed.append(at))
    assert (first.reused, completed) == (0, [(0, 2), (1, 2), (2, 2)])
    again = compare(workloads, ["fifo", "sjf"], ONE_GPU, resume_folder=results)
    assert again.reused == 2
    assert again.rows[0] == first.rows[0]
    assert compare(workloads, ["fifo"], replace(ONE_GPU, seed=1), resume_folder=results).reused == 0
    _philly(tmp_path, "second", [(0, 61, 1)])
    assert compare(workloads, ["fifo"], ONE_GPU, resume_folder=results).reused == 1


def test_results_are_played_again_where_folders_of_models_change_names(tmp_path: Path) -> None:
    """Also if the order of all files stays: ``b`` becomes ``c``, and ``a`` the new ``b``."""
    (tmp_path / "w.csv").write_text("name,time,application,num_replicas,batch_size\nx,0,b,1,10\n")
    profiles = tmp_path / "profiles"
    (write_profiles(profiles) / "toy").rename(profiles / "b")
    shutil.copytree(profiles / "b", profiles / "a")
    (profiles / "a" / "validation-10.csv").write_text("progress,grad_sqr,grad_var\n50,1,3\n150,1,9\n")
    setting = GpuSetting(CLUSTER, str(profiles))
    first = compare([str(tmp_path / "w.csv")], ["fifo"], setting, resume_folder=tmp_path)
    (profiles / "b").rename(profiles / "c")
    (profiles / "a").rename(profiles / "b")
    again = compare([str(tmp_path / "w.csv")], ["fifo"], setting, resume_folder=tmp_path)
    assert again.reused == 0
    assert again.rows[0].mean_jct_s < first.rows[0].mean_jct_s


def test_a_line_that_was_cut_off_is_played_again(workloads: list[str], tmp_path: Path) -> None:
    first = compare(workloads, ["fifo"], ONE_GPU, resume_folder=tmp_path)
    journal = tmp_path / FILE
    whole = journal.read_text()
    journal.write_text(whole[:-20])
    again = compare(workloads, ["fifo"], ONE_GPU, resume_folder=tmp_path)
    assert (again.reused, again.rows) == (1, first.rows)
    lines = journal.read_text().splitlines()
    assert [json.loads(lines[k])["key"] for k in (0, 2)] == [json.loads(line)["key"] for line in whole.splitlines()]


def test_jobs_that_fit_nowhere_are_refused_or_left_out(tmp_path: Path) -> None:
    wide = _philly(tmp_path, "wide", [(0, 100, 2), (10, 50, 1)])
    with pytest.raises(ConfigurationError, match=r"'0' needs 2 GPUs, but there are 1 of one type; .*--skip-impossible"):
        compare([wide], ["fifo"], ONE_GPU)
    (row,) = compare([wide], ["fifo"], replace(ONE_GPU, skip_impossible=True)).rows
    assert (row.jobs, row.mean_jct_s) == (1, 50.0)
    later = _philly(tmp_path, "later", [(0, 100, 1), (10, 50, 2)])
    assert compare([later], ["fifo"], replace(ONE_GPU, first_jobs=1)).rows[0].jobs == 1  # the other is not played


@pytest.mark.parametrize("scheduler", ["fifo", "gavel"])
def test_jobs_fit_on_types_that_their_model_was_measured_on(scheduler: str, tmp_path: Path) -> None:
    pytest.importorskip("scipy", reason="pip install mirage-hpc[schedule]")
    rows = ["name,time,application,num_replicas,batch_size,category", "a,0,toy,9,90,rigid", "b,0,toy,9,40,adaptive"]
    workload = tmp_path / "w.csv"
    workload.write_text("\n".join([*rows, ""]))
    cluster = GpuCluster((ServerGroup("new", "unmeasured", 2, 8), *CLUSTER.groups))
    setting = GpuSetting(cluster, str(write_profiles(tmp_path / "profiles")))
    with pytest.raises(ConfigurationError, match=r"'a' needs 9 GPUs, but there are 4 of one type.* on which toy runs"):
        compare([str(workload)], [scheduler], setting)
    (outcome,) = compare([str(workload)], [scheduler], replace(setting, skip_impossible=True)).outcomes
    assert outcome.left_out == (("more than 4 GPUs needed", 1),)
    row = outcome.row
    assert row.gpu_h * 3600 / (row.mean_jct_s - row.mean_wait_s) == pytest.approx(4)


def test_jobs_fit_on_servers_of_one_kind_where_a_scheduler_wants_it(tmp_path: Path) -> None:
    pytest.importorskip("scipy", reason="pip install mirage-hpc[schedule]")
    wide = _philly(tmp_path, "wide", [(0, 100, 3), (10, 50, 2)])
    setting = GpuSetting(GpuCluster((ServerGroup("a", "gpu", 1, 2), ServerGroup("b", "gpu", 1, 1))))
    assert compare([wide], ["fifo"], setting).rows[0].jobs == 2
    with pytest.raises(ConfigurationError, match="'0' needs 3 GPUs, but there are 2 of one type, one size and one"):
        compare([wide], ["fifo", "sia"], setting)
    rows = compare([wide], ["fifo", "sia"], replace(setting, skip_impossible=True)).rows
    assert [(row.scheduler, row.jobs) for row in rows] == [("fifo", 1), ("sia", 1)]


def test_a_trace_of_whole_nodes_takes_the_gpus_of_a_node_that_are_given(tmp_path: Path) -> None:
    trace = tmp_path / "whole.csv"
    trace.write_text("job_id,submit_s,start_s,end_s,nodes\n1,0,0,100,2\n")
    setting = GpuSetting(GpuCluster((ServerGroup("only", "gpu", 2, 4),)), gpus_per_node=4)
    (row,) = compare([str(trace)], ["fifo"], setting).rows
    assert row.gpu_h * 3600 == pytest.approx(8 * 100)


class StartsNone:
    """A scheduler of another package that fails on some workloads, each time otherwise."""

    def begin(self, surroundings: Surroundings) -> None:
        self.jobs = surroundings.jobs

    def decide(self, view: GpuView) -> GpuPlan:
        if self.jobs == 1:
            raise ValueError("one job\nis too few")
        return GpuPlan()


class Vendors:
    """A scheduler with a name of its own that requests a call at a time that is over."""

    name = "vendor-1.2"

    def decide(self, view: GpuView) -> GpuPlan:
        return GpuPlan(wake_s=-1.0)


class Unmade:
    """A scheduler of another package that cannot be made."""

    def __init__(self) -> None:
        raise OSError("no such\nlicence")


def test_a_scheduler_that_cannot_be_made_is_reported_in_one_line(
    workloads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SCHEDULERS, "unmade", GpuSchedulerSpec(f"{__name__}:Unmade", "fails"))
    with pytest.raises(ContractBroken, match=r"^OSError: no such licence \(.*\); fix the scheduler, or leave it out$"):
        compare(workloads, ["unmade", "fifo"], ONE_GPU)


def test_an_error_calls_a_scheduler_by_its_own_name(workloads: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SCHEDULERS, "vendor", GpuSchedulerSpec(f"{__name__}:Vendors", "fails"))
    (failed,) = compare(workloads[:1], ["vendor"], ONE_GPU).failed
    assert "vendor-1.2" in failed.error


def test_a_trial_that_fails_leaves_the_others_their_rows(
    workloads: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SCHEDULERS, "starts-none", GpuSchedulerSpec(f"{__name__}:StartsNone", "fails"))
    completed: list[tuple[int, int]] = []
    found = compare(
        workloads, ["starts-none", "fifo"], ONE_GPU, resume_folder=tmp_path, progress=lambda *at: completed.append(at)
    )
    assert [(Path(row.workload).name, row.scheduler) for row in found.rows] == [
        ("first", "fifo"), ("second", "fifo"), (MEAN, "fifo"),
    ]  # fmt: skip
    assert completed[-1] == (4, 4)
    assert [(Path(one.workload).name, one.scheduler) for one in found.failed] == [
        ("first", "starts-none"), ("second", "starts-none"),
    ]  # fmt: skip
    assert "StartsNone starts none of them" in found.failed[0].error
    assert re.search(r"ValueError: one job is too few.* \(.*test_gpu_comparison\.py:\d+\)", found.failed[1].error)
    assert compare(workloads, ["fifo"], ONE_GPU, resume_folder=tmp_path).reused == 2
    alone = compare(workloads[:1], ["starts-none"], ONE_GPU)
    assert (alone.rows, len(alone.failed)) == ((), 1)


def test_an_executor_that_breaks_down_leaves_what_was_played(workloads: list[str]) -> None:
    def breaks_down(begin: Any, made_of: Any, pieces: Sequence[Any]) -> Iterator[Any]:
        yield begin(made_of)(pieces[0])
        raise SlurmError("job 7 failed")

    found = compare(workloads, ["fifo"], ONE_GPU, executor=breaks_down)
    assert [(one.workload, one.error) for one in found.failed] == [("second", "not played: job 7 failed")]
    assert len(found.rows) == 1


def test_an_executor_that_breaks_down_at_once_is_reported_in_one_line(workloads: list[str]) -> None:
    def breaks_down(begin: Any, made_of: Any, pieces: Sequence[Any]) -> Iterator[Any]:
        yield from ()
        raise SlurmError("the array was not submitted")

    with pytest.raises(MirageError, match=r"^the array was not submitted$"):
        compare(workloads, ["fifo"], ONE_GPU, executor=breaks_down)


def test_workloads_of_one_name_are_distinguished_and_have_a_mean(workloads: list[str], tmp_path: Path) -> None:
    for folder in ("x/a", "y/a"):
        (tmp_path / folder).mkdir(parents=True)
    same = [_philly(tmp_path / folder, "w", [(0, run_s, 1)]) for folder, run_s in (("x/a", 100), ("y/a", 50))]
    for _ in range(2):  # played, then taken over
        rows = compare(same, ["fifo"], ONE_GPU, resume_folder=tmp_path).rows
        assert [(row.workload, row.mean_jct_s) for row in rows] == [("x/a/w", 100), ("y/a/w", 50), (MEAN, 75)]


def test_a_job_that_can_run_on_fewer_gpus_requests_those_that_exist(tmp_path: Path) -> None:
    (tmp_path / "w.csv").write_text("name,time,application,num_replicas,batch_size\na,0,toy,9,40\n")
    setting = GpuSetting(CLUSTER, str(write_profiles(tmp_path / "profiles")))
    (row,) = compare([str(tmp_path / "w.csv")], ["fifo"], setting).rows
    assert row.gpu_h * 3600 / row.mean_jct_s == pytest.approx(4)


def test_what_cannot_be_compared_is_refused(workloads: list[str], tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"^schedulers: fifo, srtf is given twice; name each once$"):
        compare(workloads, ["srtf", "fifo", "sjf", "fifo", "srtf"], ONE_GPU)
    with pytest.raises(ConfigurationError, match=r"^schedulers: none; name each once$"):
        compare(workloads, [], ONE_GPU)
    with pytest.raises(ConfigurationError, match=r"^workloads: none; name each once$"):
        compare([], ["fifo"], ONE_GPU)
    with pytest.raises(UnknownName, match="unknown GPU scheduler 'fife'. Did you mean 'fifo'"):  # noqa: RUF043
        compare(workloads, ["fife"], ONE_GPU)
    with pytest.raises(TraceError, match=r"gone\.csv: cannot be read"):
        compare([str(tmp_path / "gone.csv")], ["fifo"], ONE_GPU)
    with pytest.raises(ConfigurationError, match=r"gone\.csv: cannot be read"):
        compare([str(tmp_path / "gone.csv")], ["fifo"], ONE_GPU, resume_folder=tmp_path)
    once = "standard input can be read once only, but every scheduler plays the workload; save it to a file, or play it"
    with pytest.raises(ConfigurationError, match=rf"^-: {once} under one scheduler with mirage schedule run$"):
        compare(["-"], ["fifo"], ONE_GPU)
    with pytest.raises(ConfigurationError, match="cannot store results"):
        compare(workloads, ["fifo"], ONE_GPU, resume_folder=Path(workloads[0]))


def test_a_trial_can_be_sent_to_another_process(workloads: list[str]) -> None:
    trial = GpuTrial(workloads[0], SchedulerText.of("fifo"))
    work, setting, piece = pickle.loads(pickle.dumps((begin, ONE_GPU, trial)))
    done, outcome = work(setting)(piece)
    assert pickle.loads(pickle.dumps((done, outcome))) == (trial, outcome)
    assert outcome == compare(workloads[:1], ["fifo"], ONE_GPU).outcomes[0]


def test_the_key_of_a_trial_changes_with_its_files_its_scheduler_and_its_setting(
    workloads: list[str], tmp_path: Path
) -> None:
    profiles = tmp_path / "profiles"
    write_profiles(profiles)
    measured = replace(ONE_GPU, profiles=str(profiles))
    trial = GpuTrial(workloads[0], SchedulerText.of("srtf"))

    def key(setting: GpuSetting = measured, of: GpuTrial = trial) -> str:
        return trial_keys(setting)(of)

    first = key()
    assert key() == first
    others = {
        key(ONE_GPU),
        key(replace(measured, seed=1)),
        key(of=replace(trial, workload=workloads[1])),
        key(of=replace(trial, scheduler=SchedulerText.of("srtf:preempt=kill"))),
        key(of=replace(trial, scheduler=SchedulerText.of("fifo"))),
    }
    assert len(others | {first}) == 6
    shutil.copytree(profiles, tmp_path / "copy")
    shutil.copy(workloads[0], tmp_path / "copy.csv")
    assert key(replace(measured, profiles=str(tmp_path / "copy"))) == first, "the same content, at another path"
    assert key(of=replace(trial, workload=str(tmp_path / "copy.csv"))) == first
    (profiles / "toy" / "more").mkdir()
    assert key() == first, "an empty folder has no content"
    (profiles / "toy" / "more" / "a").write_text("")
    assert key() != first


def test_a_file_that_cannot_be_read_has_no_key(tmp_path: Path) -> None:
    gone = str(tmp_path / "gone")
    for setting in (ONE_GPU, replace(ONE_GPU, profiles=gone)):
        with pytest.raises(ConfigurationError) as refused:
            trial_keys(setting)(GpuTrial(gone, SchedulerText.of("fifo")))
        assert str(refused.value) == f"{gone}: cannot be read: No such file or directory; check the path"
    with pytest.raises(ConfigurationError, match="cannot be read"):
        trial_keys(replace(ONE_GPU, profiles=gone))


def test_the_time_of_a_policy_is_that_of_its_busy_rounds() -> None:
    assert policy_times_ms([]) == (None, None)
    decisions = [(60.0, 1, 9.0), (61.5, 7, 5.0), (120.0, 5, 1.0), (180.0, 6, 3.0)]
    assert policy_times_ms(decisions, 60.0) == (pytest.approx(2000.0), pytest.approx(2900.0))
    assert policy_times_ms(decisions)[0] == pytest.approx(3000.0)
    assert policy_times_ms(decisions[:1], 60.0)[0] == pytest.approx(9000.0)  # no round was busy
    assert policy_times_ms([(60.0, 4, 9.0), (60.0, 5, 1.0)]) == (1000.0, 1000.0)  # five jobs are enough
    assert policy_times_ms([(61.0, 5, 1.0)], 60.0) == (None, None)


def test_a_row_is_written_by_the_names_of_its_measures() -> None:
    row = GpuComparisonRow("w", "fifo", 1, 2, 3, 4, 5, 6, 7, None, 8.5, restarts=9, overhead_gpu_h=10, jobs=11)
    plain = row.to_json()
    assert GpuComparisonRow(**plain) == row
    assert (plain["workload"], plain["policy_ms"], plain["policy_p95_ms"], plain["jobs"]) == ("w", None, 8.5, 11)


class LoadsFirst:
    """FIFO that takes 100 s of processor time for its first decision, and 2 ms for others."""

    spent_s = 0.0
    decided: ClassVar[list[int]] = []

    def __init__(self, least: int) -> None:
        self.least = least
        self.decided.append(0)

    def decide(self, view: GpuView) -> GpuPlan:
        LoadsFirst.spent_s += 0.002 if any(self.decided) else 100.0
        self.decided[-1] += 1
        waiting = sorted(view.jobs.id[view.jobs.pending].tolist())
        return GpuPlan(
            tuple(GpuStart(job) for job in waiting) if self.decided[-1] > 1 or len(waiting) >= self.least else ()
        )


@pytest.mark.parametrize(("least", "warm"), [(1, 10), (11, 1)])
def test_what_a_policy_loads_first_is_not_part_of_its_time(
    least: int, warm: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it waits for more jobs than the warm-up has, and so starts none there."""
    monkeypatch.setattr(time, "process_time", lambda: LoadsFirst.spent_s)
    monkeypatch.setattr(LoadsFirst, "decided", [])
    spec = GpuSchedulerSpec(f"{__name__}:LoadsFirst", "", {"least": least})
    monkeypatch.setitem(SCHEDULERS, "loads-first", spec)
    path = _philly(tmp_path, "twelve", [(0, 100 - k, 1) for k in range(12)])
    loads, fifo = compare([path], ["loads-first", "fifo"], ONE_GPU).rows
    assert LoadsFirst.decided == [0, warm, 12], "made to see that it can be, to warm up, to count"
    assert (loads.policy_ms, loads.policy_p95_ms) == (pytest.approx(2.0), pytest.approx(2.0))
    assert (loads.mean_jct_s, loads.makespan_s) == (fifo.mean_jct_s, fifo.makespan_s)


class CallCounter:
    """FIFO at the calls that it requests; counts the decisions of each of its instances."""

    decided: ClassVar[list[int]] = []

    def __init__(self, round_s: float, called_on: int) -> None:
        self.round_s, self.called_on = round_s or None, called_on or None
        self.decided.append(0)

    def decide(self, view: GpuView) -> GpuPlan:
        self.decided[-1] += 1
        return GpuPlan(tuple(GpuStart(job) for job in sorted(view.jobs.id[view.jobs.pending].tolist())))


@pytest.mark.parametrize(
    ("round_s", "called_on", "warm", "played"),
    [(10.0, 0, WARM_UP_DECISIONS, 100), (0.0, int(Event.SUBMITTED), 1, 3), (0.0, 0, 3, 5)],
)
def test_a_scheduler_is_warmed_up_by_its_own_calls_and_not_to_the_end(
    round_s: float, called_on: int, warm: int, played: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CallCounter, "decided", [])
    spec = GpuSchedulerSpec(f"{__name__}:CallCounter", "", {"round_s": 0.0, "called_on": 0})
    monkeypatch.setitem(SCHEDULERS, "counts-calls", spec)
    path = _philly(tmp_path, "three", [(0, 995, 1), (5, 400, 1), (9, 300, 1)])  # in rounds they start at 10
    setting = GpuSetting(GpuCluster((ServerGroup("three", "gpu", 1, 3),)))
    compare([path], [f"counts-calls:round_s={round_s}:called_on={called_on}"], setting)
    assert CallCounter.decided == [0, warm, played]


def test_means_leave_out_what_is_not_known() -> None:
    row = GpuComparisonRow("a", "x", 1, 1, 1, 1, 1, 1, 1, None, None)
    (mean,) = mean_rows([row, replace(row, workload="b", mean_jct_s=3, policy_ms=4.0)], 2)
    assert (mean.workload, mean.mean_jct_s, mean.policy_ms, mean.policy_p95_ms) == (MEAN, 2.0, 4.0, None)
    assert mean_rows([row], 1) == []
    other = replace(row, scheduler="y")
    rows = [row, replace(row, workload="b"), other]
    assert [found.scheduler for found in mean_rows(rows, 2)] == ["x"]  # y lacks a workload
    assert mean_rows(rows, 3) == []  # one workload was played by none
