"""Expected coverage by class where jobs of one poll share a fate.

The ranks of the waits among their promised quantiles are ranked again within each class, so that each interval covers
exactly its promised share of each class over all polls: a forecast that is right by class, with errors as correlated as
ours. Then polls are drawn with replacement, and coverage is counted as in the tables. Polls are drawn as independent,
and the order of the forecasts is not changed: a forecast that predicts more of the common causes could do better, and
so could one that corrects its errors of the day before.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mirage.array_types import Floats, Ints
from mirage.predict.waits.wait_score import INTERVALS

NEAR, NEAR_ALL = 0.05, 0.02
"""What is asked of coverage by class, and over all."""


def expected_coverage(
    log_wait: Floats, quantiles: Floats, poll: Ints, size_class: Ints, polls: int, *, least: int, draws: int
) -> dict[str, Any]:
    """Expected coverage of a forecast that is right in every class, on a number of polls.

    Args:
        log_wait: Shape (n,), log10 of the waits.
        quantiles: Shape (n, k), promised, ascending.
        poll: Shape (n,), when they were promised.
        size_class: Shape (n,).
        polls: That are drawn each time.
        least: Classes of fewer waits are not counted.
        draws: How often.

    Returns:
        ``classes``, the mean number of classes that are counted; for 50, 80 and 95 % each: ``near``, the mean number
        of classes within 5 points, ``near_5`` and ``near_95``, the 5 and 95 % quantiles of that number, ``near_all``,
        the share of draws that are within 2 points over all; ``independent``, the number of independent waits that
        would scatter by as much as a class does at 50 %, median of the classes.
    """
    inside = _inside(log_wait, quantiles, size_class)
    polled, which = np.unique(poll, return_inverse=True)
    classes, own = np.unique(size_class, return_inverse=True)
    waits, hits = np.zeros((len(polled), len(classes))), np.zeros((len(polled), len(classes), len(INTERVALS)))
    np.add.at(waits, (which, own), 1.0)
    np.add.at(hits, (which, own), inside)
    random = np.random.default_rng(0)
    drawn = random.multinomial(polls, np.full(len(polled), 1.0 / len(polled)), size=draws)
    total, held = drawn @ waits, np.einsum("dp,pck->dck", drawn, hits)
    counted = total >= least
    share = held / np.maximum(total, 1.0)[:, :, None]
    near = np.sum(counted[:, :, None] & (np.abs(share - INTERVALS) <= NEAR), axis=1)
    overall = np.abs(held.sum(axis=1) / total.sum(axis=1)[:, None] - INTERVALS) <= NEAR_ALL
    scatter = [np.var(share[counted[:, c], c, 0]) for c in range(len(classes)) if counted[:, c].mean() > 0.5]
    return {
        "polls": polls,
        "classes": float(counted.sum(axis=1).mean()),
        "near": near.mean(axis=0).tolist(),
        "near_5": np.quantile(near, 0.05, axis=0).tolist(),
        "near_95": np.quantile(near, 0.95, axis=0).tolist(),
        "near_all": overall.mean(axis=0).tolist(),
        "independent": float(np.median(0.25 / np.array(scatter))) if scatter else 0.0,
    }


def print_expected(rows: list[dict[str, Any]]) -> None:
    """The table of expected coverage, as in docs/explanation/prediction.md."""
    print(
        "| polls | classes | within 5 points: 50 % | 80 % | 95 % | over all within 2 | independent waits of a class |"
    )
    print("|---:|---:|---:|---:|---:|---:|---:|")
    for row in rows:
        cells = [f"{m:.1f} ({a:.0f} to {b:.0f})" for m, a, b in zip(row["near"], row["near_5"], row["near_95"])]
        overall = ", ".join(f"{share * 100:.0f}" for share in row["near_all"])
        print(
            f"| {row['polls']} | {row['classes']:.1f} | {' | '.join(cells)} | in {overall} % of draws "
            f"| {row['independent']:.0f} |"
        )


def _inside(log_wait: Floats, quantiles: Floats, size_class: Ints) -> Floats:
    """Whether each wait is in each interval by its rank in its class, shape (n, intervals)."""
    places = _places(log_wait, quantiles)
    rank = np.empty(len(places))
    for each in np.unique(size_class):
        here = np.flatnonzero(size_class == each)
        rank[here[np.argsort(places[here], kind="stable")]] = (np.arange(len(here)) + 0.5) / len(here)
    return np.abs(rank - 0.5)[:, None] <= np.array(INTERVALS) / 2.0


def _places(log_wait: Floats, quantiles: Floats) -> Floats:
    """Positions of waits among their quantiles; equal at equal levels."""
    last = quantiles.shape[1] - 1
    below = np.sum(quantiles < log_wait[:, None], axis=1)
    rows = np.arange(len(log_wait))
    low, high = quantiles[rows, np.maximum(below - 1, 0)], quantiles[rows, np.minimum(below, last)]
    beyond = log_wait - np.where(below == 0, high, low)
    outside = (below == 0) | (below > last)
    return below + np.where(outside, beyond, beyond / np.where(outside, 1.0, high - low))
