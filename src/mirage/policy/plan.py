"""Plans: typed actions, each with a machine-readable reason."""

from __future__ import annotations

from dataclasses import dataclass, field

from mirage.policy.policy_choice import PolicyChoice
from mirage.policy.start_forecast import StartForecast


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One action of a plan.

    Attributes:
        reason: Why, as ``word`` or ``word:key=value,…``; stable, for logs and statistics.
    """

    reason: str = ""


@dataclass(frozen=True, slots=True)
class Submit(Action):
    """Submit the next link of the chain now."""


@dataclass(frozen=True, slots=True)
class Wait(Action):
    """Do nothing now; decide again at ``until_s``, or at the next event where it is None."""

    until_s: int | None = None


@dataclass(frozen=True, slots=True)
class Hold(Action):
    """Hold the queued link until it is released or the present link has ended.

    A link that was eligible once keeps its age and continues to gain age (measured on Slurm 22.05).
    """


@dataclass(frozen=True, slots=True)
class Postpone(Action):
    """Let the queued link start no earlier than ``start_s``; its age is as for ``Hold``."""

    start_s: int


@dataclass(frozen=True, slots=True)
class Release(Action):
    """Let the queued link compete for nodes again."""


@dataclass(frozen=True, slots=True)
class Shorten(Action):
    """Give the queued link a shorter time limit, to fit it into a gap before a reservation."""

    limit_s: int


@dataclass(frozen=True, slots=True)
class Withdraw(Action):
    """Cancel the queued link; a later ``Submit`` submits a new one, without age."""


@dataclass(frozen=True, slots=True)
class Start(Action):
    """Start a pending job; an elastic one on ``nodes`` nodes.

    Attributes:
        speed: Run time it does per second there; None for linear in nodes.
    """

    job: int
    nodes: int | None = None
    speed: float | None = None


@dataclass(frozen=True, slots=True)
class Resume(Start):
    """Start a job that was preempted; ``Preempt`` declared the cost of resuming."""


@dataclass(frozen=True, slots=True)
class Preempt(Action):
    """Suspend a running job: it is queued again at its old place and retains its work done.

    Attributes:
        suspend_s: How much longer it holds its nodes, to write its checkpoint.
        resume_s: Time that its next start loses, to read it.
    """

    job: int
    suspend_s: int = 0
    resume_s: int = 0


@dataclass(frozen=True, slots=True)
class Resize(Action):
    """Give a running elastic job more or fewer nodes; it pauses ``pause_s`` for it."""

    job: int
    nodes: int
    speed: float | None = None
    pause_s: int = 0


@dataclass(frozen=True, slots=True)
class Cancel(Action):
    """Cancel a job in any state."""

    job: int


@dataclass(frozen=True, slots=True)
class Lend(Action):
    """Let a partition use a node it does not own; jobs running there continue."""

    node: int
    partition: int


@dataclass(frozen=True, slots=True)
class Reclaim(Action):
    """Take a lent node back from a partition.

    Jobs running there continue until they end or are preempted.
    """

    node: int
    partition: int


@dataclass(frozen=True, slots=True)
class Plan:
    """Actions in the order of execution, and what the policy expects of them.

    Attributes:
        estimate: What the decision was based on, for its explanation: name → number, units in the names.
        forecast: The simulated futures, where it used any; for learners and explanations.
        choice: Which policy decided, and why that one, if the called policy is a choice among several.
    """

    actions: tuple[Action, ...] = ()
    estimate: dict[str, float] = field(default_factory=dict)
    forecast: StartForecast | None = field(default=None, compare=False, repr=False)
    choice: PolicyChoice | None = field(default=None, repr=False)

    @property
    def submits(self) -> bool:
        """Whether the next link is to be submitted now."""
        return any(isinstance(a, Submit) for a in self.actions)
