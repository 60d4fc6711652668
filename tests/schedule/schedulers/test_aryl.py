"""Aryl: SJF without loans and elasticity, hand cases, and the knapsack checked fully."""

from itertools import combinations, product
from types import SimpleNamespace

import numpy as np
import pytest

from mirage.errors import ConfigurationError
from mirage.kernel.record_arrays import records
from mirage.schedule.engine.gpu_log import GpuLog
from mirage.schedule.engine.gpu_simulation import GpuSimulation
from mirage.schedule.engine.gpu_world import Demand, LifeCosts
from mirage.schedule.engine.kernel.gpu_arrays import LEND, RESIZE, RETURN
from mirage.schedule.gpu_cluster import GpuCluster, ServerGroup
from mirage.schedule.rounds.highs import OPTIMAL, minimise
from mirage.schedule.schedulers.elastic_knapsack import add_job, share_by_least_work, share_linear, trace_back
from mirage.schedule.schedulers.gpu_scheduler_registry import make_scheduler
from mirage.schedule.workload.gpu_jobs import ALL_TYPES, GpuJobs

TRAINING, INFERENCE = 0, 1
CLUSTER = GpuCluster((ServerGroup("t", "v100", 3, 4, "training"), ServerGroup("i", "t4", 5, 4, "inference", speed=0.5)))
V100 = 0b01


def jobs_of(seed: int, n: int = 150, elastic: float = 0.0, fungible: float = 0.5) -> GpuJobs:
    rng = np.random.default_rng(seed)
    gpus = rng.choice([1, 2, 3, 4, 6], n)
    return GpuJobs.linear(
        np.sort(rng.integers(0, 40_000, n)),
        gpus,
        rng.integers(60, 7200, n),
        max_gpus=np.where(rng.random(n) < elastic, 3 * gpus, gpus),
        types=np.where(rng.random(n) < fungible, ALL_TYPES, V100),
        restart_s=rng.integers(0, 60, n),
        pool=TRAINING,
    )


def demand_of(seed: int, notice_s: float = 300.0) -> list[Demand]:
    rng = np.random.default_rng(seed)
    times = np.arange(0, 120_000, 700)
    return [
        Demand(float(time_s), INFERENCE, int(rng.integers(0, 6)), max(float(time_s) - notice_s, 0)) for time_s in times
    ]


def play(jobs: GpuJobs, scheduler: str = "aryl", demand: list[Demand] | None = None, **parameters: object) -> GpuLog:
    made = make_scheduler(scheduler, **parameters)
    log = GpuSimulation(CLUSTER, jobs, made, demand=demand or [], known="run-time", strict=True).run()
    assert (log.rows.due_s < np.inf).all()
    log.gpu_intervals()
    return log


@pytest.mark.parametrize("seed", range(3))
def test_without_loans_and_elasticity_it_is_sjf_bit_for_bit(seed: int) -> None:
    jobs, demand = jobs_of(seed, elastic=0.5), demand_of(seed)
    sjf, aryl = play(jobs, "sjf", demand), play(jobs, "aryl", demand, loans=False, elastic=False)
    for records_of in ("segments", "placement_rows", "phases", "rows"):
        assert getattr(sjf, records_of).tobytes() == getattr(aryl, records_of).tobytes()
    assert len(aryl.loans) == 0


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("each", [1, 2, 3])
def test_loans_meet_every_announced_demand_and_shorten_waits(seed: int, each: int, monkeypatch) -> None:
    old = ServerGroup("i", "t4", 5, 4, "inference", speed=0.5, gpus_for_one=each)
    monkeypatch.setitem(globals(), "CLUSTER", GpuCluster((CLUSTER.groups[0], old)))
    jobs, demand = jobs_of(seed, elastic=0.4), demand_of(seed)
    alone = play(jobs, "aryl", demand, loans=False, elastic=False)
    log = play(jobs, "aryl", demand)
    assert (log.breaches, log.unmet_server_s) == (0, 0)
    assert len(log.loans) > 20
    assert log.rows.queued_s.sum() < alone.rows.queued_s.sum()
    done = log.decisions[log.decisions.refused == 0]
    assert {LEND, RETURN, RESIZE} <= set(done.kind.tolist())
    on_t4 = log.segments[log.segments.gpu_type == 1]
    assert len(on_t4) > 0
    assert (on_t4.gpus % each == 0).all()
    assert (log.segments.gpus > jobs.gpus[log.segments.id]).any()
    least = jobs.gpus[log.segments.id] * np.where(log.segments.gpu_type == 1, each, 1)
    assert (log.segments.gpus >= least).all()  # no job has less than its base
    assert (log.segments.gpus <= least * np.where(jobs.max_gpus > jobs.gpus, 3, 1)[log.segments.id]).all()


@pytest.mark.parametrize("seed", range(8))
def test_jobs_that_save_before_they_leave_give_servers_back_late_but_at_the_deadline(seed: int) -> None:
    jobs, demand = jobs_of(seed, fungible=1.0), demand_of(seed)
    scheduler = make_scheduler("aryl", preempt="save")
    log = GpuSimulation(
        CLUSTER, jobs, scheduler, demand=demand, known="run-time", costs=LifeCosts.of(jobs, save_s=250.0)
    ).run()
    assert (log.breaches, log.unmet_server_s) == (0, 0)
    assert log.rows.preemptions.sum() > 0
    assert (log.rows.lost == 0).all()
    assert not log.decisions.refused.any()


# -- reclaim ---------------------------------------------------------------------------------------------------------


def reclaimed(
    placed: list[dict[int, int]], wanted: int, elastic: tuple[int, ...] = (), losses: list[float] | None = None
) -> tuple[list[int], list[int]]:
    """Servers given back, and jobs preempted; all servers are lent."""
    from mirage.schedule.engine.kernel.gpu_arrays import CHUNK, CLOCK, JOB, NIL, RUNNING
    from mirage.schedule.schedulers.server_reclaim import AVAILABLE, CHOSEN, choose_servers

    servers = 1 + max(server for places in placed for server in places)
    gpus_of = np.full(servers, 4)
    live, chunks, free, clock = records(JOB, len(placed)), records(CHUNK, 200), gpus_of.copy(), np.zeros(1, CLOCK)
    n = 0
    for k, places in enumerate(placed):
        live[k].id, live[k].status, live[k].chunk = k, RUNNING, n
        for server, gpus in places.items():
            chunks[n].server, chunks[n].gpus, chunks[n].next = server, gpus, n + 1
            free[server] -= gpus
            n += 1
        chunks[n - 1].next = NIL
    clock["n_live"] = len(placed)
    state = SimpleNamespace(live=live, chunks=chunks, free=free, clock=clock.view(np.recarray))
    base = np.array([1 if k in elastic else len(places) for k, places in enumerate(placed)])
    loss, whole = losses or [1.0] * len(placed), losses is not None
    choice, preempted = np.full(servers, AVAILABLE), np.zeros(len(placed), np.int64)
    function = getattr(choose_servers, "py_func", choose_servers)
    with pytest.MonkeyPatch.context() as patched:
        for name in ("server_costs", "preempt_jobs"):
            kernel = function.__globals__[name]
            patched.setitem(function.__globals__, name, getattr(kernel, "py_func", kernel))
        function(state, gpus_of, wanted, choice, np.zeros(servers), base, preempted, np.array(loss), whole)
    return np.flatnonzero(choice == CHOSEN).tolist(), np.flatnonzero(preempted).tolist()


def test_servers_of_one_job_are_given_back_with_one_preemption() -> None:
    assert reclaimed([{0: 4, 1: 4}, {2: 4}], 2) == ([0, 1], [0])


def test_server_with_the_least_cost_goes_first() -> None:
    """S1{a}, S2{a,b}, S3{c,d}: costs .5, 1.5 and 2; then S2 costs 1."""
    placed = [{0: 4, 1: 2}, {1: 2}, {2: 1}, {2: 3}]
    assert reclaimed(placed, 1) == ([0], [0])
    assert reclaimed(placed, 2) == ([0, 1], [0, 1])


def test_empty_servers_and_those_with_flexible_workers_go_first() -> None:
    """Job 0 is elastic: base on server 0, flexible workers on server 2; server 3 is empty."""
    placed = [{0: 4, 2: 2}, {1: 1}, {4: 1}]
    assert reclaimed(placed, 1, elastic=(0,)) == ([3], [])
    assert reclaimed(placed, 2, elastic=(0,)) == ([2, 3], [])
    assert reclaimed(placed, 3, elastic=(0,)) == ([0, 2, 3], [0])


def test_weighed_losses_spare_a_large_job_with_much_to_lose() -> None:
    """One server is wanted: the published cost is 1/3 for the large job, 1 for the other."""
    placed = [{0: 4, 1: 4, 2: 4}, {3: 1}]
    assert reclaimed(placed, 1) == ([0], [0])
    assert reclaimed(placed, 1, losses=[1200.0, 500.0]) == ([3], [1])
    assert reclaimed(placed, 3, losses=[1200.0, 500.0]) == ([0, 1, 2], [0])


@pytest.mark.parametrize("seed", range(4))
def test_greedy_reclaim_preempts_few_more_jobs_than_the_optimum(seed: int) -> None:
    """On small random cases the optimum is found by trying all sets of servers."""
    rng = np.random.default_rng(seed)
    greedy = best = 0
    for _ in range(20):
        placed = [
            dict.fromkeys(rng.choice(7, int(rng.integers(1, 4)), replace=False).tolist(), 1)
            for _ in range(int(rng.integers(4, 8)))
        ]
        servers = 1 + max(max(places) for places in placed)
        wanted = int(rng.integers(1, servers))
        returned, preempted = reclaimed(placed, wanted)
        assert len(returned) == wanted
        assert {k for k, places in enumerate(placed) if set(places) & set(returned)} == set(preempted)
        greedy += len(preempted)
        best += min(
            sum(not set(places).isdisjoint(chosen) for places in placed)
            for chosen in combinations(range(servers), wanted)
        )
    assert best <= greedy <= 1.25 * best


def test_job_that_loses_much_on_slower_gpus_waits_for_its_own_pool() -> None:
    """Jobs of 12 GPUs; the second one can start on T4, where it takes twice its run time."""
    demand = [Demand(0, INFERENCE, 0)]
    for run_s, on_t4 in ((3600, True), (5 * 3600, False)):
        jobs = GpuJobs.linear([0, 300], [12, 12], [4 * 3600, run_s], pool=TRAINING)
        log = play(jobs, "aryl-plus", demand, most_loss_h=4.0, moves=False)
        assert log.segments.gpu_type.tolist() == [0, int(on_t4)]
        assert play(jobs, "aryl", demand).segments.gpu_type.tolist() == [0, 1]
        assert log.rows.start_s[1] == (300 if on_t4 else 4 * 3600)


def test_job_on_slower_gpus_moves_to_its_own_pool_when_no_job_waits_there() -> None:
    """Job 0 holds all V100 until 663, then job 2; at 1,626 job 1 moves there from T4.

    By then it has run 1,263 s on T4, which are half as fast: 4,369 s of its 5,000 s are left, and a move, which costs
    63 s, saves 4,306 s.
    """
    jobs = GpuJobs.linear([0, 300, 301], [12, 6, 12], [600, 5000, 900], restart_s=63, types=[1, 3, 1], pool=TRAINING)
    log = play(jobs, "aryl-plus", [Demand(0, INFERENCE, 0)])
    found = [(int(s.id), int(s.gpu_type), round(float(s.start_s))) for s in log.segments]
    assert found[:4] == [(0, 0, 0), (1, 1, 300), (2, 0, 663), (1, 0, 1626)]
    assert log.rows.due_s[1] < play(jobs, "aryl-plus", [Demand(0, INFERENCE, 0)], moves=False).rows.due_s[1]
    ends = play(jobs, "aryl-plus", [Demand(0, INFERENCE, 0)], least_gain_s=4310.0).segments
    assert (ends.id == 1).sum() == 1, "it gains too little"


def test_waiting_jobs_start_by_gpu_time() -> None:
    """Jobs 1 and 2 wait for job 0; the narrow one is longer, but takes less GPU time."""
    jobs = GpuJobs.linear([0, 1, 2], [12, 12, 7], [50, 100, 120], pool=TRAINING)
    for power, first in ((1.0, 2), (0.0, 1)):
        log = play(jobs, "aryl-plus", loans=False, width_power=power)
        assert log.rows.start_s[first] < log.rows.start_s[3 - first]


def test_elastic_job_grows_only_if_it_gains_time() -> None:
    """A job on four of twelve GPUs, with 500 s left: eight more save 333 s."""
    for least_gain_s, sizes in ((300.0, [4, 12]), (400.0, [4])):
        jobs = GpuJobs.linear([100], [4], [700], max_gpus=12, pool=TRAINING)
        log = play(jobs, "aryl-plus", loans=False, least_gain_s=least_gain_s, wide_starts=False)
        assert log.segments.gpus.tolist() == sizes


def test_elastic_job_starts_with_all_workers_if_no_job_waits() -> None:
    """Jobs 0 and 1 can use eight GPUs each, and job 2 needs six; twelve exist."""
    jobs = GpuJobs.linear([0, 100, 200], [2, 2, 6], [7000, 7000, 100], max_gpus=[8, 8, 6], pool=TRAINING)
    assert play(jobs[:2], "aryl-plus", loans=False).segments.gpus[:2].tolist() == [8, 4]
    assert play(jobs[:2], "aryl", loans=False).segments.gpus[:2].tolist() == [2, 2]
    log = play(jobs, "aryl-plus", loans=False)
    assert log.rows.start_s[2] == 300.0  # extra workers leave at the next interval
    together = GpuJobs.linear([0, 0, 0], [2, 6, 6], [200, 100, 100], max_gpus=[8, 6, 6], pool=TRAINING)
    sizes = play(together, "aryl-plus", loans=False).segments.gpus.tolist()
    assert sizes[:2] == [2, 6]  # while a job waits, none starts with extra workers


def test_extra_workers_go_to_the_job_that_ends_soon() -> None:
    """Two jobs on four of twelve GPUs each; both can use eight."""
    jobs = GpuJobs.linear([0, 0], [4, 4], [1000, 9000], max_gpus=8, pool=TRAINING)
    plus = play(jobs, "aryl-plus", loans=False, wide_starts=False)
    # at 300 s job 0 has 700 s left: it ends at 650 s; job 1 grows at 900 s
    assert plus.rows.due_s.tolist() == [650.0, 900.0 + 8100.0 / 2]
    aryl = play(jobs, "aryl", loans=False)
    assert aryl.rows.due_s.tolist() == [1000.0, 300.0 + 8700.0 / 2]
    assert plus.rows.due_s.mean() < aryl.rows.due_s.mean()


@pytest.mark.parametrize("seed", range(3))
def test_plus_meets_every_announced_demand(seed: int) -> None:
    log = play(jobs_of(seed, elastic=0.4), "aryl-plus", demand_of(seed))
    assert (log.breaches, log.unmet_server_s) == (0, 0)
    assert len(log.loans) > 20


def least_loss(placed: list[dict[int, int]], servers: int, wanted: int, losses: list[float]) -> float:
    """The optimum by HiGHS: job j is preempted if any of its servers is chosen."""
    n, rows = len(placed), []
    for j, places in enumerate(placed):
        for server in places:
            row = np.zeros(n + servers)
            row[j], row[n + server] = -1, 1
            rows.append(row)
    rows.append(np.append(np.zeros(n), np.ones(servers)))
    limits = np.zeros(len(rows))
    least = np.full(len(rows), -np.inf)
    limits[-1] = least[-1] = wanted
    found = minimise(np.append(losses, np.zeros(servers)), np.array(rows), limits, row_least=least, gap=0.0)
    assert found.status == OPTIMAL
    return found.value


def test_reclaim_against_the_exact_optimum() -> None:
    """The published rule preempts few jobs but loses much work; weighed losses do not."""
    pytest.importorskip("scipy")
    rng = np.random.default_rng(1)
    lost = {"jobs": 0.0, "published": 0.0, "weighed": 0.0, "least": 0.0, "fewest": 0.0}
    for _ in range(12):
        placed = [
            dict.fromkeys(rng.choice(20, int(rng.choice([1, 1, 1, 2, 4, 6])), replace=False).tolist(), 1)
            for _ in range(25)
        ]
        losses = [float(len(places) * rng.lognormal(6, 1)) for places in placed]
        servers = 1 + max(max(places) for places in placed)
        wanted = int(rng.integers(1, 8))
        _, published = reclaimed(placed, wanted)
        _, weighed = reclaimed(placed, wanted, losses=losses)
        lost["jobs"] += len(published)
        lost["fewest"] += least_loss(placed, servers, wanted, [1.0] * len(placed))
        lost["published"] += sum(losses[j] for j in published)
        lost["weighed"] += sum(losses[j] for j in weighed)
        lost["least"] += least_loss(placed, servers, wanted, losses)
    assert 1 <= lost["jobs"] / lost["fewest"] < 1.35
    assert 1 <= lost["weighed"] / lost["least"] < 1.5 < lost["published"] / lost["least"], lost


# -- extra workers ---------------------------------------------------------------------------------------------------


def shared(work: list[float], base: list[int], most: list[int], capacity: int) -> list[int]:
    extra = np.zeros(len(work), np.int64)
    share_linear(np.array(work), np.array(base), np.array(most), len(work), capacity, extra)
    return extra.tolist()


def solved(values: list[np.ndarray], capacity: int) -> list[int]:
    """The dynamic program over the jobs."""
    best, table = np.zeros(capacity + 1), np.zeros((len(values), capacity + 1), np.int16)
    for j, value in enumerate(values):
        add_job(value, len(value) - 1, best, capacity, table[j])
    extra = np.zeros(len(values), np.int64)
    trace_back(table, len(values), capacity, extra)
    return extra.tolist()


def test_all_spare_gpus_go_to_the_long_job() -> None:
    """T(1) = 100 and 1000 s, up to four workers, three spare GPUs."""
    assert shared([100.0, 1000.0], [1, 1], [3, 3], 3) == [0, 3]
    values = [np.array([left - left / (1 + k) for k in range(4)]) for left in (100.0, 1000.0)]
    assert solved(values, 3) == [0, 3]


@pytest.mark.parametrize("seed", range(5))
def test_jobs_with_the_least_work_get_extra_workers_first(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(20):
        n, capacity = int(rng.integers(1, 9)), int(rng.integers(0, 30))
        work, most = rng.integers(1, 12, n) * 100.0, rng.integers(1, 9, n)
        extra = np.zeros(n, np.int64)
        share_by_least_work(work, most, n, capacity, extra)
        assert extra.sum() == min(capacity, most.sum())
        assert (extra <= most).all()
        lacks, has = work[extra < most], work[extra > 0]
        assert not len(lacks) or not len(has) or lacks.min() >= has.max()


@pytest.mark.parametrize("seed", range(5))
def test_knapsack_is_as_good_as_trying_all_choices(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(20):
        n, capacity = int(rng.integers(1, 5)), int(rng.integers(0, 9))
        values = [np.append(0.0, rng.integers(0, 50, int(rng.integers(1, 5)))).astype(float) for _ in range(n)]
        best = max(
            sum(value[k] for value, k in zip(values, chosen))
            for chosen in product(*(range(len(value)) for value in values))
            if sum(chosen) <= capacity
        )
        found = solved(values, capacity)
        assert sum(found) <= capacity
        assert sum(value[k] for value, k in zip(values, found)) == best


@pytest.mark.parametrize("seed", range(5))
def test_marginal_values_are_exact_under_the_linear_law(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(20):
        n, capacity = int(rng.integers(1, 9)), int(rng.integers(0, 30))
        work, base, most = rng.integers(1, 5000, n) * 1.0, rng.integers(1, 9, n), rng.integers(1, 9, n)
        values = [w / b - w / (b + np.arange(m + 1)) for w, b, m in zip(work, base, most)]

        def total(extra: list[int], values: list[np.ndarray] = values) -> float:
            return float(sum(value[k] for value, k in zip(values, extra)))

        found = shared(work.tolist(), base.tolist(), most.tolist(), capacity)
        assert sum(found) == min(capacity, most.sum())
        assert total(found) == pytest.approx(total(solved(values, capacity)))


def test_parameters_that_cannot_be_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="loans is 'maybe'; give yes or no"):
        make_scheduler("aryl", loans="maybe")
    with pytest.raises(ConfigurationError, match="interval_s is 0"):
        make_scheduler("aryl", interval_s=0.0)
    with pytest.raises(ConfigurationError, match="headroom is 2"):
        make_scheduler("aryl", headroom=2.0)
