"""Snapshot of a view for learners: 42 numbers, the columns of the published Mirage state.

All numbers are in hours and nodes.

0 pending jobs; 1 nodes they request; 2–6, 7–11, 12–16 minimum, quartiles and maximum of their limit, wait and run time
(always 0); 17 running jobs; 18 nodes they hold; 19–23, 24–28, 29–33 the same of their limit, past wait and elapsed run
time; 34–37 the present link's limit, nodes, wait and elapsed run time; 38–41 the same of the next one, which has
neither waited nor run.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mirage.duration import HOUR_S
from mirage.job_state import MISSING
from mirage.policy.view import ChainView, View

COLUMNS = 42
_QUARTILES = (0.0, 0.25, 0.5, 0.75, 1.0)


def snapshot(view: View, chain: ChainView | None = None) -> NDArray[np.float32]:
    """Returns the 42 numbers of a view, shape (42,).

    Args:
        chain: The chain, if the view does not have it: before its first link was submitted.
    """
    chain = view.chain or chain
    pending, running = view.pending, view.running
    row = np.zeros(COLUMNS, dtype=np.float32)
    row[0], row[1] = len(pending), pending.nodes.sum()
    row[17], row[18] = len(running), running.width.sum()
    if len(pending):
        waits = view.now_s - pending.submit_s
        row[2:17] = _spread(np.stack([pending.limit_s, waits, np.zeros_like(waits)]))
    if len(running):
        past = np.stack([running.limit_s, running.start_s - running.submit_s, view.now_s - running.start_s])
        row[19:34] = _spread(past)
    if chain is not None:
        row[34], row[35] = chain.limit_s / HOUR_S, chain.nodes
        row[38], row[39] = row[34], row[35]
        if chain.submitted_s != MISSING:
            started = chain.started_s != MISSING
            row[36] = ((chain.started_s if started else view.now_s) - chain.submitted_s) / HOUR_S
            row[37] = (view.now_s - chain.started_s) / HOUR_S if started else 0.0
    return row


def _spread(rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """Minimum, quartiles and maximum of each row, in hours, row after row."""
    spread: NDArray[np.float64] = np.quantile(rows / HOUR_S, _QUARTILES, axis=1).T.reshape(-1)
    return spread
