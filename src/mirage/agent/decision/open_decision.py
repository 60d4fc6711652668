"""An open decision about a chain, and the view of it for the policy."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median
from typing import Any

from mirage.agent.chain.spec_check import AT_THE_END
from mirage.agent.cycle.context import CycleContext
from mirage.agent.cycle.handover import grace_s
from mirage.agent.model import Chain, ChainState, Link, LinkState
from mirage.errors import MirageError
from mirage.job_state import MISSING, JobState
from mirage.policy.policy_registry import policy_spec
from mirage.policy.view import ChainView, QueuedLink, View
from mirage.slurm.records import QueuedJob
from mirage.slurm_words.hostlist import expand_hosts

ALIVE = (LinkState.HELD, LinkState.QUEUED, LinkState.RUNNING)
"""Links in these states may have a shortened limit; the next ones get the longest limit."""

LEAVING = ("drain", "down", "fail")
"""Parts of Slurm's words for a node that leaves service: ``draining``, ``drained``, ``down``, ``failing``."""

MOST_NOTICE = 0.25
"""Largest share of a link's limit that counts as the delay of passes."""

_FROM_JOB = ("user", "partition", "gpus", "cpus", "name", "account", "nice")


@dataclass(frozen=True, slots=True)
class Undecided:
    """A chain of which exactly one link runs.

    Attributes:
        present: The link that runs.
        waiting: The next one, held or queued.
        queued: The next one as its policy may revise it; None where it was never released, and for a policy that
            revises no queued link.
        edits: Number of changes of the chain's specification.
    """

    present: Link
    waiting: Link
    queued: QueuedLink | None = None
    edits: int = 0

    @property
    def about(self) -> tuple[int, int, bool, int]:
        """The state that a question is about; an answer about another state is discarded."""
        return self.present.number, self.waiting.number, self.queued is not None, self.edits


@dataclass(slots=True)
class RevisingPolicies:
    """The policies that revise queued links."""

    known: dict[str, bool] = field(default_factory=dict)

    def has(self, policy: str) -> bool:
        """Whether a policy revises queued links; False for an unknown policy.

        The request to an unknown policy reports the error.
        """
        if policy not in self.known:
            try:
                self.known[policy] = policy_spec(policy).revises_queued_link
            except MirageError:
                return False
        return self.known[policy]


def undecided(context: CycleContext, chain: Chain, revising: RevisingPolicies) -> Undecided | None:
    """The open decision about a chain; None where there is none.

    While two links run, a hand-over is under way: a third is not released before it is over, and a link that hands over
    soon is not revised. In a chain that never holds two, Slurm alone releases a link: it depends on the end of the
    previous one.
    """
    if chain.state is not ChainState.ACTIVE or chain.spec.never_two:
        return None
    running, waiting = context.of(chain, LinkState.RUNNING), context.next_links(chain)
    if len(running) != 1 or not waiting or MISSING in (running[0].limit_s, waiting[0].job):
        return None
    present, following = running[0], waiting[0]
    if context.job_of(chain, present) is None or following.withdrawn_s != MISSING:
        return None
    if following.released_s == MISSING or not revising.has(chain.spec.policy):
        return Undecided(present, following, edits=chain.edits) if following.state is LinkState.HELD else None
    job = context.job_of(chain, following)
    if job is None or job.state is not JobState.PENDING:
        return None
    if present.signalled_s != MISSING:
        return None
    return Undecided(present, following, _queued(context, following, job), chain.edits)


def leaving_node(context: CycleContext, link: Link) -> str:
    """The state and the name of a node that leaves service under a link; empty for none.

    An administrator drains a node to repair or to update it: the sooner the link leaves, the better.
    """
    hosts = set(expand_hosts(link.nodelist))
    nodes = context.machine.nodes if context.machine is not None and hosts else ()
    found = (node for node in nodes if node.name in hosts and any(word in node.state for word in LEAVING))
    return next((f"{node.state}:{node.name}" for node in found), "")


def _queued(context: CycleContext, link: Link, job: QueuedJob) -> QueuedLink:
    """A queued link as Slurm reports it; while it is held, the start time is ours."""
    held = bool(job.dependency)
    begins_s = job.eligible_s if not held and job.eligible_s > context.now_s else MISSING
    return QueuedLink(
        job=job.id,
        submitted_s=link.released_s,
        accrues_s=job.accrues_s,
        limit_s=job.limit_s if job.limit_s != MISSING else link.limit_s,
        held=held,
        begins_s=begins_s,
    )


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
    ends_s = present.limit_ends_s
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
    """The agent's delay: to observe a start, to observe readiness, and to decide again.

    A pass that has observed the start waits for the moment of readiness itself. However rare the passes are, most of
    the limit is left to the link.
    """
    settings = context.settings
    if settings.pass_every_s:
        notice_s = settings.pass_every_s + settings.interval_s(present.limit_s)
        return min(notice_s, round(MOST_NOTICE * present.limit_s))
    observed_s = 2 * settings.busy_poll_s if settings.notice_s == MISSING else settings.notice_s
    return observed_s + settings.interval_s(present.limit_s)


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
