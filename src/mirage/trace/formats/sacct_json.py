"""Jobs in the JSON of ``sacct --json``, from 21.08 to 25.11.

Identifiers are composed as sacct's text shows them: ``123_4``, ``123_[1-3]``, ``123+0``. Attempts of a
requeued job and steps are treated as in ``mirage.trace.formats.sacct_text``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from mirage.duration import MINUTE_S, UNLIMITED_S
from mirage.errors import LineError, TraceError, reason
from mirage.job_state import MISSING, JobState
from mirage.slurm_words.hostlist import count_hosts
from mirage.slurm_words.json_numbers import json_number, number_or
from mirage.slurm_words.states import UNHEARD_STATE, is_known_state, job_state, true_lifetime_s
from mirage.slurm_words.unicode import valid_unicode
from mirage.trace.formats.decompress import decode
from mirage.trace.formats.read_report import ReadTally
from mirage.trace.formats.sacct_row import UNSPLIT_ARRAY, names_tasks
from mirage.trace.formats.table_builder import JobRecord, TableBuilder
from mirage.trace.table import JobTable

NO_COUNT = -2
"""``NO_VAL`` where Slurm prints it with a sign; −1 is ``INFINITE``."""


def read_sacct_json(data: bytes, tally: ReadTally) -> JobTable:
    """Reads the jobs in the output of ``sacct --json``.

    Args:
        data: The text.
        tally: Receives the counts and unreadable records; a record is a job or a step.

    Raises:
        TraceError: The document has no list of jobs; or reading is strict and a record cannot be read.
    """
    tally.unit = "record"
    rows, clusters = TableBuilder(), set()
    for line, job in job_records(decode(data, tally), tally):
        tally.lines += 1
        try:
            record, steps = _record(job, tally), len(job.get("steps") or ())
            rows.append(line, record)
            clusters.add(_text(job.get("cluster")))
        except LineError as bad:
            tally.reject(line, bad)
        except (AttributeError, KeyError, TypeError) as error:
            tally.reject(line, LineError("not a record of sacct", _shape(error, job), "make it with sacct --json"))
        else:
            tally.lines += steps
            tally.steps += steps
    tally.check_clusters(clusters)
    return rows.table(tally)


def _number(value: Any, infinite: int = MISSING) -> int:
    """Returns a whole number.

    Raises:
        LineError: The value is not a number.
    """
    try:
        return int(json_number(value, infinite=infinite))
    except (ValueError, OverflowError) as error:
        raise LineError("not a number", _shown(value), "make the file with sacct --json") from error


def _count(value: Any, infinite: int = MISSING) -> int:
    """Returns a count, or a duration; Slurm's −1 and −2 mean that there is none.

    Raises:
        LineError: The value is not a number, or a negative one.
    """
    number = value.get("number") if isinstance(value, Mapping) else value
    if isinstance(number, int | float) and number < NO_COUNT:
        raise LineError("negative count", _shown(number), "leave out what is not known")
    return _number(value, infinite)


def _shape(error: Exception, job: Any) -> str:
    """Which entry a record lacks, or its beginning where an entry has another form."""
    return reason(error) if isinstance(error, KeyError) else _shown(job)


def _shown(value: Any) -> str:
    """Shortens a value for a message; integers of thousands of digits have no repr."""
    try:
        return repr(value)[:60]
    except ValueError:
        return "a number of thousands of digits"


def _record(job: Any, tally: ReadTally) -> JobRecord:
    time = job["time"]
    state = _state(job["state"]["current"], tally)
    submit_s, eligible_s, start_s, end_s = (
        _number(time.get(name)) or MISSING for name in ("submission", "eligible", "start", "end")
    )
    elapsed_s = _count(time.get("elapsed"))
    hosts = _text(job.get("nodes"))
    if names_tasks(job_id := _identifier(job)):
        tally.notes[UNSPLIT_ARRAY] += 1
    start_s, end_s = true_lifetime_s(state, start_s, end_s, elapsed_s, hosts, tally.notes)
    nodes, cpus = _nodes(job, hosts), _cpus(job)
    limit_min = UNLIMITED_S if time.get("limit", 0) is None else _count(time.get("limit"), infinite=UNLIMITED_S)
    return JobRecord(
        job_id=job_id,
        submit_s=submit_s,
        eligible_s=eligible_s,
        start_s=start_s,
        end_s=end_s,
        elapsed_s=elapsed_s,
        limit_s=limit_min if limit_min in (MISSING, UNLIMITED_S) else limit_min * MINUTE_S,
        nodes=nodes,
        gpus=_gpus(job),
        cpus=cpus,
        memory_mib=_memory_mib(job, nodes, cpus),
        priority=_count(job.get("priority")),
        state=state,
        user=_text(job.get("user")) or _text((job.get("association") or {}).get("user")),
        account=_text(job.get("account")),
        partition=_text(job.get("partition")),
        qos=_text(job.get("qos")),
        name=_text(job.get("name")),
    )


def _text(value: Any) -> str:
    if value is None or isinstance(value, str):
        return valid_unicode(value or "")
    raise LineError("not a text", _shown(value), "make the file with sacct --json")


def _state(current: Any, tally: ReadTally) -> JobState:
    """Returns the base state; since 23.02 the field lists it with flags such as COMPLETING."""
    words = [_text(word) for word in ([current] if isinstance(current, str) else current)]
    known = next((word for word in words if word and is_known_state(word)), None)
    if known is None:
        tally.notes[UNHEARD_STATE] += 1
        return JobState.UNKNOWN
    return job_state(known)


def _identifier(job: Any) -> str:
    array, het = job.get("array") or {}, job.get("het") or {}
    array_id, task_id, tasks = (
        _number(array.get("job_id")),
        _number(array.get("task_id")),
        _text(array.get("task")),
    )
    if array_id > 0 and task_id >= 0:
        return f"{array_id}_{task_id}"
    if array_id > 0 and tasks:
        return f"{array_id}_[{tasks}]"
    het_id, offset = _number(het.get("job_id")), _number(het.get("job_offset"))
    if het_id > 0 and offset >= 0:
        return f"{het_id}+{offset}"
    plain = _number(job["job_id"])
    if plain <= 0:
        raise LineError("not a job id", _shown(job["job_id"]), "expected a positive number")
    return str(plain)


def _nodes(job: Any, hosts: str) -> int:
    if (reported := _count(job.get("allocation_nodes"))) > 0:
        return reported
    try:
        listed = count_hosts(hosts)
    except ValueError:
        listed = 0
    return listed or max(_tres(job, "allocated", "node"), _tres(job, "requested", "node"), reported)


def _cpus(job: Any) -> int:
    for kind in ("allocated", "requested"):
        if (count := _tres(job, kind, "cpu")) >= 0:
            return count
    return _count((job.get("required") or {}).get("CPUs"))


def _memory_mib(job: Any, nodes: int, cpus: int) -> int:
    """Memory of all nodes together, allocated or else requested; 0 means all that they have."""
    tres = job.get("tres") or {}
    for entry in (*(tres.get("allocated") or ()), *(tres.get("requested") or ())):
        if entry.get("type") == "mem" and (reported := int(number_or(entry.get("count"), bits=64))) >= 0:
            return reported
    required = job.get("required") or {}
    for name, pieces in (("memory_per_cpu", cpus), ("memory_per_node", nodes), ("memory", nodes)):
        each = int(number_or(required.get(name), bits=64))
        if each >= 0 and pieces > 0:
            return each * pieces
    return MISSING


def _gpus(job: Any) -> int:
    """GPUs allocated, else requested; 0 if resources are listed without a GPU."""
    tres = job.get("tres") or {}
    for kind in ("allocated", "requested"):
        if tres.get(kind):
            total = _tres(job, kind, "gres", "gpu")
            typed = [
                _number(entry.get("count"))
                for entry in tres[kind]
                if entry.get("type") == "gres" and str(entry.get("name")).startswith("gpu:")
            ]
            return total if total >= 0 else sum(max(count, 0) for count in typed)
    return MISSING


def _tres(job: Any, kind: str, resource: str, name: str = "") -> int:
    """Count of one trackable resource, ``MISSING`` if it is not listed."""
    for entry in (job.get("tres") or {}).get(kind) or ():
        if entry.get("type") == resource and (entry.get("name") or "") == name:
            return _count(entry.get("count"))
    return MISSING


_WHITESPACE = " \t\r\n"
_PROGRESS_RECORDS = 512
_LONGEST_INTEGER = 20


def _integer(digits: str) -> float:
    """Parses an integer; one that is too long for any field becomes a float.

    Then only its record is rejected, not the whole document.
    """
    return int(digits) if len(digits) <= _LONGEST_INTEGER else float(digits)


_DECODER = json.JSONDecoder(parse_int=_integer)


def job_records(text: str, tally: ReadTally) -> Iterator[tuple[int, Any]]:
    """Yields every element of the list of jobs, with the number of its first line.

    A document is either the list itself or an object with the list under ``jobs``; several may be joined. Elements are
    decoded one by one: if a document is damaged, the elements before the damage are not lost.

    Args:
        text: The document.
        tally: Receives the damage, if there is any.

    Raises:
        TraceError: The document has no list of jobs; or reading is strict and the document is damaged.
    """
    position = _list_begin(text, 0, tally)
    line, counted_to = 1, 0
    while True:
        position = _skip(text, position, _WHITESPACE + ",")
        if text[position : position + 1] == "]":
            position = _skip(text, _document_end(text, position + 1), _WHITESPACE)
            if position == len(text):
                return
            position = _list_begin(text, position, tally)
            continue
        line += text.count("\n", counted_to, position)
        counted_to = position
        try:
            job, position = _DECODER.raw_decode(text, position)
        except (ValueError, RecursionError) as error:
            tally.lines += 1
            tally.reject(line, LineError("not JSON", str(error), "the file is damaged or cut short"))
            return
        if not tally.lines % _PROGRESS_RECORDS:
            tally.progress(position, len(text))
        yield line, job


def _list_begin(text: str, position: int, tally: ReadTally) -> int:
    """Returns the position after the opening bracket of a document's list of jobs."""
    position = _skip(text, position, _WHITESPACE)
    if text[position : position + 1] == "[":
        return position + 1
    try:
        while text[position] in "{,":
            key, position = _DECODER.raw_decode(text, _skip(text, position + 1, _WHITESPACE))
            position = _skip(text, position, _WHITESPACE + ":")
            if key == "jobs" and text[position] == "[":
                return position + 1
            _, position = _DECODER.raw_decode(text, position)
            position = _skip(text, position, _WHITESPACE)
    except (ValueError, IndexError, RecursionError) as error:
        line = text.count("\n", 0, position) + 1
        raise TraceError(f"{tally.path}:{line}: not JSON: {error}; the file is damaged or cut short") from error
    raise TraceError(
        f'{tally.path}:1: no list "jobs" in this JSON; make it with sacct --json, or join lines with jq -s .'
    )


def _document_end(text: str, position: int) -> int:
    """Returns the position after a document, from one after its list of jobs.

    If the rest is damaged, it is the end of the text.
    """
    try:
        while text[(position := _skip(text, position, _WHITESPACE))] == ",":
            _, position = _DECODER.raw_decode(text, _skip(text, position + 1, _WHITESPACE))
            _, position = _DECODER.raw_decode(text, _skip(text, position, _WHITESPACE + ":"))
    except (ValueError, IndexError, RecursionError):
        return len(text)
    return position + (text[position] == "}")


def _skip(text: str, position: int, characters: str) -> int:
    while position < len(text) and text[position] in characters:
        position += 1
    return position
