"""The queue from ``squeue``, by explicit fields: the same in every version since 20.02."""

from __future__ import annotations

import sys

from mirage.job_state import MISSING, JobState
from mirage.slurm.records import QueuedJob, SkippedRecords
from mirage.slurm_words.absent import text_of
from mirage.slurm_words.exit_status import exit_of_wait_status
from mirage.slurm_words.numbers import count_of, decimal, signed, whole_number
from mirage.slurm_words.states import ALIVE, is_completing, state_of
from mirage.slurm_words.time_limits import limit_s
from mirage.slurm_words.timestamps import instant_s
from mirage.slurm_words.tres import gpus_of

FIELD, RECORD = "\x1f", "\x1e"
"""First characters of the separators: comments and job names may contain commas, bars and line ends."""

FIELDS = (
    "JobID", "State", "UserName", "Account", "Partition", "QOS", "ArrayTaskID", "Reason", "PriorityLong", "Nice",
    "NumNodes", "NumCPUs", "NumTasks", "tres-alloc", "tres-per-node", "tres-per-job", "tres-per-task", "OverSubscribe",
    "TimeLimit", "SubmitTime", "EligibleTime", "AccrueTime", "StartTime", "EndTime", "Dependency", "exit_code",
    "NodeList", "Comment", "Name",
)  # fmt: skip


def command(mark: str = "") -> tuple[str, ...]:
    """The command that requests every job, sorted by number.

    Slurm starts jobs of equal priority in this order; by default, ``squeue`` lists them in the reverse one (22.05.8).

    Args:
        mark: Ends every separator. It is drawn for each call, so no user can have written it into a comment to
            imitate a job.
    """
    fields = ",".join(f"{name}:{RECORD if name == FIELDS[-1] else FIELD}{mark}" for name in FIELDS)
    return ("squeue", "--noheader", "--all", "--states=all", "--noconvert", "--sort=i", "--Format", fields)


def read_queue(output: str, mark: str = "") -> tuple[tuple[QueuedJob, ...], SkippedRecords]:
    """The jobs in the output of ``command``, and the records that could not be read."""
    jobs: list[QueuedJob] = []
    skipped, first = 0, ""
    for record in output.split(RECORD + mark):
        cells = record.lstrip("\n").split(FIELD + mark)
        if cells == [""]:
            continue
        remark, line_end, number = cells[0].rpartition("\n")
        # a wrapper of squeue prints lines of its own before the jobs
        if line_end and len(cells) == len(FIELDS) and whole_number(number) is not None:
            skipped, first = skipped + 1, first or remark
            cells[0] = number
        if len(cells) != len(FIELDS) or whole_number(cells[0]) is None:
            skipped, first = skipped + 1, first or " ".join(cells).strip()[:200]
            continue
        jobs.append(queued_job(cells))
    return tuple(jobs), SkippedRecords(skipped, first)


def queued_job(cells: list[str]) -> QueuedJob:
    """A job from its cells, in the order of ``FIELDS``."""
    (number, word, user, account, partition, qos, array, reason, priority, nice, nodes, cpus, tasks, tres, per_node,
     per_job, per_task, shared, limit, submit, eligible, accrues, start, end, dependency, exit_status, nodelist,
     comment, name) = cells  # fmt: skip
    state, width = state_of(word), count_of(nodes, 1)
    code, sign = exit_of_wait_status(count_of(exit_status))
    started_s = instant_s(start)
    return QueuedJob(
        id=int(number),
        state=state,
        name=name,
        user=sys.intern(user),
        account=sys.intern(text_of(account)),
        partition=sys.intern(partition),
        qos=sys.intern(text_of(qos)),
        array=text_of(array) if state is JobState.PENDING and not array.isdecimal() else "",
        reason=sys.intern(text_of(reason)),
        priority=decimal(priority),
        nice=signed(nice),
        nodes=width,
        cpus=count_of(cpus, 1),
        gpus=gpus_of(tres, width, count_of(tasks, 1), per_node, per_job, per_task),
        limit_s=limit_s(limit),
        submit_s=instant_s(submit),
        eligible_s=instant_s(eligible),
        accrues_s=instant_s(accrues),
        start_s=started_s,
        end_s=instant_s(end) if state not in ALIVE or started_s != MISSING else MISSING,
        dependency=text_of(dependency),
        comment=text_of(comment),
        exit_code=code,
        exit_signal=sign,
        nodelist=text_of(nodelist),
        whole_nodes=shared == "NO",
        completing=is_completing(word),
    )
