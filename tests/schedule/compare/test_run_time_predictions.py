"""Predicted run times: their error, their seed, and what schedulers know of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mirage.errors import ConfigurationError
from mirage.schedule.compare.gpu_comparison import compare
from mirage.schedule.compare.gpu_trial import GpuSetting, read
from mirage.schedule.compare.run_time_predictions import with_predictions
from mirage.schedule.engine.gpu_simulation import GpuSimulation
from mirage.schedule.gpu_cluster import GpuCluster, ServerGroup
from mirage.schedule.scheduler_contract import GpuPlan, GpuStart, GpuView
from mirage.schedule.schedulers.gpu_scheduler_registry import make_scheduler
from mirage.schedule.speeds.profiles import no_profiles
from mirage.schedule.workload.gpu_jobs import GpuJobs
from tests.support.toy_profiles import CLUSTER, write_profiles

ONE_GPU = GpuCluster((ServerGroup("only", "gpu", 1, 1),))
JOBS = GpuJobs.linear(np.arange(2000.0), np.ones(2000), np.linspace(10, 5000, 2000), estimate_s=9e9)


def test_predictions_have_the_error_and_replace_estimates() -> None:
    errors = np.log(with_predictions("w", JOBS, 0.5, seed=3).estimate_s / JOBS.run_s)
    assert errors.std() == pytest.approx(0.5, rel=0.05)
    assert errors.mean() == pytest.approx(0.0, abs=0.05)
    assert with_predictions("w", JOBS, 0.0, seed=3) is JOBS


def test_a_draw_depends_on_the_seed_and_the_number_of_the_job_alone() -> None:
    first = with_predictions("w", JOBS, 1.0, seed=3).estimate_s
    assert (with_predictions("w", JOBS, 1.0, seed=3).estimate_s == first).all()
    assert (with_predictions("w", JOBS, 1.0, seed=4).estimate_s != first).all()
    assert (with_predictions("w", JOBS[500:1500], 1.0, seed=3).estimate_s == first[500:1500]).all()


def test_a_job_without_a_run_time_cannot_be_predicted() -> None:
    unknown = replace(JOBS[:2], run_s=np.array([5.0, np.inf]))
    with pytest.raises(ConfigurationError, match=r"w: the run time of job '1' .*leave out --prediction-error"):
        with_predictions("w", unknown, 0.1, seed=0)


def test_schedulers_order_by_predictions(tmp_path: Path) -> None:
    """Three jobs wait for one GPU: ``sjf`` follows the predictions, ``fifo`` does not."""
    path = tmp_path / "w.csv"
    path.write_text("job_id,submit_s,run_s,gpus\na,0,100,1\nb,1,50,1\nc,2,51,1\nd,3,52,1\n")
    settings = [GpuSetting(ONE_GPU, prediction_error=3.0, seed=seed) for seed in range(4)]
    known = [read(setting, str(path), no_profiles(ONE_GPU)).jobs.estimate_s[1:] for setting in settings]
    orders = {tuple(np.argsort(each).tolist()) for each in known}
    assert len(orders) > 1
    for setting, estimate_s in zip(settings, known):
        fifo, sjf = compare([str(path)], ["fifo", "sjf"], setting).outcomes
        ends_s = np.array([1.0, 2.0, 3.0]) + sjf.jct_s[1:]
        assert np.argsort(ends_s).tolist() == np.argsort(estimate_s).tolist()
        assert fifo.jct_s == pytest.approx((100, 149, 199, 250))


class _Watcher:
    """Starts jobs as they come, and stores what it observes of job 0."""

    name, round_s = "watcher", 10.0

    def __init__(self) -> None:
        self.observed: list[tuple[float, float, float, float]] = []

    def decide(self, view: GpuView) -> GpuPlan:
        jobs = view.jobs
        row = int(np.flatnonzero(jobs.id == 0)[0])
        numbers = (jobs.run_s[row], jobs.done[row], jobs.checkpoint_work[row])
        self.observed.append((view.now_s, *(float(number) for number in numbers)))
        return GpuPlan(tuple(GpuStart(int(job)) for job in jobs.id[jobs.pending]))


@pytest.mark.parametrize("epochs", [0, 4])
def test_the_first_epoch_shows_the_run_time(epochs: int) -> None:
    """A job of 200 s on 2 GPUs, in four epochs of 50 s, is predicted as 80 s.

    After 80 s it is expected to take 160 s, if its epochs are not known.
    """
    jobs = GpuJobs.linear([0], [2], [200.0], estimate_s=80.0, checkpoint_s=50.0, epochs=epochs)
    watcher = _Watcher()
    GpuSimulation(GpuCluster((ServerGroup("only", "gpu", 1, 2),)), jobs, watcher, known="run-time").run()
    observed = {now_s: numbers for now_s, *numbers in watcher.observed}
    # it starts in the first round, at 10 s; its first epoch ends at 60 s
    error = 0.4 if epochs else 1.0  # without epochs, checkpoints do not depend on the run time
    assert observed[50] == pytest.approx([80, 0.5, 100 * error])
    assert observed[60] == pytest.approx([200, 0.25, 100] if epochs else [80, 0.625, 100])
    assert observed[110] == pytest.approx([200, 0.5, 100] if epochs else [160, 0.625, 100])


@pytest.mark.parametrize(("name", "parameters"), [("srtf", {}), ("pickyman-plus", {"min_run_s": 0.0})])
@pytest.mark.parametrize("epochs", [0, 40])
def test_schedulers_use_what_the_first_epoch_shows(name: str, parameters: dict[str, float], epochs: int) -> None:
    """The first job is predicted as 50 s and takes 1,000 s; the second one comes at 30 s."""
    jobs = GpuJobs.linear([0, 30], [1, 1], [1000.0, 300.0], estimate_s=[50, 300], checkpoint_s=25.0, epochs=[epochs, 0])
    log = GpuSimulation(ONE_GPU, jobs, make_scheduler(name, **parameters), known="run-time").run()
    assert log.rows.start_s[1] == (30.0 if epochs else 1000.0)


def test_jobs_with_measured_models_are_predicted_too(tmp_path: Path) -> None:
    profiles = write_profiles(tmp_path / "profiles")
    (tmp_path / "w.csv").write_text("name,time,application,num_replicas,batch_size\na,0,toy,1,10\nb,9,toy,4,40\n")
    row = compare([str(tmp_path / "w.csv")], ["sjf"], GpuSetting(CLUSTER, str(profiles), prediction_error=0.3)).rows[0]
    assert row.jobs == 2


@pytest.mark.parametrize(("name", "value"), [("prediction_error", -1.0), ("save_succeeds", 1.5)])
def test_numbers_that_cannot_be_are_refused(name: str, value: float) -> None:
    with pytest.raises(ConfigurationError, match=f"{name} is {value}; give"):
        GpuSetting(ONE_GPU, **{name: value})  # type: ignore[arg-type]
