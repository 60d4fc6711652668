"""Lives of jobs on a GPU cluster, calculated by hand."""

from dataclasses import fields, replace
from math import inf, nan
from typing import Any

import numpy as np
import pytest

from mirage.errors import ConfigurationError, PlanInfeasible
from mirage.schedule.engine.compiled_scheduler import CompiledScheduler
from mirage.schedule.engine.gpu_simulation import GpuSimulation
from mirage.schedule.engine.gpu_world import Demand, LifeCosts
from mirage.schedule.engine.measures import measures
from mirage.schedule.gpu_cluster import GpuCluster, ServerGroup
from mirage.schedule.scheduler_contract import (
    GpuCancel,
    GpuLend,
    GpuPlan,
    GpuPreempt,
    GpuResize,
    GpuReturn,
    GpuStart,
    GpuView,
    JobStatus,
)
from mirage.schedule.schedulers.gpu_scheduler_registry import make_scheduler
from mirage.schedule.speeds.speed_arrays import NO_TABLE, linear_speeds
from mirage.schedule.workload.gpu_jobs import GpuJobs
from tests.support.column_types import wrong_types

TWO_SERVERS = GpuCluster((ServerGroup("a", "v100", 2, 4),))
TWO_POOLS = GpuCluster((ServerGroup("t", "v100", 1, 4, "training"), ServerGroup("i", "v100", 2, 4, "inference")))
TRAINING, INFERENCE = 0, 1


class Script:
    """Gives plans at given times, and records the views."""

    def __init__(self, plans, also_at=()):
        self.plans, self.times, self.views = plans, sorted({*plans, *also_at}), {}

    def decide(self, view: GpuView) -> GpuPlan:
        self.views[view.now_s] = view.copy()
        return GpuPlan(
            tuple(self.plans.get(view.now_s, ())), wake_s=min((t for t in self.times if t > view.now_s), default=None)
        )


def play(jobs, plans, cluster=TWO_SERVERS, also_at=(), until_s=inf, **settings):
    script = Script(plans, also_at)
    return GpuSimulation(cluster, jobs, script, **settings).run(until_s), script


def test_resize_pauses_and_resumes_at_the_new_speed() -> None:
    jobs = GpuJobs.linear([0], [2], [100], min_gpus=1, max_gpus=4, restart_s=0)
    costs = LifeCosts.of(jobs, rescale_s=5.0)
    log, script = play(jobs, {0: [GpuStart(0)], 40: [GpuResize(0, {1: 4})]}, also_at=[42], costs=costs)
    row = log.rows[0]  # 80 of 200 GPU-s in 40 s on 2; pause to 45; 120 on 4 in 30 s
    assert (row.due_s, row.useful, row.overhead, row.lost, row.executed) == (75, 200, 20, 0, 220)
    assert script.views[42].jobs.status[0] == JobStatus.STARTING
    assert script.views[42].jobs.paused_until_s[0] == 45
    assert [(s.start_s, s.end_s, s.gpus, s.pause_s) for s in log.segments] == [(0, 40, 2, 0), (40, 75, 4, 5)]
    assert [log.places(k) for k in (0, 1)] == [{0: 2}, {1: 4}]


def test_preempted_while_it_resumes() -> None:
    jobs = GpuJobs.linear([0], [1], [100])
    costs = LifeCosts.of(jobs, first_start_s=2.0, restart_s=10.0)
    plans = {
        0: [GpuStart(0)],
        22: [GpuPreempt(0, "save")],
        30: [GpuStart(0)],
        35: [GpuPreempt(0, "kill")],
        40: [GpuStart(0)],
    }
    log, _ = play(jobs, plans, costs=costs)
    row = log.rows[0]  # 20 s of work, saved; a pause of 5 s for nothing; 10 s and the other 80
    assert (row.due_s, row.useful, row.overhead, row.lost) == (130, 100, 2 + 5 + 10, 0)
    assert (row.queued_s, row.restarts, row.preemptions) == (13, 2, 2)


@pytest.mark.parametrize(
    ("how", "left_s", "progress", "lost", "overhead"),
    [("kill", 50, 30, 20, 0), ("boundary", 60, 60, 0, 0), ("save", 54, 50, 0, 4)],
)
def test_three_ways_to_preempt(how, left_s, progress, lost, overhead) -> None:
    jobs = GpuJobs.linear([0], [1], [100])
    costs = LifeCosts.of(jobs, save_s=4.0, checkpoint_work=30.0)
    log, script = play(jobs, {0: [GpuStart(0)], 50: [GpuPreempt(0, how)], 90: [GpuStart(0)]}, also_at=[52], costs=costs)
    assert log.segments[0].end_s == left_s
    assert (log.segments[1].progress, log.rows[0].lost, log.rows[0].overhead) == (progress, lost, overhead)
    assert log.rows[0].due_s == 90 + 100 - progress
    status = {"kill": JobStatus.PENDING, "boundary": JobStatus.STOPPING, "save": JobStatus.SAVING}[how]
    assert script.views[52].jobs.status[0] == status
    assert script.views[52].jobs.safe_progress[0] == 30


def test_job_that_waits_for_its_boundary_can_still_be_killed() -> None:
    jobs = GpuJobs.linear([0], [1], [100])
    plans = {
        0: [GpuStart(0)],
        40: [GpuPreempt(0, "boundary")],
        50: [GpuPreempt(0, "save")],
        55: [GpuPreempt(0, "kill"), GpuStart(0)],
    }
    log, script = play(jobs, {**plans, 60: [GpuStart(0)]}, costs=LifeCosts.of(jobs, checkpoint_work=30.0))
    assert log.segments[0].end_s == 55
    assert log.rows[0].lost == 25
    assert [r.why for r in script.views[55].refused] == ["the job is leaving already"]
    assert [r.why for r in script.views[60].refused] == ["the plan names the job or the server twice"]


def test_two_jobs_change_places_in_one_plan_whatever_its_order() -> None:
    jobs = GpuJobs.linear([0, 0], [4, 4], [100, 100])
    start = {0: [GpuStart(0, {0: 4}), GpuStart(1, {1: 4})]}
    log, _ = play(jobs, {**start, 10: [GpuResize(0, {1: 4}), GpuResize(1, {0: 4})]}, strict=True)
    assert [log.places(k) for k in range(4)] == [{0: 4}, {1: 4}, {1: 4}, {0: 4}]
    log.gpu_intervals()
    log, script = play(jobs, {**start, 10: [GpuResize(0, {1: 4}), GpuResize(1, {0: 3})]}, also_at=[11])
    assert [r.why for r in script.views[11].refused] == [
        "the GPUs are not free",
        "the job cannot use this number of GPUs",
    ]
    assert len(log.segments) == 2


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"cluster": 76}, "cluster must be a GpuCluster, got 76"),
        ({"jobs": [1]}, r"jobs must be a GpuJobs, got \[1\]"),
        ({"scheduler": "fifo"}, "scheduler must be a GpuScheduler, got 'fifo'"),
    ],
)
def test_arguments_of_another_kind_are_named(given: dict[str, Any], complaint: str) -> None:
    cluster, jobs = GpuCluster((ServerGroup("a", "t4", 1, 1),)), GpuJobs.linear([0], [1], [1])
    right = {"cluster": cluster, "jobs": jobs, "scheduler": CompiledScheduler("", print)}
    with pytest.raises(ConfigurationError, match=complaint):
        GpuSimulation(**{**right, **given})


def test_refused_action_is_reported_and_raises_in_strict_mode() -> None:
    jobs = GpuJobs.linear([0, 0], [4, 4], [10, 10])
    plans = {
        0: [GpuStart(0, {0: 4}), GpuStart(1, {0: 4}), GpuPreempt(7), GpuStart(1, {9: 4})],
        5: [GpuStart(1, {1: 4})],
    }
    _, script = play(jobs, plans)
    assert [(r.action, r.why) for r in script.views[5].refused] == [
        (plans[0][1], "the GPUs are not free"),
        (plans[0][2], "the job is not active"),
        (plans[0][3], "the plan names the job or the server twice"),
    ]
    with pytest.raises(PlanInfeasible, match="start of 1 was refused: the GPUs are not free"):
        play(jobs, plans, strict=True)


def test_loan_ends_in_time_and_jobs_on_the_server_are_killed() -> None:
    jobs = GpuJobs.linear([0], [8], [100], min_gpus=4, pool=TRAINING)
    plans = {0: [GpuLend(1, TRAINING, until_s=50), GpuStart(0, {0: 4, 1: 4})], 70: [GpuStart(0, {0: 4})]}
    log, script = play(jobs, plans, TWO_POOLS, also_at=[50], costs=LifeCosts.of(jobs, checkpoint_work=300.0))
    assert (log.breaches, log.loans[0].breached, log.loans[0].end_s) == (1, 1, 50)
    assert (log.segments[0].end_s, log.rows[0].lost, log.rows[0].due_s) == (
        50,
        100,
        70 + 500 / 4,
    )  # 300 of 400 are safe
    assert script.views[50].servers.pool.tolist() == [TRAINING, INFERENCE, INFERENCE]


def test_loan_that_is_left_in_time_breaks_no_promise() -> None:
    jobs = GpuJobs.linear([0], [8], [100], min_gpus=4, pool=TRAINING)
    plans = {0: [GpuLend(1, TRAINING, until_s=50), GpuStart(0, {0: 4, 1: 4})], 49: [GpuReturn(1), GpuResize(0, {0: 4})]}
    log, _ = play(jobs, plans, TWO_POOLS, strict=True)
    assert (log.breaches, log.loans[0].end_s, log.rows[0].lost) == (0, 49, 0)
    assert log.rows[0].due_s == 49 + (800 - 49 * 8) / 4


def test_inference_demand_holds_servers_back_and_is_counted_where_it_is_not_met() -> None:
    jobs = GpuJobs.linear([0], [4], [200], pool=TRAINING)
    demand = (Demand(0, INFERENCE, 1), Demand(100, INFERENCE, 2))
    plans = {
        0: [GpuLend(1, TRAINING), GpuLend(2, TRAINING), GpuStart(0, {1: 4})],
        130: [GpuPreempt(0), GpuReturn(1), GpuStart(0, {0: 4})],
        131: [GpuStart(0, {0: 4})],
    }
    log, script = play(jobs, plans, TWO_POOLS, demand=demand, force_after_s=40)
    assert [r.why for r in script.views[100].refused] == ["inference needs the server"]
    assert script.views[100].servers.wanted.tolist() == [0, 2]
    assert log.unmet_server_s == 30
    assert measures(log).unmet_server_h == 30 / 3600
    assert [r.why for r in script.views[131].refused] == ["the plan names the job or the server twice"]


def test_jobs_stay_in_their_pool() -> None:
    jobs = GpuJobs.linear([0], [4], [10], pool=TRAINING)
    _, script = play(jobs, {0: [GpuStart(0, {1: 4})], 1: [GpuStart(0)]}, TWO_POOLS)
    assert [r.why for r in script.views[1].refused] == ["the server is not in the job's pool"]


def test_rounds_include_jobs_submitted_in_their_second_and_pause_without_jobs() -> None:
    class Rounds:
        round_s = 60.0
        views: list[tuple[float, list[int]]] = []  # noqa: RUF012

        def decide(self, view):
            self.views.append((view.now_s, sorted(view.jobs.id.tolist())))
            return GpuPlan(tuple(GpuStart(int(j)) for j in view.jobs.id[view.jobs.pending]))

    jobs = GpuJobs.linear([0, 60, 601], [1, 1, 1], [5, 70, 5])
    log = GpuSimulation(TWO_SERVERS, jobs, Rounds()).run()
    assert Rounds.views == [(60, [0, 1]), (120, [1]), (660, [2])]
    assert log.rows.due_s.tolist() == [65, 130, 665]


def epochs_speeds():
    """One model on one GPU: two epochs, of 10 and 20 units.

    A batch of two gains 4/3 in a step of 2 s of the first epoch, and 8/5 of the second.
    """
    one = np.ones((1, 1), np.int64)
    return linear_speeds(np.ones(1))._replace(
        rows=np.zeros((1, 1, 1, 1), np.int64), knots=one[0], local_batch=np.ones((1, 1)), step_s=np.ones((1, 1)),
        sync_s=np.zeros((1, 1)), row_max_local=100 * one[0], memory_max_local=np.full((1, 1, 1), 100), min_local=one,
        max_local=100 * one, one_gpu_rate=np.ones((1, 1)), init_batch=one[0], max_batch=100 * one[0],
        slowdown=np.ones(1), restart_s=np.zeros(1), epochs=2 * one[0], epoch_end=np.array([[10.0, 30.0]]),
        noise_knots=one[0], noise_batch=np.ones((1, 1)), grad_sqr=np.ones((1, 1, 2)), grad_var=np.array([[[1.0, 3.0]]]),
    )  # fmt: skip


def model_jobs(n=1, **columns):
    linear = GpuJobs.linear([0] * n, [1] * n, [1] * n, max_gpus=2)
    given = {"model": np.zeros(n, np.int64), "work": np.full(n, 30.0), "batch": np.full(n, 2)}
    return type(linear)(**{name: getattr(linear, name) for name in linear.__slots__} | given | columns)


def test_speed_changes_with_the_epoch_and_with_the_batch_at_no_cost() -> None:
    log, _ = play(model_jobs(), {0: [GpuStart(0)]}, speeds=epochs_speeds())
    assert log.rows[0].due_s == 10 / (2 / 3) + 20 / 0.8 == 40
    assert [(p.start_s, p.progress) for p in log.phases] == [(0, 0), (15, 10)]
    assert log.phases.speed.tolist() == pytest.approx([2 / 3, 0.8])
    plans = {0: [GpuStart(0, batch=1)], 5: [GpuResize(0, batch=2)]}  # a batch of one gains 1 a step of 1 s
    log, _ = play(model_jobs(restart_s=np.full(1, 9.0)), plans, speeds=epochs_speeds(), strict=True)
    assert (len(log.segments), log.rows[0].restarts) == (1, 0)
    assert [(p.start_s, p.batch) for p in log.phases] == [(9, 2), (9 + 15, 2)]  # the batch changed in the first pause


def test_job_is_not_started_where_its_model_cannot_run() -> None:
    speeds = epochs_speeds()._replace(rows=np.array([[[[NO_TABLE, 0]]]]))  # on two GPUs only
    _, script = play(model_jobs(), {0: [GpuStart(0, {0: 1})], 1: [GpuCancel(0)]}, speeds=speeds)
    assert [r.why for r in script.views[1].refused] == ["the job cannot run there"]


def test_batch_with_which_a_model_cannot_run_is_refused_where_the_job_stays_too() -> None:
    one = epochs_speeds()
    speeds = one._replace(
        knots=2 * one.knots,
        local_batch=np.array([[1.0, 2.0]]),
        step_s=np.array([[1.0, np.inf]]),
        sync_s=np.zeros((1, 2)),
    )
    here, there = GpuResize(0, batch=4), GpuResize(0, {1: 1}, batch=4)
    plans = {0: [GpuStart(0, {0: 1}, batch=2)], 5: [here], 6: [there], 7: [GpuResize(0, batch=1)]}
    log, script = play(model_jobs(), plans, also_at=[8], speeds=speeds)
    for at_s, refused in ((6, [here]), (7, [there]), (8, [])):
        assert [(r.action, r.why) for r in script.views[at_s].refused] == [
            (action, "the job cannot run there") for action in refused
        ]
    assert log.phases.batch.tolist() == [2, 1, 1]


def test_job_is_packed_where_it_is_fastest_with_the_batch_of_its_plan() -> None:
    """The one type is faster with a batch of one, and cannot hold two."""
    two = np.ones((1, 2), np.int64)
    speeds = epochs_speeds()._replace(
        type_speed=np.ones(2), rows=np.array([[[[0]], [[1]]]]), knots=2 * two[0], min_local=two, max_local=9 * two,
        local_batch=np.array([[1.0, 2.0]] * 2), step_s=np.array([[1.0, np.inf], [2.0, 2.0]]), sync_s=np.zeros((2, 2)),
        row_max_local=9 * two[0], memory_max_local=9 * two[..., None], one_gpu_rate=np.ones((1, 2)),
    )  # fmt: skip
    cluster = GpuCluster((ServerGroup("a", "fast", 1, 1), ServerGroup("b", "roomy", 1, 1)))
    jobs = model_jobs(batch=np.ones(1, np.int64))
    for batch, server in ((1, 0), (4, 1)):
        log, _ = play(jobs, {0: [GpuStart(0, batch=batch)]}, cluster, speeds=speeds, strict=True)
        assert log.places(0) == {server: 1}


def test_costs_vary_around_what_is_expected_and_are_the_same_for_the_same_seed() -> None:
    n = 600
    jobs = GpuJobs.linear(np.arange(n) * 1000.0, [1] * n, [1] * n, restart_s=60.0)
    plans = {1000.0 * k: [GpuStart(k)] for k in range(n)}

    def pauses(seed):
        log, script = play(jobs, plans, cost_spread=0.5, seed=seed)
        assert set(script.views[0.0].jobs.restart_s) == {60.0}
        return log.segments.pause_s

    first = pauses(1)
    assert np.array_equal(first, pauses(1))
    assert not np.array_equal(first, pauses(2))
    assert first.mean() == pytest.approx(60, rel=0.06)
    assert first.std() == pytest.approx(30, rel=0.15)


def test_view_shows_the_engines_memory_and_cannot_change_it() -> None:
    jobs = GpuJobs.linear([0, 0], [3, 6], [10, 10])
    shown = []

    class ViewRecorder:
        def decide(self, view):
            shown.append((view, view.copy(), view.held.of(0)))
            return GpuPlan(tuple(GpuStart(int(j)) for j in view.jobs.id[view.jobs.pending]))

    simulation = GpuSimulation(TWO_SERVERS, jobs, ViewRecorder())
    simulation.run()
    (view, copied, _), (_, later, held) = shown[:2]
    assert np.shares_memory(view.jobs.gpus, simulation.view().jobs.gpus) or len(simulation.view().jobs) == 0
    assert (copied.servers.free.tolist(), later.servers.free.tolist()) == ([4, 4], [4, 4])
    assert (copied.jobs.id.tolist(), later.jobs.id.tolist(), held) == ([0, 1], [1], {})
    for column in (view.jobs.status, view.jobs.progress, view.servers.free):
        with pytest.raises(ValueError, match="read-only"):
            column[0] = 1


def test_evictions_beyond_what_was_needed_are_counted() -> None:
    jobs = GpuJobs.linear([0, 5], [8, 2], [20, 10])
    log, _ = play(
        jobs, {0: [GpuStart(0)], 5: [GpuPreempt(0, needed_gpus=2), GpuStart(1)], 15: [GpuStart(0)]}, strict=True
    )
    assert (measures(log).excess_gpus, measures(log).preemptions, log.rows.due_s.tolist()) == (6, 1, [30, 15])


def refusal(play_it) -> str:
    with pytest.raises((ConfigurationError, PlanInfeasible)) as refused:
        play_it()
    return str(refused.value)


def test_a_scheduler_that_starts_no_job_is_reported_with_the_last_start_that_was_refused() -> None:
    assert refusal(lambda: play(GpuJobs.linear([7], [3], [1], name=("a",)), {})) == (
        "at 7 s 1 jobs wait, nothing runs, and Script starts none of them: job 'a' requests 3 GPUs, and no plan starts "
        "it; let the scheduler start what fits, or leave the job out"
    )
    models = replace(model_jobs(2), name=("first", "second"), models=("toy",))
    two_gpus_only = epochs_speeds()._replace(rows=np.array([[[[NO_TABLE, 0]]]]))
    plans = {2: [GpuStart(0, {0: 1})], 3: [GpuStart(1, {0: 1}), GpuPreempt(0)]}
    assert refusal(lambda: play(models, plans, speeds=two_gpus_only)) == (
        "at 3 s 2 jobs wait, nothing runs, and Script starts none of them: job 'second' requests 1 GPU and has model "
        "toy, and at 3 s its start was refused: the job cannot run there; fix the scheduler, or leave the job out"
    )


def test_only_starts_of_jobs_that_still_wait_explain_why_nothing_starts() -> None:
    """Job 0 was refused, then cancelled; job 1 was cancelled in a refused plan."""
    jobs = GpuJobs.linear([0, 0], [1, 1], [1, 1])
    message = refusal(lambda: play(jobs, {0: [GpuStart(0, {0: 9})], 1: [GpuCancel(0), GpuPreempt(1)]}))
    assert "1 jobs wait" in message
    assert "job '1' requests 1 GPU, and no plan starts it" in message


def test_a_job_that_fits_nowhere_is_refused_before_anything_runs() -> None:
    nowhere = epochs_speeds()
    nowhere.rows[:] = NO_TABLE
    two_types = GpuCluster((ServerGroup("a", "v100", 2, 4), ServerGroup("b", "t4", 3, 2)))
    remedy = "leave it out, or give a larger cluster"
    for message, jobs, cluster, speeds in (
        ("'wide' needs 9 GPUs, but the cluster has 8", GpuJobs.linear([0, 1], [8, 9], 1.0), two_types, None),
        ("'wide' needs 1 GPU, but the cluster has 0", model_jobs(2, model=np.array([-1, 0])), TWO_SERVERS, nowhere),
    ):
        named = replace(jobs, name=("small", "wide"))
        found = refusal(lambda jobs=named, cluster=cluster, speeds=speeds: play(jobs, {}, cluster, speeds=speeds))
        assert found == f"job {message} of one type on which it runs; {remedy}"
    unmeasured = replace(model_jobs(2, model=np.array([0, 1])), name=("known", "unknown"))
    assert refusal(lambda: play(unmeasured, {}, speeds=epochs_speeds())) == (
        "job 'unknown' has a model without speeds; give the profiles of its workload"
    )


def test_demand_beyond_a_pool_is_refused() -> None:
    jobs = GpuJobs.linear([0], [1], [1], pool=TRAINING)
    for servers in (0, 2):
        play(jobs, {0: [GpuStart(0)]}, TWO_POOLS, demand=[Demand(0, INFERENCE, servers)])
    for pool, servers, there, name in (
        (INFERENCE, 3, 2, "'inference'"),
        (INFERENCE, -1, 2, "'inference'"),
        (2, 1, 0, "2"),
    ):
        assert refusal(
            lambda pool=pool, servers=servers: play(jobs, {}, TWO_POOLS, demand=[Demand(5, pool, servers)])
        ) == (
            f"inference takes {servers} servers of pool {name} at 5 s, but the pool has {there}; give 0 to {there}, of "
            f"one of {', '.join(TWO_POOLS.pools)}"
        )
    for pool in (-1, INFERENCE):
        shared = GpuJobs.linear([0, 1], [1, 1], [1, 1], pool=[TRAINING, pool], name=("own", "shared"))
        play(shared, {0: [GpuStart(0)], 1: [GpuStart(1)]}, TWO_POOLS, demand=[Demand(0, TRAINING, 0)])
        assert refusal(lambda jobs=shared: play(jobs, {}, TWO_POOLS, demand=[Demand(5, INFERENCE, 1)])) == (
            "job 'shared' may run in pool 'inference', from which inference takes 1 servers at 5 s; name another pool "
            "for the job (pool=), to which the scheduler may lend servers"
        )


def test_changes_of_demand_come_in_order_of_time_and_of_one_time_the_last_of_the_pool_counts() -> None:
    demand = [Demand(10.0003, INFERENCE, 2), Demand(5, INFERENCE, 1), Demand(10, TRAINING, 0), Demand(20, INFERENCE, 0)]
    jobs = GpuJobs.linear([0], [1], [30], pool=TRAINING)
    _, script = play(jobs, {0: [GpuStart(0)]}, TWO_POOLS, also_at=[4, 6, 11, 21], demand=demand)
    assert [script.views[at_s].servers.wanted.tolist() for at_s in (4, 6, 11, 21)] == [[0, 0], [0, 1], [0, 2], [0, 0]]
    assert 10 in script.views  # a tick is 2^-10 s: the nearest one to 10.0003 is at 10


@pytest.mark.parametrize(("known", "run_s"), [("nothing", [nan, nan]), ("estimate", [nan, 70]), ("run-time", [50, 70])])
def test_run_times_that_a_scheduler_knows(known, run_s) -> None:
    jobs = GpuJobs.linear([0, 0], [1, 1], [50, 60], estimate_s=[nan, 70])
    _, script = play(jobs, {0: [GpuStart(0), GpuStart(1)]}, known=known)
    np.testing.assert_array_equal(script.views[0].jobs.run_s, run_s)
    np.testing.assert_array_equal(script.views[0].jobs.left_s, run_s)


def test_compiled_schedulers_that_need_run_times_know_them() -> None:
    jobs = GpuJobs.linear([0, 0], [8, 8], [50, 40])
    log = GpuSimulation(TWO_SERVERS, jobs, make_scheduler("sjf"), known="nothing").run()
    assert log.rows.due_s.tolist() == [90, 40]


@pytest.mark.parametrize(
    ("at_s", "run_s", "done"),
    [(1, 30, 1 / 30), (20, 30, 2 / 3), (30, 30, 1), (31, 60, 31 / 60), (60, 60, 1), (90, 120, 0.75), (99, 120, 0.825)],
)
def test_the_share_done_does_not_reveal_the_true_run_time(at_s: float, run_s: float, done: float) -> None:
    """A job of 100 s is expected to run 30 s, then 60 s, then 120 s."""
    jobs = GpuJobs.linear([0], [2], [100], estimate_s=30)
    _, script = play(jobs, {0: [GpuStart(0, {0: 2})]}, also_at=[at_s])
    shown = script.views[at_s].jobs
    assert shown.run_s.tolist() == [run_s]
    assert shown.done.tolist() == pytest.approx([done])
    assert (shown.attained_gpu_s / shown.gpus / shown.done).tolist() == pytest.approx([run_s])
    assert shown.left_s.tolist() == pytest.approx([run_s - at_s])


def test_every_column_of_a_view_by_hand() -> None:
    """A job of 100 s on 2 GPUs has a start cost of 3 s and is preempted once; another waits.

    It is expected to run 200 s, so the share that is done is of 200 s.
    """
    jobs = GpuJobs.linear(
        [5, 6], [2, 3], [100, 10], min_gpus=[1, 3], max_gpus=[4, 3], estimate_s=[200, nan], pool=[0, -1]
    )
    costs = LifeCosts.of(
        jobs, first_start_s=3.0, restart_s=4.0, rescale_s=np.array([5.0, 6.0]), save_s=7.0, checkpoint_work=30.0
    )
    plans = {
        10: [GpuStart(0, {0: 1, 1: 1}, batch=9)],
        53: [GpuPreempt(0, "kill")],
        60: [GpuStart(0, {1: 2})],
        70: [GpuStart(1)],
    }
    _, script = play(jobs, plans, also_at=[6, 12, 33, 54, 62], costs=costs)
    given = {
        "id": [0, 1], "submit_s": [5, 6], "model": [-1, -1], "gpus": [2, 3], "min_gpus": [1, 3], "max_gpus": [4, 3],
        "pool": [0, -1], "types": [-1, -1], "run_s": [200, nan], "checkpoint_work": [30, 30], "first_start_s": [3, 3],
        "restart_s": [4, 4], "rescale_s": [5, 6], "save_s": [7, 7],
    }  # fmt: skip
    changing = {
        6: {
            "status": [1, 1], "done": [0, nan], "progress": [0, 0], "safe_progress": [0, 0], "attained_gpu_s": [0, 0],
            "held": [0, 0], "servers": [0, 0], "gpu_type": [-1, -1], "batch": [0, 0], "start_s": [nan, nan],
            "paused_until_s": [nan, nan], "restarts": [0, 0], "preemptions": [0, 0], "queued_since_s": [5, 6],
        },
        12: {
            "status": [2, 1], "done": [0, nan], "progress": [0, 0], "safe_progress": [0, 0], "attained_gpu_s": [4, 0],
            "held": [2, 0], "servers": [2, 0], "gpu_type": [0, -1], "batch": [9, 0], "start_s": [10, nan],
            "paused_until_s": [13, nan], "restarts": [0, 0], "preemptions": [0, 0], "queued_since_s": [nan, 6],
        },
        33: {
            "status": [3, 1], "done": [0.1, nan], "progress": [40, 0], "safe_progress": [30, 0],
            "attained_gpu_s": [46, 0], "held": [2, 0], "servers": [2, 0], "gpu_type": [0, -1], "batch": [9, 0],
            "start_s": [10, nan], "paused_until_s": [nan, nan], "restarts": [0, 0], "preemptions": [0, 0],
            "queued_since_s": [nan, 6],
        },
        54: {
            "status": [1, 1], "done": [0.15, nan], "progress": [60, 0], "safe_progress": [60, 0],
            "attained_gpu_s": [86, 0], "held": [0, 0], "servers": [0, 0], "gpu_type": [-1, -1], "batch": [9, 0],
            "start_s": [10, nan], "paused_until_s": [nan, nan], "restarts": [0, 0], "preemptions": [1, 0],
            "queued_since_s": [53, 6],
        },
        62: {
            "status": [2, 1], "done": [0.15, nan], "progress": [60, 0], "safe_progress": [60, 0],
            "attained_gpu_s": [90, 0], "held": [2, 0], "servers": [1, 0], "gpu_type": [0, -1], "batch": [9, 0],
            "start_s": [10, nan], "paused_until_s": [64, nan], "restarts": [1, 0], "preemptions": [1, 0],
            "queued_since_s": [nan, 6],
        },
    }  # fmt: skip
    for at_s, columns in changing.items():
        shown = script.views[at_s].jobs
        assert {f.name for f in fields(shown)} == given.keys() | columns.keys()
        order = np.argsort(shown.id)
        for name, expected in {**given, **columns}.items():
            np.testing.assert_array_equal(getattr(shown, name)[order], expected, f"{name} at {at_s}")
        assert (
            wrong_types(shown) == wrong_types(script.views[at_s].servers) == wrong_types(script.views[at_s].held) == {}
        )
    held = {at_s: [script.views[at_s].held.of(k) for k in np.argsort(script.views[at_s].jobs.id)] for at_s in changing}
    both, alone = [{0: 1, 1: 1}, {}], [{1: 2}, {}]
    assert held == {6: [{}, {}], 12: both, 33: both, 54: [{}, {}], 62: alone}


def test_every_column_of_the_servers_by_hand() -> None:
    cluster = GpuCluster((*TWO_POOLS.groups, ServerGroup("x", "t4", 1, 2, "training")))
    jobs = GpuJobs.linear([0], [3], [50], pool=TRAINING)
    plans = {0: [GpuStart(0, {0: 3}), GpuLend(2, TRAINING, until_s=40), GpuLend(1, TRAINING)]}
    _, script = play(jobs, plans, cluster, also_at=[20], demand=[Demand(10, INFERENCE, 1)], force_after_s=inf)
    servers = script.views[20].servers
    assert (servers.gpu_type.tolist(), servers.gpus.tolist()) == ([0, 0, 0, 1], [4, 4, 4, 2])
    assert servers.free.tolist() == [1, 4, 4, 2]
    assert (servers.pool.tolist(), servers.home.tolist()) == ([0, 0, 0, 0], [0, 1, 1, 0])
    assert (servers.lent_until_s.tolist(), servers.wanted.tolist()) == ([inf, inf, 40, inf], [0, 1])


def test_no_column_of_a_view_can_be_changed_and_every_one_of_a_copy_can() -> None:
    simulation = GpuSimulation(TWO_SERVERS, GpuJobs.linear([0], [1], [9]), make_scheduler("fifo"))
    simulation.advance(until_s=5)
    view = simulation.view()
    for shown, may_change in ((view, False), (view.copy(), True)):
        for columns in (shown.jobs, shown.servers, shown.held):
            for column in fields(columns):
                assert getattr(columns, column.name).flags.writeable == may_change, column.name
    assert view.copy().held.of(0) == view.held.of(0) == {0: 1}


def test_time_stops_at_the_last_tick_before_a_limit() -> None:
    simulation = GpuSimulation(TWO_SERVERS, GpuJobs.linear([0], [1], [100]), make_scheduler("fifo"))
    for until_s, now_s in ((10.0, 10), (20.0009, 20), (30 + 1.9 / 1024, 30 + 1 / 1024)):
        assert simulation.run(until_s).now_s == simulation.now_s == now_s
    assert simulation.run().rows.due_s.tolist() == [100]


def test_every_kind_of_action_has_its_word_where_it_is_refused() -> None:
    jobs = GpuJobs.linear([0], [1], [9], pool=TRAINING)
    for word, action, named, why in (
        ("start", GpuStart(0, {5: 1}), 0, "there is no such server or pool, or a number of GPUs is not above 0"),
        ("resize", GpuResize(0), 0, "the job holds no GPUs"),
        ("preempt", GpuPreempt(0), 0, "the job holds no GPUs"),
        ("cancel", GpuCancel(3), 3, "the job is not active"),
        ("lend", GpuLend(1, INFERENCE), 1, "the server is lent already, or belongs to that pool"),
        ("return", GpuReturn(2), 2, "the server is not lent"),
    ):
        plans = {0.25: [], 0.5: [GpuStart(0, {0: 1})]} | ({0.25: [action]})
        plans = {0: [], **plans}
        assert refusal(lambda plans=plans: play(jobs, plans, TWO_POOLS, strict=True)) == (
            f"at 0.250 s action {word} of {named} was refused: {why}; fix the scheduler, or run it without strict"
        )


def test_of_several_refused_actions_the_first_is_named_in_strict_mode() -> None:
    jobs = GpuJobs.linear([0, 0], [1, 1], [9, 9])
    plans = {0: [GpuStart(0)], 1: [GpuStart(1), GpuCancel(8), GpuCancel(7)]}
    assert "at 1.000 s action cancel of 8 was refused" in refusal(lambda: play(jobs, plans, strict=True))


def test_the_processor_time_of_every_decision_is_recorded_with_its_time_and_its_jobs(monkeypatch) -> None:
    spent = iter(range(0, 100, 3))
    monkeypatch.setattr("time.process_time", lambda: next(spent) ** 2)
    jobs = GpuJobs.linear([1, 4], [4, 4], [10, 10])
    simulation = GpuSimulation(TWO_SERVERS, jobs, Script({1: [GpuStart(0)], 4: [GpuStart(1)]}))
    simulation.run()
    assert simulation.policy_s == [(1, 1, 9 - 0), (4, 2, 81 - 36), (11, 1, 225 - 144)]


def test_a_round_lasts_a_whole_number_of_ticks_and_at_least_one() -> None:
    class Rounds:
        called_on = 0

        def __init__(self, round_s):
            self.round_s, self.called_s = round_s, []

        def decide(self, view):
            self.called_s.append(view.now_s)
            return GpuPlan(tuple(GpuStart(int(j)) for j in view.jobs.id[view.jobs.pending]))

    tick_s = 1 / 1024
    for round_s, called_s in ((1e-9, [tick_s, 2 * tick_s]), (2.6 * tick_s, [3 * tick_s, 6 * tick_s]), (1, [1, 2])):
        rounds = Rounds(round_s)
        GpuSimulation(TWO_SERVERS, GpuJobs.linear([0], [1], [9]), rounds).advance(until_s=2 * called_s[0])
        assert rounds.called_s == called_s


def test_a_plan_may_be_larger_than_all_before_it() -> None:
    """Most of its starts name too many GPUs on several servers, and one is right."""
    cluster = GpuCluster((ServerGroup("a", "v100", 30, 1),))
    n = 90
    jobs = GpuJobs.linear([0.0] * n, [2] * n, [1.0] * n, max_gpus=60)
    everywhere = dict.fromkeys(range(30), 2)
    for right in (0, n // 2, n - 1):
        plan = [GpuStart(job, {3: 1, 7: 1} if job == right else everywhere) for job in range(n)]
        later = {k + 1: [GpuStart(job, {0: 1, 1: 1})] for k, job in enumerate(job for job in range(n) if job != right)}
        log, script = play(jobs, {0: plan, **later}, cluster)
        assert log.places(0) == {3: 1, 7: 1}
        assert [one.action for one in script.views[1].refused] == [action for action in plan if action.job != right]
        assert {one.why for one in script.views[1].refused} == {"the GPUs are not free"}


def test_scheduler_receives_its_surroundings_before_anything_else() -> None:
    class SurroundingsRecorder(Script):
        def begin(self, surroundings):
            self.surroundings = surroundings

    script = SurroundingsRecorder({})
    GpuSimulation(TWO_POOLS, replace(model_jobs(2), models=("toy",)), script, speeds=epochs_speeds())
    got = script.surroundings
    assert (got.gpu_types, got.pools, got.servers) == (
        ("v100",),
        ("training", "inference"),
        ("t-1", "i-1", "i-2"),
    )
    assert (got.jobs, got.models, got.speeds.init_batch.tolist()) == (2, ("toy",), [1])


def test_logs_grow_as_far_as_they_must() -> None:
    """A job that changes places 400 times, in a workload of one."""
    jobs = GpuJobs.linear([0], [1], [1000])
    plans = {0: [GpuStart(0, {0: 1})]} | {k: [GpuResize(0, {k % 2: 1})] for k in range(1, 400)}
    log, _ = play(jobs, plans, strict=True)
    assert [log.places(k) for k in range(398)] == [{k % 2: 1} for k in range(398)]
    assert (len(log.segments), log.rows[0].restarts, log.rows[0].due_s) == (400, 399, 1000)
    assert log.decisions.time_s.tolist() == list(range(400))


def test_logs_of_loans_and_of_speeds_grow_as_far_as_they_must() -> None:
    """A server is lent and given back 200 times, while a job changes its batch and stays."""
    jobs = GpuJobs.linear([0], [1], [401], pool=TRAINING)
    plans = {0: [GpuStart(0)]}
    for k in range(1, 401):
        plans[k] = [GpuLend(1, TRAINING) if k % 2 else GpuReturn(1, reason=f"{k}"), GpuResize(0, batch=k)]
    log, script = play(jobs, plans, TWO_POOLS, strict=True)
    assert [(one.start_s, one.end_s) for one in log.loans] == [(k, k + 1) for k in range(1, 400, 2)]
    assert log.phases.batch.tolist() == list(range(401))
    assert [log.reasons[row.reason] for row in log.decisions if row.kind == 5] == [f"{k}" for k in range(2, 401, 2)]
    assert script.views[400].jobs.batch.tolist() == [399]


def test_measures_by_hand() -> None:
    """Two jobs of 4 GPUs, then one of 8; 8 GPUs in two servers."""
    jobs = GpuJobs.linear([0, 0, 10], [4, 3, 8], [20, 30, 10])
    log, _ = play(jobs, {0: [GpuStart(0), GpuStart(1)], 30: [GpuStart(2)]})
    found = measures(log)
    assert (found.mean_jct_s, found.makespan_s, found.mean_wait_s) == ((20 + 30 + 30) / 3, 40, 20 / 3)
    assert (found.gpu_h * 3600, found.useful_gpu_h * 3600) == (80 + 90 + 80, 250)
    assert found.sor == 250 / (8 * 40)
    assert found.gar == 7 / 8  # 7 of 8 for 20 s, 3 for 10 s, 8 for 10 s
    assert found.gfr == 30 / (2 * 40)
    assert found.jwtd_s == {2: (0, 0), 4: (0, 0), 8: (20, 20)}
    assert found.jtted == (1, 1, 1)
    # requested: 7 until 10, 15 until 20, 11 until 30, 8 until 40
    crowd = np.array([(70 + 150) / 20, (70 + 150 + 110) / 30, (150 + 110 + 80) / 30]) / 8
    fair = np.array([20 / 20, 30 / 30, 30 / 10]) / crowd
    assert (found.mean_unfairness, found.worst_unfairness) == pytest.approx((fair.mean(), fair.max()))
    assert np.isnan(measures(play(jobs[:0], {})[0]).mean_jct_s)
