import json
from dataclasses import fields

import numpy as np
import pytest

from mirage.duration import UNLIMITED_S
from mirage.errors import TraceError
from mirage.job_state import MISSING, JobState
from mirage.trace.formats.sacct_row import UNSPLIT_ARRAY
from mirage.trace.read_trace import read_trace
from mirage.trace.table import INT_COLUMNS, JobTable


def wrapped(value, *, infinite=False):
    return {"set": value is not None, "infinite": infinite, "number": value or 0}


def job(**changes):
    record = {
        "job_id": 12,
        "array": {"job_id": 0, "task_id": None, "task": None},
        "het": {"job_id": 0, "job_offset": None},
        "time": {"submission": 100, "eligible": 100, "start": 160, "end": 220, "elapsed": 60, "limit": 10},
        "state": {"current": "COMPLETED"},
        "nodes": "n[1-2]",
        "allocation_nodes": 2,
        "priority": 4048,
        "user": "ada",
        "name": "train",
        "tres": {"allocated": [{"type": "gres", "name": "gpu", "count": 2}], "requested": []},
        "steps": [{}, {}],
    }
    return record | changes


@pytest.fixture
def read(tmp_path):
    def read_jobs(*jobs, **options):
        path = tmp_path / "sacct.json"
        path.write_text(json.dumps({"meta": {}, "jobs": jobs, "errors": []}, indent=1))
        return read_trace(path, **options)

    return read_jobs


def test_identifiers(read):
    trace = read(
        job(),
        job(array={"job_id": 9, "task_id": wrapped(3), "task": ""}),
        job(array={"job_id": 9, "task_id": None, "task": "1-3"}),
        job(het={"job_id": 8, "job_offset": wrapped(1)}),
    )
    assert trace.table.job_id.tolist() == ["12", "9_3", "9_[1-3]", "8+1"]
    assert trace.report.notes == {UNSPLIT_ARRAY: 1}


def test_states_and_times(read):
    trace = read(
        job(state={"current": ["RUNNING", "COMPLETING"]}),
        job(job_id=13, state={"current": ["NEWSTATE"]}),
        job(
            job_id=14, state={"current": "PENDING"}, time={"submission": 100, "start": 0, "end": 0, "limit": 2**32 - 1}
        ),
    )
    assert trace.table.state.tolist() == [JobState.RUNNING, JobState.UNKNOWN, JobState.PENDING]
    assert trace.table.end_s.tolist() == [MISSING, 220, MISSING]
    assert trace.table.limit_s.tolist() == [600, 600, UNLIMITED_S]
    assert (trace.report.lines, trace.report.jobs, trace.report.steps) == (9, 3, 6)


def test_half_a_character_in_a_name_is_replaced(read, tmp_path):
    table = read(job(name="a\ud800b", array={"job_id": 9, "task_id": None, "task": "1\udfff"})).table
    assert (table.name.values(), table.job_id.tolist()) == (["a\ufffdb"], ["9_[1\ufffd]"])


@pytest.mark.parametrize("value", ["1" + "0" * 15, "1" + "0" * 5_000, '"' + "9" * 5_000 + '"', "1e300"], ids=len)
def test_a_wild_number_is_refused_not_dropped(tmp_path, value):
    text = json.dumps({"jobs": [job(), job(priority="@"), job(job_id=13)]}).replace('"@"', value)
    (tmp_path / "sacct.json").write_text(text)
    with pytest.raises(TraceError, match=r"sacct\.json:1: not a number: "):
        read_trace(tmp_path / "sacct.json")
    trace = read_trace(tmp_path / "sacct.json", on_error="skip")
    assert (len(trace.table), trace.report.skipped_total) == (2, 1)


def test_jobs_with_the_numbers_of_sentinels_of_16_bits(read):
    table = read(job(job_id=65_534), job(job_id=65_535, allocation_nodes=65_535)).table
    assert (table.job_id.tolist(), table.nodes.tolist()) == (["65534", "65535"], [2, 65_535])


def test_a_bad_record_names_its_line(read, tmp_path):
    bad = job(job_id="twelve")
    line = 1 + json.dumps({"meta": {}, "jobs": [job(), bad]}, indent=1).split('"twelve"')[0].count("\n") - 1
    with pytest.raises(TraceError, match=rf"sacct\.json:{line}: not a number: 'twelve'"):
        read(job(), bad)
    report = read(job(), bad, {"job_state": "RUNNING"}, 5, on_error="skip").report
    assert {reason: skipped.count for reason, skipped in report.skipped.items()} == {
        "not a number": 1,
        "not a record of sacct": 2,
    }
    assert report.accounted == report.lines


def test_a_record_with_steps_that_are_no_list_is_skipped_as_a_whole(read):
    trace = read(job(job_id=1), job(job_id=2, steps=11), on_error="skip")
    assert trace.table.job_id.tolist() == ["1"]
    assert trace.report.skipped["not a record of sacct"].count == 1
    assert trace.report.accounted == trace.report.lines == 4


def test_a_document_that_breaks_off_gives_what_came_before(tmp_path):
    path = tmp_path / "cut.json"
    path.write_text(json.dumps({"jobs": [job(), job()]}, indent=1)[:-100])
    with pytest.raises(TraceError, match=r"cut\.json:\d+: not JSON"):
        read_trace(path)
    trace = read_trace(path, on_error="skip")
    assert len(trace.table) == 1
    assert trace.report.accounted == trace.report.lines


@pytest.mark.parametrize("indent", [None, 1])
def test_joined_documents_are_read_as_one(tmp_path, indent):
    documents = [
        {"meta": {"a": [1]}, "jobs": [job(), job(job_id=13)], "errors": []}, {"jobs": []}, [job(job_id=14)],
        {"jobs": [job(job_id=15)]},
    ]  # fmt: skip
    path = tmp_path / "joined.json"
    path.write_text("\n".join(json.dumps(one, indent=indent) for one in documents) + "\n")
    trace = read_trace(path)
    assert trace.table.job_id.tolist() == ["12", "13", "14", "15"]
    assert trace.report.accounted == trace.report.lines
    path.write_text(f"{path.read_text()}what follows")
    with pytest.raises(TraceError, match=r"joined\.json:\d+: "):
        read_trace(path)


@pytest.mark.parametrize(
    ("limit", "limit_s"), [(10, 600), (None, UNLIMITED_S), (wrapped(0, infinite=True), UNLIMITED_S)]
)
def test_limits(read, limit, limit_s):
    times = job()["time"]
    assert read(job(time=times | {"limit": limit})).table.limit_s.tolist() == [limit_s]
    del times["limit"]
    assert read(job(time=times)).table.limit_s.tolist() == [MISSING]


def test_a_document_without_jobs(tmp_path):
    path = tmp_path / "other.json"
    path.write_text('{"meta": {"jobs": []}, "nodes": []}')
    with pytest.raises(TraceError, match='no list "jobs"'):
        read_trace(path)


COUNTS = {"clockwork/sacct_1": 2, "clockwork/sacct_2": 2} | {
    f"sacct-json-sarc/{name}": jobs
    for name, jobs in {
        "fromage_1706227200.json.gz": 9, "fromage_1708819200.json.gz": 8, "fromage_1711411200.json.gz": 10,
        "fromage_1714003200.json.gz": 13, "fromage_1716595200.json.gz": 13, "mila_1706227200.json.gz": 7,
        "mila_1708819200.json.gz": 7, "mila_1711411200.json.gz": 7, "mila_1714003200.json.gz": 8,
        "mila_1716595200.json.gz": 7, "raisin_1714003200.json": 3, "raisin_1716595200.json": 5,
        "raisin_1719187200.json.gz": 7, "raisin_1721779200.json.gz": 5, "raisin_base_job.json": 1,
        "raisin_no_prometheus_1711411200.json.gz": 8, "raisin_no_prometheus_1714003200.json.gz": 9,
        "raisin_no_prometheus_1716595200.json.gz": 8,
    }.items()
}  # fmt: skip


@pytest.mark.parametrize("name", COUNTS)
def test_real_output(shared_data, name):
    report = read_trace(shared_data / "sacct-fixtures/schedulers" / name).report
    assert (report.format, report.jobs) == ("sacct-json", COUNTS[name])
    assert report.accounted == report.lines


def test_clockwork_known_values(shared_data):
    table = read_trace(shared_data / "sacct-fixtures/schedulers/clockwork/sacct_1").table
    assert table.job_id[0] == "1_7"
    assert (table.limit_s[0], table.elapsed_s[0], table.gpus[0], table.cpus[0]) == (86_400, 20_615, 1, 4)


@pytest.mark.parametrize(
    ("text", "document"),
    [("sacct.P.ALL.txt", "sacct.json"), ("25.11/sacct.X.P.ALL.txt", "25.11/sacct.json")],
)
def test_text_and_json_of_the_same_cluster_agree(shared_data, text, document):
    """The two outputs were taken moments apart: jobs that moved on meanwhile are left out."""
    from_text = read_trace(shared_data / "slurm-fixtures" / text).table
    from_json = read_trace(shared_data / "slurm-fixtures" / document).table
    assert from_text.job_id.tolist() == from_json.job_id.tolist()
    settled = (from_text.state == from_json.state) & (from_text.elapsed_s == from_json.elapsed_s)
    assert settled.sum() >= len(settled) - 4
    assert_same_jobs(from_text[settled], from_json[settled])


def assert_same_jobs(left: JobTable, right: JobTable):
    for column in fields(JobTable):
        a, b = (getattr(table, column.name) for table in (left, right))
        if column.name in INT_COLUMNS:
            np.testing.assert_array_equal(a, b, column.name)
        elif column.name not in ("job_id", "dependency"):
            assert a.values() == b.values(), column.name
