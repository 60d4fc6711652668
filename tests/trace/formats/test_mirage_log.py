import pytest

from mirage.errors import TraceError
from mirage.job_state import MISSING, JobState
from mirage.trace.read_trace import read_trace

COLUMNS = "JobID JobName UID Start Submit End Priority TimelimitR ExitCode NNodes"
TIMES = "2022-11-01T15:34:14\t2022-10-05T11:52:48\t2022-11-03T15:34:15"
GOOD = f"478729\tdimer.10\t00000\t{TIMES}\t1234\t2880\t0:0\t2"


@pytest.fixture
def read(tmp_path):
    def read_lines(*lines, count=None, **options):
        path = tmp_path / "ls6.log"
        head = [str(len(lines) + 2 if count is None else count), COLUMNS, "--- " * 10]
        path.write_text("\n".join([*head, *lines]) + "\n")
        return read_trace(path, format="mirage-log", **options)

    return read_lines


def test_a_line(read):
    trace = read(GOOD)
    row = trace.table
    known = {
        "submit_s": 1_664_970_768, "start_s": 1_667_316_854, "end_s": 1_667_489_655, "elapsed_s": 172_801,
        "limit_s": 172_800, "nodes": 2, "priority": 1234, "gpus": MISSING, "state": JobState.UNKNOWN,
    }  # fmt: skip
    assert {name: int(getattr(row, name)[0]) for name in known} == known
    assert (row.user.values(), row.name.values()) == (["00000"], ["dimer.10"])
    assert (trace.report.lines, trace.report.header, trace.report.notes) == (4, 3, {})


def test_a_tab_in_the_name(read):
    table = read(GOOD.replace("dimer.10", "a\tb\t\tc")).table
    assert table.name.values() == ["a\tb\t\tc"]
    assert table.nodes.tolist() == [2]


def test_times_are_local(read):
    assert read(GOOD, timezone="America/Chicago").table.submit_s.tolist() == [1_664_970_768 + 5 * 3600]


def test_a_count_that_is_off_is_noted(read):
    assert list(read(GOOD, count=9).report.notes.values()) == [1]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("1\tx", "too few fields: 2 of 10"),
        (GOOD.replace("2880", "long"), "not a number: TimelimitR is 'long'"),
        (GOOD.replace("2022-11-01T15", "2022-11-01T25"), "not a time"),
        ("x" + GOOD, "not a job id: 'x478729'"),
    ],
)
def test_strict_names_the_line_and_skipping_counts(read, line, complaint):
    with pytest.raises(TraceError, match=rf"ls6\.log:5: {complaint}"):
        read(GOOD, line)
    report = read(GOOD, line, on_error="skip").report
    assert (report.jobs, report.skipped_total, report.accounted) == (1, 1, report.lines)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (f"1\n{COLUMNS} More\n---\n", r"other\.log:2: .* is not the column names"),
        (f"\x1c3\n{COLUMNS}\n1\n", r"other\.log:3: '1' is not a rule"),
        (f"²\n{COLUMNS}\n---\n", r"other\.log:1: '²' is not the number of lines"),
        ("1\n", r"other\.log:2: '' is not the column names"),
    ],
)
def test_another_header_is_refused(tmp_path, text, complaint):
    path = tmp_path / "other.log"
    path.write_text(text)
    with pytest.raises(TraceError, match=complaint):
        read_trace(path, format="mirage-log")


def test_the_published_log(shared_data):
    trace = read_trace(shared_data / "mirage-ls6/ls6-a100.log.gz")
    assert trace.report.format == "mirage-log"
    assert (trace.report.lines, trace.report.header, len(trace.table)) == (24_780, 3, 24_777)
    assert trace.report.accounted == 24_780
    assert trace.report.notes == {}
    (with_tab,) = [row for row, name in enumerate(trace.table.name.values()) if "\t" in name]
    assert trace.table.job_id[with_tab] == "746545"
    assert trace.table.user.values()[with_tab] == "810653"
    assert trace.table.nodes[with_tab] == 4
