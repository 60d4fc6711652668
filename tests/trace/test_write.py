"""Reading back what was written: CSV, Parquet, SWF."""

import gzip
import importlib
import math
import os
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mirage.duration import UNLIMITED_S
from mirage.errors import ConfigurationError, TraceError, UnknownName
from mirage.extras import install
from mirage.job_state import MISSING, JobState
from mirage.trace.read_trace import read_trace
from mirage.trace.table import INT_COLUMNS, LABEL_COLUMNS, JobTable
from mirage.trace.write_trace import write_trace
from tests.support.job_tables import assert_same, job_tables, workloads

SMALL = JobTable.build(
    ["1", "2_3"],
    submit_s=[100, 200],
    start_s=[150, MISSING],
    end_s=[180, MISSING],
    limit_s=[600, UNLIMITED_S],
    nodes=[2, 1],
    state=[JobState.COMPLETED, JobState.PENDING],
    user=["ada", "bo"],
    name=['train, "big"', ""],
)
few = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
@given(table=job_tables())
@few
def test_the_table_survives(tmp_path, name, table):
    write_trace(table, tmp_path / name)
    trace = read_trace(tmp_path / name)
    assert_same(trace.table, table)
    assert trace.report.accounted == trace.report.lines


@given(table=workloads())
@few
def test_a_workload_survives_swf(tmp_path, table):
    write_trace(table, tmp_path / "t.swf")
    trace = read_trace(tmp_path / "t.swf")
    assert_same(trace.table, table)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_real_log_survives(shared_data, tmp_path, suffix):
    table = read_trace(shared_data / "mirage-ls6/ls6-a100.log.gz").table
    write_trace(table, tmp_path / f"ls6.{suffix}")
    assert_same(read_trace(tmp_path / f"ls6.{suffix}").table, table)


def test_a_real_log_in_swf_retains_what_it_can(shared_data, tmp_path):
    table = read_trace(shared_data / "mirage-ls6/ls6-a100.log.gz").table
    write_trace(table, tmp_path / "ls6.swf.gz")
    columns = ("submit_s", "start_s", "end_s", "elapsed_s", "limit_s", "nodes")
    assert_same(read_trace(tmp_path / "ls6.swf.gz").table, table, columns)


def test_csv_as_people_see_it(tmp_path):
    write_trace(SMALL, tmp_path / "t.csv")
    write_trace(SMALL, tmp_path / "t.csv.gz")
    assert gzip.decompress((tmp_path / "t.csv.gz").read_bytes()) == (tmp_path / "t.csv").read_bytes()
    header, first, second = (tmp_path / "t.csv").read_text().splitlines()
    assert header.split(",") == ["job_id", *INT_COLUMNS, *LABEL_COLUMNS]
    assert first == '1,100,,150,180,,600,2,,,,,COMPLETED,ada,,,,"train, ""big""",'
    assert second == "2_3,200,,,,,UNLIMITED,1,,,,,PENDING,bo,,,,,"


def test_swf_names_what_it_numbers(tmp_path):
    write_trace(SMALL, tmp_path / "t.swf")
    text = (tmp_path / "t.swf").read_text()
    assert "; Note: a processor is one node\n" in text
    assert "; Note: user 1 is ada\n; Note: user 2 is bo\n" in text
    assert text.splitlines()[-2:] == [
        "1 0 50 30 2 -1 -1 2 600 -1 1 1 -1 1 -1 -1 -1 -1",
        "2 100 -1 -1 1 -1 -1 1 -1 -1 -1 2 -1 -1 -1 -1 -1 -1",
    ]


def test_swf_numbers_names_around_those_that_are_numbers(tmp_path):
    table = JobTable.build(["a", "b"], user=["1", "ada"], dependency=["", "afterany:a"])
    write_trace(table, tmp_path / "t.swf")
    again = read_trace(tmp_path / "t.swf").table
    assert again.user.values() == ["1", "2"]
    assert again.dependency.values() == ["", "afterany:1"]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            "job_id,colour\n1,red\n",
            r"t\.csv:1: unknown column 'colour'.* user\. Map the columns with --columns; for",
        ),
        (
            "job_id,run_s\n1,9\n",
            r"unknown column 'run_s'.* user\. If it is a workload of mirage schedule, read it with -",
        ),
        ("job_id,job_id\n1,2\n", r"t\.csv:1: the column job_id is there 2 times; leave one"),
        ('job_id,name\n1,"a\nb"\n2,x,y\n', r"t\.csv:4: wrong number of fields: 3 instead of 2"),
        ("job_id,nodes\n1,many\n", r"t\.csv:2: not a value of its column: nodes is 'many'"),
        ("job_id,state\n1,5\n", r"t\.csv:2: not a state: state is '5'"),
        ("job_id,nodes\n,5\n", r"t\.csv:2: no job id"),
        ('job_id,name\n1,"a"b\n', r"t\.csv:2: not CSV"),
    ],
)
def test_bad_csv_names_the_line(tmp_path, text, complaint):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(TraceError, match=complaint):
        read_trace(tmp_path / "t.csv", format="csv")


@pytest.mark.parametrize(
    ("columns", "complaint"),
    [
        ({"job_id": ["1"], "colour": ["red"]}, "unknown column 'colour'"),
        ({"nodes": [1]}, "the column job_id is missing: every job needs one"),
        ({"job_id": ["1"], "nodes": ["many"]}, "the column nodes is string"),
        ({"job_id": ["1", None]}, r"t\.parquet:2: no job id"),
    ],
)
def test_bad_parquet(tmp_path, columns, complaint):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.table(columns), tmp_path / "t.parquet")
    with pytest.raises(TraceError, match=complaint):
        read_trace(tmp_path / "t.parquet")


def test_nan_in_parquet_is_not_known(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(
        pyarrow.table({"job_id": ["1", "2", "3"], "elapsed_s": [math.nan, 60.0, None]}), tmp_path / "t.parquet"
    )
    assert read_trace(tmp_path / "t.parquet").table.elapsed_s.tolist() == [MISSING, 60, MISSING]


def test_damaged_parquet(tmp_path):
    write_trace(SMALL, tmp_path / "t.parquet")
    content = (tmp_path / "t.parquet").read_bytes()
    (tmp_path / "t.parquet").write_bytes(content[: len(content) // 2])
    with pytest.raises(TraceError, match=r"t\.parquet:1: not a Parquet file"):
        read_trace(tmp_path / "t.parquet")


def test_without_pyarrow_the_remedy_is_named(tmp_path, monkeypatch):
    def absent(name, *_):
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(importlib, "import_module", absent)
    with pytest.raises(ConfigurationError, match=re.escape(install("parquet"))):
        write_trace(SMALL, tmp_path / "t.parquet")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", ["csv", "parquet", "swf"])
def test_half_a_character_does_not_break_a_writer(tmp_path, suffix):
    table = JobTable.build(["1_[\ud800]"], user=["a\udc80b"], name=["\ud83d"], nodes=[2])
    write_trace(table, tmp_path / f"t.{suffix}")
    again = read_trace(tmp_path / f"t.{suffix}").table
    assert again.nodes.tolist() == [2]
    if suffix != "swf":
        assert (again.job_id.tolist(), again.user.values(), again.name.values()) == (
            ["1_[\ufffd]"],
            ["a\ufffdb"],
            ["\ufffd"],
        )


def test_swf_leaves_out_numbers_its_reader_refuses(tmp_path):
    table = JobTable.build(["7", "8"], submit_s=[5, 6], cpus=[2**40 - 1, 2**40], nodes=[1, 1], limit_s=[60, 2**40 - 1])
    write_trace(table, tmp_path / "t.swf")
    again = read_trace(tmp_path / "t.swf")
    assert again.table.cpus.tolist() == [2**40 - 1, MISSING]
    assert again.table.limit_s.tolist() == [60, 2**40 - 1]
    assert f"; Note: 2 numbers of {2**40} or more are written as -1\n" in (tmp_path / "t.swf").read_text()


def test_the_case_of_a_suffix_does_not_matter(tmp_path):
    write_trace(SMALL, tmp_path / "T.CSV")
    write_trace(SMALL, tmp_path / "T.Swf.GZ")
    assert (tmp_path / "T.CSV").read_text().startswith("job_id,")
    assert read_trace(tmp_path / "T.Swf.GZ").report.format == "swf"
    assert (tmp_path / "T.Swf.GZ").read_bytes().startswith(b"\x1f\x8b")


def test_an_unknown_format_lists_the_known(tmp_path):
    with pytest.raises(UnknownName, match=r"'cvs'. Did you mean 'csv'\? Known: csv, parquet, swf"):
        write_trace(SMALL, tmp_path / "t", "cvs")
    for name in ("t.cvs", "t"):
        with pytest.raises(ConfigurationError, match=rf"{name}: its name has no format .* name one with --to"):
            write_trace(SMALL, tmp_path / name)
    write_trace(SMALL, tmp_path / "t", "csv")
    assert read_trace(tmp_path / "t").report.format == "csv"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
def test_a_full_disk_is_reported():
    with pytest.raises(TraceError, match="/dev/full: cannot be written: No space left on device; free some space"):
        write_trace(SMALL, "/dev/full", "csv")


def test_a_write_that_fails_leaves_what_was_there(tmp_path, monkeypatch):
    path = tmp_path / "t.csv"
    path.write_text("before")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(TraceError, match="No space left on device"):
        write_trace(SMALL, path)
    assert path.read_text() == "before"
    assert [entry.name for entry in tmp_path.iterdir()] == ["t.csv"]


def test_a_trace_is_no_table(tmp_path):
    write_trace(SMALL, tmp_path / "t.csv")
    with pytest.raises(ConfigurationError, match=r"jobs must be a JobTable, .* got Trace"):
        write_trace(read_trace(tmp_path / "t.csv"), tmp_path / "u.csv")


def test_columns_are_a_text(tmp_path):
    with pytest.raises(ConfigurationError, match=r"columns is {'nodes': 'n'}; give a text such as"):
        read_trace(tmp_path / "t.csv", columns={"nodes": "n"})


def test_an_absent_folder_is_reported(tmp_path):
    with pytest.raises(TraceError, match="No such file or directory"):
        write_trace(SMALL, tmp_path / "absent" / "t.csv")


def test_a_link_is_written_through(tmp_path):
    (tmp_path / "real.csv").write_text("before")
    (tmp_path / "link.csv").symlink_to("real.csv")
    write_trace(SMALL, tmp_path / "link.csv")
    assert (tmp_path / "link.csv").is_symlink()
    assert_same(read_trace(tmp_path / "real.csv").table, SMALL)


@given(st.binary(max_size=200))
@few
def test_any_bytes_after_a_csv_header_are_accounted_for(tmp_path, garbage):
    (tmp_path / "t.csv").write_bytes(b"job_id,nodes,name\n1,2,x\n" + garbage)
    report = read_trace(tmp_path / "t.csv", on_error="skip").report
    assert report.jobs >= 1
    assert report.accounted == report.lines
