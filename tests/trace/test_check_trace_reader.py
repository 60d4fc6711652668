"""The checker of trace readers finds violations; built-in readers of text pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirage.errors import ConfigurationError, ContractBroken, LineError
from mirage.trace.check_trace_reader import check_trace_reader
from mirage.trace.read_trace import TraceReaderSpec, TraceReading
from mirage.trace.table import JobTable

CONTENT = b"7 160\n8 130\n"
BAD = b"9 soon\n"
COUNT = [0]


def right(r: TraceReading) -> JobTable:
    rows = []
    for line, text in enumerate(r.data.decode(errors="replace").splitlines(), 1):
        r.tally.lines += 1
        job, _, submit = text.partition(" ")
        if submit.isascii() and submit.isdigit() and len(submit) < 12:
            rows.append((job, int(submit)))
        else:
            r.tally.reject(line, LineError("no number", text, "give one"))
    return JobTable.build([job for job, _ in rows], submit_s=[submit for _, submit in rows])


def miscounting(r: TraceReading) -> JobTable:
    table = right(r)
    r.tally.lines += 1
    return table


def counting(r: TraceReading) -> JobTable:
    COUNT[0] += 1
    table = right(r)
    return table.with_columns(submit_s=table.submit_s + COUNT[0])


def opening(r: TraceReading) -> JobTable:
    Path(__file__).read_bytes()
    return right(r)


def swallowing(r: TraceReading) -> JobTable:
    r.tally.on_error = "skip"
    return right(r)


def off_by_one(r: TraceReading) -> JobTable:
    for before, row in enumerate(r.data.split(b"\n")):
        if row.endswith(b"soon"):
            r.tally.reject(before, LineError("no number", "soon", "give one"))
    return right(r)


def giving_up(r: TraceReading) -> JobTable:
    if BAD in r.data and r.tally.on_error == "skip":
        r.tally.lines, r.tally.comment = 3, 2
        r.tally.reject(3, LineError("no number", "soon", "give one"))
        return JobTable.build([])
    return right(r)


def fragile(r: TraceReading) -> JobTable:
    table = right(r)
    if len(table) < 2:
        raise IndexError("no second job")
    return table


def reads_none(r: TraceReading) -> JobTable:
    return JobTable.build([])


def test_a_reader_that_satisfies_the_contract_passes() -> None:
    check_trace_reader(TraceReaderSpec(f"{__name__}:right", "", begins=b"7"), CONTENT, BAD)


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("miscounting", "counts 3 lines, but 2 of them as header"),
        ("counting", "reads the same content twice into two different tables"),
        ("opening", "the reader opens .* while it reads; all it needs is in its argument"),
        ("swallowing", "reads b'9 soon.*' as if it were right; call tally.reject"),
        ("off_by_one", "refuses line 3 with 'check.txt:2: no number"),
        ("giving_up", "counts 1 skipped lines and reads 0 jobs after a bad line was added to content with 2"),
        ("fragile", "raises IndexError.'no second job'. for b'.*; pass a bad line to tally.reject"),
        ("reads_none", "reads no job in the content"),
    ],
)
def test_a_violation_is_named(name: str, complaint: str) -> None:
    with pytest.raises(ContractBroken, match=complaint):
        check_trace_reader(TraceReaderSpec(f"{__name__}:{name}", ""), CONTENT, BAD)


def test_a_text_is_no_content() -> None:
    with pytest.raises(ConfigurationError, match="the bad line must be bytes, such as b'…', got 'text'"):
        check_trace_reader("sacct", CONTENT, "text")  # type: ignore[arg-type]


def test_content_of_another_beginning_is_refused() -> None:
    with pytest.raises(ContractBroken, match="does not begin with b'#log'"):
        check_trace_reader(TraceReaderSpec(f"{__name__}:right", "", begins=b"#log"), CONTENT, BAD)


@pytest.mark.parametrize(
    ("name", "content", "bad"),
    [
        ("swf", b"; Version: 2.2\n1 100 20 60 4 -1 -1 4 600 -1 1 7 2 9 1 5 -1 -1\n", b"1 x 3\n"),
        ("sacct", b"JobID|JobName|State|Submit\n1|a|COMPLETED|2024-01-15T08:00:00\n", b"2|b|COMPLETED|soon\n"),
        ("schedule", b"id,submit,start,end\n1,1700000000,1700000060,\n", b"2,soon,,\n"),
        ("csv", b"job_id,submit_s,nodes\n1,100,2\n", b"2,soon,1\n"),
        ("sacct-json", b'{"jobs": [{"job_id": 1, "time": {}, "state": {"current": "FAILED"}}]}\n', b""),
    ],
)
def test_built_in_readers_pass(name: str, content: bytes, bad: bytes) -> None:
    check_trace_reader(name, content, bad)
