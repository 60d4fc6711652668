"""Queries of the simulated Slurm: its jobs, accounts, nodes and options.

They are read from the simulator's state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from mirage.duration import MINUTE_S, UNLIMITED_S, format_duration
from mirage.job_state import MISSING, JobState
from mirage.kernel.record_arrays import Records
from mirage.lab.virtual.batch_request import DEFAULT_TIME_S, StartCondition
from mirage.lab.virtual.node_names import NodeNames, hostlist
from mirage.lab.virtual.virtual_job import VirtualJob
from mirage.sim.contract.to_view import limits_reached
from mirage.sim.disciplines.discipline_registry import DISCIPLINES
from mirage.sim.kernel.arrays import (
    AFTER_OK,
    BY_CANCEL,
    BY_ITSELF,
    BY_LIMIT,
    CANCELLED,
    HELD,
    NEVER_S,
    NIL,
    NO_JOB,
    WHOLE_NODE,
)
from mirage.sim.kernel.resources.amounts import MEMORY
from mirage.sim.kernel.resources.job_limits import COUNTED
from mirage.sim.simulation import Simulation
from mirage.slurm.records import AccountedJob, Machine, Node, Queue, QueuedJob, SlurmPartition, SlurmReservation
from mirage.slurm_words.hostlist import expand_hosts

DEFAULT_USER = "me"
ACCOUNT = "lab"

_LIMIT_REASONS = {
    "user": ("QOSMaxJobsPerUserLimit", "QOSMaxNodePerUserLimit", "QOSMaxGRESPerUser"),
    "account": ("MaxJobsPerAccount", "MaxNodePerAccount", "MaxGRESPerAccount"),
    "all": ("QOSGrpJobsLimit", "QOSGrpNodeLimit", "QOSGrpGRES"),
}
"""Reasons that squeue shows for a job over a limit on jobs, nodes, GPUs: those of a QOS, as on most sites."""

_ENDS = np.array([BY_ITSELF, BY_LIMIT, BY_CANCEL])


class Queries:
    """Read-only queries of a simulation.

    Args:
        own: Submitted jobs, by number; the others come from the trace.
        user: The user of the submitted jobs.
    """

    def __init__(self, simulation: Simulation, own: Mapping[int, VirtualJob], user: str) -> None:
        self.sim, self.own, self.user = simulation, own, user
        self.node_names = NodeNames(simulation)
        self._shown: dict[tuple[float, ...], QueuedJob] = {}  # running jobs, as the last query described them
        self.partitions = [partition.name for partition in simulation.cluster.partitions]
        self.qos = ["", *simulation.cluster.qos_factors]
        table = simulation.workload.table
        self._users, self._names, self._accounts = (
            (labels.names, labels.codes) for labels in (table.user, table.name, table.account)
        )

    # -- jobs -------------------------------------------------------------------------------------------------

    def take_note(self) -> None:
        """Record in our jobs when they became eligible, and when and where they run."""
        state, clock = self.sim.state, self.sim.state.clock[0]
        slots = state.running[: clock.n_running]
        for slot in slots[state.live.id[slots] >= len(self.sim.workload.table)]:
            own = self.own.get(int(state.live.id[slot]) + 1)
            if own is not None and own.start_s == MISSING:
                own.start_s, own.wait = int(state.live.start_s[slot]), StartCondition()
                own.nodelist = hostlist(self.node_names.of(int(slot)))
        for own in self.own.values():
            if own.wait != StartCondition() and not own.over and self.sim.state.fate[own.number - 1] > HELD:
                own.wait = StartCondition()

    def queue(self, min_job_age_s: int) -> Queue:
        """Returns the queue like squeue: pending, running and recently ended jobs."""
        now_s = self.sim.now_s
        ended = [self._ended(row) for row in self._segments(now_s - min_job_age_s)]
        mine = [_gone(own, self) for own in self.own.values() if own.over and now_s - own.end_s <= min_job_age_s]
        return Queue(now_s, (*self._pending(), *self._running(), *ended, *mine))

    def accounts(self, since_s: int) -> tuple[AccountedJob, ...]:
        """Returns jobs alive at or after a time, like sacct."""
        ended = [_accounted(self._ended(row)) for row in self._segments(since_s - 1)]
        alive = [_accounted(job) for job in (*self._pending(), *self._running()) if job.id not in self.own]
        mine = [self._own_account(own) for own in self.own.values() if not own.over or own.end_s >= since_s]
        return (*ended, *alive, *mine)

    def user_code(self) -> int:
        """Returns the simulator's number of our user; 0 if the trace does not have that user."""
        names, _ = self._users
        return names.index(self.user) + 1 if self.user in names else 0

    def qos_place(self, name: str) -> int:
        """Returns the simulator's number of a QOS."""
        return self.qos.index(name) if name in self.qos else 0

    def _pending(self) -> Iterator[QueuedJob]:
        state, clock = self.sim.state, self.sim.state.clock[0]
        queue = state.queue[clock.queue_head : clock.queue_head + clock.n_pending]
        reached = limits_reached(self.sim.world, state, queue).tolist()
        first: set[int] = set()
        for job, limit in zip(_rows(state.live, queue), reached):
            place = job["partition"]
            if limit != NIL:
                which, what = divmod(limit, COUNTED)
                reason = _LIMIT_REASONS[self.sim.cluster.limits[which].per][what]
            else:
                reason = "Priority" if place in first else "Resources"
                first.add(place)
            yield self._waiting(job, reason, job["eligible_s"])
        for job in _rows(state.live, state.held[: clock.n_held]):
            yield self._waiting(job, *self._held(job))

    def _held(self, job: dict[str, Any]) -> tuple[str, int]:
        """Why a job is held, and until when, if that is known."""
        own = self.own.get(job["id"] + 1)
        if own is not None and own.held:
            return own.why_held, MISSING
        if job["after"] != NO_JOB and job["after_kind"]:
            failed = job["after_kind"] == AFTER_OK and self.sim.state.fate[job["after"]] == CANCELLED
            return "DependencyNeverSatisfied" if failed else "Dependency", MISSING
        return "BeginTime", job["begin_s"]

    def _waiting(self, job: dict[str, Any], reason: str, eligible_s: int) -> QueuedJob:
        number = job["id"] + 1
        own = self.own.get(number)
        planned_s = job["planned_s"] if self.sim.now_s < job["planned_s"] < NEVER_S else MISSING
        return QueuedJob(
            id=number,
            state=JobState.PENDING,
            reason=reason,
            priority=0.0 if own and own.held else max(shown_priority(self.sim, job), 1.0),
            eligible_s=eligible_s,
            accrues_s=job["eligible_s"] if job["eligible_s"] < NEVER_S else MISSING,
            start_s=job["begin_s"] if reason == "BeginTime" else planned_s,
            dependency=self._dependency(own, reason) if own else "",
            **self._described(job, own),
        )

    def _running(self) -> Iterator[QueuedJob]:
        state, clock = self.sim.state, self.sim.state.clock[0]
        slots = state.running[: clock.n_running]
        keys = list(zip(*(state.live[name][slots].tolist() for name in ("id", "start_s", "width", "priority"))))
        before, self._shown = self._shown, {}
        for slot, key in zip(slots.tolist(), keys):
            shown = before.get(key)
            if shown is None or shown.id in self.own:
                (job,) = _rows(state.live, [slot])
                shown = self._runs(slot, job)
            self._shown[key] = shown
            yield shown

    def _runs(self, slot: int, job: dict[str, Any]) -> QueuedJob:
        described = self._described(job, self.own.get(job["id"] + 1))
        hosts = self.node_names.of(slot)
        if described["whole_nodes"]:
            described |= self._all_of(hosts)
        return QueuedJob(
            id=job["id"] + 1,
            state=JobState.RUNNING,
            priority=max(job["priority"], 1.0),
            eligible_s=job["eligible_s"],
            accrues_s=job["eligible_s"],
            start_s=job["start_s"],
            end_s=min(job["start_s"] + described["limit_s"], NEVER_S),
            nodelist=hostlist(hosts),
            **{**described, "nodes": job["width"]},
        )

    def _described(self, job: dict[str, Any], own: VirtualJob | None) -> dict[str, Any]:
        """Returns the fields that do not depend on the job's state."""
        place, nodes = job["partition"], job["nodes"]
        group = self.sim.cluster.groups_of(self.sim.cluster.partitions[place])[0]
        whole = job["gpus"] < 0
        return {
            "name": own.name if own else self._label(self._names, job["id"], "job"),
            "user": self.user if own else self._user(job["id"], job["user"]),
            "account": (own.request.account if own else self._label(self._accounts, job["id"], "")) or ACCOUNT,
            "partition": self.partitions[place],
            "qos": self.qos[job["qos"]] or "normal",
            "nice": own.request.nice if own else 0,
            "nodes": nodes,
            "cpus": nodes * (group.cpus if whole else job["cpus"]),
            "gpus": nodes * (group.gpus if whole else job["gpus"]),
            "limit_s": own.limit_s if own else job["limit_s"],
            "submit_s": own.submit_s if own else job["submit_s"],
            "comment": own.comment if own else "",
            "whole_nodes": whole,
        }

    def _all_of(self, hosts: list[str]) -> dict[str, int]:
        """Total CPUs and GPUs of some nodes."""
        groups = [self.sim.cluster.bins()[self.node_names.bin_of[name]][0] for name in hosts]
        return {"cpus": sum(group.cpus for group in groups), "gpus": sum(group.gpus for group in groups)}

    def _dependency(self, own: VirtualJob, reason: str) -> str:
        if own.wait.job == NO_JOB:
            return ""
        how = "failed" if reason == "DependencyNeverSatisfied" else "unfulfilled"
        return f"{own.wait.word}:{own.wait.job}({how})"

    def _segments(self, after_s: int) -> Records:
        """Ends of the trace's jobs after a given time."""
        segments = self.sim.segments(self.sim.in_past)
        if not len(segments) or segments.end_s[0] > after_s:
            segments = self.sim.segments()
        late = segments[np.searchsorted(segments.end_s, after_s, side="right") :]
        of_trace = late.id < len(self.sim.workload.table)
        return late[of_trace & np.isin(late.why, _ENDS)]

    def _ended(self, segment: Any) -> QueuedJob:
        row = int(segment.id)
        request = self.sim.workload.jobs[row]
        outcome = {BY_LIMIT: JobState.TIMEOUT, BY_CANCEL: JobState.CANCELLED}.get(
            int(segment.why), JobState.FAILED if request.failed else JobState.COMPLETED
        )
        described = self._described({name: request[name].item() for name in _REQUEST_COLUMNS}, None)
        if segment.cpus != WHOLE_NODE:
            described["cpus"] = int(segment.cpus) * int(segment.width)
        times = {name: int(segment[name]) for name in ("submit_s", "start_s", "end_s", "limit_s")}
        return QueuedJob(
            id=row + 1, state=outcome, exit_code=int(outcome is JobState.FAILED), eligible_s=times["submit_s"],
            **{**described, **times, "nodes": int(segment.width)},
        )  # fmt: skip

    def _own_account(self, own: VirtualJob) -> AccountedJob:
        state = own.outcome
        if not own.over:
            state = JobState.PENDING if own.start_s == MISSING else JobState.RUNNING
        code, sign = own.exits if own.over else (0, 0)
        return AccountedJob(
            own.number, state, own.name, self.user, own.request.account or ACCOUNT, self.partitions[own.partition],
            own.request.qos or "normal", own.request.nodes, own.limit_s, own.submit_s, own.submit_s, own.start_s,
            own.end_s, code, sign, own.comment if own.over else "", own.submit_line, self._allocated_cpus(own),
        )  # fmt: skip

    def _allocated_cpus(self, own: VirtualJob) -> int:
        if own.start_s == MISSING:
            return MISSING
        request = own.request
        return self._all_of(expand_hosts(own.nodelist))["cpus"] if request.gpus < 0 else request.nodes * request.cpus

    def _label(self, labels: tuple[tuple[str, ...], Any], row: int, otherwise: str) -> str:
        names, codes = labels
        code = int(codes[row]) if row < len(codes) else -1
        return names[code] if code >= 0 else otherwise

    def _user(self, row: int, code: int) -> str:
        return self._label(self._users, row, f"user{code}")

    # -- the machine ------------------------------------------------------------------------------------------

    def machine(self) -> Machine:
        """Returns the present nodes and partitions."""
        cluster, in_use = self.sim.cluster, self.node_names.in_use()
        completing = self.node_names.completing(in_use)
        gone = self.node_names.gone(in_use | completing)
        reserved = self.node_names.reserved(gone, in_use | completing)
        words = {name: "draining" if name in gone else "completing" for name in completing}
        words |= dict.fromkeys(reserved, "maint")
        nodes = [
            self._node(b, name, words.get(name) or self._word(b, name in in_use, name in gone), name not in gone)
            for b, names in enumerate(self.node_names.names)
            for name in names
        ]
        partitions = [
            SlurmPartition(
                name=partition.name,
                default=place == 0,
                max_time_s=partition.max_limit_s,
                default_time_s=min(DEFAULT_TIME_S, partition.max_limit_s),
                nodes=tuple(node.name for node in nodes if partition.name in node.partitions),
                priority_tier=partition.tier if self.sim.spec.tiers else 1,
                whole_nodes=not cluster.shared_nodes,
            )
            for place, partition in enumerate(cluster.partitions)
        ]
        return Machine(tuple(nodes), tuple(partitions))

    def _word(self, b: int, in_use: bool, gone: bool) -> str:
        """Returns the state of a node that is not completing."""
        full = not self.sim.cluster.shared_nodes or not self.sim.state.free[b, :MEMORY].any()
        if gone:
            return "draining" if in_use else "down"
        return "idle" if not in_use else "allocated" if full else "mixed"

    def _node(self, b: int, name: str, word: str, usable: bool) -> Node:
        group, _ = self.sim.cluster.bins()[b]
        places = np.flatnonzero(self.sim.state.allowed[:, b])
        return Node(name, word, usable, group.cpus, group.gpus, tuple(self.partitions[p] for p in places))

    def reservations(self) -> tuple[SlurmReservation, ...]:
        """Returns the reservations that are known and have not ended.

        The simulator only counts similar nodes: the last ones of the group are taken as reserved.
        """
        names: dict[str, list[str]] = {}
        for (group, _), some in zip(self.sim.cluster.bins(), self.node_names.names, strict=True):
            names.setdefault(group.name, []).extend(some)
        return tuple(
            SlurmReservation(f"r{k}", one.start_s, one.end_s, tuple(names[one.group][-one.nodes :]), ("MAINT",))
            for k, one in enumerate(self.sim.cluster.reservations)
            if (one.announced_s is None or one.announced_s <= self.sim.now_s) and self.sim.now_s < one.end_s
        )

    def configuration(self, min_job_age_s: int) -> dict[str, str]:
        """Returns the scheduler's parameters under slurm.conf's names, in lower case."""
        s = self.sim.settings
        return {
            "clustername": "simulated",
            "slurmctldhost[0]": "localhost",
            "slurmctldport": "6817",
            "schedulertype": "sched/backfill",
            "schedulerparameters": f"bf_interval={s.bf_interval_s},bf_resolution={s.bf_resolution_s},"
            f"bf_window={s.bf_window_s // 60},bf_max_job_test={s.max_job_test},"
            f"default_queue_depth={s.default_queue_depth}",
            "prioritytype": "priority/multifactor",
            "prioritycalcperiod": format_duration(s.calc_period_s),
            "prioritydecayhalflife": format_duration(int(min(s.half_life_s, UNLIMITED_S))),
            "prioritymaxage": format_duration(int(min(s.max_age_s, UNLIMITED_S))),
            **({"priorityflags": "SMALL_RELATIVE_TO_TIME"} if s.size_over_time else {}),
            "priorityfavorsmall": "Yes" if s.favor_small else "No",
            "priorityweightage": str(round(s.weight_age)),
            "priorityweightjobsize": str(round(s.weight_size)),
            "priorityweightfairshare": str(round(s.weight_fairshare)),
            "priorityweightpartition": str(round(s.weight_partition)),
            "priorityweightqos": str(round(s.weight_qos)),
            "priorityweighttres": ",".join(
                f"{tres}={weight:g}" for tres, weight in (("CPU", s.weight_cpus), ("GRES/gpu", s.weight_gpus)) if weight
            )
            or "(null)",
            "selecttype": "select/cons_tres" if self.sim.cluster.shared_nodes else "select/linear",
            "minjobage": f"{min_job_age_s} sec",
            "enforcepartlimits": "ALL",
            "preempttype": "preempt/none",
            "accountingstoragetype": "accounting_storage/slurmdbd",
            "accountingstorageenforce": "none" if s.retains_age(self.sim.cluster.limits) else "associations,limits",
        }


_REQUEST_COLUMNS = ("id", "user", "partition", "qos", "nodes", "gpus", "cpus", "limit_s", "submit_s")
_SHOWN = (
    *_REQUEST_COLUMNS,
    "priority_offset",
    "after",
    "after_kind",
    "begin_s",
    "priority",
    "planned_s",
    "eligible_s",
    "start_s",
    "width",
)


def _rows(live: Records, slots: Any) -> Iterator[dict[str, Any]]:
    """Yields the jobs in some slots, as plain values by name."""
    some = live[slots]
    for values in zip(*(some[name].tolist() for name in _SHOWN)):
        yield dict(zip(_SHOWN, values))


def shown_priority(sim: Simulation, job: Mapping[str, Any]) -> float:
    """Returns the priority of a waiting job, as squeue shows it even for ineligible jobs.

    Slurm 22.05.8 computes the priority of a job that waits for another job or for a time like that of any other, every
    ``PriorityCalcPeriod``; it has an age only if it was eligible before and was allowed to retain its age.

    Args:
        job: Its columns, by name.
    """
    settings, world, place = sim.settings, sim.world, job["partition"]
    competes = sim.state.fate[job["id"]] != HELD
    if competes or sim.spec != DISCIPLINES["slurm"] or settings.priority != "multifactor":
        return float(job["priority"])
    whole = job["gpus"] == WHOLE_NODE
    counted = job["nodes"] * (world.of_node[place] if whole else np.array([max(job["gpus"], 0), job["cpus"]]))
    size = job["nodes"] / world.settings[0].nodes
    if sim.cluster.shared_nodes:
        of_cpus = counted[1] / world.settings[0].cpus
        size = max(size, of_cpus) if settings.size_over_time else (size + of_cpus) / 2
    if settings.size_over_time:
        size /= max(-(-job["limit_s"] // MINUTE_S), 1)
    aged_s = max(int(sim.state.clock[0].priority_at_s) - job["eligible_s"], 0)
    gpus, cpus = counted / np.maximum(world.of_partition[place], 1)
    return float(int(
        settings.weight_age * min(aged_s / settings.max_age_s, 1.0)
        + settings.weight_partition * world.partition_factor[place]
        + settings.weight_qos * world.qos_factor[job["qos"]]
        + settings.weight_size * (1.0 - size if settings.favor_small else size)
        + settings.weight_gpus * gpus
        + settings.weight_cpus * cpus
        + settings.weight_fairshare * _fair_share(sim, job["user"])
        + job["priority_offset"]
    ))  # fmt: skip


def _fair_share(sim: Simulation, user: int) -> float:
    """Fair-tree factor of a user: the share of users that come after, accounts first."""
    account, usage = sim.world.user_account, sim.state.usage
    used = np.bincount(account, usage)[account]
    after = (used > used[user]) | ((account == account[user]) & (usage >= usage[user]))
    return float(after.mean())


def _gone(own: VirtualJob, showing: Queries) -> QueuedJob:
    account, request, cluster = showing._own_account(own), own.request, showing.sim.cluster
    whole, group = request.gpus < 0, cluster.groups_of(cluster.partitions[own.partition])[0]
    return QueuedJob(
        **{name: getattr(account, name) for name in _SHARED},
        cpus=request.nodes * (group.cpus if whole else request.cpus),
        gpus=request.nodes * (group.gpus if whole else request.gpus),
        comment=own.comment,
        reason="NonZeroExitCode" if own.outcome is JobState.FAILED else "",
        nodelist=own.nodelist,
        whole_nodes=whole,
    )


_SHARED = (
    "id", "state", "name", "user", "account", "partition", "qos", "nodes", "limit_s", "submit_s", "eligible_s",
    "start_s", "end_s", "exit_code", "exit_signal",
)  # fmt: skip


def _accounted(job: QueuedJob) -> AccountedJob:
    ended = job.state not in (JobState.PENDING, JobState.RUNNING)
    shown = {name: getattr(job, name) for name in _SHARED}
    end_s = job.end_s if ended else MISSING
    if job.state is JobState.PENDING:
        return AccountedJob(**{**shown, "start_s": MISSING, "end_s": end_s})
    return AccountedJob(**shown | {"end_s": end_s}, cpus=job.cpus)
