"""Accounting from ``sacct``, by explicit fields; one row a job, the last attempt of each."""

from __future__ import annotations

from mirage.job_state import MISSING, JobState
from mirage.slurm.values import AccountedJob
from mirage.slurm_words.states import job_state
from mirage.slurm_words.values import exit_of, instant_s, text_of, whole

DELIMITER = "\x1f"
FIELDS = (
    "JobIDRaw", "State", "User", "Account", "Partition", "QOS", "NNodes", "TimelimitRaw", "Submit", "Eligible",
    "Start", "End", "ExitCode", "JobName", "Comment",
)  # fmt: skip
LATE_FIELDS = ("SubmitLine",)
"""Known from 21.08 on."""

_UNFINISHED = frozenset({JobState.PENDING, JobState.RUNNING, JobState.SUSPENDED, JobState.REQUEUED})
_NO_LIMIT = frozenset({"UNLIMITED", "Partition_Limit", ""})


def command(since_s: int, everybody: bool, fields: tuple[str, ...]) -> tuple[str, ...]:
    """The command that asks for every job alive at or after a time.

    The time is written as Slurm reads it, in this machine's zone.
    """
    import time

    begin = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(max(since_s, 0)))
    who = ("--allusers",) if everybody else ()
    return ("sacct", "--noheader", "--parsable2", "--allocations", f"--delimiter={DELIMITER}", *who,
            f"--starttime={begin}", f"--format={','.join(fields)}")  # fmt: skip


def read_accounts(output: str, fields: tuple[str, ...]) -> tuple[AccountedJob, ...]:
    """The jobs in what such a command printed.

    Lines that are none are passed over: a comment may hold line ends.
    """
    known: dict[int, AccountedJob] = {}
    for line in output.splitlines():
        cells = line.split(DELIMITER)
        if len(cells) == len(fields) and cells[0].isdecimal():
            job = accounted_job(dict(zip(fields, cells)))
            known[job.id] = job
    return tuple(known.values())


def accounted_job(cells: dict[str, str]) -> AccountedJob:
    """A job from its cells by name."""
    state = job_state(cells["State"])
    start_s, end_s = instant_s(cells["Start"]), instant_s(cells["End"])
    if state in _UNFINISHED:
        end_s = MISSING
    if state is JobState.CANCELLED and start_s == end_s:  # cancelled while pending: sacct shows that as its start
        start_s = MISSING
    code, sign = exit_of(cells["ExitCode"])
    limit = cells["TimelimitRaw"]
    return AccountedJob(
        id=int(cells["JobIDRaw"]),
        state=state,
        name=cells["JobName"],
        user=cells["User"],
        account=cells["Account"],
        partition=cells["Partition"],
        qos=cells["QOS"],
        nodes=whole(cells["NNodes"], 1),
        limit_s=MISSING if limit in _NO_LIMIT else whole(limit, -1) * 60 if limit.isdecimal() else MISSING,
        submit_s=instant_s(cells["Submit"]),
        eligible_s=instant_s(cells["Eligible"]),
        start_s=start_s,
        end_s=end_s,
        exit_code=code,
        exit_signal=sign,
        comment=text_of(cells["Comment"]),
        submit_line=cells.get("SubmitLine", ""),
    )
