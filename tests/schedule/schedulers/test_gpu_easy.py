"""EASY backfill on several GPU types: by hand, and the reservation of every head.

On one type it is compared with the text-book.
"""

from __future__ import annotations

import numpy as np
import pytest

from mirage.schedule.engine.gpu_log import GpuLog
from mirage.schedule.engine.gpu_simulation import GpuSimulation
from mirage.schedule.gpu_cluster import GpuCluster, ServerGroup
from mirage.schedule.schedulers.gpu_scheduler_registry import make_scheduler
from mirage.schedule.speeds.speed_arrays import linear_speeds
from mirage.schedule.workload.gpu_jobs import GpuJobs

FAST, SLOW = 0, 1
TWO_TYPES = GpuCluster((ServerGroup("fast", "fast", 1, 4), ServerGroup("slow", "slow", 1, 4, speed=0.5)))


def _played(jobs: GpuJobs, cluster: GpuCluster = TWO_TYPES) -> GpuLog:
    return GpuSimulation(cluster, jobs, make_scheduler("easy"), strict=True).run()


def _runs(log: GpuLog) -> list[tuple[int, float, float]]:
    """GPU type, start and end of every job."""
    found = {int(s.id): (int(s.gpu_type), float(s.start_s), float(s.end_s)) for s in log.segments}
    return [found[job] for job in range(len(found))]


def test_two_types_by_hand() -> None:
    """Job 2 heads the queue: its GPUs are free at 100 on the fast type, at 400 on the slow.

    Job 3 would take the fast GPU beyond 100, so it goes to the slow one. Job 4 may stay on the fast one until 100.
    """
    jobs = GpuJobs.linear([0, 1, 2, 3, 4], [3, 3, 4, 1, 1], [100, 199.5, 10, 1000, 96])
    assert _runs(_played(jobs)) == [
        (FAST, 0, 100), (SLOW, 1, 400), (FAST, 100, 110), (SLOW, 3, 2003), (FAST, 4, 100),
    ]  # fmt: skip


def test_run_times_are_those_of_the_type_by_hand() -> None:
    """Job 1 fits only on the slow type; two short jobs take twice as long there."""
    cluster = GpuCluster((ServerGroup("fast", "fast", 1, 1), ServerGroup("slow", "slow", 1, 8, speed=0.5)))
    jobs = GpuJobs.linear([0, 1, 2, 3, 4], [6, 8, 1, 2, 2], [50, 10, 500, 60, 48])
    log = _played(jobs, cluster)
    # job 0 holds 6 slow GPUs until 100; of the two others job 3 would need 120 s, job 4 needs 96
    assert _runs(log) == [(SLOW, 0, 100), (SLOW, 100, 120), (FAST, 2, 502), (SLOW, 120, 240), (SLOW, 4, 100)]


def test_a_measured_model_is_expected_to_run_by_its_speed_on_the_type() -> None:
    """The model of jobs 3 and 4 takes 1 step a second on the usual type, 4 on the rarer one.

    Job 2 heads the queue until 40. Job 3 needs 50 s on the rare type and is put next to job 1; job 4 needs 35 s there.
    """
    cluster = GpuCluster((ServerGroup("rare", "rare", 1, 4), ServerGroup("usual", "usual", 1, 8)))
    one = np.ones((1, 1), np.int64)
    speeds = linear_speeds(np.ones(2))._replace(
        rows=np.array([0, 1]).reshape(1, 2, 1, 1), knots=np.ones(2, np.int64), local_batch=np.ones((2, 1)),
        step_s=np.array([[0.25], [1.0]]), sync_s=np.zeros((2, 1)), row_max_local=np.ones(2, np.int64),
        memory_max_local=np.ones((1, 2, 1), np.int64), min_local=np.ones((1, 2), np.int64),
        max_local=np.ones((1, 2), np.int64), one_gpu_rate=np.ones((1, 2)), init_batch=one[0], max_batch=one[0],
        slowdown=np.ones(1), restart_s=np.zeros(1), epochs=one[0], epoch_end=np.full((1, 1), np.inf),
        noise_knots=one[0], noise_batch=np.ones((1, 1)), grad_sqr=np.ones((1, 1, 1)), grad_var=np.zeros((1, 1, 1)),
    )  # fmt: skip
    linear = GpuJobs.linear(np.arange(5.0), [3, 7, 4, 1, 1], [40, 100, 10, 200, 140])
    columns = {name: getattr(linear, name) for name in linear.__slots__}
    jobs = GpuJobs(**columns | {"model": np.array([-1, -1, -1, 0, 0]), "batch": np.array([0, 0, 0, 1, 1])})
    log = GpuSimulation(cluster, jobs, make_scheduler("easy"), speeds=speeds, strict=True).run()
    assert _runs(log) == [(0, 0, 40), (1, 1, 101), (0, 40, 50), (1, 3, 203), (0, 4, 39)]


def _random_jobs(seed: int, widths: list[int]) -> GpuJobs:
    random, n = np.random.default_rng(seed), 80
    submit_s = np.sort(random.integers(0, 1200, n))
    return GpuJobs.linear(submit_s, random.choice(widths, n), random.integers(5, 200, n))


def _earliest_s(log: GpuLog, job: int, now_s: float) -> float:
    """When a job could start on its best type, if only the jobs that run now ran on."""
    cluster, ends = log.cluster, []
    for gpu_type in range(len(cluster.gpu_types)):
        segments = log.segments[log.segments.gpu_type == gpu_type]
        runs = segments[(segments.end_s > now_s) & ((segments.start_s < now_s) | (segments.id < job))]
        runs = np.sort(runs[runs.start_s <= now_s], order="end_s")
        free = int(cluster.gpus_of[cluster.gpu_type_of == gpu_type].sum() - runs["gpus"].sum())
        times = [now_s, *runs["end_s"].tolist()]
        frees = free + np.concatenate([[0], np.cumsum(runs["gpus"])])
        enough = np.flatnonzero(frees >= log.rows.gpus[job])
        ends += [times[int(enough[0])]] if len(enough) else []
    return min(ends)


@pytest.mark.parametrize("seed", range(4))
def test_no_head_starts_later_than_it_was_promised(seed: int) -> None:
    cluster = GpuCluster(
        (ServerGroup("a", "a", 2, 4), ServerGroup("b", "b", 1, 8, speed=0.5), ServerGroup("c", "c", 2, 2, speed=3.0))
    )
    log = _played(_random_jobs(seed, [1, 1, 2, 3, 4, 8]), cluster)
    starts = log.rows.start_s
    heads = np.maximum(log.rows.submit_s[1:], np.maximum.accumulate(starts)[:-1])
    waited = [job for job in range(1, len(starts)) if starts[job] > heads[job - 1]]
    assert len(waited) > 5
    assert all(starts[job] <= _earliest_s(log, job, heads[job - 1]) for job in waited)
    assert (np.diff(starts) < 0).sum() > 5  # jobs were passed


def _textbook(jobs: GpuJobs, size: int) -> list[float]:
    """Starts under EASY backfill on one pool of GPUs, with all jobs tried at every event."""
    gpus, run_s, starts = jobs.gpus, jobs.run_s, np.full(len(jobs), np.inf)
    times = set(jobs.submit_s.tolist())
    while times:
        now = min(times)
        times.discard(now)
        runs = [job for job in np.flatnonzero(starts <= now).tolist() if starts[job] + run_s[job] > now]
        free, shadow, extra = size - int(gpus[runs].sum()), np.inf, 0
        for job in np.flatnonzero((jobs.submit_s <= now) & np.isinf(starts)).tolist():
            blocked, end = shadow < np.inf, now + run_s[job]
            if gpus[job] <= free and (not blocked or end <= shadow or gpus[job] <= extra):
                extra -= int(gpus[job]) if end > shadow else 0
                starts[job], free = now, free - int(gpus[job])
                runs.append(job)
                times.add(end)
            elif not blocked:
                ends = starts[runs] + run_s[runs]
                room = {end: free + int(gpus[runs][ends <= end].sum()) for end in ends}
                shadow = min(end for end, gpus_then in room.items() if gpus_then >= gpus[job])
                extra = room[shadow] - int(gpus[job])
    return starts.tolist()


@pytest.mark.parametrize("seed", range(4))
def test_on_one_type_it_is_that_of_the_text_book(seed: int) -> None:
    cluster = GpuCluster((ServerGroup("a", "v100", 2, 4), ServerGroup("b", "v100", 1, 8)))
    jobs = _random_jobs(seed, [1, 1, 2, 3, 4, 8, 16])
    assert _played(jobs, cluster).rows.start_s.tolist() == _textbook(jobs, 16)
