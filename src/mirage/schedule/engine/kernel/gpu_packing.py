"""Placement of workers: packs a job onto servers, takes its GPUs and gives them back."""

from __future__ import annotations

from typing import Any

from mirage.kernel.compile import kernel
from mirage.schedule.engine.kernel.gpu_arrays import NIL, NO_SERVER, NO_TYPE, GpuState, GpuWorld
from mirage.schedule.speeds.speed_law import speed


@kernel()
def allowed(state: GpuState, pool: int, server: int) -> bool:
    """Whether jobs of a pool may use a server now."""
    return bool(pool < 0 or state.pool_of[server] == pool)


@kernel()
def allows_type(job: Any, gpu_type: int) -> bool:
    """Whether a job may run on a GPU type."""
    return bool(job.types >> gpu_type & 1)


@kernel(forceinline=False)
def pack(world: GpuWorld, state: GpuState, free: Any, job: Any, gpus: int, picked: Any) -> int:
    """Choose servers for a job with its present batch, as ``pack_with_batch`` does."""
    return pack_with_batch(world, state, free, job, gpus, job.batch, picked)


@kernel(forceinline=False)
def pack_with_batch(world: GpuWorld, state: GpuState, free: Any, job: Any, gpus: int, batch: int, picked: Any) -> int:
    """Choose servers for a job, on the fastest of the GPU types on which it fits now.

    Within a type it goes to the server with the fewest free GPUs that is sufficient; else to as few servers as
    possible, the emptiest first.

    Args:
        free: Free GPUs by server.
        gpus: Number of GPUs as it requests them; it may get more of a slower type.
        batch: Its total batch size there.
        picked: Receives the locations.

    Returns:
        The number of locations; 0 if the job fits on no type on which it may and can run.
    """
    types = len(world.speeds.type_speed)
    best, fastest = NO_TYPE, 0.0
    n, last = 0, NO_TYPE  # the type of the locations in picked
    for gpu_type in range(types):
        if not allows_type(job, gpu_type):
            continue
        last = gpu_type
        on_type = gpus * world.gpus_for_one[gpu_type]
        n = pack_on(world, state, free, job.pool, on_type, gpu_type, picked)
        if n > 0:
            rate = speed(world.speeds, job.model, gpu_type, n, on_type, batch, job.progress)
            if rate > fastest:
                best, fastest = gpu_type, rate
    if best == NO_TYPE:
        return 0
    if best != last:
        n = pack_on(world, state, free, job.pool, gpus * world.gpus_for_one[best], best, picked)
    return n


@kernel(forceinline=False)
def pack_on(world: GpuWorld, state: GpuState, free: Any, pool: int, gpus: int, gpu_type: int, picked: Any) -> int:
    """Choose servers of one GPU type for a number of GPUs.

    Returns the number of locations; 0 if there is no room.
    """
    tight, least = NO_SERVER, 1 << 40
    room = 0
    for server in range(len(free)):
        here = free[server]
        if here == 0 or world.type_of[server] != gpu_type or (pool >= 0 and state.pool_of[server] != pool):
            continue
        room += here
        if gpus <= here < least:
            tight, least = server, here
            if here == gpus:
                break
    if tight != NO_SERVER:
        picked[0].server = tight
        picked[0].gpus = gpus
        return 1
    if room < gpus:
        return 0
    return spread(world, state, free, pool, gpus, gpu_type, picked)


@kernel(forceinline=False)
def spread(world: GpuWorld, state: GpuState, free: Any, pool: int, gpus: int, gpu_type: int, picked: Any) -> int:
    """Choose servers of one type for a job, the emptiest first.

    The remaining GPUs come from the server with the fewest free GPUs that is sufficient.
    """
    n, left = 0, gpus
    while left > 0:
        most, tight = NO_SERVER, NO_SERVER
        for server in range(len(free)):
            here = free[server]
            if here == 0 or world.type_of[server] != gpu_type or (pool >= 0 and state.pool_of[server] != pool):
                continue
            if chosen(picked, n, server):
                continue
            if here >= left:
                if tight == NO_SERVER or here < free[tight]:
                    tight = server
            elif most == NO_SERVER or here > free[most]:
                most = server
        server = tight if tight != NO_SERVER else most
        if server == NO_SERVER:
            return 0
        picked[n].server = server
        picked[n].gpus = min(left, free[server])
        left -= picked[n].gpus
        n += 1
    return n


@kernel()
def chosen(picked: Any, n: int, server: int) -> bool:
    """Whether a server is among the first n locations."""
    found = False
    for k in range(n):
        found |= picked[k].server == server
    return found


@kernel(forceinline=False)
def take_places(world: GpuWorld, state: GpuState, job: Any, places: Any, first: int, n: int) -> None:
    """Give a job without GPUs those of the locations."""
    clock = state.clock[0]
    job.chunk = NIL
    job.held = 0
    job.servers = n
    job.gpu_type = world.type_of[places[first].server]
    for k in range(first + n - 1, first - 1, -1):
        at = clock.free_chunk
        if at == NIL:
            at = clock.chunks_used
            clock.chunks_used += 1
        else:
            clock.free_chunk = state.chunks[at].next
        chunk = state.chunks[at]
        chunk.server = places[k].server
        chunk.gpus = places[k].gpus
        chunk.next = job.chunk
        job.chunk = at
        job.held += places[k].gpus
        state.free[places[k].server] -= places[k].gpus


@kernel(forceinline=False)
def release_gpus(state: GpuState, job: Any) -> None:
    """Free all GPUs of a job."""
    clock = state.clock[0]
    at = job.chunk
    while at != NIL:
        chunk = state.chunks[at]
        state.free[chunk.server] += chunk.gpus
        after = chunk.next
        chunk.next = clock.free_chunk
        clock.free_chunk = at
        at = after
    job.chunk = NIL
    job.held = 0
    job.servers = 0
    job.gpu_type = NO_TYPE


@kernel()
def shift(state: GpuState, job: Any, free: Any, sign: int) -> int:
    """Add the GPUs of a job to free ones, or subtract them (sign −1); returns their number."""
    at = job.chunk
    while at != NIL:
        free[state.chunks[at].server] += sign * state.chunks[at].gpus
        at = state.chunks[at].next
    return int(job.held)


@kernel()
def holds_exactly(state: GpuState, job: Any, places: Any, first: int, n: int) -> bool:
    """Whether the locations are exactly those that the job holds."""
    if n != job.servers:
        return False
    for k in range(first, first + n):
        found = False
        at = job.chunk
        while at != NIL:
            if state.chunks[at].server == places[k].server:
                found = state.chunks[at].gpus == places[k].gpus
                break
            at = state.chunks[at].next
        if not found:
            return False
    return True
