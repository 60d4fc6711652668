"""The simulator's side of the contract: a view of its state."""

from __future__ import annotations

from typing import Any

import numpy as np

from mirage.job_state import MISSING
from mirage.policy.view import Chain, Ended, Jobs, Nodes, View
from mirage.sim.kernel.arrays import (
    HELD,
    RUNNING,
    SUSPENDING,
    Records,
    State,
    World,
)

RECENT = 5_000
"""How many of the jobs that ended last a view shows."""


def observe(world: World, state: State, past: tuple[Records, ...], chain: Chain | None = None) -> View:
    """What a policy may know of a simulation now; copies, so that it stays what it was.

    Args:
        past: Segments that ended before those in the state's own log.
    """
    now_s, head = int(state.clock[0].now_s), state.clock[0].queue_head
    return View(
        now_s=now_s,
        nodes=Nodes(
            pools=bool(world.settings[0].stacked),
            capacity=_frozen(world.capacity.copy()),
            free=_frozen(state.free.copy()),
            allowed=_frozen(state.allowed.copy()),
        ),
        pending=jobs_of(state, state.queue[head : head + state.clock[0].n_pending], now_s),
        running=jobs_of(state, state.running[: state.clock[0].n_running], now_s),
        held=jobs_of(state, state.held[: state.clock[0].n_held], now_s),
        ended=_ended(state, past),
        chain=chain,
        phase_s=int((now_s - world.settings[0].epoch_s) % 600),
    )


def jobs_of(state: State, slots: Any, now_s: int) -> Jobs:
    """The jobs in some slots as a struct of arrays."""
    live = state.live[slots]
    runs = (live.status == RUNNING) | (live.status == SUSPENDING)
    worked = np.maximum(now_s - live.start_s - live.resume_s, 0) * live.speed * (live.status == RUNNING)
    columns = {
        name: live[name].copy()
        for name in (
            "id",
            "user",
            "partition",
            "qos",
            "nodes",
            "gpus",
            "cpus",
            "limit_s",
            "submit_s",
            "priority",
        )
    }
    return Jobs(
        **{name: _frozen(column) for name, column in columns.items()},
        eligible_s=_frozen(np.where(live.status == HELD, MISSING, live.eligible_s)),
        start_s=_frozen(np.where(runs, live.start_s, MISSING)),
        width=_frozen(np.where(runs, live.width, 0)),
        done_s=_frozen(live.done_s + worked),
    )


def _ended(state: State, past: tuple[Records, ...]) -> Ended:
    chunks: list[Records] = [state.log[: state.clock[0].n_log]]
    for chunk in reversed(past):
        if sum(map(len, chunks)) >= RECENT:
            break
        chunks.insert(0, chunk)
    log = np.concatenate(chunks)[-RECENT:] if len(chunks) > 1 else chunks[0][-RECENT:].copy()
    names = {"user": "user", "nodes": "width", "limit_s": "limit_s"}
    names |= {name: name for name in ("submit_s", "start_s", "end_s")}
    return Ended(**{name: _frozen(np.ascontiguousarray(log[field])) for name, field in names.items()})


def _frozen(array: Any) -> Any:
    array.setflags(write=False)
    return array
