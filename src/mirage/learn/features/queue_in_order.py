"""Start behind the queue: the visible jobs run in order on free nodes, each for its expected or its longest time."""

from __future__ import annotations

from typing import Any

import numpy as np

from mirage.job_state import Floats
from mirage.policy.view import Chain, Jobs, View
from mirage.sim.kernel.compile import kernel

PRIOR_JOBS = 10.0
"""Everybody's ended jobs weigh as so many of a user's own in the mean use of the limit."""

_ENOUGH = 1e-9


def expected_run_s(view: View) -> tuple[Floats, Floats]:
    """How long the pending jobs will run, and how long the running ones will have run, shapes (pending,), (running,).

    A pending job uses of its limit what its user's ended jobs used in the mean, leaning on everybody's; a running one
    what everybody's used that used more than it has so far, and all where none did. Without history all use all, and
    the chain's present link always does.
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
    """How long pending and running jobs run if all use their whole limit, as ``expected_run_s``."""
    return view.pending.limit_s.astype(np.float64), view.running.limit_s.astype(np.float64)


def wait_behind_queue_s(view: View, chain: Chain, run_s: tuple[Floats, Floats]) -> float:
    """Wait of a link submitted now behind all pending jobs, first come first served, no job past another.

    Nodes are one pool; where jobs share nodes, a job takes its share of as many.

    Args:
        run_s: How long the pending jobs will run, and how long the running ones will have run.

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
    asked = pending.nodes * _share(view, pending)
    link = chain.nodes * _share_of(view, chain.gpus, chain.cpus)
    return float(start_in_order(asked, run_s[0], busy_until_s, busy, len(running), free, total, link))


def _share(view: View, jobs: Jobs) -> Floats:
    """Which part of each of its nodes a job takes."""
    if view.nodes.pools:
        return np.ones(len(jobs))
    shares = [_share_of(view, int(gpus), int(cpus)) for gpus, cpus in zip(jobs.gpus, jobs.cpus)]
    return np.array(shares, dtype=np.float64)


def _share_of(view: View, gpus: int, cpus: int) -> float:
    """Which part of the largest node this many GPUs and CPUs are; all of it for a job that takes whole nodes."""
    if view.nodes.pools or gpus < 0:
        return 1.0
    most = np.maximum(view.nodes.capacity.max(axis=0, initial=0), 1)
    return float(min(max(gpus / most[0], cpus / most[1]), 1.0))


@kernel()
def start_in_order(
    asked: Any, run_s: Any, busy_until_s: Any, busy: Any, running: int, free: float, total: float, link: float
) -> float:
    """Seconds from now to the start of a job behind all others, in order; infinite where it never fits.

    Args:
        asked: Shape (pending,): nodes, in queue order.
        run_s: Shape (pending,).
        busy_until_s: Shape (running + pending,): when those that run free their nodes, ascending; used up.
        busy: The same shape: how many; used up.
        running: How many run.
        free: Nodes that are free now.
        total: Nodes of the machine; jobs that are larger are passed over.
        link: Nodes of the last job.
    """
    if link > total + _ENOUGH:
        return np.inf
    now_s, first, last = 0.0, 0, running
    for k in range(len(asked) + 1):
        nodes = asked[k] if k < len(asked) else link
        if nodes > total + _ENOUGH:
            continue
        while free < nodes - _ENOUGH and first < last:
            now_s = busy_until_s[first]
            free += busy[first]
            first += 1
        if k == len(asked):
            break
        free -= nodes
        place, until_s = last, now_s + run_s[k]
        while place > first and busy_until_s[place - 1] > until_s:
            busy_until_s[place], busy[place] = busy_until_s[place - 1], busy[place - 1]
            place -= 1
        busy_until_s[place], busy[place] = until_s, nodes
        last += 1
    return now_s
