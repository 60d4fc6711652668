"""Files that writers make, as other programs see them."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from mirage.duration import UNLIMITED_S
from mirage.errors import ConfigurationError, TraceError
from mirage.job_state import MISSING, JobState
from mirage.trace.formats.job_table_csv import csv_bytes
from mirage.trace.formats.mapped_csv import LOCAL_TIME
from mirage.trace.formats.parquet import parquet_bytes
from mirage.trace.formats.swf import swf_bytes
from mirage.trace.read_trace import read_trace
from mirage.trace.table import INT_COLUMNS, LABEL_COLUMNS, JobTable

COLUMNS = ["job_id", *INT_COLUMNS, *LABEL_COLUMNS]


def table(**columns: object) -> JobTable:
    return JobTable.build(["1", "2"], **columns)


def test_csv_quotes_what_must_be_quoted() -> None:
    text = csv_bytes(table(name=['say "hi"', "a,b"], nodes=[1, 2])).decode()
    header, first, second, end = text.split("\n")
    assert (header, end) == (",".join(COLUMNS), "")
    assert (first.count('"'), second.count('"')) == (6, 2)
    assert '"say ""hi"""' in first
    assert '"a,b"' in second


def test_csv_quotes_everything_where_a_name_has_a_carriage_return() -> None:
    text = csv_bytes(table(name=["a\rb", "c"], nodes=[1, 2])).decode()
    header, first, second, _ = text.split("\n")
    assert header == ",".join(f'"{name}"' for name in COLUMNS)
    assert first.startswith('"1","","",')
    assert '"a\rb"' in first
    assert second.count('""') == len(COLUMNS) - 4
    assert all(f'"{cell}"' in second for cell in ("2", "c", "UNKNOWN"))


def test_parquet_has_the_types_that_queries_expect() -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    jobs = table(submit_s=[0, 7], limit_s=[UNLIMITED_S, MISSING], state=[3, 1], user=["ada", ""], name=["x\ud800", "y"])
    found = parquet.read_table(io.BytesIO(parquet_bytes(jobs)))
    assert set(found.column_names) == set(COLUMNS)
    for name in COLUMNS:
        kind = found.schema.field(name).type
        if name == "job_id":
            assert kind == arrow.string()
        elif name in LABEL_COLUMNS or name == "state":
            assert kind == arrow.dictionary(arrow.int32(), arrow.string()), name
        else:
            assert kind == arrow.int64(), name
    rows = found.to_pylist()
    assert [row["submit_s"] for row in rows] == [0, 7]
    assert [row["limit_s"] for row in rows] == [UNLIMITED_S, None]
    assert [row["user"] for row in rows] == ["ada", None]
    assert [row["name"] for row in rows] == ["x\ufffd", "y"]
    assert [row["state"] for row in rows] == [JobState(3).name, JobState(1).name]


@pytest.mark.parametrize(
    ("cpus", "unit", "processors"), [([0, 4], "CPU", ["0", "4"]), ([MISSING, 4], "node", ["1", "2"])]
)
def test_a_processor_is_a_cpu_where_all_are_known(cpus: list[int], unit: str, processors: list[str]) -> None:
    lines = swf_bytes(table(cpus=cpus, nodes=[1, 2])).decode().splitlines()
    assert f"; Note: a processor is one {unit}" in lines
    assert [line.split()[4] for line in lines[-2:]] == processors


@pytest.mark.parametrize("state", JobState)
def test_the_status_of_every_state(state: JobState) -> None:
    status = swf_bytes(table(state=[int(state)] * 2)).decode().splitlines()[-1].split()[10]
    unfinished = (JobState.PENDING, JobState.RUNNING, JobState.SUSPENDED, JobState.UNKNOWN)
    assert status == {JobState.COMPLETED: "1", JobState.CANCELLED: "5"}.get(state, "-1" if state in unfinished else "0")


def test_a_parquet_file_of_others_is_read_as_a_csv_is(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="the extra parquet is not installed")
    arrow = pytest.importorskip("pyarrow")
    states = ["CANCELLED by 3", "completed", "ON_FIRE", None]
    parquet.write_table(arrow.table({"job_id": ["1", "2", "2", "3"], "state": states}), tmp_path / "jobs.parquet")
    trace = read_trace(tmp_path / "jobs.parquet")
    assert trace.table.state.tolist() == [
        JobState.CANCELLED, JobState.COMPLETED, JobState.UNKNOWN, JobState.UNKNOWN,
    ]  # fmt: skip
    assert list(trace.report.notes.values()) == [1, 1], "the state that nobody knows, and the id that comes twice"


def test_other_columns_of_parquet_end_every_process_alike(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="the extra parquet is not installed")
    arrow = pytest.importorskip("pyarrow")
    parquet.write_table(arrow.table({"id": [1, 2], "n": [1, 2]}), tmp_path / "jobs.parquet")
    with pytest.raises(TraceError, match=r"unknown column 'id'.* Save it as CSV to map its columns \(--columns\)$"):
        read_trace(tmp_path / "jobs.parquet")
    with pytest.raises(ConfigurationError, match=r"jobs.parquet is Parquet, and columns are mapped in a csv only"):
        read_trace(tmp_path / "jobs.parquet", columns="job_id=id")


def test_durations_and_times_of_parquet_are_read_in_seconds(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="the extra parquet is not installed")
    arrow = pytest.importorskip("pyarrow")
    columns = {
        "job_id": ["1"],
        "submit_s": arrow.array([1_700_000_000_500], arrow.timestamp("ms", "UTC")),
        "elapsed_s": arrow.array([3_600_000], arrow.duration("ms")),
        "limit_s": arrow.array([7_200_000_000], arrow.duration("us")),
    }
    parquet.write_table(arrow.table(columns), tmp_path / "jobs.parquet")
    table = read_trace(tmp_path / "jobs.parquet").table
    assert (table.submit_s[0], table.elapsed_s[0], table.limit_s[0]) == (1_700_000_000, 3_600, 7_200)


@pytest.mark.parametrize(
    ("timezone", "submit_s", "notes"),
    [("Europe/Berlin", [1_700_000_000 - 3_600, 1_720_000_000 - 7_200, -1], {}), ("UTC", None, {LOCAL_TIME: 2})],
)
def test_times_of_parquet_without_a_zone_are_in_the_configured_one(
    tmp_path: Path, timezone: str, submit_s: list[int] | None, notes: dict[str, int]
) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="the extra parquet is not installed")
    arrow = pytest.importorskip("pyarrow")
    local = arrow.array([1_700_000_000_000_000, 1_720_000_000_900_000, None], arrow.timestamp("us"))
    zoned = arrow.array([0, 5, 7], arrow.timestamp("s", "UTC"))
    parquet.write_table(arrow.table({"job_id": ["1", "2", "3"], "submit_s": local, "start_s": zoned}), tmp_path / "t")
    trace = read_trace(tmp_path / "t", timezone=timezone)
    assert trace.table.submit_s.tolist() == (submit_s or [1_700_000_000, 1_720_000_000, -1])
    assert trace.table.start_s.tolist() == [0, 5, 7]
    assert {what: count for what, count in trace.report.notes.items() if what == LOCAL_TIME} == notes
