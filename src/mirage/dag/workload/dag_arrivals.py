"""Sequences of arrivals: the jobs and their times. Each is a pure function of its seed."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mirage.array_types import Ints
from mirage.dag.workload.tpch import QUERIES, SIZES
from mirage.errors import ConfigurationError

GAP_S = 25.0
"""Mean time between arrivals in the published experiments: about 85 % load on 50 executors."""

LONGEST_GAP_S = 1e6

MOST_JOBS = 100_000
"""Most jobs of an episode; the published stream has 5,001."""


@dataclass(frozen=True, slots=True)
class DagArrivals:
    """Jobs in order of arrival.

    Attributes:
        arrival_ms: Shape (jobs,), ascending.
        template: Shape (jobs,), the index of each job's template.
    """

    arrival_ms: Ints
    template: Ints

    def __len__(self) -> int:
        return len(self.template)


def poisson_arrivals(
    jobs: int, seed: int, *, gap_s: float = GAP_S, templates: int = QUERIES * len(SIZES)
) -> DagArrivals:
    """Jobs drawn uniformly, the first at 0 and the others after exponential gaps.

    The draws are those of spark-sched-sim after ``reset(seed=seed)``, so that its episodes are reproduced where
    templates are in the order of ``read_tpch``: per job the query, the size, and the gap to the next. If the number of
    templates is no multiple of 22 queries, they count as one size.

    Raises:
        ConfigurationError: The number of jobs or the gap is invalid.
    """
    check_jobs(jobs)
    check_gap(gap_s)
    queries = queries_of(templates)
    random = np.random.Generator(np.random.PCG64(seed))
    arrival_ms, template, now_ms = np.zeros(jobs, np.int64), np.zeros(jobs, np.int64), 0.0
    for job in range(jobs):
        query = int(random.integers(queries))
        template[job] = int(random.choice(templates // queries)) * queries + query
        arrival_ms[job] = int(now_ms)
        now_ms += random.exponential(gap_s * 1000)
    return DagArrivals(arrival_ms, template)


def queries_of(templates: int) -> int:
    """The number of templates of one size: 22, or all where that does not divide them."""
    return templates if templates % QUERIES else QUERIES


def decima_arrivals(jobs: int, seed: int, *, gap_s: float = GAP_S) -> DagArrivals:
    """The stream of Decima's simulator: one job at 0, then ``jobs - 1`` after random gaps.

    Gaps are exponential, in whole milliseconds. The draws are those of its generator: query and size of the first job,
    then gap, size and query of each further one.
    """
    check_jobs(jobs)
    check_gap(gap_s)
    random = np.random.RandomState(seed)
    arrival_ms, template = np.zeros(jobs, np.int64), np.zeros(jobs, np.int64)
    query, size = random.randint(QUERIES), random.randint(len(SIZES))
    template[0] = size * QUERIES + query
    for job in range(1, jobs):
        arrival_ms[job] = arrival_ms[job - 1] + int(random.exponential(gap_s * 1000))
        size, query = random.randint(len(SIZES)), random.randint(QUERIES)
        template[job] = size * QUERIES + query
    return DagArrivals(arrival_ms, template)


def batch_arrivals(jobs: int, seed: int, *, templates: int = QUERIES * len(SIZES)) -> DagArrivals:
    """Jobs drawn uniformly, all present at 0."""
    check_jobs(jobs)
    random = np.random.Generator(np.random.PCG64(seed))
    return DagArrivals(np.zeros(jobs, np.int64), random.integers(templates, size=jobs))


def check_jobs(jobs: int) -> None:
    """Checks that an episode can have a number of jobs.

    Raises:
        ConfigurationError: It cannot.
    """
    if not 1 <= jobs <= MOST_JOBS:
        raise ConfigurationError(f"an episode of {jobs} jobs is impossible; give 1 to {MOST_JOBS:,}")


def check_gap(gap_s: float) -> None:
    """Checks a mean gap between arrivals.

    Raises:
        ConfigurationError: It is invalid.
    """
    if not (math.isfinite(gap_s) and 0 < gap_s <= LONGEST_GAP_S):
        raise ConfigurationError(
            f"a mean gap of {gap_s:g} s between arrivals is invalid; give a positive one, up to {LONGEST_GAP_S:,.0f} s"
        )
