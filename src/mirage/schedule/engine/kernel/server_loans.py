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
    NO_SERVER,
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
def count_unmet(world: GpuWorld, state: GpuState) -> None:
    """Update the server-seconds of unmet inference demand to the current time.

    Also sets when inference takes servers by force.
    """
    clock = state.clock[0]
    clock.unmet_server_s += clock.unmet * (clock.now_s - clock.unmet_since_s)
    clock.unmet_since_s = clock.now_s
    clock.unmet = 0
    for pool in range(len(state.wanted)):
        clock.unmet += max(state.wanted[pool] - state.present[pool], 0)
    if clock.unmet == 0:
        clock.force_s = NEVER_S
    elif clock.force_s == NEVER_S:
        clock.force_s = clock.now_s + world.settings[0].force_after_s


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
    count_unmet(world, state)


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
    count_unmet(world, state)


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
            clear_server(state, server)
        end_loan(world, state, server)
        notify(state, ON_SERVERS, NO_JOB)


@kernel(forceinline=False)
def clear_server(state: GpuState, server: int) -> None:
    """Kill the jobs on a lent server, and count the breach of its loan."""
    clock = state.clock[0]
    clock.breaches += 1
    state.loans[state.loan_of[server]].breached = 1
    for slot in range(clock.n_live):
        if uses(state, slot, server):
            settle(state.live[slot], clock.now_s)
            leave(state, state.live[slot], BY_RECLAIM)


@kernel(forceinline=False)
def take_by_force(world: GpuWorld, state: GpuState) -> None:
    """Take lent servers for unmet inference demand, those with the least unsaved work first."""
    clock = state.clock[0]
    clock.force_s = NEVER_S
    for slot in range(clock.n_live):
        settle(state.live[slot], clock.now_s)
    for pool in range(len(state.wanted)):
        while state.wanted[pool] > state.present[pool]:
            server = least_loss(world, state, pool)
            clear_server(state, server)
            end_loan(world, state, server)
            notify(state, ON_SERVERS, NO_JOB)


@kernel(forceinline=False)
def least_loss(world: GpuWorld, state: GpuState, pool: int) -> int:
    """The lent server of a pool with the least unsaved work, then with the fewest used GPUs."""
    clock = state.clock[0]
    best, least, fewest = NO_SERVER, NEVER_S, 0
    for server in range(len(state.loan_of)):
        if state.loan_of[server] == NO_LOAN or world.home_of[server] != pool:
            continue
        lost, used = 0.0, world.gpus_of[server] - state.free[server]
        if used > 0:
            for slot in range(clock.n_live):
                if uses(state, slot, server):
                    lost += state.live[slot].unsafe
        if lost < least or (lost == least and used < fewest):
            best, least, fewest = server, lost, used
    return best


@kernel(forceinline=False)
def change_demand(world: GpuWorld, state: GpuState) -> None:
    """Apply the changes of inference demand that are due."""
    clock = state.clock[0]
    while clock.demand_applied < len(world.demand) and world.demand[clock.demand_applied].time_s <= clock.now_s:
        change = world.demand[clock.demand_applied]
        state.wanted[change.pool] = change.servers
        clock.demand_applied += 1
        count_unmet(world, state)
        show_notice(world, state, change.pool)
        notify(state, ON_SERVERS, NO_JOB)


@kernel(forceinline=False)
def announce_demand(world: GpuWorld, state: GpuState) -> None:
    """Announce the changes of inference demand for which it is time."""
    clock = state.clock[0]
    while clock.notices < len(world.notices) and world.notices[clock.notices].time_s <= clock.now_s:
        change = world.demand[world.notices[clock.notices].change]
        clock.notices += 1
        clock.announced_until_s = max(clock.announced_until_s, change.time_s)
        show_notice(world, state, change.pool)
        notify(state, ON_SERVERS, NO_JOB)


@kernel()
def show_notice(world: GpuWorld, state: GpuState, pool: int) -> None:
    """Show the next change of a pool's demand that was announced."""
    clock = state.clock[0]
    state.wanted_soon[pool] = state.wanted[pool]
    state.wanted_from_s[pool] = NEVER_S
    for k in range(clock.demand_applied, len(world.demand)):
        change = world.demand[k]
        if change.time_s > clock.announced_until_s:
            break
        if change.pool == pool and change.time_s > clock.now_s and change.announced_s <= clock.now_s:
            state.wanted_soon[pool] = change.announced
            state.wanted_from_s[pool] = change.time_s
            break
