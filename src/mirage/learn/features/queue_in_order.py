"""Start after the queue, if visible jobs run in order for their expected or longest time."""

from __future__ import annotations

from typing import Any

import numpy as np

from mirage.array_types import Floats
from mirage.kernel.compile import kernel
from mirage.policy.view import ChainView, QueueJobs, View

PRIOR_JOBS = 10.0
"""Weight of all users' ended jobs in a user's mean use of the limit, as a number of own jobs."""

_ENOUGH = 1e-9


def expected_run_s(view: View) -> tuple[Floats, Floats]:
    """Run times, shapes (pending,), (running,): of pending jobs, and total of running ones.

    A pending job uses the mean share of its limit that its user's ended jobs used, shrunk towards the mean of all
    users. A running job uses the mean share of those jobs that used more than it has so far, and all of its limit where
    none did. Without history all jobs use their whole limit, and the chain's present link always does.
    """
    ended, running = view.ended, view.running
    elapsed_s = (view.now_s - running.start_s).astype(np.float64)
    if not len(ended):
        return view.pending.limit_s.astype(np.float64), np.maximum(running.limit_s, elapsed_s)
    uses = np.clip((ended.end_s - ended.start_s) / np.maximum(ended.limit_s, 1), 0.0, 1.0)
    users = int(max(user.max(initial=0) for user in (ended.user, view.pending.user))) + 2
    known = np.bincount(ended.user + 1, minlength=users)
    used = np.bincount(ended.user + 1, uses, minlength=users)
    mean = (used + PRIOR_JOBS * uses.mean()) / (known + PRIOR_JOBS)
    ascending = np.append(np.sort(uses), 1.0)
    above = np.cumsum(ascending[::-1])[::-1] / np.arange(len(ascending), 0, -1)
    longer = np.searchsorted(ascending, elapsed_s / np.maximum(running.limit_s, 1), side="right")
    of_running = above[np.minimum(longer, len(ascending) - 1)]
    if view.chain is not None:
        of_running[running.id == view.chain.predecessor] = 1.0
    return view.pending.limit_s * mean[view.pending.user + 1], np.maximum(running.limit_s * of_running, elapsed_s)


def limit_run_s(view: View) -> tuple[Floats, Floats]:
    """Run times of pending and running jobs at their whole limit; see ``expected_run_s``."""
    return view.pending.limit_s.astype(np.float64), view.running.limit_s.astype(np.float64)


def wait_after_queue_s(view: View, chain: ChainView, run_s: tuple[Floats, Floats]) -> float:
    """Wait of a link submitted now, first come first served after all pending jobs.

    No job passes another. Nodes are one pool; where jobs share nodes, a job counts as its share of each of its nodes.

    Args:
        run_s: Run times of the pending jobs, and total run times of the running ones.

    Returns:
        Seconds; infinite where the link is larger than the machine.
    """
    pending, running = view.pending, view.running
    total = float(view.nodes.total)
    ends_s = np.maximum(running.start_s + run_s[1] - view.now_s, 1.0)
    order = np.argsort(ends_s, kind="stable")
    held = running.width * _share(view, running)
    room = len(running) + len(pending)
    busy_until_s, busy = np.empty(room), np.empty(room)
    busy_until_s[: len(running)], busy[: len(running)] = ends_s[order], held[order]
    free = max(total - float(held.sum()), 0.0)
    requested = pending.nodes * _share(view, pending)
    link = chain.nodes * _share_of(view, chain.gpus, chain.cpus)
    return float(start_in_order(requested, run_s[0], busy_until_s, busy, len(running), free, total, link))


def _share(view: View, jobs: QueueJobs) -> Floats:
    """Share of each of its nodes that a job takes."""
    if view.nodes.pools:
        return np.ones(len(jobs))
    shares = [_share_of(view, int(gpus), int(cpus)) for gpus, cpus in zip(jobs.gpus, jobs.cpus)]
    return np.array(shares, dtype=np.float64)


def _share_of(view: View, gpus: int, cpus: int) -> float:
    """Share of the largest node that GPUs and CPUs take; 1 for a job on whole nodes."""
    if view.nodes.pools or gpus < 0:
        return 1.0
    most = np.maximum(view.nodes.capacity.max(axis=0, initial=0), 1)
    return float(min(max(gpus / most[0], cpus / most[1]), 1.0))


@kernel()
def start_in_order(
    requested: Any, run_s: Any, busy_until_s: Any, busy: Any, running: int, free: float, total: float, link: float
) -> float:
    """Seconds to the start of a job that is last in order; infinite where it never fits.

    Args:
        requested: Shape (pending,): requested nodes, in queue order.
        run_s: Shape (pending,): run times.
        busy_until_s: Shape (running + pending,): when running jobs free their nodes, ascending; overwritten.
        busy: Shape (running + pending,): number of those nodes; overwritten.
        running: Number of running jobs.
        free: Nodes that are free now.
        total: Nodes of the machine; larger jobs are skipped.
        link: Nodes of the last job.
    """
    if link > total + _ENOUGH:
        return np.inf
    now_s, first, last = 0.0, 0, running
    for k in range(len(requested) + 1):
        nodes = requested[k] if k < len(requested) else link
        if nodes > total + _ENOUGH:
            continue
        while free < nodes - _ENOUGH and first < last:
            now_s = busy_until_s[first]
            free += busy[first]
            first += 1
        if k == len(requested):
            break
        free -= nodes
        position, until_s = last, now_s + run_s[k]
        while position > first and busy_until_s[position - 1] > until_s:
            busy_until_s[position], busy[position] = busy_until_s[position - 1], busy[position - 1]
            position -= 1
        busy_until_s[position], busy[position] = until_s, nodes
        last += 1
    return now_s
