"""The log published with the Mirage paper (SC'23): one job per line, tabs, local times.

Line 1 counts the lines below it, line 2 names the columns, line 3 is a rule. The columns are ``JobID
JobName UID Start Submit End Priority TimelimitR ExitCode NNodes``; the limit is in minutes. A job name may
contain tabs: the eight columns to its right are fixed, so the rest is the name. No state is recorded, and
jobs that timed out also have exit code 0:0: states are ``UNKNOWN``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from mirage.duration import MINUTE_S
from mirage.errors import LineError, TraceError
from mirage.job_state import MISSING
from mirage.slurm_words.numbers import whole_number
from mirage.slurm_words.time_limits import is_no_limit
from mirage.slurm_words.timestamps import LocalClock
from mirage.trace.formats.decompress import numbered_lines
from mirage.trace.formats.read_report import ReadTally
from mirage.trace.formats.table_builder import JobRecord, TableBuilder
from mirage.trace.table import JobTable

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
_MISCOUNTED = "line count in the head that is not the number of lines"


def read_mirage_log(data: bytes, tally: ReadTally, clock: LocalClock) -> JobTable:
    """Reads the jobs of a published log.

    Args:
        data: The text.
        tally: Receives the counts and unreadable lines.
        clock: The zone of the cluster.

    Raises:
        TraceError: The header is missing; or reading is strict and a line cannot be read.
    """
    lines = numbered_lines(data, tally)
    counted_from = _read_header(lines, tally)
    rows = TableBuilder()
    for number, line in lines:
        try:
            rows.append(number, _job(line.split("\t"), clock))
        except LineError as bad:
            tally.reject(number, bad)
    if int(tally.metadata["Lines"]) != tally.lines - counted_from:
        tally.notes[_MISCOUNTED] += 1
    return rows.table(tally)


def _read_header(lines: Iterator[tuple[int, str]], tally: ReadTally) -> int:
    """Reads count, column names and rule; returns the number of the line with the count."""
    counted_from = 0
    expected: dict[str, Callable[[str], bool]] = {
        "the number of lines": lambda line: whole_number(line.strip()) is not None,
        "the column names": lambda line: tuple(line.split()) == COLUMNS,
        "a rule of dashes": lambda line: set(line) - set(" \t") == {"-"},
    }
    for what, is_so in expected.items():
        number, line = next(lines, (tally.lines + 1, ""))
        if not is_so(line):
            raise TraceError(f"{tally.path}:{number}: {line[:60]!r} is not {what} of a Mirage log")
        tally.header += 1
        if (count := whole_number(line.strip())) is not None:
            tally.metadata["Lines"], counted_from = str(count), number
    return counted_from


def _job(cells: list[str], clock: LocalClock) -> JobRecord:
    if len(cells) < len(COLUMNS):
        raise LineError(
            "too few fields", f"{len(cells)} of {len(COLUMNS)}", "the line is cut short or not tab separated"
        )
    job_id, *name = cells[:-_RIGHT_OF_NAME]
    uid, start, submit, end, priority, limit, _, nodes = cells[-_RIGHT_OF_NAME:]
    start_s, end_s = clock.seconds(start), clock.seconds(end)
    if whole_number(job_id) is None:
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
    if (number := whole_number(word)) is not None:
        return number
    if is_no_limit(word):
        return MISSING
    raise LineError("not a number", f"{column} is {text!r}", "check that the columns are in order")
