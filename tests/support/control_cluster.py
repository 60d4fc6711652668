"""A cluster of two pools as the commands of Slurm print it, for the controller."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mirage.control.pools_file import Pools
from mirage.slurm.client import SlurmClient
from mirage.slurm.runner import Completed
from mirage.slurm.text.gpu_nodes import FIELD
from mirage.slurm.text.squeue import RECORD

NOW_S = 1_795_700_000

POOLS = Pools(
    path="pools.toml",
    owner_nodes=("i1", "i2", "i3"),
    owner_partitions=("inference",),
    borrower_nodes=("t1", "t2"),
    borrower_partition="train",
    comment="mirage-control",
    accounts=("vision",),
)

_DEFAULTS = {
    "tres-per-job": "N/A", "tres-per-node": "gres:gpu:4", "tres-per-task": "N/A", "tres-per-socket": "N/A",
    "NumTasks": "1", "RestartCnt": "0", "HetJobID": "N/A", "Reservation": "(null)", "ReqNodes": "", "MaxNodes": "1",
    "State": "PENDING", "UserName": "ada", "Account": "(null)", "Partition": "train", "QOS": "(null)",
    "ArrayTaskID": "N/A", "Reason": "Priority", "PriorityLong": "100", "Nice": "0", "NumNodes": "1", "NumCPUs": "1",
    "tres-alloc": "cpu=1,node=1", "OverSubscribe": "YES", "TimeLimit": "1:00:00", "SubmitTime": str(NOW_S - 600),
    "EligibleTime": str(NOW_S - 600), "AccrueTime": str(NOW_S - 600), "StartTime": "N/A", "EndTime": "N/A",
    "Dependency": "(null)", "exit_code": "0", "NodeList": "", "Comment": "mirage-control", "Name": "job",
}  # fmt: skip


def pending(number: int, **cells: object) -> dict[str, str]:
    """A job by the columns of squeue; underscores stand for dashes in names with lower case."""
    named = {name.replace("_", "-") if name.islower() and name != "exit_code" else name: str(value)
             for name, value in cells.items()}  # fmt: skip
    return {**_DEFAULTS, "JobID": str(number), "ArrayJobID": str(number), **named}


def running(number: int, nodes: str, **cells: object) -> dict[str, str]:
    """A job that has run for 20 of its 60 minutes."""
    started = {"State": "RUNNING", "NodeList": nodes, "StartTime": NOW_S - 1200, "EndTime": NOW_S + 2400}
    return pending(number, **{**started, "Reason": "None", **cells})


def held(number: int, **cells: object) -> dict[str, str]:
    """A job that its user holds."""
    return pending(number, **{"PriorityLong": 0, "Reason": "JobHeldUser", **cells})


def loan(node: str, ends_in_s: int = 1800, name: str = "", state: str = "ACTIVE") -> str:
    """A reservation as ``scontrol --oneliner`` prints it."""
    return (
        f"ReservationName={name or f'mirage-loan-{node}'} StartTime={NOW_S - 60} EndTime={NOW_S + ends_in_s} "
        f"Duration=00:30:00 Nodes={node} NodeCnt=1 Features=(null) Flags=OVERLAP,SPEC_NODES Users=ada "
        f"Accounts=(null) State={state} MaxStartDelay=(null)"
    )


@dataclass
class ControlCluster:
    """A runner of Slurm's commands on nodes, jobs and reservations that a test sets.

    Attributes:
        nodes: Name → cells of sinfo: state, GRES, GRES in use, partitions.
        status: Exit status of every command, and ``stderr`` what it prints then.
        ran: The commands so far.
    """

    nodes: dict[str, tuple[str, str, str, str]] = field(
        default_factory=lambda: {
            **{name: ("reserved", "gpu:t4:4", "gpu:t4:0", "inference train") for name in ("i1", "i2", "i3")},
            **{name: ("idle", "gpu:a100:8(S:0-1)", "gpu:a100:0(IDX:N/A)", "train*") for name in ("t1", "t2")},
        }
    )
    jobs: list[dict[str, str]] = field(default_factory=list)
    reservations: list[str] = field(default_factory=list)
    config: str = (
        "ClusterName = tundra\nSlurmUser               = slurm(64030)\nJobRequeue              = 1\nKillWait = 30 sec\n"
    )
    level: str = "Operator"
    version: str = "slurm 22.05.8"
    status: int = 0
    stderr: str = "Unable to contact slurm controller (connect failure)"
    ran: list[Sequence[str]] = field(default_factory=list)

    @property
    def slurm(self) -> SlurmClient:
        return SlurmClient(self, user="ops")

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float | None = None,
        environment: Mapping[str, str] | None = None,
        directory: str | None = None,
        limits: Mapping[str, int] | None = None,
    ) -> Completed:
        self.ran.append(tuple(argv))
        if self.status:
            return Completed(self.status, "", self.stderr)
        return Completed(0, self._answer(argv), "")

    def _selected(self, words: Sequence[str]) -> list[dict[str, str]]:
        partitions = [word.partition("=")[2] for word in words if word.startswith("--partition=")]
        return [job for job in self.jobs if not partitions or job["Partition"] in partitions]

    def _answer(self, argv: Sequence[str]) -> str:
        words: Any = tuple(argv)
        if words[0] == "squeue":
            columns = re.findall(rf"([\w-]+):([{FIELD}{RECORD}]\w*)", words[words.index("--Format") + 1])
            return "".join("".join(job[name] + sep for name, sep in columns) + "\n" for job in self._selected(words))
        if words == ("sinfo", "--version"):
            return self.version
        if words[0] == "sinfo":
            return "".join(
                FIELD.join((name, state, gres, used, partition, "")) + "\n"
                for name, (state, gres, used, partitions) in self.nodes.items()
                for partition in partitions.split()
            )
        if words[:4] == ("scontrol", "--oneliner", "show", "reservation"):
            return "\n".join(self.reservations) if self.reservations else "No reservations in the system"
        if words[:3] == ("scontrol", "show", "config"):
            return self.config
        if words[0] == "sacctmgr":
            return f"{self.level}\n"
        raise AssertionError(f"no such command here: {words}")
