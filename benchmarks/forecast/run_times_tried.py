"""Run-time predictions that lost against ``named-history``; docs/explanation/run-times.md.

They remain here so that ``benchmarks/forecast/run_times.py --tried`` can repeat the figures; the boosted one needs
``xgboost``.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from mirage.forecast.run_times import Uses
from mirage.forecast.use_history import LEVELS
from mirage.job_state import MISSING
from mirage.policy.view import View
from mirage.predict.run_times.named_history import (
    Distributions,
    GroupLevel,
    NamedHistory,
    binned,
    distributions,
    posterior,
)
from mirage.predict.run_times.run_time_observations import Observations, Requests, observed, share_of_limit, unfinished
from run_time_questions import questions, view_of
from trace_timeline import Timeline

EVERYBODY = (GroupLevel((), prior=0.0), GroupLevel(("like_limit",), prior=10.0))


def requests_of(view: View) -> tuple[Requests, np.ndarray, Observations]:
    """The jobs of a view, the used shares of their limits, and the observed other jobs."""
    requests, elapsed_s = unfinished(view)
    return requests, np.where(elapsed_s > 0, share_of_limit(elapsed_s, requests.limit_s), 0.0), observed(view)


def as_uses(table: np.ndarray, row: np.ndarray) -> Uses:
    """A table of levels in the form that futures draw from."""
    first = row.reshape(-1).astype(np.int64) * table.shape[1]
    return Uses(np.ascontiguousarray(table.ravel()), np.stack([first, first + table.shape[1]], axis=1))


class Kernel:
    """All past jobs, weighted by similarity: exp(−Σ scale · distance).

    They are filled up with jobs of similar limits.

    Args:
        scale: Of another user, another name, another account, |ln limit|, |ln nodes|, hours of the day, ln(1 + days).
        prior: How many observations like limits of all count as.
    """

    def __init__(self, scale: tuple[float, ...], prior: float) -> None:
        self.scale, self.prior = scale, prior

    def uses(self, view: View) -> Uses:
        """The possible uses of the limits of a view's jobs."""
        requests, elapsed, past = requests_of(view)
        edges, values, bins = binned(past)
        base = distributions(past, requests, EVERYBODY)
        rows = np.stack(
            [
                requests.user,
                requests.name,
                requests.account,
                requests.limit_s,
                requests.nodes,
                requests.submit_s // 3600,
            ]
        )
        _, first, kind = np.unique(rows, axis=1, return_index=True, return_inverse=True)
        weight = np.exp(-self._distance(requests[first], past))
        order = np.argsort(bins, kind="stable")
        starts = np.searchsorted(bins[order], np.arange(len(values) + 1))
        ended = past.ended[order]
        deaths, censored = (_sums(weight[:, order] * some, starts) for some in (ended, ~ended))
        at_risk = np.cumsum((deaths + censored)[:, ::-1], axis=1)[:, ::-1] - censored
        below = base.below[base.kind[first]]
        alive = np.concatenate([np.ones((len(first), 1)), 1 - below[:, :-1]], axis=1)
        hazards = posterior(np.diff(below, axis=1, prepend=0.0) / np.maximum(alive, 1e-12), self.prior, deaths, at_risk)
        found = Distributions(kind.reshape(-1), edges, values, 1.0 - np.cumprod(1.0 - hazards, axis=1))
        return as_uses(*found.levels(elapsed))

    def _distance(self, requests: Requests, past: Observations) -> np.ndarray:
        user, name, account, limit, nodes, hour, age = self.scale
        of = past.requests
        far = np.tile(age * np.log1p((past.now_s - past.end_s) / 86400.0), (len(requests), 1))
        for scale, column in ((user, "user"), (name, "name"), (account, "account")):
            a, b = getattr(requests, column), getattr(of, column)
            far += scale * ((a[:, None] != b) | (a[:, None] == MISSING))
        far += limit * np.abs(np.log(requests.limit_s)[:, None] - np.log(of.limit_s))
        far += nodes * np.abs(np.log(requests.nodes)[:, None] - np.log(of.nodes))
        hours = np.abs((requests.submit_s // 3600 % 24)[:, None] - of.submit_s // 3600 % 24)
        return far + hour * np.minimum(hours, 24 - hours) / 12


KERNEL = Kernel((8.0, 1.8, 0.0, 1.8, 0.3, 0.0, 0.5), 3.0)
"""Scales by coordinate search on the CRPS of Lonestar6's December."""


def _sums(weight: np.ndarray, starts: np.ndarray) -> np.ndarray:
    total = np.concatenate([np.zeros((len(weight), 1)), np.cumsum(weight, axis=1)], axis=1)
    return total[:, starts[1:]] - total[:, starts[:-1]]


QUANTILES = np.array([0.02, *np.arange(1, 20) / 20, 0.98])
SHOWN_LEVELS = (0.05, 0.15, 0.25, 0.5, 0.75, 0.85, 0.95)


class Boosted:
    """Quantiles of the rest of the limit, by gradient boosting.

    The features are histories and the quantiles of named-history.
    """

    def __init__(self, model: Any) -> None:
        self.model = model

    @classmethod
    def fitted(cls, timeline: Timeline, until_s: int, every: int) -> Self:
        """Fitted on the jobs that have ended by then."""
        import xgboost

        cases = questions(timeline, 0, until_s, max(every // 2, 1))
        rows, left = [], []
        for some in cases.by_moment():
            some = some[timeline.end_s[cases.row[some]] <= until_s]
            if len(some):
                past = timeline.at(int(cases.now_s[some[0]]))
                view = view_of(timeline.requests[cases.row[some]], cases.elapsed[some], past)
                rows.append(features(*requests_of(view))[: len(some)])
                left.append((timeline.use[cases.row[some]] - cases.elapsed[some]) / (1 - cases.elapsed[some]))
        settings = {
            "objective": "reg:quantileerror", "quantile_alpha": QUANTILES, "tree_method": "hist", "nthread": 1,
            "max_depth": 3, "eta": 0.1, "min_child_weight": 40, "subsample": 0.8, "colsample_bytree": 0.6, "seed": 0,
        }  # fmt: skip
        data = xgboost.QuantileDMatrix(np.concatenate(rows), np.concatenate(left))
        return cls(xgboost.train(settings, data, 80))

    def uses(self, view: View) -> Uses:
        """The possible uses of the limits of a view's jobs."""
        import xgboost

        requests, elapsed, past = requests_of(view)
        found = self.model.predict(xgboost.DMatrix(features(requests, elapsed, past))).reshape(len(requests), -1)
        found = np.sort(np.clip(found, 0, 1), axis=1)
        wanted = (np.arange(LEVELS) + 0.5) / LEVELS
        left = np.array([np.interp(wanted, QUANTILES, row) for row in found]).reshape(-1, LEVELS)
        left = np.where(left > 0.99, 1.0, left)
        return as_uses(elapsed[:, None] + (1 - elapsed[:, None]) * left, np.arange(len(requests)))


def features(requests: Requests, elapsed: np.ndarray, past: Observations) -> np.ndarray:
    """Features: the requests, the elapsed shares, named-history's quantiles, and three groups."""
    table, row = NamedHistory().table(requests, elapsed, past)
    shown = table[:, [int(q * LEVELS) for q in SHOWN_LEVELS]]
    columns = [
        np.column_stack([shown, table.mean(axis=1), table.std(axis=1)])[row.reshape(-1)], np.log(requests.limit_s),
        np.log(requests.nodes), requests.submit_s % 86400 / 3600, requests.submit_s // 86400 % 7, elapsed,
    ]  # fmt: skip
    for by in (("user",), ("user", "limit_s"), ("user", "name")):
        columns += _summary(by, requests, past)
    return np.column_stack(columns)


def _summary(by: tuple[str, ...], requests: Requests, past: Observations) -> list[np.ndarray]:
    together = np.zeros(len(requests) + len(past), dtype=np.int64)
    for name in by:
        both = np.concatenate([getattr(requests, name), getattr(past.requests, name)])
        together = together * (int(both.max(initial=0)) + 2) + both + 1
    groups, now = np.unique(together[: len(requests)], return_inverse=True)
    of_past = together[len(requests) :]
    at = np.minimum(np.searchsorted(groups, of_past), len(groups) - 1)
    kin = groups[at] == of_past
    done, runs, use = kin & past.ended, kin & ~past.ended, past.use
    ended, running = (np.bincount(at[some], minlength=len(groups)) for some in (done, runs))
    columns = [np.log1p(ended), running]
    with np.errstate(invalid="ignore", divide="ignore"):
        of = (use, np.log(use), use > 0.99, use < 0.02)
        columns += [np.bincount(at[done], value[done], len(groups)) / ended for value in of]
        columns.append(np.bincount(at[runs], use[runs], len(groups)) / running)
    for value in (use, np.log1p(past.now_s - past.end_s)):
        last = np.full(len(groups), np.nan)
        last[at[done]] = value[done]
        columns.append(last)
    return [column[now] for column in columns]
