"""Gavel's shares by hand, its priorities, and workloads on the engine."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mirage.errors import ConfigurationError, UnknownName
from mirage.schedule.engine.gpu_log import GpuLog
from mirage.schedule.engine.gpu_simulation import GpuSimulation
from mirage.schedule.engine.gpu_world import LifeCosts
from mirage.schedule.gpu_cluster import GpuCluster, ServerGroup
from mirage.schedule.rounds.highs import OUT_OF_ITERATIONS, Solution
from mirage.schedule.scheduler_contract import GpuLend, GpuPlan, GpuView
from mirage.schedule.schedulers.gavel import Gavel, by_priority, shares
from mirage.schedule.speeds.speed_arrays import Speeds, linear_speeds
from mirage.schedule.workload.gpu_jobs import GpuJobs

CLUSTER = GpuCluster((ServerGroup("slow", "slow", 2, 4), ServerGroup("fast", "fast", 1, 4, speed=3.0)))


def test_the_fast_type_goes_to_the_job_that_gains_most() -> None:
    # one GPU of each type; the second job is 10 times as fast on the second type, the first only twice
    share = shares(np.array([[1.0, 2.0], [1.0, 10.0]]), np.array([1, 1]), np.array([1, 1]), "max-sum")
    np.testing.assert_allclose(share, [[1, 0], [0, 1]])


def test_jobs_that_are_alike_share_alike() -> None:
    share = shares(np.full((4, 1), 2.0), np.array([1, 1, 1, 1]), np.array([1]), "max-sum")
    np.testing.assert_allclose(share, 0.25)


def test_a_wide_job_weighs_what_it_takes_in_the_sum_of_steps() -> None:
    # two GPUs: two single jobs make two steps, the wide one makes one
    share = shares(np.ones((3, 1)), np.array([2, 1, 1]), np.array([2]), "max-sum")
    np.testing.assert_allclose(share[:, 0], [0, 1, 1])


def test_max_min_serves_the_job_that_would_get_nothing() -> None:
    rate, gpus, capacity = np.array([[1.0], [10.0]]), np.array([1, 1]), np.array([1])
    np.testing.assert_allclose(shares(rate, gpus, capacity, "max-sum")[:, 0], [0, 1])
    np.testing.assert_allclose(shares(rate, gpus, capacity, "max-min")[:, 0], [0.5, 0.5], atol=1e-4)


def test_no_share_where_a_job_cannot_run() -> None:
    share = shares(np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([1, 1]), np.array([1, 1]), "max-min")
    np.testing.assert_allclose(share, [[0, 1], [1, 0]], atol=1e-4)


def test_a_round_goes_by_priority_and_fills_up_with_jobs_that_fit() -> None:
    priority = np.array([[1.0, 0.0], [3.0, 2.0], [0.0, 0.0], [0.0, 0.0]])
    gpus, left, kind = np.array([4, 3, 2, 1]), np.array([4, 2]), np.array([-1, -1, -1, 1])
    starting = np.array([False, False, False, True])
    taken = by_priority(priority, priority, np.ones((4, 2), bool), gpus, left, kind, starting)
    # the second comes first and takes three of four; the first then fits nowhere; the last is starting and stays
    assert taken.tolist() == [-1, 0, -1, 1]
    assert left.tolist() == [1, 1]


@pytest.mark.parametrize("objective", ["max-sum", "max-min"])
def test_all_jobs_end_on_the_size_they_request(objective: str) -> None:
    rng = np.random.default_rng(4)
    jobs = GpuJobs.linear(rng.uniform(0, 4000, 30), rng.choice([1, 2, 3, 4, 6, 8], 30), rng.uniform(60, 4000, 30))
    scheduler = Gavel(objective)  # type: ignore[arg-type]
    log = GpuSimulation(CLUSTER, jobs, scheduler, strict=True).run()
    assert np.isfinite(log.rows.due_s).all()
    starts = log.segments["start_s"]
    np.testing.assert_allclose(starts % 360, 0, atol=1e-6)
    for k in range(len(log.segments)):
        assert sum(log.places(k).values()) == jobs.gpus[int(log.segments[k]["id"])]


def test_of_equal_priorities_the_larger_share_comes_first() -> None:
    priority, share = np.ones((2, 1)), np.array([[0.25], [0.75]])
    everywhere, neither = np.ones((2, 1), bool), np.zeros(2, bool)
    taken = by_priority(priority, share, everywhere, np.array([1, 1]), np.array([1]), np.array([-1, -1]), neither)
    assert taken.tolist() == [-1, 0]


def test_a_job_that_makes_room_for_a_larger_one_is_moved_for_that_reason() -> None:
    cluster = GpuCluster((ServerGroup("only", "only", 2, 2),))
    jobs = GpuJobs.linear([0.0, 500.0], [1, 2], [3000.0, 3000.0])
    log = GpuSimulation(cluster, jobs, Gavel(), strict=True).run()
    moved = [row for row in log.segments if row["id"] == 0]
    assert len(moved) == 2
    assert "moved" in log.reasons


def test_the_time_given_by_a_kind_is_what_its_jobs_received() -> None:
    rng = np.random.default_rng(5)
    jobs = GpuJobs.linear(rng.uniform(0, 4000, 20), rng.choice([1, 2, 4, 6], 20), rng.uniform(60, 4000, 20))
    scheduler = Gavel()
    GpuSimulation(CLUSTER, jobs, scheduler, strict=True).run()
    assert scheduler._given_s.min() > 20 * 360 / 2, "both kinds have given rounds"
    np.testing.assert_allclose(scheduler._given_s, scheduler._received_s.sum(axis=0))


def test_a_job_of_one_gpu_stays_where_it_runs_when_an_earlier_server_becomes_free() -> None:
    cluster = GpuCluster((ServerGroup("only", "only", 2, 1),))
    jobs = GpuJobs.linear([0.0, 0.0], [1, 1], [300.0, 3000.0])
    log = GpuSimulation(cluster, jobs, Gavel(), strict=True).run()
    assert log.segments["id"].tolist() == [0, 1]


def two_models(slowdown: tuple[float, float]) -> Speeds:
    """Two models on one GPU, a step of 0.1 s for 8 samples, each with its own slowdown."""
    return linear_speeds(np.ones(1))._replace(
        rows=np.zeros((2, 1, 1, 1), np.int64),
        knots=np.array([2]),
        local_batch=np.array([[1.0, 8.0]]),
        step_s=np.array([[0.1, 0.1]]),
        sync_s=np.zeros((1, 2)),
        row_max_local=np.array([8]),
        memory_max_local=np.full((2, 1, 1), 8),
        min_local=np.ones((2, 1), np.int64),
        max_local=np.full((2, 1), 8),
        one_gpu_rate=np.full((2, 1), 80.0),
        init_batch=np.array([8, 8]),
        max_batch=np.array([8, 8]),
        slowdown=np.array(slowdown),
        restart_s=np.zeros(2),
        epochs=np.array([1, 1]),
        epoch_end=np.full((2, 1), 6000.0),
        noise_knots=np.array([1, 1]),
        noise_batch=np.full((2, 1), 8.0),
        grad_sqr=np.ones((2, 1, 1)),
        grad_var=np.zeros((2, 1, 1)),
    )


@pytest.mark.parametrize("slow", [0, 1])
def test_the_rate_of_a_model_that_is_slowed_down_is_the_true_one(slow: int) -> None:
    """On one GPU the sum of steps is largest with the other model first.

    Both were measured alike. If they counted as alike they would share, and the slow one with a third of the work
    would end first.
    """
    linear = GpuJobs.linear([1.0, 1.0], [1, 1], [1.0, 1.0])
    jobs = replace(
        linear,
        model=np.array([0, 1]),
        models=("a", "b"),
        batch=np.array([8, 8]),
        work=np.where(np.arange(2) == slow, 2000.0, 6000.0),
        run_s=np.full(2, np.nan),
    )
    cluster = GpuCluster((ServerGroup("only", "only", 1, 1),))
    speeds = two_models((1.5, 1.0) if slow == 0 else (1.0, 1.5))
    log = GpuSimulation(cluster, jobs, Gavel(), speeds=speeds, strict=True).run()
    assert int(np.argmin(log.rows.due_s)) == 1 - slow


def test_settings_that_cannot_be_are_refused() -> None:
    with pytest.raises(ConfigurationError) as refused:
        Gavel("fair")  # type: ignore[arg-type]
    assert str(refused.value) == "Gavel has no objective 'fair'; it has max-sum and max-min"
    for round_s in (0.0, -60.0, 0.5, 60.5, np.nan):
        with pytest.raises(ConfigurationError) as refused:
            Gavel(round_s=round_s)
        assert str(refused.value) == f"round_s is {round_s}; give whole seconds above 0"
    shortest = Gavel("max-min", round_s=1.0, preempt="boundary")
    assert (shortest.objective, shortest.round_s, shortest.preempt) == ("max-min", 1, "boundary")
    assert (Gavel().objective, Gavel().round_s, Gavel().preempt) == ("max-sum", 360, "save")
    with pytest.raises(UnknownName, match=r"unknown way to preempt 'hang'\..* Known: boundary, kill, save\."):
        Gavel(preempt="hang")


def test_a_program_without_a_solution_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    none = Solution(None, np.nan, np.nan, OUT_OF_ITERATIONS)
    monkeypatch.setattr("mirage.schedule.schedulers.gavel.minimise_linear", lambda *_, **__: none)
    with pytest.raises(ConfigurationError) as refused:
        shares(np.ones((3, 1)), np.ones(3, np.int64), np.ones(1, np.int64), "max-sum")
    assert str(refused.value) == "Gavel's linear program of 3 jobs has no solution; HiGHS: out of iterations"


def test_max_min_gives_equal_gains_over_an_equal_split() -> None:
    """The third job runs on the second type only.

    An equal split gives it half of that type. The gain is by GPUs: the second job has two, and
    takes as much as two others.
    """
    rate, gpus, capacity = np.array([[1.0, 1.0], [1.0, 1.0], [0.0, 4.0]]), np.array([1, 2, 1]), np.array([1, 1])
    share = shares(rate, gpus, capacity, "max-min")
    equal = rate @ (capacity / 2)
    gains = (share * rate).sum(axis=1) * gpus / equal
    assert gains == pytest.approx(np.full(3, gains[0]), abs=1e-2)
    assert (gpus @ share <= capacity + 1e-4).all()
    assert (gpus @ share).sum() == pytest.approx(2, abs=1e-3), "no GPU is idle"


def test_a_job_that_runs_nowhere_has_no_share_and_takes_none_from_others() -> None:
    for objective in ("max-sum", "max-min"):
        share = shares(np.array([[0.0], [2.0]]), np.array([1, 1]), np.array([1]), objective)  # type: ignore[arg-type]
        np.testing.assert_allclose(share, [[0], [1]], atol=1e-4)


def test_max_min_leaves_no_gpu_idle_beyond_the_smallest_gain() -> None:
    """The first job cannot gain more than all of its time; the second gets what is left."""
    share = shares(np.array([[1.0], [1.0]]), np.array([1, 1]), np.array([3]), "max-min")
    np.testing.assert_allclose(share, [[1], [1]], atol=1e-4)


def test_of_equal_priorities_and_shares_the_first_kind_and_the_first_job_come_first() -> None:
    equal, everywhere = np.ones((2, 2)), np.ones((2, 2), bool)
    none, neither = np.array([-1, -1]), np.zeros(2, bool)
    left = np.array([1, 1])
    taken = by_priority(equal, equal, everywhere, np.array([1, 1]), left, none, neither)
    assert (taken.tolist(), left.tolist(), taken.dtype) == ([0, 1], [0, 0], np.int64)
    taken = by_priority(
        equal, equal, np.array([[False, True], [True, True]]), np.array([1, 1]), np.ones(2), none, neither
    )
    assert taken.tolist() == [1, 0]


def reasons_of(log: GpuLog) -> list[tuple[float, int, int, str]]:
    """Time, kind of action, job and reason of every decision."""
    return [(float(d.time_s), int(d.kind), int(d.id), log.reasons[int(d.reason)]) for d in log.decisions]


def test_two_jobs_on_one_gpu_take_turns_with_a_reason_each() -> None:
    cluster = GpuCluster((ServerGroup("only", "only", 1, 1),))
    log = GpuSimulation(cluster, GpuJobs.linear([0, 0], [1, 1], [700, 300]), Gavel(), strict=True).run()
    assert [(int(s.id), float(s.start_s), float(s.end_s)) for s in log.segments] == [
        (0, 360, 720), (1, 720, 1020), (0, 1080, 1420),
    ]  # fmt: skip
    assert reasons_of(log) == [
        (360, 0, 0, "share"), (720, 2, 0, "share-received"), (720, 0, 1, "share"), (1080, 0, 0, "share"),
    ]  # fmt: skip


def test_of_jobs_that_start_together_the_first_by_priority_gets_the_first_server() -> None:
    """At 1080 both servers are free: job 1 has had its turn from 360 to 720, job 3 none."""
    cluster = GpuCluster((ServerGroup("only", "only", 2, 1),))
    jobs = GpuJobs.linear([0, 0, 0, 900], [1, 1, 1, 1], [500, 3000, 100, 3000])
    log = GpuSimulation(cluster, jobs, Gavel(), strict=True).run()
    found = [(int(s.id), float(s.start_s), log.places(k)) for k, s in enumerate(log.segments)]
    assert found == [
        (0, 360, {0: 1}), (1, 360, {1: 1}), (2, 720, {1: 1}), (1, 1080, {1: 1}), (3, 1080, {0: 1}),
    ]  # fmt: skip


def test_a_job_changes_its_kind_of_server_for_its_share_there() -> None:
    """The fast type is free when the first job ends, and the second moves there."""
    cluster = GpuCluster((ServerGroup("a", "slow", 1, 1), ServerGroup("b", "fast", 1, 1, speed=3.0)))
    log = GpuSimulation(cluster, GpuJobs.linear([0, 1], [1, 1], [1500, 9000]), Gavel(), strict=True).run()
    moves = [(kind, job, why) for _, kind, job, why in reasons_of(log) if kind == 1]
    assert moves
    assert {why for *_, why in moves} == {"share"}


def test_a_job_that_has_made_no_progress_on_its_gpus_stays_there() -> None:
    """A start takes 500 s, more than a round: the first job leaves after two rounds."""
    cluster = GpuCluster((ServerGroup("only", "only", 1, 1),))
    jobs = GpuJobs.linear([0, 0], [1, 1], [2000, 2000])
    log = GpuSimulation(cluster, jobs, Gavel(), costs=LifeCosts.of(jobs, first_start_s=500.0)).run(until_s=3000)
    assert [(int(s.id), float(s.start_s)) for s in log.segments][:2] == [(0, 360), (1, 1080)]


def test_jobs_of_a_pool_run_on_its_servers_only() -> None:
    cluster = GpuCluster((ServerGroup("a", "v", 1, 2, "training"), ServerGroup("b", "v", 1, 2, "inference")))
    jobs = GpuJobs.linear([0, 0, 0], [1, 1, 2], [900, 900, 900], pool=[1, 1, 0])
    log = GpuSimulation(cluster, jobs, Gavel(), strict=True).run()
    assert [log.places(k) for k in range(len(log.segments))] == [{1: 1}, {1: 1}, {0: 2}]
    assert log.rows.due_s.tolist() == [1260] * 3


def test_shares_received_begin_anew_when_kinds_of_servers_change() -> None:
    """A server that is lent is of another kind."""

    class Lending(Gavel):
        def decide(self, view: GpuView) -> GpuPlan:
            plan = super().decide(view)
            kinds.append(self._received_s.shape[1])
            lends = (GpuLend(1, 0),) if view.now_s == 720 else ()
            return GpuPlan((*plan.actions, *lends), plan.wake_s)

    kinds: list[int] = []
    cluster = GpuCluster((ServerGroup("a", "v", 1, 2, "training"), ServerGroup("b", "v", 1, 2, "inference")))
    jobs = GpuJobs.linear([0, 0], [2, 2], [1000, 1000], pool=0)
    log = GpuSimulation(cluster, jobs, Lending(), strict=True).run()
    assert kinds[:3] == [2, 2, 1]
    assert {tuple(log.places(k)) for k in range(len(log.segments))} == {(0,), (1,)}
