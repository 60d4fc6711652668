"""Multiple-choice knapsack: at most one configuration per job, within the GPUs per type.

Prices of GPU types (Lagrangian relaxation) bound the value from above; a greedy choice at these prices is often within
the tolerance of the bound. If it is not, a small cluster is searched exactly, over the numbers of GPUs used, among the
options with losses at the prices that fit into the gap. For a large cluster HiGHS solves the linear program, in which
all but a few jobs have whole options; ``ConfigurationChoice.bound`` limits the distance of the rounded choice from the
optimum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mirage.kernel.compile import kernel
from mirage.schedule.rounds.highs import OPTIMAL, minimise_linear

NONE = -1
"""No configuration."""

UNREACHED = 1e300
_SWEEPS, _BISECTIONS, _STEPS = 3, 24, 60

ROUNDED = "rounded"
"""The status of a choice rounded from a linear program; if HiGHS found no solution, the status is that of HiGHS."""

_MOST_STATES = 60_000
_WHOLE = 1 - 1e-6


@dataclass(frozen=True, slots=True)
class ConfigurationChoice:
    """A choice of configurations.

    Attributes:
        configuration: By job; ``NONE`` for none.
        value: Sum of the values chosen.
        bound: Upper bound of the value of all choices.
        status: ``optimal`` (within the tolerance), ``rounded``, or the status of HiGHS if it found no solution.
    """

    configuration: NDArray[np.int64]
    value: float
    bound: float
    status: str


class KnapsackOptions(NamedTuple):
    """Options of all jobs; those of job j are from ``first[j]`` to ``first[j + 1]``.

    Attributes:
        first: Index of each job's first option, and the end of all.
        configuration: Configuration of each option.
        value: Value of each option.
        loss: Loss of each option at the prices, relative to the job's best option.
    """

    first: Any
    configuration: Any
    value: Any
    loss: Any


class KnapsackScratch(NamedTuple):
    """Arrays that the kernels write to.

    Attributes:
        best: Configuration of each job in the best choice so far.
        trial: Option of each job in the present choice.
        order: Jobs in the order of processing.
        key: Loss of each job at the prices if it has no option.
        left: Free GPUs of each type.
        price: Price of a GPU of each type.
        trial_price: Prices on trial.
        used: GPUs of each type that the jobs would use at these prices.
    """

    best: Any
    trial: Any
    order: Any
    key: Any
    left: Any
    price: Any
    trial_price: Any
    used: Any


def choose(
    value: NDArray[np.float64],
    gpus: NDArray[np.int64],
    kind: NDArray[np.int64],
    capacity: NDArray[np.int64],
    tolerance: float = 1e-4,
) -> ConfigurationChoice:
    """The configurations with the largest total value.

    Args:
        value: Value of each configuration for each job, relative to none; (jobs, configurations). Configurations with
            0 or less are never chosen.
        gpus: GPUs of each configuration. Configurations are grouped by type, in ascending order of GPUs.
        kind: GPU type of each configuration.
        capacity: GPUs of each type.
        tolerance: Permitted distance from the optimum.
    """
    jobs, configurations = value.shape
    if not jobs:
        return ConfigurationChoice(np.zeros(0, np.int64), 0.0, 0.0, OPTIMAL)
    options, scratch = allocate(jobs, configurations, len(capacity))
    gpus, kind, capacity = gpus.astype(np.int64), kind.astype(np.int64), capacity.astype(np.int64)
    found, bound = relax(np.ascontiguousarray(value), gpus, kind, capacity, options, scratch)
    if found + tolerance >= bound:
        return ConfigurationChoice(scratch.best, float(found), float(bound), OPTIMAL)
    states = int(np.prod(capacity + 1))
    if states <= _MOST_STATES:
        found = _by_numbers(options, gpus, kind, capacity, bound - found - tolerance, bound, found, scratch)
        return ConfigurationChoice(scratch.best, float(found), float(bound), OPTIMAL)
    status = _by_rounding(options, gpus, kind, capacity, found, scratch)
    chosen = scratch.best
    held = chosen >= 0
    return ConfigurationChoice(chosen, float(value[held, chosen[held]].sum()), float(bound), status)


def allocate(jobs: int, configurations: int, kinds: int) -> tuple[KnapsackOptions, KnapsackScratch]:
    """Arrays for one round."""
    most = jobs * configurations
    return (
        KnapsackOptions(np.zeros(jobs + 1, np.int64), np.zeros(most, np.int64), np.zeros(most), np.zeros(most)),
        KnapsackScratch(
            np.full(jobs, NONE),
            np.full(jobs, NONE),
            np.zeros(jobs, np.int64),
            np.zeros(jobs),
            np.zeros(kinds, np.int64),
            np.zeros(kinds),
            np.zeros(kinds),
            np.zeros(kinds, np.int64),
        ),
    )


@kernel()
def relax(value: Any, gpus: Any, kind: Any, capacity: Any, options: Any, scratch: Any) -> tuple[float, float]:
    """Fill in the options, their losses at good prices, and a greedy choice.

    Returns its value and an upper bound of all choices.
    """
    gather(value, gpus, kind, capacity, options)
    bound = prices(options, gpus, kind, capacity, scratch)
    return greedy(options, gpus, kind, capacity, scratch), bound


@kernel()
def gather(value: Any, gpus: Any, kind: Any, capacity: Any, options: Any) -> None:
    """Gather, for each job and type, the options with more value than every smaller one."""
    jobs, configurations = value.shape
    n = 0
    for j in range(jobs):
        options.first[j] = n
        best = 0.0
        for c in range(configurations):
            if c == 0 or kind[c] != kind[c - 1]:
                best = 0.0
            if value[j, c] > best and gpus[c] <= capacity[kind[c]]:
                best = value[j, c]
                options.configuration[n] = c
                options.value[n] = best
                n += 1
    options.first[jobs] = n


@kernel()
def prices(options: Any, gpus: Any, kind: Any, capacity: Any, scratch: Any) -> float:  # noqa: C901 one algorithm
    """Find prices with a low bound, and return the bound.

    The search is a bisection type by type, then steps along the excess of demand.
    """
    price, trial, used = scratch.price, scratch.trial_price, scratch.used
    kinds = len(capacity)
    highest = 0.0
    for o in range(options.first[len(options.first) - 1]):
        highest = max(highest, options.value[o] / gpus[options.configuration[o]])
    best = _relaxed(options, gpus, kind, capacity, price, used)
    for k in range(kinds):
        trial[k] = price[k]
    for _ in range(_SWEEPS):
        for k in range(kinds):
            low, high = 0.0, highest
            for b in range(_BISECTIONS):
                trial[k] = 0.0 if b == 0 else (low + high) / 2
                bound = _relaxed(options, gpus, kind, capacity, trial, used)
                if bound < best:
                    best = bound
                    for t in range(kinds):
                        price[t] = trial[t]
                if used[k] <= capacity[k]:
                    high = trial[k]
                    if b == 0:
                        break
                else:
                    low = trial[k]
            trial[k] = high
        for k in range(kinds):
            trial[k] = price[k]
    scale = 1.0
    for _ in range(_STEPS):
        bound = _relaxed(options, gpus, kind, capacity, trial, used)
        if bound < best:
            best = bound
            for k in range(kinds):
                price[k] = trial[k]
        square = 0.0
        for k in range(kinds):
            excess = used[k] - capacity[k]
            if excess > 0 or trial[k] > 0:
                square += excess**2
        if square == 0:
            break
        step = scale * 0.02 * max(best, 1e-9) / square
        for k in range(kinds):
            trial[k] = max(0.0, trial[k] + step * (used[k] - capacity[k]))
        scale *= 0.93
    return best


@kernel()
def _relaxed(options: Any, gpus: Any, kind: Any, capacity: Any, price: Any, used: Any) -> float:
    """The bound at these prices; writes the GPUs that the jobs would use into ``used``."""
    bound = 0.0
    for k in range(len(capacity)):
        bound += price[k] * capacity[k]
        used[k] = 0
    for j in range(len(options.first) - 1):
        best, wanted = 0.0, -1
        for o in range(options.first[j], options.first[j + 1]):
            c = options.configuration[o]
            worth = options.value[o] - price[kind[c]] * gpus[c]
            if worth > best:
                best, wanted = worth, c
        if wanted >= 0:
            bound += best
            used[kind[wanted]] += gpus[wanted]
    return bound


@kernel()
def greedy(options: Any, gpus: Any, kind: Any, capacity: Any, scratch: Any) -> float:
    """Choose for each job the best option at the prices that fits, then improve by ``grow``.

    Jobs with the largest gain choose first.
    """
    price, order, key, left = scratch.price, scratch.order, scratch.key, scratch.left
    jobs = len(options.first) - 1
    for k in range(len(capacity)):
        left[k] = capacity[k]
    for j in range(jobs):
        most = 0.0
        for o in range(options.first[j], options.first[j + 1]):
            c = options.configuration[o]
            most = max(most, options.value[o] - price[kind[c]] * gpus[c])
        for o in range(options.first[j], options.first[j + 1]):
            c = options.configuration[o]
            options.loss[o] = most - (options.value[o] - price[kind[c]] * gpus[c])
        key[j] = most
        order[j] = j
    _sort(order, key, jobs)
    for at in range(jobs):
        j = order[at]
        taken, least = -1, key[j]
        for o in range(options.first[j], options.first[j + 1]):
            c = options.configuration[o]
            if gpus[c] <= left[kind[c]] and (options.loss[o] < least or (options.loss[o] == least and taken < 0)):
                taken, least = o, options.loss[o]
        scratch.trial[j] = taken
        if taken >= 0:
            c = options.configuration[taken]
            left[kind[c]] -= gpus[c]
    return grow(options, gpus, kind, scratch)


@kernel()
def _sort(order: Any, key: Any, n: int) -> None:
    """Sort by descending key, then by ascending job.

    It is a shell sort: a merge sort would need memory, and n is small.
    """
    gap = n // 2
    while gap > 0:
        for i in range(gap, n):
            moving, k = order[i], i
            while k >= gap and (
                key[order[k - gap]] < key[moving] or (key[order[k - gap]] == key[moving] and order[k - gap] > moving)
            ):
                order[k] = order[k - gap]
                k -= gap
            order[k] = moving
        gap //= 2


def _by_numbers(
    options: KnapsackOptions,
    gpus: NDArray[np.int64],
    kind: NDArray[np.int64],
    capacity: NDArray[np.int64],
    gap: float,
    bound: float,
    found: float,
    scratch: KnapsackScratch,
) -> float:
    """Find the best choice by exact search over the numbers of GPUs used; returns its value."""
    jobs, states = len(scratch.best), int(np.prod(capacity + 1))
    stride = np.concatenate([[1], np.cumprod(capacity + 1)[:-1]])
    losses, taken = np.empty((2, states)), np.empty((jobs, states), np.int32)
    loss = search(options, gpus, kind, capacity, gap, stride, losses, taken, scratch)
    if loss > gap:
        return found  # nothing is better by more than the tolerance
    held = scratch.trial >= 0
    scratch.best[:] = NONE
    scratch.best[held] = options.configuration[scratch.trial[held]]
    return bound - loss


@kernel()
def search(  # noqa: C901 one algorithm
    options: Any, gpus: Any, kind: Any, capacity: Any, gap: float, stride: Any, losses: Any, taken: Any, scratch: Any
) -> float:
    """Find the least loss over all numbers of GPUs used, job by job, within the gap.

    Fills in ``scratch.trial``; returns the least loss, or a larger number than the gap if no loss is within it.
    """
    price, key, trial = scratch.price, scratch.key, scratch.trial
    jobs, kinds, states = len(options.first) - 1, len(capacity), losses.shape[1]
    now, then = 0, 1
    for s in range(states):
        losses[now, s] = UNREACHED
    losses[now, 0] = 0.0
    furthest = 0  # the last reached state
    for j in range(jobs):
        for s in range(states):
            losses[then, s] = UNREACHED
        if key[j] <= gap:
            for s in range(furthest + 1):
                if losses[now, s] + key[j] <= gap:
                    losses[then, s] = losses[now, s] + key[j]
                    taken[j, s] = NONE
        further = furthest
        for o in range(options.first[j], options.first[j + 1]):
            loss = options.loss[o]
            if loss > gap:
                continue
            c = options.configuration[o]
            k, more = kind[c], gpus[c]
            for s in range(min(furthest, states - 1 - more * stride[k]) + 1):
                if losses[now, s] + loss > gap:
                    continue
                if s // stride[k] % (capacity[k] + 1) + more > capacity[k]:
                    continue
                at = s + more * stride[k]
                if losses[now, s] + loss < losses[then, at]:
                    losses[then, at] = losses[now, s] + loss
                    taken[j, at] = o
                    further = max(further, at)
        furthest = further
        now, then = then, now
    least, at = UNREACHED, -1
    for s in range(furthest + 1):
        unused = losses[now, s]
        for k in range(kinds):
            unused += price[k] * (capacity[k] - s // stride[k] % (capacity[k] + 1))
        if unused < least:
            least, at = unused, s
    if at < 0 or least > gap:
        return UNREACHED
    for j in range(jobs - 1, -1, -1):
        o = taken[j, at]
        trial[j] = o
        if o >= 0:
            c = options.configuration[o]
            at -= gpus[c] * stride[kind[c]]
    return least


def _by_rounding(
    options: KnapsackOptions,
    gpus: NDArray[np.int64],
    kind: NDArray[np.int64],
    capacity: NDArray[np.int64],
    found: float,
    scratch: KnapsackScratch,
) -> str:
    """Improve ``scratch.best`` by the rounded linear program and ``grow``; returns the status."""
    from scipy.sparse import csr_array, vstack

    jobs, last = len(scratch.best), int(options.first[-1])
    configuration, columns = options.configuration[:last], np.arange(last)
    each = csr_array((np.ones(last), columns, options.first), shape=(jobs, last))
    types = csr_array((gpus[configuration], (kind[configuration], columns)), shape=(len(capacity), last))
    limits = np.concatenate([np.ones(jobs), capacity])
    solution = minimise_linear(-options.value[:last], vstack([each, types]), limits)
    if solution.x is None:
        return solution.status
    greedy = scratch.best.copy()
    whole = np.flatnonzero(solution.x > _WHOLE)
    scratch.trial[:] = NONE
    scratch.trial[np.searchsorted(options.first, whole, side="right") - 1] = whole
    taken = configuration[whole]
    scratch.left[:] = capacity - np.bincount(kind[taken], weights=gpus[taken], minlength=len(capacity)).astype(np.int64)
    if grow(options, gpus, kind, scratch) < found:
        scratch.best[:] = greedy
    return ROUNDED


@kernel()
def grow(options: Any, gpus: Any, kind: Any, scratch: Any) -> float:
    """Exchange single options of ``scratch.trial`` while this gains value and fits.

    Writes the choice into ``scratch.best`` and returns its value.
    """
    left = scratch.left
    jobs = len(options.first) - 1
    for _ in range(4 * jobs):
        gained, chooser, option = 0.0, -1, -1
        for j in range(jobs):
            held = scratch.trial[j]
            has = options.value[held] if held >= 0 else 0.0
            for o in range(options.first[j], options.first[j + 1]):
                c = options.configuration[o]
                room = left[kind[c]]
                if held >= 0 and kind[options.configuration[held]] == kind[c]:
                    room += gpus[options.configuration[held]]
                if gpus[c] <= room and options.value[o] - has > gained + 1e-12:
                    gained, chooser, option = options.value[o] - has, j, o
        if chooser < 0:
            break
        held = scratch.trial[chooser]
        if held >= 0:
            left[kind[options.configuration[held]]] += gpus[options.configuration[held]]
        left[kind[options.configuration[option]]] -= gpus[options.configuration[option]]
        scratch.trial[chooser] = option
    return _store(options, scratch.trial, scratch.best)


@kernel()
def _store(options: Any, taken: Any, best: Any) -> float:
    found = 0.0
    for j in range(len(taken)):
        best[j] = -1
        if taken[j] >= 0:
            best[j] = options.configuration[taken[j]]
            found += options.value[taken[j]]
    return found
