"""Chains with an open decision: submit the next link, or revise a queued one."""

from __future__ import annotations

from dataclasses import dataclass, field

from mirage.agent.cycle.context import CycleContext
from mirage.agent.model import Chain, ChainState, Link, LinkState
from mirage.errors import MirageError
from mirage.job_state import MISSING, JobState
from mirage.policy.policy_registry import policy_spec
from mirage.policy.view import QueuedLink
from mirage.slurm.records import QueuedJob


@dataclass(frozen=True, slots=True)
class Undecided:
    """A chain of which exactly one link runs.

    Attributes:
        present: The link that runs.
        waiting: The next one, held or queued.
        queued: The next one as its policy may revise it; None where it was never released, and for a policy without
            second thoughts.
    """

    present: Link
    waiting: Link
    queued: QueuedLink | None = None

    @property
    def about(self) -> tuple[int, int, bool]:
        """The state that a question is about; an answer about another state is discarded."""
        return self.present.number, self.waiting.number, self.queued is not None


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
    running, waiting = context.of(chain, LinkState.RUNNING), context.of(chain, LinkState.HELD, LinkState.QUEUED)
    if len(running) != 1 or not waiting or MISSING in (running[0].limit_s, waiting[-1].job):
        return None
    present, following = running[0], waiting[-1]
    if context.job_of(chain, present) is None or following.withdrawn_s != MISSING:
        return None
    if following.released_s == MISSING or not revising.has(chain.spec.policy):
        return Undecided(present, following) if following.state is LinkState.HELD else None
    job = context.job_of(chain, following)
    if job is None or job.state is not JobState.PENDING:
        return None
    if present.signalled_s != MISSING or following.number < present.number:
        return None
    return Undecided(present, following, _queued(context, following, job))


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
