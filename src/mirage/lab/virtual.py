"""A simulated Slurm in virtual time: the backend of a real cluster, over the simulator.

    slurm = VirtualSlurm(Simulation(Cluster.pool(76), jobs, discipline="slurm"))
    agent = Agent(store, slurm, shell, clock=slurm.clock, monotonic=slurm.clock, holder="me")
    agent.cycle()
    slurm.sleep(60)

The cluster is one pool of whole nodes. Jobs of the trace run as it says; those submitted here behave as a
``Program`` says.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mirage.duration import HOUR_S, UNLIMITED_S, parse_duration_s
from mirage.errors import ConfigurationError, JobRefused, SlurmRefused, SlurmUnreachable
from mirage.policy.plan import Cancel, Plan
from mirage.policy.view import Ended
from mirage.sim.engine import wake_now
from mirage.sim.layout import CANCELLED, ENDED, N_HELD, PENDING, RUNNING
from mirage.sim.simulation import Simulation
from mirage.slurm.fields import whole
from mirage.slurm.options import directives
from mirage.slurm.values import AccountedJob, Machine, Node, Partition, Queue, QueuedJob, Submission
from mirage.trace.table import MISSING, JobState

USER = "me"
PARTITION = "main"
MIN_JOB_AGE_S = 300
_ACCOUNTED = ("name", "nodes", "limit_s", "submit_s", "start_s", "end_s", "exit_code", "comment", "submit_line")
_AFTER = re.compile(r"after(any|ok)?:(\d+)")


@dataclass(frozen=True, slots=True)
class Program:
    """What a job submitted here does.

    Attributes:
        run_s: Ends by itself after so long; ``UNLIMITED_S`` to run into its limit.
        exit_code: With which it then ends.
        leave_s: After a signal it writes a checkpoint for so long and ends with 0; ``MISSING`` to ignore signals.
    """

    run_s: int = UNLIMITED_S
    exit_code: int = 0
    leave_s: int = 60


@dataclass(slots=True)
class _Own:
    """A job submitted here, beyond what the simulator keeps of it."""

    id: int
    name: str
    comment: str
    nodes: int
    limit_s: int
    submit_s: int
    submit_line: str
    program: Program
    dependency: str = ""
    leaves_s: int = MISSING
    start_s: int = MISSING
    end_s: int = MISSING
    outcome: JobState = JobState.UNKNOWN
    exit_code: int = 0
    signals: list[tuple[int, str]] = field(default_factory=list)


class VirtualSlurm:
    """Implements ``mirage.slurm.backend.Backend``.

    Args:
        simulation: One pool of whole nodes; it is used up.
        programs: What a submitted job does.
        min_job_age_s: How long the queue shows a job that has ended.

    Attributes:
        unreachable: While true, every command goes unanswered.
        lose_answers: So many of the next submissions happen without an answer.
        refuse: Words in which sbatch refuses everything; empty while it does not.
    """

    def __init__(
        self,
        simulation: Simulation,
        programs: Callable[[Submission], Program] = lambda _: Program(),
        min_job_age_s: int = MIN_JOB_AGE_S,
    ) -> None:
        if len(simulation.cluster.groups) > 1 or simulation.cluster.shared_nodes:
            raise ConfigurationError("the simulated Slurm knows one pool of whole nodes; use Cluster.pool(n)")
        self.sim, self.programs, self.min_job_age_s = simulation, programs, min_job_age_s
        self.own: dict[int, _Own] = {}
        self.hosts: dict[int, list[str]] = {}
        self.free = [f"n{k}" for k in range(simulation.cluster.nodes, 0, -1)]
        self.names = list(reversed(self.free))
        self.unreachable, self.lose_answers, self.refuse = False, 0, ""
        self.commands = 0

    # -- time -------------------------------------------------------------------------------------------------

    def clock(self) -> float:
        """The present second."""
        return float(self.sim.now_s)

    def sleep(self, seconds: float) -> None:
        """Let virtual time pass; jobs that leave after a signal end at their second."""
        end_s = self.sim.now_s + max(int(seconds), 1)
        while (due := [job for job in self.own.values() if MISSING != job.leaves_s <= end_s]) != []:
            first = min(due, key=lambda job: job.leaves_s)
            self._pass(first.leaves_s)
            at_s, first.leaves_s = first.leaves_s, MISSING
            if first.end_s == MISSING:
                self._end(first, JobState.COMPLETED, 0, at_s)
        self._pass(end_s)

    def _pass(self, until_s: int) -> None:
        while self.sim.now_s < until_s:  # a watched job's start stops the clock
            self.sim.advance(until_s)
        self._take_note()

    # -- the backend ------------------------------------------------------------------------------------------

    def submit(self, submission: Submission) -> int:
        """As sbatch: options of the command line over ``#SBATCH`` lines."""
        self._answer()
        if self.refuse:
            raise SlurmRefused("sbatch failed with status 1", f"sbatch: error: {self.refuse}")
        given = {**directives(Path(submission.script).read_text(encoding="utf-8")), **submission.options}
        nodes = whole(given.get("nodes") or "1", 1)
        limit_s = parse_duration_s(given.get("time") or "1:00:00")
        if given.get("partition", PARTITION) != PARTITION:
            raise SlurmRefused("sbatch failed with status 1", "sbatch: error: invalid partition specified")
        after = self._after(given.get("dependency") or "")
        program = self.programs(submission)
        try:
            number = self.sim.inject(
                nodes=nodes,
                limit_s=limit_s,
                run_s=min(program.run_s, limit_s),
                after=after if after is not None else -1,
            )
        except JobRefused as error:
            raise SlurmRefused("sbatch failed with status 1", f"sbatch: error: {error}") from error
        self.own[number] = _Own(
            number, given.get("job-name") or Path(submission.script).name, given.get("comment") or "", nodes, limit_s,
            self.sim.now_s, f"sbatch --comment={given.get('comment') or ''}", program,
            dependency=f"afterany:{after + 1}(unfulfilled)" if after is not None else "",
        )  # fmt: skip
        if self.lose_answers:
            self.lose_answers -= 1
            raise SlurmUnreachable("sbatch had no answer from Slurm", "Socket timed out on send/recv operation")
        return number + 1

    def observe(self) -> Queue:
        """Every job that waits or runs, and those of ours that ended lately."""
        self._answer()
        self._take_note()
        view = self.sim.view()
        jobs = []
        for part, state in (
            (view.pending, JobState.PENDING),
            (view.held, JobState.PENDING),
            (view.running, JobState.RUNNING),
        ):
            jobs += [self._shown(int(part.id[k]), part, k, state) for k in range(len(part))]
        now_s = self.sim.now_s
        ended = [job for job in self.own.values() if job.end_s != MISSING and now_s - job.end_s < self.min_job_age_s]
        return Queue(now_s, (*jobs, *(self._gone(job) for job in ended)))

    def accounting(self, since_s: int) -> tuple[AccountedJob, ...]:
        """Jobs that ended since, of the trace and ours."""
        self._answer()
        self._take_note()
        ended = self.sim.view().ended
        others = [
            AccountedJob(
                id=-1 - int(k),
                state=JobState.COMPLETED,
                user=f"user{int(ended.user[k])}",
                partition=PARTITION,
                **_whole_numbers(ended, int(k)),
            )
            for k in np.flatnonzero(ended.end_s >= since_s)
        ]
        mine = [
            AccountedJob(
                id=job.id + 1,
                state=job.outcome if job.end_s != MISSING else JobState.PENDING,
                user=USER,
                partition=PARTITION,
                **{name: getattr(job, name) for name in _ACCOUNTED},
            )
            for job in self.own.values()
            if job.end_s == MISSING or job.end_s >= since_s
        ]
        return (*others, *mine)

    def machine(self) -> Machine:
        """One partition over all nodes."""
        self._answer()
        nodes = tuple(
            Node(name, "idle" if name in self.free else "allocated", True, 1, 0, (PARTITION,)) for name in self.names
        )
        return Machine(nodes, (Partition(PARTITION, True, UNLIMITED_S, HOUR_S, tuple(self.names), 1, True),))

    def configuration(self) -> Mapping[str, str]:
        """What a what-if policy reads of it."""
        self._answer()
        s = self.sim.settings
        return {
            "schedulertype": "sched/backfill",
            "schedulerparameters": f"bf_interval={s.bf_interval_s},bf_resolution={s.bf_resolution_s},"
            f"bf_window={s.bf_window_s // 60},bf_max_job_test={s.max_job_test},"
            f"default_queue_depth={s.default_queue_depth}",
            "prioritytype": "priority/multifactor",
            "priorityweightage": str(round(s.weight_age)),
            "priorityweightjobsize": str(round(s.weight_size)),
            "priorityweightfairshare": str(round(s.weight_fairshare)),
            "priorityweightpartition": str(round(s.weight_partition)),
            "priorityweightqos": str(round(s.weight_qos)),
            "minjobage": f"{self.min_job_age_s} sec",
        }

    def cancel(self, job: int) -> None:
        """End a job of ours."""
        self._answer()
        self._take_note()
        own = self.own.get(job - 1)
        if own is not None and own.end_s == MISSING:
            self._end(own, JobState.CANCELLED, 0, self.sim.now_s)

    def signal(self, job: int, name: str) -> None:
        """A job that leaves on a signal begins its checkpoint."""
        self._answer()
        own = self.own.get(job - 1)
        if own is not None and own.end_s == MISSING:
            own.signals.append((self.sim.now_s, name))
            if own.program.leave_s != MISSING and own.leaves_s == MISSING:
                own.leaves_s = self.sim.now_s + max(own.program.leave_s, 1)

    def update(self, job: int, changes: Mapping[str, str]) -> None:
        """``Dependency=`` lets a held job compete; ``Comment`` is kept."""
        self._answer()
        own = self.own.get(job - 1)
        if own is None or own.end_s != MISSING:
            raise SlurmRefused("scontrol update failed with status 1", f"Invalid job id specified for job {job}")
        for key, value in changes.items():
            if key == "Comment":
                own.comment = value
            elif key == "Dependency" and not value:
                own.dependency = ""
                self._release(own.id)
            else:
                raise SlurmRefused(
                    "scontrol update failed with status 1", f"the simulated Slurm cannot set {key}={value}"
                )

    def requeue(self, job: int, *, hold: bool = False) -> None:
        """Not here."""
        raise SlurmRefused("scontrol requeue failed", "Requested operation is presently disabled")

    def move_nodes(self, partition: str, nodes: tuple[str, ...]) -> None:
        """Not here."""
        raise SlurmRefused("scontrol update failed", "Access/permission denied")

    # -- pieces -----------------------------------------------------------------------------------------------

    def say(self, job: int, words: str) -> None:
        """What a job does with ``mirage link``: add words to its own comment."""
        own = self.own[job - 1]
        head, bar, rest = own.comment.partition(" | ")
        own.comment = f"{head} {words}{bar}{rest}"

    def _answer(self) -> None:
        self.commands += 1
        if self.unreachable:
            raise SlurmUnreachable(
                "squeue had no answer from Slurm", "slurm_load_jobs error: Unable to contact slurm controller"
            )

    def _after(self, dependency: str) -> int | None:
        """The job to wait for, where it has not ended yet."""
        found = _AFTER.match(dependency)
        if found is None:
            return None
        number = int(found[2]) - 1
        over = number in self.own and self.own[number].end_s != MISSING
        return None if over or not 0 <= number < self.sim.next_id else number

    def _release(self, number: int) -> None:
        """Clear the dependency of a held job; it is eligible from this second on."""
        state = self.sim.state
        for k in range(int(state.clock[N_HELD])):
            job = state.live[state.held[k]]
            if job.id == number:
                job.after_kind = 0
        self.sim.advance(self.sim.now_s)

        wake_now(state)

    def _end(self, own: _Own, outcome: JobState, exit_code: int, at_s: int) -> None:
        if own.start_s == MISSING and self.sim.state.fate[own.id] == RUNNING:
            own.start_s = at_s
        self.sim.apply(Plan((Cancel(own.id),)))
        own.end_s, own.outcome, own.exit_code = at_s, outcome, exit_code

    def _take_note(self) -> None:
        """See which of our jobs have started and ended, and who sits where."""
        fate = self.sim.state.fate
        for own in self.own.values():
            if own.end_s != MISSING:
                continue
            now = int(fate[own.id])
            if now >= PENDING:
                own.dependency = ""
            if now in (ENDED, CANCELLED):
                segment = [s for s in self.sim.segments()[::-1] if s.id == own.id][:1]
                if segment:
                    own.start_s, own.end_s = int(segment[0].start_s), int(segment[0].end_s)
                else:
                    own.end_s = self.sim.now_s
                by_itself = own.end_s - own.start_s < own.limit_s
                own.outcome = JobState.COMPLETED if by_itself else JobState.TIMEOUT
                own.exit_code = own.program.exit_code if by_itself else 0
                if by_itself and own.exit_code:
                    own.outcome = JobState.FAILED

    def _shown(self, number: int, part: object, k: int, state: JobState) -> QueuedJob:
        own = self.own.get(number)
        start_s = int(part.start_s[k])  # type: ignore[attr-defined]
        nodes, limit_s = int(part.nodes[k]), int(part.limit_s[k])  # type: ignore[attr-defined]
        if own is not None and state is JobState.RUNNING:
            own.start_s = start_s
        return QueuedJob(
            id=number + 1,
            state=state,
            name=own.name if own else "job",
            user=USER if own else f"user{int(part.user[k])}",  # type: ignore[attr-defined]
            account="lab",
            partition=PARTITION,
            qos="normal",
            reason="Dependency" if own and own.dependency else "",
            priority=max(float(part.priority[k]), 1.0),  # type: ignore[attr-defined]
            nodes=nodes,
            cpus=nodes,
            limit_s=limit_s,
            submit_s=int(part.submit_s[k]),  # type: ignore[attr-defined]
            eligible_s=int(part.eligible_s[k]),  # type: ignore[attr-defined]
            start_s=start_s,
            end_s=start_s + limit_s if state is JobState.RUNNING else MISSING,
            dependency=own.dependency if own else "",
            comment=own.comment if own else "",
            whole_nodes=True,
            nodelist=",".join(self._seat(number, nodes)) if state is JobState.RUNNING else "",
        )

    def _seat(self, number: int, nodes: int) -> list[str]:
        """Names of a running job's nodes: any that are free, the same as long as it runs."""
        if number not in self.hosts:
            for gone in [known for known in self.hosts if self.sim.state.fate[known] != RUNNING]:
                self.free += self.hosts.pop(gone)
            self.hosts[number] = [self.free.pop() for _ in range(min(nodes, len(self.free)))]
        return self.hosts[number]

    def _gone(self, job: _Own) -> QueuedJob:
        return QueuedJob(
            job.id + 1, job.outcome, job.name, USER, "lab", PARTITION, "normal", nodes=job.nodes, limit_s=job.limit_s,
            submit_s=job.submit_s, eligible_s=job.submit_s, start_s=job.start_s, end_s=job.end_s, comment=job.comment,
            exit_code=job.exit_code,
        )  # fmt: skip


def _whole_numbers(ended: Ended, k: int) -> dict[str, Any]:
    return {name: int(getattr(ended, name)[k]) for name in ("nodes", "limit_s", "submit_s", "start_s", "end_s")}
