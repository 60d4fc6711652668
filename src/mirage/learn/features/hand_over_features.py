"""Features of a hand-over: a few numbers, computed alike in data sets and policies.

They come from squeue and sacct only, without calendar and user names. As they are expressed through waits and remaining
time, they carry over to other months and other clusters.
"""

from __future__ import annotations

import numpy as np

from mirage.array_types import Floats
from mirage.duration import HOUR_S
from mirage.learn.features import forecast_features
from mirage.learn.features.queue_in_order import expected_run_s, limit_run_s, wait_after_queue_s
from mirage.learn.hand_overs import Floats32
from mirage.policy.start_forecast import StartForecast
from mirage.policy.view import ChainView, View

LONGEST_WAIT_S = 1000 * HOUR_S
"""Upper bound of a wait after the queue; unbounded waits count as this."""

LAST_STARTED = 100
"""Jobs in the mean of past waits: those that started last (Mirage, SC'23, ``average``)."""

CHAIN = ("remaining_h", "link_nodes", "link_limit_h", "link_waited_h")
ORDER = ("expected_gap_h", "limit_gap_h", "expected_overlap_h", "limit_overlap_h")
QUEUE = (
    "pending_jobs",
    "pending_nodes",
    "pending_node_h",
    "longest_pending_h",
    "running_jobs",
    "free_nodes",
    "total_nodes",
    "submitted_last_hour",
    "submitted_nodes_last_hour",
    "mean_wait_h",
)


def feature_names(*, forecast: bool) -> tuple[str, ...]:
    """Names of the features, in order.

    Args:
        forecast: Whether the features of a forecast are included.
    """
    return (*CHAIN, *ORDER, *QUEUE, *(forecast_features.NAMES if forecast else ()))


def features_of(view: View, forecast: StartForecast | None = None) -> tuple[Floats32, tuple[str, ...]]:
    """Features of a view with a chain, shape (features,), and their names.

    Args:
        view: A view in which the present link runs.
        forecast: A forecast of ``forecast_of``; None to leave its features out.
    """
    chain = view.chain
    assert chain is not None
    remaining_s = chain.ends_s - view.now_s
    waited_s = chain.started_s - chain.submitted_s
    parts = [
        np.array([remaining_s / HOUR_S, chain.nodes, chain.limit_s / HOUR_S, waited_s / HOUR_S]),
        _after_queue(view, chain, remaining_s),
        _queue(view),
    ]
    if forecast is not None:
        parts.append(forecast_features.forecast_features(forecast))
    return np.concatenate(parts).astype(np.float32), feature_names(forecast=forecast is not None)


def _after_queue(view: View, chain: ChainView, remaining_s: int) -> Floats:
    """Wait after the queue minus remaining time, and the overlap, for both run times."""
    waits_s = [wait_after_queue_s(view, chain, run_s(view)) for run_s in (expected_run_s, limit_run_s)]
    gap_h = (np.minimum(waits_s, LONGEST_WAIT_S) - remaining_s) / HOUR_S
    return np.concatenate([gap_h, np.maximum(-gap_h, 0.0)])


def _queue(view: View) -> Floats:
    """The ``QUEUE`` features."""
    pending, running, ended = view.pending, view.running, view.ended
    hour_ago_s = view.now_s - HOUR_S
    submit_s = np.concatenate([pending.submit_s, running.submit_s, ended.submit_s])
    new = np.concatenate([pending.nodes, running.nodes, ended.nodes])[submit_s > hour_ago_s]
    longest_s = view.now_s - int(pending.submit_s.min()) if len(pending) else 0
    free = float(view.nodes.free[:, 0].sum()) if view.nodes.pools else _free_share(view) * view.nodes.total
    return np.array([
        len(pending), pending.nodes.sum(), (pending.nodes * (pending.limit_s / HOUR_S)).sum(), longest_s / HOUR_S,
        len(running), free, view.nodes.total, len(new), new.sum(),
        _mean_wait_s(view) / HOUR_S,
    ], dtype=np.float64)  # fmt: skip


def _free_share(view: View) -> float:
    """Free share of shared nodes: of GPUs where there are any, of CPUs elsewhere."""
    total, free = view.nodes.capacity.sum(axis=0), view.nodes.free.sum(axis=0)
    scarce = 0 if total[0] else 1
    return float(free[scarce] / max(total[scarce], 1))


def _mean_wait_s(view: View) -> float:
    """Mean wait of the jobs that started last; 0 where none is known."""
    start_s = np.concatenate([view.ended.start_s, view.running.start_s])
    if not len(start_s):
        return 0.0
    submit_s = np.concatenate([view.ended.submit_s, view.running.submit_s])
    last = start_s >= np.partition(start_s, -min(LAST_STARTED, len(start_s)))[-min(LAST_STARTED, len(start_s))]
    return float((start_s - submit_s)[last].mean())
