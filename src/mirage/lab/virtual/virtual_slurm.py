"""A simulated Slurm in virtual time: the backend of a real cluster, over the simulator.

    slurm = VirtualSlurm(Simulation(Cluster.pool(76), jobs, discipline="slurm"))
    agent = Agent(store, slurm, shell, clock=slurm.clock, monotonic=slurm.clock, holder="me")
    agent.cycle()
    slurm.sleep(60)

Jobs of the trace run as recorded; those submitted here behave according to a ``Program``. Events within a second happen
in the simulator's order; a command observes the second in which it is given, and a job submitted then starts with the
next second.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from mirage.duration import MINUTE_S, UNLIMITED_S, parse_duration_s
from mirage.errors import ConfigurationError, JobRefused, PlanInfeasible, SlurmRefused, shown
from mirage.forecast.forecaster import Forecaster
from mirage.job_state import MISSING, JobState
from mirage.lab.virtual.batch_request import (
    INVALID_LIMIT,
    INVALID_PARTITION,
    StartCondition,
    read_begin,
    read_request,
    read_wait,
    refuse,
)
from mirage.lab.virtual.program import DEADLY, SIGNALS, Program
from mirage.lab.virtual.queries import ACCOUNT, DEFAULT_USER, Queries
from mirage.lab.virtual.virtual_job import VirtualJob
from mirage.policy.plan import Cancel, Lend, Plan, Reclaim
from mirage.policy.view import ChainView, Ended
from mirage.sim import job_updates as alter
from mirage.sim.kernel.arrays import (
    BY_CANCEL,
    BY_ITSELF,
    BY_LIMIT,
    ENDED,
    HELD,
    NEVER_S,
    NO_JOB,
    PENDING,
    RUNNING,
)
from mirage.sim.simulation import Simulation
from mirage.slurm.records import AccountedJob, Machine, Queue, QueuedJob, SlurmReservation, Submission

__all__ = ["MIN_JOB_AGE_S", "REQUEUE_HOLD_S", "VirtualSlurm"]

MIN_JOB_AGE_S = 300
"""``MinJobAge``, and the delay below, with Slurm's defaults."""

REQUEUE_HOLD_S = 121
"""A requeued job starts a second after its old credential has expired, at the earliest."""


class VirtualSlurm:
    """Implements ``mirage.slurm.backend.Backend``.

    Args:
        simulation: It is consumed.
        programs: Returns the behaviour of a submitted job; by default it runs until its limit, or leaves a minute after
            USR2.
        min_job_age_s: How long the queue shows a job that has ended.
        user: The user of the jobs submitted here.
        requeue_hold_s: Least wait of a requeued job.

    Attributes:
        own: Jobs submitted here, by number.
    """

    def __init__(
        self,
        simulation: Simulation,
        programs: Callable[[Submission], Program] = lambda _: Program(),
        min_job_age_s: int = MIN_JOB_AGE_S,
        *,
        user: str = DEFAULT_USER,
        requeue_hold_s: int = REQUEUE_HOLD_S,
    ) -> None:
        if not isinstance(simulation, Simulation):
            raise ConfigurationError(f"the simulation must be a Simulation(cluster, jobs), got {shown(simulation)}")
        self.sim, self.programs = simulation, programs
        self.min_job_age_s, self.requeue_hold_s = min_job_age_s, requeue_hold_s
        self.own: dict[int, VirtualJob] = {}
        self.showing = Queries(simulation, self.own, user)
        self._time = float(simulation.now_s)
        self._noted = len(simulation.segments())
        self._observed: dict[int, int] = {}

    # -- time -------------------------------------------------------------------------------------------------

    @property
    def now_s(self) -> int:
        """The present second."""
        return self.sim.now_s

    def clock(self) -> float:
        """The present time."""
        return self._time

    def sleep(self, seconds: float) -> None:
        """Let virtual time pass.

        Raises:
            ConfigurationError: The time is not finite.
        """
        if not math.isfinite(seconds):
            raise ConfigurationError(f"a sleep takes a finite number of seconds, got {seconds}")
        self._time += max(seconds, 0.0)
        self.sim.advance(int(self._time))
        self._take_note()

    def sleep_until_change(self, seconds: float) -> None:
        """Let virtual time pass, at most until a job of ours has started or ended.

        That is since the last ``observe``, to the next minute.
        """
        end_s = self._time + max(seconds, 0.0)
        while self._time < end_s and self._fates() == self._observed:
            minutes = max(math.ceil((self.sim.next_event_s() - self._time) / MINUTE_S), 1)
            self._time = min(self._time + minutes * MINUTE_S, end_s)
            self.sim.advance(int(self._time))
        self._take_note()

    def _fates(self) -> dict[int, int]:
        alive = [number for number, own in self.own.items() if not own.over]
        return {number: fate for number in alive if (fate := int(self.sim.state.fate[number - 1])) >= RUNNING}

    def arrive(self) -> None:
        """Process a command: all events due by now have happened."""
        self._take_note()

    # -- queries ----------------------------------------------------------------------------------------------

    def observe(self) -> Queue:
        """Returns every pending or running job, and those that ended recently."""
        self.arrive()
        self._observed = self._fates()
        return self.showing.queue(self.min_job_age_s)

    def probe(self) -> None:
        """Query Slurm without a result."""
        self.arrive()

    def accounting(self, since_s: int) -> tuple[AccountedJob, ...]:
        """Returns every job alive since a time, of the trace and ours."""
        self.arrive()
        return self.showing.accounts(since_s)

    def machine(self) -> Machine:
        """Returns nodes and partitions."""
        self.arrive()
        return self.showing.machine()

    def reservations(self) -> tuple[SlurmReservation, ...]:
        """Returns the reservations that are known and have not ended."""
        self.arrive()
        return self.showing.reservations()

    @property
    def user(self) -> str:
        """The user of the jobs submitted here."""
        return self.showing.user

    def configuration(self) -> Mapping[str, str]:
        """Returns the scheduler's parameters in the simulation."""
        self.arrive()
        return self.showing.configuration(self.min_job_age_s)

    # -- submitting -------------------------------------------------------------------------------------------

    def submit(self, submission: Submission) -> int:
        """Submit like sbatch: command line options override ``#SBATCH`` lines."""
        self.arrive()
        request = read_request(submission, self.sim.cluster, self.now_s, known=self._counts)
        program = self.programs(submission)
        wait = request.wait
        try:
            number = 1 + self.sim.inject(
                nodes=request.nodes,
                limit_s=request.limit_s,
                watched=False,
                run_s=_runs_s(program, request.warning, request.warning_s, request.limit_s),
                gpus=request.gpus,
                cpus=request.cpus,
                user=self.showing.user_code(),
                partition=request.partition,
                qos=self.showing.qos_place(request.qos),
                priority_offset=-float(request.nice),
                begin_s=NEVER_S if request.held else wait.begin_s,
                after=NO_JOB if wait.job == NO_JOB else wait.job - 1,
                after_kind=wait.kind,
                failed=program.exit_code != 0,
                name=request.name,
                account=request.account or ACCOUNT,
            )
        except JobRefused as error:
            refuse(str(error))
        self.own[number] = VirtualJob(
            number, request, submission, program, request.name, request.comment, request.partition, request.limit_s,
            self.now_s, wait, request.held, exits=(program.exit_code, 0),
        )  # fmt: skip
        return number

    def test(self, submission: Submission) -> QueuedJob:
        """Plan a job like ``sbatch --test-only``; nothing is submitted.

        In the plan all jobs run to their limits. Of an array the first task is planned.

        Raises:
            SlurmRefused: If sbatch would reject it.
        """
        self.arrive()
        request = read_request(submission, self.sim.cluster, self.now_s, known=self._counts, first_task=True)
        chain = ChainView(
            request.nodes, request.limit_s, MISSING, self.now_s, self.now_s, self.now_s, 0,
            partition=request.partition, gpus=request.gpus, cpus=request.cpus,
        )  # fmt: skip
        plan = Forecaster(1, scheduler=self.sim.settings, arrivals=False)
        without_history = replace(self.sim.view(), ended=Ended.nothing())
        until_s = self.now_s + self.sim.settings.bf_window_s
        forecast = plan.of(without_history).play(chain, np.zeros(1, dtype=np.int64), until_s)
        return QueuedJob(
            id=self.sim.next_id + 1,
            state=JobState.PENDING,
            partition=self.showing.partitions[request.partition],
            cpus=request.nodes * max(request.cpus, 1),
            start_s=MISSING if forecast.open_share else int(forecast.starts_s[0, 0]),
        )

    # -- changing ---------------------------------------------------------------------------------------------

    def cancel(self, job: int | Sequence[int], *, only_pending: bool = False) -> None:
        """End jobs of ours; a job that has already ended is not an error."""
        self.arrive()
        for number in [job] if isinstance(job, int) else job:
            self._cancel(number, only_pending)

    def _cancel(self, job: int, only_pending: bool) -> None:
        own = self._mine(job, "scancel: error: Kill job error on job id {}: ")
        if own is None or own.over:
            return
        waited = self.sim.state.fate[job - 1] in (HELD, PENDING)
        if only_pending and not waited:
            return
        self.sim.apply(Plan((Cancel(job - 1),)))
        self._take_note()
        if waited:
            own.end(JobState.CANCELLED, self.now_s)

    def signal(self, job: int | Sequence[int], name: str, *, to_batch_shell: bool = False) -> None:
        """Send a signal to jobs.

        A job that leaves on this signal begins its checkpoint; one without a handler ends if the signal is deadly. A
        simulated job is one process: it gets a signal to its batch shell too.

        Raises:
            SlurmRefused: There is no such signal.
        """
        if name.removeprefix("SIG") not in SIGNALS:
            raise SlurmRefused("scancel failed with status 1", f"Unknown job signal: {name}")
        self.arrive()
        for number in [job] if isinstance(job, int) else job:
            self._signal(number, name)

    def signal_steps(self, job: int | Sequence[int], name: str) -> None:
        """Send a signal to the steps of jobs: a simulated job is one process, which gets it."""
        self.signal(job, name)

    def _signal(self, job: int, name: str) -> None:
        own = self._mine(job, "scancel: error: Kill job error on job id {}: ")
        name = name.removeprefix("SIG")
        if own is None or own.over or self.sim.state.fate[job - 1] != RUNNING:
            return
        own.signals.append((self.now_s, name))
        if name == own.program.on and name != "KILL":
            if own.program.leave_s != MISSING and not own.leaves:
                own.leaves, own.exits = True, (0, 0)
                alter.end_at(self.sim, job - 1, self.now_s + max(own.program.leave_s, 1))
        elif name in DEADLY:
            own.leaves, own.exits = True, (0, DEADLY[name])
            alter.end_at(self.sim, job - 1, self.now_s, failed=True)

    def update(self, job: int | Sequence[int], changes: Mapping[str, str]) -> None:
        """Change jobs like ``scontrol update``.

        It changes dependency, comment, time limit, partition, begin time, priority 0 (hold) and name.
        """
        self.arrive()
        refused: list[SlurmRefused] = []
        for number in [job] if isinstance(job, int) else job:
            try:
                self._update(number, changes)
            except SlurmRefused as error:
                refused.append(error)
        if refused:
            raise refused[0]

    def _update(self, job: int, changes: Mapping[str, str]) -> None:
        own = self._mine(job, "", after=" for job {}")
        if own is None:
            raise _refused(f"Invalid job id specified for job {job}")
        if own.over:
            raise _refused(f"Job has already finished for job {job}")
        for key, value in changes.items():
            self._change(own, key.lower(), value, f"{key}={value}")

    def hold(self, job: int) -> None:
        """``scontrol hold``."""
        self.update(job, {"Priority": "0"})

    def release(self, job: int) -> None:
        """``scontrol release``."""
        self.update(job, {"Priority": "INFINITE"})

    def requeue(self, job: int, *, hold: bool = False) -> None:
        """Put a running job back into the queue."""
        self.arrive()
        own = self._mine(job, "", after=" for job {}")
        if own is None:
            raise _refused(f"Invalid job id specified for job {job}")
        if own.over or own.leaves:
            raise _refused(f"Requested operation is presently disabled for job {job}")
        if self.sim.state.fate[job - 1] != RUNNING:
            raise _refused(f"Job is pending execution for job {job}")
        begin_s = self.now_s + self.requeue_hold_s
        alter.requeue(self.sim, job - 1, NEVER_S if hold else begin_s)
        self._take_note()
        own.start_s, own.nodelist, own.words_added, own.restarts = MISSING, "", 0, own.restarts + 1
        own.submit_s, own.held, own.wait = self.now_s, hold, StartCondition(begin_s)

    def move_nodes(self, partition: str, nodes: tuple[str, ...]) -> None:
        """Make a partition consist of these nodes.

        Nodes that the simulator counts together also move together.
        """
        self.arrive()
        place = self._partition(partition)
        node_names = self.showing.node_names
        if unknown := [name for name in nodes if name not in node_names.bin_of]:
            raise _refused(f"Invalid node name specified: {unknown[0]}")
        moves: list[Lend | Reclaim] = []
        for b, names in enumerate(node_names.names):
            wanted = set(names) & set(nodes)
            if wanted and wanted != set(names):
                raise _refused(f"the simulated Slurm moves {names[0]} to {names[-1]} together or not at all")
            if bool(wanted) != bool(self.sim.state.allowed[place, b]):
                moves.append((Lend if wanted else Reclaim)(node=b, partition=place))
        self.sim.apply(Plan(tuple(moves)))

    def add_words(self, job: int, words: str) -> None:
        """Add words to a job's own comment, as the job does with ``mirage link``.

        Raises:
            SlurmRefused: No job of this number was submitted here.
        """
        if job not in self.own:
            raise _refused(f"Invalid job id specified for job {job}")
        self.own[job].add_words(words)

    # -- pieces -----------------------------------------------------------------------------------------------

    def _mine(self, job: int, before: str, after: str = "") -> VirtualJob | None:
        """Returns a job of ours; None for a number that Slurm does not know."""
        if job in self.own:
            own = self.own[job]
            return None if own.over and self.now_s - own.end_s > self.min_job_age_s else own
        if 0 < job <= len(self.sim.workload.table) and self.sim.state.fate[job - 1]:
            raise _refused(f"{before.format(job)}Access/permission denied{after.format(job)}")
        return None

    def _counts(self, job: int) -> bool:
        """Whether a job matters to those that depend on it.

        It does if it is alive, or has failed recently.
        """
        if not 0 < job <= self.sim.next_id:
            return False
        own, fate = self.own.get(job), int(self.sim.state.fate[job - 1])
        if own is not None and own.over:
            return own.outcome is not JobState.COMPLETED and self.now_s - own.end_s <= self.min_job_age_s
        return fate < ENDED and fate != 0

    def _partition(self, name: str) -> int:
        names = [partition.name for partition in self.sim.cluster.partitions]
        if name not in names:
            raise _refused(INVALID_PARTITION)
        return names.index(name)

    def _change(self, own: VirtualJob, key: str, value: str, words: str) -> None:
        waits = self.sim.state.fate[own.number - 1] in (HELD, PENDING)
        if key == "comment":
            own.comment = value
        elif key in ("jobname", "name"):
            own.name = value
            alter.relabel(self.sim, own.number - 1, value, own.request.account or ACCOUNT)
        elif key == "timelimit":
            self._limit(own, value, waits)
        elif key not in ("dependency", "partition", "starttime", "priority"):
            raise _refused(f"Update of this parameter is not supported: {words}\nRequest aborted")
        elif not waits:
            raise _refused(f"Job is no longer pending execution for job {own.number}")
        elif key == "partition":
            own.partition = self._partition(value)
            self._altered(lambda: alter.change_partition(self.sim, own.number - 1, own.partition))
        else:
            if key == "priority":
                own.held, own.why_held = value == "0", "JobHeldUser"
            else:
                own.wait = self._changed_wait(own, key, value)
            self._wait(own)

    def _changed_wait(self, own: VirtualJob, key: str, value: str) -> StartCondition:
        """Returns the condition of a job after a change of its begin time or its dependency."""
        try:
            if key == "starttime":
                return replace(own.wait, begin_s=read_begin(value, self.now_s))
            return replace(read_wait("", value, self.now_s, self._counts), begin_s=own.wait.begin_s)
        except SlurmRefused as error:
            why = error.stderr.rpartition(": ")[2]
            begin = f"Invalid time specification (pos=0): {value}"
            raise _refused(begin if key == "starttime" else f"{why} for job {own.number}") from None

    def _wait(self, own: VirtualJob) -> None:
        wait = own.wait
        alter.wait_for(
            self.sim,
            own.number - 1,
            begin_s=NEVER_S if own.held else wait.begin_s,
            after=NO_JOB if wait.job == NO_JOB else wait.job - 1,
            after_kind=wait.kind,
        )

    def _limit(self, own: VirtualJob, value: str, waits: bool) -> None:
        try:
            limit_s = parse_duration_s(value)
        except ConfigurationError:
            raise _refused("Invalid TimeLimit value") from None
        if not waits and limit_s > own.limit_s:
            raise _refused(f"Access/permission denied for job {own.number}")
        self._altered(lambda: alter.change_limit(self.sim, own.number - 1, limit_s))
        own.limit_s = limit_s

    def _altered(self, change: Callable[[], None]) -> None:
        try:
            change()
        except PlanInfeasible as error:
            raise SlurmRefused("scontrol failed with status 1", INVALID_LIMIT) from error

    def _take_note(self) -> None:
        """Record which of our jobs have started and ended."""
        segments = self.sim.segments(self._noted)
        self._noted += len(segments)
        for segment in segments[segments.id >= len(self.sim.workload.table)]:
            own = self.own.get(int(segment.id) + 1)
            if own is None or segment.why not in (BY_ITSELF, BY_LIMIT, BY_CANCEL):
                continue
            own.start_s, end_s = int(segment.start_s), int(segment.end_s)
            if segment.why == BY_ITSELF:
                own.end(JobState.FAILED if any(own.exits) else JobState.COMPLETED, end_s, own.exits)
            else:
                own.end(JobState.TIMEOUT if segment.why == BY_LIMIT else JobState.CANCELLED, end_s)
        self.showing.take_note()
        for own in self.own.values():
            if len(own.program.words) > own.words_added:
                own.speak(self.now_s)


def _runs_s(program: Program, warning: str, warning_s: int, limit_s: int) -> int:
    """Run time of an undisturbed program: it may leave on the warning of ``--signal``."""
    if warning == program.on and MISSING not in (warning_s, program.leave_s) and limit_s < UNLIMITED_S:
        return min(program.run_s, max(limit_s - warning_s, 0) + max(program.leave_s, 1))
    return program.run_s


def _refused(words: str) -> SlurmRefused:
    return SlurmRefused("scontrol failed with status 1", words)
