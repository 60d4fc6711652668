"""Aryl: inference lends idle servers to training, and elastic jobs use what is left.

After Aryl (arXiv 2202.07896; as Lyra at EuroSys'23), by its abstract (A); what is our hypothesis is marked (H).

1. *Loans* (A). Inference lends idle servers; when it wants servers back, they are given back at the least server
   preemption cost (``server_reclaim``). (H) Idle is what exceeds the demand, now and announced, by a headroom of 2 % of
   the pool; servers are lent at intervals of 300 s, and given back as soon as a demand is announced. The interval and
   the headroom are from memory of the paper.
2. *Phase 1* (A): waiting jobs get their base demand, the shortest first. (H) At every event. A job that does not fit
   blocks the GPU types that it may run on; without loans it blocks all, as ``sjf`` does.
3. *Phase 2* (A): the GPUs left go to elastic jobs as extra workers (``elastic_knapsack``). (H) At intervals; phase 1
   may then take the GPUs of flexible workers. A worker is one requested GPU, and flexible workers have the GPU type of
   the base.
4. *Placement* (A): best-fit decreasing; inelastic jobs on training servers first, elastic ones on lent servers first,
   base and flexible workers of a job on different servers. (H) Servers with the least room that is sufficient first,
   and flexible workers stay where they are as far as possible.

The base demand is the requested number of GPUs; a job is elastic if it can use more.
"""

from __future__ import annotations

import math
from typing import Any

from mirage.duration import HOUR_S
from mirage.errors import ConfigurationError, UnknownName
from mirage.kernel.compile import kernel
from mirage.schedule.engine.compiled_scheduler import CompiledScheduler
from mirage.schedule.engine.kernel.current_amounts import expected_left_s
from mirage.schedule.engine.kernel.gpu_arrays import (
    NEVER_S,
    NO_LOAN,
    ON_ENDED,
    ON_LEFT,
    ON_SERVERS,
    ON_SUBMITTED,
    SCHEDULER,
    TICK_S,
    GpuState,
    GpuWorld,
    PlanBuffer,
    dereference,
)
from mirage.schedule.engine.kernel.gpu_packing import allows_type, pack
from mirage.schedule.engine.kernel.plan_writers import write_picked_start
from mirage.schedule.schedulers.aryl_extra_workers import give_extra, release_flexible
from mirage.schedule.schedulers.aryl_loans import (
    give_back_emptied,
    lend_idle,
    pool_size,
    prepare_exact,
    reclaim,
    surplus,
)
from mirage.schedule.schedulers.aryl_memory import (
    ANSWERED_S,
    BASE,
    ELASTIC,
    EXACT,
    EXTRA_ON_LOANS,
    HELD,
    INTERVAL_S,
    KEYS,
    LOANS,
    MOST_LOSS_S,
    MOVES,
    NEXT_INTERVAL,
    REASONS,
    SHORTEST,
    WIDTH_POWER,
    is_elastic,
)
from mirage.schedule.schedulers.aryl_moves import move_home
from mirage.schedule.schedulers.job_queue import NEWCOMER, RETURNED, WAITING, enter, take_out
from mirage.schedule.schedulers.preemption import way_number
from mirage.schedule.schedulers.run_time_estimates import estimate_ends, left_on_s

_ALL_BUT_PROGRESS = ON_SUBMITTED | ON_ENDED | ON_LEFT | ON_SERVERS


@kernel()
def update_queue(state: GpuState, buffer: PlanBuffer) -> None:
    """Enter new and returned jobs by their remaining run time."""
    for k in range(state.clock[0].n_news):
        event, job_id = state.news[k, 0], state.news[k, 1]
        if event in (NEWCOMER, RETURNED) and state.slot_of[job_id] >= 0:
            job = state.live[state.slot_of[job_id]]
            left_s = expected_left_s(job, job.progress)
            if buffer.parameters[WIDTH_POWER] > 0.0:
                left_s *= job.gpus ** buffer.parameters[WIDTH_POWER]
            enter(buffer.ranks[WAITING], buffer.ranks[WAITING + 1], buffer.memory[KEYS], job_id, left_s)


@kernel(forceinline=False)
def place_base(world: GpuWorld, state: GpuState, buffer: PlanBuffer, job: Any, any_lent: bool) -> int:
    """Choose servers for the base demand of a job.

    Returns the number of locations, 0 if it does not fit.

    Inelastic jobs go to servers of their own pool first, elastic ones to lent servers first, if these may have extra
    workers.
    """
    if not any_lent:
        return int(pack(world, state, buffer.free, job, job.gpus, buffer.picked))
    lent_first = is_elastic(buffer, job) and buffer.parameters[EXTRA_ON_LOANS] > 0.0
    for lent in (lent_first, not lent_first):
        for server in range(len(buffer.free)):
            matches = (state.loan_of[server] != NO_LOAN) == lent
            buffer.spare[server] = buffer.free[server] if matches else 0
        places = pack(world, state, buffer.spare, job, job.gpus, buffer.picked)
        if places > 0:
            return int(places)
    return int(pack(world, state, buffer.free, job, job.gpus, buffer.picked))


@kernel(forceinline=False)
def worthwhile_types(world: GpuWorld, buffer: PlanBuffer, job: Any, home_types: int) -> int:
    """The types on which a job loses little time.

    Args:
        home_types: Mask of the types of the jobs' own pool; the fastest of them is the reference, as only these servers
            are sure to be there.
    """
    if buffer.parameters[MOST_LOSS_S] == NEVER_S:
        return int(job.types)
    least_s = NEVER_S
    for gpu_type in range(len(world.speeds.type_speed)):
        if home_types >> gpu_type & 1:
            least_s = min(least_s, left_on_s(world, job, gpu_type))
    if least_s == NEVER_S:
        return int(job.types)
    mask = 0
    for gpu_type in range(len(world.speeds.type_speed)):
        if left_on_s(world, job, gpu_type) <= least_s + buffer.parameters[MOST_LOSS_S]:
            mask |= 1 << gpu_type
    return mask


@kernel(forceinline=False)
def types_at_home(world: GpuWorld) -> int:
    """Mask of the GPU types of the jobs' own pool."""
    mask = 0
    for server in range(len(world.home_of)):
        if world.jobs[0].pool < 0 or world.home_of[server] == world.jobs[0].pool:
            mask |= 1 << world.type_of[server]
    return mask


@kernel(forceinline=False)
def start_waiting(
    world: GpuWorld, state: GpuState, buffer: PlanBuffer, at: int, used: int, any_lent: bool
) -> tuple[int, int]:
    """Write the starts of waiting jobs, the shortest first, on ``buffer.free``.

    Returns:
        The new numbers of actions and of locations.
    """
    ids, ends = buffer.ranks[WAITING], buffer.ranks[WAITING + 1]
    open_types, home_types = (1 << len(world.speeds.type_speed)) - 1, types_at_home(world)
    k = ends[0]
    while k < ends[1] and open_types != 0:
        job = state.live[state.slot_of[ids[k]]]
        places = 0
        if job.types & open_types != 0:
            permitted = job.types
            job.types = worthwhile_types(world, buffer, job, home_types)
            places = place_base(world, state, buffer, job, any_lent)
            if places == 0:
                open_types = block(world, buffer, job, open_types) if buffer.parameters[LOANS] > 0.0 else 0
            job.types = permitted
        if places == 0:
            k += 1
            continue
        write_picked_start(buffer, at, job.id, buffer.free, used, places, SHORTEST)
        buffer.ranks[BASE, job.id] = places
        at += 1
        used += places
        take_out(ids, ends, k)
        k = max(k, ends[0])
    return at, used


@kernel(forceinline=False)
def block(world: GpuWorld, buffer: PlanBuffer, job: Any, open_types: int) -> int:
    """Hold the free GPUs of the types that a job may use; returns the types that stay open.

    ``HELD`` has the GPUs by server, for phase 2.
    """
    for server in range(len(buffer.free)):
        if allows_type(job, world.type_of[server]) and buffer.free[server] > 0:
            buffer.ranks[HELD, server] += buffer.free[server]
            buffer.free[server] = 0
    return int(open_types & ~job.types)


@kernel(SCHEDULER)
def aryl(situation: Any) -> int:
    """Give servers back or lend them, start the shortest jobs, and share what is left."""
    world, state, buffer = dereference(situation)
    clock = state.clock[0]
    loans, elastic = buffer.parameters[LOANS] > 0.0, buffer.parameters[ELASTIC] > 0.0
    if loans and buffer.parameters[EXACT] > 0.0 and world.jobs[0].pool >= 0:
        if prepare_exact(world, state, buffer, world.jobs[0].pool):
            return -1
        if buffer.memory[ANSWERED_S, 1] > clock.now_s:
            clock.wake_s = min(clock.wake_s, buffer.memory[ANSWERED_S, 1])
        buffer.memory[ANSWERED_S, 1] = 0.0
    update_queue(state, buffer)
    any_lent = False
    for server in range(len(state.free)):
        buffer.free[server] = state.free[server]
        buffer.ranks[HELD, server] = 0
        any_lent |= state.loan_of[server] != NO_LOAN
    at, used = 0, 0
    reclaims = False
    borrower = world.jobs[0].pool
    if loans and borrower >= 0:
        at = give_back_emptied(world, state, buffer, at)
        for pool in range(len(state.wanted)):
            missing = -surplus(world, state, buffer, pool, True)
            if pool != borrower and missing > 0 and state.present[pool] < pool_size(world, pool):
                at, used = reclaim(world, state, buffer, pool, missing, at, used)
                reclaims = True
    due = clock.now_s >= buffer.memory[NEXT_INTERVAL, 0] and not reclaims
    if due:
        interval_s = buffer.parameters[INTERVAL_S]
        buffer.memory[NEXT_INTERVAL, 0] = (math.floor(clock.now_s / interval_s) + 1.0) * interval_s
    before = at
    if due and loans and borrower >= 0:
        at = lend_idle(world, state, buffer, borrower, at)
    if reclaims or at > before:  # GPUs become free, which the next call uses
        clock.wake_s = min(clock.wake_s, clock.now_s + TICK_S)
    if due and elastic:
        release_flexible(state, buffer)
    at, used = start_waiting(world, state, buffer, at, used, any_lent)
    if buffer.parameters[MOVES] > 0.0 and not reclaims:
        at, used = move_home(world, state, buffer, types_at_home(world), at, used)
    if elastic:
        at = give_extra(world, state, buffer, at, used, due, not reclaims)
    estimate_ends(world, state, buffer, at)
    return at


RECLAIMS = ("greedy", "exact")
"""Ways to choose the servers to give back."""


def scheduler(
    loans: bool = True,
    elastic: bool = True,
    interval_s: float = 300.0,
    headroom: float = 0.02,
    preempt: str = "save",
    name: str = "aryl",
    weighs_loss: bool = False,
    most_loss_h: float = math.inf,
    least_gain_s: float = 0.0,
    reclaim: str = "greedy",
    moves: bool = False,
    width_power: float = 0.0,
    wide_starts: bool = False,
    least_work_first: bool = False,
    extra_on_loans: bool = True,
) -> CompiledScheduler:
    """Aryl.

    Args:
        loans: Whether inference lends its idle servers.
        elastic: Whether elastic jobs get extra workers.
        interval_s: Seconds between two decisions on loans and extra workers.
        headroom: Share of a pool's servers that is not lent, beyond the demand.
        preempt: save, kill, boundary or cheaper.
        name: Name of the scheduler.
        weighs_loss: Whether servers are given back by the GPU-seconds that are lost, not by the number of jobs.
        most_loss_h: Hours that a job may lose on a slower GPU type; otherwise it waits for a type of its own pool.
        least_gain_s: Seconds that an elastic job must gain to get more workers.
        reclaim: greedy or exact: how the servers to give back are chosen.
        moves: Whether jobs on slower lent GPUs move to free GPUs of their own pool.
        width_power: Waiting jobs are ordered by remaining time times this power of their GPUs.
        wide_starts: Whether an elastic job starts with all workers that it can use, if GPUs are left.
        least_work_first: Whether extra workers go to the jobs with the least remaining GPU time.
        extra_on_loans: Whether extra workers may be on lent servers, and jobs on lent servers may have extra workers.

    Raises:
        ConfigurationError: A value cannot be used.
        UnknownName: There is no such way to preempt, or to choose servers.
    """
    if reclaim not in RECLAIMS:
        raise UnknownName("way to choose servers (reclaim)", reclaim, RECLAIMS)
    if not interval_s > 0:
        raise ConfigurationError(f"interval_s is {interval_s}; give a number of seconds above 0")
    if not 0 <= headroom <= 1:
        raise ConfigurationError(f"headroom is {headroom}; give a share from 0 to 1")
    if not 0 <= width_power < math.inf:
        raise ConfigurationError(f"width_power is {width_power}; give a number of 0 or more")
    if not (most_loss_h >= 0 and 0 <= least_gain_s < math.inf):
        raise ConfigurationError(
            f"most_loss_h is {most_loss_h} and least_gain_s is {least_gain_s}; give numbers of 0 or more"
        )
    parameters = (
        float(loans),
        float(elastic),
        float(interval_s),
        float(headroom),
        float(way_number(preempt)),
        float(weighs_loss),
        most_loss_h * HOUR_S,
        float(least_gain_s),
        float(reclaim == "exact"),
        float(moves),
        float(width_power),
        float(wide_starts),
        float(least_work_first),
        float(extra_on_loans),
    )
    return CompiledScheduler(
        name,
        aryl,
        REASONS,
        called_on=_ALL_BUT_PROGRESS,
        round_s=interval_s if loans or elastic else None,
        knows_run_s=True,
        memory=9,
        ranks=13,
        table=elastic,
        parameters=parameters,
        answer=_answer_exactly if reclaim == "exact" else None,
    )


def _answer_exactly(world: GpuWorld, state: GpuState, buffer: PlanBuffer) -> None:
    """Choose the servers to give back by an integer program, which is loaded only then."""
    from mirage.schedule.schedulers.exact_reclaim import answer

    answer(world, state, buffer)


def plus_scheduler(
    most_loss_h: float = 24.0,
    least_gain_s: float = 300.0,
    moves: bool = True,
    width_power: float = 1.0,
    wide_starts: bool = True,
    least_work_first: bool = True,
    **of_aryl: Any,
) -> CompiledScheduler:
    """Aryl with seven rules of our own.

    A job that runs on slower lent GPUs moves when faster ones are free; one that would lose very much time there waits;
    the jobs with the least GPU time start first; an elastic job starts with all workers that it can use, if GPUs are
    left and no job waits; extra workers go to the jobs with the least remaining GPU time; an elastic job grows only if
    it gains more time than changes of size cost; servers are given back by the work that is lost.

    Extra workers of a job with measured speeds follow the rules of ``aryl``, as its speed may not grow with its GPUs.

    Args:
        most_loss_h: Hours that a job may lose on a slower GPU type.
        least_gain_s: Seconds that an elastic job must gain to get more workers, or a job by a move.
        moves: Whether jobs on slower lent GPUs move to free GPUs of their own pool.
        width_power: Waiting jobs are ordered by remaining time times this power of their GPUs.
        wide_starts: Whether an elastic job starts with all workers that it can use.
        least_work_first: Whether extra workers go to the jobs with the least remaining GPU time.
        of_aryl: Other parameters of ``scheduler``.

    Raises:
        ConfigurationError: A value cannot be used.
        UnknownName: There is no such way to preempt.
    """
    return scheduler(
        name="aryl-plus",
        weighs_loss=True,
        most_loss_h=most_loss_h,
        least_gain_s=least_gain_s,
        moves=moves,
        width_power=width_power,
        wide_starts=wide_starts,
        least_work_first=least_work_first,
        **of_aryl,
    )
