"""Jobs and nodes as ``scontrol --oneliner show`` prints them."""

from __future__ import annotations

import re

from mirage.job_state import MISSING, JobState
from mirage.slurm.text.machine import pairs, word_and_use
from mirage.slurm.values import Node, QueuedJob
from mirage.slurm_words.tres import gres_gpus_per_node
from mirage.slurm_words.values import decimal, exit_of, gpus_of, instant_s, limit_s, state_of, text_of, whole

JOBS_COMMAND = ("scontrol", "--oneliner", "--all", "show", "job")
NODES_COMMAND = ("scontrol", "--oneliner", "--all", "show", "node")

_UNFINISHED = frozenset({JobState.PENDING, JobState.RUNNING, JobState.SUSPENDED, JobState.UNKNOWN})
_COMMENT = re.compile(r" Comment=(.*?)(?= [A-Z][A-Za-z/:]*=|\s*$)")
_NAME = re.compile(r" JobName=(.*?)(?: HetJobIdSet=\S*)? UserId=")


def read_jobs(output: str) -> tuple[QueuedJob, ...]:
    """Jobs in what ``JOBS_COMMAND`` printed."""
    return tuple(queued_job(line) for line in output.splitlines() if line.startswith("JobId="))


def queued_job(line: str) -> QueuedJob:
    """A job from its line."""
    row = pairs(line)
    state, nodes = state_of(row.get("JobState", "")), max(whole(row.get("NumNodes", "1"), 1), 1)
    code, sign = exit_of(row.get("ExitCode", "0:0"))
    start = instant_s(row.get("StartTime", ""))
    comment, name = _COMMENT.search(line), _NAME.search(line)
    limit = row.get("TimeLimit", "")
    tres = next(filter(None, (text_of(row.get(name, "")) for name in ("TRES", "AllocTRES", "ReqTRES"))), "")
    return QueuedJob(
        id=whole(row["JobId"].partition(" ")[0]),
        state=state,
        name=name[1] if name else "",
        user=row.get("UserId", "").partition("(")[0],
        account=text_of(row.get("Account", "")),
        partition=row.get("Partition", ""),
        qos=text_of(row.get("QOS", "")),
        array=_tasks(row) if state is JobState.PENDING else "",
        reason=text_of(row.get("Reason", "")),
        priority=decimal(row.get("Priority", "0")),
        nodes=nodes,
        cpus=whole(row.get("NumCPUs", "1"), 1),
        gpus=gpus_of(tres, row.get("TresPerNode", ""), nodes),
        limit_s=limit_s(limit),
        submit_s=instant_s(row.get("SubmitTime", "")),
        eligible_s=instant_s(row.get("EligibleTime", "")),
        start_s=start,
        end_s=instant_s(row.get("EndTime", "")) if state not in _UNFINISHED or start != MISSING else MISSING,
        dependency=text_of(row.get("Dependency", "")),
        comment=text_of(comment[1]) if comment else "",
        exit_code=code,
        exit_signal=sign,
        nodelist=text_of(row.get("NodeList", "")),
        whole_nodes=row.get("OverSubscribe") == "NO",
    )


def read_nodes(output: str) -> tuple[Node, ...]:
    """Nodes in what ``NODES_COMMAND`` printed."""
    found = []
    for line in output.splitlines():
        row = pairs(line)
        if "NodeName" in row:
            word, usable = word_and_use(row.get("State", ""))
            gres = re.sub(r"\([^)]*\)", "", text_of(row.get("Gres", ""))).replace("gres/", "gres:")
            names = tuple(name for name in row.get("Partitions", "").split(",") if name)
            cpus = whole(row.get("CPUTot", "1"), 1)
            found.append(Node(row["NodeName"], word.partition("+")[0], usable, cpus, gres_gpus_per_node(gres), names))
    return tuple(found)


def _tasks(row: dict[str, str]) -> str:
    tasks = text_of(row.get("ArrayTaskId", ""))
    return "" if tasks.isdecimal() else tasks
