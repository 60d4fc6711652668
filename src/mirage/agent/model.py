"""Chains and links as the agent remembers them.

A link's life, each step written to the store before the next one is taken:

    planned ──sbatch──▶ held ──dependency cleared, or its predecessor ended──▶ queued ──▶ running ──▶ ended

``planned`` with ``attempted_s`` set means that sbatch may have run: the queue is asked before it is run again. The
next link is *held* by ``afterany`` on its predecessor from the moment the predecessor starts: should the agent die, it
follows on its own. "Submit now" clears that dependency; a second thought puts it back, and the link is held again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from mirage.job_state import MISSING, JobState
from mirage.slurm.values import Submission


class ChainState(StrEnum):
    """The state of a chain."""

    ACTIVE = "active"
    PAUSED = "paused"  # a link that runs goes on; none waits in the queue
    ENDING = "ending"  # no link follows; those that run are let run out
    STOPPING = "stopping"  # no link follows; those that run are cancelled
    DONE = "done"


class LinkState(StrEnum):
    """The state of a link."""

    PLANNED = "planned"
    HELD = "held"
    QUEUED = "queued"
    RUNNING = "running"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class ChainSpec:
    """The specification of a chain by its user, which never changes.

    Attributes:
        submission: Of every link; the environment as it was when the chain was submitted, the script a copy of ours.
        until_s: No link starts after this; ``MISSING`` for no end.
        links: How many at most; 0 for no end.
        until_done: Whether a link that ends by itself with exit code 0 ends the chain.
        policy: Name of the provisioner, ``what-if``, ``lead:4``.
        interruption_cost: Of an hour.
        overlap_cost: Of an hour.
        ready_command: Shell command that succeeds once the next link can take over; empty for none.
        ready_by_job: Whether a link can take over once it has said so itself, by ``mirage link ready``.
        warmup_s: Without either, how long a link runs before it can take over.
        signal: Sent to the previous link when the next is ready; empty for none.
        grace_s: Between that signal and the end of the previous link.
        later_script: Copy of the script for all links but the first, where it differs; empty where it does not.
            Relative to the agent's folder, as that of the submission.
        request_id: Key of the request that made the chain, so that a repeated one makes no second; empty for none.
        bank_age: Whether a link may be submitted early only to gather age while it is held.
        least_limit_s: No link is given a shorter time limit (sbatch's ``--time-min``); ``MISSING`` where the user
            names none.
        slurm_warning_s: So long before its limit Slurm itself signals a link's batch script (``--signal=B:``), which
            needs no agent; 0 for not: the user asks Slurm for a signal of their own, or wants none.
        least_life: Share of a link's limit in which the next one is not released, unless links waited as long of late;
            ``MISSING`` for what its policy needs.
        links_a_day: How many links may start within 24 hours until the chain is paused; 0 for a number by their limit.
        never_two: Whether a link may only start once Slurm reports that the one before it has ended.
        folder: The agent's folder when the chain was submitted, from which the paths of both scripts lead; empty where
            the scripts are no copies of ours.
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
    grace_s: int = 120
    ready_by_job: bool = False
    later_script: str = ""
    request_id: str = ""
    bank_age: bool = False
    least_limit_s: int = MISSING
    slurm_warning_s: int = 0
    least_life: float = MISSING
    links_a_day: int = 0
    never_two: bool = False
    folder: str = ""


@dataclass(frozen=True, slots=True)
class Chain:
    """A chain.

    Attributes:
        name: Unique in the store, and safe in a comment, a file name and a label.
        key: Random letters that tell it from every other chain of its store.
        why: Why it is paused or done; empty while active.
        refusals: Submissions refused in a row.
        failures: Links that failed soon after their start, in a row.
        next_try_s: Nothing is submitted before.
        next_look_s: The policy need not be asked before.
        trouble: What stands in its way now, in words; empty for nothing.
        quick_ends: Links that ended by themselves soon after their start, in a row, whatever their exit code.
        stopped_s: From when on no link was wanted; ``MISSING`` while one is.
        wrong_forecasts: Forecasts of its policy that were wrong, in a row.
        resumed_s: When its user resumed it last; ``MISSING`` for never.
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
    next_look_s: int = 0
    key: str = ""
    trouble: str = ""
    quick_ends: int = 0
    stopped_s: int = MISSING
    wrong_forecasts: int = 0
    resumed_s: int = MISSING


@dataclass(frozen=True, slots=True)
class Link:
    """One job of a chain.

    Attributes:
        number: 1, 2, …
        job: Slurm's id; ``MISSING`` until known.
        attempted_s: When sbatch was about to be run last; ``MISSING`` before.
        released_s: From when on it competed for nodes: submitted free, or its dependency was cleared for the first
            time; a link that is held again keeps it.
        ready_s: When it could take over.
        signalled_s: When it was told to leave.
        finished: Whether the job itself said that the work is done.
        outcome: How the job ended.
        reason: Why it waits, in Slurm's word; empty while it does not.
        earlier: Start, readiness and end of each run before a requeue, seconds; ``MISSING`` for never ready.
        begins_s: The moment to which we have put off its start; ``MISSING`` for none.
        withdrawn_s: When it was decided to take it out of the queue for another; ``MISSING`` for never.
        given_up: How many links before it were withdrawn: their numbers count for nothing.
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

    @property
    def place(self) -> int:
        """Its place among the links that were not withdrawn before they ran: 1 for the first."""
        return self.number - self.given_up

    @property
    def was_withdrawn(self) -> bool:
        """Whether it was taken out of the queue, and never ran."""
        return self.withdrawn_s != MISSING and self.state is LinkState.ENDED and self.started_s == MISSING


def next_link(chain: int, last: Link | None) -> Link:
    """The link to be planned behind the last one of a chain; numbers are never used twice."""
    if last is None:
        return Link(chain, 1)
    return Link(chain, last.number + 1, given_up=last.given_up + last.was_withdrawn)


@dataclass(frozen=True, slots=True)
class StoreIdentity:
    """The identity of a store, and the cluster on which its chains live.

    Attributes:
        identity: Random letters, in the tag of every job.
        cluster: ``NAME@CONTROLLER:PORT``; empty until a chain was submitted.
        polled_s: When an agent has last seen the queue; ``MISSING`` for never.
    """

    identity: str
    cluster: str = ""
    polled_s: int = MISSING


@dataclass(frozen=True, slots=True)
class Cycle:
    """The result of one cycle.

    Attributes:
        chains: Chains looked after.
        busy: Whether a hand-over is under way, so that the next poll should come soon.
        put_off: Questions to policies that are open.
        trouble: The error of Slurm or of the store, if the cycle could not be completed.
        outage_since_s: The last contact before the present outage; ``MISSING`` where there is none.
    """

    chains: int = 0
    busy: bool = False
    put_off: int = 0
    trouble: str = ""
    outage_since_s: int = MISSING


@dataclass(frozen=True, slots=True)
class DecisionRecord:
    """A decision of a policy about a chain, with what it saw.

    Attributes:
        link: Number of the link that ran.
        reason: Of the plan's actions.
        estimate: What the policy expected, units in the names.
        saw: Summary of the view: pending and running jobs, nodes asked for and free.
        thought: What it changed about a link that was queued: ``hold``, ``release``, ``postpone``, ``shorten``,
            ``withdraw``, or several of them with commas between; empty for nothing.
    """

    chain: int
    link: int
    time_s: int
    policy: str
    submits: bool
    reason: str
    estimate: dict[str, float] = field(default_factory=dict)
    saw: dict[str, float] = field(default_factory=dict)
    thought: str = ""


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
