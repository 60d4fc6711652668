"""PickyMan and its improvement by hand: what preempts, how victims leave, and the bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mirage.errors import ConfigurationError, UnknownName
from mirage.schedule.compare.preemption_costs import PreemptionCosts
from mirage.schedule.engine.gpu_log import GpuLog
from mirage.schedule.engine.gpu_simulation import GpuSimulation
from mirage.schedule.engine.kernel.gpu_arrays import BY_BOUNDARY, BY_FAILED_SAVE, BY_KILL, BY_SAVE, PREEMPT, START
from mirage.schedule.gpu_cluster import GpuCluster, ServerGroup, gpu_cluster
from mirage.schedule.schedulers.gpu_scheduler_registry import make_scheduler
from mirage.schedule.workload.generate_gangs import generate_gangs
from mirage.schedule.workload.gpu_jobs import GpuJobs

FOUR = GpuCluster((ServerGroup("only", "gpu", 1, 4),))
EIGHT = GpuCluster((ServerGroup("only", "gpu", 1, 8),))


def _run(name: str, cluster: GpuCluster, jobs: GpuJobs, p: float = 1.0, **parameters: Any) -> GpuLog:
    scheduler = make_scheduler(name, **parameters)
    costs = PreemptionCosts().life_costs(jobs)
    return GpuSimulation(cluster, jobs, scheduler, costs=costs, known="run-time", save_succeeds=p, strict=True).run()


def _pair(newcomer_s: float, run_s: Sequence[float], epoch_s: float, restart_s: float = 50.0) -> GpuJobs:
    """A job on four GPUs, and a newcomer that needs all of them; a save takes 10 s."""
    return GpuJobs.linear([0, newcomer_s], [4, 4], run_s, restart_s=restart_s, save_s=10.0, checkpoint_s=epoch_s)


def _reasons(log: GpuLog, kind: int) -> list[str]:
    return [log.reasons[row.reason] for row in log.decisions if row.kind == kind]


def test_a_newcomer_preempts_at_the_end_of_the_epoch() -> None:
    log = _run("pickyman", FOUR, _pair(250, [10_000, 100], 100))
    # the first leaves at 300; the second runs until 400; then 50 s of restart and 9,700 s of work
    assert log.rows.due_s.tolist() == pytest.approx([10_150, 400])
    assert log.rows.preemptions.tolist() == [1, 0]
    assert log.segments[0].why == BY_BOUNDARY
    # without preemption it would start at 10,000: 9,750 s from now, less 50 s until the end of the epoch
    assert _reasons(log, PREEMPT) == ["waiting-saved:job=1,victims=1,saved_s=9700,lost_s=60,leave_s=50"]
    assert _reasons(log, START)[1] == "victims-left:after_s=50,left_s=100"


def test_victims_that_save_on_demand_leave_after_the_save() -> None:
    log = _run("pickyman", FOUR, _pair(250, [10_000, 100], np.inf), preempt="save")
    # the first saves until 260; the second runs until 360; then 50 s of restart and 9,750 s of work
    assert log.rows.due_s.tolist() == pytest.approx([10_160, 360])
    assert log.segments[0].why == BY_SAVE
    with pytest.raises(UnknownName, match="way to preempt"):
        make_scheduler("pickyman", preempt="slowly")


def test_idle_gpus_of_another_pool_do_not_shorten_the_wait() -> None:
    cluster = GpuCluster((ServerGroup("own", "gpu", 1, 4, "own"), ServerGroup("other", "gpu", 1, 8, "other")))
    jobs = GpuJobs.linear([0, 250], [4, 4], [10_000, 100], restart_s=50.0, save_s=10.0, checkpoint_s=100, pool=0)
    assert _run("pickyman", cluster, jobs).rows.preemptions.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("run_s", "restart_s", "near_end", "preempts"),
    [
        ((400, 100), 50.0, 1.0, True),  # saves 100 s and loses 60 s
        ((359, 100), 50.0, 1.0, False),  # 109 s are left, and its preemption takes 50 s until it leaves and 60 s more
        ((361, 100), 20.0, 1.0, True),  # saves 61 s and loses 30 s
        ((361, 100), 40.0, 2.0, False),  # nearly finished: 111 s are left, and twice its preemption takes 150 s
        ((400, 100), 200.0, 0.0, False),  # saves 100 s and loses 210 s
        ((400, 150), 20.0, 1.0, False),  # not shorter than what the first has left
    ],
)
def test_what_a_newcomer_saves_must_exceed_the_losses(
    run_s: tuple[float, float], restart_s: float, near_end: float, preempts: bool
) -> None:
    log = _run("pickyman", FOUR, _pair(250, run_s, 100, restart_s), near_end=near_end)
    assert log.rows.preemptions.tolist() == [int(preempts), 0]
    if not preempts:
        assert log.rows.due_s[1] == pytest.approx(run_s[0] + run_s[1])


@pytest.mark.parametrize("name", ["pickyman", "pickyman-plus"])
def test_victims_that_are_not_necessary_are_spared(name: str) -> None:
    """By loss the victims are 0 and 1, by remaining time 1 and 0; job 1 alone makes room."""
    jobs = GpuJobs.linear(
        [0, 0, 0, 500], [2, 4, 2, 4], [8000, 9000, 4000, 100], restart_s=[10, 20, 30, 5], save_s=1.0, checkpoint_s=100
    )
    log = _run(name, EIGHT, jobs)
    assert log.rows.preemptions.tolist() == [0, 1, 0, 0]


def test_two_newcomers_have_victims_of_their_own() -> None:
    jobs = GpuJobs.linear(
        [0, 0, 550, 550], [4, 4, 4, 4], [8000, 9000, 100, 120], restart_s=20.0, save_s=1.0, checkpoint_s=100
    )
    log = _run("pickyman", EIGHT, jobs)
    assert log.rows.preemptions.tolist() == [1, 1, 0, 0]
    assert log.rows.due_s[2:].tolist() == pytest.approx([700, 720])


@pytest.mark.parametrize(
    ("newcomer_s", "epoch_s", "save_succeeds", "why", "starts_s", "lost_s"),
    [
        (1250, 1000, 1.0, BY_SAVE, 1260, 0),  # wait + loss: at the end of the epoch 750 + 50, saved 10 + 60, killed 300
        (1250, 1000, 0.0, BY_KILL, 1250, 250),  # a save would lose 250 s as well
        (1250, 1000, 0.9, BY_SAVE, 1260, 0),  # 10 + 60 + 25; this one succeeds
        (1290, 100, 1.0, BY_BOUNDARY, 1300, 0),  # 10 + 50, 10 + 60, 140
        (1203, 100, 1.0, BY_KILL, 1203, 3),  # 97 + 50, 10 + 60, 53
    ],
)
def test_each_victim_leaves_in_its_cheapest_way(
    newcomer_s: float, epoch_s: float, save_succeeds: float, why: int, starts_s: float, lost_s: float
) -> None:
    jobs = _pair(newcomer_s, [10_000, 100], epoch_s)
    log = _run("pickyman-plus", FOUR, jobs, save_succeeds, save_succeeds=save_succeeds)
    assert log.segments[0].why == why
    assert log.rows.start_s[1] == starts_s
    assert log.rows.lost[0] == pytest.approx(4 * lost_s)


def test_the_guaranteed_time_and_the_bound_protect_a_job() -> None:
    jobs = GpuJobs.linear([0, 250, 900], [4, 4, 4], [10_000, 50, 50], restart_s=20.0, save_s=1.0, checkpoint_s=100)
    free = _run("pickyman-plus", FOUR, jobs)
    assert free.rows.preemptions.tolist() == [2, 0, 0]
    bounded = _run("pickyman-plus", FOUR, jobs, most_preemptions=1)
    assert bounded.rows.preemptions.tolist() == [1, 0, 0]
    assert bounded.rows.due_s[2] > 10_000
    guaranteed = _run("pickyman-plus", FOUR, jobs, min_run_s=600.0)
    assert guaranteed.rows.preemptions.tolist() == [1, 0, 0]
    assert guaranteed.rows.start_s[1] >= 900  # at 250 the first has run for 250 s only


def test_a_margin_stops_an_exchange_of_nearly_equal_jobs() -> None:
    jobs = _pair(250, [1250, 700], 100)  # 1,000 s are left; of these 940 or so after the loss
    assert _run("pickyman-plus", FOUR, jobs).rows.preemptions[0] == 1
    assert _run("pickyman-plus", FOUR, jobs, margin=0.5).rows.preemptions[0] == 0


def test_a_wide_job_comes_after_narrow_ones_of_equal_length() -> None:
    """The wide one has less remaining time, but would make four jobs wait."""
    jobs = GpuJobs.linear([0, 0, 0, 0, 500], [1, 1, 1, 1, 4], [1500] * 4 + [600], save_s=1.0, checkpoint_s=100)
    assert _run("pickyman-plus", FOUR, jobs).rows.preemptions.sum() == 0
    assert _run("pickyman-plus", FOUR, jobs, width_power=0.0).rows.preemptions.sum() == 4


@pytest.mark.parametrize("seed", [4, 5])
def test_on_gangs_the_bounds_hold_and_no_save_is_tried_that_always_fails(seed: int) -> None:
    table = generate_gangs(128, seed=seed, jobs=150, load=1.3)
    jobs = GpuJobs.linear(
        table.submit_s, table.gpus, table.run_s, restart_s=60.0, save_s=12.0, checkpoint_s=table.run_s / 40
    )
    cluster = gpu_cluster("pool128")
    log = _run("pickyman-plus", cluster, jobs, 0.0, save_succeeds=0.0, most_preemptions=3, min_run_s=300.0)
    assert 0 < log.rows.preemptions.max() <= 3
    assert not np.isin(log.segments.why, (BY_SAVE, BY_FAILED_SAVE)).any()
    left = log.segments[np.isin(log.segments.why, (BY_BOUNDARY, BY_KILL))]
    assert (left.end_s - left.start_s - left.pause_s >= 300.0 - 1e-3).all()
    assert all("=" in reason for kind in (START, PREEMPT) for reason in _reasons(log, kind))


def test_predictions_decide_and_not_true_run_times() -> None:
    jobs = replace(_pair(250, [10_000, 100], 100), estimate_s=np.array([260.0, 100.0]))
    assert _run("pickyman", FOUR, jobs).rows.preemptions.sum() == 0  # predicted to end soon


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("pickyman", {"near_end": -1.0}, "near_end is -1.0; give a number of 0 or more"),
        ("pickyman-plus", {"margin": -0.1}, "margin is -0.1"),
        ("pickyman-plus", {"save_succeeds": 1.5}, "save_succeeds is 1.5; give a probability from 0 to 1"),
        ("pickyman-plus", {"most_preemptions": -1}, "most_preemptions is -1"),
        ("kueue", {"class_jobs": 0}, "class_jobs is 0"),
        ("slurm-preempt", {"tier_limits_s": (5.0, 5.0)}, "do not ascend from above 0"),
    ],
)
def test_parameters_that_cannot_be_are_refused(name: str, parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        make_scheduler(name, **parameters)


@pytest.mark.parametrize("name", ["pickyman", "pickyman-plus", "fitgpp", "kueue", "slurm-preempt"])
def test_jobs_go_to_the_types_that_they_may_use_in_the_numbers_that_stand_for_one_gpu(name: str) -> None:
    """The first job may use T4 only, three for each GPU; the others wait for the V100."""
    cluster = GpuCluster((ServerGroup("new", "v100", 1, 2), ServerGroup("old", "t4", 1, 8, speed=0.5, gpus_for_one=3)))
    jobs = GpuJobs.linear([0, 1, 2], [2, 2, 2], [90, 60, 60], types=[2, 1, 1])
    log = _run(name, cluster, jobs)
    assert log.rows.due_s[0] == 90 / 1.5
    assert sorted(log.rows.due_s[1:].tolist()) == [61, 121]
