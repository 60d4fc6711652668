"""Lives of jobs on a GPU cluster, calculated by hand."""

from dataclasses import replace
from math import inf

import numpy as np
import pytest

from mirage.errors import ConfigurationError, PlanInfeasible
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
from mirage.schedule.speeds.speed_arrays import NO_TABLE, linear_speeds
from mirage.schedule.workload.gpu_jobs import GpuJobs

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
    log, script = play(jobs, plans, TWO_POOLS, demand=demand)
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


def test_scheduler_that_starts_no_job_and_jobs_that_fit_nowhere_are_reported() -> None:
    with pytest.raises(PlanInfeasible, match="Script starts none of them: job '0' requests 1 GPUs, and no plan starts"):
        play(GpuJobs.linear([0], [1], [1]), {})
    one_gpu = replace(model_jobs(2), name=("first", "second"), models=("toy",))
    two_gpus_only = epochs_speeds()._replace(rows=np.array([[[[NO_TABLE, 0]]]]))
    reason = (
        "2 jobs wait, .*: job 'second' requests 1 GPUs and has model toy, and at 3 s .* refused: the job cannot run"
    )
    with pytest.raises(PlanInfeasible, match=reason):
        play(one_gpu, {2: [GpuStart(0, {0: 1})], 3: [GpuStart(1, {0: 1})]}, speeds=two_gpus_only)
    with pytest.raises(ConfigurationError, match="needs 9 GPUs, but the cluster has 8 of one type"):
        play(GpuJobs.linear([0], [9], [1]), {})
    nowhere = epochs_speeds()
    nowhere.rows[:] = NO_TABLE
    with pytest.raises(ConfigurationError, match="needs 1 GPUs, but the cluster has 0 of one type on which it runs"):
        play(model_jobs(), {}, speeds=nowhere)
    with pytest.raises(ConfigurationError, match="but the pool has 2; give 0 to 2"):
        play(GpuJobs.linear([0], [1], [1]), {}, TWO_POOLS, demand=[Demand(0, INFERENCE, 3)])


def test_scheduler_receives_its_surroundings_before_anything_else() -> None:
    class SurroundingsRecorder(Script):
        def begin(self, surroundings):
            self.surroundings = surroundings

    script = SurroundingsRecorder({})
    GpuSimulation(TWO_POOLS, model_jobs(2), script, speeds=epochs_speeds())
    got = script.surroundings
    assert (got.gpu_types, got.pools, got.servers) == (
        ("v100",),
        ("training", "inference"),
        ("t-1", "i-1", "i-2"),
    )
    assert (got.jobs, got.speeds.init_batch.tolist()) == (2, [1])


def test_logs_grow_as_far_as_they_must() -> None:
    """A job that changes places 400 times, in a workload of one."""
    jobs = GpuJobs.linear([0], [1], [1000])
    plans = {0: [GpuStart(0, {0: 1})]} | {k: [GpuResize(0, {k % 2: 1})] for k in range(1, 400)}
    log, _ = play(jobs, plans, strict=True)
    assert [log.places(k) for k in range(398)] == [{k % 2: 1} for k in range(398)]
    assert (len(log.segments), log.rows[0].restarts, log.rows[0].due_s) == (400, 399, 1000)
    assert log.decisions.time_s.tolist() == list(range(400))


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
