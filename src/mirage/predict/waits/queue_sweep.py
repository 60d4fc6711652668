"""Sweep over a trace that rebuilds the state of the queue at each submission."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mirage.array_types import Floats, Ints
from mirage.duration import DAY_S, HOUR_S
from mirage.kernel.compile import kernel

SIZES = 24
"""Classes of nodes: 1, 2–3, 4–7, …"""


class SweptJobs(NamedTuple):
    """Jobs in the order of their requests; all arrays have shape (n,).

    Attributes:
        request_s: When the job begins to wait for the scheduler.
        left_s: When it left the queue, started or not.
        end_s: When it ended; beyond all times if it did not start.
        started: 1 if it started.
        by_left: The rows in the order of ``left_s``.
        by_end: The rows in the order of ``end_s``.
        nodes: Its nodes.
        limit_s: Its limit.
        partition: In [0, p).
        size: In [0, SIZES).
        user: In [0, u).
    """

    request_s: Ints
    left_s: Ints
    end_s: Ints
    started: Ints
    by_left: Ints
    by_end: Ints
    nodes: Floats
    limit_s: Floats
    partition: Ints
    size: Ints
    user: Ints


class QueueSums(NamedTuple):
    """Running sums over jobs, by group; initially zero.

    Attributes:
        pending: Shape (1 + p + u, 3), of all, of a partition, of a user: jobs, nodes, node seconds of limit.
        running: As ``pending``, of running jobs; the third is the sum of nodes × the time when the limit runs out.
        by_size: Shape (p, SIZES, 3), of pending jobs of a partition by size.
        waits: Shape (p + p · SIZES + u, h, 2), fading sums of log10 waits, and of ones.
        last_start_s: Shape (p + p · SIZES + u,), when a job of the group last started; 0 before the first.
        day: Shape (u, 2), jobs and node seconds that a user submitted in the last 24 h.
    """

    pending: Floats
    running: Floats
    by_size: Floats
    waits: Floats
    last_start_s: Floats
    day: Floats


@kernel()
def sweep(jobs: SweptJobs, sums: QueueSums, half_lives_s: Floats, out: Floats) -> None:
    """Fill ``out`` with the state of the queue at the submission of every job.

    It includes only events in earlier seconds than the job's submission, and jobs submitted before it.

    Args:
        jobs: The trace.
        sums: Zeros.
        half_lives_s: Shape (h,), of the memory of recent waits.
        out: Shape (n, 24 + 3 h + 3), in the order of ``QUEUE`` of `mirage.predict.waits.wait_features`.
    """
    n = len(jobs.request_s)
    left = ended = oldest = day_old = 0
    for job in range(n):
        now = jobs.request_s[job]
        while left < n and jobs.left_s[jobs.by_left[left]] < now:
            _leave(jobs, sums, half_lives_s, jobs.by_left[left])
            left += 1
        while ended < n and jobs.end_s[jobs.by_end[ended]] < now:
            _run(jobs, sums, jobs.by_end[ended], -1)
            ended += 1
        while oldest < job and jobs.left_s[oldest] < now:
            oldest += 1
        while jobs.request_s[day_old] < now - DAY_S:
            sums.day[jobs.user[day_old], 0] -= 1
            sums.day[jobs.user[day_old], 1] -= jobs.nodes[day_old] * jobs.limit_s[day_old]
            day_old += 1
        column = _write_queue(jobs, sums, job, out)
        out[job, column] = now - jobs.request_s[oldest]
        out[job, column + 1] = sums.day[jobs.user[job], 0]
        out[job, column + 2] = sums.day[jobs.user[job], 1] / HOUR_S
        _write_waits(jobs, sums, job, out, column + 3)
        _queue(jobs, sums, job, 1)
        sums.day[jobs.user[job], 0] += 1
        sums.day[jobs.user[job], 1] += jobs.nodes[job] * jobs.limit_s[job]


@kernel()
def _queue(jobs: SweptJobs, sums: QueueSums, job: int, sign: int) -> None:
    """Add a job to the pending ones, or remove it."""
    nodes, node_s = sign * jobs.nodes[job], sign * jobs.nodes[job] * jobs.limit_s[job]
    partition = jobs.partition[job]
    for g in (0, 1 + partition, 1 + len(sums.by_size) + jobs.user[job]):
        sums.pending[g, 0] += sign
        sums.pending[g, 1] += nodes
        sums.pending[g, 2] += node_s
    sums.by_size[partition, jobs.size[job], 0] += sign
    sums.by_size[partition, jobs.size[job], 1] += nodes
    sums.by_size[partition, jobs.size[job], 2] += node_s


@kernel()
def _run(jobs: SweptJobs, sums: QueueSums, job: int, sign: int) -> None:
    """Add a job to the running ones, or remove it."""
    for g in (0, 1 + jobs.partition[job], 1 + len(sums.by_size) + jobs.user[job]):
        sums.running[g, 0] += sign
        sums.running[g, 1] += sign * jobs.nodes[job]
        sums.running[g, 2] += sign * jobs.nodes[job] * (jobs.limit_s[job] + jobs.left_s[job])


@kernel()
def _leave(jobs: SweptJobs, sums: QueueSums, half_lives_s: Floats, job: int) -> None:
    """Remove a job from the queue; if it started, record its wait."""
    _queue(jobs, sums, job, -1)
    if not jobs.started[job]:
        return
    _run(jobs, sums, job, 1)
    now, wait = jobs.left_s[job], np.log10(max(jobs.left_s[job] - jobs.request_s[job], 1))
    partition, partitions = jobs.partition[job], len(sums.by_size)
    by_size = partitions + partition * SIZES + jobs.size[job]
    for g in (partition, by_size, partitions + partitions * SIZES + jobs.user[job]):
        for h in range(len(half_lives_s)):
            fading = 0.5 ** ((now - sums.last_start_s[g]) / half_lives_s[h])
            sums.waits[g, h, 0] = sums.waits[g, h, 0] * fading + wait
            sums.waits[g, h, 1] = sums.waits[g, h, 1] * fading + 1
        sums.last_start_s[g] = now


@kernel()
def _write_queue(jobs: SweptJobs, sums: QueueSums, job: int, out: Floats) -> int:
    """Write pending and running jobs by group; returns the next column."""
    now, partition, column = jobs.request_s[job], jobs.partition[job], 0
    for g in (0, 1 + partition, 1 + len(sums.by_size) + jobs.user[job]):
        out[job, column] = sums.pending[g, 0]
        out[job, column + 1] = sums.pending[g, 1]
        out[job, column + 2] = sums.pending[g, 2] / HOUR_S
        out[job, column + 3] = sums.running[g, 0]
        out[job, column + 4] = sums.running[g, 1]
        out[job, column + 5] = max(sums.running[g, 2] - sums.running[g, 1] * now, 0.0) / HOUR_S
        column += 6
    for k in range(3):
        out[job, column + k] = sums.by_size[partition, : jobs.size[job] + 1, k].sum()
    out[job, column + 2] /= HOUR_S
    return column + 3


@kernel()
def _write_waits(jobs: SweptJobs, sums: QueueSums, job: int, out: Floats, column: int) -> None:
    """Write recent waits by group, and the time since a job of the group last started."""
    partition, partitions = jobs.partition[job], len(sums.by_size)
    by_size = partitions + partition * SIZES + jobs.size[job]
    halves = sums.waits.shape[1]
    for g in (partition, by_size, partitions + partitions * SIZES + jobs.user[job]):
        if sums.last_start_s[g] > 0:
            for h in range(halves):
                out[job, column + h] = sums.waits[g, h, 0] / sums.waits[g, h, 1]
            out[job, column + halves] = jobs.request_s[job] - sums.last_start_s[g]
        column += halves + 1
