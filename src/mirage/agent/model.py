"""Chains and links as the agent stores them.

The states of a link; each step is stored before the next one is taken:

    planned ──sbatch──▶ held ──dependency cleared, or its predecessor ended──▶ queued ──▶ running ──▶ ended

``planned`` with ``attempted_s`` set means that sbatch may have run: the agent searches the queue before it runs sbatch
again. The next link is *held* by ``afterany`` on its predecessor from the predecessor's start: if the agent dies, the
link follows without it. A release clears that dependency; a revision may set it again, which holds the link.

Where a link waits for longer than links may run, one waiting link is not enough: then further ones compete at the same
time, each submitted without a dependency.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from mirage.duration import HOUR_S, UNLIMITED_S
from mirage.job_state import MISSING, JobState
from mirage.slurm.records import Submission

SHELL, STEPS, ALL = "shell", "steps", "all"
"""Receivers of a link's signal: its batch shell, its steps, or all its processes."""


class ChainState(StrEnum):
    """The state of a chain."""

    ACTIVE = "active"
    PAUSED = "paused"  # a running link continues; none waits in the queue
    ENDING = "ending"  # no link follows; running links run to their end
    STOPPING = "stopping"  # no link follows; running links are cancelled
    DONE = "done"


class LinkState(StrEnum):
    """The state of a link."""

    PLANNED = "planned"
    HELD = "held"
    QUEUED = "queued"
    RUNNING = "running"
    ENDED = "ended"


WAITING = (LinkState.PLANNED, LinkState.HELD, LinkState.QUEUED)
"""The states of a link that has not started."""

WAITING_LINKS = 3
"""Default of the maximum number of links of a chain that wait at once."""

GRACE_S = 120
"""Default of the time for which a link still runs after its successor has become ready."""


@dataclass(frozen=True, slots=True)
class ChainSpec:
    """The specification of a chain by its user, which only the user changes.

    Attributes:
        submission: The job of every link, with the environment of the submission; the script is our own copy.
        until_s: No link starts after this; ``MISSING`` for no end.
        links: Maximum number of links; 0 for no maximum.
        until_done: Whether a link that ends without our signal with exit code 0 ends the chain.
        policy: Name of the provisioner: ``what-if``, ``lead:4``.
        interruption_cost: Cost of an hour of interruption.
        overlap_cost: Cost of an hour of overlap.
        ready_command: Shell command that succeeds once the next link can take over; empty for none.
        ready_by_job: Whether a link can take over once it has reported ready itself, by ``mirage link ready``.
        warmup_s: Without either, the time a link runs before it can take over.
        signal: Sent to the previous link when the next is ready; empty for none.
        grace_s: Time between that signal and the end of the previous link.
        later_script: Copy of the script for all links but the first, where it differs; else empty. Relative to the
            agent's folder, as the script of the submission.
        request_id: Key of the request that made the chain, so that a repeated request makes no second one; empty for
            none.
        bank_age: Whether a link may be submitted early and held only to gather age.
        least_limit_s: The shortest time limit of a link (sbatch's ``--time-min``); ``MISSING`` where not given.
        slurm_warning_s: Time before the limit at which Slurm itself signals a link's batch script (``--signal=B:``),
            which needs no agent; 0 for never: the user requests a signal from Slurm, or wants none.
        least_life: Share of a link's limit in which the next one is not released, if the link itself started with more
            than a quarter of its predecessor's limit left; ``MISSING`` for the policy's default.
        waiting_links: Maximum number of links that wait in the queue at once.
        links_a_day: Maximum number of links that may start within 24 hours before the chain is paused; 0 for a number
            that follows from their limit.
        never_two: Whether a link may only start once Slurm reports the end of the previous one.
        folder: The agent's folder at the submission, to which the paths of both scripts are relative; empty where the
            scripts are not our copies.
        agentless_after: Number of the last link that needs the agent: the next one continues the chain without it;
            ``MISSING`` where all need it.
        framework: The preset of its script (``--framework``); empty for none.
        notify: Targets of messages about the chain: URLs, mail addresses and shell commands.
        notify_gap_s: Time without a running link after which a message is due.
        progress_file: Path of the progress file or of the checkpoints, with wildcards; empty for none.
        no_progress_links: Number of links without progress, in a row, after which the chain is paused.
        budget_node_h: Node-hours that its links may use; 0 for no budget.
        shortest_link_s: The shortest limit that the agent gives to a link so that it ends before a reservation;
            ``MISSING`` for the default.
        to_batch_shell: Whether only the batch shell of a link gets the signal, because it passes it on; otherwise all
            processes of the link do.
        to_steps: Whether only the steps of a link get the signal, because its batch shell has no trap for it.
        first_signal: What the first link gets instead, where it was adopted: ``steps:USR1``, ``shell:USR2``,
            ``all:TERM``, ``none``; empty where it was submitted.
    """

    submission: Submission
    until_s: int = MISSING
    links: int = 0
    until_done: bool = False
    policy: str = "what-if"
    interruption_cost: float = 1.0
    overlap_cost: float = 1.0
    ready_command: str = ""
    warmup_s: int = 0
    signal: str = "USR2"
    grace_s: int = GRACE_S
    ready_by_job: bool = False
    later_script: str = ""
    request_id: str = ""
    bank_age: bool = False
    least_limit_s: int = MISSING
    slurm_warning_s: int = 0
    least_life: float = MISSING
    waiting_links: int = WAITING_LINKS
    links_a_day: int = 0
    never_two: bool = False
    folder: str = ""
    to_batch_shell: bool = False
    to_steps: bool = False
    first_signal: str = ""
    agentless_after: int = MISSING
    framework: str = ""
    notify: tuple[str, ...] = ()
    notify_gap_s: int = HOUR_S
    progress_file: str = ""
    no_progress_links: int = 2
    shortest_link_s: int = MISSING
    budget_node_h: float = 0.0

    @property
    def agentless(self) -> bool:
        """Whether its next link continues the chain without an agent."""
        return self.agentless_after != MISSING

    def signal_to(self, link: int) -> tuple[str, str]:
        """The signal of a link, empty for none, and its receivers.

        Args:
            link: Number of the link.

        Returns:
            Name of the signal, and ``shell``, ``steps`` or ``all``.
        """
        if link == 1 and self.first_signal:
            receivers, _, name = self.first_signal.partition(":")
            return name, receivers
        return self.signal, SHELL if self.to_batch_shell else STEPS if self.to_steps else ALL

    def slurm_warning_of(self, link: int) -> int:
        """The time before a link's limit at which Slurm itself signals it, seconds.

        It is 0 for an adopted link: what it has requested from Slurm is unknown.
        """
        return 0 if link == 1 and self.first_signal else self.slurm_warning_s


@dataclass(frozen=True, slots=True)
class Chain:
    """A chain.

    Attributes:
        name: Unique in the store, and safe in a comment, a file name and a label.
        key: Random letters that identify the chain in its store.
        why: Why it is paused or done; empty while active.
        refusals: Submissions refused in a row.
        failures: Links that failed soon after their start, in a row.
        next_try_s: Nothing is submitted before this time.
        next_decision_s: The policy is not called before this time.
        trouble: The chain's present problem as text; empty for none.
        quick_ends: Links that ended without our signal soon after their start, in a row, with any exit code.
        stopped_s: Time since which no link was wanted; ``MISSING`` while one is.
        wrong_forecasts: Forecasts of its policy that were wrong, in a row.
        resumed_s: Time at which its user resumed it last; ``MISSING`` for never.
        edits: Number of changes of its specification since its creation.
        excluded: Nodes on which its links have failed, separated by commas; the next links do not run there.
        reserved: The time in which a reservation lets no link run: its begin and end in seconds since 1970, and the
            name of the reservation; empty for none.
    """

    id: int
    name: str
    spec: ChainSpec
    created_s: int
    state: ChainState = ChainState.ACTIVE
    why: str = ""
    refusals: int = 0
    failures: int = 0
    next_try_s: int = 0
    next_decision_s: int = 0
    key: str = ""
    trouble: str = ""
    quick_ends: int = 0
    stopped_s: int = MISSING
    wrong_forecasts: int = 0
    resumed_s: int = MISSING
    edits: int = 0
    excluded: str = ""
    reserved: str = ""


@dataclass(frozen=True, slots=True)
class Link:
    """One job of a chain.

    Attributes:
        number: 1, 2, …
        job: Slurm's id; ``MISSING`` until known.
        attempted_s: Time of the last attempt of sbatch, stored before it runs; ``MISSING`` before.
        released_s: Time since which it competed for nodes: it was submitted without a dependency, or the dependency was
            cleared for the first time. A link that is held again retains it.
        ready_s: Time at which it could take over.
        signalled_s: Time at which it got the signal to leave.
        finished: Whether the job itself reported that the work is done.
        outcome: How the job ended.
        reason: Slurm's reason for its wait; empty while it does not wait.
        earlier: Start, readiness and end of each run before a requeue, seconds; ``MISSING`` for never ready.
        begins_s: The time to which the agent has postponed its start; ``MISSING`` for none.
        withdrawn_s: Time of the decision to replace it by another link; ``MISSING`` for never.
        given_up: Number of links before it that never ran, as they were withdrawn or cancelled; they do not count.
        nodelist: Hosts of its last run, as a host list; empty where they are not known.
        progress: The progress at its end, ``saved 1200``, ``step 1234`` or ``time 1790000000``; empty where not known.
        shortened_from_s: Its usual limit, where the agent has given it a shorter one to end before a reservation;
            ``MISSING`` where it has not. A planned link then has its limit already.
        ends_s: The end of its limit as Slurm reports it after a suspension, ``UNLIMITED_S`` while it is suspended;
            ``MISSING`` where it was not.
    """

    chain: int
    number: int
    state: LinkState = LinkState.PLANNED
    job: int = MISSING
    attempted_s: int = MISSING
    submitted_s: int = MISSING
    released_s: int = MISSING
    started_s: int = MISSING
    limit_s: int = MISSING
    ready_s: int = MISSING
    signalled_s: int = MISSING
    cancelled_s: int = MISSING
    ended_s: int = MISSING
    finished: bool = False
    outcome: JobState = JobState.UNKNOWN
    exit_code: int = 0
    reason: str = ""
    earlier: tuple[tuple[int, int, int], ...] = ()
    begins_s: int = MISSING
    withdrawn_s: int = MISSING
    given_up: int = 0
    nodelist: str = ""
    progress: str = ""
    shortened_from_s: int = MISSING
    ends_s: int = MISSING

    @property
    def limit_ends_s(self) -> int:
        """The time at which its limit ends it.

        ``UNLIMITED_S`` without a limit, and while it is suspended.
        """
        return max(self.started_s + self.limit_s, self.ends_s) if 0 < self.limit_s < UNLIMITED_S else UNLIMITED_S

    @property
    def place(self) -> int:
        """Its number among the links that ran or may run: 1 for the first."""
        return self.number - self.given_up

    @property
    def was_withdrawn(self) -> bool:
        """Whether it left the queue on a withdrawal, and never ran."""
        return self.withdrawn_s != MISSING and self.state is LinkState.ENDED and self.started_s == MISSING

    @property
    def never_ran(self) -> bool:
        """Whether it was withdrawn, or cancelled from outside, before it could run."""
        return self.was_withdrawn or (self.outcome is JobState.CANCELLED and self.started_s == MISSING)


def next_link(chain: int, last: Link | None) -> Link:
    """The link after the last one of a chain; numbers are never used twice."""
    if last is None:
        return Link(chain, 1)
    return Link(chain, last.number + 1, given_up=last.given_up + last.never_ran)


@dataclass(frozen=True, slots=True)
class StoreIdentity:
    """The identity of a store, and the cluster on which its chains live.

    Attributes:
        identity: Random letters, in the tag of every job.
        cluster: ``NAME@CONTROLLER:PORT``; empty until a chain was submitted.
        polled_s: Time of the last poll of the queue; ``MISSING`` for never.
    """

    identity: str
    cluster: str = ""
    polled_s: int = MISSING


@dataclass(frozen=True, slots=True)
class Cycle:
    """The result of one cycle.

    Attributes:
        chains: Number of chains.
        busy: Whether a hand-over is under way, so that the next poll must come soon.
        late_answers: Number of questions to policies of this cycle that it could not wait for.
        trouble: The error of Slurm or of the store, if the cycle could not be completed.
        outage_since_s: Last contact before the present outage; ``MISSING`` for none.
    """

    chains: int = 0
    busy: bool = False
    late_answers: int = 0
    trouble: str = ""
    outage_since_s: int = MISSING


@dataclass(frozen=True, slots=True)
class DecisionRecord:
    """A decision of a policy about a chain, with a summary of its view.

    Attributes:
        link: Number of the running link.
        reason: Reasons of the plan's actions.
        estimate: The policy's estimates, units in the names.
        observed: Summary of the view: pending and running jobs, requested and free nodes.
        revision: The change of a queued link: ``hold``, ``release``, ``postpone``, ``shorten``, ``withdraw``, or
            several of them, separated by commas; empty for none.
    """

    chain: int
    link: int
    time_s: int
    policy: str
    submits: bool
    reason: str
    estimate: dict[str, float] = field(default_factory=dict)
    observed: dict[str, float] = field(default_factory=dict)
    revision: str = ""


@dataclass(frozen=True, slots=True)
class EventRecord:
    """An event in the log of a chain.

    Attributes:
        kind: A stable word: ``submitted``, ``refused``, ``released``, ``started``, ``ready``, ``signalled`` …
        link: Number of the link it happened to; 0 for the chain.
    """

    chain: int
    link: int
    time_s: int
    kind: str
    detail: str = ""
