"""Compiled schedulers against forty lines of plain Python, called by the engine."""

import numpy as np
import pytest

from mirage.schedule.engine.gpu_log import GpuLog
from mirage.schedule.engine.gpu_simulation import GpuSimulation
from mirage.schedule.engine.gpu_world import LifeCosts
from mirage.schedule.gpu_cluster import GpuCluster, ServerGroup
from mirage.schedule.scheduler_contract import GpuPlan, GpuPreempt, GpuStart, GpuView
from mirage.schedule.schedulers.gpu_scheduler_registry import make_scheduler
from mirage.schedule.workload.gpu_jobs import GpuJobs

SIZES = [4, 4, 8]
CLUSTER = GpuCluster((ServerGroup("a", "v100", 2, 4), ServerGroup("b", "v100", 1, 8)))
THRESHOLD = 150.0


def pack(free, gpus):
    """Server → GPUs: the tightest server that holds all, else the emptiest first.

    The remaining GPUs come from the tightest server.
    """
    places = {}
    while gpus:
        rooms = [(room, server) for server, room in enumerate(free) if room and server not in places]
        tight = [(room, server) for room, server in rooms if room >= gpus]
        room, server = min(tight) if tight else max(rooms, key=lambda pair: (pair[0], -pair[1]))
        places[server] = min(room, gpus)
        gpus -= places[server]
    return places


def reference(jobs, key, *, preemptive=False, restart_s=0.0):
    """Segments (job, start, end, places), sorting everybody at every event."""
    n, now, segments = len(jobs), 0.0, []
    left, held_s = jobs.run_s.copy(), np.zeros(n)  # run time left, time on GPUs
    waiting, runs, free, arrived = [], {}, list(SIZES), 0  # runs: job → (start, pause, places)

    def attained(j):
        return (held_s[j] + (now - runs[j][0] if j in runs else 0.0)) * jobs.gpus[j]

    def stop(j):
        start, pause, places = runs.pop(j)
        segments.append((j, start, now, places))
        left[j] -= max(now - start - pause, 0.0)
        held_s[j] += now - start
        for server, gpus in places.items():
            free[server] += gpus

    while arrived < n or waiting or runs:
        ends = {j: start + pause + left[j] for j, (start, pause, _) in runs.items()}
        crossings = [start + (THRESHOLD / jobs.gpus[j] - held_s[j]) for j, (start, _, _) in runs.items()]
        later = [t for t in crossings if preemptive and t > now]
        now = min([*ends.values(), *later, *jobs.submit_s[arrived : arrived + 1]])
        for j in [j for j, end in sorted(ends.items()) if end == now]:
            stop(j)
        while arrived < n and jobs.submit_s[arrived] <= now:
            waiting.append(arrived)
            arrived += 1
        for j in sorted(waiting, key=lambda j: key(j, attained(j))):
            back = []
            if jobs.gpus[j] > sum(free):
                after = [r for r in runs if preemptive and key(r, attained(r)) > key(j, attained(j))]
                after.sort(key=lambda r: key(r, attained(r)), reverse=True)
                while after and sum(free) + sum(jobs.gpus[r] for r in back) < jobs.gpus[j]:
                    back.append(after.pop(0))
                if sum(free) + sum(jobs.gpus[r] for r in back) < jobs.gpus[j]:
                    if preemptive:
                        continue
                    break
                for r in reversed(list(back)):
                    if sum(free) + sum(jobs.gpus[o] for o in back if o != r) >= jobs.gpus[j]:
                        back.remove(r)
            for r in back:
                stop(r)
                waiting.append(r)
            places = pack(free, int(jobs.gpus[j]))
            for server, gpus in places.items():
                free[server] -= gpus
            runs[j] = (now, restart_s, places)
            waiting.remove(j)
    return sorted(segments, key=lambda s: (s[1], s[0]))


def segments_of(log: GpuLog):
    found = [
        (int(s.id), float(s.start_s), float(s.end_s), log.places(k))
        for k, s in enumerate(log.segments)
        if s.end_s > s.start_s
    ]
    return sorted(found, key=lambda s: (s[1], s[0]))


def jobs_of(seed: int, n: int = 60, restart_s: float = 0.0) -> GpuJobs:
    rng = np.random.default_rng(seed)
    submit_s = np.sort(rng.integers(0, 600, n))
    return GpuJobs.linear(submit_s, rng.choice([1, 1, 2, 3, 4, 8, 16], n), rng.integers(5, 200, n), restart_s=restart_s)


def played(name: str, jobs: GpuJobs):
    parameters = {"thresholds_gpu_s": (THRESHOLD,)} if name == "tiresias" else {}
    log = GpuSimulation(CLUSTER, jobs, make_scheduler(name, **parameters), strict=True).run()
    log.gpu_intervals()
    return segments_of(log)


ORDERS = {
    "fifo": lambda jobs: lambda j, attained: j,
    "sjf": lambda jobs: lambda j, attained: (jobs.run_s[j], j),
    "tiresias": lambda jobs: lambda j, attained: (attained >= THRESHOLD, j),
}


@pytest.mark.parametrize("name", ORDERS)
@pytest.mark.parametrize("restart_s", [0.0, 3.0])
def test_schedule_is_that_of_plain_python_segment_for_segment(name: str, restart_s: float) -> None:
    preempted = 0
    for seed in range(8):
        jobs = jobs_of(seed, restart_s=restart_s)
        expected = reference(jobs, ORDERS[name](jobs), preemptive=name == "tiresias", restart_s=restart_s)
        expected = [s for s in expected if s[2] > s[1]]
        assert played(name, jobs) == expected, seed
        preempted += len(expected) - len(jobs)
    assert (preempted > 20) == (name == "tiresias")


class PlainFifo:
    """Heads of the queue while they fit; the engine packs them."""

    def decide(self, view: GpuView) -> GpuPlan:
        room, starts = int(view.servers.free.sum()), []
        for job, gpus in sorted(
            zip(view.jobs.id[view.jobs.pending].tolist(), view.jobs.gpus[view.jobs.pending].tolist())
        ):
            if gpus > room:
                break
            room -= gpus
            starts.append(GpuStart(job, reason="head"))
        return GpuPlan(tuple(starts))


class PlainLas:
    """Two-queue least attained service, called at events and at crossings."""

    def decide(self, view: GpuView) -> GpuPlan:
        jobs = view.jobs
        order = {int(j): (a >= THRESHOLD - 1e-3, int(j)) for j, a in zip(jobs.id, jobs.attained_gpu_s)}
        width, held = dict(zip(jobs.id.tolist(), jobs.gpus.tolist())), dict(zip(jobs.id.tolist(), jobs.held.tolist()))
        runs, room, actions = {j for j in order if held[j]}, int(view.servers.free.sum()), []
        for j in sorted((j for j in order if not held[j]), key=order.get):
            back, after = [], sorted((r for r in runs if order[r] > order[j]), key=order.get)
            while after and room + sum(held[r] for r in back) < width[j]:
                back.append(after.pop())
            if room + sum(held[r] for r in back) < width[j]:
                continue
            for r in reversed(list(back)):
                if room + sum(held[o] for o in back if o != r) >= width[j]:
                    back.remove(r)
            actions += [GpuPreempt(r) for r in back] + [GpuStart(j)]
            room += sum(held[r] for r in back) - width[j]
            runs -= set(back)
        started = {a.job for a in actions if isinstance(a, GpuStart)}
        going = [(int(j), float(a)) for j, a in zip(jobs.id, jobs.attained_gpu_s) if int(j) in runs | started]
        crossings = [view.now_s + (THRESHOLD - a) / width[j] for j, a in going if a < THRESHOLD - 1e-3]
        return GpuPlan(tuple(actions), wake_s=min(crossings, default=None))


@pytest.mark.parametrize("restart_s", [0.0, 3.0])
def test_python_and_compiled_give_the_same_schedule(restart_s: float) -> None:
    for seed in range(4):
        jobs = jobs_of(seed, restart_s=restart_s)
        starts = {
            name: sorted(s[:3] for s in segments_of(GpuSimulation(CLUSTER, jobs, policy, strict=True).run()))
            for name, policy in (("fifo", PlainFifo()), ("tiresias", PlainLas()))
        }
        for name, found in starts.items():
            assert found == sorted(s[:3] for s in played(name, jobs)), (name, seed)


def test_shortest_remaining_time_waits_least_and_easy_never_delays_the_head() -> None:
    jobs = jobs_of(3, n=200)
    waits = {}
    for name in ("fifo", "easy", "sjf", "srtf"):
        log = GpuSimulation(CLUSTER, jobs, make_scheduler(name), strict=True).run()
        waits[name] = float(log.rows.queued_s.mean())
    assert waits["srtf"] < waits["sjf"] < waits["fifo"]
    assert waits["easy"] < waits["fifo"]


def test_gittins_index_of_two_kinds_of_jobs() -> None:
    """Half of the jobs need 10, half 110: new ones go first, those past 10 must be long."""
    from mirage.schedule.schedulers.tiresias import gittins_index

    service = np.array([10.0, 10.0, 110.0, 110.0])
    index = gittins_index(service, np.array([0.0, 10.0, 60.0]), np.array([10.0, 60.0]))
    assert index == pytest.approx([2 / 40, 1 / 100, 1 / 50])
    last, none = gittins_index(np.array([1.0, 2.0, 4.0]), np.array([2.0, 4.0]), np.zeros(0))
    assert (last, none) == (1 / 2, 0.0), "one job left, and none"


@pytest.mark.parametrize("name", ["srtf", "tiresias"])
def test_jobs_that_save_for_a_while_are_waited_for_and_no_start_is_refused(name: str) -> None:
    jobs = jobs_of(1, restart_s=2.0)
    costs = LifeCosts.of(jobs, save_s=4.0)
    parameters = {"thresholds_gpu_s": (THRESHOLD,)} if name == "tiresias" else {}
    scheduler = make_scheduler(name, **parameters)
    log = GpuSimulation(CLUSTER, jobs, scheduler, costs=costs, strict=True, cost_spread=0.5, seed=3).run()
    rows = log.rows
    log.gpu_intervals()
    assert rows.preemptions.sum() > 10
    assert (rows.overhead > 0).all()
    assert (rows.lost == 0).all()
    assert (rows.useful == jobs.work).all()
    assert (rows.executed == rows.useful + rows.overhead).all()


@pytest.mark.parametrize("way", ["kill", "boundary", "cheaper"])
@pytest.mark.parametrize("name", ["srtf", "tiresias"])
def test_however_jobs_are_preempted_all_end_and_no_start_is_refused(name: str, way: str) -> None:
    jobs = jobs_of(1, restart_s=2.0)
    costs = LifeCosts.of(jobs, save_s=4.0, checkpoint_work=20.0 * jobs.gpus)
    log = GpuSimulation(CLUSTER, jobs, make_scheduler(name, preempt=way), costs=costs, strict=True).run()
    rows = log.rows
    log.gpu_intervals()
    assert rows.preemptions.sum() > 3
    assert (rows.useful == jobs.work).all()
    assert (rows.executed == rows.useful + rows.lost + rows.overhead).all()
    assert (rows.lost.sum() > 0) == (way != "boundary")
