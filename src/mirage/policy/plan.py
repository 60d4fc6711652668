"""Plans: typed actions, each with a reason a program can read."""

from __future__ import annotations

from dataclasses import dataclass, field

from mirage.policy.start_forecast import StartForecast


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One thing to do.

    Attributes:
        reason: Why, as ``word`` or ``word:key=value,…``; stable, for logs and statistics.
    """

    reason: str = ""


@dataclass(frozen=True, slots=True)
class Submit(Action):
    """Submit the next link of the chain now."""


@dataclass(frozen=True, slots=True)
class Wait(Action):
    """Do nothing now; look again at ``until_s``, or with the next event where it is None."""

    until_s: int | None = None


@dataclass(frozen=True, slots=True)
class Hold(Action):
    """Hold the queued link: it cannot start before it is released or the present link has ended.

    A link that was eligible once keeps the age it has, and goes on gathering it (measured on Slurm 22.05).
    """


@dataclass(frozen=True, slots=True)
class Postpone(Action):
    """Let the queued link start no earlier than ``start_s``; it keeps its age as one that is held does."""

    start_s: int


@dataclass(frozen=True, slots=True)
class Release(Action):
    """Let the queued link compete for nodes again."""


@dataclass(frozen=True, slots=True)
class Shorten(Action):
    """Give the queued link a shorter time limit, so that it fits into a gap before a reservation."""

    limit_s: int


@dataclass(frozen=True, slots=True)
class Withdraw(Action):
    """Take the queued link out of the queue; ``Submit`` later asks for one anew, without age."""


@dataclass(frozen=True, slots=True)
class Start(Action):
    """Start a pending job, on ``nodes`` nodes where it is elastic.

    Attributes:
        speed: Run time it does per second there; None for linear in nodes.
    """

    job: int
    nodes: int | None = None
    speed: float | None = None


@dataclass(frozen=True, slots=True)
class Resume(Start):
    """Start a job that was preempted; what resuming costs was said when it was preempted."""


@dataclass(frozen=True, slots=True)
class Preempt(Action):
    """Suspend a running job: it is queued again at its old place with the work it has done.

    Attributes:
        suspend_s: How much longer it holds its nodes, writing its checkpoint.
        resume_s: What its next start loses, reading it.
    """

    job: int
    suspend_s: int = 0
    resume_s: int = 0


@dataclass(frozen=True, slots=True)
class Resize(Action):
    """Give a running elastic job more nodes or fewer; it pauses ``pause_s`` for it."""

    job: int
    nodes: int
    speed: float | None = None
    pause_s: int = 0


@dataclass(frozen=True, slots=True)
class Cancel(Action):
    """Cancel a job wherever it stands."""

    job: int


@dataclass(frozen=True, slots=True)
class Lend(Action):
    """Let a partition use a node it does not own; jobs running there go on."""

    node: int
    partition: int


@dataclass(frozen=True, slots=True)
class Reclaim(Action):
    """Take a node out of a partition again; jobs running there go on until they end or are preempted."""

    node: int
    partition: int


@dataclass(frozen=True, slots=True)
class Plan:
    """Actions in the order in which they are to be done, and what the policy expects of them.

    Attributes:
        estimate: What the decision was based on, for its explanation: name → number, units in the names.
        forecast: The futures that it weighed, where it weighed any: what learners and explanations read.
    """

    actions: tuple[Action, ...] = ()
    estimate: dict[str, float] = field(default_factory=dict)
    forecast: StartForecast | None = field(default=None, compare=False, repr=False)

    @property
    def submits(self) -> bool:
        """Whether the next link is to be submitted now."""
        return any(isinstance(a, Submit) for a in self.actions)
