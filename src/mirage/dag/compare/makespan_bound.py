"""A lower bound of the makespan, for any order of stages and any numbers of executors."""

from __future__ import annotations

import numpy as np
from numba import int64, void

from mirage.array_types import Ints
from mirage.dag.simulator.dag_arrays import NEVER_MS, WORLD_TYPE, DagWorld
from mirage.dag.simulator.durations import bits_of_task, drawn_ms
from mirage.dag.workload.templates import FIRST, FRESH, REST
from mirage.kernel.compile import kernel


def makespan_bound_s(world: DagWorld) -> float:
    """Seconds from the first arrival before which the last job cannot end.

    Each task counts with its shortest possible duration, in any wave and with any number of executors; but one task
    of each stage, the one that starts first, is not of the wave of further tasks. After each arrival an executor has to
    move there; then follow at least the longest path through that job, and at least the work of this and all later
    jobs, spread evenly.
    """
    longest_ms, work_ms, end_ms = np.zeros((3, len(world.stages)), np.int64)
    _shortest(world, longest_ms, work_ms)
    _finish(world, longest_ms, end_ms)
    path_ms = np.maximum.reduceat(end_ms, world.jobs.first_stage)
    later_ms = np.cumsum(np.add.reduceat(work_ms, world.jobs.first_stage)[::-1])[::-1]
    settings, arrival_ms = world.settings[0], world.jobs.arrival_ms
    rest_ms = settings.moving_ms + np.maximum(path_ms, later_ms / settings.executors)
    return float((arrival_ms - arrival_ms[0] + rest_ms).max()) / 1000


@kernel(void(WORLD_TYPE, int64[::1], int64[::1]))
def _shortest(world: DagWorld, longest_ms: Ints, work_ms: Ints) -> None:
    """Per stage its least duration, and the sum of all its tasks, each as short as possible."""
    lowest, highest = world.levels[0, 0], world.levels[len(world.levels) - 1, 1]
    for stage in range(len(world.stages)):
        begun_ms, more_ms = NEVER_MS, NEVER_MS  # a task that starts first, and its extra duration
        for task in range(world.stages[stage].tasks):
            bits = bits_of_task(world, stage, task)
            new_ms, shortest_ms = NEVER_MS, NEVER_MS
            for level in range(lowest, highest + 1):
                new_ms = min(new_ms, drawn_ms(world, stage, level, FRESH, bits))
                new_ms = min(new_ms, drawn_ms(world, stage, level, FIRST, bits))
                shortest_ms = min(shortest_ms, drawn_ms(world, stage, level, REST, bits))
            shortest_ms = min(shortest_ms, new_ms)
            begun_ms, more_ms = min(begun_ms, new_ms), min(more_ms, new_ms - shortest_ms)
            work_ms[stage] += shortest_ms
            longest_ms[stage] = max(longest_ms[stage], shortest_ms)
        work_ms[stage] += more_ms
        longest_ms[stage] = max(longest_ms[stage], begun_ms)


@kernel(void(WORLD_TYPE, int64[::1], int64[::1]))
def _finish(world: DagWorld, longest_ms: Ints, end_ms: Ints) -> None:
    """Per stage the longest path from its job's first stages to its end, in any numbering."""
    changes = True
    while changes:
        changes = False
        for stage in range(len(world.stages)):
            row, before_ms = world.stages[stage], 0
            for k in range(row.first_parent, row.first_parent + row.n_parents):
                before_ms = max(before_ms, end_ms[world.parents[k]])
            if end_ms[stage] != before_ms + longest_ms[stage]:
                end_ms[stage] = before_ms + longest_ms[stage]
                changes = True
