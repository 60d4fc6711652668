"""Built-in jobs: 22 made-up queries at 7 sizes, modelled on measured TPC-H profiles.

The measurements (22 queries, 2 to 100 GB): 2 to 18 stages that join towards one last stage; a third of them read
input, in 2 s tasks whose number is constant or grows with the size; the rest shuffle, mostly in 200 short tasks; an
executor's first task is longer by its warm-up, and tasks slow down as more executors work on a job. Only these
statistics were used; no value of the data is part of the package.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from mirage.dag.workload.templates import LEVELS, JobTemplate, StageProfile
from mirage.dag.workload.tpch import QUERIES, SIZES

_SHUFFLE_TASKS = 200
_GROWING_TASKS_PER_GB = 5.9
_STAGES = (2, 18)
_MEASURED = (8, 8, 40)  # durations stored of each wave at each level

_READ_MS, _SHUFFLE_MS = (1400.0, 0.5), (30.0, 1.0)  # median of further tasks, and the spread of its logarithm
_SPREAD = 0.24  # of tasks within a stage
_FIRST, _FRESH = (1.2, 200.0), (1.2, 1000.0)  # factor of a further task's duration, and milliseconds added
_SLOWER_PER_EXECUTOR = {"reads": 0.004, "shuffles": 0.02}

_Random = np.random.Generator


@lru_cache(maxsize=1)
def generated_templates() -> tuple[JobTemplate, ...]:
    """The built-in jobs by size, then query, as ``read_tpch``; the same in every process."""
    random = np.random.Generator(np.random.PCG64(22))
    queries = [_Query(random) for _ in range(QUERIES)]
    return tuple(
        queries[query].template(f"{size}/g{query + 1}", int(size.removesuffix("g")), random)
        for size in SIZES
        for query in range(QUERIES)
    )


class _Query:
    """A graph, and the properties of each stage at any size."""

    def __init__(self, random: _Random) -> None:
        least, most = _STAGES
        n = least + round((most - least) * random.beta(1.5, 1.6))
        self.reads = max(1, round(0.38 * n))
        self.edges = _joined(n, self.reads, random)
        self.n = n
        kinds = random.choice(["grows", "grows slowly", "constant"], size=self.reads, p=(0.1, 0.2, 0.7))
        kinds[0] = "grows"
        self.tasks_per_gb = np.where(kinds == "grows", _GROWING_TASKS_PER_GB, np.where(kinds == "constant", 0.0, 0.5))
        self.fixed_tasks = random.integers(1, 4, size=n)
        few = random.random(n) < 0.2
        self.shuffle_tasks = np.where(few, self.fixed_tasks, _SHUFFLE_TASKS)
        self.shuffle_tasks[-1] = self.fixed_tasks[-1]  # the last stage gathers the answer
        shuffle_ms = random.lognormal(np.log(_SHUFFLE_MS[0]), _SHUFFLE_MS[1], size=n)
        read_ms = random.lognormal(np.log(_READ_MS[0]), _READ_MS[1], size=n)
        self.further_ms = np.where(np.arange(n) < self.reads, read_ms, shuffle_ms)

    def template(self, name: str, size_gb: int, random: _Random) -> JobTemplate:
        """The query at a size; larger inputs make shuffles longer too, by the fourth root."""
        stages = []
        for stage in range(self.n):
            if stage < self.reads:
                tasks = max(int(self.fixed_tasks[stage]), round(self.tasks_per_gb[stage] * size_gb))
                stages.append(_profile(tasks, float(self.further_ms[stage]), _SLOWER_PER_EXECUTOR["reads"], random))
            else:
                further_ms = float(self.further_ms[stage]) * (size_gb / 20) ** 0.25
                tasks = int(self.shuffle_tasks[stage])
                stages.append(_profile(tasks, further_ms, _SLOWER_PER_EXECUTOR["shuffles"], random))
        return JobTemplate(name, self.edges, tuple(stages))


def _joined(n: int, reads: int, random: _Random) -> tuple[tuple[int, int], ...]:
    """Edges that join a number of reading stages in the last of n stages."""
    loose, edges = list(range(reads)), set()
    for stage in range(reads, n):
        left = n - stage  # steps in which the loose ends must become one
        least = 1 + -(-(len(loose) - 1) // left) if left > 1 else len(loose)
        joins = min(len(loose), max(least, 1 + int(random.random() < 0.4)))
        for parent in random.choice(len(loose), size=joins, replace=False):
            edges.add((loose[parent], stage))
        loose = [end for end in loose if (end, stage) not in edges] + [stage]
    if n > 4 and random.random() < 0.3:  # a result that is used twice
        parent = int(random.integers(n - 2))
        edges.add((parent, n - 1))
    return tuple(sorted(edges))


def _profile(tasks: int, further_ms: float, slower: float, random: _Random) -> StageProfile:
    """Durations of a stage at every level, from the mean further task with few executors."""
    waves: list[dict[int, NDArray[np.int32]]] = []
    for (times, more_ms), measured in zip((_FRESH, _FIRST, (1.0, 0.0)), _MEASURED):
        waves.append({})
        for level in LEVELS:
            mean_ms = further_ms * (1 + slower * (level - LEVELS[0])) * times + more_ms
            drawn = mean_ms * random.lognormal(-(_SPREAD**2) / 2, _SPREAD, size=min(measured, tasks))
            waves[-1][level] = np.maximum(1, np.rint(drawn)).astype(np.int32)
    return StageProfile(tasks, *waves)
