"""Accounting logs of PBS Professional, OpenPBS and Torque (``server_priv/accounting``).

A record is a line ``date time;letter;job;key=value key=value …``. A job has several: queued (``Q``), started (``S``),
deleted (``D``), aborted (``A``), run again (``R``) and ended (``E``). ``E`` and ``R`` end an attempt and are rows of
the table, completed from the job's last ``S``; the other records of a job are counted as steps. Jobs that have no end
in the log are rows too: they run, wait, or were deleted before they started. Records of reservations and licences are
comments.

Times in a record count from 1970: ``ctime`` is the submission, ``etime`` when the job became eligible. The date of a
record is local. It is used only where a time is missing, with the offset that other records of the log show.

Logs of several days in one file are read in the order of their dates, however they were joined.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from mirage.duration import MINUTE_S
from mirage.errors import LineError
from mirage.job_state import MISSING, JobState
from mirage.slurm_words.timestamps import LocalClock
from mirage.slurm_words.unicode import valid_unicode
from mirage.trace.formats.decompress import numbered_lines
from mirage.trace.formats.pbs_resources import resources, seconds
from mirage.trace.formats.read_report import ReadTally
from mirage.trace.formats.table_builder import JobRecord, TableBuilder
from mirage.trace.table import JobTable

_RECORD = re.compile(
    r"(?P<month>\d\d)/(?P<day>\d\d)/(?P<year>\d{4}) (?P<clock>\d\d:\d\d:\d\d)(?:\.\d+)?;(?P<kind>[A-Za-z]);"
    r"(?P<id>[^;]*);?(?P<message>.*)",
    re.ASCII | re.DOTALL,
)
_BEGIN = re.compile(r"\d\d/\d\d/\d{4} \d\d:\d\d:\d\d(\.\d+)?;[A-Za-z];[^;]*(;|$)", re.ASCII)
_ATTRIBUTE = re.compile(r"(?:^|[ ;])([A-Za-z_][\w.]*)=", re.ASCII)
_JOB = re.compile(r"(?P<number>\d+(?:\[(?P<index>\d*)\]|-\d+)?)(?:\.(?P<server>.+))?", re.ASCII)
_DEPENDENCY = re.compile(r"(after|afterok|afterany|afternotok):(\S+)", re.ASCII)

QUEUED, STARTED, DELETED, ABORTED, AGAIN, ENDED = "Q", "S", "D", "A", "R", "E"
OF_A_JOB = frozenset({QUEUED, STARTED, DELETED, ABORTED, AGAIN, ENDED, "C", "T", "M", "s", "u", "e", "c"})
"""Records of a job; ``C`` and ``T`` are checkpoints, ``M`` is a move, small letters are phases of a job."""

TIMED_OUT, MEMORY_EXCEEDED = -29, (-26, -27)
"""Exit codes of PBS Professional for a job that exceeded its walltime, and its virtual or real memory."""

SIGNALLED = 256
"""An exit code from here on is this number and the signal that ended the job."""

SEVERAL_SERVERS = "job of a log with jobs of several servers (the server is a part of its id)"
NO_PROJECT = "_pbs_project_default"

ZONE_STEP_S, PROMPT_S = 15 * MINUTE_S, MINUTE_S
"""Zones differ by multiples of a quarter of an hour; a record is written within a minute of its time."""

SUMMER_TIME = timedelta(hours=1)
"""The local dates of one log go back by so much when summer time ends."""

CUT = "last line without a line end (if the log was copied while it was written, this record is incomplete)"
LATE_LOG = "log that comes after a later one (all are read in the order of their dates)"

_OWN_TIME = {STARTED: "start", ENDED: "end", QUEUED: "ctime"}
_LONGEST_TIME = 13


def is_pbs(line: str) -> bool:
    """Whether a line is a record of PBS accounting."""
    return _BEGIN.match(line) is not None


def read_pbs(data: bytes, tally: ReadTally, clock: LocalClock) -> JobTable:
    """Reads the jobs of an accounting log, or of several in one file.

    Args:
        data: The text.
        tally: Receives the counts and unreadable lines.
        clock: The zone of the dates of records; used where a record lacks a time.

    Raises:
        TraceError: Reading is strict and a line is not a record, or has a value that cannot be read.
    """
    jobs = _Jobs(tally)
    tally.notes.update([CUT] if not data.endswith(b"\n") else [])
    for number, line in _by_date(numbered_lines(data, tally), tally):
        try:
            record = _record(line, clock)
            if record is None:
                tally.comment += 1
            else:
                jobs.add(number, record)
        except LineError as bad:
            tally.reject(number, bad)
    return jobs.table()


def _by_date(lines: Iterable[tuple[int, str]], tally: ReadTally) -> list[tuple[int, str]]:
    """Returns numbered lines with their logs in the order of the logs' first dates."""
    logs: list[tuple[datetime, list[tuple[int, str]]]] = []
    latest = datetime.max
    for number, line in lines:
        try:
            at = datetime(int(line[6:10]), int(line[:2]), int(line[3:5]), int(line[11:13]), int(line[14:16]))
        except ValueError:  # no record: it stays where it is
            at = latest
        if not logs or latest - at > SUMMER_TIME:
            logs.append((at, []))
        logs[-1][1].append((number, line))
        latest = at
    in_order = sorted(logs, key=lambda log: log[0])
    if in_order != logs:
        tally.notes[LATE_LOG] += sum(later[0] < log[0] for log, later in pairwise(logs))
    return [numbered for _, log in in_order for numbered in log]


class _Record(NamedTuple):
    """A record of a job: its letter, the id with the server, its date, and the attributes."""

    kind: str
    job_id: str
    is_array: bool
    at_s: int
    attributes: dict[str, str]


def _record(line: str, clock: LocalClock) -> _Record | None:
    """Returns the record in a line; ``None`` if it is not one of a job."""
    found = _RECORD.fullmatch(line)
    if found is None:
        raise LineError("not a record of PBS", repr(line[:60]), "expected MM/DD/YYYY HH:MM:SS;E;123.server;user=…")
    if found["kind"] not in OF_A_JOB:
        return None
    at_s = clock.seconds(f"{found['year']}-{found['month']}-{found['day']}T{found['clock']}")
    job = _JOB.fullmatch(found["id"].strip())
    if job is None:
        raise LineError("not a job id", repr(found["id"]), "expected 123.server, 123[4].server or 123-4.server")
    job_id = job["number"] + (f".{valid_unicode(job['server'])}" if job["server"] else "")
    return _Record(found["kind"], job_id, job["index"] == "", at_s, _attributes(found["message"]))


def _attributes(message: str) -> dict[str, str]:
    """Returns the attributes of a record; of repeated ones the first."""
    found: dict[str, str] = {}
    places = list(_ATTRIBUTE.finditer(message))
    for place, following in zip(places, [*places[1:], None]):
        value = message[place.end() : len(message) if following is None else following.start()]
        found.setdefault(place[1], valid_unicode(value.strip().strip('"')))
    return found


class _Open(NamedTuple):
    """A job without an end so far: its line, attributes, and the dates of its records."""

    line: int
    attributes: dict[str, str]
    queued_s: int = MISSING
    deleted_s: int = MISSING
    started: bool = False


class _Jobs:
    """The jobs of a log: a row for every attempt that ends, then for every job without an end."""

    def __init__(self, tally: ReadTally) -> None:
        self._tally, self._rows = tally, TableBuilder()
        self._open: dict[str, _Open] = {}
        self._offsets_s: Counter[int] = Counter()

    def add(self, line: int, record: _Record) -> None:
        """Add a record.

        Raises:
            LineError: It ends an attempt, and has a value that cannot be read.
        """
        self._tally.steps += 1
        if record.is_array:
            return  # its elements have records of their own
        self._learn_offset(record)
        job = self._open.pop(record.job_id, None) or _Open(line, {})
        if record.kind in (ENDED, AGAIN):
            self._end(line, record, job)
            return
        if record.kind == STARTED:
            job = job._replace(line=line, attributes=job.attributes | record.attributes, started=True)
        elif record.kind == QUEUED:
            job = job._replace(queued_s=record.at_s, attributes=record.attributes | job.attributes)
        elif record.kind in (DELETED, ABORTED):
            job = job._replace(line=line, deleted_s=record.at_s)
        self._open[record.job_id] = job

    def table(self) -> JobTable:
        """Returns the table, with the jobs that have no end."""
        for job_id, job in self._open.items():
            state = JobState.PENDING if job.deleted_s < 0 else JobState.CANCELLED
            end_s = job.deleted_s if not job.started else MISSING
            try:
                self._append(job.line, job_id, job.attributes, job, end_s, JobState.RUNNING if job.started else state)
            except LineError as bad:
                self._tally.steps -= 1
                self._tally.reject(job.line, bad)
        table = self._rows.table(self._tally)
        ids = [job_id.partition(".") for job_id in table.job_id.tolist()]
        servers = {server for _, _, server in ids}
        if len(servers) == 1:
            return table.with_columns(job_id=np.array([number for number, _, _ in ids], dtype=np.str_))
        if servers:
            self._tally.notes[SEVERAL_SERVERS] += len(table)
        return table

    def _learn_offset(self, record: _Record) -> None:
        """Observe how far the local dates of records are from the times in them."""
        name = _OWN_TIME.get(record.kind)
        own = record.attributes.get(name, "") if name else ""
        if own.isascii() and own.isdecimal() and len(own) < _LONGEST_TIME:
            steps, late_s = divmod(record.at_s - int(own) + PROMPT_S, ZONE_STEP_S)
            if late_s <= 2 * PROMPT_S:
                self._offsets_s[steps * ZONE_STEP_S] += 1

    def _date_s(self, at_s: int) -> int:
        """Returns the instant of a local date of a record."""
        if at_s < 0 or not self._offsets_s:
            return at_s
        return at_s - self._offsets_s.most_common(1)[0][0]

    def _end(self, line: int, record: _Record, job: _Open) -> None:
        again = record.kind == AGAIN
        attributes = job.attributes | record.attributes
        if not again or "start" in attributes:  # otherwise the attempt began before the log, and its times are unknown
            try:
                self._append(line, record.job_id, attributes, job, record.at_s, _end_state(record, attributes, job))
            except LineError:
                self._tally.steps -= 1
                raise
        if again:
            rest = {name: value for name, value in attributes.items() if name not in _OF_AN_ATTEMPT}
            self._open[record.job_id] = _Open(line, rest, job.queued_s)

    def _append(
        self, line: int, job_id: str, attributes: dict[str, str], job: _Open, date_s: int, state: JobState
    ) -> None:
        start_s, end_s = _instant(attributes, "start"), _instant(attributes, "end")
        end_s = self._date_s(date_s) if end_s < 0 else end_s
        submit_s = _instant(attributes, "ctime", "qtime")
        limit_s = seconds(attributes.get("Resource_List.walltime", ""))
        elapsed_s = seconds(attributes.get("resources_used.walltime", ""))
        if elapsed_s < 0 and MISSING not in (start_s, end_s):
            elapsed_s = max(end_s - start_s, MISSING)
        if state is JobState.FAILED and elapsed_s >= limit_s > 0:
            state = JobState.TIMEOUT
        taken = resources(attributes)
        row = JobRecord(
            job_id=job_id,
            submit_s=submit_s if submit_s >= 0 else self._date_s(job.queued_s),
            eligible_s=_instant(attributes, "etime", "qtime"),
            start_s=start_s,
            end_s=end_s,
            elapsed_s=elapsed_s if start_s >= 0 else MISSING,
            limit_s=limit_s,
            nodes=taken.nodes,
            gpus=taken.gpus,
            cpus=taken.cpus,
            memory_mib=taken.memory_mib,
            state=state,
            user=attributes.get("user") or attributes.get("owner", "").partition("@")[0],
            account=_account(attributes),
            partition=attributes.get("queue", ""),
            name=attributes.get("jobname", ""),
            dependency=_dependency(attributes.get("depend", "")),
        )
        self._rows.append(line, row)
        self._tally.steps -= 1


_OF_AN_ATTEMPT = frozenset(
    {"start", "end", "Exit_status", "session", "exec_host", "exec_host2", "exec_vnode", "resources_used.walltime"}
)


def _instant(attributes: dict[str, str], *names: str) -> int:
    """Returns the first time in some attributes, in seconds since 1970; ``MISSING`` for none."""
    for name in names:
        word = attributes.get(name, "").partition(".")[0]
        if not word or word in ("0", "-1"):
            continue
        if not (word.isascii() and word.isdecimal() and len(word) < _LONGEST_TIME):
            raise LineError("not a time", f"{name} is {attributes[name]!r}", "PBS writes seconds since 1970")
        return int(word)
    return MISSING


def _end_state(record: _Record, attributes: dict[str, str], job: _Open) -> JobState:
    """Returns the state in which an attempt ended, apart from failures after the walltime."""
    if record.kind == AGAIN:
        return JobState.REQUEUED
    word = attributes.get("Exit_status", "").strip()
    if not word:
        return JobState.CANCELLED if job.deleted_s >= 0 else JobState.UNKNOWN
    if not re.fullmatch(r"-?\d{1,9}", word, re.ASCII):
        raise LineError("not an exit status", f"Exit_status is {word!r}", "expected a whole number")
    code = int(word)
    if code == TIMED_OUT:
        return JobState.TIMEOUT
    if code in MEMORY_EXCEEDED:
        return JobState.OUT_OF_MEMORY
    if code == 0:
        return JobState.COMPLETED
    return JobState.CANCELLED if job.deleted_s >= 0 and code >= SIGNALLED else JobState.FAILED


def _account(attributes: dict[str, str]) -> str:
    """Returns the account, else the project, else the group."""
    project = attributes.get("project", "")
    return attributes.get("account") or (project if project != NO_PROJECT else "") or attributes.get("group", "")


def _dependency(text: str) -> str:
    """Returns a dependency as Slurm writes it, ``afterok:12:13``; empty for any other kind."""
    found = _DEPENDENCY.fullmatch(text.strip())
    if found is None:
        return ""
    return ":".join([found[1], *(job.partition(".")[0].partition("@")[0] for job in found[2].split(":"))])
