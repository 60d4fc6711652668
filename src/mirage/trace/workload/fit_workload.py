"""Fit of a workload model to a trace: each part by its own moments."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from mirage.array_types import Ints
from mirage.duration import DAY_S, UNLIMITED_S, WEEK_S
from mirage.errors import ConfigurationError
from mirage.job_state import MISSING, JobState
from mirage.trace.statistics.marginals import USED_UP, Marginals, rate_by_hour, run_within_limit_s
from mirage.trace.table import JobTable, check_table
from mirage.trace.workload.generate_workload import generate_workload
from mirage.trace.workload.user_bursts import QUANTILES, UserBursts, beyond_chance, correlation, quantiles
from mirage.trace.workload.workload_model import Floats, UserClass, WorkloadModel, limit_class
from mirage.whole_numbers import whole

MAX_SHAPES = 24
"""Shapes per habit; a rarer shape counts as the nearest of these."""

MIN_JOBS_OF_USE = 40
"""With fewer jobs of a class of limits, a habit borrows the limit use of that class from all users."""

DEFAULT_STATES = ((0.25, 0.35, 0.40), (0.75, 0.15, 0.10))
"""COMPLETED, FAILED, CANCELLED if a trace has no states; row 0 for jobs that end at once."""

_ENDED = (JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED)

MIN_USERS = 5
"""Every habit describes at least this number of users, so that none describes a person."""

MAX_HABITS = 24

_SIZE_STEPS = np.unique(np.round(1.35 ** np.arange(40)).astype(np.int64))

RETURN_WINDOW = 200
"""A user who returns within this number of bursts, two or three days of a mid-size cluster, returns to the same
work."""

MIN_WEEKS = 4
"""With fewer whole weeks the weekly level is assumed constant, and the pace is ``DEFAULT_PACE``."""

DEFAULT_PACE = 0.6

_PACES = (0.0, 0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 1.0)
_TRIALS = 3
_MAX_TRIAL_DAYS = 120.0


def fit_workload(table: JobTable, *, nodes: int | None = None, name: str = "fitted") -> WorkloadModel:
    """Fits a workload model to a recorded trace.

    Jobs without submission, nodes, a finite limit or a run time are left out; a run beyond the limit counts as
    the whole limit.

    Args:
        table: The recorded jobs.
        nodes: Nodes of the cluster; by default the most that were busy at once.
        name: What the model imitates.

    Raises:
        ConfigurationError: The trace has no usable job, spans less than a day, has no run times, or has no starts to
            count nodes from.
    """
    check_table(table)
    nodes = None if nodes is None else whole("nodes", nodes)
    run_s = run_within_limit_s(table)
    finite = (table.limit_s > 0) & (table.limit_s < UNLIMITED_S)
    if not len(table):
        raise ConfigurationError(
            "no job was submitted in the time to fit, and a workload model needs at least a day of them; check the "
            "dates, or leave them out"
        )
    jobs = table[(table.submit_s >= 0) & (table.nodes > 0) & finite & (run_s >= 0)].sorted_by_submit()
    if len(jobs) < 2 or np.ptp(jobs.submit_s) < DAY_S:
        raise ConfigurationError(
            f"{len(jobs)} of {len(table)} jobs have submission, nodes, limit and run time; "
            "a workload model needs at least a day of them"
        )
    if not run_within_limit_s(jobs).any():
        raise ConfigurationError(
            f"all {len(jobs)} jobs have a run time of 0, so they keep no node busy; a workload model needs run times"
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
        nodes=nodes,
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


def user_traits(user: Ints, nodes: Ints, limit_s: Ints, use: Floats, opens: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Traits of users, by which they are grouped.

    Args:
        user: Shape (n,), the user of each job, 0 … users-1.
        nodes: Shape (n,).
        limit_s: Shape (n,), seconds.
        use: Shape (n,), run / limit.
        opens: Shape (n,), the first job of each burst.

    Returns:
        Traits, shape (users, 4), each with variance 1: mean log nodes, mean log limit, mean use, log jobs per
        burst; and weights, shape (users,): the square root of the user's number of jobs.
    """
    jobs = np.bincount(user)
    bursts = np.bincount(user, weights=opens)
    means = [np.bincount(user, weights=v) / jobs for v in (np.log(nodes), np.log(limit_s), use)]
    traits = np.stack([*means, np.log(jobs / np.maximum(bursts, 1))], axis=1)
    spread = traits.std(axis=0)
    return traits / np.where(spread > 0, spread, 1), np.sqrt(jobs)


def group_users(traits: Floats, weight: Floats) -> Ints:
    """Returns the habit of every user, shape (users,).

    Repeatedly splits the group with most weighted variance in one trait at that trait's weighted
    median, until there are ``MAX_HABITS`` groups or none can be split into two of ``MIN_USERS``.
    """
    groups = [np.arange(len(weight))]
    while len(groups) < MAX_HABITS:
        spread = [_variance(traits[g], weight[g]) if len(g) >= 2 * MIN_USERS else np.zeros(4) for g in groups]
        widest = int(np.argmax([s.max() for s in spread]))
        if spread[widest].max() <= 0:
            break
        group = groups.pop(widest)
        trait = int(np.argmax(spread[widest]))
        group = group[np.argsort(traits[group, trait], kind="stable")]
        heavy = np.cumsum(weight[group])
        cut = int(np.clip(np.searchsorted(heavy, heavy[-1] / 2), MIN_USERS, len(group) - MIN_USERS))
        groups += [group[:cut], group[cut:]]
    habit = np.empty(len(weight), dtype=np.int64)
    for number, group in enumerate(groups):
        habit[group] = number
    return habit


def _variance(traits: Floats, weight: Floats) -> Floats:
    """Weighted sum of squares about the mean, one per trait."""
    mean = weight @ traits / weight.sum()
    return np.asarray(weight @ (traits - mean) ** 2)


def burst_sizes(opens: NDArray[np.bool_]) -> tuple[Ints, Floats]:
    """Sizes of bursts and their probabilities; large sizes are in steps of about a third.

    Args:
        opens: Shape (n,), the first job of each burst, jobs in order of user and time.
    """
    starts = np.flatnonzero(opens)
    size = np.diff(np.append(starts, len(opens)))
    step = np.searchsorted(_SIZE_STEPS, size, side="right")
    bursts = np.bincount(step)
    jobs = np.bincount(step, weights=size)
    some = bursts > 0
    return np.round(jobs[some] / bursts[some]).astype(np.int64), bursts[some] / len(size)


def zipf_exponent(counts: Ints) -> float:
    """Exponent s, 0 … 4, for which shares ``r ** -s`` have the concentration of the counts.

    Concentration is the sum of squared shares.
    """
    target = float(((counts / counts.sum()) ** 2).sum())
    rank = np.arange(1, len(counts) + 1)
    low, high = 0.0, 4.0
    for _ in range(40):
        middle = (low + high) / 2
        share = rank**-middle / (rank**-middle).sum()
        low, high = (middle, high) if (share**2).sum() < target else (low, middle)
    return round(low, 3)


def gaps(subs: UserBursts) -> Floats:
    """Quantiles of the pauses inside bursts of few, some and many jobs, shape (3, q)."""
    gap_s = np.diff(subs.submit_s, prepend=subs.submit_s[:1]).astype(np.float64)
    return np.stack([quantiles(gap_s[~subs.opens & (subs.burst == c)]) for c in range(3)])


def same_gap(subs: UserBursts) -> float:
    """Probability that a gap in a burst resembles the previous one (correlation of ranks)."""
    gap_s = np.diff(subs.submit_s, prepend=subs.submit_s[:1])
    within = ~subs.opens
    rank = np.zeros(len(gap_s))
    values, index = np.unique(gap_s[within], return_inverse=True)
    rank[within] = index - index.mean() if len(values) else 0
    both = within & np.roll(within, 1)
    return correlation(rank[both], np.roll(rank, 1)[both])


def returns(subs: UserBursts) -> tuple[float, Floats]:
    """Frequency of users' returns shortly after a burst, and the number of bursts between."""
    opens = np.flatnonzero(subs.opens)
    place = np.empty(len(opens), dtype=np.int64)  # of each burst among all, by time
    place[np.argsort(subs.submit_s[opens], kind="stable")] = np.arange(len(opens))
    user = subs.user[opens]
    order = np.lexsort((place, user))
    lag = np.diff(place[order])[np.diff(user[order]) == 0]
    recent = lag[lag <= RETURN_WINDOW]
    share = np.bincount(user) / len(user)
    returned = 0.0
    for _ in range(40):  # fresh draws hit recent users too; the more users return, the fewer fresh draws
        chance = float(share @ (1 - (1 - share) ** (RETURN_WINDOW * (1 - returned))))
        returned = beyond_chance(len(recent) / len(opens), chance)
    return returned, np.maximum(quantiles(recent.astype(np.float64)), 1)


def even_out(model: WorkloadModel, jobs: JobTable) -> WorkloadModel:
    """Returns the model with pace and weekly level such that work is as even as in the trace.

    The pace is the one at which traces drawn from the model have the spread of work over two days, four days and a
    week that is closest to the trace's; the weekly level is the remaining variation of the trace's weeks.
    """
    weeks = int(np.ptp(jobs.submit_s) // WEEK_S)
    if weeks < MIN_WEEKS:
        return replace(model, pace=DEFAULT_PACE)
    days = min(7.0 * weeks, _MAX_TRIAL_DAYS)
    spread = []
    for pace in _PACES:
        trials = [generate_workload(replace(model, pace=pace), days=days, seed=s) for s in range(_TRIALS)]
        spread.append(np.mean([_spread(trial) for trial in trials], axis=0))
    real = _spread(jobs)
    misfit = [float((np.log(trial / real) ** 2).sum()) for trial in spread]
    best = int(np.argmin(misfit))
    level = _log_work(jobs, WEEK_S)
    level -= level.mean()
    return replace(
        model,
        pace=_PACES[best],
        week_sd=float(np.sqrt(max(0.0, real[-1] ** 2 - spread[best][-1] ** 2))),
        week_corr=correlation(level[1:], level[:-1]),
    )


def _spread(jobs: JobTable) -> Floats:
    """Standard deviation of log work in windows of two days, four days and a week, shape (3,)."""
    spread = [_log_work(jobs, width_s).std() for width_s in (2 * DAY_S, 4 * DAY_S, WEEK_S)]
    return np.maximum(spread, 1e-3)


def _log_work(jobs: JobTable, width_s: int) -> Floats:
    """Log of the node-seconds submitted in each whole window from the first submission on."""
    window = (jobs.submit_s - jobs.submit_s.min()) // width_s
    work = np.bincount(window, weights=run_within_limit_s(jobs) * jobs.nodes)[:-1]
    return np.asarray(np.log(np.maximum(work, work.mean() / 100)), dtype=np.float64)
