"""The log published with the Mirage paper (SC'23): one line a job, tab separated, local times.

Line 1 counts the lines below it, line 2 names the columns, line 3 is a rule. The columns are ``JobID
JobName UID Start Submit End Priority TimelimitR ExitCode NNodes``; the limit is in minutes. A job name may
hold tabs: the eight columns to its right are fixed, so what is left is the name. No state is recorded, and
an exit code of 0:0 is also that of a job that timed out: states are ``UNKNOWN``.
"""

from __future__ import annotations

from collections.abc import Iterator

from mirage.duration import MINUTE_S
from mirage.errors import TraceError
from mirage.trace.account import Account, LineError
from mirage.trace.instant import LocalClock
from mirage.trace.record import JobRecord, table_of
from mirage.trace.source import decode, numbered_lines
from mirage.trace.table import MISSING, JobTable

COLUMNS = (
    "JobID",
    "JobName",
    "UID",
    "Start",
    "Submit",
    "End",
    "Priority",
    "TimelimitR",
    "ExitCode",
    "NNodes",
)
_RIGHT_OF_NAME = len(COLUMNS) - 2


def read_mirage_log(data: bytes, account: Account, clock: LocalClock) -> JobTable:
    """The jobs of a published log.

    Args:
        data: The text.
        account: Receives the counts and what cannot be read.
        clock: The zone of the cluster.

    Raises:
        TraceError: The header is missing; or reading is strict and a line cannot be read.
    """
    lines = numbered_lines(decode(data, account), account)
    _read_header(lines, account)
    records = []
    for number, line in lines:
        try:
            records.append(_job(line.split("\t"), clock))
        except LineError as bad:
            account.reject(number, bad)
    account.note_repeated(record.job_id for record in records)
    return table_of(records)


def _read_header(lines: Iterator[tuple[int, str]], account: Account) -> None:
    """Count, column names, rule; the count is checked, and only noted when it is off."""
    expected = ("the number of lines", "the column names", "a rule of dashes")
    for what, (number, line) in zip(expected, lines):
        words = line.split()
        account.header += 1
        if what == expected[0] and line.strip().isdigit():
            below = account.lines - number
            account.metadata["Lines"] = line.strip()
            account.notes.update(
                ["line count in the head that is not the number of lines"] * (int(line) != below)
            )
        elif not (what == expected[1] and tuple(words) == COLUMNS) and not set("".join(words)) <= {"-"}:
            raise TraceError(
                f"{account.path}:{number}: {line[:60]!r} is not {what} of a published Mirage log"
            )


def _job(cells: list[str], clock: LocalClock) -> JobRecord:
    if len(cells) < len(COLUMNS):
        raise LineError(
            "too few fields", f"{len(cells)} of {len(COLUMNS)}", "the line is cut short or not tab separated"
        )
    job_id, *name = cells[:-_RIGHT_OF_NAME]
    uid, start, submit, end, priority, limit, _, nodes = cells[-_RIGHT_OF_NAME:]
    start_s, end_s = clock.seconds(start), clock.seconds(end)
    if not (job_id.isascii() and job_id.isdigit()):
        raise LineError("not a job id", repr(job_id), "expected a number")
    limit_min = _number(limit, "TimelimitR")
    return JobRecord(
        job_id=job_id,
        submit_s=clock.seconds(submit),
        start_s=start_s,
        end_s=end_s,
        elapsed_s=end_s - start_s if MISSING not in (start_s, end_s) else MISSING,
        limit_s=limit_min * MINUTE_S if limit_min >= 0 else MISSING,
        nodes=_number(nodes, "NNodes"),
        priority=_number(priority, "Priority"),
        user=uid.strip(),
        name="\t".join(name),
    )


def _number(text: str, column: str) -> int:
    word = text.strip()
    if word.isascii() and word.isdigit():
        return int(word)
    if word in ("", "Unknown", "None", "Partition_Limit"):
        return MISSING
    raise LineError("not a number", f"{column} is {text!r}", "check that the columns are in order")
