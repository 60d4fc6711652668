"""A chain's view for its policy, and a summary of the view for the record of a decision."""

from __future__ import annotations

from statistics import median
from typing import Any

from mirage.agent.chain.spec_check import AT_THE_END
from mirage.agent.cycle.context import CycleContext
from mirage.agent.cycle.handover import grace_s
from mirage.agent.model import Chain, Link, LinkState
from mirage.job_state import MISSING
from mirage.policy.view import ChainView, View

ALIVE = (LinkState.HELD, LinkState.QUEUED, LinkState.RUNNING)
"""Links in these states may have a shortened limit; the next ones get the longest limit."""

_FROM_JOB = ("user", "partition", "gpus", "cpus", "name", "account", "nice")


def chain_view(context: CycleContext, chain: Chain, present: Link, waiting: Link, view: View) -> ChainView:
    """The chain for its policy.

    For the policy, the running link ends when the next one must have *started*. That is earlier than its limit by its
    grace, by the load time of the next link, and by the agent's delay to observe the start and to decide.

    Args:
        waiting: The next link, held or queued. The priority is the one that Slurm has computed for its job.
    """
    job = context.snapshot.by_id[present.job]
    following = context.job_of(chain, waiting)
    mine = view.running.id == present.job
    ends_s = present.started_s + present.limit_s
    if chain.spec.policy.partition(":")[0] not in AT_THE_END:
        ends_s -= grace_s(chain, present) + load_time_s(context, chain) + notice_s(context, present)
    known: dict[str, Any] = {name: int(getattr(view.running, name)[mine][0]) for name in _FROM_JOB if mine.any()}
    return ChainView(
        nodes=job.nodes,
        limit_s=max(link.limit_s for link in context.of(chain, *ALIVE)),
        predecessor=present.job,
        submitted_s=present.submitted_s,
        started_s=present.started_s,
        ends_s=max(ends_s, present.started_s),
        step_s=context.settings.interval_s(present.limit_s),
        priority=following.priority if following is not None else 0.0,
        accrues_s=following.accrues_s if following is not None else MISSING,
        **known,
    )


def notice_s(context: CycleContext, present: Link) -> int:
    """The agent's delay: to observe a start, to observe readiness, and to decide again."""
    return 2 * context.settings.busy_poll_s + context.settings.interval_s(present.limit_s)


def load_time_s(context: CycleContext, chain: Chain) -> int:
    """The load time of a link: the median of earlier links, else the configured warm-up."""
    if not chain.spec.ready_command and not chain.spec.ready_by_job:
        return chain.spec.warmup_s
    took = [x.ready_s - x.started_s for x in context.links.get(chain.id, ()) if MISSING not in (x.ready_s, x.started_s)]
    return int(median(took)) if took else chain.spec.warmup_s


def summary(view: View) -> dict[str, float]:
    """Counts of jobs and nodes in a view, which a person can check against squeue."""
    free = view.nodes.free[:, 0].sum() if view.nodes.pools else (view.nodes.free >= view.nodes.capacity).all(1).sum()
    return {
        "pending_jobs": float(len(view.pending)),
        "pending_nodes": float(view.pending.nodes.sum()),
        "running_jobs": float(len(view.running)),
        "running_nodes": float(view.running.nodes.sum()),
        "free_nodes": float(free),
        "nodes": float(view.nodes.total),
    }
