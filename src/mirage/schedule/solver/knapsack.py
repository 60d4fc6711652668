"""Multiple-choice knapsack: at most one configuration per job, within the GPUs per type.

Prices of GPU types (Lagrangian relaxation) bound the value from above; a greedy choice at these prices is often within
the tolerance of the bound. If it is not, a small cluster is searched exactly, over the numbers of GPUs used, among the
options with losses at the prices that fit into the gap. For a large cluster HiGHS solves the linear program, in which
all but a few jobs have whole options; ``ConfigurationChoice.bound`` limits the distance of the rounded choice from the
optimum.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mirage.schedule.solver.highs import OPTIMAL, minimise
from mirage.schedule.solver.knapsack_kernels import (
    NONE,
    KnapsackOptions,
    KnapsackScratch,
    allocate,
    grow,
    relax,
    search,
)

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


def choose(
    value: NDArray[np.float64],
    gpus: NDArray[np.int64],
    kind: NDArray[np.int64],
    capacity: NDArray[np.int64],
    tolerance: float = 1e-4,
    limit_s: float = 1.0,
) -> ConfigurationChoice:
    """The configurations with the largest total value.

    Args:
        value: Value of each configuration for each job, relative to none; (jobs, configurations). Configurations with
            0 or less are never chosen.
        gpus: GPUs of each configuration. Configurations are grouped by type, in ascending order of GPUs.
        kind: GPU type of each configuration.
        capacity: GPUs of each type.
        tolerance: Permitted distance from the optimum.
        limit_s: Time limit of HiGHS in seconds, if it is needed.
    """
    jobs, configurations = value.shape
    if not jobs:
        return ConfigurationChoice(np.zeros(0, np.int64), 0.0, 0.0, OPTIMAL)
    options, scratch = allocate(jobs, configurations, len(capacity))
    gpus, kind, capacity = gpus.astype(np.int64), kind.astype(np.int64), capacity.astype(np.int64)
    found, bound = relax(np.ascontiguousarray(value, dtype=np.float64), gpus, kind, capacity, options, scratch)
    if found + tolerance >= bound:
        return ConfigurationChoice(scratch.best, float(found), float(bound), OPTIMAL)
    states = int(np.prod(capacity + 1))
    if states <= _MOST_STATES:
        found = _by_numbers(options, gpus, kind, capacity, bound - found - tolerance, bound, found, scratch)
        return ConfigurationChoice(scratch.best, float(found), float(bound), OPTIMAL)
    status = _by_rounding(options, gpus, kind, capacity, found, scratch, limit_s)
    chosen = scratch.best
    held = chosen >= 0
    return ConfigurationChoice(chosen, float(value[held, chosen[held]].sum()), float(bound), status)


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
    stride = np.concatenate([[1], np.cumprod(capacity + 1)[:-1]]).astype(np.int64)
    losses, taken = np.empty((2, states)), np.empty((jobs, states), np.int32)
    loss = search(options, gpus, kind, capacity, gap, stride, losses, taken, scratch)
    if loss > gap:
        return found  # nothing is better by more than the tolerance
    held = scratch.trial >= 0
    scratch.best[:] = NONE
    scratch.best[held] = options.configuration[scratch.trial[held]]
    return bound - loss


def _by_rounding(
    options: KnapsackOptions,
    gpus: NDArray[np.int64],
    kind: NDArray[np.int64],
    capacity: NDArray[np.int64],
    found: float,
    scratch: KnapsackScratch,
    limit_s: float,
) -> str:
    """Improve ``scratch.best`` by the rounded linear program and ``grow``; returns the status."""
    from scipy.sparse import csr_array, vstack

    jobs, last = len(scratch.best), int(options.first[-1])
    configuration, columns = options.configuration[:last], np.arange(last)
    each = csr_array((np.ones(last), columns, options.first), shape=(jobs, last))
    types = csr_array((gpus[configuration].astype(float), (kind[configuration], columns)), shape=(len(capacity), last))
    limits = np.concatenate([np.ones(jobs), capacity])
    solution = minimise(-options.value[:last], vstack([each, types]), limits, integer=False, limit_s=limit_s)
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
