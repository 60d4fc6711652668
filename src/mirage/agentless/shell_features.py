"""Features that a POSIX shell can compute inside a job, as whole numbers.

Python and the shell use the same integer arithmetic, so a tree answers alike in both.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from mirage.array_types import Ints
from mirage.distill.tree import TreeFeature
from mirage.distill.units import Unit
from mirage.duration import DAY_S
from mirage.learn.features.hand_over_features import LONGEST_WAIT_S
from mirage.learn.features.queue_in_order import limit_run_s, wait_after_queue_s
from mirage.policy.view import ChainView, Ended, View

USE_S = 30 * DAY_S
"""The use of limits is that of jobs that ended in this time."""

LEAST_ENDED = 100
"""Fewer ended jobs give no use of limits; then jobs count as if they used all of them."""

THOUSAND = 1000

FEATURES = (
    TreeFeature("remaining", Unit.DURATION),
    TreeFeature("elapsed", Unit.DURATION),
    TreeFeature("slurm_wait", Unit.DURATION),
    TreeFeature("use", Unit.NUMBER),
    TreeFeature("expected_wait", Unit.DURATION),
    TreeFeature("spare", Unit.DURATION),
    TreeFeature("cover", Unit.NUMBER),
    TreeFeature("pending_jobs", Unit.NUMBER),
    TreeFeature("idle_links", Unit.NUMBER),
    TreeFeature("age_retained", Unit.NUMBER),
)
"""Features in the order of rows.

- ``remaining``, ``elapsed``: to the end of the present link, and since its start;
- ``slurm_wait``: the start that ``sbatch --test-only`` predicts, or the start in Slurm's plan of the next link when it
  last competed, whichever is earlier, minus now;
- ``use``: part of the requested node-time that jobs used, in thousandths;
- ``expected_wait``: ``slurm_wait`` × ``use`` / 1000;
- ``spare``: ``remaining`` minus ``expected_wait``;
- ``cover``: ``remaining`` in thousandths of ``expected_wait``;
- ``pending_jobs``: jobs that compete for nodes;
- ``idle_links``: idle nodes divided by the nodes of a link;
- ``age_retained``: 1 if a job that has competed retains its age while it is held again, otherwise 0.
"""

NAMES = tuple(feature.name for feature in FEATURES)


@dataclass(frozen=True, slots=True)
class MeasuredState:
    """The numbers that the shell measures; the other features follow from them.

    Attributes:
        remaining: Seconds to the end of the present link.
        elapsed: Seconds since its start.
        slurm_wait: Seconds from now to the predicted start of the next link.
        use: Use of limits, in thousandths.
        pending_jobs: Number of jobs that compete.
        idle_nodes: Number of idle nodes.
        link_nodes: Nodes of a link.
        age_retained: 1 if a held job retains its age, otherwise 0.
    """

    remaining: int
    elapsed: int
    slurm_wait: int
    use: int
    pending_jobs: int
    idle_nodes: int
    link_nodes: int
    age_retained: int

    def row(self) -> dict[str, int]:
        """Returns the features by name."""
        expected = self.slurm_wait * self.use // THOUSAND
        return {
            "remaining": self.remaining,
            "elapsed": self.elapsed,
            "slurm_wait": self.slurm_wait,
            "use": self.use,
            "expected_wait": expected,
            "spare": self.remaining - expected,
            "cover": self.remaining * THOUSAND // (expected + 1),
            "pending_jobs": self.pending_jobs,
            "idle_links": self.idle_nodes // max(self.link_nodes, 1),
            "age_retained": self.age_retained,
        }


def use_of(ended: Ended, now_s: int) -> int:
    """Use of limits by the jobs that ended in the last 30 days, in thousandths.

    See ``mean_use``.
    """
    recent = ended.end_s > now_s - USE_S
    return mean_use(ended.end_s[recent] - ended.start_s[recent], ended.limit_s[recent], ended.nodes[recent])


def mean_use(run_s: Ints, limit_s: Ints, nodes: Ints) -> int:
    """The part of all requested node-time that jobs used, in thousandths.

    This is the mean share of their limits, weighted by limit times nodes: as jobs count in ``slurm_wait``. It is 1000
    with fewer than ``LEAST_ENDED`` jobs. Jobs without a limit, and those that ended in the second of their start, do
    not count.

    Args:
        run_s: Shape (n,), run times.
        limit_s: Shape (n,), time limits.
        nodes: Shape (n,), nodes.
    """
    counts = (run_s > 0) & (limit_s > 0)
    if int(counts.sum()) < LEAST_ENDED:
        return THOUSAND
    weight = np.maximum(nodes[counts], 1).astype(np.float64)
    used, requested = np.minimum(run_s[counts], limit_s[counts]) * weight, limit_s[counts] * weight
    return max(round(THOUSAND * float(used.sum() / requested.sum())), 1)


def slurm_wait_s(view: View, chain: ChainView) -> int:
    """The wait that ``sbatch --test-only`` predicts for a link, in seconds.

    slurmctld finds the first time at which enough running jobs have reached their limits, and adds the node-time that
    the pending jobs of the partition request, divided by its nodes (``_delayed_job_start_time``; measured on 22.05.8).
    It counts only pending jobs of at least the link's priority; here all of them count, as a newcomer has no age. For a
    link that has competed, the shell subtracts the jobs behind it; here these are the jobs that were submitted later.
    """
    pending = view.pending
    if chain.queued is not None:
        pending = pending[(pending.id != chain.queued.job) & (pending.submit_s <= chain.queued.submitted_s)]
    alone = replace(view, pending=pending[np.zeros(len(pending), dtype=np.bool_)])
    first_s = wait_after_queue_s(alone, chain, limit_run_s(alone))
    ahead = pending.partition == chain.partition
    rows = view.nodes.capacity[view.nodes.allowed[chain.partition]]
    nodes = int(rows[:, 0].sum() if view.nodes.pools else len(rows))
    ahead_s = int((pending.nodes[ahead] * pending.limit_s[ahead]).sum()) // max(nodes, 1)
    return int(min(first_s, LONGEST_WAIT_S)) + ahead_s


def measured_state(
    view: View, chain: ChainView, use: int, *, age_retained: bool = False, planned_wait_s: int | None = None
) -> MeasuredState:
    """Returns what a shell in the present link would measure.

    Args:
        use: Use of limits, in thousandths.
        age_retained: Whether a held job retains its age on this cluster.
        planned_wait_s: The wait that Slurm planned for the next link when it last competed; None without a plan.
    """
    nodes = view.nodes
    predicted_s = slurm_wait_s(view, chain)
    idle = nodes.free[:, 0].sum() if nodes.pools else ((nodes.free == nodes.capacity).all(axis=1)).sum()
    return MeasuredState(
        remaining=chain.ends_s - view.now_s,
        elapsed=view.now_s - chain.started_s,
        slurm_wait=predicted_s if planned_wait_s is None else min(predicted_s, planned_wait_s),
        use=use,
        pending_jobs=len(view.pending),
        idle_nodes=int(idle),
        link_nodes=chain.nodes,
        age_retained=int(age_retained),
    )
