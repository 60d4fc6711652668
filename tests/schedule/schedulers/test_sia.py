"""Sia's rounds: measurements, configurations, values, and whole workloads."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mirage.errors import ConfigurationError, UnknownName
from mirage.schedule.engine.gpu_simulation import GpuSimulation
from mirage.schedule.gpu_cluster import GpuCluster, ServerGroup, gpu_cluster
from mirage.schedule.rounds.configurations import JobColumns
from mirage.schedule.scheduler_contract import GpuPlan, GpuPreempt, GpuResize, GpuStart, GpuView, JobStatus
from mirage.schedule.schedulers.gpu_scheduler_registry import make_scheduler
from mirage.schedule.schedulers.sia import Sia, SiaPlus
from mirage.schedule.speeds.profiles import read_profiles
from mirage.schedule.speeds.speed_arrays import LINEAR, NO_TABLE, Speeds, linear_speeds
from mirage.schedule.workload.gpu_jobs import GpuJobs
from mirage.schedule.workload.gpu_workload import read_workload

CLUSTER = GpuCluster((ServerGroup("slow", "slow", 2, 4), ServerGroup("fast", "fast", 1, 4)))
EPOCHS, EPOCH_WORK, RESTART_S = 20, 400.0, 10.0
FIRST_BATCH, LARGEST_BATCH = 16, 512


def _speeds() -> Speeds:
    """One model: a pass takes 0.1 s and 10 ms a sample, half of that on the fast type."""
    rows, step_s, sync_s = np.full((1, 2, 3, 12), -1), [], []
    knots = np.array([8.0, 64.0])
    for gpu_type, pace in ((0, 1.0), (1, 0.5)):
        for servers in (1, 2):
            for gpus in range(servers, 13):
                sync = 0.0 if gpus == 1 else 0.02 * servers + 0.002 * gpus
                rows[0, gpu_type, servers - 1 : (1 if servers == 1 else 3), gpus - 1] = len(step_s)
                step_s.append(pace * (0.1 + 0.01 * knots) + sync)
                sync_s.append(np.full(2, sync))
    n = len(step_s)
    return linear_speeds(np.array([1.0, 2.0]))._replace(
        rows=rows.astype(np.int64),
        knots=np.full(n, 2),
        local_batch=np.tile(knots, (n, 1)),
        step_s=np.array(step_s),
        sync_s=np.array(sync_s),
        row_max_local=np.full(n, 64),
        memory_max_local=np.full((1, 2, 12), 64),
        min_local=np.full((1, 2), 8),
        max_local=np.full((1, 2), 64),
        one_gpu_rate=np.array([[64 / 0.74, 64 / 0.37]]),
        init_batch=np.array([FIRST_BATCH]),
        max_batch=np.array([LARGEST_BATCH]),
        slowdown=np.ones(1),
        restart_s=np.array([RESTART_S]),
        epochs=np.array([EPOCHS]),
        epoch_end=np.arange(1, EPOCHS + 1)[None, :] * EPOCH_WORK,
        noise_knots=np.array([2]),
        noise_batch=np.array([[float(FIRST_BATCH), float(LARGEST_BATCH)]]),
        grad_sqr=np.ones((1, 2, EPOCHS)),
        grad_var=np.full((1, 2, EPOCHS), 30.0),
    )


def _jobs(submit_s: list[float], restart_s: float = RESTART_S) -> GpuJobs:
    n = len(submit_s)
    linear = GpuJobs.linear(submit_s, np.full(n, 2), np.ones(n), min_gpus=np.ones(n), max_gpus=np.full(n, 12))
    changed = {
        "model": np.zeros(n, np.int64),
        "batch": np.full(n, 256),
        "work": np.full(n, EPOCHS * EPOCH_WORK),
        "run_s": np.full(n, np.nan),
        "restart_s": np.full(n, restart_s),
        "models": ("toy",),
    }
    columns = {name: getattr(linear, name) for name in linear.__dataclass_fields__}
    return GpuJobs(**{**columns, **changed})


class RecordedScheduler:
    """Another scheduler, with a record of its rounds."""

    def __init__(self, scheduler: Sia) -> None:
        self.scheduler, self.round_s = scheduler, scheduler.round_s
        self.begin = scheduler.begin
        self.rounds: list[tuple[GpuView, GpuPlan]] = []

    def decide(self, view: GpuView) -> GpuPlan:
        observed, plan = view.copy(), self.scheduler.decide(view)
        self.rounds.append((observed, plan))
        return plan


def _run(scheduler: Sia, submit_s: list[float], restart_s: float = RESTART_S) -> RecordedScheduler:
    recorded = RecordedScheduler(scheduler)
    log = GpuSimulation(CLUSTER, _jobs(submit_s, restart_s), recorded, speeds=_speeds(), strict=True).run()
    assert np.isfinite(log.rows.due_s).all()
    return recorded


def _sizes(recorded: RecordedScheduler, job: int) -> list[int]:
    """GPUs that a job was given, one after the other."""
    actions = [action for _, plan in recorded.rounds for action in plan.actions]
    places = [
        a.places for a in actions if isinstance(a, GpuStart | GpuResize) and a.job == job and a.places is not None
    ]
    return [sum(of.values()) for of in places]


def test_a_job_starts_on_one_gpu_and_at_most_doubles() -> None:
    """Its first batch is the smallest, though its user requests a larger one."""
    recorded = _run(Sia(), [0.0])
    sizes, first = _sizes(recorded, 0), recorded.rounds[0][1].actions[0]
    assert isinstance(first, GpuStart)
    assert first.batch == FIRST_BATCH
    assert sizes[0] == 1
    assert len(sizes) > 2
    assert all(after <= 2 * max(sizes[: k + 1]) for k, after in enumerate(sizes[1:]))


def test_a_second_job_of_a_known_model_starts_wide_in_sia_plus_only() -> None:
    for scheduler, wide in ((Sia(), False), (SiaPlus(), True)):
        assert (_sizes(_run(scheduler, [0.0, 1500.0]), 1)[0] > 1) is wide


def test_alone_it_comes_to_the_fast_type_though_it_has_started_elsewhere() -> None:
    recorded = _run(Sia(), [0.0])
    last = [a for _, plan in recorded.rounds for a in plan.actions if isinstance(a, GpuResize) and a.places][-1]
    assert last.places == {2: 4}


def test_between_rounds_no_job_moves_and_a_starting_job_is_left_unchanged() -> None:
    recorded = _run(Sia(), [0.0, 70.0, 130.0, 190.0, 250.0], restart_s=130.0)
    assert any((view.jobs.status == JobStatus.STARTING).any() for view, _ in recorded.rounds)
    for view, plan in recorded.rounds:
        if view.now_s % 60 > 1e-6:
            assert all(isinstance(action, GpuResize) and action.places is None for action in plan.actions)
        starting = set(view.jobs.id[view.jobs.status == JobStatus.STARTING].tolist())
        assert not starting & {getattr(action, "job", None) for action in plan.actions}
    assert any(view.now_s % 60 > 1e-6 for view, _ in recorded.rounds)


@pytest.mark.parametrize("scheduler", [Sia(), SiaPlus()])
def test_jobs_run_on_the_types_that_their_model_was_measured_on(scheduler: Sia) -> None:
    speeds = _speeds()
    speeds.rows[:, 0], speeds.max_local[:, 0], speeds.one_gpu_rate[:, 0] = NO_TABLE, 0, 0.0  # the slow type comes first
    log = GpuSimulation(CLUSTER, _jobs([0.0, 10.0]), scheduler, speeds=speeds, strict=True).run()
    assert np.isfinite(log.rows.due_s).all()
    assert all(set(log.places(k)) == {2} for k in range(len(log.segments)))


def test_every_place_and_batch_is_learnt_once() -> None:
    scheduler = Sia()
    _run(scheduler, [0.0])
    known = scheduler.history.known
    room = len(known.points.gpus) // known.measured.size
    (row,) = np.flatnonzero(known.measured.sum(axis=1))
    for gpu_type in range(2):
        first = (row * 2 + gpu_type) * room
        last = first + known.measured[row, gpu_type]
        points = list(zip(*(column[first:last].tolist() for column in known.points[:3])))
        assert len(points) > 1
        assert len(set(points)) == len(points)


def test_more_jobs_than_gpus_take_turns_and_all_end() -> None:
    small = GpuCluster((ServerGroup("slow", "slow", 1, 2),))
    speeds = _speeds()
    speeds = speeds._replace(rows=speeds.rows[:, :1], **{  # the first type only
        name: getattr(speeds, name)[:, :1] for name in ("memory_max_local", "min_local", "max_local", "one_gpu_rate")
    }, type_speed=speeds.type_speed[:1])  # fmt: skip
    recorded = RecordedScheduler(Sia())
    GpuSimulation(small, _jobs([0.0, 0.0, 1.0, 2.0]), recorded, speeds=speeds, strict=True).run()
    for view, _ in recorded.rounds:
        assert view.jobs.held.sum() <= 2
    assert any(isinstance(action, GpuPreempt) for _, plan in recorded.rounds for action in plan.actions)


def test_values_by_hand() -> None:
    """Two GPUs of twice the goodput: 2^-0.5 rounds to 0.71; after a restart 50/110 remain."""
    sia = Sia()
    simulation = GpuSimulation(CLUSTER, _jobs([0.0]), sia, speeds=_speeds())
    table = sia.goodput_table
    table.relative_goodput = lambda *about: np.where(about[-1].gpus <= 2, 1.0 * about[-1].gpus, 1e-4)[None, :]  # type: ignore[method-assign]
    simulation.run(until_s=59.0)
    view = simulation.view()
    jobs, rows = JobColumns(view), np.zeros(1, np.int64)
    shapes = sia.offered.offer(jobs, view.servers)

    def value(present: int, age_s: float) -> np.ndarray:
        one = table.configuration_values(
            jobs, rows, jobs.batch, shapes, np.array([present]), np.array([age_s]), np.array([10.0])
        )
        return one[0]

    assert value(-1, view.now_s)[:3].tolist() == pytest.approx([1.1 - 1.0, 1.1 - 0.71, 1.1 - 100.0])
    jobs.restarts = np.array([5])
    after = value(1, 100.0)  # it is on two GPUs of the first type
    remaining_share = (100 - 5 * 10) / (100 + 10)
    assert after[1] == pytest.approx(1.1 - 0.71)
    assert after[0] == pytest.approx(1.1 - round(remaining_share**-0.5, 2))
    assert value(1, 9.0)[0] == pytest.approx(1.1 - 1.0), "a job younger than a restart loses nothing by one"


def test_rigid_jobs_of_the_linear_law_get_the_size_they_request() -> None:
    rng = np.random.default_rng(2)
    jobs = GpuJobs.linear(rng.uniform(0, 900, 25), rng.choice([1, 2, 3, 4, 6], 25), rng.uniform(30, 900, 25))
    log = GpuSimulation(CLUSTER, jobs, make_scheduler("sia"), strict=True).run()
    assert np.isfinite(log.rows.due_s).all()
    widths: dict[int, set[int]] = {}
    for k in range(len(log.segments)):
        widths.setdefault(int(log.segments[k]["id"]), set()).add(sum(log.places(k).values()))
    assert all(sizes == {int(jobs.gpus[job])} for job, sizes in widths.items())


def test_between_rounds_it_is_called_only_if_a_job_has_a_model() -> None:
    recorded = RecordedScheduler(Sia())
    GpuSimulation(CLUSTER, GpuJobs.linear([0, 70], [1, 2], [300, 500]), recorded, strict=True).run()
    assert {view.now_s % 60 for view, _ in recorded.rounds} == {0.0}
    assert {view.now_s % 60 for view, _ in _run(Sia(), [0.0]).rounds} == {0.0, 15.0, 30.0, 45.0}


@pytest.mark.parametrize("scheduler", [Sia(), SiaPlus()])
def test_measured_jobs_stay_within_their_least_and_most_gpus(scheduler: Sia) -> None:
    jobs = _jobs([0.0, 10.0, 400.0, 500.0])
    jobs = replace(jobs, min_gpus=np.array([3, 1, 3, 2]), max_gpus=np.array([3, 2, 3, 4]))
    log = GpuSimulation(CLUSTER, jobs, scheduler, speeds=_speeds(), strict=True).run()
    assert np.isfinite(log.rows.due_s).all()
    for k in range(len(log.segments)):
        job, gpus = int(log.segments[k]["id"]), sum(log.places(k).values())
        assert jobs.min_gpus[job] <= gpus <= jobs.max_gpus[job]


def test_a_job_that_insists_on_more_than_the_most_gpus_gets_them() -> None:
    cluster = GpuCluster((ServerGroup("a", "a", 16, 8),))
    log = GpuSimulation(cluster, GpuJobs.linear([0, 0], [100, 8], [70, 50]), make_scheduler("sia"), strict=True).run()
    assert (log.segments.gpus.tolist(), log.rows.due_s.tolist()) == ([100, 8], [130, 110])


@pytest.mark.parametrize(("name", "label"), [("sia", "Sia"), ("gavel", "Gavel")])
def test_a_job_that_fits_on_no_kind_of_server_is_refused_when_it_comes(name: str, label: str) -> None:
    cluster = GpuCluster((ServerGroup("a", "v", 4, 4), ServerGroup("b", "v", 2, 8)))
    jobs = GpuJobs.linear([0, 100], [16, 24], [50, 50])
    message = (
        rf"^job 1 \(counted from 0\) needs 24 GPUs; {label} runs a job on servers of one GPU type, one size and one "
        "pool, and those it may use have 16: leave the job out, or make the servers of each type identical$"
    )
    with pytest.raises(ConfigurationError, match=message):
        GpuSimulation(cluster, jobs, make_scheduler(name)).run()


TIMES = "round_s is {} and tune_s {}; give whole seconds above 0"


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"fairness": 0}, "the power of goodputs is 0; give a number below 0, such as -0.5"),
        ({"fairness": 0.5}, "the power of goodputs is 0.5; give a number below 0, such as -0.5"),
        ({"tune_s": 0.0}, TIMES.format(60.0, 0.0)),
        ({"tune_s": 7.5}, TIMES.format(60.0, 7.5)),
        ({"round_s": 0.0}, TIMES.format(0.0, 15.0)),
        ({"round_s": -60.0}, TIMES.format(-60.0, 15.0)),
        ({"round_s": 0.5}, TIMES.format(0.5, 15.0)),
        ({"most_gpus": 0}, "most_gpus is 0; give 1 or more"),
        ({"waiting": 0}, "waiting is 0; give a number above 0, such as 1.1, else no job starts"),
        ({"waiting": -1}, "waiting is -1; give a number above 0, such as 1.1, else no job starts"),
    ],
)
def test_settings_that_cannot_be_are_refused(setting: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        Sia(**setting)
    assert str(refused.value) == message


def test_settings_at_the_ends_of_their_ranges_are_taken() -> None:
    sia = Sia(fairness=-0.001, waiting=0.001, most_gpus=1, round_s=1.0, tune_s=1.0, preempt="kill")
    assert (sia.fairness, sia.waiting, sia.most_gpus) == (-0.001, 0.001, 1)
    assert (sia.round_s, sia.tune_s, sia.preempt) == (1, 1, "kill")
    usual = Sia()
    assert (usual.fairness, usual.waiting, usual.most_gpus) == (-0.5, 1.1, 64)
    assert (usual.round_s, usual.tune_s, usual.preempt) == (60, 15, "save")
    with pytest.raises(ConfigurationError, match=r"most_gpus is 2\.5; give a whole number"):
        make_scheduler("sia", most_gpus=2.5)
    with pytest.raises(UnknownName, match="unknown way to preempt 'cheaper'"):
        Sia(preempt="cheaper")


def test_between_rounds_running_jobs_get_a_better_batch_for_that_reason() -> None:
    """The noise grows with every epoch, and larger batches with it."""
    speeds = _speeds()
    speeds = speeds._replace(grad_var=speeds.grad_var * 3.0 ** np.arange(EPOCHS))
    recorded = RecordedScheduler(Sia())
    GpuSimulation(CLUSTER, _jobs([0.0]), recorded, speeds=speeds, strict=True).run()
    between = [(view, plan) for view, plan in recorded.rounds if view.now_s % 60]
    tuned = [action for _, plan in between for action in plan.actions]
    assert {getattr(action, "reason", "") for action in tuned} == {"batch:epoch"}
    assert all(isinstance(action, GpuResize) and action.job == 0 for action in tuned)
    assert len({action.batch for action in tuned if isinstance(action, GpuResize)}) > 2
    for view, plan in between:
        assert all(action.batch != view.jobs.batch[0] for action in plan.actions if isinstance(action, GpuResize))
    for view, plan in recorded.rounds:
        assert plan.wake_s == (view.now_s + 15 if view.now_s % 60 < 45 else None)


def test_the_published_costs_of_restarts_are_assumed_or_the_true_ones() -> None:
    """A model of the table, and another one; the world's cost is 10 s."""
    believed = {}
    for made in (Sia(), SiaPlus()):
        jobs = replace(_jobs([0.0, 0.0, 0.0]), model=np.array([0, 1, LINEAR]), models=("bert", "toy"))
        speeds = _speeds()
        doubled = {name: np.concatenate([getattr(speeds, name)] * 2) for name in PER_MODEL}
        simulation = GpuSimulation(CLUSTER, jobs, made, speeds=speeds._replace(**doubled))
        got: list[np.ndarray] = []
        values = made.goodput_table.configuration_values

        def recorded(*about: Any, got: list[np.ndarray] = got, values: Any = values) -> Any:
            got.append(about[-1])
            return values(*about)

        made.goodput_table.configuration_values = recorded  # type: ignore[method-assign]
        simulation.run(until_s=60.0)
        believed[type(made)] = got[0].tolist()
    assert believed == {Sia: [120, 30, RESTART_S], SiaPlus: [RESTART_S] * 3}


PER_MODEL = (
    "rows", "memory_max_local", "min_local", "max_local", "one_gpu_rate", "init_batch", "max_batch", "slowdown",
    "restart_s", "epochs", "epoch_end", "noise_knots", "noise_batch", "grad_sqr", "grad_var",
)  # fmt: skip


def test_a_paused_job_holds_its_gpus_and_does_not_change() -> None:
    """The only GPU is held by a job that starts for 100 s; another job waits."""
    small = GpuCluster((ServerGroup("only", "slow", 1, 1),))
    jobs = GpuJobs.linear([0.0, 61.0], [1, 1], [500.0, 10.0], restart_s=100.0)
    recorded = RecordedScheduler(Sia())
    GpuSimulation(small, jobs, recorded, strict=True).run()
    starting = [plan for view, plan in recorded.rounds if (view.jobs.status == JobStatus.STARTING).any()]
    assert len(starting) > 1
    assert all(not plan.actions for plan in starting)


def test_a_job_that_loses_its_gpus_leaves_them_in_the_given_way() -> None:
    """Four jobs take turns on two GPUs."""
    speeds = _speeds()
    one_type = {
        name: getattr(speeds, name)[:, :1]
        for name in ("rows", "memory_max_local", "min_local", "max_local", "one_gpu_rate")
    }
    recorded = RecordedScheduler(Sia(preempt="kill"))
    small, speeds = GpuCluster((ServerGroup("only", "slow", 1, 2),)), speeds._replace(**one_type)
    jobs = _jobs([0.0, 0.0, 1.0, 2.0])
    GpuSimulation(small, jobs, recorded, speeds=speeds._replace(type_speed=np.ones(1))).run(until_s=4000.0)
    preempts = [a for _, plan in recorded.rounds for a in plan.actions if isinstance(a, GpuPreempt)]
    assert {(action.how, action.reason) for action in preempts} == {("kill", "others-gain-more")}


@pytest.mark.slow
def test_the_published_workload_takes_as_long_as_published(shared_data: Path) -> None:
    """Published are 0.5416 h for Sia and 1.671 h for Gavel; 1 s of delay changes them by 1 %."""
    folder, cluster = shared_data / "sia-pollux", gpu_cluster("sia64")
    profiles = read_profiles(folder / "profiles", cluster)
    jobs = read_workload(folder / "sia_philly" / "workload-1.csv", cluster, profiles).jobs
    mean_h = {}
    for name in ("sia", "sia-plus", "gavel"):
        log = GpuSimulation(cluster, jobs, make_scheduler(name), speeds=profiles.speeds, strict=True).run()
        mean_h[name] = float((log.rows.due_s - log.rows.submit_s).mean()) / 3600
    assert mean_h["sia"] == pytest.approx(0.5416, rel=0.06)
    assert mean_h["sia-plus"] < 0.93 * mean_h["sia"]
    assert mean_h["gavel"] == pytest.approx(1.671, rel=0.02)
