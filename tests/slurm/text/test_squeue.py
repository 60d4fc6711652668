"""Every cell of squeue's records, one by one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirage.duration import UNLIMITED_S
from mirage.job_state import MISSING, JobState
from mirage.slurm.records import QueuedJob
from mirage.slurm.text.squeue import FIELD, FIELDS, RECORD, SkippedRecords, command, read_queue

CELLS = {
    "JobID": "17", "State": "RUNNING", "UserName": "ada", "Account": "lab", "Partition": "gpu", "QOS": "high",
    "ArrayTaskID": "N/A", "Reason": "None", "PriorityLong": "4031", "Nice": "-30",
    "NumNodes": "2", "NumCPUs": "128", "NumTasks": "2",
    "tres-alloc": "cpu=128,mem=1T,node=2,gres/gpu=16", "tres-per-node": "gres:gpu:8", "tres-per-job": "N/A",
    "tres-per-task": "N/A", "OverSubscribe": "NO",
    "TimeLimit": "2-00:00:00", "SubmitTime": "1795209000", "EligibleTime": "1795209001", "AccrueTime": "1795209002",
    "StartTime": "1795209060", "EndTime": "1795381860", "Dependency": "(null)",
    "exit_code": "0", "NodeList": "n[1-2]", "Comment": "mirage:x:1",
    "Name": "train, again",
}  # fmt: skip

JOB = QueuedJob(
    17, JobState.RUNNING, name="train, again", user="ada", account="lab", partition="gpu", qos="high",
    priority=4031.0, nice=-30, nodes=2, cpus=128, gpus=16, limit_s=172_800, submit_s=1795209000,
    eligible_s=1795209001, accrues_s=1795209002, start_s=1795209060, end_s=1795381860, comment="mirage:x:1",
    nodelist="n[1-2]", whole_nodes=True,
)  # fmt: skip


def record(**changed: str) -> str:
    cells = CELLS | {
        name.replace("_", "-") if name.startswith("tres") else name: text for name, text in changed.items()
    }
    assert cells.keys() == CELLS.keys()
    return FIELD.join(cells[name] for name in FIELDS) + RECORD + "\n"


def read(**changed: str) -> QueuedJob:
    (job,), skipped = read_queue(record(**changed))
    assert skipped == SkippedRecords(0, "")
    return job


def test_a_running_job() -> None:
    assert read() == JOB


def test_the_command_requests_the_cells_in_that_order() -> None:
    *words, format_option = command()
    assert tuple(words) == ("squeue", "--noheader", "--all", "--states=all", "--noconvert", "--sort=i", "--Format")
    assert [part.partition(":")[0] for part in format_option.split(",")] == list(CELLS) == list(FIELDS)
    assert format_option.count(FIELD) == len(FIELDS) - 1
    assert format_option.endswith(f"Name:{RECORD}")
    assert command("5ec7")[-1].replace("5ec7", "") == format_option


def test_no_comment_passes_for_a_job() -> None:
    forged = FIELD.join(["424242", "CANCELLED", *["x"] * (len(FIELDS) - 2)])
    comment = f"mine{FIELD}x{RECORD}{forged}"
    marked = record().replace(FIELD, f"{FIELD}5ec7").replace(RECORD, f"{RECORD}5ec7")
    (job,), skipped = read_queue(marked.replace(CELLS["Comment"], comment), "5ec7")
    assert (job, skipped) == (replace(JOB, comment=comment), SkippedRecords(0, ""))


PENDING = {"State": "PENDING", "StartTime": "N/A", "NodeList": "", "tres_alloc": "", "PriorityLong": "12"}
WAITS = replace(JOB, state=JobState.PENDING, start_s=MISSING, end_s=MISSING, nodelist="", priority=12.0)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, {}),
        ({"ArrayTaskID": "4-9%4"}, {"array": "4-9%4"}),
        ({"ArrayTaskID": "4"}, {}),
        ({"Reason": "Resources"}, {"reason": "Resources"}),
        ({"Dependency": "afterany:9(unfulfilled)"}, {"dependency": "afterany:9(unfulfilled)"}),
        ({"tres_per_node": "gres/gpu:a100:4"}, {"gpus": 8}),
        ({"tres_per_node": "N/A"}, {"gpus": 0}),
        ({"NumNodes": "3-5", "tres_per_node": "gpu:1"}, {"nodes": 3, "gpus": 3}),
        ({"tres_per_job": "gres:gpu:t4:3"}, {"gpus": 3}),
        ({"tres_per_node": "N/A", "tres_per_task": "gres:gpu:2", "NumTasks": "5"}, {"gpus": 10}),
        ({"tres_per_node": "N/A", "tres_per_task": "cpu=4,gres/gpu=2", "NumTasks": "N/A"}, {"gpus": 2}),
        ({"TimeLimit": "UNLIMITED"}, {"limit_s": UNLIMITED_S}),
        ({"TimeLimit": "Partition_Limit"}, {"limit_s": MISSING}),
        ({"TimeLimit": "INVALID"}, {"limit_s": MISSING}),
        ({"SubmitTime": "N/A", "EligibleTime": "0"}, {"submit_s": MISSING, "eligible_s": MISSING}),
        ({"AccrueTime": "0"}, {"accrues_s": MISSING}),
        ({"AccrueTime": "N/A"}, {"accrues_s": MISSING}),
        ({"StartTime": "1795300000", "EndTime": "1795400000"}, {"start_s": 1795300000, "end_s": 1795400000}),
        ({"NumCPUs": ""}, {"cpus": 1}),
        ({"NumNodes": "?"}, {"nodes": 1, "gpus": 8}),
        ({"NumCPUs": "1K"}, {"cpus": 1024}),
        ({"PriorityLong": "many"}, {"priority": 0.0}),
        ({"Nice": "500"}, {"nice": 500}),
        ({"Nice": "N/A"}, {"nice": 0}),
        ({"OverSubscribe": "YES"}, {"whole_nodes": False}),
        ({"Account": "(null)", "QOS": "N/A", "Comment": "(null)"}, {"account": "", "qos": "", "comment": ""}),
        ({"Comment": " a, b|c\nd "}, {"comment": "a, b|c\nd"}),
        ({"Name": "N/A"}, {"name": "N/A"}),
    ],
)
def test_a_waiting_job(changed: dict[str, str], expected: dict[str, object]) -> None:
    assert read(**{**PENDING, **changed}) == replace(WAITS, **expected)


def test_a_running_job_is_no_array_whatever_stands_there() -> None:
    assert read(ArrayTaskID="4-9").array == ""


@pytest.mark.parametrize(
    ("state", "start", "end_s"),
    [
        ("RUNNING", "1795209060", 1795381860),
        ("RUNNING", "N/A", MISSING),
        ("SUSPENDED", "N/A", MISSING),
        ("PENDING", "N/A", MISSING),
        ("BRAND_NEW", "N/A", MISSING),
        ("FAILED", "N/A", 1795381860),
        ("CANCELLED", "N/A", 1795381860),
    ],
)
def test_whether_a_job_has_an_end(state: str, start: str, end_s: int) -> None:
    assert read(State=state, StartTime=start).end_s == end_s


@pytest.mark.parametrize(("status", "code", "sign"), [("0", 0, 0), ("256", 1, 0), ("9", 0, 9), ("65407", 255, 127)])
def test_a_wait_status_is_a_code_and_a_signal(status: str, code: int, sign: int) -> None:
    job = read(State="FAILED", exit_code=status)
    assert (job.exit_code, job.exit_signal) == (code, sign)


def test_what_is_no_record_is_counted_and_the_first_of_it_stored() -> None:
    short = FIELD.join(["1"] * (len(FIELDS) - 1)) + RECORD
    unnumbered = record(JobID="17_3")
    jobs, skipped = read_queue(f"slurm_load_jobs error{RECORD}\n{record()}{short}{unnumbered}{record(JobID='18')}")
    assert [job.id for job in jobs] == [17, 18]
    assert skipped == SkippedRecords(3, "slurm_load_jobs error")


def test_a_line_before_the_jobs_costs_no_job() -> None:
    jobs, skipped = read_queue(f"squeue: down on Monday\nsee the wiki\n{record()}{record(JobID='18')}")
    assert [job.id for job in jobs] == [17, 18]
    assert skipped == SkippedRecords(1, "squeue: down on Monday\nsee the wiki")


def test_an_unreadable_record_is_stored_in_part_and_without_separators() -> None:
    _, skipped = read_queue(FIELD.join(["y", "z" * 300]) + RECORD)
    assert skipped == SkippedRecords(1, f"y {'z' * 198}")


def test_an_empty_queue() -> None:
    assert read_queue("") == read_queue("\n") == ((), SkippedRecords())
