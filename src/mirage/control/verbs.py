"""The verbs of a controller, and the one command of Slurm that each of them is.

A verb has no free text: jobs are numbers, nodes are names of the file, and names of reservations follow from them. All
need the rights of an operator, and no more.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from mirage.control.pools_file import Pools

FENCE = "mirage-fence"
"""The permanent reservation of the owner's nodes, on which loans lie."""

LOAN = "mirage-loan-"
"""A reservation of this name and a node is the loan of the node; its end is the promise."""

LEASE = "mirage-controller"
"""The reservation that only one controller can have."""

LEASE_MINUTES = 5
_LEASE_END = f"EndTime=now+{LEASE_MINUTES}minutes"

HETEROGENEOUS = "is a component of a heterogeneous job: a command would change all of them"
TASKS_UNKNOWN = "is an array with more tasks than squeue lists: no command can name them"
"""Why nothing is done for some jobs."""

Command = tuple[str, ...]


def fits_loan(limit_s: int, now_s: float, end_s: int) -> bool:
    """Whether a job that starts now ends before its loan.

    At the end of a loan Slurm ends the jobs in it, as after a time-out (22.05.8): it neither requeues them, nor does it
    let only jobs start that are short enough.

    Args:
        limit_s: Time limit of the job; below 1 for none.
        now_s: The present time, in seconds since 1970.
        end_s: End of the loan.
    """
    return 0 < limit_s <= end_s - now_s


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb with its operands; unused ones have their default.

    Attributes:
        name: One of ``VERBS``.
        job: Id of a job.
        submit_s: Its last submission, as a check of the id.
        node: A node of the owner.
        nice: A nice value.
        minutes: Duration of a loan.
        warns: Whether an eviction begins with the signal.
        gpus: Number of GPUs of an elastic job from now on.
        gpu_type: The GPU type that the job requests; empty for any. A plan cannot set it.
        per_node: Whether ``gpus`` are those of each node, and not of the whole job. A plan cannot set it.
        workers: The verbs of the worker jobs by which the job changes its size, or that leave with it. A plan cannot
            set them.
        users: Users of a loan or of the fence; a plan cannot set them.
        task: How the job is named if it is of an array, as in ``GpuQueueJob``. A plan cannot set it.
        start_s: Start of the lease in seconds since 1970, the mark of its holder; or when a requeued job may start, 0
            for two seconds from now. A plan cannot set it.
    """

    name: str
    job: int = 0
    submit_s: int = 0
    node: str = ""
    nice: int = 0
    minutes: int = 0
    warns: bool = True
    gpus: int = 0
    gpu_type: str = ""
    per_node: bool = False
    workers: tuple[Verb, ...] = ()
    users: tuple[str, ...] = ()
    start_s: int = 0
    task: str = ""

    @property
    def job_name(self) -> str:
        """The job as commands name it."""
        return self.task or str(self.job)


def verb_from_json(row: Mapping[str, Any]) -> Verb:
    """A verb of the journal."""
    known = {field.name: row[field.name] for field in fields(Verb) if field.name in row}
    workers = tuple(map(verb_from_json, row.get("workers", ())))
    return Verb(**{**known, "users": tuple(row["users"]), "workers": workers})


def command_of(verb: Verb, pools: Pools) -> Command:
    """The command of a verb that is one; ``evict`` and ``resize`` are several (``parts``)."""
    return _COMMANDS[verb.name](verb, pools)


def parts(verb: Verb) -> tuple[Verb, ...]:
    """The verbs of an eviction or a change of size; any other verb is its own part.

    After a requeue Slurm holds a job down for its ``cred_expire``. In this time the job gets its new size, or leaves
    its loan: it would start there again. So a controller that dies in between leaves a job that starts by itself.
    """
    if verb.name in ("resize", "size") and verb.workers:
        return verb.workers
    if verb.name not in ("evict", "resize"):
        return (verb,)
    signal, leave = ("signal",) if verb.warns else (), ("leave",) if verb.node else ()
    size = ("size",) if verb.name == "resize" else ()
    alone = replace(verb, workers=())
    before, after = (replace(alone, name=name) for name in (*signal, "requeue")), (*leave, *size, "release")
    return (*before, *verb.workers, *(replace(alone, name=name) for name in after))


def lost_loan(reason: str, nodes: Container[str]) -> bool:
    """Whether a job is held because its loan has ended.

    The reason is then ``Reservation mirage-loan-n3 was deleted`` (22.05.8).

    Args:
        reason: The reason why it waits.
        nodes: The nodes of the owner.
    """
    words = reason.split()
    return words[:1] + words[2:] == ["Reservation", "was", "deleted"] and words[1].removeprefix(LOAN) in nodes


def is_of_controller(reservation: str) -> bool:
    """Whether a reservation is the fence, a loan or the lease, by its name."""
    return reservation in (FENCE, LEASE) or reservation.startswith(LOAN)


def _update(change: Callable[[Verb], str]) -> Callable[[Verb, Pools], Command]:
    return lambda verb, pools: ("scontrol", "update", f"JobId={verb.job_name}", change(verb))


def _reservation(name: str, nodes: str, duration: str, users: str, flags: str) -> Command:
    return ("scontrol", "create", "reservation", f"ReservationName={name}", f"Nodes={nodes}", "StartTime=now",
            f"Duration={duration}", users, f"Flags={flags}")  # fmt: skip


def _fence_users(pools: Pools) -> str:
    return f"Users={','.join(pools.owner_users)}" if pools.owner_users else f"Accounts={','.join(pools.owner_accounts)}"


def _delete(name: str) -> Command:
    return ("scontrol", "delete", f"ReservationName={name}")


_COMMANDS: Mapping[str, Callable[[Verb, Pools], Command]] = {
    "fence": lambda _, pools: _reservation(
        FENCE, ",".join(pools.owner_nodes), "infinite", _fence_users(pools), "IGNORE_JOBS,OVERLAP"
    ),
    "unfence": lambda *_: _delete(FENCE),
    "lease": lambda verb, pools: (
        "scontrol",
        "create",
        "reservation",
        f"ReservationName={LEASE}",
        f"Nodes={pools.owner_nodes[0]}",
        f"StartTime=uts{verb.start_s}",
        _LEASE_END,
        f"Users={','.join(verb.users)}",
        "Flags=IGNORE_JOBS,OVERLAP",
    ),
    "renew": lambda *_: ("scontrol", "update", f"ReservationName={LEASE}", _LEASE_END),
    "unlease": lambda *_: _delete(LEASE),
    "lend": lambda verb, _: _reservation(
        LOAN + verb.node, verb.node, str(verb.minutes), f"Users={','.join(verb.users)}", "OVERLAP"
    ),
    "return": lambda verb, _: _delete(LOAN + verb.node),
    "enter": _update(lambda verb: f"ReservationName={LOAN}{verb.node}"),
    "leave": _update(lambda verb: "ReservationName="),
    "nice": _update(lambda verb: f"Nice={verb.nice}"),
    "size": _update(
        lambda verb: (
            f"TresPer{'Node' if verb.per_node else 'Job'}=gres:gpu:"
            f"{f'{verb.gpu_type}:' if verb.gpu_type else ''}{verb.gpus}"
        )
    ),
    "signal": lambda verb, pools: (
        "scancel",
        f"--signal={pools.signal}",
        "--full",
        "--state=RUNNING",
        verb.job_name,
    ),
    "requeue": lambda verb, _: ("scontrol", "requeue", verb.job_name),
    "requeuehold": lambda verb, _: ("scontrol", "requeuehold", verb.job_name),
    "hold": lambda verb, _: ("scontrol", "uhold", verb.job_name),
    "end": lambda verb, _: ("scancel", verb.job_name),
    "release": _update(lambda verb: f"StartTime=uts{verb.start_s}" if verb.start_s else "StartTime=now+2"),
    "unhold": lambda verb, _: ("scontrol", "release", verb.job_name),
}

VERBS = (*_COMMANDS, "evict", "resize")
"""All verbs. A plan has only those of ``PLAN_VERBS``."""

PLAN_VERBS = ("lend", "return", "enter", "leave", "nice", "evict", "unhold", "size", "resize", "end")
"""The verbs that a plan may contain."""
