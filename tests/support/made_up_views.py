"""Views made by hand, a line each."""

from __future__ import annotations

from typing import Any

import numpy as np

from mirage.policy.view import ChainView, Ended, Nodes, QueueJobs, View


def jobs(*rows: dict[str, Any]) -> QueueJobs:
    """Pending or running jobs from ``{"nodes": 1, "limit_s": 3600, …}``."""
    defaults: dict[str, Any] = {
        "user": 1, "partition": 0, "qos": 0, "nodes": 1, "gpus": -1, "cpus": 1, "limit_s": 3600, "submit_s": 0,
        "eligible_s": 0, "start_s": -1, "width": 0, "done_s": 0.0, "priority": 0.0, "name": -1, "account": -1,
        "nice": 0,
    }  # fmt: skip
    full = [{**defaults, "id": k, **row} for k, row in enumerate(rows)]
    columns: dict[str, Any] = {name: np.array([row[name] for row in full]) for name in ("id", *defaults)}
    kinds = {name: np.float64 if name in ("done_s", "priority") else np.int64 for name in columns}
    return QueueJobs(**{name: column.astype(kinds[name]) for name, column in columns.items()})


def ended(*rows: tuple[int, ...]) -> Ended:
    """Ended jobs: (user, nodes, limit_s, submit_s, start_s, end_s[, name, account, cpus])."""
    full = [(*row, -1, -1, -1)[:9] for row in rows]
    return Ended(*np.array(full, dtype=np.int64).reshape(-1, 9).T.copy())


def view(
    now_s: int, nodes: int, free: int, *, pending: QueueJobs | None = None, running: QueueJobs | None = None,
    history: Ended | None = None, chain: ChainView | None = None, held: QueueJobs | None = None,
) -> View:  # fmt: skip
    """A view of one pool."""
    return View(
        now_s=now_s,
        nodes=Nodes(True, np.array([[nodes, 0]]), np.array([[free, 0]]), np.ones((1, 1), dtype=np.bool_)),
        pending=pending or jobs(),
        running=running or jobs(),
        held=held or jobs(),
        ended=history or ended(),
        chain=chain,
    )


def chain(
    ends_s: int, *, nodes: int = 1, limit_s: int = 100_000, predecessor: int = 99, step_s: int = 1800
) -> ChainView:
    """A chain with a present link that ends at a time."""
    return ChainView(nodes, limit_s, predecessor, ends_s - limit_s, ends_s - limit_s, ends_s, step_s)
