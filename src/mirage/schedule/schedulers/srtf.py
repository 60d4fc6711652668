"""Shortest remaining time first, preemptive: the jobs with the least remaining time run.

The expected cost of a start or restart is part of the remaining time. Run times are the users' estimates, or the true
ones of jobs without an estimate; on GPUs of several speeds, they are those on the type with the most GPUs. SRTF is not
a bound if jobs have different numbers of GPUs: another order can have shorter waits.
"""

from __future__ import annotations

from typing import Any

from mirage.schedule.engine.compiled_scheduler import CompiledScheduler
from mirage.schedule.engine.kernel.gpu_arrays import PENDING, SCHEDULER, GpuState, PlanBuffer
from mirage.schedule.engine.kernel.gpu_references import dereference
from mirage.schedule.schedulers.order.exchange import LEAVES, RANKS, exchange
from mirage.schedule.schedulers.order.head_reservation import estimate_ends
from mirage.schedule.schedulers.order.job_queue import GONE, NEWCOMER, RETURNED, RUNS, WAITING, enter, remove
from mirage.schedule.schedulers.order.remaining_time import all_alike, common_speed, left_s, refresh_running
from mirage.schedule.schedulers.preemption import way_number
from mirage.sim.kernel.compile import kernel

_REASONS = (
    "",
    "least-left",
    "less-left-than-running",
    "others-have-less-left",
)


@kernel()
def update_queues(state: GpuState, buffer: PlanBuffer, common: float) -> None:
    """Update the queues from the news."""
    keys = buffer.memory[0]
    for k in range(state.clock[0].n_news):
        event, job_id = state.news[k, 0], state.news[k, 1]
        if event in (RETURNED, GONE) and not remove(buffer.ranks[RUNS], buffer.ranks[RUNS + 1], keys, job_id):
            remove(buffer.ranks[LEAVES], buffer.ranks[LEAVES + 1], keys, job_id)
        slot = state.slot_of[job_id] if event in (NEWCOMER, RETURNED) else -1
        if slot >= 0 and state.live[slot].status == PENDING:
            enter(buffer.ranks[WAITING], buffer.ranks[WAITING + 1], keys, job_id, left_s(state.live[slot], common))


@kernel(SCHEDULER)
def srtf(situation: Any) -> int:
    """Preempt jobs with much remaining time for waiting jobs with less."""
    world, state, buffer = dereference(situation)
    common = common_speed(world)
    update_queues(state, buffer, common)
    if not all_alike(world):
        refresh_running(world, state, buffer, common)
    actions = exchange(world, state, buffer, state.clock[0].now_s, int(buffer.parameters[0]))
    estimate_ends(world, state, buffer, actions)
    return actions


def scheduler(preempt: str = "save") -> CompiledScheduler:
    """Shortest remaining time first.

    Args:
        preempt: save, kill, boundary or cheaper.

    Raises:
        UnknownName: There is no such way to preempt.
    """
    way = float(way_number(preempt))
    return CompiledScheduler("srtf", srtf, _REASONS, knows_run_s=True, ranks=RANKS, parameters=(way,))
