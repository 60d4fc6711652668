"""Applies plans: all actions are one step, and each action is checked and refused alone.

1. Preemptions and cancellations are applied.
2. The plan is tried: GPUs that a change of size gives back are free, servers change pools, then starts and changes of
   size take their GPUs in the order of the plan. A job whose change of size is refused still holds its GPUs, so the
   trial is repeated without that change.
3. The remaining actions are applied.
"""

from __future__ import annotations

from typing import Any

from mirage.kernel.compile import kernel
from mirage.schedule.engine.kernel.gpu_arrays import (
    APPLIED,
    CANCEL,
    CANCELLED,
    DEMAND,
    HOLDS_NOTHING,
    IN_USE,
    KILL,
    LEAVES_ALREADY,
    LEND,
    MIXED_TYPES,
    NAMED_TWICE,
    NO_SLOT,
    NO_SUCH_SERVER,
    NOT_ACTIVE,
    NOT_FREE,
    NOT_PENDING,
    ON_LEFT,
    OVER_AT_ONCE,
    PENDING,
    PREEMPT,
    RESIZE,
    RETURN,
    RUNNING,
    RUNS_NOT_THERE,
    SAVING,
    START,
    STOPPING,
    WRONG_POOL,
    WRONG_SIZE,
    WRONG_TYPE,
    GpuState,
    GpuWorld,
    PlanBuffer,
)
from mirage.schedule.engine.kernel.gpu_lifecycle import begin_phase, end, notify, resize, settle, start, stop, vacate
from mirage.schedule.engine.kernel.gpu_packing import allowed, allows_type, holds_exactly, pack_with_batch, shift
from mirage.schedule.engine.kernel.random_costs import in_ticks
from mirage.schedule.engine.kernel.server_loans import end_loan, lend, why_not_lend, why_not_return
from mirage.schedule.speeds.speed_law import speed

SAME_PLACES = 1
"""``how`` of a change of size that leaves the job on its GPUs: only its batch changes."""


@kernel(forceinline=False)
def apply_plan(world: GpuWorld, state: GpuState, buffer: PlanBuffer, n: int) -> int:
    """Apply the first n actions of the plan buffer; returns the number applied.

    Each refused action gets the code of its reason.
    """
    clock = state.clock[0]
    clock.plans += 1
    happened = clock.happened
    for k in range(n):
        check(world, state, buffer, buffer.plan[k])
    for k in range(n):
        apply_departure(world, state, buffer.plan[k])
    while not try_plan(world, state, buffer, n):
        pass
    for k in range(n):
        action = buffer.plan[k]
        if action.refused == APPLIED and action.kind == RESIZE and action.how != SAME_PLACES:
            vacate(state, state.live[state.slot_of[action.id]])
    applied = 0
    for k in range(n):
        if buffer.plan[k].refused == APPLIED:
            apply_action(world, state, buffer, buffer.plan[k])
            applied += 1
        elif buffer.plan[k].kind == START and is_for_want_of_room(buffer.plan[k].refused):
            notify(state, ON_LEFT, buffer.plan[k].id)  # it still waits
        record_decision(state, buffer.plan[k])
    clock.happened = happened  # the scheduler is not called again for its own actions
    return applied


@kernel()
def record_decision(state: GpuState, action: Any) -> None:
    """Add an action to the log of decisions."""
    clock = state.clock[0]
    decision = state.decisions[clock.n_decisions]
    decision.time_s = clock.now_s
    decision.kind = action.kind
    decision.id = action.id
    decision.gpus = action.gpus
    decision.reason = action.reason
    decision.estimate_s = action.estimate_s
    decision.refused = action.refused
    clock.n_decisions += 1


# -- 1 ---------------------------------------------------------------------------------------------------------------


@kernel(forceinline=False)
def check(world: GpuWorld, state: GpuState, buffer: PlanBuffer, action: Any) -> None:
    """Refuse an action that the job's present state forbids, and update the job to now.

    Free GPUs are not checked here.
    """
    clock = state.clock[0]
    action.refused = APPLIED
    if action.kind == LEND or action.kind == RETURN:
        check_server(state, action)
        return
    if action.id < 0 or action.id >= len(state.slot_of) or state.slot_of[action.id] == NO_SLOT:
        action.refused = NOT_ACTIVE
        return
    if action.kind == START or action.kind == RESIZE:
        action.how = 0
    job = state.live[state.slot_of[action.id]]
    if job.named_at == clock.plans:
        action.refused = NAMED_TWICE
        return
    job.named_at = clock.plans
    settle(job, clock.now_s)
    leaving = job.status == STOPPING or job.status == SAVING
    if action.kind == START and job.status != PENDING:
        action.refused = NOT_PENDING
    elif (action.kind == PREEMPT or action.kind == RESIZE) and job.status == PENDING:
        action.refused = HOLDS_NOTHING
    elif leaving and (action.kind == RESIZE or (action.kind == PREEMPT and action.how != KILL)):
        action.refused = LEAVES_ALREADY
    elif action.kind == START or action.kind == RESIZE:
        check_size(world, state, buffer, action, job)


@kernel()
def check_server(state: GpuState, action: Any) -> None:
    """Refuse an invalid loan or return.

    It is invalid if there is no such server, if the plan has named the server before, or if the loan would end at once.
    """
    if action.id < 0 or action.id >= len(state.moved_at):
        action.refused = NO_SUCH_SERVER
    elif state.moved_at[action.id] == state.clock[0].plans:
        action.refused = NAMED_TWICE
    else:
        state.moved_at[action.id] = state.clock[0].plans
        if action.kind == LEND and not in_ticks(action.until_s) > state.clock[0].now_s:
            action.refused = OVER_AT_ONCE  # its end would call the scheduler again at the same time


@kernel()
def check_size(world: GpuWorld, state: GpuState, buffer: PlanBuffer, action: Any, job: Any) -> None:
    """Refuse a size that the job cannot have.

    Also finds whether a change of size leaves the job on its GPUs, and whether it can run there with its new batch.
    """
    if action.kind == RESIZE:
        stays = action.places == 0 and action.gpus <= 0
        stays = stays or (action.places > 0 and holds_exactly(state, job, buffer.places, action.first, action.places))
        action.how = SAME_PLACES if stays else 0
        if stays:
            action.gpus = job.held
            if action.batch > 0 and not can_run(world, job, job.gpu_type, job.servers, job.held, action.batch):
                action.refused = RUNS_NOT_THERE
            return
    if action.places > 0:
        action.gpus = 0
        for k in range(action.first, action.first + action.places):
            action.gpus += buffer.places[k].gpus
    elif action.gpus <= 0:
        action.gpus = job.gpus
    each = 1  # GPUs in place of one requested GPU
    if action.places > 0:
        server = buffer.places[action.first].server
        if server >= 0 and server < len(world.type_of):
            each = world.gpus_for_one[world.type_of[server]]
    if action.gpus % each != 0 or action.gpus < job.min_gpus * each or action.gpus > job.max_gpus * each:
        action.refused = WRONG_SIZE


@kernel(forceinline=False)
def can_run(world: GpuWorld, job: Any, gpu_type: int, servers: int, gpus: int, batch: int) -> bool:
    """Whether a job makes progress on a placement with a batch size."""
    return bool(speed(world.speeds, job.model, gpu_type, servers, gpus, batch, job.progress) > 0.0)


@kernel(forceinline=False)
def apply_departure(world: GpuWorld, state: GpuState, action: Any) -> None:
    """Apply a preemption or cancellation."""
    if action.refused != APPLIED or (action.kind != PREEMPT and action.kind != CANCEL):
        return
    job = state.live[state.slot_of[action.id]]
    action.gpus = job.held
    if action.kind == CANCEL:
        end(state, job, CANCELLED)
        return
    if action.needed >= 0:
        job.excess_gpus += max(job.held - action.needed, 0)
    stop(world, state, job, action.how)


# -- 2 ---------------------------------------------------------------------------------------------------------------


@kernel(forceinline=False)
def try_plan(world: GpuWorld, state: GpuState, buffer: PlanBuffer, n: int) -> bool:
    """Try the plan in the plan buffer; False if it must be tried again.

    This is the case when a change of size has been refused.
    """
    free = buffer.free
    for server in range(len(free)):
        free[server] = state.free[server]
    used = 0
    for k in range(n):
        action = buffer.plan[k]
        if action.refused == APPLIED and action.kind == RESIZE and action.how != SAME_PLACES:
            shift(state, state.live[state.slot_of[action.id]], free, 1)
        if action.kind == START or action.kind == RESIZE:
            used = max(used, action.first + action.places)
    try_loans(world, state, buffer, n)
    for k in range(n):
        action = buffer.plan[k]
        if action.refused != APPLIED or (action.kind != START and action.kind != RESIZE):
            continue
        job = state.live[state.slot_of[action.id]]
        stays = action.kind == RESIZE and action.how == SAME_PLACES
        if not stays:
            packs = action.places == 0
            if packs:
                used += pack_action(world, state, buffer, action, job, used)
            if action.refused == APPLIED:
                action.refused = take_in_trial(world, state, buffer, action, job)
            if action.refused != APPLIED and action.kind == RESIZE:
                undo_trial(world, state, buffer, n)
                return False
    return True


@kernel(forceinline=False)
def try_loans(world: GpuWorld, state: GpuState, buffer: PlanBuffer, n: int) -> None:
    """Move servers for the trial, returns first.

    Returned servers may serve inference instead of servers that are then lent.
    """
    for k in range(n):
        if buffer.plan[k].kind == RETURN and buffer.plan[k].refused == APPLIED:
            try_return(world, state, buffer.free, buffer.plan[k])
    for k in range(n):
        if buffer.plan[k].kind == LEND and buffer.plan[k].refused == APPLIED:
            try_loan(world, state, buffer.free, buffer.plan[k])


@kernel()
def try_return(world: GpuWorld, state: GpuState, free: Any, action: Any) -> None:
    """Move a server to its own pool for the trial, or refuse."""
    action.refused = why_not_return(world, state, free[action.id], action.id)
    if action.refused == APPLIED:
        state.present[world.home_of[action.id]] += 1
        state.pool_of[action.id] = world.home_of[action.id]


@kernel()
def try_loan(world: GpuWorld, state: GpuState, free: Any, action: Any) -> None:
    """Move a server to another pool for the trial, or refuse."""
    action.refused = why_not_lend(world, state, free[action.id], action.id, action.pool)
    if action.refused == APPLIED:
        state.present[world.home_of[action.id]] -= 1
        state.pool_of[action.id] = action.pool


@kernel()
def undo_loan(world: GpuWorld, state: GpuState, action: Any) -> None:
    """Undo the effect of a trial on a server.

    The order of servers does not matter, as the plan moves each only once.
    """
    if action.refused != APPLIED:
        return
    if action.kind == LEND:
        state.present[world.home_of[action.id]] += 1
        state.pool_of[action.id] = world.home_of[action.id]
    elif action.kind == RETURN:
        state.present[world.home_of[action.id]] -= 1
        state.pool_of[action.id] = state.loans[state.loan_of[action.id]].pool


@kernel(forceinline=False)
def undo_trial(world: GpuWorld, state: GpuState, buffer: PlanBuffer, n: int) -> None:
    """Undo a trial, except for the refusals of changes of size."""
    for k in range(n):
        action = buffer.plan[k]
        if action.kind == LEND or action.kind == RETURN:
            undo_loan(world, state, action)
            if action.refused in (IN_USE, DEMAND):
                action.refused = APPLIED
        elif action.kind == START or action.kind == RESIZE:
            if action.how == PACKED:
                action.places = 0
                action.first = 0
                action.how = 0
            if action.kind == START and is_for_want_of_room(action.refused):
                action.refused = APPLIED


PACKED = 2
"""``how`` of a start or change of size with locations chosen by the engine."""


@kernel()
def is_for_want_of_room(refused: int) -> bool:
    """Whether an action was refused for a reason that may not apply in another trial."""
    return bool(refused in (NOT_FREE, WRONG_POOL))


@kernel(forceinline=False)
def pack_action(world: GpuWorld, state: GpuState, buffer: PlanBuffer, action: Any, job: Any, used: int) -> int:
    """Choose locations for an action that names none; returns their number.

    They are written after the ``used`` ones.
    """
    batch = action.batch if action.batch > 0 else job.batch
    n = pack_with_batch(world, state, buffer.free, job, action.gpus, batch, buffer.picked)
    if n == 0:
        action.refused = NOT_FREE
        return 0
    for k in range(n):
        buffer.places[used + k].server = buffer.picked[k].server
        buffer.places[used + k].gpus = buffer.picked[k].gpus
    action.first = used
    action.places = n
    action.how = PACKED
    return n


@kernel(forceinline=False)
def take_in_trial(world: GpuWorld, state: GpuState, buffer: PlanBuffer, action: Any, job: Any) -> int:
    """Take the GPUs of an action from the free ones of the trial.

    Returns ``APPLIED``, or the code of the reason if the action cannot have them.
    """
    why = APPLIED
    taken, gpus = 0, 0
    for k in range(action.first, action.first + action.places):
        location = buffer.places[k]
        if location.server < 0 or location.server >= len(buffer.free) or location.gpus <= 0:
            why = NO_SUCH_SERVER
        elif not allowed(state, job.pool, location.server):
            why = WRONG_POOL
        elif world.type_of[location.server] != world.type_of[buffer.places[action.first].server]:
            why = MIXED_TYPES
        elif not allows_type(job, world.type_of[location.server]):
            why = WRONG_TYPE
        elif buffer.free[location.server] < location.gpus:
            why = NOT_FREE
        if why != APPLIED:
            break
        buffer.free[location.server] -= location.gpus
        gpus += location.gpus
        taken += 1
    if why == APPLIED:
        batch = action.batch if action.batch > 0 else job.batch
        gpu_type = world.type_of[buffer.places[action.first].server]
        if not can_run(world, job, gpu_type, action.places, gpus, batch):
            why = RUNS_NOT_THERE
    if why != APPLIED:
        for k in range(action.first, action.first + taken):
            buffer.free[buffer.places[k].server] += buffer.places[k].gpus
    return why


# -- 3 ---------------------------------------------------------------------------------------------------------------


@kernel(forceinline=False)
def apply_action(world: GpuWorld, state: GpuState, buffer: PlanBuffer, action: Any) -> None:
    """Apply an action that the trial has accepted."""
    if action.kind == LEND:
        undo_loan(world, state, action)
        lend(world, state, action.id, action.pool, in_ticks(action.until_s))
    elif action.kind == RETURN:
        undo_loan(world, state, action)
        end_loan(world, state, action.id)
    elif action.kind == START or action.kind == RESIZE:
        job = state.live[state.slot_of[action.id]]
        if action.batch > 0:
            job.batch = action.batch
        if action.kind == START:
            start(world, state, job, buffer.places, action.first, action.places)
        elif action.how != SAME_PLACES:
            resize(world, state, job, buffer.places, action.first, action.places)
        elif job.status == RUNNING:
            begin_phase(world, state, job)
        action.gpus = job.held
