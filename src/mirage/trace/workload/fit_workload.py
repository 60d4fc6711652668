"""Fit of a workload model to a trace: each part by its own moments."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mirage.duration import DAY_S, UNLIMITED_S
from mirage.errors import ConfigurationError
from mirage.job_state import MISSING, Ints, JobState
from mirage.trace.statistics.marginals import USED_UP, Marginals, rate_by_hour, run_within_limit_s
from mirage.trace.table import JobTable
from mirage.trace.workload.arrival_fit import even_out, gaps, returns, same_gap
from mirage.trace.workload.user_bursts import QUANTILES, UserBursts, beyond_chance, correlation, quantiles
from mirage.trace.workload.user_classes import burst_sizes, group_users, user_traits, zipf_exponent
from mirage.trace.workload.workload_model import Floats, UserClass, WorkloadModel, limit_class

MAX_SHAPES = 24
"""Shapes per habit; a rarer shape counts as the nearest of these."""

MIN_JOBS_OF_USE = 40
"""With fewer jobs of a class of limits, a habit borrows the limit use of that class from all users."""

DEFAULT_STATES = ((0.25, 0.35, 0.40), (0.75, 0.15, 0.10))
"""COMPLETED, FAILED, CANCELLED if a trace has no states; row 0 for jobs that end at once."""

_ENDED = (JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED)


def fit_workload(table: JobTable, *, nodes: int | None = None, name: str = "fitted") -> WorkloadModel:
    """Fits a workload model to a recorded trace.

    Jobs without submission, nodes, a finite limit or a run time are left out; a run beyond the limit counts as
    the whole limit.

    Args:
        table: The recorded jobs.
        nodes: Nodes of the cluster; by default the most that were busy at once.
        name: What the model imitates.

    Raises:
        ConfigurationError: The trace has no usable job, spans less than a day, or has no starts to count
            nodes from.
    """
    run_s = run_within_limit_s(table)
    finite = (table.limit_s > 0) & (table.limit_s < UNLIMITED_S)
    jobs = table[(table.submit_s >= 0) & (table.nodes > 0) & finite & (run_s >= 0)].sorted_by_submit()
    if len(jobs) < 2 or np.ptp(jobs.submit_s) < DAY_S:
        raise ConfigurationError(
            f"{len(jobs)} of {len(table)} jobs have submission, nodes, limit and run time; "
            "a workload model needs at least a day of them"
        )
    nodes = nodes or _peak_nodes(jobs)
    marginals = Marginals.of(jobs)
    subs = UserBursts.of(jobs)
    traits = user_traits(subs.user, subs.nodes, subs.limit_s, subs.use, subs.opens)
    habit_of_job = group_users(*traits)[subs.user]
    return_share, return_lag = returns(subs)
    habits, shape = _habits(subs, habit_of_job)
    model = WorkloadModel(
        name=name,
        nodes=int(nodes),
        gpus_per_node=_per_node(jobs.gpus, jobs.nodes),
        cpus_per_node=_per_node(jobs.cpus, jobs.nodes),
        load=marginals.busy_nodes / nodes,
        hour_weight=rate_by_hour(subs.submit_s[subs.opens]),
        week_sd=0.0,
        week_corr=0.0,
        pace=0.0,
        gap_s=gaps(subs),
        return_share=return_share,
        return_lag=return_lag,
        same_gap=same_gap(subs),
        same_shape=_same_shape(subs, habit_of_job, shape),
        same_use=_same_use(subs, habit_of_job),
        states=_states(jobs),
        accounts=_accounts(jobs),
        partitions=jobs.partition.names,
        habits=habits,
        fitted_to=marginals,
    )
    return even_out(model, jobs)


def _peak_nodes(jobs: JobTable) -> int:
    """Most nodes busy at once."""
    known = (jobs.start_s >= 0) & (jobs.end_s >= jobs.start_s)
    if not known.any():
        raise ConfigurationError("the trace has no starts to count the cluster's nodes from; give --nodes")
    time_s = np.concatenate([jobs.end_s[known], jobs.start_s[known]])  # ends first within a second
    change = np.concatenate([-jobs.nodes[known], jobs.nodes[known]])
    return int(np.cumsum(change[np.argsort(time_s, kind="stable")]).max())


def _per_node(total: Ints, nodes: Ints) -> int:
    known = total > 0
    return int(np.median(total[known] / nodes[known])) if known.any() else MISSING


def _accounts(jobs: JobTable) -> int:
    """Number of accounts; one per four users if the trace has none."""
    named = jobs.account.codes[jobs.account.codes >= 0]
    return len(np.unique(named)) or 1 + len(np.unique(jobs.user.codes)) // 4


def _habits(subs: UserBursts, habit_of_job: Ints) -> tuple[tuple[UserClass, ...], Ints]:
    """Returns the habits, and the shape of every job as an index into its habit's shapes."""
    shape = np.zeros(len(subs.user), dtype=np.int64)
    habits = []
    for habit in range(habit_of_job.max() + 1):
        rows = habit_of_job == habit
        shapes, weight, shape[rows] = _common_shapes(subs, rows)
        used_up, use = _use(subs, rows)
        bursts_of_user = np.unique(subs.user[rows & subs.opens], return_counts=True)[1]
        size, size_weight = burst_sizes(subs.opens[rows])
        habits.append(
            UserClass(
                users=len(bursts_of_user),
                share=float(bursts_of_user.sum() / subs.opens.sum()),
                zipf=zipf_exponent(bursts_of_user),
                burst_size=size,
                burst_weight=size_weight,
                nodes=shapes[:, 0],
                limit_s=shapes[:, 1],
                partition=shapes[:, 2],
                shape_weight=weight,
                used_up=used_up,
                use=use,
            )
        )
    return tuple(habits), shape


def _use(subs: UserBursts, rows: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Limit use of some jobs, for each class of limits.

    Returns:
        The share that use it up, shape (3,), and quantiles of the use of the others, shape (3, q).
    """
    of_class = limit_class(subs.limit_s)[:, None] == np.arange(3)
    used_up, use = np.zeros(3), np.zeros((3, QUANTILES))
    for c in range(3):
        choices = (rows & of_class[:, c], of_class[:, c], np.ones(len(rows), dtype=bool))
        some = next((m for m in choices if m.sum() >= MIN_JOBS_OF_USE), choices[-1])
        used_up[c] = (subs.use[some] >= USED_UP).mean()
        use[c] = quantiles(subs.use[some & (subs.use < USED_UP)])
    return used_up, use


def _common_shapes(subs: UserBursts, rows: NDArray[np.bool_]) -> tuple[Ints, Floats, Ints]:
    """Most common shapes of some jobs.

    Returns:
        The shapes, (k, 3): nodes, limit, partition; their weights, (3, k); for each job the nearest of them.
    """
    every = np.stack([subs.nodes, subs.limit_s, subs.partition], axis=1)[rows]
    distinct, index, counts = np.unique(every, axis=0, return_inverse=True, return_counts=True)
    retained = distinct[np.sort(np.argsort(-counts, kind="stable")[:MAX_SHAPES])]
    apart = np.abs(np.log(distinct[:, None, :2]) - np.log(retained[None, :, :2])).sum(axis=2)
    apart += distinct[:, None, 2] != retained[None, :, 2]
    shape = np.argmin(apart, axis=1)[index.reshape(-1)]
    weight = np.zeros((3, len(retained)))
    for c in range(3):
        of_class = shape[subs.burst[rows] == c]
        weight[c] = np.bincount(of_class if len(of_class) else shape, minlength=len(retained))
    return retained, weight / weight.sum(axis=1, keepdims=True), shape


def _same_shape(subs: UserBursts, habit_of_job: Ints, shape: Ints) -> Floats:
    """Probability of copying the previous shape, within and between bursts, beyond chance."""
    cell = habit_of_job * 3 + subs.burst
    key = cell * MAX_SHAPES + shape
    counts = np.bincount(key, minlength=(cell.max() + 1) * MAX_SHAPES).reshape(-1, MAX_SHAPES)
    chance = ((counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)) ** 2).sum(axis=1)[cell]
    same = key == np.roll(key, 1)
    return np.array([beyond_chance(same[m].mean(), chance[m].mean()) if m.any() else 0.0 for m in subs.follows()])


def _same_use(subs: UserBursts, habit_of_job: Ints) -> Floats:
    """Probability of copying the previous use of the limit, from the correlation of ranks."""
    cell = habit_of_job * 3 + limit_class(subs.limit_s)
    centred = np.zeros(len(cell))
    for c in np.unique(cell):
        rows = cell == c
        _, index, counts = np.unique(subs.use[rows], return_inverse=True, return_counts=True)
        middle = (np.cumsum(counts) - (counts - 1) / 2) / rows.sum()
        centred[rows] = middle[index] - middle[index].mean()
    return np.array([correlation(centred[m], np.roll(centred, 1)[m]) for m in subs.follows()])


def _states(jobs: JobTable) -> Floats:
    """Shares of COMPLETED, FAILED, CANCELLED of jobs ending at once and others; or defaults."""
    at_once = run_within_limit_s(jobs) < 0.01 * jobs.limit_s
    shares = np.array(DEFAULT_STATES)
    for row, rows in enumerate((at_once, ~at_once)):
        counts = np.array([(jobs.state[rows] == state).sum() for state in _ENDED])
        if counts.sum():
            shares[row] = counts / counts.sum()
    return shares
