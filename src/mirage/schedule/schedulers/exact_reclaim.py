"""Exact reclaim: the servers to give back at the least loss, by an integer program.

Job j is preempted (zⱼ = 1) if one of its base workers is on a server that is given back (yₛ = 1):

    minimise Σ lossⱼ·zⱼ    with    zⱼ ≥ yₛ for each server s of job j,    Σ yₛ = number of servers,    y, z ∈ {0, 1}

Empty servers, and those with flexible workers only, cost nothing. A job with base workers on one candidate only is part
of the cost of that server. HiGHS solves what is left, in the extra ``schedule``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mirage.array_types import Floats, Ints
from mirage.errors import PlanInfeasible
from mirage.schedule.engine.kernel.gpu_arrays import NIL, PENDING, SAVING, STOPPING, GpuState, GpuWorld, PlanBuffer
from mirage.schedule.rounds.highs import OPTIMAL, minimise
from mirage.schedule.schedulers.aryl_memory import ANSWERED_S, BASE, CHOICE, LOSS, MISSING
from mirage.schedule.schedulers.server_reclaim import AVAILABLE, CHOSEN

LIMIT_S = 60.0
"""Seconds for one program; a run in which one takes longer stops."""

GAP = 1e-6
"""Relative distance to the optimum at which the search stops."""


@dataclass(frozen=True, slots=True)
class ReclaimProblem:
    """Servers to choose from, and what lives on them.

    Attributes:
        servers: Numbers of the candidates, shape (candidates,).
        used: GPUs in use on each of them, shape (candidates,).
        jobs: For each job, the candidates with its base workers, as indices into ``servers``; none is empty.
        loss: What the preemption of each job costs, above 0, shape (jobs,).
        wanted: Number of servers to give back.
    """

    servers: Ints
    used: Ints
    jobs: Sequence[tuple[int, ...]]
    loss: Floats
    wanted: int

    def lost(self, chosen: Sequence[int]) -> float:
        """The loss of giving back some candidates, by their indices."""
        given_back = set(chosen)
        return float(sum(loss for on, loss in zip(self.jobs, self.loss) if not given_back.isdisjoint(on)))


def least_loss_servers(problem: ReclaimProblem) -> list[int]:
    """The indices of the candidates to give back, as many as wanted or all, at the least loss.

    Among candidates that cost nothing, the emptiest come first.

    Raises:
        ConfigurationError: scipy is not installed.
        PlanInfeasible: The program was not solved within ``LIMIT_S``.
    """
    candidates = len(problem.servers)
    wanted = min(problem.wanted, candidates)
    alone = np.zeros(candidates)
    shared: dict[tuple[int, ...], float] = {}
    for on, loss in zip(problem.jobs, problem.loss.tolist()):
        if len(on) == 1:
            alone[on[0]] += loss
        else:
            shared[on] = shared.get(on, 0.0) + loss
    costs = alone > 0
    for on in shared:
        costs[list(on)] = True
    free = sorted(np.flatnonzero(~costs).tolist(), key=lambda k: (problem.used[k], k))[:wanted]
    left = wanted - len(free)
    if left == 0:
        return free
    costly = np.flatnonzero(costs)
    if not shared:
        return free + sorted(costly.tolist(), key=lambda k: (alone[k], k))[:left]
    chosen: list[int] = costly[_solved(costly, alone, shared, left)].tolist()
    return free + chosen


def _solved(costly: Ints, alone: Floats, shared: dict[tuple[int, ...], float], left: int) -> Ints:
    """Indices into ``costly``; the variables are its servers, then the shared jobs."""
    from scipy.sparse import csr_array

    column = {k: at for at, k in enumerate(costly.tolist())}
    servers = len(column)
    pairs = [(column[k], servers + j) for j, on in enumerate(shared) for k in on]
    server, job = np.array(pairs).T
    row = np.arange(len(pairs))
    values = np.concatenate([np.ones(2 * len(row)), np.ones(servers)])
    values[len(row) : 2 * len(row)] = -1.0
    rows = np.concatenate([row, row, np.full(servers, len(row))])
    columns = np.concatenate([server, job, np.arange(servers)])
    limit = np.append(np.zeros(len(row)), left)
    least = np.append(np.full(len(row), -np.inf), left)
    matrix = csr_array((values, (rows, columns)), shape=(len(row) + 1, servers + len(shared)))
    cost = np.concatenate([alone[costly], list(shared.values())])
    scale = float(cost.max())
    found = minimise(cost / scale, matrix, limit, limit_s=LIMIT_S, gap=GAP, row_least=least)
    if found.status != OPTIMAL or found.x is None:
        raise PlanInfeasible(
            f"the {left} servers to give back, out of {servers} with jobs, were not found within {LIMIT_S:g} s: HiGHS "
            f"reports {found.status}; choose reclaim=greedy"
        )
    chosen: Ints = np.flatnonzero(found.x[:servers] > 0.5)
    return chosen


def problem_of(world: GpuWorld, state: GpuState, buffer: PlanBuffer, pool: int) -> ReclaimProblem:
    """The reclaim that a compiled scheduler has prepared for a pool."""
    candidates = np.flatnonzero((buffer.ranks[CHOICE, : len(world.home_of)] == AVAILABLE) & (world.home_of == pool))
    index = {server: k for k, server in enumerate(candidates.tolist())}
    jobs: list[tuple[int, ...]] = []
    loss: list[float] = []
    for job in state.live[: int(state.clock[0]["n_live"])]:
        if job.status in (PENDING, STOPPING, SAVING):
            continue
        on = sorted(index[server] for server in _base_servers(state, buffer, job) if server in index)
        if on:
            jobs.append(tuple(on))
            loss.append(float(buffer.memory[LOSS, job.id]))
    used = world.gpus_of[candidates] - state.free[candidates]
    return ReclaimProblem(candidates, used, jobs, np.array(loss), int(buffer.memory[MISSING, pool]))


def _base_servers(state: GpuState, buffer: PlanBuffer, job: Any) -> list[int]:
    servers: list[int] = []
    at = int(job.chunk)
    while at != NIL and len(servers) < buffer.ranks[BASE, job.id]:
        servers.append(int(state.chunks[at]["server"]))
        at = int(state.chunks[at]["next"])
    return servers


def answer(world: GpuWorld, state: GpuState, buffer: PlanBuffer) -> None:
    """Choose the servers of every pool that wants some back; requests another call now."""
    for pool in range(len(state.wanted)):
        if buffer.memory[MISSING, pool] > 0:
            problem = problem_of(world, state, buffer, pool)
            chosen = problem.servers[least_loss_servers(problem)]
            buffer.ranks[CHOICE, chosen] = CHOSEN
    clock = state.clock
    buffer.memory[ANSWERED_S, 0] = clock[0]["now_s"]
    buffer.memory[ANSWERED_S, 1] = clock[0]["wake_s"]
    clock["wake_s"] = clock[0]["now_s"]
