"""A cluster of two pools that takes commands, and plans for its executor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mirage.control.allow_list import PLAN_FORMAT
from mirage.slurm.gpu_snapshot import GpuSnapshot, take_gpu_snapshot
from mirage.slurm.runner import Completed
from tests.support.control_cluster import NOW_S, POOLS, ControlCluster, loan

OWNED = replace(POOLS, owner_users=("bob",), commands_per_minute=600)
"""Settings of a controller that makes the fence itself."""

ELASTIC = replace(OWNED, most_gpus=8)
WORDS = {"tres_per_job": "gres:gpu:a100:2", "tres_per_node": "N/A", "Comment": "mirage-control gpus=2-6"}
"""Cells of an elastic job."""

SUBMITTED_S = NOW_S - 600


@dataclass
class ActingCluster(ControlCluster):
    """A cluster that also takes commands that change something.

    Attributes:
        sent: These commands.
        refusing: Words of commands that it refuses.
        refusal: What it prints then.
        now_s: The present time, in seconds since 1970.
    """

    sent: list[tuple[str, ...]] = field(default_factory=list)
    refusing: str = "no such word"
    refusal: str = "scontrol: error: Access/permission denied"
    now_s: float = NOW_S

    def run(self, argv: Sequence[str], **options: Any) -> Completed:
        words: Any = tuple(argv)
        if words[0] == "scancel" or words[1] in (
            "update",
            "create",
            "delete",
            "requeue",
            "release",
            "requeuehold",
            "uhold",
        ):
            self.sent.append(words)
            if self.refusing in " ".join(words):
                return Completed(1, "", self.refusal)
            if words[1] == "create":
                line = loan(words[4].partition("=")[2], name=words[3].partition("=")[2])
                start = words[5].removeprefix("StartTime=uts")
                self.reservations.append(
                    line.replace(f"StartTime={NOW_S - 60}", f"StartTime={start}", start.isdecimal())
                )
            if words[1:2] + words[3:] == ("update", "ReservationName="):
                number = words[2].removeprefix("JobId=").partition("_")[0]
                next(job for job in self.jobs if job["JobID"] == number)["Reservation"] = "(null)"
            if words[1] == "delete":
                name = words[2].partition("=")[2]
                self.reservations = [one for one in self.reservations if f"={name} " not in one]
            return Completed(0, "", "")
        return super().run(argv, **options)

    def clock(self) -> float:
        return self.now_s


def snapshot_of(cluster: ActingCluster) -> GpuSnapshot:
    """The present snapshot of a cluster."""
    return take_gpu_snapshot(cluster.slurm, cluster.now_s)


def plan(*verbs: Mapping[str, Any], time_s: int = NOW_S) -> dict[str, Any]:
    """A plan file with rows of verbs."""
    return {"format": PLAN_FORMAT, "number": 1, "time_s": time_s, "verbs": list(verbs)}


def of(job: int, name: str, **operands: Any) -> dict[str, Any]:
    """The row of a verb about a job."""
    return {"name": name, "job": job, "submit_s": SUBMITTED_S, **operands}
