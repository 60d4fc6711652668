"""Measures of a schedule on a GPU cluster, each defined once.

The *window* runs from the first submission to the last end. GPU-seconds held are useful, lost or overhead, exactly:
lost is work that was done again, overhead is time without work, in starts, restarts, changes of size and saves.

GAR, SOR, GFR, JWTD and JTTED are names that production systems use in reports (Kant, arXiv 2510.01256); the definitions
here are our own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mirage.array_types import Floats, Ints
from mirage.duration import HOUR_S
from mirage.schedule.engine.gpu_log import GpuLog
from mirage.schedule.engine.kernel.gpu_arrays import ENDED

SIZES = (1, 2, 4, 8, 16, 32, 64)
"""Classes of jobs by requested GPUs: each value is the lower bound of its class."""


@dataclass(frozen=True, slots=True)
class Measures:
    """Measures of a workload; over the jobs that ended, unless stated otherwise.

    Attributes:
        jobs: Jobs of the workload.
        ended: Completed jobs.
        mean_jct_s: Mean time from submission to completion.
        mean_wait_s: Mean total time in the queue, of all jobs.
        makespan_s: Length of the window.
        gpu_h: GPU-hours held, of all jobs, as the next three.
        preemptions: Number of times that a job had to leave its GPUs.
        restarts: Starts after the first, and changes of size or location.
        excess_gpus: GPUs evicted beyond those that were needed.
        lent_server_h: Server-hours lent to other pools.
        breaches: Loans whose server was still used when it was due, or which inference took by force.
        unmet_server_h: Server-hours of inference demand without an available server.
        mean_unfairness: Mean of finish-time fairness: the time to completion of a job, divided by its run time alone on
            its requested GPUs times the mean ratio of requested to existing GPUs while it is active (at least 1).
        worst_unfairness: The largest of these values.
        gar: GPU allocation ratio: median over the window of the share of GPUs that are held.
        sor: Scheduling occupancy rate: GPU-hours held over GPU-hours available in the window.
        gfr: GPU fragmentation ratio: mean over the window of the share of servers that are partly held.
        jwtd_s: Job waiting time distribution: by ``SIZES``, median and 95th percentile of the time in the queue.
        jtted: Distribution of the spread of workers: 5th, 50th and 95th percentile over GPU-hours of the number of
            servers used over the smallest possible number.
    """

    jobs: int
    ended: int
    mean_jct_s: float
    median_jct_s: float
    p99_jct_s: float
    mean_wait_s: float
    p99_wait_s: float
    makespan_s: float
    gpu_h: float
    useful_gpu_h: float
    lost_gpu_h: float
    overhead_gpu_h: float
    preemptions: int
    restarts: int
    excess_gpus: int
    lent_server_h: float
    breaches: int
    unmet_server_h: float
    mean_unfairness: float
    worst_unfairness: float
    gar: float
    sor: float
    gfr: float
    jwtd_s: Mapping[int, tuple[float, float]]
    jtted: tuple[float, float, float]


def measures(log: GpuLog, submitted_s: tuple[float, float] | None = None) -> Measures:
    """The measures of a log; NaN for means without values.

    Args:
        log: The log.
        submitted_s: Measures of jobs are over those submitted from the first to before the second of these times; None
            for all. Those of the cluster and of loans are always over the whole run.
    """
    rows = log.rows
    done = completed(rows)
    first_s = float(rows.submit_s.min()) if len(rows) else 0.0
    last_s = float(done.due_s.max()) if len(done) == len(rows) and len(rows) else log.now_s
    if submitted_s is not None:
        rows, done = (some[submitted_in(some.submit_s, submitted_s)] for some in (rows, done))
    jct_s = done.due_s - done.submit_s
    window_s = max(last_s - first_s, 0.0)
    unfairness = _unfairness(log, done)
    begun_s, ended_s = np.maximum(log.loans.start_s, first_s), np.minimum(log.loans.end_s, last_s)
    held = _steps(log, first_s, last_s)
    return Measures(
        jobs=len(rows),
        ended=len(done),
        mean_jct_s=_mean(jct_s),
        median_jct_s=_percentile(jct_s, 50),
        p99_jct_s=_percentile(jct_s, 99),
        mean_wait_s=_mean(rows.queued_s),
        p99_wait_s=_percentile(rows.queued_s, 99),
        makespan_s=window_s,
        gpu_h=float(rows.executed.sum()) / HOUR_S,
        useful_gpu_h=float(rows.useful.sum()) / HOUR_S,
        lost_gpu_h=float(rows.lost.sum()) / HOUR_S,
        overhead_gpu_h=float(rows.overhead.sum()) / HOUR_S,
        preemptions=int(rows.preemptions.sum()),
        restarts=int(rows.restarts.sum()),
        excess_gpus=int(rows.excess_gpus.sum()),
        lent_server_h=float((ended_s - begun_s).clip(0).sum()) / HOUR_S,
        breaches=log.breaches,
        unmet_server_h=log.unmet_server_s / HOUR_S,
        mean_unfairness=_mean(unfairness),
        worst_unfairness=float(unfairness.max()) if len(unfairness) else np.nan,
        gar=held.median_share(log.cluster.gpus),
        sor=held.gpu_s / (log.cluster.gpus * window_s) if window_s > 0 else np.nan,
        gfr=_partly_held_server_s(log, last_s) / (len(log.cluster.gpus_of) * window_s) if window_s > 0 else np.nan,
        jwtd_s=_waits_by_size(rows),
        jtted=_worker_spread(log, last_s),
    )


def completed(rows: Any, submitted_s: tuple[float, float] | None = None) -> Any:
    """The jobs that have ended and were not cancelled, of those submitted in a window."""
    done = rows[rows.status == ENDED]
    return done if submitted_s is None else done[submitted_in(done.submit_s, submitted_s)]


def submitted_in(submit_s: Floats, window_s: tuple[float, float]) -> NDArray[np.bool_]:
    """Mask of the jobs that were submitted in a window of time."""
    mask: NDArray[np.bool_] = (submit_s >= window_s[0]) & (submit_s < window_s[1])
    return mask


@dataclass(frozen=True, slots=True)
class StepFunction:
    """GPUs held as a step function: ``level`` for ``length_s`` each."""

    length_s: Floats
    level: Ints

    @property
    def gpu_s(self) -> float:
        """GPU-seconds below the steps."""
        return float(np.dot(self.length_s, self.level))

    def median_share(self, gpus: int) -> float:
        """The share of GPUs held that is exceeded half of the time."""
        total_s = self.length_s.sum()
        if total_s <= 0:
            return np.nan
        order = np.argsort(self.level, kind="stable")
        half = int(np.searchsorted(np.cumsum(self.length_s[order]), total_s / 2))
        return float(self.level[order][min(half, len(order) - 1)] / gpus)


def _steps(log: GpuLog, first_s: float, last_s: float) -> StepFunction:
    times, change = _changes(log.segments.start_s, log.segments.end_s, log.segments.gpus, last_s)
    times = np.concatenate([[first_s], times, [max(last_s, first_s)]])
    level = np.cumsum(np.concatenate([[0], change]))
    return StepFunction(np.diff(times), level)


def _changes(start_s: Floats, end_s: Floats, amount: Ints, last_s: float) -> tuple[Floats, Ints]:
    """Times at which an amount changes, in order, and the changes."""
    times = np.concatenate([start_s, np.minimum(end_s, last_s)])
    change = np.concatenate([amount, -amount])
    order = np.argsort(times, kind="stable")
    return times[order], change[order]


def _partly_held_server_s(log: GpuLog, last_s: float) -> float:
    """Server-seconds of servers with both held and free GPUs."""
    if len(log.placement_rows) == 0:
        return 0.0
    segment = log.placement_segments()
    times = np.concatenate([log.segments.start_s[segment], np.minimum(log.segments.end_s[segment], last_s)])
    server = np.concatenate([log.placement_rows.server, log.placement_rows.server])
    change = np.concatenate([log.placement_rows.gpus, -log.placement_rows.gpus])
    order = np.lexsort((times, server))
    times, server = times[order], server[order]
    level = np.cumsum(change[order])  # 0 again at the end of every server
    length_s = np.append(np.diff(times), 0.0)
    partly = (level > 0) & (level < log.cluster.gpus_of[server])
    return float(length_s[partly].sum())


def _waits_by_size(rows: Any) -> dict[int, tuple[float, float]]:
    found = {}
    for least, most in zip(SIZES, (*SIZES[1:], np.inf)):
        waits = rows.queued_s[(rows.gpus >= least) & (rows.gpus < most)]
        if len(waits):
            found[least] = (_percentile(waits, 50), _percentile(waits, 95))
    return found


def _worker_spread(log: GpuLog, last_s: float) -> tuple[float, float, float]:
    segments = log.segments
    if len(segments) == 0:
        return (np.nan, np.nan, np.nan)
    largest = np.zeros(len(log.cluster.gpu_types), np.int64)
    np.maximum.at(largest, log.cluster.gpu_type_of, log.cluster.gpus_of)
    fewest = np.ceil(segments.gpus / largest[segments.gpu_type])
    weight = segments.gpus * (np.minimum(segments.end_s, last_s) - segments.start_s)
    apart = segments.places / fewest
    order = np.argsort(apart, kind="stable")
    passed = np.cumsum(weight[order])
    low, middle, high = (
        float(apart[order][min(int(np.searchsorted(passed, share * passed[-1])), len(order) - 1)])
        for share in (0.05, 0.5, 0.95)
    )
    return low, middle, high


def _unfairness(log: GpuLog, done: Any) -> Floats:
    alone_s = log.jobs.run_s[done.id]
    known = alone_s > 0
    rows = log.rows
    left_s = np.where(rows.status == ENDED, rows.due_s, log.now_s)
    times, change = _changes(rows.submit_s, left_s, rows.gpus, np.inf)
    requested = np.cumsum(change)
    area = np.append(0.0, np.cumsum(requested[:-1] * np.diff(times)))

    def requested_gpu_s(at_s: Floats) -> Floats:
        found: Floats = np.interp(at_s, times, area)
        return found

    chosen = done[known]
    if len(chosen) == 0:
        return np.zeros(0)
    active_s = chosen.due_s - chosen.submit_s
    crowd = (requested_gpu_s(chosen.due_s) - requested_gpu_s(chosen.submit_s)) / active_s / log.cluster.gpus
    ratio: Floats = active_s / (alone_s[known] * np.maximum(crowd, 1.0))
    return ratio


def _mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else np.nan


def _percentile(values: Floats, q: float) -> float:
    return float(np.percentile(values, q)) if len(values) else np.nan
