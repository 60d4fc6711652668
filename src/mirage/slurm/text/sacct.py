"""Accounting from ``sacct``, by explicit fields; one row a job, the last attempt of each."""

from __future__ import annotations

import re

from mirage.job_state import MISSING
from mirage.slurm.records import AccountedJob, SkippedRecords
from mirage.slurm_words.absent import text_of
from mirage.slurm_words.exit_status import exit_of
from mirage.slurm_words.numbers import count_of, whole_number
from mirage.slurm_words.states import ALIVE, cancelled_while_pending, job_state
from mirage.slurm_words.time_limits import limit_in_minutes_s
from mirage.slurm_words.timestamps import instant_s

DELIMITER = "\x1f"
FIELDS = (
    "JobIDRaw", "State", "User", "Account", "Partition", "QOS", "NNodes", "AllocCPUS", "TimelimitRaw", "Submit",
    "Eligible", "Start", "End", "ExitCode", "JobName", "Comment",
)  # fmt: skip
LATE_FIELDS = ("SubmitLine",)
"""Fields known since 21.08."""

HISTORY_FIELDS = (
    "JobID", "User", "Account", "Partition", "QOS", "State", "Submit", "Eligible", "Start", "End", "ElapsedRaw",
    "TimelimitRaw", "NNodes", "Priority",
)  # fmt: skip
"""The fields of a job that a replay needs; none of them is free text, so a row is a line. Priority is the one at
submission, also of jobs that have started since (Slurm 22.05.8)."""

_EARLIEST_S = 1_000_000


def command(since_s: int, everybody: bool, fields: tuple[str, ...], mark: str = "") -> tuple[str, ...]:
    """The command that requests every job alive at or after a time.

    The time is written in seconds since 1970: sacct may run on a host in another time zone, and local times are
    ambiguous when summer time ends.

    Args:
        since_s: The time.
        everybody: Whether for jobs of all users.
        fields: The columns.
        mark: Ends every delimiter. It is drawn for each call, so no user can have written it into a comment to
            imitate a row.
    """
    users = ("--allusers",) if everybody else ()
    return ("sacct", "--noheader", "--parsable2", "--allocations", f"--delimiter={DELIMITER}{mark}", *users,
            f"--starttime={_instant(since_s)}", f"--format={','.join(fields)}")  # fmt: skip


def history_command(from_s: int, until_s: int) -> tuple[str, ...]:
    """The command that requests all users' jobs that were in the queue or ran in a period.

    Its output has a header, and a bar between cells.
    """
    return ("sacct", "--parsable2", "--allocations", "--allusers", f"--starttime={_instant(from_s)}",
            f"--endtime={_instant(until_s)}", f"--format={','.join(HISTORY_FIELDS)}")  # fmt: skip


def _instant(at_s: int) -> str:
    """A time in the form of Slurm's options that has no zone (parse_time.c).

    Slurm refuses times before ``_EARLIEST_S``.
    """
    return f"uts{max(at_s, _EARLIEST_S)}"


def read_accounts(
    output: str, fields: tuple[str, ...], mark: str = ""
) -> tuple[tuple[AccountedJob, ...], SkippedRecords]:
    """The jobs in the output, the last attempt of each, and the rows that could not be read.

    A row ends at a line end that is followed by a number and a delimiter: comments and submit lines may contain line
    ends.
    """
    known: dict[int, AccountedJob] = {}
    skipped = SkippedRecords()
    for row in re.split(rf"\n(?=[0-9]+{DELIMITER}{mark})", output.removesuffix("\n")):
        cells = row.split(DELIMITER + mark)
        if len(cells) == len(fields) and whole_number(cells[0]) is not None:
            job = accounted_job(dict(zip(fields, cells)))
            known[job.id] = job
        elif row.strip():
            skipped = skipped.and_one(row)
    return tuple(known.values()), skipped


def accounted_job(cells: dict[str, str]) -> AccountedJob:
    """A job from its cells by name."""
    state = job_state(cells["State"])
    start_s, end_s = instant_s(cells["Start"]), instant_s(cells["End"])
    if state in ALIVE:
        end_s = MISSING
    if cancelled_while_pending(state, start_s, end_s):
        start_s = MISSING
    code, sign = exit_of(cells["ExitCode"])
    return AccountedJob(
        id=int(cells["JobIDRaw"]),
        state=state,
        name=cells["JobName"],
        user=cells["User"],
        account=cells["Account"],
        partition=cells["Partition"],
        qos=cells["QOS"],
        nodes=count_of(cells["NNodes"], 1),
        limit_s=limit_in_minutes_s(cells["TimelimitRaw"]),
        submit_s=instant_s(cells["Submit"]),
        eligible_s=instant_s(cells["Eligible"]),
        start_s=start_s,
        end_s=end_s,
        exit_code=code,
        exit_signal=sign,
        comment=text_of(cells["Comment"]),
        submit_line=cells.get("SubmitLine", ""),
        cpus=count_of(cells["AllocCPUS"], 0) or MISSING,
    )
