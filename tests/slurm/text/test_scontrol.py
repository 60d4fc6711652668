"""Jobs and nodes of ``scontrol --oneliner show``, pair by pair."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirage.job_state import MISSING, JobState
from mirage.slurm.records import Node, QueuedJob
from mirage.slurm.text.scontrol import read_jobs, read_nodes

pytestmark = pytest.mark.usefixtures("utc")

PAIRS = {
    "JobId": "17", "JobName": "train, again", "UserId": "ada(1000)", "GroupId": "ada(1000)", "Priority": "4031",
    "Account": "lab", "QOS": "high", "JobState": "RUNNING", "Reason": "None", "Dependency": "(null)",
    "ExitCode": "0:0", "TimeLimit": "2-00:00:00", "SubmitTime": "2026-11-21T10:00:00",
    "EligibleTime": "2026-11-21T10:00:01", "AccrueTime": "2026-11-21T10:00:02",
    "StartTime": "2026-11-21T10:01:00", "EndTime": "2026-11-23T10:01:00",
    "Partition": "gpu", "NodeList": "n[1-2]", "NumNodes": "2", "NumCPUs": "128",
    "TRES": "cpu=128,mem=1T,node=2,gres/gpu=16", "OverSubscribe": "NO", "Comment": "mirage:x:1 | keep it",
    "TresPerNode": "gres:gpu:8",
}  # fmt: skip
T0 = 1_795_255_200  # 2026-11-21T10:00:00 UTC

JOB = QueuedJob(
    17, JobState.RUNNING, name="train, again", user="ada", account="lab", partition="gpu", qos="high", priority=4031.0,
    nodes=2, cpus=128, gpus=16, limit_s=172_800, submit_s=T0, eligible_s=T0 + 1, accrues_s=T0 + 2, start_s=T0 + 60,
    end_s=T0 + 60 + 172_800, comment="mirage:x:1 | keep it", nodelist="n[1-2]", whole_nodes=True,
)  # fmt: skip


def line(**changed: str | None) -> str:
    pairs = {name: text for name, text in (PAIRS | changed).items() if text is not None}
    return " ".join(f"{name}={text}" for name, text in pairs.items())


def read(**changed: str | None) -> QueuedJob:
    (job,) = read_jobs(line(**changed))
    return job


def test_a_running_job() -> None:
    assert read() == JOB


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"JobId": "17 ArrayJobId=15"}, {}),
        ({"JobName": "two words UserX=1"}, {"name": "two words UserX=1"}),
        ({"JobName": "het HetJobIdSet=17-18"}, {"name": "het"}),
        ({"JobName": None}, {"name": ""}),
        ({"JobName": "x JobId=9 Account=root"}, {"name": "x JobId=9 Account=root"}),
        ({"Comment": "mirage:x:1 Account=root"}, {"comment": "mirage:x:1"}),
        ({"UserId": "(1000)"}, {"user": ""}),
        ({"Account": "(null)", "QOS": None}, {"account": "", "qos": ""}),
        ({"Partition": None, "NodeList": None}, {"partition": "", "nodelist": ""}),
        ({"NodeList": "(null)"}, {"nodelist": ""}),
        ({"Reason": "NonZeroExitCode"}, {"reason": "NonZeroExitCode"}),
        ({"Priority": None}, {"priority": 0.0}),
        ({"NumCPUs": None}, {"cpus": 1}),
        ({"NumNodes": "0"}, {"nodes": 1}),
        ({"NumNodes": None, "TRES": None}, {"nodes": 1, "gpus": 8}),
        ({"NumNodes": "2-4"}, {"nodes": 2}),
        ({"TRES": "(null)", "AllocTRES": "gres/gpu=6"}, {"gpus": 6}),
        ({"TRES": None, "ReqTRES": "gres/gpu=5"}, {"gpus": 5}),
        ({"TRES": None, "AllocTRES": "gres/gpu=6", "ReqTRES": "gres/gpu=5"}, {"gpus": 6}),
        ({"TRES": None, "TresPerNode": None}, {"gpus": 0}),
        ({"TRES": "cpu=5,node=2", "TresPerNode": None, "TresPerJob": "gres:gpu:3"}, {"gpus": 3}),
        ({"TRES": "cpu=5", "TresPerNode": None, "TresPerTask": "gres:gpu:2", "NumTasks": "5"}, {"gpus": 10}),
        ({"TimeLimit": None}, {"limit_s": MISSING}),
        ({"SubmitTime": "Unknown", "EligibleTime": None}, {"submit_s": MISSING, "eligible_s": MISSING}),
        ({"AccrueTime": "Unknown"}, {"accrues_s": MISSING}),
        ({"AccrueTime": None}, {"accrues_s": MISSING}),
        ({"Comment": None}, {"comment": ""}),
        ({"Comment": "(null)"}, {"comment": ""}),
        ({"Dependency": "afterany:9(unfulfilled)"}, {"dependency": "afterany:9(unfulfilled)"}),
        ({"OverSubscribe": "OK"}, {"whole_nodes": False}),
        ({"ExitCode": "3:9"}, {"exit_code": 3, "exit_signal": 9}),
        ({"ExitCode": None}, {}),
        ({"ArrayTaskId": "4-9"}, {}),
    ],
)
def test_pairs_that_differ(changed: dict[str, str | None], expected: dict[str, object]) -> None:
    assert read(**changed) == replace(JOB, **expected)


@pytest.mark.parametrize(("tasks", "array"), [("4-9%2", "4-9%2"), ("4", ""), ("(null)", ""), (None, "")])
def test_an_array_that_waits(tasks: str | None, array: str) -> None:
    assert read(JobState="PENDING", ArrayTaskId=tasks).array == array


@pytest.mark.parametrize(
    ("state", "start", "ends"),
    [
        ("RUNNING", "Unknown", False),
        ("SUSPENDED", "Unknown", False),
        ("PENDING", "Unknown", False),
        ("PENDING", "2026-11-21T10:01:00", True),
        ("BRAND_NEW", None, False),
        ("CANCELLED", "Unknown", True),
        ("COMPLETING", "Unknown", False),
    ],
)
def test_whether_a_job_has_an_end(state: str, start: str | None, ends: bool) -> None:
    assert read(JobState=state, StartTime=start).end_s == (JOB.end_s if ends else MISSING)


def test_only_lines_of_jobs_are_jobs() -> None:
    text = f"No jobs in the system\n{line()}\n\n Comment=JobId=9\n{line(JobId='18')}"
    assert [job.id for job in read_jobs(text)] == [17, 18]


NODE = "NodeName={} Arch=x86_64 CPUAlloc=0 CPUTot=64 Gres={} NodeAddr=n State={} Partitions={} "


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (("n1", "gpu:h100:8(S:0-1)", "IDLE", "gpu,all"), Node("n1", "idle", True, 64, 8, ("gpu", "all"))),
        (("n2", "gres/gpu:2,mps:100", "MIXED+PLANNED", "gpu"), Node("n2", "mixed", True, 64, 2, ("gpu",))),
        (("n3", "(null)", "IDLE+DRAIN", ""), Node("n3", "idle", False, 64, 0, ())),
        (("n4", "(null)", "DOWN*", "gpu"), Node("n4", "down", False, 64, 0, ("gpu",))),
        (("n5", "(null)", "ALLOCATED*", "gpu"), Node("n5", "allocated", False, 64, 0, ("gpu",))),
    ],
)
def test_a_node(cells: tuple[str, ...], expected: Node) -> None:
    assert read_nodes(NODE.format(*cells)) == (expected,)


def test_a_node_with_few_fields() -> None:
    assert read_nodes("NodeName=n1\nno node\nNodeName=n2 CPUTot=8") == (
        Node("n1", "", True, 1, 0, ()),
        Node("n2", "", True, 8, 0, ()),
    )
