"""Writer of the Standard Workload Format: everything that eighteen numbers can express.

A processor is a CPU if the CPUs of every job are known, and a node otherwise; the header records which.
Times are relative to ``UnixStartTime``, the first submission. Users and the like are numbers in this
format: a numeric name is used as it is, others are numbered in order of appearance, and the header lists
them. Numbers of 2**40 or more, which its readers reject, are left out, and the header records their
count. The format has no field for GPUs, eligibility, priority and unlimited limits.
"""

from __future__ import annotations

import re

import numpy as np

from mirage.duration import UNLIMITED_S
from mirage.job_state import MISSING, UNFINISHED, Ints, JobState
from mirage.trace.formats import swf
from mirage.trace.table import JobTable, Labels

_NUMBER = re.compile(r"0|[1-9]\d{0,11}", re.ASCII)
_AFTERANY = "afterany:"


def swf_bytes(table: JobTable) -> bytes:
    """Returns the table as a workload file, in its own order."""
    submitted = table.submit_s[table.submit_s >= 0]
    unix_start_s = int(submitted.min()) if len(submitted) else 0
    all_cpus_known = len(table) > 0 and (table.cpus >= 0).all()
    processors, unit = (table.cpus, "CPU") if all_cpus_known else (table.nodes, "node")
    header = [
        "Version: 2.2",
        f"MaxJobs: {len(table)}",
        f"MaxRecords: {len(table)}",
        f"UnixStartTime: {unix_start_s}",
        "TimeZone: 0",
        "TimeZoneString: UTC",
        f"Note: a processor is one {unit}",
    ]
    rows = np.full((len(table), swf.FIELDS), MISSING, dtype=np.int64)
    rows[:, swf.JOB] = _job_numbers(table, header)
    rows[:, swf.SUBMIT] = np.where(table.submit_s >= 0, table.submit_s - unix_start_s, MISSING)
    rows[:, swf.WAIT] = np.maximum(table.wait_s, MISSING)
    rows[:, swf.RUN] = np.maximum(np.where(table.never_started, table.elapsed_s, table.run_s), MISSING)
    rows[:, swf.ALLOCATED] = processors
    rows[:, swf.REQUESTED] = processors
    rows[:, swf.TIME] = np.where(table.limit_s >= UNLIMITED_S, MISSING, table.limit_s)
    rows[:, swf.STATUS] = _status(table.state)
    named = ((swf.USER, "user"), (swf.GROUP, "account"), (swf.EXECUTABLE, "name"))
    for place, column in (*named, (swf.QUEUE, "qos"), (swf.PARTITION, "partition")):
        rows[:, place] = _numbers(getattr(table, column), column, header)
    rows[:, swf.PRECEDING] = _preceding(table.dependency, table.job_id.tolist(), rows[:, swf.JOB].tolist())
    rows = _within_range(rows, header)
    lines = [f"; {line}" for line in header] + [" ".join(map(str, row)) for row in rows.tolist()]
    return ("\n".join(lines) + "\n").encode()


def _within_range(rows: Ints, header: list[str]) -> Ints:
    """Replaces numbers that readers of the format reject by -1."""
    too_large = rows >= swf.LARGEST
    if count := int(too_large.sum()):
        header.append(f"Note: {count} numbers of {swf.LARGEST} or more are written as -1")
    return np.where(too_large, MISSING, rows)


def _status(states: Ints) -> Ints:
    """1 completed, 5 cancelled, 0 failed in any other way, -1 unknown or not ended."""
    unknown = [int(state) for state in UNFINISHED | {JobState.UNKNOWN}]
    status = np.where(np.isin(states, unknown), MISSING, 0)
    status[states == JobState.COMPLETED] = 1
    status[states == JobState.CANCELLED] = 5
    return status


def _job_numbers(table: JobTable, header: list[str]) -> Ints:
    """The identifiers if all are numbers, else 1, 2, 3 …."""
    identifiers = table.job_id.tolist()
    if all(_NUMBER.fullmatch(identifier) for identifier in identifiers):
        return np.array(identifiers, dtype=np.int64)
    header.append("Note: jobs are numbered anew, in the order of the source")
    return np.arange(1, len(table) + 1)


def _numbers(labels: Labels, column: str, header: list[str]) -> Ints:
    numbers = [int(name) if _NUMBER.fullmatch(name) else None for name in labels.names]
    taken = set(numbers)
    free = (n for n in range(1, 2 * len(numbers) + 2) if n not in taken)
    for code, number in enumerate(numbers):
        if number is None:
            numbers[code] = next(free)
            name = labels.names[code].encode("unicode_escape").decode()
            header.append(f"Note: {column} {numbers[code]} is {name}")
    return np.array([*numbers, MISSING], dtype=np.int64)[labels.codes]


def _preceding(dependencies: Labels, job_ids: list[str], job_numbers: list[int]) -> Ints:
    """Number of the job that must end first, if the dependency is ``afterany`` on one job."""
    number_of = dict(zip(job_ids, job_numbers))
    ids_are_numbers = all(job_id == str(number) for job_id, number in number_of.items())
    preceding = []
    for name in dependencies.names:
        job_id = name.removeprefix(_AFTERANY) if name.startswith(_AFTERANY) else ""
        absent = int(job_id) if ids_are_numbers and _NUMBER.fullmatch(job_id) else MISSING
        preceding.append(number_of.get(job_id, absent))
    return np.array([*preceding, MISSING], dtype=np.int64)[dependencies.codes]
