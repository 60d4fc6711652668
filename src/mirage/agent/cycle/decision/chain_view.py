"""The chain as its policy sees it, and the numbers that a decision saw."""

from __future__ import annotations

from statistics import median
from typing import Any

from mirage.agent.chain.spec_check import AT_THE_END
from mirage.agent.cycle.context import CycleContext
from mirage.agent.cycle.handover import grace_s
from mirage.agent.model import Chain, Link, LinkState
from mirage.job_state import MISSING
from mirage.policy.view import Chain as ChainView
from mirage.policy.view import View

ALIVE = (LinkState.HELD, LinkState.QUEUED, LinkState.RUNNING)
"""A link of these may have been shortened; the next ones have the limit of the longest."""

_FROM_JOB = ("user", "partition", "gpus", "cpus", "name", "account", "nice")


def chain_view(context: CycleContext, chain: Chain, present: Link, waiting: Link, view: View) -> ChainView:
    """The chain for its policy.

    The running link ends, for the policy, when the next must have *started*: earlier than its limit by its grace, by
    the time that the next one takes to load, and by what the agent takes to observe that and to decide.

    Args:
        waiting: The next link, held or queued: the priority that Slurm has computed for its job is its own.
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
    """What the agent takes to observe that a link has started, that it is ready, and to decide once more."""
    return 2 * context.settings.busy_poll_s + context.settings.interval_s(present.limit_s)


def load_time_s(context: CycleContext, chain: Chain) -> int:
    """The load time of a link: as the user says, else as earlier links took."""
    if not chain.spec.ready_command and not chain.spec.ready_by_job:
        return chain.spec.warmup_s
    took = [x.ready_s - x.started_s for x in context.links.get(chain.id, ()) if MISSING not in (x.ready_s, x.started_s)]
    return int(median(took)) if took else chain.spec.warmup_s


def summary(view: View) -> dict[str, float]:
    """The numbers that a decision saw, which a person can check against squeue."""
    free = view.nodes.free[:, 0].sum() if view.nodes.pools else (view.nodes.free >= view.nodes.capacity).all(1).sum()
    return {
        "pending_jobs": float(len(view.pending)),
        "pending_nodes": float(view.pending.nodes.sum()),
        "running_jobs": float(len(view.running)),
        "running_nodes": float(view.running.nodes.sum()),
        "free_nodes": float(free),
        "nodes": float(view.nodes.total),
    }
