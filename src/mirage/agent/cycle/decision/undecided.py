"""Chains about which there is something to decide: whether to submit the next link, or what to make of a queued one."""

from __future__ import annotations

from dataclasses import dataclass, field

from mirage.agent.cycle.context import CycleContext
from mirage.agent.model import Chain, ChainState, Link, LinkState
from mirage.errors import MirageError
from mirage.job_state import MISSING, JobState
from mirage.policy.registry import policy_spec
from mirage.policy.view import QueuedLink
from mirage.slurm.values import QueuedJob


@dataclass(frozen=True, slots=True)
class Undecided:
    """A chain of which exactly one link runs.

    Attributes:
        present: The link that runs.
        waiting: The next one, held or queued.
        queued: The next one as its policy may think about it again; None while it was never let loose, and for a
            policy that has no second thoughts.
    """

    present: Link
    waiting: Link
    queued: QueuedLink | None = None

    @property
    def about(self) -> tuple[int, int, bool]:
        """What a question is about: an answer about anything else is of no use."""
        return self.present.number, self.waiting.number, self.queued is not None


@dataclass(slots=True)
class SecondThoughts:
    """Which policies have second thoughts."""

    known: dict[str, bool] = field(default_factory=dict)

    def has(self, policy: str) -> bool:
        """Whether a policy is asked on; one that cannot be found is not, which is told when it is asked."""
        if policy not in self.known:
            try:
                self.known[policy] = policy_spec(policy).thinks_again
            except MirageError:
                return False
        return self.known[policy]


def undecided(context: CycleContext, chain: Chain, thoughts: SecondThoughts) -> Undecided | None:
    """What is to be decided about a chain, if anything.

    While two links run, a hand-over is under way: a third is not let loose before that is over, and a link whose
    successor is to take over at once is not thought about again. In a chain that never holds two, Slurm alone releases
    a link: its dependency is on the end of the one before.
    """
    if chain.state is not ChainState.ACTIVE or chain.spec.never_two:
        return None
    running, waiting = context.of(chain, LinkState.RUNNING), context.of(chain, LinkState.HELD, LinkState.QUEUED)
    if len(running) != 1 or not waiting or MISSING in (running[0].limit_s, waiting[-1].job):
        return None
    present, following = running[0], waiting[-1]
    if context.job_of(chain, present) is None or following.withdrawn_s != MISSING:
        return None
    if following.released_s == MISSING or not thoughts.has(chain.spec.policy):
        return Undecided(present, following) if following.state is LinkState.HELD else None
    job = context.job_of(chain, following)
    if job is None or job.state is not JobState.PENDING:
        return None
    if present.signalled_s != MISSING or following.number < present.number:
        return None
    return Undecided(present, following, _queued(context, following, job))


def _queued(context: CycleContext, link: Link, job: QueuedJob) -> QueuedLink:
    """A link as Slurm tells of it; while it is held, only we know to when it was put off."""
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
