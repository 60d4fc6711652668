"""Loans of servers between pools, their promised returns, and inference demand."""

from __future__ import annotations

from mirage.kernel.compile import kernel
from mirage.schedule.engine.kernel.gpu_arrays import (
    APPLIED,
    BY_RECLAIM,
    DEMAND,
    IN_USE,
    NEVER_S,
    NIL,
    NO_JOB,
    NO_LOAN,
    NO_SUCH_SERVER,
    NOT_ITS_OWN,
    NOT_LENT,
    ON_SERVERS,
    GpuState,
    GpuWorld,
)
from mirage.schedule.engine.kernel.gpu_lifecycle import leave, notify, settle


@kernel()
def why_not_lend(world: GpuWorld, state: GpuState, free: int, server: int, pool: int) -> int:
    """The reason why a server cannot be lent to a pool, or ``APPLIED``.

    ``free`` is the number of GPUs that would be free on it.
    """
    if server < 0 or server >= len(world.gpus_of) or pool < 0 or pool >= len(state.wanted):
        return NO_SUCH_SERVER
    home = world.home_of[server]
    if state.pool_of[server] != home or home == pool:
        return NOT_ITS_OWN
    if free != world.gpus_of[server]:
        return IN_USE
    if state.present[home] - 1 < state.wanted[home]:
        return DEMAND
    return APPLIED


@kernel()
def why_not_return(world: GpuWorld, state: GpuState, free: int, server: int) -> int:
    """The reason why a server cannot return to its own pool, or ``APPLIED``.

    ``free`` is the number of GPUs that would be free on it.
    """
    if server < 0 or server >= len(world.gpus_of):
        return NO_SUCH_SERVER
    if state.loan_of[server] == NO_LOAN:
        return NOT_LENT
    return APPLIED if free == world.gpus_of[server] else IN_USE


@kernel(forceinline=False)
def count_unmet(state: GpuState) -> None:
    """Update the server-seconds of unmet inference demand to the current time."""
    clock = state.clock[0]
    clock.unmet_server_s += clock.unmet * (clock.now_s - clock.unmet_since_s)
    clock.unmet_since_s = clock.now_s
    clock.unmet = 0
    for pool in range(len(state.wanted)):
        clock.unmet += max(state.wanted[pool] - state.present[pool], 0)


@kernel(forceinline=False)
def lend(world: GpuWorld, state: GpuState, server: int, pool: int, until_s: float) -> None:
    """Move a server to another pool."""
    clock = state.clock[0]
    loan = state.loans[clock.n_loans]
    loan.server = server
    loan.pool = pool
    loan.start_s = clock.now_s
    loan.until_s = until_s
    loan.end_s = NEVER_S
    loan.breached = 0
    state.loan_of[server] = clock.n_loans
    clock.n_loans += 1
    state.pool_of[server] = pool
    state.lent_until_s[server] = until_s
    clock.next_return_s = min(clock.next_return_s, until_s)
    state.present[world.home_of[server]] -= 1
    count_unmet(state)


@kernel(forceinline=False)
def end_loan(world: GpuWorld, state: GpuState, server: int) -> None:
    """End the loan of a server that no job uses."""
    clock = state.clock[0]
    state.loans[state.loan_of[server]].end_s = clock.now_s
    state.loan_of[server] = NO_LOAN
    state.pool_of[server] = world.home_of[server]
    state.lent_until_s[server] = NEVER_S
    clock.next_return_s = NEVER_S
    for other in range(len(state.lent_until_s)):
        clock.next_return_s = min(clock.next_return_s, state.lent_until_s[other])
    state.present[world.home_of[server]] += 1
    count_unmet(state)


@kernel()
def uses(state: GpuState, slot: int, server: int) -> bool:
    """Whether a job has workers on a server."""
    at = state.live[slot].chunk
    while at != NIL:
        if state.chunks[at].server == server:
            return True
        at = state.chunks[at].next
    return False


@kernel(forceinline=False)
def enforce_returns(world: GpuWorld, state: GpuState) -> None:
    """Return the servers that are due; jobs on them are killed, and the loan is breached."""
    clock = state.clock[0]
    for server in range(len(state.lent_until_s)):
        if state.lent_until_s[server] > clock.now_s:
            continue
        if state.free[server] < world.gpus_of[server]:
            clock.breaches += 1
            state.loans[state.loan_of[server]].breached = 1
            for slot in range(clock.n_live):
                if uses(state, slot, server):
                    settle(state.live[slot], clock.now_s)
                    leave(state, state.live[slot], BY_RECLAIM)
        end_loan(world, state, server)
        notify(state, ON_SERVERS, NO_JOB)


@kernel(forceinline=False)
def change_demand(world: GpuWorld, state: GpuState) -> None:
    """Apply the changes of inference demand that are due."""
    clock = state.clock[0]
    while clock.demand_applied < len(world.demand) and world.demand[clock.demand_applied].time_s <= clock.now_s:
        change = world.demand[clock.demand_applied]
        state.wanted[change.pool] = change.servers
        clock.demand_applied += 1
        count_unmet(state)
        notify(state, ON_SERVERS, NO_JOB)
