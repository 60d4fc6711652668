"""Jobs and nodes from ``scontrol --oneliner show``.

For sites where squeue is wrapped or restricted.
"""

from __future__ import annotations

import re

from mirage.job_state import MISSING, JobState
from mirage.slurm.records import Node, QueuedJob
from mirage.slurm.text.machine import first_pairs, gpus_of_gres, pairs, word_and_use
from mirage.slurm_words.absent import text_of
from mirage.slurm_words.exit_status import exit_of
from mirage.slurm_words.numbers import count_of, decimal, signed
from mirage.slurm_words.states import ALIVE, is_completing, state_of
from mirage.slurm_words.time_limits import limit_s
from mirage.slurm_words.timestamps import instant_s
from mirage.slurm_words.tres import gpus_of

JOBS_COMMAND = ("scontrol", "--oneliner", "--all", "show", "job")
NODES_COMMAND = ("scontrol", "--oneliner", "--all", "show", "node")

_COMMENT = re.compile(r" Comment=(.*?)(?= [A-Z][A-Za-z/:]*=|\s*$)")
_NAME = re.compile(r" JobName=(.*?)(?: HetJobIdSet=\S*)? UserId=")


def read_jobs(output: str) -> tuple[QueuedJob, ...]:
    """Jobs in the output of ``JOBS_COMMAND``."""
    return tuple(queued_job(line) for line in output.splitlines() if line.startswith("JobId="))


def queued_job(line: str) -> QueuedJob:
    """A job from its line; text in its name and comment is not read as fields."""
    name = _NAME.search(line)
    row = first_pairs(line.replace(name[0], " UserId=", 1) if name else line)
    state, nodes = state_of(row.get("JobState", "")), max(count_of(row.get("NumNodes", "1"), 1), 1)
    code, sign = exit_of(row.get("ExitCode", "0:0"))
    start = instant_s(row.get("StartTime", ""))
    comment = _COMMENT.search(line)
    limit = row.get("TimeLimit", "")
    tasks = count_of(row.get("NumTasks", "1"), 1)
    tres = next(filter(None, (text_of(row.get(name, "")) for name in ("TRES", "AllocTRES", "ReqTRES"))), "")
    return QueuedJob(
        id=count_of(row["JobId"].partition(" ")[0]),
        state=state,
        name=name[1] if name else "",
        user=row.get("UserId", "").partition("(")[0],
        account=text_of(row.get("Account", "")),
        partition=row.get("Partition", ""),
        qos=text_of(row.get("QOS", "")),
        array=_tasks(row) if state is JobState.PENDING else "",
        reason=text_of(row.get("Reason", "")),
        priority=decimal(row.get("Priority", "0")),
        nice=signed(row.get("Nice", "0")),
        nodes=nodes,
        cpus=count_of(row.get("NumCPUs", "1"), 1),
        gpus=gpus_of(tres, nodes, tasks, *(row.get(f"TresPer{each}", "") for each in ("Node", "Job", "Task"))),
        limit_s=limit_s(limit),
        submit_s=instant_s(row.get("SubmitTime", "")),
        eligible_s=instant_s(row.get("EligibleTime", "")),
        accrues_s=instant_s(row.get("AccrueTime", "")),
        start_s=start,
        end_s=instant_s(row.get("EndTime", "")) if state not in ALIVE or start != MISSING else MISSING,
        dependency=text_of(row.get("Dependency", "")),
        comment=text_of(comment[1]) if comment else "",
        exit_code=code,
        exit_signal=sign,
        completing=is_completing(row.get("JobState", "")),
        nodelist=text_of(row.get("NodeList", "")),
        whole_nodes=row.get("OverSubscribe") == "NO",
    )


def read_nodes(output: str) -> tuple[Node, ...]:
    """Nodes in the output of ``NODES_COMMAND``."""
    found = []
    for line in output.splitlines():
        row = pairs(line)
        if "NodeName" in row:
            word, usable = word_and_use(row.get("State", ""))
            names = tuple(name for name in row.get("Partitions", "").split(",") if name)
            cpus = count_of(row.get("CPUTot", "1"), 1)
            found.append(
                Node(row["NodeName"], word.partition("+")[0], usable, cpus, gpus_of_gres(row.get("Gres", "")), names)
            )
    return tuple(found)


def _tasks(row: dict[str, str]) -> str:
    tasks = text_of(row.get("ArrayTaskId", ""))
    return "" if tasks.isdecimal() else tasks
