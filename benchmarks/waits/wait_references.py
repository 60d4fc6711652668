"""Other methods to predict the waits of Graham: rules, ridge, trees, TROUT, QBETS.

Methods that are trained once learn from all waits of the first 80 % of the days, as published, also from waits that
ended later. Rolling methods use only what was known at each poll.
"""

from __future__ import annotations

import numpy as np
import xgboost
from numpy.typing import NDArray

from mirage.array_types import Floats
from mirage.duration import MINUTE_S, WEEK_S
from mirage.predict.waits.wait_sample import WaitSample
from qbets import Qbets

CLASSIFIED_S = 10 * MINUTE_S
"""Below it, TROUT's classifier says, there is no need of a regression."""


def log_waits(sample: WaitSample) -> Floats:
    """log10 of the waits in seconds; those of less than a second count as one."""
    return np.log10(np.maximum(sample.waited_s, 1))


def constant_median(sample: WaitSample, first: int) -> Floats:
    """The median wait of the training days."""
    return np.full(len(sample) - first, np.median(log_waits(sample)[:first]))


def rolling_median(sample: WaitSample, first: int) -> Floats:
    """The median of the waits of the last seven days that are known."""
    return rolling_quantiles(sample, first, np.array([0.5]))[:, 0]


def rolling_quantiles(sample: WaitSample, first: int, levels: Floats) -> Floats:
    """Quantiles of the waits of the last seven days that are known, shape (m, k)."""
    found = np.empty((len(sample) - first, len(levels)))
    for now_s in np.unique(sample.request_s[first:]):
        wait, is_bound = sample.known_at(int(now_s))
        recent = ~is_bound & (sample.request_s[: len(wait)] >= now_s - WEEK_S)
        found[sample.request_s[first:] == now_s] = np.quantile(wait[recent], levels)
    return found


def ridge(sample: WaitSample, first: int, penalty: float = 100.0) -> Floats:
    """Ridge regression of log10 of the wait on standardised log1p features."""
    inputs = np.sign(sample.inputs) * np.log1p(np.abs(sample.inputs.astype(np.float64)))
    inputs[~np.isfinite(inputs)] = np.nan
    centre, scale = np.nanmean(inputs[:first], axis=0), np.nanstd(inputs[:first], axis=0) + 1e-9
    inputs = np.nan_to_num((inputs - centre) / scale)
    wait = log_waits(sample)[:first]
    gram = inputs[:first].T @ inputs[:first] + penalty * np.eye(inputs.shape[1])
    return wait.mean() + inputs[first:] @ np.linalg.solve(gram, inputs[:first].T @ (wait - wait.mean()))


def boosted(sample: WaitSample, first: int, objective: str) -> Floats:
    """Gradient boosting of log10 of the wait, trained once: 200 trees of depth 6."""
    return _grown(sample.inputs[:first], log_waits(sample)[:first], objective).inplace_predict(sample.inputs[first:])


def trout(sample: WaitSample, first: int) -> Floats:
    """TROUT's two stages: is it over 10 minutes; if so, a regression of the minutes.

    Its networks are replaced by boosted trees, its SmoothL1 of the minutes by their absolute error. Its oversampling,
    which stood before the split into training and validation, is a weight here: no job is on both sides.
    """
    long = sample.waited_s >= CLASSIFIED_S
    weight = np.where(long[:first], 0.5 / long[:first].mean(), 0.5 / (~long[:first]).mean())
    classifier = _grown(sample.inputs[:first], long[:first].astype(float), "binary:logistic", weight)
    rows = np.flatnonzero(long[:first])
    minutes = sample.waited_s[rows] / MINUTE_S
    regressor = _grown(sample.inputs[rows], minutes, "reg:absoluteerror")
    is_long = classifier.inplace_predict(sample.inputs[first:]) > 0.5
    return joined_stages(sample, first, is_long, regressor.inplace_predict(sample.inputs[first:]))


def joined_stages(sample: WaitSample, first: int, is_long: NDArray[np.bool_], minutes: Floats) -> Floats:
    """log10 of the seconds of two stages: the regression, or the usual wait under 10 min."""
    short = np.median(sample.waited_s[:first][sample.waited_s[:first] < CLASSIFIED_S])
    return np.log10(np.where(is_long, np.maximum(minutes * MINUTE_S, CLASSIFIED_S), short))


def _grown(
    inputs: NDArray[np.float32], target: Floats, objective: str, weight: Floats | None = None
) -> xgboost.Booster:
    parameters = {
        "objective": objective, "tree_method": "hist", "max_depth": 6, "eta": 0.1, "subsample": 0.8,
        "colsample_bytree": 0.5, "max_bin": 128, "nthread": 1, "seed": 0,
    }  # fmt: skip
    matrix = xgboost.DMatrix(inputs, target, weight=weight, nthread=1)
    return xgboost.train(parameters, matrix, num_boost_round=200)


def qbets_bounds(sample: WaitSample, first: int) -> Floats:
    """QBETS' bound on the 95th percentile with 95 % confidence, log10, by size class."""
    queues = {int(each): Qbets() for each in np.unique(sample.size_class)}
    start_s = sample.request_s + sample.waited_s
    by_start, learnt, bounds = np.argsort(start_s, kind="stable"), 0, np.full(len(sample), np.inf)
    for now_s in np.unique(sample.request_s):
        until = int(np.searchsorted(start_s[by_start], now_s, side="right"))
        news = by_start[learnt:until]
        learnt = until
        here = sample.request_s == now_s
        for each, queue in queues.items():
            queue.learn(log_waits(sample)[news[sample.size_class[news] == each]])
            bounds[here & (sample.size_class == each)] = queue.bound()
    return bounds[first:]
