"""One episode: jobs arrive, a scheduler decides; and its outcome."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from mirage.array_types import Floats, Ints
from mirage.dag.simulator.dag_arrays import DagState, DagWorld
from mirage.dag.simulator.dag_event_loop import NEEDS_DECISION, REFUSED, STALLED, apply, next_decision, run
from mirage.dag.simulator.dag_world import DagCluster, initial_state, make_world
from mirage.dag.simulator.stage_decision import NOTHING, decision
from mirage.dag.workload.dag_arrivals import DagArrivals
from mirage.dag.workload.templates import JobTemplate
from mirage.errors import ContractBroken
from mirage.kernel.record_arrays import Records


@dataclass(frozen=True, slots=True)
class DagOutcome:
    """The outcome of an episode.

    Attributes:
        jct_s: Shape (jobs,), seconds from each job's arrival to its end.
        makespan_s: From the first arrival to the last end.
        moves: Executors sent from one job to another, or from the general pool to a job.
        idle_share: Share of executor-time up to the makespan neither in tasks nor in moves.
        decisions: Number of decisions of the scheduler.
        peak_jobs: Largest number of jobs in the system at once.
    """

    jct_s: Floats
    makespan_s: float
    moves: int
    idle_share: float
    decisions: int
    peak_jobs: int


class DagSimulation:
    """A simulation of one episode.

    Args:
        templates: Kinds of jobs.
        arrivals: Times and templates of the jobs.
        cluster: The executors.
        seed: Of the durations.
        log: Whether every task that runs is recorded (``runs``).
    """

    def __init__(
        self,
        templates: Sequence[JobTemplate],
        arrivals: DagArrivals,
        cluster: DagCluster,
        *,
        seed: int = 0,
        log: bool = False,
    ) -> None:
        self.world: DagWorld = make_world(templates, arrivals, cluster, seed)
        self.state: DagState = initial_state(self.world, log=log)

    def run(self, decider: Callable[..., int], parameters: Floats, *, times: int = 1) -> DagOutcome:
        """Runs the whole episode with a compiled scheduler.

        Args:
            decider: The scheduler's decision function.
            parameters: Its parameters.
            times: Number of times that each decision is made, of which the last counts: more than once to time it.

        Raises:
            ContractBroken: The scheduler picked what may not be picked, or left jobs without executors.
        """
        self._check(run(self.world, self.state, decider, parameters, times))
        return self.outcome()

    def advance(self) -> bool:
        """Runs until a decision is needed; False when all jobs have ended.

        Raises:
            ContractBroken: Jobs are left without executors.
        """
        return self._check(next_decision(self.world, self.state))

    def decide(self, stage: int, executors: int) -> bool:
        """Gives executors of the source to a stage and runs as ``advance`` does.

        Raises:
            ContractBroken: The stage may not be picked.
        """
        return self._check(apply(self.world, self.state, decision(stage, executors)))

    def decide_nothing(self) -> bool:
        """Makes the free executors idle, and runs as ``advance`` does."""
        return self._check(apply(self.world, self.state, NOTHING))

    @property
    def runs(self) -> Records:
        """RUN: every task that has been started, in that order; empty unless ``log`` is set."""
        return self.state.log[: self.state.clock[0].n_log]

    def outcome(self) -> DagOutcome:
        """The outcome of the episode so far; jobs that have not ended count up to now."""
        clock, jobs = self.state.clock[0], self.state.jobs
        arrival_ms = self.world.jobs.arrival_ms
        ended = (jobs.active == 0) & (jobs.end_ms > 0)
        end_ms = np.where(ended, jobs.end_ms, np.maximum(clock.now_ms, arrival_ms))
        makespan_ms = int(clock.now_ms - arrival_ms[0])
        there_ms = max(1, makespan_ms * int(self.world.settings[0].executors))
        begun = self.state.heap.due[: clock.n_heap]  # counted up to their end already
        busy_ms = int(clock.running_ms + clock.moving_ms) - int((begun - clock.now_ms).sum())
        return DagOutcome(
            jct_s=(end_ms - arrival_ms) / 1000,
            makespan_s=makespan_ms / 1000,
            moves=int(clock.moves),
            idle_share=1 - busy_ms / there_ms,
            decisions=int(clock.decisions),
            peak_jobs=_peak(arrival_ms[: clock.arrived], np.asarray(jobs.end_ms[ended])),
        )

    def _check(self, answer: int) -> bool:
        clock = self.state.clock[0]
        if answer == REFUSED:
            raise ContractBroken(
                f"at {clock.now_ms / 1000} s the scheduler picked a stage that may not be picked, or no executor; "
                "pick one for which may_pick and takes_more hold"
            )
        if answer == STALLED:
            raise ContractBroken(
                f"the scheduler left {len(self.world.jobs) - clock.finished} jobs without executors at "
                f"{clock.now_ms / 1000} s, although no event is left; one must be picked"
            )
        return answer == NEEDS_DECISION


def _peak(arrival_ms: Ints, end_ms: Ints) -> int:
    """The largest number of jobs at once; ends in the same millisecond come after arrivals."""
    gone = np.searchsorted(np.sort(end_ms), arrival_ms)
    return int((np.arange(1, len(arrival_ms) + 1) - gone).max(initial=0))
