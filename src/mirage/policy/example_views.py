"""Example views to try a policy on: one queue, and a chain through the life of a link.

Other views have the next link queued too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from mirage.duration import HOUR_S, MINUTE_S
from mirage.policy.view import ChainView, Ended, Ints, Nodes, QueuedLink, QueueJobs, View

NODES = 32
LIMIT_S = 48 * HOUR_S
STEP_S = 30 * MINUTE_S
BEGIN_S = 1_000 * HOUR_S
QUEUED = 18
"""Id of the next link, where it is queued."""

_MISSING = -1


def example_views(seed: int = 0) -> Iterator[View]:
    """Views of a chain in order: its link waits, started, is half-way, is near its end, ended."""
    yield _view(seed, BEGIN_S, _chain(BEGIN_S, _MISSING))
    for elapsed_s in (0, LIMIT_S // 2, LIMIT_S - 4 * HOUR_S, LIMIT_S - STEP_S, LIMIT_S):
        yield _view(seed, BEGIN_S + elapsed_s, _chain(BEGIN_S - HOUR_S, BEGIN_S))


def queued_views(seed: int = 0) -> Iterator[View]:
    """Views in order of a chain with its next link queued.

    The next link competes, is held, has a begin time, competes, is held, and is still held at the end of the present
    link. It has had an age since half-way through the present link; in the last view but one it has none.
    """
    half_s, early_s, late_s = LIMIT_S // 2, LIMIT_S - 4 * HOUR_S, LIMIT_S - STEP_S
    for elapsed_s, held, begins_s, aged in (
        (half_s + MINUTE_S, False, _MISSING, True),
        (early_s, True, _MISSING, True),
        (early_s + STEP_S, False, BEGIN_S + late_s, True),
        (late_s, False, _MISSING, True),
        (late_s + MINUTE_S, True, _MISSING, False),
        (LIMIT_S, True, _MISSING, True),
    ):
        submitted_s = BEGIN_S + half_s
        link = QueuedLink(QUEUED, submitted_s, submitted_s if aged else _MISSING, LIMIT_S, held, begins_s)
        chain = replace(_chain(BEGIN_S - HOUR_S, BEGIN_S), queued=link)
        yield _view(seed, BEGIN_S + elapsed_s, chain)


def _chain(submitted_s: int, started_s: int) -> ChainView:
    ends_s = _MISSING if started_s == _MISSING else started_s + LIMIT_S
    return ChainView(1, LIMIT_S, 0, submitted_s, started_s, ends_s, STEP_S)


def _view(seed: int, now_s: int, chain: ChainView) -> View:
    """The view at ``now_s``.

    Job 0 is the link; jobs 1 to 5 run; jobs 6 to 17 wait, more than fit; others have ended lately.

    The next link is the last that waits or is held, where it is queued.
    """
    rng = np.random.default_rng([seed, now_s])
    starts_s = now_s - rng.integers(1, 9, 5) * HOUR_S
    running = _jobs(np.arange(1, 6), rng.integers(1, 6, 5), 12 * HOUR_S, starts_s - HOUR_S, starts_s, now_s)
    submit_s = now_s - rng.integers(0, 9, 12) * HOUR_S
    pending = _jobs(np.arange(6, 18), rng.integers(1, 9, 12), 12 * HOUR_S, submit_s, np.full(12, _MISSING), now_s)
    link = _jobs(
        np.array([chain.predecessor]), np.array([chain.nodes]), LIMIT_S,
        np.array([chain.submitted_s]), np.array([chain.started_s]), now_s,
    )  # fmt: skip
    if chain.started_s == _MISSING:
        pending = pending.before(link)
    elif now_s < chain.ends_s:
        running = running.before(link)
    none = np.zeros(0, dtype=np.int64)
    held = _jobs(none, none, LIMIT_S, none, none, now_s)
    if chain.queued is not None:
        link = _jobs(
            np.array([QUEUED]), np.array([chain.nodes]), LIMIT_S,
            np.array([chain.queued.submitted_s]), np.array([_MISSING]), now_s,
        )  # fmt: skip
        if chain.queued.held or chain.queued.begins_s > now_s:
            held = replace(link, eligible_s=np.array([_MISSING]))
        else:
            pending = pending.before(link)
    free = np.array([[NODES - int(running.width.sum()), 0]])
    return View(
        now_s=now_s,
        nodes=Nodes(True, np.array([[NODES, 0]]), free, np.ones((1, 1), dtype=np.bool_)),
        pending=pending,
        running=running,
        held=held,
        ended=_ended(rng, now_s, 200),
        chain=chain,
    )


def _jobs(ids: Ints, nodes: Ints, limit_s: int, submit_s: Ints, start_s: Ints, now_s: int) -> QueueJobs:
    runs = start_s != _MISSING
    none = np.zeros(len(ids), dtype=np.int64)
    return QueueJobs(
        id=ids,
        user=ids % 4,
        partition=none,
        qos=none,
        nodes=nodes,
        gpus=none - 1,
        cpus=none,
        limit_s=none + limit_s,
        submit_s=submit_s,
        eligible_s=submit_s,
        start_s=start_s,
        width=np.where(runs, nodes, 0),
        done_s=np.where(runs, now_s - start_s, 0).astype(np.float64),
        priority=none.astype(np.float64),
        name=ids % 6,
        account=ids % 2,
        nice=none,
    )


def _ended(rng: np.random.Generator, now_s: int, n: int) -> Ended:
    end_s = np.sort(now_s - rng.integers(0, 96 * HOUR_S, n))
    start_s = end_s - rng.integers(MINUTE_S, 6 * HOUR_S, n)
    user = rng.integers(0, 4, n)
    return Ended(
        user=user,
        nodes=rng.integers(1, 9, n),
        limit_s=np.full(n, 6 * HOUR_S),
        submit_s=start_s - rng.integers(0, 8 * HOUR_S, n),
        start_s=start_s,
        end_s=end_s,
        name=(user + 4 * (start_s % 2)) % 6,
        account=user % 2,
        cpus=np.full(n, _MISSING),
    )
