"""Slurm's JSON, from ``--json`` and from slurmrestd, in all shapes of its values.

Up to 22.05 numbers are plain, or null, and states are words; later a number is ``{"set", "infinite", "number"}`` and a
state a list of words, the base state first and its flags after it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mirage.duration import UNLIMITED_S
from mirage.job_state import MISSING, JobState
from mirage.slurm.text.machine import word_and_use
from mirage.slurm.values import AccountedJob, Node, Partition, QueuedJob
from mirage.slurm_words.hostlist import expand_hosts
from mirage.slurm_words.states import job_state
from mirage.slurm_words.tres import gres_gpus_per_node
from mirage.slurm_words.values import gpus_of, state_of, text_of

Record = Mapping[str, Any]

_NO_VALUE = 0xFFFFFFFE
_INFINITE = 0xFFFFFFFF
_UNFINISHED = frozenset({JobState.PENDING, JobState.RUNNING, JobState.SUSPENDED, JobState.UNKNOWN})


def number(value: Any, otherwise: float = MISSING) -> float:
    """A number in either shape; ``UNLIMITED_S`` where it is infinite, the default where it is not set."""
    if isinstance(value, Mapping):
        if value.get("infinite"):
            return UNLIMITED_S
        return number(value.get("number"), otherwise) if value.get("set") else otherwise
    if isinstance(value, bool) or not isinstance(value, int | float) or value == _NO_VALUE:
        return otherwise
    return UNLIMITED_S if value == _INFINITE else value


def words(value: Any) -> list[str]:
    """A word, or words, as a list."""
    if isinstance(value, str):
        return [value]
    return [word for word in value if isinstance(word, str)] if isinstance(value, list) else []


def text(value: Any) -> str:
    """A text; empty for none."""
    return text_of(value) if isinstance(value, str) else ""


def instant(value: Any) -> int:
    """Seconds since 1970; ``MISSING`` for 0 and for none."""
    return int(number(value)) or MISSING


def minutes_as_s(value: Any) -> int:
    """A limit given in minutes, in seconds."""
    limit = number(value)
    return UNLIMITED_S if limit >= UNLIMITED_S else int(limit) * 60 if limit >= 0 else MISSING


def queued_job(record: Record) -> QueuedJob:
    """A job of ``squeue --json``, of ``scontrol show job --json`` or of slurmrestd's ``/jobs``."""
    state = _state(words(record.get("job_state")))
    nodes = max(int(number(record.get("node_count"), 1)), 1)
    code, sign = exit_of(record.get("exit_code"))
    start = instant(record.get("start_time"))
    ended = state not in _UNFINISHED
    tasks = text(record.get("array_task_string"))
    tres = text(record.get("tres_alloc_str")) or text(record.get("tres_req_str"))
    return QueuedJob(
        id=int(number(record.get("job_id"))),
        state=state,
        name=text(record.get("name")),
        user=text(record.get("user_name")),
        account=text(record.get("account")),
        partition=text(record.get("partition")),
        qos=text(record.get("qos")),
        array=tasks if state is JobState.PENDING else "",
        reason=text(record.get("state_reason")),
        priority=max(number(record.get("priority"), 0.0), 0.0),
        nodes=nodes,
        cpus=int(number(record.get("cpus"), 1)),
        gpus=gpus_of(tres, text(record.get("tres_per_node")), nodes),
        limit_s=minutes_as_s(record.get("time_limit")),
        submit_s=instant(record.get("submit_time")),
        eligible_s=instant(record.get("eligible_time")),
        start_s=start,
        end_s=instant(record.get("end_time")) if ended or start != MISSING else MISSING,
        dependency=text(record.get("dependency")),
        comment=text(record.get("comment")),
        exit_code=code,
        exit_signal=sign,
        nodelist=text(record.get("nodes")),
        whole_nodes="none" in words(record.get("shared")),
    )


def accounted_job(record: Record) -> AccountedJob:
    """A job of ``sacct --json`` or of slurmdbd's ``/jobs``."""
    times, said = record.get("time") or {}, record.get("comment") or {}
    state = job_state((words((record.get("state") or {}).get("current")) or [""])[0])
    start, end = instant(times.get("start")), instant(times.get("end"))
    if state is JobState.CANCELLED and start == end:
        start = MISSING
    code, sign = exit_of(record.get("exit_code"))
    return AccountedJob(
        id=int(number(record.get("job_id"))),
        state=state,
        name=text(record.get("name")),
        user=text(record.get("user")) or text((record.get("association") or {}).get("user")),
        account=text(record.get("account")),
        partition=text(record.get("partition")),
        qos=text(record.get("qos")),
        nodes=int(number(record.get("allocation_nodes"), 0)) or 1,
        limit_s=minutes_as_s(times.get("limit")),
        submit_s=instant(times.get("submission")),
        eligible_s=instant(times.get("eligible")),
        start_s=start,
        end_s=MISSING if state in _UNFINISHED else end,
        exit_code=code,
        exit_signal=sign,
        comment=text(said.get("job") if isinstance(said, Mapping) else said),
        submit_line=text(record.get("submit_line")),
    )


def node(record: Record) -> Node:
    """A node of ``scontrol show node --json``, of ``sinfo --json`` (22.05) or of slurmrestd's ``/nodes``."""
    state = "+".join([*words(record.get("state")), *words(record.get("state_flags"))])
    word, usable = word_and_use(state)
    gres = text(record.get("gres")).replace("gres/", "gres:")
    return Node(
        text(record.get("name")),
        word.partition("+")[0],
        usable,
        int(number(record.get("cpus"), 1)),
        gres_gpus_per_node(gres),
        tuple(words(record.get("partitions"))),
    )


def partition(record: Record) -> Partition:
    """A partition of slurmrestd's ``/partitions``, flat (22.05) or in groups (later)."""
    if "maximums" not in record:
        longest, usual = record.get("max_time_limit"), record.get("default_time_limit")
        flags, tier, nodes = words(record.get("flags")), record.get("priority_tier"), record.get("nodes")
        whole = False
    else:
        most, least = record["maximums"], record.get("defaults") or {}
        longest, usual = most.get("time"), least.get("time")
        flags = words((record.get("partition") or {}).get("state")) + words(record.get("flags"))
        tier, nodes = (record.get("priority") or {}).get("tier"), (record.get("nodes") or {}).get("configured")
        shares = most.get("oversubscribe") or {}
        whole = number(shares.get("jobs"), 1) == 0 or "EXCLUSIVE" in words(shares.get("flags"))
    longest_s = minutes_as_s(longest)
    return Partition(
        name=text(record.get("name")),
        default=any(flag.lower() == "default" for flag in flags),
        max_time_s=UNLIMITED_S if longest_s == MISSING else longest_s,
        default_time_s=minutes_as_s(usual),
        nodes=tuple(expand_hosts(text(nodes))),
        priority_tier=int(number(tier, 1)),
        whole_nodes=whole,
    )


def exit_of(value: Any) -> tuple[int, int]:
    """Exit code and signal; 22.05's queue gives the raw wait status."""
    if isinstance(value, Mapping):
        sign = value.get("signal") or {}
        return int(number(value.get("return_code"), 0)), int(number(sign.get("id", sign.get("signal_id")), 0))
    status = int(number(value, 0))
    return status >> 8, status & 0x7F


def _state(said: list[str]) -> JobState:
    """Base state and flags in one: a completing job still holds its nodes."""
    if not said:
        return JobState.UNKNOWN
    return state_of("COMPLETING") if "COMPLETING" in said else state_of(said[0])
