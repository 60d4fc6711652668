"""Accounting logs of PBS and Torque: made-up lines of both, and odd ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mirage.duration import UNLIMITED_S
from mirage.errors import LineError, TraceError
from mirage.job_state import MISSING, JobState
from mirage.trace.check_trace_reader import check_trace_reader
from mirage.trace.formats import pbs_accounting, repeated_rows
from mirage.trace.formats.pbs_resources import resources, seconds
from mirage.trace.read_trace import Trace, read_trace

T = 1_705_305_600  # 2024-01-15 08:00:00 UTC


def record(kind: str, job: str, text: str = "", *, at: str = "08:00:00", **times: int) -> str:
    counted = " ".join(f"{name}={T + since}" for name, since in times.items())
    return f"01/15/2024 {at};{kind};{job};{' '.join(filter(None, [text, counted]))}"


PRO = (
    'user=ada group=physics account="gpu lab" project=_pbs_project_default jobname=train queue=gpu '
    "exec_host=n1/0*32+n2/0*32 exec_vnode=(n1:ncpus=32:ngpus=4)+(n2:ncpus=32:ngpus=4) Resource_List.mem=128gb "
    "Resource_List.ncpus=64 Resource_List.ngpus=8 Resource_List.nodect=2 Resource_List.place=scatter "
    "Resource_List.select=2:ncpus=32:ngpus=4 Resource_List.walltime=04:30:00"
)
TORQUE = (
    "user=bob group=bio jobname=STDIN queue=batch owner=bob@login exec_host=c1/0+c1/1+c2/0+c2/1 "
    "Resource_List.neednodes=2:ppn=2 Resource_List.nodect=2 Resource_List.nodes=2:ppn=2:gpus=1 Resource_List.pmem=2gb "
    "Resource_List.walltime=01:00:00"
)


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., Trace]:
    def read_lines(*lines: str, **options: str) -> Trace:
        (tmp_path / "20240115").write_text("\n".join(lines) + "\n", encoding="utf-8")
        return read_trace(tmp_path / "20240115", **options)  # type: ignore[arg-type]

    return read_lines


def values(trace: Trace, *names: str) -> list[int]:
    return [int(getattr(trace.table, name)[0]) for name in names]


def test_a_job_of_pbs_professional(read: Callable[..., Trace]) -> None:
    times = {"ctime": 0, "qtime": 0, "etime": 60, "start": 312}
    trace = read(
        record("Q", "1001.head", "queue=gpu"),
        record("L", "license", "floating license hour:3 day:3 month:3"),
        record("S", "1001.head", PRO, at="08:05:12", **times),
        record(
            "E", "1001.head", f"{PRO} Exit_status=0 resources_used.walltime=01:30:00", at="09:35:12", end=5712, **times
        ),
    )
    assert trace.report.format == "pbs"
    assert trace.table.job_id.tolist() == ["1001"]
    assert values(trace, "submit_s", "eligible_s", "start_s", "end_s", "elapsed_s") == [
        T, T + 60, T + 312, T + 5712, 5400,
    ]  # fmt: skip
    assert values(trace, "limit_s", "nodes", "gpus", "cpus", "memory_mib", "state") == [
        16_200, 2, 8, 64, 131_072, JobState.COMPLETED,
    ]  # fmt: skip
    labels = {name: getattr(trace.table, name).values()[0] for name in ("user", "account", "partition", "name")}
    assert labels == {"user": "ada", "account": "gpu lab", "partition": "gpu", "name": "train"}
    assert (trace.report.jobs, trace.report.steps, trace.report.comment) == (1, 2, 1)
    assert trace.report.accounted == trace.report.lines == 4
    assert trace.report.notes == {}


def test_a_job_of_torque(read: Callable[..., Trace]) -> None:
    trace = read(record("E", "7.head", f"{TORQUE} Exit_status=0", at="08:30:09", ctime=0, start=9, end=1809))
    assert values(trace, "submit_s", "wait_s", "run_s", "limit_s") == [T, 9, 1800, 3600]
    assert values(trace, "nodes", "gpus", "cpus", "memory_mib") == [2, 2, 4, 8192]
    assert (trace.table.user.values(), trace.table.account.values()) == (["bob"], ["bio"])


def test_attributes_may_be_separated_by_semicolons(read: Callable[..., Trace]) -> None:
    text = PRO.replace(" ", ";").replace("gpu;lab", "gpu lab")
    trace = read(f"01/15/2024 09:00:00;E;5.head;{text};ctime={T};start={T + 5};end={T + 95};Exit_status=1")
    assert values(trace, "run_s", "nodes", "state") == [90, 2, JobState.FAILED]
    assert trace.table.name.values() == ["train"]


def test_arrays_are_their_elements(read: Callable[..., Trace]) -> None:
    trace = read(
        record("Q", "20[].head", "queue=gpu array_indices=0-1"),
        record("S", "20[0].head", PRO, ctime=0, start=5),
        record("E", "20[0].head", PRO, at="08:01:00", ctime=0, start=5, end=60),
        record("E", "20[1].head", PRO, at="08:02:10", ctime=0, start=65, end=130),
        record("E", "20[].head", "user=ada Exit_status=0", at="08:02:10"),
        record("E", "21-3.head", TORQUE, at="08:02:00", ctime=0, start=70, end=120),
    )
    assert trace.table.job_id.tolist() == ["20[0]", "20[1]", "21-3"]
    assert trace.table.run_s.tolist() == [55, 65, 50]
    assert (trace.report.steps, trace.report.accounted) == (3, trace.report.lines)


@pytest.mark.parametrize("bare", [True, False])
def test_a_job_that_runs_again_is_two_attempts(read: Callable[..., Trace], bare: bool) -> None:
    """Torque writes the record of a rerun without attributes; PBS Professional like an end."""
    times = {"ctime": 0, "qtime": 0, "etime": 0}
    again = record("R", "9.head", "" if bare else f"{PRO} Exit_status=-11", at="09:00:00", **({} if bare else times))
    trace = read(
        record("S", "9.head", PRO, at="08:10:00", **times, start=600),
        again,
        record("S", "9.head", PRO, at="09:20:00", **times, start=4800),
        record("E", "9.head", f"{PRO} Exit_status=0", at="10:40:00", **times, start=4800, end=9600),
    )
    assert trace.table.start_s.tolist() == [T + 600, T + 4800]
    assert trace.table.end_s.tolist() == [T + 3600, T + 9600]
    assert trace.table.wait_s.tolist() == [600, 1200]  # the second waits from the end of the first
    assert trace.table.state.tolist() == [JobState.REQUEUED, JobState.COMPLETED]
    assert trace.report.notes == {repeated_rows.ATTEMPT: 1, repeated_rows.ITS_OWN_WAIT: 1}
    assert trace.report.accounted == trace.report.lines


def test_a_rerun_of_an_attempt_from_before_the_log_is_no_row(read: Callable[..., Trace]) -> None:
    trace = read(record("R", "9.head"), record("E", "9.head", PRO, at="08:05:00", ctime=0, start=30, end=300))
    assert (trace.table.start_s.tolist(), trace.report.steps) == ([T + 30], 1)


def test_dates_without_times_have_the_offset_of_the_log(read: Callable[..., Trace]) -> None:
    """The log is from UTC-6, and --timezone is not given."""
    trace = read(
        record("Q", "8.head", "queue=gpu", at="02:00:40"),
        record("S", "7.head", PRO, at="02:01:00", ctime=0, start=60),
        record("R", "7.head", at="02:30:00"),
        record("E", "8.head", "user=eve Resource_List.nodes=1", at="03:00:05", start=100, end=3600),
    )
    assert trace.table.job_id.tolist() == ["7", "8", "7"]
    assert trace.table.end_s.tolist() == [T + 1800, T + 3600, MISSING]
    assert trace.table.submit_s.tolist() == [T, T + 40, T + 1800]


def test_jobs_without_an_end(read: Callable[..., Trace]) -> None:
    trace = read(
        record("S", "1.head", PRO, ctime=0, start=5),
        record("Q", "2.head", "queue=gpu"),
        record("Q", "3.head", "queue=gpu", at="08:00:10"),
        record("D", "3.head", "requestor=ada@login", at="08:20:00"),
        record("S", "4.head", TORQUE, ctime=0, start=8),
        record("D", "4.head", "requestor=bob@login", at="08:20:00"),
        record("E", "4.head", f"{TORQUE} Exit_status=271", at="08:20:03", ctime=0, start=8, end=1203),
    )
    by_id = dict(zip(trace.table.job_id.tolist(), trace.table.state.tolist()))
    assert by_id == {
        "1": JobState.RUNNING, "2": JobState.PENDING, "3": JobState.CANCELLED, "4": JobState.CANCELLED,
    }  # fmt: skip
    assert trace.table.run_s.tolist() == [1195, MISSING, MISSING, MISSING]
    assert sorted(trace.table.never_started.tolist()) == [False, False, False, True]
    assert trace.report.accounted == trace.report.lines


@pytest.mark.parametrize(
    ("status", "elapsed", "state"),
    [
        ("0", "04:30:00", JobState.COMPLETED),
        ("-29", "04:30:01", JobState.TIMEOUT),
        ("271", "04:30:09", JobState.TIMEOUT),
        ("-27", "00:30:00", JobState.OUT_OF_MEMORY),
        ("271", "04:29:00", JobState.FAILED),
        ("-1", "00:00:00", JobState.FAILED),
        ("", "00:30:00", JobState.UNKNOWN),
    ],
)
def test_states(read: Callable[..., Trace], status: str, elapsed: str, state: JobState) -> None:
    text = f"{PRO} Exit_status={status} resources_used.walltime={elapsed}"
    assert read(record("E", "1.head", text, ctime=0, start=5, end=20_000)).table.state.tolist() == [state]


def test_records_with_few_attributes(read: Callable[..., Trace]) -> None:
    trace = read(
        record("E", "1.head", "user=ada"),
        record("E", "2.head"),
        record("E", "3", "owner=eve@login queue=q jobname=née-日本", at="08:09:00", start=60),
    )
    assert trace.table.job_id.tolist() == ["1.head", "2.head", "3"]
    assert trace.report.notes == {pbs_accounting.SEVERAL_SERVERS: 3}
    assert (trace.table.user.values(), trace.table.name.values()) == (["ada", "", "eve"], ["", "", "née-日本"])
    assert trace.table.start_s.tolist() == [MISSING, MISSING, T + 60]
    assert trace.table.nodes.tolist() == [MISSING] * 3


def test_dependencies_lose_their_servers(read: Callable[..., Trace]) -> None:
    lines = [f"depend={text} jobname=x" for text in ("afterok:12.head@head:13.head", "beforeok:14.head", "on:2")]
    trace = read(*(record("E", f"{k}.head", text, ctime=0) for k, text in enumerate(lines)))
    assert trace.table.dependency.values() == ["afterok:12:13", "", ""]


def test_logs_that_overlap_are_read_once(read: Callable[..., Trace]) -> None:
    ended = record("E", "1.head", f"{PRO} Exit_status=0", at="08:10:00", ctime=0, start=5, end=600)
    trace = read(record("S", "1.head", PRO, ctime=0, start=5), ended, record("Q", "1.head"), ended)
    assert (len(trace.table), trace.report.merged, trace.report.accounted) == (1, 1, 4)


def test_logs_are_read_in_the_order_of_their_dates(read: Callable[..., Trace]) -> None:
    start = record("S", "1.head", PRO, ctime=0, start=5)
    end = record("E", "1.head", "Exit_status=0", at="08:10:00", ctime=0, start=5, end=86_400 + 600)
    trace = read(end.replace("01/15", "01/16"), start)
    assert values(trace, "limit_s", "nodes", "gpus") == [16_200, 2, 8]
    assert trace.report.notes[pbs_accounting.LATE_LOG] == 1


def test_the_end_of_summer_time_is_in_order(read: Callable[..., Trace]) -> None:
    start = record("S", "1.head", PRO, at="02:59:59", ctime=0, start=5)
    end = record("E", "1.head", "Exit_status=0", at="02:00:30", ctime=0, start=5, end=36)
    trace = read(start, end)
    assert values(trace, "limit_s", "nodes", "gpus") == [16_200, 2, 8]
    assert not trace.report.notes


@pytest.mark.parametrize("end", ["", "\n"])
def test_a_last_line_without_an_end_may_be_incomplete(tmp_path: Path, end: str) -> None:
    (tmp_path / "log").write_text(record("E", "1.head", "user=ada", ctime=0, start=5, end=9) + end)
    assert list(read_trace(tmp_path / "log").report.notes) == ([] if end else [pbs_accounting.CUT])


BAD = [
    ("yesterday", "not a record of PBS: 'yesterday'; expected MM/DD/YYYY HH:MM:SS;E;123.server;user=…"),
    (record("E", "job7.head"), "not a job id: 'job7.head'; expected 123.server, 123[4].server or 123-4.server"),
    (record("E", "7.head", "start=soon"), "not a time: start is 'soon'; PBS writes seconds since 1970"),
    (record("E", "7.head", "Resource_List.walltime=long"), "not a duration: 'long'; PBS writes 04:00:00"),
    (record("E", "7.head", "Resource_List.ncpus=-3"), "not a count: Resource_List.ncpus is '-3'; expected a"),
    (record("E", "7.head", "Resource_List.mem=lots"), "not a size of memory: 'lots'; PBS writes 16gb"),
    (record("E", "7.head", "Exit_status=zero"), "not an exit status: Exit_status is 'zero'; expected a whole number"),
    (record("E", "7.head", "Resource_List.select=garbage"), "not a chunk: 'garbage' in select; PBS writes 2:ncpus=32"),
    (record("E", "7.head", "Resource_List.select=2:ncpus=4+"), "not a chunk: '' in select; PBS writes 2:ncpus=32"),
    (record("E", "7.head").replace("01/15", "13/15"), "not a time: '2024-13-15T08:00:00'; write it as 2023"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "complaint"), BAD)
def test_a_bad_line_is_named(read: Callable[..., Trace], line: str, complaint: str) -> None:
    good = record("E", "1.head", PRO, ctime=0, start=5, end=600)
    with pytest.raises(TraceError) as refused:
        read(good, line, format="pbs")
    assert str(refused.value).partition(":2: ")[2].startswith(complaint)
    report = read(good, line, format="pbs", on_error="skip").report
    assert (report.jobs, report.skipped_total, report.accounted) == (1, 1, 2)


def test_a_bad_value_of_a_job_without_an_end_is_named(read: Callable[..., Trace]) -> None:
    lines = (record("Q", "6.head"), record("S", "7.head", "Resource_List.mem=lots", ctime=0, start=5))
    with pytest.raises(TraceError, match=r":2: not a size of memory: 'lots'"):
        read(*lines)
    report = read(*lines, on_error="skip").report
    assert (report.jobs, report.skipped_total, report.accounted) == (1, 1, 2)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("04:00:00", 14_400), ("100:00:00", 360_000), ("3600", 3600), ("90:30", 5430), ("4:04:00:00", 360_000),
        ("00:30:00.50", 1800), ("", MISSING), ("unlimited", UNLIMITED_S),
    ],
)  # fmt: skip
def test_forms_of_a_walltime(text: str, expected: int) -> None:
    assert seconds(text) == expected


@pytest.mark.parametrize("text", ["1:2:3:4:5", "4h", "-1", "9" * 20])
def test_other_forms_are_refused(text: str) -> None:
    with pytest.raises(LineError):
        seconds(text)


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({"Resource_List.select": "2:ncpus=32:mem=64gb+1:ncpus=4:ngpus=3"}, (3, 68, 3, 131_072)),
        ({"Resource_List.select": "host=n7:ncpus=5"}, (1, 5, MISSING, MISSING)),
        ({"Resource_List.nodes": "2:ppn=6+node07:ppn=4:gpus=1#shared"}, (3, 16, 1, MISSING)),
        ({"Resource_List.nodes": "node07+node08"}, (2, 2, MISSING, MISSING)),
        ({"Resource_List.nodect": "5"}, (5, MISSING, MISSING, MISSING)),
        ({"exec_host": "n1/0-31+n2/0-15", "Resource_List.nodes": "9"}, (2, 48, MISSING, MISSING)),
        ({"exec_host": "n1/0,2,5-7+n1/9"}, (1, 6, MISSING, MISSING)),
        ({"exec_vnode": "(n1[0]:ncpus=2)+(n1[1]:ncpus=2)+(n2:ncpus=1)"}, (2, MISSING, MISSING, MISSING)),
        ({"exec_host": "n1/0", "exec_gpus": "n1-gpu/1+n1-gpu/0", "Resource_List.mem": "512kb"}, (1, 1, 2, 1)),
        ({"Resource_List.mem": "4gw"}, (MISSING, MISSING, MISSING, 32_768)),
        ({"Resource_List.mem": "2097153"}, (MISSING, MISSING, MISSING, 3)),
    ],
)  # fmt: skip
def test_resources(attributes: dict[str, str], expected: tuple[int, ...]) -> None:
    assert resources(attributes) == expected


def test_the_contract_of_readers() -> None:
    lines = [
        record("Q", "1.head", "queue=gpu"),
        record("E", "1.head", f"{PRO} Exit_status=0", at="08:10:00", ctime=0, start=5, end=600),
        record("S", "2[3].head", TORQUE, ctime=0, start=8),
    ]
    check_trace_reader("pbs", ("\n".join(lines) + "\n").encode(), b"01/15/2024 08:00:00;E;soon;\n")


def test_a_published_log(shared_data: Path) -> None:
    trace = read_trace(shared_data / "sacct-fixtures/schedulers/pbs/20240115")
    assert (trace.report.format, trace.report.jobs, trace.report.steps) == ("pbs", 3, 6)
    assert trace.table.nodes.tolist() == [2, 1, 1]
    assert trace.table.cpus.tolist() == [64, 4, 64]
    assert trace.table.wait_s.tolist() == [312, 65, 30]
    assert trace.table.limit_s.tolist() == [14_400, 3600, 21_600]
