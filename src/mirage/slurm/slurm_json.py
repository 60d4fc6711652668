"""Slurm's JSON, of ``--json`` and of slurmrestd: a reader for each form of a value.

Up to 22.05 numbers are plain, or null, and states are words; later a number is ``{"set", "infinite", "number"}`` and a
state a list of words: the base state, then its flags.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from mirage.duration import UNLIMITED_S
from mirage.job_state import MISSING, JobState
from mirage.slurm.records import AccountedJob, Node, QueuedJob, SkippedRecords, SlurmPartition
from mirage.slurm.text.machine import word_and_use
from mirage.slurm_words.absent import text_of
from mirage.slurm_words.exit_status import exit_of_wait_status
from mirage.slurm_words.hostlist import expand_hosts
from mirage.slurm_words.json_numbers import number_or
from mirage.slurm_words.states import ALIVE, cancelled_while_pending, job_state, state_of
from mirage.slurm_words.tres import gpus_of, gres_gpus_per_node
from mirage.slurm_words.unicode import valid_unicode

Record = Mapping[str, Any]
Read = TypeVar("Read")


def words(value: Any) -> list[str]:
    """A word or a list of words, as a list."""
    listed = value if isinstance(value, list) else [value]
    return [valid_unicode(word) for word in listed if isinstance(word, str)]


def group(value: Any) -> Record:
    """A group of values; an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}


def text(value: Any) -> str:
    """A text; empty for none."""
    return text_of(value) if isinstance(value, str) else ""


def job_name(value: Any) -> str:
    """A job's name, unchanged: users also call jobs ``none``, and end names in a space."""
    return valid_unicode(value) if isinstance(value, str) else ""


def count(value: Any, otherwise: int = MISSING, *, bits: int = 32) -> int:
    """A whole number, or the default."""
    return int(number_or(value, otherwise, bits=bits))


def instant(value: Any) -> int:
    """Seconds since 1970; ``MISSING`` for 0 and for none."""
    return count(value) or MISSING


def minutes_as_s(value: Any) -> int:
    """A limit given in minutes, in seconds."""
    limit = number_or(value)
    return UNLIMITED_S if limit >= UNLIMITED_S else int(limit) * 60 if limit >= 0 else MISSING


def queued_job(record: Record) -> QueuedJob:
    """A job of ``squeue --json``, ``scontrol show job --json`` or slurmrestd's ``/jobs``."""
    state = _state(words(record.get("job_state")))
    nodes = max(count(record.get("node_count"), 1), 1)
    code, sign = exit_of(record.get("exit_code"))
    start = instant(record.get("start_time"))
    ended = state not in ALIVE
    tasks = text(record.get("array_task_string"))
    tres = text(record.get("tres_alloc_str")) or text(record.get("tres_req_str"))
    requested = (text(record.get(f"tres_per_{each}")) for each in ("node", "job", "task"))
    return QueuedJob(
        id=count(record.get("job_id")),
        state=state,
        name=job_name(record.get("name")),
        user=text(record.get("user_name")),
        account=text(record.get("account")),
        partition=text(record.get("partition")),
        qos=text(record.get("qos")),
        array=tasks if state is JobState.PENDING else "",
        reason=text(record.get("state_reason")),
        priority=number_or(record.get("priority"), 0.0),
        nice=round(number_or(record.get("nice"), 0.0)),
        nodes=nodes,
        cpus=count(record.get("cpus"), 1),
        gpus=gpus_of(tres, nodes, count(record.get("tasks"), 1), *requested),
        limit_s=minutes_as_s(record.get("time_limit")),
        submit_s=instant(record.get("submit_time")),
        eligible_s=instant(record.get("eligible_time")),
        accrues_s=instant(record.get("accrue_time")),
        start_s=start,
        end_s=instant(record.get("end_time")) if ended or start != MISSING else MISSING,
        dependency=text(record.get("dependency")),
        comment=text(record.get("comment")),
        exit_code=code,
        exit_signal=sign,
        nodelist=text(record.get("nodes")),
        whole_nodes="none" in words(record.get("shared")),
        completing="COMPLETING" in words(record.get("job_state")),
    )


def accounted_job(record: Record) -> AccountedJob:
    """A job of ``sacct --json`` or of slurmdbd's ``/jobs``."""
    times, comments = group(record.get("time")), record.get("comment")
    state = job_state((words(group(record.get("state")).get("current")) or [""])[0])
    start, end = instant(times.get("start")), instant(times.get("end"))
    if cancelled_while_pending(state, start, end):
        start = MISSING
    code, sign = exit_of(record.get("exit_code"))
    return AccountedJob(
        id=count(record.get("job_id")),
        state=state,
        name=job_name(record.get("name")),
        user=text(record.get("user")) or text(group(record.get("association")).get("user")),
        account=text(record.get("account")),
        partition=text(record.get("partition")),
        qos=text(record.get("qos")),
        nodes=count(record.get("allocation_nodes"), 0) or 1,
        limit_s=minutes_as_s(times.get("limit")),
        submit_s=instant(times.get("submission")),
        eligible_s=instant(times.get("eligible")),
        start_s=start,
        end_s=MISSING if state in ALIVE else end,
        exit_code=code,
        exit_signal=sign,
        comment=text(comments.get("job") if isinstance(comments, Mapping) else comments),
        submit_line=text(record.get("submit_line")),
        cpus=_allocated_cpus(group(record.get("tres")).get("allocated")) or MISSING,
    )


def _allocated_cpus(listed: Any) -> int:
    """The CPUs in a list of TRES; 0 for none."""
    rows = map(group, listed if isinstance(listed, list) else [])
    return next((count(row.get("count"), 0, bits=64) for row in rows if row.get("type") == "cpu"), 0)


def node(record: Record) -> Node:
    """A node of ``scontrol show node --json``, ``sinfo --json`` or slurmrestd's ``/nodes``."""
    state = "+".join([*words(record.get("state")), *words(record.get("state_flags"))])
    word, usable = word_and_use(state)
    gres = text(record.get("gres"))
    return Node(
        text(record.get("name")),
        word.partition("+")[0],
        usable,
        count(record.get("cpus"), 1, bits=16),
        gres_gpus_per_node(gres),
        tuple(words(record.get("partitions"))),
    )


def partition(record: Record) -> SlurmPartition:
    """A partition of slurmrestd's ``/partitions``, flat (22.05) or in groups (later)."""
    if "maximums" not in record:
        longest, usual = record.get("max_time_limit"), record.get("default_time_limit")
        flags, tier, nodes = words(record.get("flags")), record.get("priority_tier"), record.get("nodes")
        whole, states = False, words(record.get("state"))
    else:
        most, least = group(record["maximums"]), group(record.get("defaults"))
        longest, usual = most.get("time"), least.get("time")
        states = words(group(record.get("partition")).get("state"))
        flags = states + words(record.get("flags"))
        tier, nodes = group(record.get("priority")).get("tier"), group(record.get("nodes")).get("configured")
        shares = group(most.get("oversubscribe"))
        whole = count(shares.get("jobs"), 1, bits=16) == 0 or "EXCLUSIVE" in words(shares.get("flags"))
    longest_s = minutes_as_s(longest)
    return SlurmPartition(
        name=text(record.get("name")),
        default=any(flag.lower() == "default" for flag in flags),
        max_time_s=UNLIMITED_S if longest_s == MISSING else longest_s,
        default_time_s=minutes_as_s(usual),
        nodes=_hosts(text(nodes)),
        priority_tier=count(tier, 1, bits=16),
        whole_nodes=whole,
        down=not {"DOWN", "INACTIVE"}.isdisjoint(states),
    )


def exit_of(value: Any) -> tuple[int, int]:
    """Exit code and signal; 22.05's queue gives the raw wait status."""
    if isinstance(value, Mapping):
        sign = group(value.get("signal"))
        return count(value.get("return_code"), 0), count(sign.get("id", sign.get("signal_id")), 0)
    return exit_of_wait_status(count(value, 0))


def records(listed: Any, read: Callable[[Record], Read], key: str) -> tuple[tuple[Read, ...], SkippedRecords]:
    """The records of a list, and a count of the elements that are not records.

    Args:
        listed: The list.
        read: Reads a record.
        key: A field of every record: a positive number or a name.
    """
    found, skipped = [], SkippedRecords()
    for record in listed if isinstance(listed, list) else [listed] if listed is not None else []:
        named = isinstance(record, Mapping) and (count(record.get(key)) > 0 or text(record.get(key)))
        if named:
            found.append(read(record))
        else:
            skipped = skipped.and_one(_shown(record))
    return tuple(found), skipped


def _shown(record: Any) -> str:
    try:
        return repr(record)
    except ValueError:  # integers of thousands of digits have no repr
        return type(record).__name__


def _hosts(listed: str) -> tuple[str, ...]:
    try:
        return tuple(expand_hosts(listed))
    except ValueError:
        return ()


def _state(reported: list[str]) -> JobState:
    """Base state and flags in one: a completing job still holds its nodes."""
    if not reported:
        return JobState.UNKNOWN
    return state_of("COMPLETING") if "COMPLETING" in reported else state_of(reported[0])
