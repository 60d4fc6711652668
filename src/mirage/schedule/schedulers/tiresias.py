"""Tiresias (NSDI'19): least attained service or Gittins index in levels, preemptive.

A job's *service* is the GPU-seconds that it has held. Levels end at thresholds of service, and within a level jobs run
in order of submission, so that they do not take turns. With one threshold and levels in order this is two-queue LAS;
the Gittins index orders the levels by the chance that a job with this service ends soon, over the cost of serving it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mirage.array_types import Floats
from mirage.errors import ConfigurationError
from mirage.kernel.compile import kernel
from mirage.kernel.heap import expect, forget
from mirage.schedule.engine.compiled_scheduler import CompiledScheduler
from mirage.schedule.engine.kernel.current_amounts import attained_now
from mirage.schedule.engine.kernel.gpu_arrays import (
    NEVER_S,
    PENDING,
    PREEMPT,
    SCHEDULER,
    START,
    TICK_S,
    GpuState,
    PlanBuffer,
    dereference,
)
from mirage.schedule.schedulers.exchange import LEAVES, RANKS, exchange
from mirage.schedule.schedulers.job_queue import GONE, NEWCOMER, RETURNED, RUNS, WAITING, enter, remove
from mirage.schedule.schedulers.preemption import way_number

_HEAP, _PLACES = RANKS, RANKS + 1
_TIMES = 1
"""Columns of the heap of jobs by the time at which each passes its next threshold."""

_REASONS = (
    "",
    "first-in-level-order",
    "before-running-in-level-order",
    "others-before-in-level-order",
)

_NEARLY = 1e-3
"""GPU-seconds that rounding to ticks may leave below a threshold."""


@kernel()
def level_of(parameters: Any, attained: float) -> int:
    """The number of thresholds that a service has passed.

    Parameters are the way to preempt, the number of thresholds, the thresholds, and the keys of the levels.
    """
    level = 0
    while level < parameters[1] and attained >= parameters[2 + level] - _NEARLY:
        level += 1
    return level


@kernel()
def key_of(parameters: Any, attained: float) -> float:
    """The key of a service in the order: lowest first."""
    return float(parameters[2 + int(parameters[1]) + level_of(parameters, attained)])


@kernel()
def expect_crossing(buffer: PlanBuffer, job_id: int, attained: float, gpus: int, now_s: float) -> None:
    """Set the time at which a job that holds ``gpus`` GPUs passes its next threshold."""
    parameters = buffer.parameters
    level = level_of(parameters, attained)
    if level >= parameters[1]:
        forget(buffer.ranks[_HEAP], buffer.ranks[_PLACES], buffer.memory[_TIMES], job_id)
        return
    ticks = math.ceil((parameters[2 + level] - attained) / gpus / TICK_S)
    expect(buffer.ranks[_HEAP], buffer.ranks[_PLACES], buffer.memory[_TIMES], job_id, now_s + ticks * TICK_S)


@kernel(forceinline=False)
def update_queues(state: GpuState, buffer: PlanBuffer) -> None:
    """Update the queues from the news."""
    keys, ranks = buffer.memory[0], buffer.ranks
    for k in range(state.clock[0].n_news):
        event, job_id = state.news[k, 0], state.news[k, 1]
        if event in (RETURNED, GONE):
            if not remove(ranks[RUNS], ranks[RUNS + 1], keys, job_id):
                remove(ranks[LEAVES], ranks[LEAVES + 1], keys, job_id)
            forget(ranks[_HEAP], ranks[_PLACES], buffer.memory[_TIMES], job_id)
        slot = state.slot_of[job_id] if event in (NEWCOMER, RETURNED) else -1
        if slot >= 0 and state.live[slot].status == PENDING:
            key = key_of(buffer.parameters, state.live[slot].executed)
            enter(ranks[WAITING], ranks[WAITING + 1], keys, job_id, key)


@kernel(forceinline=False)
def move_crossed_jobs(state: GpuState, buffer: PlanBuffer) -> None:
    """Move jobs that have passed a threshold to their new position in the running queue."""
    now_s, heap, times = state.clock[0].now_s, buffer.ranks[_HEAP], buffer.memory[_TIMES]
    while heap[len(heap) - 1] > 0 and times[heap[0]] <= now_s:
        job_id = heap[0]
        job = state.live[state.slot_of[job_id]]
        attained = attained_now(job, now_s)
        remove(buffer.ranks[RUNS], buffer.ranks[RUNS + 1], buffer.memory[0], job_id)
        enter(buffer.ranks[RUNS], buffer.ranks[RUNS + 1], buffer.memory[0], job_id, key_of(buffer.parameters, attained))
        expect_crossing(buffer, job_id, attained, job.held, now_s)


@kernel(SCHEDULER)
def tiresias(situation: Any) -> int:
    """Preempt jobs with much attained service for waiting jobs with less."""
    world, state, buffer = dereference(situation)
    clock = state.clock[0]
    update_queues(state, buffer)
    move_crossed_jobs(state, buffer)
    actions = exchange(world, state, buffer, 0.0, int(buffer.parameters[0]))
    for k in range(actions):
        action = buffer.plan[k]
        job = state.live[state.slot_of[action.id]]
        if action.kind == START:
            expect_crossing(buffer, action.id, job.executed, job.gpus, clock.now_s)
        elif action.kind == PREEMPT:
            forget(buffer.ranks[_HEAP], buffer.ranks[_PLACES], buffer.memory[_TIMES], action.id)
    heap = buffer.ranks[_HEAP]
    clock.wake_s = buffer.memory[_TIMES, heap[0]] if heap[len(heap) - 1] > 0 else NEVER_S
    return actions


def scheduler(thresholds_gpu_s: Sequence[float] = (3600.0,), preempt: str = "save") -> CompiledScheduler:
    """Least attained service in levels; Tiresias-L.

    Args:
        thresholds_gpu_s: GPU-seconds at which the levels end, ascending.
        preempt: save, kill, boundary or cheaper.

    Raises:
        ConfigurationError: The thresholds do not ascend from above 0.
        UnknownName: There is no such way to preempt.
    """
    thresholds = np.asarray(thresholds_gpu_s, dtype=np.float64)
    return _with_levels("tiresias", thresholds, np.arange(len(thresholds) + 1.0), preempt)


def gittins_scheduler(service_gpu_s: ArrayLike = (), levels: int = 16, preempt: str = "save") -> CompiledScheduler:
    """The Gittins index in levels; Tiresias-G.

    Args:
        service_gpu_s: GPU-seconds that earlier jobs needed.
        levels: Number of levels; their thresholds are quantiles of ``service_gpu_s``.
        preempt: save, kill, boundary or cheaper.

    Raises:
        ConfigurationError: There are no earlier jobs, or fewer than two levels.
        UnknownName: There is no such way to preempt.
    """
    service = np.sort(np.asarray(service_gpu_s, dtype=np.float64))
    if len(service) == 0 or levels < 2:
        raise ConfigurationError(
            f"service_gpu_s, the GPU-seconds of earlier jobs, has {len(service)} values and levels is {levels}; the "
            "Gittins index needs at least one value and two levels, e.g. gittins:service_gpu_s=600/3600/86400"
        )
    thresholds = np.unique(np.quantile(service, np.arange(1, levels) / levels))
    thresholds = thresholds[thresholds > 0]
    index = gittins_index(service, np.concatenate([[0.0], thresholds]), thresholds)
    return _with_levels("gittins", thresholds, -index, preempt)


def gittins_index(service: Floats, attained: Floats, quanta: Floats) -> Floats:
    """The Gittins index by attained service: the best chance of an end per unit of service.

    Args:
        service: Service of earlier jobs, ascending.
        attained: Services for which the index is computed.
        quanta: Services up to which a job may be served before it is considered again; after the last, to its end.
    """
    index = np.zeros(len(attained))
    total = np.concatenate([[0.0], np.cumsum(service)])
    for k, a in enumerate(attained):
        first = int(np.searchsorted(service, a, side="right"))
        left = len(service) - first
        if left == 0:
            continue
        until = np.append(quanta[quanta > a], np.inf)
        past = np.searchsorted(service, until, side="right")
        ends = past - first
        beyond = np.where(past < len(service), until - a, 0.0) * (len(service) - past)
        spent = total[past] - total[first] - a * ends + beyond
        index[k] = np.max(ends / spent)
    return index


def _with_levels(name: str, thresholds: Floats, keys: Floats, preempt: str) -> CompiledScheduler:
    if len(thresholds) == 0 or thresholds[0] <= 0 or np.any(np.diff(thresholds) <= 0):
        raise ConfigurationError(f"thresholds {thresholds.tolist()} GPU-s do not ascend from above 0; give e.g. 3600")
    parameters = (float(way_number(preempt)), float(len(thresholds)), *thresholds.tolist(), *keys.tolist())
    return CompiledScheduler(name, tiresias, _REASONS, memory=2, ranks=RANKS + 2, parameters=parameters)
