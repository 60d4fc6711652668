"""The simulator's side of the contract: a view of its state."""

from __future__ import annotations

from typing import Any

import numpy as np

from mirage.job_state import MISSING
from mirage.policy.view import MOST_ENDED, MOST_PENDING, Chain, Ended, Jobs, Nodes, View
from mirage.sim.kernel.arrays import (
    BY_PREEMPTION,
    BY_RESIZE,
    NEVER_S,
    RUNNING,
    SUSPENDING,
    WHOLE_NODE,
    Records,
    State,
    World,
)

TEN_MINUTES_S = 600
"""The pass of ``mirage-2023``."""

WITHIN_LIMITS, OVER_JOBS, OVER_NODES = range(3)
"""Whether the limits of a job's user let it start: yes; too many jobs; too many nodes."""


def observe(
    world: World, state: State, past: tuple[Records, ...], chain: Chain | None = None, phase_s: int = 0
) -> View:
    """What a policy may know of a simulation now; copies, so that it stays what it was.

    Args:
        past: Segments that ended before those in the state's own log.
        chain: The chain to decide about.
        phase_s: As in ``View``.
    """
    clock = state.clock[0]
    now_s = int(clock.now_s)
    waiting = state.queue[clock.queue_head : clock.queue_head + clock.n_pending]
    held = state.held[: clock.n_held]
    blocked = limits_reached(world, state, waiting) != WITHIN_LIMITS
    if blocked.any():
        waiting, held = waiting[~blocked], np.concatenate([waiting[blocked], held])
    if chain is not None:
        waiting = waiting[:MOST_PENDING]
    return View(
        now_s=now_s,
        nodes=Nodes(
            pools=bool(world.settings[0].stacked),
            capacity=_frozen(capacity_now(world, state)),
            free=_frozen(np.maximum(state.free, 0)),
            allowed=_frozen(state.allowed.copy()),
        ),
        pending=jobs_of(world, state, waiting),
        running=jobs_of(world, state, state.running[: clock.n_running]),
        held=jobs_of(world, state, held, held=True),
        ended=_ended(state, past),
        chain=chain,
        phase_s=phase_s,
    )


def capacity_now(world: World, state: State) -> Any:
    """Capacity of every bin, without the nodes that are gone or leave as soon as they fall free."""
    capacity = world.capacity.copy()
    for change in world.changes[: state.clock[0].changed_capacity]:
        if world.settings[0].stacked:
            capacity[change.bin, 0] += change.nodes
        else:
            capacity[change.bin] += change.nodes * world.capacity[change.bin]
    return capacity


def limits_reached(world: World, state: State, slots: Any) -> Any:
    """Which limit of its user keeps each of some waiting jobs from starting now, whatever is free."""
    setting, live = world.settings[0], state.live
    reached = np.zeros(len(slots), dtype=np.int64)
    if min(setting.user_max_jobs, setting.user_max_nodes) >= NEVER_S:
        return reached
    users = live.user[slots]
    reached[state.user_nodes[users] + live.nodes[slots] > setting.user_max_nodes] = OVER_NODES
    reached[state.user_jobs[users] >= setting.user_max_jobs] = OVER_JOBS
    return reached


def jobs_of(world: World, state: State, slots: Any, held: bool = False) -> Jobs:
    """The jobs in some slots as a struct of arrays.

    Args:
        held: Whether they do not compete.
    """
    live, now_s = state.live[slots], int(state.clock[0].now_s)
    runs = (live.status == RUNNING) | (live.status == SUSPENDING)
    worked = np.maximum(now_s - live.start_s - live.resume_s, 0) * live.speed * (live.status == RUNNING)
    whole = (live.gpus == WHOLE_NODE) | bool(world.settings[0].stacked)
    names = ("id", "user", "partition", "qos", "nodes", "limit_s", "submit_s")
    return Jobs(
        **{name: _frozen(live[name].copy()) for name in names},
        gpus=_frozen(np.where(whole, WHOLE_NODE, live.gpus)),
        cpus=_frozen(np.where(whole, WHOLE_NODE, live.cpus)),
        eligible_s=_frozen(np.full(len(live), MISSING) if held else live.eligible_s.copy()),
        start_s=_frozen(np.where(runs, live.start_s, MISSING)),
        width=_frozen(np.where(runs, live.width, 0)),
        done_s=_frozen(live.done_s + worked),
        priority=_frozen(np.where((live.priority > 1.0) & (not held), live.priority, 0.0)),
    )


def _ended(state: State, past: tuple[Records, ...]) -> Ended:
    """The jobs that ended last; a stretch that ended by preemption or a change of size is no end of a job."""
    chunks: list[Records] = []
    for chunk in (state.log[: state.clock[0].n_log], *reversed(past)):
        chunks.insert(0, _ends(chunk))
        if sum(map(len, chunks)) >= MOST_ENDED:
            break
    log = np.concatenate(chunks)[-MOST_ENDED:]
    names = {"user": "user", "nodes": "width", "limit_s": "limit_s"}
    names |= {name: name for name in ("submit_s", "start_s", "end_s")}
    return Ended(**{name: _frozen(np.ascontiguousarray(log[field])) for name, field in names.items()})


def _ends(segments: Records) -> Records:
    """The last segments with which a job ended: ``MOST_ENDED`` of them or more, if there are so many."""
    for some in (segments[-MOST_ENDED:], segments):
        ends = (some.why != BY_PREEMPTION) & (some.why != BY_RESIZE)
        if ends.all():
            return some
    return segments[ends]


def _frozen(array: Any) -> Any:
    array.setflags(write=False)
    return array
