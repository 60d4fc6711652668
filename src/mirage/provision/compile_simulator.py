"""Compile all kernels in advance: engine, disciplines, what-if forecasts, job changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import as_completed
from importlib import import_module
from typing import Any

from mirage.kernel.compile_listener import compile_listener
from mirage.sim.disciplines.discipline_registry import DISCIPLINES, discipline_spec
from mirage.worker_processes import WorkerProcesses

ENGINE, FORECASTS, CHANGES = "engine", "what-if", "job changes"
PROCESSES = 2
"""Disciplines share little once the engine is compiled; more processes compile the same parts."""


class NotCompiled(Exception):
    """A kernel is not in the cache."""


def parts_named(disciplines: Iterable[str] = ()) -> list[str]:
    """Returns the parts to compile, the engine first; by default all.

    Args:
        disciplines: Names of disciplines, ``what-if`` among them.

    Raises:
        UnknownName: A discipline is unknown.
    """
    names = list(dict.fromkeys(disciplines))
    for name in names:
        if name != FORECASTS:
            discipline_spec(name)
    return [ENGINE, *(names or [FORECASTS, *reversed(DISCIPLINES), CHANGES])]


def use(part: str) -> None:
    """Run once, on a tiny cluster, everything that a part is compiled for."""
    special: dict[str, Callable[[], None]] = {ENGINE: _use_engine, FORECASTS: _use_forecasts, CHANGES: _use_changes}
    if part in special:
        special[part]()
        return
    sim = _simulation(part)
    if part != "paused":
        sim.run()


def compile_ahead(parts: list[str], processes: int = PROCESSES, use: Callable[[str], None] = use) -> Iterator[str]:
    """Compile parts into the cache; yields each part when it is done.

    Args:
        parts: As returned by ``parts_named``.
        processes: Number of processes; the engine is compiled first, because all others need it.
        use: Runs everything that a part is compiled for, in any process.
    """
    use(parts[0])
    yield parts[0]
    if processes == 1 or len(parts) < 3 or are_compiled(parts, use):
        for part in parts[1:]:
            use(part)
            yield part
        return
    with WorkerProcesses(processes) as workers:
        waiting = {workers.submit(use, part): part for part in parts[1:]}
        for done in as_completed(waiting):
            done.result()
            yield waiting[done]


def compile_with_forecasts(discipline: str, processes: int = PROCESSES) -> None:
    """Compile the engine and forecasts here, and one discipline in another process.

    The two share no more than small kernels. With one process, or after an error in the other, this one compiles the
    discipline when it is needed.
    """
    if processes == 1:
        import_module("mirage.forecast.rollout_kernel")  # compiles it
        return
    with WorkerProcesses(1) as workers:
        other = workers.submit(_load, discipline)
        import_module("mirage.forecast.rollout_kernel")
        other.exception()  # waits


def _load(discipline: str) -> None:
    discipline_spec(discipline).load()


def are_compiled(parts: Iterable[str], use: Callable[[str], None] = use) -> bool:
    """Whether all kernels of some parts are in the cache.

    Args:
        parts: The parts.
        use: Runs everything that a part is compiled for.
    """
    try:
        with compile_listener(_refuse):
            for part in parts:
                use(part)
    except NotCompiled:
        return False
    return True


def _refuse(kernel: str | None) -> None:
    if kernel is not None:
        raise NotCompiled(kernel)


def _simulation(discipline: str) -> Any:
    from mirage.sim.cluster import Cluster
    from mirage.sim.simulation import Simulation
    from mirage.sim.workload import workload
    from mirage.trace.workload.pool_workload import pool_workload

    cluster = Cluster.pool(4)
    return Simulation(cluster, workload(pool_workload(8, processors=4), cluster), discipline)


def _use_engine() -> None:
    from mirage.policy.plan import Cancel, Plan

    sim = _simulation("fcfs")
    link = sim.inject(nodes=1, limit_s=60)
    branch = sim.fork()
    branch.apply(Plan((Cancel(job=link),)))
    sim.step()
    sim.restore(branch)
    sim.view()
    sim.run()
    sim.view()


def _use_forecasts() -> None:
    import numpy as np

    from mirage.forecast.forecaster import Forecaster
    from mirage.policy.view import ChainView, QueuedLink

    sim = _simulation("fcfs")
    sim.advance(sim.now_s + 60)
    link, following = (sim.inject(nodes=1, limit_s=600) for _ in range(2))
    queued = QueuedLink(following, sim.now_s, sim.now_s, 600)
    chain = ChainView(1, 600, link, sim.now_s, sim.now_s, sim.now_s + 600, step_s=60, queued=queued)
    Forecaster(1, discipline="fcfs").forecast(sim.view(chain), np.zeros(1, dtype=np.int64))


def _use_changes() -> None:
    from mirage.sim.job_updates import change_limit, end_at, requeue, wait_for
    from mirage.sim.kernel.arrays import NEVER_S

    sim = _simulation("fcfs")
    job = sim.inject(nodes=1, limit_s=600, run_s=600)
    wait_for(sim, job, begin_s=NEVER_S)
    wait_for(sim, job)
    sim.run_until_started(job)
    change_limit(sim, job, 300)
    requeue(sim, job, sim.now_s)
    sim.advance(NEVER_S - 1)
    job = sim.inject(nodes=1, limit_s=600, run_s=600)
    sim.run_until_started(job)
    end_at(sim, job, sim.now_s + 1)
