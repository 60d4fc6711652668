"""Arrivals of jobs: the parts of a workload model that come from submission times."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mirage.duration import DAY_S, WEEK_S
from mirage.trace.statistics.marginals import run_within_limit_s
from mirage.trace.table import JobTable
from mirage.trace.workload.generate_workload import generate_workload
from mirage.trace.workload.user_bursts import UserBursts, beyond_chance, correlation, quantiles
from mirage.trace.workload.workload_model import Floats, WorkloadModel

RETURN_WINDOW = 200
"""A user who returns within this number of bursts, two or three days of a mid-size cluster, returns to the same
work."""

MIN_WEEKS = 4
"""With fewer whole weeks the weekly level is assumed constant, and the pace is ``DEFAULT_PACE``."""

DEFAULT_PACE = 0.6

_PACES = (0.0, 0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 1.0)
_TRIALS = 3
_MAX_TRIAL_DAYS = 120.0


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
