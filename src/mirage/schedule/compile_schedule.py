"""Compiles the kernels of GPU clusters ahead of use: the engine, schedulers and goodput."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec

import numpy as np

from mirage.extras import install
from mirage.schedule.gpu_cluster import GpuCluster, ServerGroup
from mirage.schedule.rounds.knapsack import choose
from mirage.schedule.schedulers.gpu_scheduler_registry import SCHEDULERS, make_scheduler
from mirage.schedule.speeds.profiles import Profiles
from mirage.schedule.speeds.speed_arrays import Speeds, linear_speeds
from mirage.schedule.speeds.speed_law import work
from mirage.schedule.workload.gpu_jobs import GpuJobs
from mirage.schedule.workload.usual_run import run_alone_s

SOLVING = ("sia", "sia-plus", "gavel")
"""Schedulers in Python that solve linear or integer programs and need scipy."""


def left_out() -> str:
    """What is not compiled, and the reason; empty if everything is compiled."""
    return "" if find_spec("scipy") else f"{', '.join(SOLVING)}, which need scipy: {install('schedule')}"


def use() -> None:
    """Use every kernel once on tiny clusters, so that it is compiled."""
    for spec in SCHEDULERS.values():
        import_module(spec.entry.partition(":")[0])  # the import compiles compiled schedulers
    import_module("mirage.schedule.engine.view_scheduler")  # likewise
    _play("fifo", types=1)
    profiles = Profiles(("any",), _speeds(1))
    run_alone_s(profiles, model=0, gpu_type=0, servers=1, gpus=1, batch=8, work=work(profiles.speeds, 0))
    if not left_out():
        for name in SOLVING:
            _play(name, types=1)
            _play(name, types=2)  # gives some arrays another layout
        _choose(unused=1)
        _choose(unused=100_000)  # too large for the exact search over GPU counts


def _play(scheduler: str, types: int) -> None:
    from mirage.schedule.engine.gpu_simulation import GpuSimulation  # imported here, as the import compiles it

    cluster = GpuCluster(tuple(ServerGroup(f"g{k}", f"t{k}", 2, 2) for k in range(types)))
    linear = GpuJobs.linear([0.0] * 3, [1] * 3, [1.0] * 3, max_gpus=4)
    jobs = replace(linear, model=np.zeros(3, np.int64), work=np.full(3, 3e4), batch=np.full(3, 8), models=("any",))
    GpuSimulation(cluster, jobs, make_scheduler(scheduler), speeds=_speeds(types)).run(until_s=400.0)


def _choose(unused: int) -> None:
    """Solve a choice with a fractional linear program, so that the search has work to do."""
    value = np.full((3, 1), 2.0)
    choose(value, np.full(1, 2), np.zeros(1, np.int64), np.array([3, unused]))


def _speeds(types: int) -> Speeds:
    """One model in two epochs, measured with local batches of 8 and 32 on any GPUs."""
    one = np.ones(1, np.int64)
    return linear_speeds(np.ones(types))._replace(
        rows=np.zeros((1, types, 2, 4), np.int64),
        knots=2 * one,
        local_batch=np.array([[8.0, 32.0]]),
        step_s=np.array([[1.0, 3.0]]),
        sync_s=np.array([[0.1, 0.1]]),
        row_max_local=32 * one,
        memory_max_local=np.full((1, types, 4), 32),
        min_local=np.full((1, types), 8),
        max_local=np.full((1, types), 32),
        one_gpu_rate=np.full((1, types), 10.0),
        init_batch=8 * one,
        max_batch=128 * one,
        slowdown=np.ones(1),
        restart_s=np.full(1, 10.0),
        epochs=2 * one,
        epoch_end=np.array([[1e3, 3e4]]),
        noise_knots=2 * one,
        noise_batch=np.array([[8.0, 128.0]]),
        grad_sqr=np.ones((1, 2, 2)),
        grad_var=np.full((1, 2, 2), 3.0),
    )
