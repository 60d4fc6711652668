"""The simulation of a cluster: replay a trace, inject jobs, fork, observe, apply plans.

sim = Simulation(Cluster.pool(76), workload(table, cluster), discipline="slurm")
sim.advance(until_s)
branch = sim.fork()
link = branch.inject(nodes=1, limit_s=48 * HOUR_S)
started_s = branch.run_until_started(link)
"""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Any, Self

import numpy as np

from mirage.array_types import Ints
from mirage.duration import UNLIMITED_S
from mirage.errors import ConfigurationError, JobRefused, PlanInfeasible, quantity, shown
from mirage.kernel.record_arrays import Records
from mirage.policy.contract import Policy, plan_of
from mirage.policy.plan import Plan
from mirage.policy.view import ChainView, View
from mirage.sim.cluster import Cluster
from mirage.sim.contract.ended_rows import EndedRows, RowBuffer
from mirage.sim.contract.from_plan import write_plan
from mirage.sim.contract.job_labels import JobLabels
from mirage.sim.contract.to_view import TEN_MINUTES_S, observe
from mirage.sim.disciplines.discipline_registry import DISCIPLINES, PAUSED, DisciplineSpec, discipline_spec
from mirage.sim.kernel import event_loop
from mirage.sim.kernel import plan_actions as actions
from mirage.sim.kernel.allocate import (
    copy_state,
    empty_like,
    empty_log,
    enlarged,
    make_scratch,
    make_state,
    make_world,
    with_longer_log,
)
from mirage.sim.kernel.arrays import (
    AFTER_NONE,
    ENDED,
    NEEDS_POLICY,
    NEEDS_ROOM,
    NEVER_S,
    NO_JOB,
    REFUSED_PLAN,
    RUNNING,
    WHOLE_NODE,
)
from mirage.sim.kernel.job_lifecycle import admit, has_slot
from mirage.sim.kernel.resources.job_limits import COUNTED
from mirage.sim.schedule import Schedule
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings
from mirage.sim.workload import Workload, default_memory, link_record, misfits, refuse_misfits, to_minutes, workload
from mirage.trace.table import JobTable
from mirage.whole_numbers import whole

_FAULTS = {
    actions.NO_SUCH_JOB: "no job {id} is known",
    actions.NOT_PENDING: "job {id} is not pending",
    actions.NOT_RUNNING: "job {id} is not running",
    actions.NO_ROOM: "job {id} lacks {value} free nodes of its kind",
    actions.OVER_LIMIT: "job {id} would go over the limit of {limit}",
    actions.BAD_VALUE: "job {id}: {value} is not a valid value",
    actions.NO_SUCH_NODE: "there is no node {value}, or no partition {row}, to lend or reclaim",
}


_FORM = ("nodes", "limit_s", "gpus", "cpus", "memory", "partition", "qos")
"""What decides whether a job can ever run."""


class Simulation:
    """One cluster and its queue, from a given time on.

    Args:
        cluster: The machine.
        jobs: The jobs to submit.
        discipline: Name or specification of the queue discipline, or a ``Policy`` that is called after every event.
        settings: Parameters of the scheduler.
        begin_s: Start time; by default the first submission. Jobs submitted earlier are not replayed.

    Raises:
        UnknownName: There is no such discipline.
        ConfigurationError: It is none of the three, the settings are no ``SlurmSettings``, the discipline does not
            support this kind of cluster, or there are no jobs in ``jobs``.
        JobRefused: A job can never run on the cluster.
    """

    def __init__(
        self,
        cluster: Cluster,
        jobs: Workload | JobTable,
        discipline: str | DisciplineSpec | Policy = "slurm",
        settings: SlurmSettings | None = None,
        begin_s: int | None = None,
    ) -> None:
        if not isinstance(settings, SlurmSettings | None):
            raise ConfigurationError(f"the settings must be SlurmSettings, got {shown(settings)}")
        if not isinstance(jobs, Workload):
            jobs = workload(jobs, cluster)
        else:  # it may have been made for another cluster
            refuse_misfits(jobs.jobs, jobs.table, cluster)
        self.spec, self.policy = _chosen(discipline)
        if self.spec.one_pool and (cluster.shared_nodes or len(cluster.groups) > 1):
            raise ConfigurationError(f"{self.spec.entry} supports one pool of whole nodes only; use Cluster.pool(n)")
        running = [limit for limit in cluster.limits if limit.of_running]
        for what, declared, remedy in (
            ("reservations", cluster.reservations, "make them changes of capacity, which are not known beforehand"),
            ("limits", running, "leave them out of the cluster"),
        ):
            if declared and not getattr(self.spec, what):
                able = ", ".join(name for name, spec in DISCIPLINES.items() if getattr(spec, what))
                raise ConfigurationError(
                    f"{self.spec.entry} does not support {what}, and the cluster has {len(declared)}; use {able}, or "
                    f"{remedy}"
                )
        self.cluster, self.workload = cluster, jobs
        self.settings = settings or SlurmSettings()
        first_s = int(jobs.jobs.submit_s[0]) if len(jobs.jobs) else 0
        now_s = first_s if begin_s is None else begin_s
        skipped = int(np.searchsorted(jobs.jobs.submit_s, now_s))
        replayed = jobs.jobs[skipped:]
        lost = replayed.after >= len(jobs.jobs)  # they wait for a job that is not replayed
        recorded_priority = self.settings.recorded_priority
        if lost.any() or recorded_priority is not None:
            replayed = replayed.copy().view(np.recarray)
            replayed.after_kind[lost] = AFTER_NONE
        if recorded_priority is not None:
            recorded = jobs.table.priority[skipped:]
            replayed.priority_offset = np.where(recorded >= 0, recorded, recorded_priority)
        if self.spec.minutes:
            now_s = now_s // 60 * 60
            replayed = to_minutes(replayed, now_s)
        accounts = np.zeros(jobs.users, dtype=np.int64)
        accounts[jobs.jobs.user] = jobs.jobs.account
        names = jobs.table.user.names, jobs.table.account.names
        dense = np.unique(accounts, return_inverse=True)[1]  # from 0, to index an array no longer than the users'
        self.world = make_world(cluster, replayed, self.settings.record(cluster, now_s), dense, *names)
        if self.spec.minutes:
            self.world.settings.turnover_s = 0
        codes = int(jobs.jobs.account.max(initial=0)) + 1
        self._account_of_user = accounts
        plans = self.spec.plans or bool(cluster.reservations)
        self.state = make_state(self.world, cluster, plans, now_s, len(jobs.jobs), codes)
        self.state.fate[:skipped] = ENDED
        self.scratch = make_scratch(self.world, len(self.state.live), self.spec.scratch_rows)
        self.past: tuple[Records, ...] = ()
        self.in_past = 0  # segments
        self.labels = JobLabels(jobs.table)
        self.ended = EndedRows(RowBuffer(0))
        self.next_id = len(jobs.jobs)
        self.kernel = self.spec.load()
        self._admitted: set[tuple[int, ...]] = set()

    # -- time -----------------------------------------------------------------------------------------------

    @property
    def now_s(self) -> int:
        """The present second."""
        return int(self.state.clock["now_s"][0])

    def next_event_s(self) -> int:
        """When the next event is due; ``NEVER_S`` if there is none."""
        return int(event_loop.next_event_s(self.world, self.state))

    def advance(self, until_s: int) -> int:
        """Advance to ``until_s`` inclusive, or to the start of a watched job; returns the time.

        A time that has passed changes nothing.

        Raises:
            ConfigurationError: The time is no whole number of seconds.
            PlanInfeasible: The policy requested something that cannot be done.
            ContractBroken: The policy returned no plan.
        """
        until_s = min(whole("until_s", until_s), NEVER_S - 1)
        while True:
            came_back = event_loop.advance(self.world, self.state, self.scratch, self.kernel, until_s)
            if came_back == NEEDS_ROOM:
                self.grow()
            elif came_back == NEEDS_POLICY:
                assert self.policy is not None
                self.apply(plan_of(self.policy, self.view()))
                if self._watched_runs():
                    return self.now_s
            elif came_back == REFUSED_PLAN:
                raise self._infeasible()
            else:
                return self.now_s

    def approach(self, time_s: int) -> None:
        """Advance to just before ``time_s``: what is due then has not happened yet.

        A job injected now is considered together with the events of this second.
        """
        if time_s <= self.now_s:
            return
        self.advance(time_s - 1)
        while self.state.clock["watch_slot"][0] != NO_JOB and self.next_event_s() < time_s:
            self.advance(time_s - 1)  # the start of a watched job had stopped the clock
        self.state.clock["now_s"] = time_s

    def step(self) -> int:
        """Advance over the next event; returns its time, ``NEVER_S`` if there is none."""
        due_s = self.next_event_s()
        return self.advance(due_s) if due_s < NEVER_S else NEVER_S

    def run(self, progress: Callable[[int, int], None] | None = None) -> Schedule:
        """Replay everything to its end.

        Args:
            progress: Called a hundred times, with the number of jobs that have been submitted, and that of all.
        """
        if progress is not None:
            submit_s = self.world.jobs.submit_s
            for submitted in range(0, len(submit_s), max(len(submit_s) // 100, 1)):
                self.advance(int(submit_s[submitted]) - 1)
                progress(submitted, len(submit_s))
        while self._jobs_left() and self.step() < NEVER_S:
            if self.policy is None:  # a policy may name a further time at every call
                self.advance(NEVER_S - 1)
        return self.schedule()

    def _jobs_left(self) -> bool:
        clock = self.state.clock[0]
        queued = clock.n_pending + clock.n_held + clock.n_running
        return bool(queued or clock.arrived < len(self.world.jobs))

    # -- branches -----------------------------------------------------------------------------------------------

    def fork(self) -> Self:
        """A copy that continues independently; the past is shared."""
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__)
        copy.state = empty_like(self.state)
        copy_state(copy.state, self.state)
        copy.scratch = make_scratch(self.world, len(self.state.live), self.spec.scratch_rows)
        copy.past, copy.in_past = self._ended_so_far(), self._segments_so_far()
        return copy

    def restore(self, earlier: Simulation) -> None:
        """Return to the state of a fork of the same simulation; the fork stays unchanged.

        Raises:
            ConfigurationError: It is no such fork.
        """
        if earlier.world is not self.world:
            raise ConfigurationError("restore takes a fork of the same simulation, and this is one of another")
        if len(earlier.state.live) != len(self.state.live):
            self.state = empty_like(earlier.state)
            self.scratch = make_scratch(self.world, len(earlier.state.live), self.spec.scratch_rows)
        else:
            self.state = self.state._replace(log=empty_log(earlier.state))
        copy_state(self.state, earlier.state)
        self.past, self.in_past = earlier._ended_so_far(), earlier._segments_so_far()
        self.ended, self.labels = earlier.ended, earlier.labels
        self.next_id = earlier.next_id

    def _ended_so_far(self) -> tuple[Records, ...]:
        logged = int(self.state.clock["n_log"][0])
        return (*self.past, self.state.log[:logged]) if logged else self.past

    def _segments_so_far(self) -> int:
        return self.in_past + int(self.state.clock["n_log"][0])

    # -- jobs from outside ------------------------------------------------------------------------------------------

    def inject(
        self, *, nodes: int, limit_s: int, watched: bool = True, name: str = "", account: str = "", **request: Any
    ) -> int:
        """Submit a job now; the discipline considers it at the next event, which is at once.

        Args:
            nodes: Requested nodes.
            limit_s: Time limit.
            watched: Whether its start stops the clock, for ``run_until_started``.
            name: Job name, which views show folded, as a code; empty for none.
            account: Account that views show; fair-share and limits use that of the user.
            request: As ``link_record``: ``run_s``, ``gpus``, ``cpus``, ``after``, ``begin_s`` …, and the numbers of
                ``user``, ``partition`` and ``qos``; without ``memory`` it takes the default of its partition.

        Returns:
            Its id.

        Raises:
            JobRefused: It can never run here, or names a partition, user or job that does not exist.
            ConfigurationError: Nodes, limit, user, partition or QOS are no whole number.
        """
        request |= {name: whole(name, request[name]) for name in ("user", "partition", "qos") if name in request}
        job = link_record(self.next_id, nodes=whole("nodes", nodes), limit_s=whole("limit_s", limit_s), **request)
        self._admissible(job, requests_memory="memory" in request)
        columns = job.view(np.ndarray)  # attributes of records are many times slower, here and below
        columns["submit_s"], columns["account"] = self.now_s, self._account_of_user[columns["user"]]
        columns["priority_offset"] += self.settings.recorded_priority or 0.0
        while not has_slot(self.state) or self.next_id >= len(self.state.fate):
            self.grow()
        slot = admit(self.world, self.state, job[0])
        if name or account:
            self.labels = self.labels.labelled(self.next_id, name, account)
        if watched:
            self.state.clock["watch"], self.state.clock["watch_slot"] = self.next_id, slot
        self.next_id += 1
        event_loop.wake_now(self.state)
        return self.next_id - 1

    def watch(self, job_id: int) -> None:
        """Make the start of a waiting job stop the clock, as that of the job injected last does."""
        used = self.state.clock[0].slots_used
        slots = np.flatnonzero((self.state.live.id[:used] == job_id) & (self.state.live.status[:used] < RUNNING))
        if not len(slots):
            raise ValueError(f"job {job_id} is not waiting")
        self.state.clock[0].watch, self.state.clock[0].watch_slot = job_id, slots[0]

    def run_until_started(self, job_id: int, until_s: int = NEVER_S - 1) -> int | None:
        """Advance until the watched job starts; returns its start, or None.

        The watched job is the one injected last, or set by ``watch``. It is no longer watched after the call.
        """
        clock = self.state.clock
        if clock["watch"][0] != job_id or clock["watch_slot"][0] == NO_JOB:
            raise ValueError(f"job {job_id} is not the one injected last, or has ended")
        if not self._watched_runs():
            self.advance(until_s)
        started, slot = self._watched_runs(), int(self.state.clock["watch_slot"][0])
        self.state.clock["watch_slot"] = NO_JOB
        return int(self.state.live["first_start_s"][slot]) if started else None

    def _admissible(self, job: Records, requests_memory: bool) -> None:
        """Refuse a job that can never run; accepted forms are not checked again."""
        columns = job.view(np.ndarray)
        partition, user, after = (int(columns[name][0]) for name in ("partition", "user", "after"))
        if not 0 <= partition < len(self.cluster.partitions):
            raise JobRefused(f"there is no partition {partition}; there are {len(self.cluster.partitions)}")
        if not 0 <= user < len(self.state.usage):
            raise JobRefused(f"there is no user {user}; codes run from 0 to {len(self.state.usage) - 1}")
        if after >= self.next_id:
            raise JobRefused(f"there is no job {after} to wait for; ids run below {self.next_id}")
        run_s, offset = int(columns["run_s"][0]), float(columns["priority_offset"][0])
        if run_s < 0 or not isfinite(offset):
            raise JobRefused(
                f"a job needs a run time of 0 s or more and a finite priority; got run_s={run_s}, "
                f"priority_offset={offset}"
            )
        if self.cluster.counts_memory and not requests_memory:
            job.memory = default_memory(job, self.cluster)
        form = tuple(int(columns[name][0]) for name in _FORM)
        if form not in self._admitted:
            request = job[0]
            if request.limit_s > UNLIMITED_S:
                raise JobRefused(f"the longest limit is {UNLIMITED_S} s (none at all); got limit_s={request.limit_s}")
            if min(request.nodes, request.limit_s, request.cpus) < 1 or min(request.gpus, request.memory) < WHOLE_NODE:
                raise JobRefused(
                    f"a job needs at least a node, a second and a CPU; got nodes={request.nodes}, "
                    f"limit_s={request.limit_s}, gpus={request.gpus}, cpus={request.cpus}, memory={request.memory}"
                )
            for reason in misfits(job, self.cluster).values():
                raise JobRefused(f"a job of {quantity(request.nodes, 'node')} can never run: {reason}")
            self._admitted.add(form)

    def _watched_runs(self) -> bool:
        slot = int(self.state.clock["watch_slot"][0])
        return slot != NO_JOB and bool(self.state.live["status"][slot] == RUNNING)

    # -- policies -----------------------------------------------------------------------------------------------

    def view(self, chain: ChainView | None = None) -> View:
        """The view of a policy now."""
        phase_s = (self.now_s - int(self.world.settings["epoch_s"][0])) % TEN_MINUTES_S if self.spec.minutes else 0
        logged = int(self.state.clock["n_log"][0])
        self.ended = self.ended.caught_up(self.past, self.state.log, logged, self.in_past + logged, self.labels)
        tiers = tuple(partition.tier for partition in self.cluster.partitions) if self.spec.tiers else ()
        tiers = tiers if len(set(tiers)) > 1 else ()
        return observe(self.world, self.state, self.ended.ended(), self.labels, chain, phase_s, tiers)

    def apply(self, plan: Plan) -> None:
        """Check and apply a plan, action by action.

        Raises:
            PlanInfeasible: An action cannot be applied; those before it have been.
        """
        while len(self.state.log) - self.state.clock[0].n_log < len(plan.actions):  # each may end a segment
            self.state = with_longer_log(self.state)
        n = write_plan(plan, self.scratch, self.now_s)
        if not actions.apply_plan(self.world, self.state, self.scratch, n):
            raise self._infeasible()
        if self.policy is None:
            event_loop.wake_now(self.state)

    def _infeasible(self) -> PlanInfeasible:
        clock = self.state.clock[0]
        row = int(clock.fault_id)
        table = self.workload.table
        name = str(table.job_id[row]) if 0 <= row < len(table) else str(row)
        fault, value = int(clock.fault), int(clock.fault_value)
        limit = self.cluster.limits[value // COUNTED] if fault == actions.OVER_LIMIT else None
        return PlanInfeasible(_FAULTS[fault].format(id=name, row=row, value=value, limit=limit))

    # -- results ------------------------------------------------------------------------------------------------

    def segments(self, first: int = 0) -> Records:
        """The segments that have ended, in order, from the ``first`` on."""
        present = self.state.log[: self.state.clock[0].n_log]
        if not self.past or first >= self.in_past:
            return present[max(first - self.in_past, 0) :]
        return np.concatenate([*self.past, present])[first:].view(np.recarray)

    def schedule(self) -> Schedule:
        """The schedule of everything that has run so far."""
        segments = self.segments()
        return Schedule.of(self.workload.table, segments, self.cluster.nodes, self._shared(segments))

    def _shared(self, segments: Records) -> tuple[tuple[Ints, int], ...]:
        """CPUs and GPUs that segments hold, and that all nodes have, where jobs share nodes.

        Unknown GPUs, and those of injected jobs, are not counted.
        """
        if not self.cluster.shared_nodes:
            return ()
        gpus = np.append(self.workload.jobs.gpus.clip(0), 0)
        kinds = (
            (segments.cpus, sum(group.count * group.cpus for group in self.cluster.groups)),
            (gpus[segments.id.clip(max=len(gpus) - 1)], sum(group.count * group.gpus for group in self.cluster.groups)),
        )
        return tuple((segments.width.astype(np.int64) * each, there) for each, there in kinds if there)

    def grow(self) -> None:
        """Double the capacity of the arrays that are full."""
        if has_slot(self.state) and self.next_id < len(self.state.fate):
            self.state = with_longer_log(self.state)
            return
        self.state = enlarged(self.state)
        self.scratch = make_scratch(self.world, len(self.state.live), self.spec.scratch_rows)


def _chosen(discipline: str | DisciplineSpec | Policy) -> tuple[DisciplineSpec, Policy | None]:
    """The discipline, and the policy that decides instead if one does."""
    if isinstance(discipline, str):
        return discipline_spec(discipline), None
    if isinstance(discipline, DisciplineSpec):
        return discipline, None
    if isinstance(discipline, Policy) and not isinstance(discipline, type):
        return PAUSED, discipline
    raise ConfigurationError(
        f"a discipline is a name, a DisciplineSpec or a policy (an object, not a class, with decide(view)); "
        f"got {discipline!r}"
    )


def simulate(
    cluster: Cluster,
    jobs: Workload | JobTable,
    discipline: str | DisciplineSpec | Policy = "slurm",
    settings: SlurmSettings | None = None,
) -> Schedule:
    """Replay a workload to its end under a discipline."""
    return Simulation(cluster, jobs, discipline, settings).run()
