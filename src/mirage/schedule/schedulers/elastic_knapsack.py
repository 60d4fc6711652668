"""Extra GPUs for elastic jobs: a multiple-choice knapsack over the GPUs that are left.

After Aryl (arXiv 2202.07896): item k of a job is k extra workers, with the value T(base) − T(base + k), the decrease of
its remaining run time; at most one item per job is chosen. ``add_job`` and ``trace_back`` solve it exactly by dynamic
programming, for any values. Under the linear law values are concave, and all weights are equal: then the best marginal
values are the exact choice, which ``share_linear`` finds without a table.

These values suppose that a job keeps its extra workers to its end. As they can be given to another job later,
completion times are shorter on average if the jobs with the least remaining work get them first: they end soon, and
then the others get all. ``share_by_least_work`` does this; it is a rule of our own.
"""

from __future__ import annotations

import math
from typing import Any

from mirage.kernel.compile import kernel

_BISECTIONS = 60


@kernel(forceinline=False)
def add_job(value: Any, most: int, best: Any, capacity: int, taken: Any) -> None:
    """Add a job to the dynamic program.

    Args:
        value: Value of k extra GPUs at index k, from 0 to ``most``.
        most: Largest number of extra GPUs.
        best: Best value of the jobs so far by GPUs used, at least ``capacity + 1`` values; updated.
        capacity: GPUs that are left.
        taken: Receives the number of this job's extra GPUs, by GPUs used.
    """
    for used in range(capacity, -1, -1):
        found, extra = best[used], 0
        for k in range(1, min(most, used) + 1):
            if best[used - k] + value[k] > found:
                found, extra = best[used - k] + value[k], k
        best[used] = found
        taken[used] = extra


@kernel(forceinline=False)
def trace_back(table: Any, jobs: int, capacity: int, extra: Any) -> None:
    """Write the extra GPUs of each job of the dynamic program.

    Args:
        table: Row j has the choices of job j, as ``add_job`` wrote them.
        jobs: Number of jobs.
        capacity: GPUs that are left.
        extra: Receives the numbers.
    """
    left = capacity
    for j in range(jobs - 1, -1, -1):
        extra[j] = table[j, left]
        left -= table[j, left]


@kernel(forceinline=False)
def share_linear(work: Any, base: Any, most: Any, jobs: int, capacity: int, extra: Any) -> None:
    """Write the best numbers of extra GPUs of jobs under the linear law.

    GPU w + 1 of a job with remaining work L saves L / (w·(w + 1)); units are given in decreasing order of this value.

    Args:
        work: Remaining work of each job, in seconds on one GPU.
        base: GPUs of each job without extra ones.
        most: Largest number of extra GPUs of each job.
        jobs: Number of jobs.
        capacity: GPUs that are left.
        extra: Receives the numbers.
    """
    wanted, highest = 0, 0.0
    for j in range(jobs):
        extra[j] = most[j]
        wanted += most[j]
        highest = max(highest, work[j] / (base[j] * (base[j] + 1.0)))
    if wanted <= capacity:
        return
    low, high = 0.0, highest * 2.0 + 1.0  # more than the capacity is wanted at the low value, nothing at the high one
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        wanted = 0
        for j in range(jobs):
            wanted += worth(work[j], base[j], most[j], middle)
        if wanted > capacity:
            low = middle
        else:
            high = middle
    left = capacity
    for j in range(jobs):
        extra[j] = worth(work[j], base[j], most[j], high)
        left -= extra[j]
    while left > 0:
        best, value = -1, -1.0
        for j in range(jobs):
            held = base[j] + extra[j]
            if extra[j] < most[j] and work[j] / (held * (held + 1.0)) > value:
                best, value = j, work[j] / (held * (held + 1.0))
        extra[best] += 1
        left -= 1


@kernel(forceinline=False)
def share_by_least_work(work: Any, most: Any, jobs: int, capacity: int, extra: Any) -> None:
    """Write numbers of extra GPUs: those with the least remaining work get all they can use.

    Args:
        work: Remaining work of each job, in seconds on one GPU.
        most: Largest number of extra GPUs of each job.
        jobs: Number of jobs.
        capacity: GPUs that are left.
        extra: Receives the numbers.
    """
    low, high = 0.0, 0.0
    for j in range(jobs):
        high = max(high, work[j] + 1.0)
    for _ in range(_BISECTIONS):
        middle, wanted = (low + high) / 2, 0
        for j in range(jobs):
            if work[j] <= middle:
                wanted += most[j]
        if wanted > capacity:
            high = middle
        else:
            low = middle
    left = capacity
    for j in range(jobs):
        extra[j] = most[j] if work[j] <= low else 0
        left -= extra[j]
    for j in range(jobs):
        if low < work[j] <= high:
            extra[j] = min(most[j], left)
            left -= extra[j]


@kernel()
def worth(work: float, base: int, most: int, value: float) -> int:
    """Number of extra GPUs of a job that save at least ``value`` seconds each."""
    if work <= 0.0:
        return 0
    if value <= 0.0:
        return most
    held = math.floor((math.sqrt(1.0 + 4.0 * work / value) - 1.0) / 2.0) + 1.0  # with the last GPU that is worth it
    return int(min(max(held - base, 0.0), float(most)))
