"""Fields of jobs, accounts and nodes by name, each as Slurm's commands print it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mirage.duration import DAY_S, HOUR_S, UNLIMITED_S, format_duration
from mirage.job_state import MISSING, JobState
from mirage.lab.virtual.node_names import hostlist
from mirage.slurm.records import AccountedJob, Machine, Node, QueuedJob, SlurmPartition, SlurmReservation

STATE_LETTERS = {
    JobState.PENDING: "PD", JobState.RUNNING: "R", JobState.SUSPENDED: "S", JobState.COMPLETED: "CD",
    JobState.CANCELLED: "CA", JobState.FAILED: "F", JobState.TIMEOUT: "TO", JobState.NODE_FAIL: "NF",
    JobState.PREEMPTED: "PR",
}  # fmt: skip
LIVE = (JobState.PENDING, JobState.RUNNING, JobState.SUSPENDED)


@dataclass(frozen=True, slots=True)
class OutputFormat:
    """Format of printed values.

    Attributes:
        now_s: The present second.
        seconds: Whether times are plain numbers (``SLURM_TIME_FORMAT=%s``), else ISO in this machine's zone.
    """

    now_s: int
    seconds: bool

    def instant(self, at_s: int, none: str = "N/A") -> str:
        """Formats a time."""
        if at_s == MISSING:
            return none
        return str(at_s) if self.seconds else time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(at_s))


def elapsed(seconds: int) -> str:
    """Formats a duration as squeue prints it: ``10:00``, ``1:00:00``, ``2-00:00:00``."""
    if seconds >= UNLIMITED_S:
        return "UNLIMITED"
    days, rest = divmod(max(seconds, 0), DAY_S)
    hours, rest = divmod(rest, HOUR_S)
    minutes, seconds = divmod(rest, 60)
    if days:
        return f"{days}-{hours:02d}:{minutes:02d}:{seconds:02d}"
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"


def tres(nodes: int, cpus: int, gpus: int) -> str:
    """Formats the resources that a job has or requests."""
    return f"cpu={cpus},node={nodes},billing={cpus}" + (f",gres/gpu={gpus}" if gpus else "")


def _ran_s(job: QueuedJob | AccountedJob, form: OutputFormat) -> int:
    if job.start_s == MISSING or job.state is JobState.PENDING:
        return 0
    over = job.state not in LIVE
    return max((job.end_s if over else form.now_s) - job.start_s, 0)


def _where(job: QueuedJob) -> str:
    return job.nodelist if job.state is not JobState.PENDING else f"({job.reason or 'None'})"


Column = tuple[str, Callable[[QueuedJob, OutputFormat], str]]

_QUEUE: dict[str, Column] = {
    "jobid": ("JOBID", lambda job, form: str(job.id)),
    "state": ("STATE", lambda job, form: job.state.name),
    "statecompact": ("ST", lambda job, form: STATE_LETTERS.get(job.state, "?")),
    "username": ("USER", lambda job, form: job.user),
    "account": ("ACCOUNT", lambda job, form: job.account),
    "partition": ("PARTITION", lambda job, form: job.partition),
    "qos": ("QOS", lambda job, form: job.qos),
    "arraytaskid": ("ARRAY_TASK_ID", lambda job, form: "N/A"),
    "reason": ("REASON", lambda job, form: job.reason or "None"),
    "prioritylong": ("PRIORITY", lambda job, form: str(int(job.priority))),
    "priority": ("PRIORITY", lambda job, form: f"{job.priority / 2**32:.14f}"),
    "nice": ("NICE", lambda job, form: str(job.nice)),
    "numnodes": ("NODES", lambda job, form: str(job.nodes)),
    "numcpus": ("CPUS", lambda job, form: str(job.cpus)),
    "numtasks": ("TASKS", lambda job, form: str(job.nodes)),
    "tres-alloc": ("TRES_ALLOC", lambda job, form: tres(job.nodes, job.cpus, job.gpus)),
    "tres-per-node": (
        "TRES_PER_NODE",
        lambda job, form: f"gres:gpu:{job.gpus // max(job.nodes, 1)}" if job.gpus else "N/A",
    ),
    "tres-per-job": ("TRES_PER_JOB", lambda job, form: "N/A"),
    "tres-per-task": ("TRES_PER_TASK", lambda job, form: "N/A"),
    "oversubscribe": ("OVER_SUBSCRIBE", lambda job, form: "NO" if job.whole_nodes else "OK"),
    "timelimit": ("TIME_LIMIT", lambda job, form: elapsed(job.limit_s)),
    "timeused": ("TIME", lambda job, form: elapsed(_ran_s(job, form))),
    "timeleft": ("TIME_LEFT", lambda job, form: elapsed(job.limit_s - _ran_s(job, form))),
    "submittime": ("SUBMIT_TIME", lambda job, form: form.instant(job.submit_s)),
    "accruetime": ("ACCRUE_TIME", lambda job, form: form.instant(job.accrues_s)),
    "eligibletime": ("ELIGIBLE_TIME", lambda job, form: form.instant(job.eligible_s)),
    "starttime": ("START_TIME", lambda job, form: form.instant(job.start_s)),
    "endtime": ("END_TIME", lambda job, form: form.instant(job.end_s)),
    "dependency": ("DEPENDENCY", lambda job, form: job.dependency or "(null)"),
    "exit_code": ("EXIT_CODE", lambda job, form: str(job.exit_code << 8 | job.exit_signal)),
    "nodelist": ("NODELIST", lambda job, form: job.nodelist),
    "reasonlist": ("NODELIST(REASON)", lambda job, form: _where(job)),
    "comment": ("COMMENT", lambda job, form: job.comment or "(null)"),
    "name": ("NAME", lambda job, form: job.name),
}  # fmt: skip
QUEUE = _QUEUE | {"jobarrayid": _QUEUE["jobid"]}
"""Fields of ``squeue -O`` in lower case → heading and value."""

QUEUE_LETTERS = {
    "i": "jobid", "A": "jobid", "F": "jobid", "T": "state", "t": "statecompact", "u": "username", "a": "account",
    "P": "partition", "q": "qos", "K": "arraytaskid", "r": "reason", "Q": "prioritylong", "p": "priority",
    "y": "nice", "D": "numnodes", "C": "numcpus", "b": "tres-per-node", "h": "oversubscribe", "l": "timelimit",
    "M": "timeused",
    "L": "timeleft", "V": "submittime", "S": "starttime", "e": "endtime", "E": "dependency", "N": "nodelist",
    "R": "reasonlist", "k": "comment", "j": "name",
}  # fmt: skip
"""Letters of ``squeue -o``."""


def _raw_limit(job: AccountedJob) -> str:
    return "UNLIMITED" if job.limit_s >= UNLIMITED_S else str(job.limit_s // 60)


def _account_state(job: AccountedJob) -> str:
    return "CANCELLED by 0" if job.state is JobState.CANCELLED else job.state.name


def _start(job: AccountedJob, form: OutputFormat) -> str:
    """Start of a job; for one cancelled while pending, sacct shows the end as its start."""
    never = job.state is JobState.CANCELLED and job.start_s == MISSING
    return form.instant(job.end_s if never else job.start_s, "Unknown")


ACCOUNTS: dict[str, tuple[str, Callable[[AccountedJob, OutputFormat], str]]] = {
    "jobid": ("JobID", lambda job, form: str(job.id)),
    "jobidraw": ("JobIDRaw", lambda job, form: str(job.id)),
    "jobname": ("JobName", lambda job, form: job.name),
    "state": ("State", lambda job, form: _account_state(job)),
    "user": ("User", lambda job, form: job.user),
    "account": ("Account", lambda job, form: job.account),
    "partition": ("Partition", lambda job, form: job.partition),
    "qos": ("QOS", lambda job, form: job.qos),
    "nnodes": ("NNodes", lambda job, form: str(job.nodes)),
    "priority": ("Priority", lambda job, form: ""),
    "timelimit": ("Timelimit", lambda job, form: format_duration(job.limit_s)),
    "timelimitraw": ("TimelimitRaw", lambda job, form: _raw_limit(job)),
    "submit": ("Submit", lambda job, form: form.instant(job.submit_s, "Unknown")),
    "eligible": ("Eligible", lambda job, form: form.instant(job.eligible_s, "Unknown")),
    "start": ("Start", _start),
    "end": ("End", lambda job, form: form.instant(job.end_s, "Unknown")),
    "elapsed": ("Elapsed", lambda job, form: format_duration(_ran_s(job, form))),
    "elapsedraw": ("ElapsedRaw", lambda job, form: str(_ran_s(job, form))),
    "exitcode": ("ExitCode", lambda job, form: f"{job.exit_code}:{job.exit_signal}"),
    "comment": ("Comment", lambda job, form: job.comment),
    "submitline": ("SubmitLine", lambda job, form: job.submit_line),
    "alloccpus": ("AllocCPUS", lambda job, form: str(max(job.cpus, 0))),
    "cluster": ("Cluster", lambda job, form: "simulated"),
}
"""Fields of ``sacct --format`` in lower case."""


@dataclass(frozen=True, slots=True)
class OutputRow:
    """Similar nodes of one partition, for sinfo."""

    partition: SlurmPartition
    nodes: tuple[Node, ...]


_SHORT = {"allocated": "alloc", "mixed": "mix", "draining": "drng"}

NODES: dict[str, tuple[str, Callable[[OutputRow], str]]] = {
    "N": ("NODELIST", lambda row: hostlist([node.name for node in row.nodes])),
    "n": ("HOSTNAMES", lambda row: hostlist([node.name for node in row.nodes])),
    "P": ("PARTITION", lambda row: row.partition.name + "*" * row.partition.default),
    "R": ("PARTITION", lambda row: row.partition.name),
    "T": ("STATE", lambda row: row.nodes[0].state),
    "t": ("STATE", lambda row: _SHORT.get(row.nodes[0].state, row.nodes[0].state)),
    "c": ("CPUS", lambda row: str(row.nodes[0].cpus)),
    "G": ("GRES", lambda row: f"gpu:{row.nodes[0].gpus}" if row.nodes[0].gpus else "(null)"),
    "D": ("NODES", lambda row: str(len(row.nodes))),
    "a": ("AVAIL", lambda row: "up"),
    "l": ("TIMELIMIT", lambda row: _longest(row.partition)),
    "L": ("DEFAULTTIME", lambda row: _default(row.partition)),
    "h": ("OVERSUBSCRIBE", lambda row: "EXCLUSIVE" if row.partition.whole_nodes else "NO"),
    "p": ("PRIO_TIER", lambda row: str(row.partition.priority_tier)),
}
"""Letters of ``sinfo -o``."""


def _longest(partition: SlurmPartition) -> str:
    return "infinite" if partition.max_time_s >= UNLIMITED_S else elapsed(partition.max_time_s)


def _default(partition: SlurmPartition) -> str:
    return "n/a" if partition.default_time_s == MISSING else elapsed(partition.default_time_s)


def node_rows(machine: Machine, each: bool) -> list[OutputRow]:
    """Returns the rows of sinfo.

    These are every node in every partition, or groups of nodes of a partition in the same state.
    """
    partitions = {partition.name: partition for partition in machine.partitions}
    if each:
        return [OutputRow(partitions[name], (node,)) for node in machine.nodes for name in node.partitions]
    alike: dict[tuple[str, str, int, int], list[Node]] = {}
    for partition in machine.partitions:
        for node in machine.nodes:
            if partition.name in node.partitions:
                alike.setdefault((partition.name, node.state, node.cpus, node.gpus), []).append(node)
    return [OutputRow(partitions[key[0]], tuple(nodes)) for key, nodes in alike.items()]


def partition_line(partition: SlurmPartition) -> str:
    """Formats a partition like ``scontrol show partition``."""
    default_s = partition.default_time_s
    return (
        f"PartitionName={partition.name} AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL AllocNodes=ALL "
        f"Default={'YES' if partition.default else 'NO'} QoS=N/A "
        f"DefaultTime={'NONE' if default_s == MISSING else format_duration(default_s)} Hidden=NO "
        f"MaxTime={format_duration(partition.max_time_s)} MinNodes=0 Nodes={hostlist(list(partition.nodes))} "
        f"PriorityTier={partition.priority_tier} "
        f"OverSubscribe={'EXCLUSIVE' if partition.whole_nodes else 'NO'} State=UP TotalNodes={len(partition.nodes)}"
    )


def node_line(node: Node) -> str:
    """Formats a node like ``scontrol show node``."""
    gres = f"gpu:{node.gpus}" if node.gpus else "(null)"
    return (
        f"NodeName={node.name} CPUTot={node.cpus} Gres={gres} State={node.state.upper()} "
        f"Partitions={','.join(node.partitions)}"
    )


def reservation_line(reservation: SlurmReservation, form: OutputFormat) -> str:
    """Formats a reservation like ``scontrol show reservation``."""
    lasts_s = reservation.end_s - reservation.start_s
    return (
        f"ReservationName={reservation.name} StartTime={form.instant(reservation.start_s)} "
        f"EndTime={form.instant(reservation.end_s)} Duration={format_duration(lasts_s)} "
        f"Nodes={hostlist(list(reservation.nodes))} NodeCnt={len(reservation.nodes)} PartitionName=(null) "
        f"Flags={','.join(reservation.flags)} Users=root Groups=(null) Accounts=(null) Licenses=(null) "
        f"State={'ACTIVE' if reservation.start_s <= form.now_s else 'INACTIVE'} MaxStartDelay=(null)"
    )


def job_line(job: QueuedJob, form: OutputFormat) -> str:
    """Formats a job like ``scontrol show job``."""
    return (
        f"JobId={job.id} JobName={job.name} UserId={job.user}(0) Priority={int(job.priority)} Nice={job.nice} "
        f"Account={job.account} QOS={job.qos} JobState={job.state.name} Reason={job.reason or 'None'} "
        f"Dependency={job.dependency or '(null)'} ExitCode={job.exit_code}:{job.exit_signal} "
        f"RunTime={format_duration(_ran_s(job, form))} TimeLimit={format_duration(job.limit_s)} "
        f"SubmitTime={form.instant(job.submit_s)} EligibleTime={form.instant(job.eligible_s, 'Unknown')} "
        f"AccrueTime={form.instant(job.accrues_s, 'Unknown')} "
        f"StartTime={form.instant(job.start_s, 'Unknown')} EndTime={form.instant(job.end_s, 'Unknown')} "
        f"Partition={job.partition} NodeList={job.nodelist or '(null)'} NumNodes={job.nodes} NumCPUs={job.cpus} "
        f"TRES={tres(job.nodes, job.cpus, job.gpus)} OverSubscribe={'NO' if job.whole_nodes else 'OK'} "
        f"Comment={job.comment or '(null)'}"
    )


def config_text(options: Mapping[str, str], form: OutputFormat) -> str:
    """Formats options like ``scontrol show config``."""
    lines = [f"Configuration data as of {form.instant(form.now_s)}"]
    return "\n".join([*lines, *(f"{name:<23} = {value}" for name, value in sorted(options.items()))]) + "\n"
