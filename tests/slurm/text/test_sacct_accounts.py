"""Accounting, cell by cell."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirage.duration import UNLIMITED_S
from mirage.job_state import MISSING, JobState
from mirage.slurm.records import AccountedJob, SkippedRecords
from mirage.slurm.text.sacct import (
    DELIMITER,
    FIELDS,
    HISTORY_FIELDS,
    LATE_FIELDS,
    command,
    history_command,
    read_accounts,
)

CELLS = {
    "JobIDRaw": "9", "State": "FAILED", "User": "ada", "Account": "lab", "Partition": "gpu", "QOS": "high",
    "NNodes": "2", "TimelimitRaw": "2880", "Submit": "1795209000", "Eligible": "1795209001", "Start": "1795209060",
    "End": "1795209960", "ExitCode": "1:2", "JobName": "train", "Comment": "mirage:x:1",
    "AllocCPUS": "24",
}  # fmt: skip
JOB = AccountedJob(
    9, JobState.FAILED, name="train", user="ada", account="lab", partition="gpu", qos="high", nodes=2, limit_s=172_800,
    submit_s=1795209000, eligible_s=1795209001, start_s=1795209060, end_s=1795209960, exit_code=1, exit_signal=2,
    comment="mirage:x:1", cpus=24,
)  # fmt: skip


pytestmark = pytest.mark.usefixtures("newfoundland")


def row(**changed: str) -> str:
    return DELIMITER.join((CELLS | changed)[name] for name in FIELDS) + "\n"


def read(**changed: str) -> AccountedJob:
    (job,), skipped = read_accounts(row(**changed), FIELDS)
    assert skipped == SkippedRecords()
    return job


def test_an_ended_job() -> None:
    assert read() == JOB


def test_the_line_that_made_it_where_slurm_stores_it() -> None:
    output = row().rstrip("\n") + f"{DELIMITER}sbatch -N 2 job.sh\n"
    assert read_accounts(output, (*FIELDS, *LATE_FIELDS))[0] == (replace(JOB, submit_line="sbatch -N 2 job.sh"),)
    assert read_accounts(output, FIELDS) == ((), SkippedRecords(1, output.rstrip("\n")))


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"State": "RUNNING"}, {"state": JobState.RUNNING, "end_s": MISSING}),
        ({"State": "PENDING"}, {"state": JobState.PENDING, "end_s": MISSING}),
        ({"State": "SUSPENDED"}, {"state": JobState.SUSPENDED, "end_s": MISSING}),
        ({"State": "REQUEUED"}, {"state": JobState.REQUEUED, "end_s": MISSING}),
        ({"State": "CANCELLED by 1000"}, {"state": JobState.CANCELLED}),
        (
            {"State": "CANCELLED by 1000", "Start": "1795209960"},
            {"state": JobState.CANCELLED, "start_s": MISSING},
        ),
        ({"State": "COMPLETED", "Start": "1795209960"}, {"state": JobState.COMPLETED, "start_s": 1795209960}),
        ({"NNodes": ""}, {"nodes": 1}),
        ({"AllocCPUS": "0"}, {"cpus": MISSING}),
        ({"AllocCPUS": ""}, {"cpus": MISSING}),
        ({"AllocCPUS": "2K"}, {"cpus": 2048}),
        ({"TimelimitRaw": "UNLIMITED"}, {"limit_s": UNLIMITED_S}),
        ({"TimelimitRaw": "Partition_Limit"}, {"limit_s": MISSING}),
        ({"TimelimitRaw": ""}, {"limit_s": MISSING}),
        ({"TimelimitRaw": "1.5"}, {"limit_s": MISSING}),
        ({"TimelimitRaw": "1"}, {"limit_s": 60}),
        ({"Submit": "Unknown", "Eligible": "None"}, {"submit_s": MISSING, "eligible_s": MISSING}),
        ({"Start": "2026-11-20T22:14:30"}, {"start_s": 1795225470}),
        ({"ExitCode": "0:0"}, {"exit_code": 0, "exit_signal": 0}),
        ({"Comment": "(null)"}, {"comment": ""}),
        ({"JobName": "(null)"}, {"name": "(null)"}),
    ],
)
def test_cells_that_differ(changed: dict[str, str], expected: dict[str, object]) -> None:
    assert read(**changed) == replace(JOB, **expected)


def test_the_last_attempt_counts_and_comments_may_hold_line_ends() -> None:
    output = row() + row(JobIDRaw="8", Comment="one\n2 lines\n") + row(State="COMPLETED")
    (last, other), skipped = read_accounts(output, FIELDS)
    assert (last.id, last.state, skipped) == (9, JobState.COMPLETED, SkippedRecords())
    assert (other.id, other.state, other.comment) == (8, JobState.FAILED, "one\n2 lines")


def test_broken_rows_are_counted_and_the_first_is_stored() -> None:
    output = "nonsense\n" + row() + "9" + DELIMITER + "cut\n" + row(JobIDRaw="8")
    jobs, skipped = read_accounts(output, FIELDS)
    assert ([job.id for job in jobs], skipped) == ([9, 8], SkippedRecords(2, "nonsense"))


def test_the_command_depends_on_no_time_zone() -> None:
    assert command(1_795_255_200, True, ("JobIDRaw", "State")) == (
        "sacct",
        "--noheader",
        "--parsable2",
        "--allocations",
        f"--delimiter={DELIMITER}",
        "--allusers",
        "--starttime=uts1795255200",
        "--format=JobIDRaw,State",
    )
    assert "--allusers" not in command(0, False, FIELDS)
    assert command(-5, False, FIELDS) == command(0, False, FIELDS)
    assert "--starttime=uts1000000" in command(0, False, FIELDS), "sacct refuses earlier ones"


def test_a_stretch_of_history_has_a_begin_and_an_end() -> None:
    words = history_command(1_795_255_200, 1_795_255_260)
    assert words[:6] == (
        "sacct",
        "--parsable2",
        "--allocations",
        "--allusers",
        "--starttime=uts1795255200",
        "--endtime=uts1795255260",
    )
    assert words[6].removeprefix("--format=").split(",") == list(HISTORY_FIELDS)
