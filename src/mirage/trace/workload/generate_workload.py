"""A synthetic trace drawn from a workload model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from mirage.array_types import Ints
from mirage.duration import DAY_S, HOUR_S, WEEK_S
from mirage.errors import ConfigurationError, quantity, shown
from mirage.job_state import MISSING
from mirage.slurm_words.timestamps import LATEST_S
from mirage.trace.statistics.marginals import hour_of_week
from mirage.trace.table import JobTable, Labels
from mirage.trace.workload.bursts import Drawn, draw_bursts, generator
from mirage.trace.workload.workload_model import DEFAULT_START_S, Floats, WorkloadModel
from mirage.whole_numbers import whole

PACE_WINDOW_S = DAY_S // 2
"""Time over which users even out each other's work: they observe the queue and hold back."""

NAME_STEMS = ("train", "eval", "finetune", "pretrain", "sweep", "infer", "embed", "relax", "fold")

MAX_BURSTS = 20_000_000
"""A larger request is taken for a typing error; such a trace would not fit into memory."""

LOADS = 0.001, 100.0
"""Least and largest load, as a fraction of the cluster."""


def generate_workload(
    model: WorkloadModel,
    *,
    days: float | None = None,
    jobs: int | None = None,
    start_s: int = DEFAULT_START_S,
    seed: int = 0,
    load: float | None = None,
    nodes: int | None = None,
) -> JobTable:
    """Draws a trace that queues like the one the model was fitted to.

    The same arguments give the same table.

    The sequence of bursts does not depend on the load; the load sets how fast it arrives. A span is filled
    with the number of bursts, from the first on, that gives the load: the node-seconds that the jobs submitted in the
    span will run, divided by nodes × span, to the nearest burst. So a higher load gives more of the same
    jobs per day; their sizes, limits and run times are unchanged.

    Args:
        model: The model to draw from.
        days: Length of the span of submissions; either this or ``jobs``.
        jobs: Number of jobs; the span follows from the load.
        start_s: When the span starts, seconds since 1970-01-01 UTC.
        seed: Of the random generators, one for each component.
        load: Offered load as a fraction of the cluster; the model's own by default.
        nodes: Nodes of the cluster; the model's own by default. Larger jobs are cut down to it.

    Returns:
        Jobs in order of submission; start and end are missing, because nothing was scheduled, and the seconds
        that each will run are in ``elapsed_s``: at least 1, never more than the limit.

    Raises:
        ConfigurationError: The model is none, neither or both of days and jobs are given, or a value out of range.
    """
    if not isinstance(model, WorkloadModel):
        raise ConfigurationError(f"a model is made by builtin_model or fit_workload, got {shown(model)}")
    if load is None and not LOADS[0] <= model.load <= LOADS[1]:
        raise ConfigurationError(
            f"the load of {model.name} is {model.load:g} of {quantity(model.nodes, 'node')}, so a row of its trace is "
            "probably wrong: its nodes, or a date; leave that row out, or give --load and --nodes"
        )
    load, nodes = model.load if load is None else load, model.nodes if nodes is None else nodes
    jobs = None if jobs is None else whole("jobs", jobs)
    nodes, seed, start_s = whole("nodes", nodes), whole("seed", seed), whole("start_s", start_s)
    _check(days, jobs, load, nodes, seed)
    if days is not None:
        span_s = days * DAY_S
        drawn = _bursts_for_work(model, nodes, seed, span_s * load * nodes)
    else:
        drawn = _bursts_for_jobs(model, nodes, seed, jobs or 0)
        span_s = float(drawn.elapsed_s @ drawn.nodes) / (load * nodes)
    if start_s < 0 or start_s + span_s > LATEST_S:
        raise ConfigurationError("the submissions would not lie between 1970 and 2100; give another start")
    opened_s = _arrivals(model, seed, _work(drawn), span_s, start_s)[drawn.burst]
    drawn = replace(drawn, submit_s=start_s + opened_s + drawn.submit_s)
    if days is not None:
        drawn = drawn.rows(drawn.submit_s < start_s + span_s)  # the last burst may extend beyond the end
    return _table(model, drawn.rows(np.argsort(drawn.submit_s, kind="stable")))


def _check(days: float | None, jobs: int | None, load: float, nodes: int, seed: int) -> None:
    if (days is None) == (jobs is None):
        raise ConfigurationError("give the days or the number of jobs to generate, and not both")
    for what, value, low, high in (
        ("days", 1 if days is None else days, 1 / 24, 36_500),
        ("jobs", 1 if jobs is None else jobs, 1, 100_000_000),
        ("load", load, *LOADS),
        ("nodes", nodes, 1, 1_000_000),
        ("seed", seed, 0, 2**53),
    ):
        if not isinstance(value, int | float | np.number):
            raise ConfigurationError(f"{what} is {shown(value)}; give a number")
        if not low <= value <= high:
            raise ConfigurationError(f"{what} is {value:g}; it must lie between {low:g} and {high:,}")


def _bursts_for_work(model: WorkloadModel, nodes: int, seed: int, goal: float) -> Drawn:
    """Returns the first bursts that run about ``goal`` node-seconds; at least one."""
    for drawn in _longer_and_longer(model, nodes, seed):
        work = np.cumsum(_work(drawn))
        if work[-1] < goal:
            continue
        last = int(np.searchsorted(work, goal))
        overshoots = last > 0 and work[last] - goal > goal - work[last - 1]
        return drawn.rows(drawn.burst <= last - overshoots)
    raise AssertionError("unreachable: the sequence is cut off by an error")


def _bursts_for_jobs(model: WorkloadModel, nodes: int, seed: int, jobs: int) -> Drawn:
    """Returns the first jobs of the sequence of bursts."""
    for drawn in _longer_and_longer(model, nodes, seed, bursts=256 + jobs // 2):
        if len(drawn.burst) >= jobs:
            return drawn.rows(slice(0, jobs))
    raise AssertionError("unreachable: the sequence is cut off by an error")


def _work(drawn: Drawn) -> Floats:
    """Node-seconds of each burst."""
    return np.bincount(drawn.burst, weights=drawn.elapsed_s * drawn.nodes).astype(np.float64)


def _longer_and_longer(model: WorkloadModel, nodes: int, seed: int, bursts: int = 4096) -> Iterator[Drawn]:
    """Yields longer and longer prefixes of one sequence of bursts."""
    while bursts <= MAX_BURSTS:
        yield draw_bursts(model, nodes, seed, bursts)
        bursts *= 4
    raise ConfigurationError(f"that takes more than {MAX_BURSTS:,} bursts; request fewer days or jobs")


def _arrivals(model: WorkloadModel, seed: int, work: Floats, span_s: float, start_s: int) -> Ints:
    """Draws the opening time of each burst, in whole seconds after the start.

    A Poisson process with the model's hours and weeks, slowed when the neighbouring bursts bring much work.
    """
    between = -np.log1p(-generator(seed, "arrival").random(len(work) + 1))
    around = _moving_mean(work, round(PACE_WINDOW_S / span_s * len(work)))
    between[1:] *= 1 - model.pace + model.pace * around / work.mean()
    place = np.cumsum(between)
    edge_s = np.unique(np.clip(np.arange(-(start_s % HOUR_S), span_s + HOUR_S, HOUR_S), 0, span_s))
    hour = hour_of_week(start_s + edge_s[:-1].astype(np.int64))
    level = _weekly_level(model, seed, 1 + int(span_s // WEEK_S))
    rate = model.hour_weight[hour] * level[(edge_s[:-1] // WEEK_S).astype(np.int64)]
    mean = np.concatenate([[0.0], np.cumsum(rate * np.diff(edge_s))])
    opened_s = np.interp(place[:-1] * (mean[-1] / place[-1]), mean, edge_s)
    return np.asarray(np.floor(opened_s), dtype=np.int64)


def _moving_mean(values: Floats, width: int) -> Floats:
    """Moving mean around each value, over fewer values at the ends."""
    half = width // 2
    total = np.concatenate([[0.0], np.cumsum(values)])
    place = np.arange(len(values))
    low, high = np.maximum(place - half, 0), np.minimum(place + half + 1, len(values))
    return np.asarray((total[high] - total[low]) / (high - low))


def _weekly_level(model: WorkloadModel, seed: int, weeks: int) -> Floats:
    """Level of every week: the exponential of a first-order autoregression."""
    noise = generator(seed, "week").standard_normal(weeks) * model.week_sd
    for week in range(1, weeks):
        noise[week] = model.week_corr * noise[week - 1] + np.sqrt(1 - model.week_corr**2) * noise[week]
    return np.asarray(np.exp(noise), dtype=np.float64)


def _table(model: WorkloadModel, jobs: Drawn) -> JobTable:
    """Returns the job table with generated names."""
    stem = (jobs.user * 7 + jobs.shape) % len(NAME_STEMS)  # one for a user's jobs of one shape, numbered by burst
    return JobTable.build(
        np.arange(1, len(jobs.user) + 1),
        submit_s=jobs.submit_s,
        eligible_s=jobs.submit_s,
        elapsed_s=jobs.elapsed_s,
        limit_s=jobs.limit_s,
        nodes=jobs.nodes,
        gpus=_total(jobs.nodes, model.gpus_per_node),
        cpus=_total(jobs.nodes, model.cpus_per_node),
        state=jobs.state,
        user=_labels(jobs.user, lambda u: f"user{u + 1:03d}"),
        account=_labels(jobs.user % model.accounts, lambda a: f"proj{a + 1:02d}"),
        partition=_labels(jobs.partition, lambda p: model.partitions[p]),
        qos=_labels(np.zeros(len(jobs.user), dtype=np.int64), lambda _: "normal"),
        name=_labels(stem * 100 + jobs.burst % 100, lambda n: f"{NAME_STEMS[n // 100]}-{n % 100}"),
    )


def _total(nodes: Ints, per_node: int) -> Ints:
    return np.where(per_node >= 0, nodes * per_node, MISSING)


def _labels(codes: Ints, name: Callable[[int], str]) -> Labels:
    """Names the codes, in order of first appearance; negative ones are missing."""
    distinct, first, index = np.unique(codes, return_index=True, return_inverse=True)
    shown = np.argsort(first, kind="stable")
    shown = shown[distinct[shown] >= 0]
    place = np.full(len(distinct), MISSING, dtype=np.int64)
    place[shown] = np.arange(len(shown))
    return Labels(place[index], tuple(name(int(distinct[d])) for d in shown))
