"""Messages on bad lines: the file, the line, the value, and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirage.errors import ConfigurationError, LineError, TraceError, UnknownFormat, UnknownName
from mirage.trace.formats.read_report import ReadReport, ReadTally, Skipped
from mirage.trace.read_trace import read_trace

SACCT = "JobID|Submit|Elapsed|Timelimit|NNodes|NodeList|State"
LOG = "1\nJobID JobName UID Start Submit End Priority TimelimitR ExitCode NNodes\n--- ---\n"
LOG_ROW = "{}\tx\t0\t2024-01-01T00:00:00\t2024-01-01T00:00:00\t2024-01-01T00:00:00\t{}\t{}\t0:0\t{}"
SWF_ROW = "1 0 0 10 1 -1 -1 1 60 -1 1 1 1 1 1 1 -1 -1"

COMPLAINTS = [
    # CSV
    ("csv", "job_id,nodes\n1,x", ":2: not a value of its column: nodes is 'x'; expected whole seconds or a count"),
    ("csv", "job_id,nodes\n1,1,2", ":2: wrong number of fields: 3 instead of 2; quote names that hold commas"),
    ("csv", "job_id,nodes\n,1", ":2: no job id: ''; every job needs one"),
    (
        "csv",
        "job_id,state\n1,BOGUS",
        ":2: not a state: state is 'BOGUS'; expected one of UNKNOWN, PENDING, RUNNING, SUSPENDED, COMPLETED, "
        "CANCELLED, FAILED, TIMEOUT, NODE_FAIL, PREEMPTED, BOOT_FAIL, DEADLINE, OUT_OF_MEMORY, REQUEUED",
    ),
    ("csv", "job_id,nodes\n1,1\n2,-3", ":3: negative count: nodes is -3; leave out what is not known"),
    ("csv", "job_id,gpus\n2,-2", ":2: negative count: gpus is -2; leave out what is not known"),
    ("csv", 'job_id,name\n1,a\n2,"b', ":3: not CSV: unexpected end of data; check the quotes"),
    ("csv", "nodes\n1", ":1: the column job_id is missing: every job needs one"),
    ("csv", "job_id,nodes,nodes\n", ":1: the column nodes is there 2 times; leave one"),
    # the published log
    ("mirage-log", LOG + "1\tx", ":4: too few fields: 2 of 10; the line is cut short or not tab separated"),
    ("mirage-log", LOG + LOG_ROW.format("x", 1, 1, 1), ":4: not a job id: 'x'; expected a number"),
    (
        "mirage-log",
        LOG + LOG_ROW.format(1, "high", 1, 1),
        ":4: not a number: Priority is 'high'; check that the columns are in order",
    ),
    (
        "mirage-log",
        LOG + LOG_ROW.format(1, 1, "long", 1),
        ":4: not a number: TimelimitR is 'long'; check that the columns are in order",
    ),
    (
        "mirage-log",
        LOG + LOG_ROW.format(1, 1, 1, "2-3"),
        ":4: not a number: NNodes is '2-3'; check that the columns are in order",
    ),
    ("mirage-log", "one\n", ":1: 'one' is not the number of lines of a Mirage log"),
    ("mirage-log", "1\nJobID\n", ":2: 'JobID' is not the column names of a Mirage log"),
    ("mirage-log", LOG.replace("--- ---", "- x"), ":3: '- x' is not a rule of dashes of a Mirage log"),
    ("mirage-log", "1\n", ":2: '' is not the column names of a Mirage log"),
    ("mirage-log", "x" * 99, f":1: '{'x' * 60}' is not the number of lines of a Mirage log"),
    (
        "mirage-log",
        LOG + LOG_ROW.format(1, 1, 1, "-3"),
        ":4: not a number: NNodes is '-3'; check that the columns are in order",
    ),
    # sacct's text
    ("sacct", "JobID|NNodes\n1|-3", ":2: not a number: nnodes is '-3'; check the fields and their order"),
    ("sacct", f"{SACCT}\nx||||||", ":2: not a job id: 'x'; expected 123, 123_4, 123_[1-3] or 123+0"),
    ("sacct", f"{SACCT}\n1|soon|||||", ":2: not a time: 'soon'; write it as 2023-03-09T12:48:05"),
    ("sacct", f"{SACCT}\n1||soon||||", ":2: not a duration: Elapsed is 'soon'; Slurm writes 2-00:00:00"),
    ("sacct", f"{SACCT}\n1|||soon|||", ":2: not a duration: Timelimit is 'soon'; Slurm writes 2-00:00:00"),
    ("sacct", f"{SACCT}\n1||||x||", ":2: not a number: nnodes is 'x'; check the fields and their order"),
    (
        "sacct",
        f"{SACCT}\n1|",
        ":2: too few fields: 2 of 7, in '1|'; the line is cut short, or a name holds a line break",
    ),
    ("sacct", "JobID|NCPUS\n1|x", ":2: not a number: ncpus is 'x'; check the fields and their order"),
    ("sacct", "JobID|TimelimitRaw\n1|x", ":2: not a number: timelimitraw is 'x'; check the fields and their order"),
    ("sacct", "JobID|ElapsedRaw\n1|x", ":2: not a number: elapsedraw is 'x'; check the fields and their order"),
    (
        "sacct",
        "1|2",
        ":1: no header with a JobID, and 2 fields without names; give the field list that sacct was called with, and "
        "its --delimiter if it had one",
    ),
    # sacct's JSON
    ("sacct-json", '[{"job_id": 1}]', ":1: not a record of sacct: it has no 'time'; make it with sacct --json"),
    (
        "sacct-json",
        '[\n{"job_id": 0, "time": {}, "state": {"current": "FAILED"}}]',
        ":2: not a job id: 0; expected a positive number",
    ),
    (
        "sacct-json",
        '[{"job_id": 1, "time": {"start": "x"}, "state": {"current": "FAILED"}}]',
        ":1: not a number: 'x'; make the file with sacct --json",
    ),
    (
        "sacct-json",
        '[{"job_id": 1, "time": {}, "state": {"current": "FAILED"}, "user": 7}]',
        ":1: not a text: 7; make the file with sacct --json",
    ),
    (
        "sacct-json",
        '[{"job_id": 1, "time": {}, "state": {"current": "FAILED"}, "allocation_nodes": -3}]',
        ":1: negative count: -3; leave out what is not known",
    ),
    *(
        (
            "sacct-json",
            f'[{{"job_id": 1, "time": {{"{field}": -3600}}, "state": {{"current": "FAILED"}}}}]',
            ":1: negative count: -3600; leave out what is not known",
        )
        for field in ("elapsed", "limit")
    ),
    (
        "sacct-json",
        "[\n{",
        ":2: not JSON: Expecting property name enclosed in double quotes: line 2 column 2 (char 3); the file is "
        "damaged or cut short",
    ),
    (
        "sacct-json",
        '{"meta": {}, "job": []}',
        ':1: no list "jobs" in this JSON; make it with sacct --json, or join lines with jq -s .',
    ),
    (
        "sacct-json",
        '{"jobs": {}}',
        ':1: no list "jobs" in this JSON; make it with sacct --json, or join lines with jq -s .',
    ),
    # SWF
    ("swf", f"{SWF_ROW}\n1 2 3", ":2: not eighteen fields: 3 fields; in SWF, -1 stands for what is not known"),
    (
        "swf",
        f"{SWF_ROW} 7\n{SWF_ROW}",
        ":2: not as many fields: 18 fields instead of 19 as in the first line; in SWF, -1 stands for what is not known",
    ),
    (
        "swf",
        SWF_ROW.replace("60", "long"),
        ":1: not a number: field 9 is 'long'; in SWF, -1 stands for what is not known",
    ),
    (
        "swf",
        SWF_ROW.replace("60", str(2**40)),
        f":1: number out of range: field 9 is '{2**40}'; expected less than {2**40}",
    ),
    (
        "swf",
        SWF_ROW.replace("60", "6_0"),
        ":1: not a number: field 9 is '6_0'; in SWF, -1 stands for what is not known",
    ),
    ("sacct-json", "[5]", ":1: not a record of sacct: 5; make it with sacct --json"),
    (
        "swf",
        SWF_ROW.replace("60", "nan"),
        ":1: not a number: field 9 is 'nan'; in SWF, -1 stands for what is not known",
    ),
]


@pytest.mark.parametrize(("name", "text", "complaint"), COMPLAINTS)
def test_a_complaint_word_for_word(tmp_path: Path, name: str, text: str, complaint: str) -> None:
    path = tmp_path / "jobs"
    path.write_text(text, newline="")
    with pytest.raises(TraceError) as refused:
        read_trace(path, format=name)
    assert str(refused.value) == f"{path}{complaint}"


def test_an_unknown_column_gets_a_suggestion(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text("job_id,node\n")
    with pytest.raises(TraceError, match=r"jobs\.csv:1: .*column 'node'.*Did you mean 'nodes'"):
        read_trace(path, format="csv")


def test_fields_without_a_job_s_number(tmp_path: Path) -> None:
    path = tmp_path / "jobs.txt"
    path.write_text("1|2\n")
    with pytest.raises(TraceError) as refused:
        read_trace(path, format="sacct", fields=["User%20", "State"])
    assert str(refused.value) == f"{path}:1: the fields User%20,State hold no JobID; name all, separated by commas"


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (
            "hello",
            "name one, make the file with sacct -P or sacct --json, or map the columns of a CSV (--columns)",
        ),
        ("JobID;State\n1;FAILED\n", "if sacct wrote it, name the delimiter that was used (--delimiter)"),
        ("JobID\tState\n1\tFAILED\n", "if sacct wrote it, name the delimiter that was used (--delimiter)"),
        (
            "job_id;submit_s\n1;2\n",
            "a job table has commas between its cells; save it with commas, or map its columns (--columns)",
        ),
        ("1|ann\n2|bob\nJobID|User\n", "the names of its fields (JobID) are not in the first line; move them there"),
        (
            "User|State\nann|FAILED\n",
            "if sacct wrote it, it needs the field JobID; if it has no header, list its fields with --fields",
        ),
    ],
)
def test_content_of_no_known_format(tmp_path: Path, text: str, hint: str) -> None:
    path = tmp_path / "jobs"
    path.write_text(text)
    with pytest.raises(UnknownFormat) as refused:
        read_trace(path)
    known = "csv, mirage-log, parquet, pbs, sacct, sacct-json, schedule, swf"
    line = text.partition("\n")[0]
    assert str(refused.value) == f"{path}:1: {line!r} looks like none of the known formats ({known}); {hint}"


def test_what_the_caller_names_wrongly(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match=r"trace format 'swff'.*Did you mean 'swf'"):
        read_trace(tmp_path / "x", format="swff")
    with pytest.raises(ConfigurationError) as refused:
        read_trace(tmp_path / "x", delimiter="")
    assert str(refused.value) == "the delimiter is empty; give at least one character"
    with pytest.raises(ConfigurationError) as refused:
        ReadTally("x", "ignore")
    assert str(refused.value) == "on_error is 'ignore'; it can be 'strict' or 'skip'"


def test_a_file_of_nothing_but_bad_lines_names_what_was_skipped(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text("job_id,nodes\n1,x\n2,y\n,1\n")
    with pytest.raises(TraceError) as refused:
        read_trace(path, on_error="skip")
    assert str(refused.value) == (
        f"{path}: no job could be read: 3 records skipped (2 × not a value of its column, the first in line 2; "
        "1 × no job id, the first in line 4); is it another format?"
    )


# -- the tally ----------------------------------------------------------------------------------------------


def tally() -> ReadTally:
    found = ReadTally("jobs.csv", "skip", format="csv", unit="record", lines=18, header=1, comment=2, blank=3)
    found.continued, found.steps, found.merged = 1, 4, 2
    for line, reason in ((5, "not a number"), (9, "no job id"), (11, "not a number")):
        found.reject(line, LineError(reason, "x", "y"))
    found.notes["odd row"] += 3
    found.metadata["Version"] = "2.2"
    return found


def test_a_tally_becomes_a_report() -> None:
    report = tally().close(2)
    assert report == ReadReport(
        path="jobs.csv", format="csv", unit="record", lines=18, header=1, comment=2, blank=3, continued=1, steps=4,
        merged=2, jobs=2, skipped={"not a number": Skipped(2, 5), "no job id": Skipped(1, 9)}, notes={"odd row": 3},
        metadata={"Version": "2.2"},
    )  # fmt: skip
    assert (report.skipped_total, report.accounted) == (3, 18)
    assert report.skipped_in_words() == (
        "3 records skipped (2 × not a number, the first in line 5; 1 × no job id, the first in line 9)"
    )
    assert report.complaints() == [
        "jobs.csv:5: not a number (the first of 2 skipped for this)",
        "jobs.csv:9: no job id (the first of 1 skipped for this)",
        "jobs.csv: 3 × odd row",
    ]
    assert report.to_json() == {
        "path": "jobs.csv", "format": "csv", "unit": "record", "lines": 18, "header": 1, "comment": 2, "blank": 3,
        "continued": 1, "steps": 4, "merged": 2, "jobs": 2,
        "skipped": {
            "not a number": {"count": 2, "first_line": 5}, "no job id": {"count": 1, "first_line": 9},
        },
        "notes": {"odd row": 3}, "metadata": {"Version": "2.2"},
    }  # fmt: skip


def test_one_line_is_no_lines() -> None:
    found = ReadTally("x", "skip")
    found.reject(3, LineError("no job id", "x", "y"))
    assert found.close(0).skipped_in_words() == "1 line skipped (1 × no job id, the first in line 3)"


def test_a_strict_tally_stops_at_once() -> None:
    with pytest.raises(TraceError) as refused:
        ReadTally("x").reject(3, LineError("no job id", "''", "every job needs one"))
    assert str(refused.value) == "x:3: no job id: ''; every job needs one"
    assert refused.value.__cause__ is None
