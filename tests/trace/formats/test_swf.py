import numpy as np
import pytest

from mirage.errors import TraceError
from mirage.job_state import MISSING, JobState
from mirage.trace.formats import swf
from mirage.trace.read_trace import read_trace
from tests.support.job_tables import assert_same

GOOD = "3 100 20 60 4 -1 -1 8 600 -1 1 7 2 9 1 5 2 -1"
OTHER = f"4{GOOD[1:]}"


@pytest.fixture
def read(tmp_path):
    def read_lines(*lines, **options):
        path = tmp_path / "log.swf"
        path.write_text("\n".join(lines) + "\n")
        return read_trace(path, format="swf", **options)

    return read_lines


def test_a_line(read):
    table = read(GOOD).table
    known = {
        "submit_s": 100, "start_s": 120, "end_s": 180, "elapsed_s": 60, "limit_s": 600, "nodes": 8, "cpus": 8,
        "state": JobState.COMPLETED, "gpus": MISSING,
    }  # fmt: skip
    assert {name: int(getattr(table, name)[0]) for name in known} == known
    labels = {name: getattr(table, name).values()[0] for name in ("user", "account", "name", "qos", "partition")}
    assert labels == {"user": "7", "account": "2", "name": "9", "qos": "1", "partition": "5"}
    assert table.dependency.values() == ["afterany:2"]
    assert table.job_id.tolist() == ["3"]


def test_missing_values(read):
    table = read("1 10 -1 50 4 " + "-1 " * 13).table
    assert (table.start_s[0], table.end_s[0], table.elapsed_s[0], table.run_s[0]) == (
        MISSING,
        MISSING,
        50,
        50,
    )
    assert (table.nodes[0], table.limit_s[0], table.user.values()) == (4, MISSING, [""])


def test_a_job_that_was_cancelled_before_its_start_never_started(read):
    trace = read("1 10 5000 0 -1 -1 -1 4 200 -1 5 1" + " -1" * 6, "2 10 5000 0 4 -1 -1 4 200 -1 5 1" + " -1" * 6)
    assert trace.table.start_s.tolist() == [MISSING, 5010]
    assert list(trace.report.notes.values()) == [1]


def test_joined_traces_that_begin_at_different_times_are_refused(read):
    with pytest.raises(TraceError, match=r"log\.swf:1: it is joined of traces .*1000, 2000\); convert each one"):
        read("; UnixStartTime: 1000", GOOD, "; UnixStartTime: 2000", OTHER)
    table = read("; UnixStartTime: 1000", GOOD, "; UnixStartTime: 1000", OTHER).table
    assert table.submit_s.tolist() == [1100, 1100]


def test_the_header_moves_times(read):
    trace = read("; UnixStartTime: 1000", ";  MaxNodes: 128 (of them 2 big)", ";Note: one", ";Note: two", "", GOOD)
    assert (trace.table.submit_s[0], trace.table.end_s[0]) == (1100, 1180)
    assert trace.report.metadata["MaxNodes"] == "128 (of them 2 big)"
    assert trace.report.metadata["Note"] == "one\ntwo"
    assert (trace.report.comment, trace.report.blank, trace.report.lines) == (4, 1, 6)


@pytest.mark.parametrize(
    ("start", "noted"), [("0", 0), ("-1", 0), ("Unknown", 0), ("abc", 1), ("1704067200000", 1), ("2024-01-01", 1)]
)
def test_a_start_time_that_is_none_moves_nothing(read, start, noted):
    trace = read(f"; UnixStartTime: {start}", GOOD)
    assert (trace.table.submit_s[0], trace.report.notes.get(swf.NO_START, 0)) == (100, noted)


@pytest.mark.parametrize(("start", "submit", "noted"), [("5000", "5000", 1), ("5000", "4999", 0), ("0", "5000", 0)])
def test_submissions_that_count_from_1970_already_are_noted(read, start, submit, noted):
    trace = read(f"; UnixStartTime: {start}", GOOD.replace(" 100 ", f" {submit} "))
    assert (trace.table.submit_s[0], trace.report.notes.get(swf.ABSOLUTE, 0)) == (int(start) + int(submit), noted)


STATUS = (0, 1, 5, -1, 2, 3, 4)


def test_states_and_partial_executions(read):
    lines = [GOOD.replace("-1 1 7", f"-1 {status} 7").replace("3", f"{9 + status}", 1) for status in STATUS]
    trace = read(*lines)
    assert trace.table.state.tolist() == [
        JobState.FAILED, JobState.COMPLETED, JobState.CANCELLED, JobState.UNKNOWN,
    ]  # fmt: skip
    assert trace.report.steps == 3


@pytest.mark.parametrize("text", ["1.0", "1e0", " 1\t", "+1"])
def test_numbers_are_read_alike_fast_and_slow(read, text):
    line = GOOD.replace("3 ", f"{text} ", 1)
    fast, slow = read(line).table, read(line, "broken", on_error="skip").table
    assert fast.job_id.tolist() == slow.job_id.tolist() == ["1"]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (GOOD + " 5", "not eighteen fields: 19 fields"),
        (GOOD[:-3], "not eighteen fields: 17 fields"),
        (GOOD.replace("600", "six"), "not a number: field 9 is 'six'"),
        (GOOD.replace("600", "nan"), "not a number: field 9 is 'nan'"),
        (GOOD.replace("600", "1-2"), "not a number: field 9 is '1-2'"),
        (GOOD.replace("600", "9" * 30), "number out of range: field 9"),
    ],
)
def test_strict_names_the_line_and_skipping_counts(read, line, complaint):
    with pytest.raises(TraceError, match=rf"log\.swf:3: {complaint}"):
        read("; Version: 2.2", GOOD, line, OTHER)
    report = read("; Version: 2.2", GOOD, line, OTHER, on_error="skip").report
    assert (report.jobs, report.skipped_total, report.accounted) == (2, 1, report.lines)


@pytest.mark.parametrize("extra", ["7", "0 7", "-1 0.5 3"])
def test_columns_that_simulators_append_are_left_out_and_noted(read, extra):
    lines = ["; MaxProcs: 8", GOOD, "", "4" + GOOD[1:]]
    plain = read(*lines)
    wide = read(*(f"{line} {extra}" if line[:1].isdigit() else line for line in lines))
    assert wide.table.job_id.tolist() == plain.table.job_id.tolist() == ["3", "4"]
    for name in ("submit_s", "end_s", "limit_s", "nodes", "state"):
        assert getattr(wide.table, name).tolist() == getattr(plain.table, name).tolist(), name
    assert wide.report.notes == {swf.WIDER: 2}
    assert plain.report.notes == {}


def test_appended_columns_may_hold_words_and_short_rows_among_them_are_named(read):
    trace = read(GOOD + " gpu x", GOOD + " cpu", OTHER + " cpu y", on_error="skip")
    assert (len(trace.table), trace.report.notes[swf.WIDER]) == (2, 2)
    assert trace.report.skipped["not as many fields"].first_line == 2
    with pytest.raises(
        TraceError, match=r"log\.swf:2: not as many fields: 19 fields instead of 20 as in the first line"
    ):
        read(GOOD + " gpu x", GOOD + " cpu")


def test_a_bad_word_in_the_first_line_is_named(tmp_path):
    path = tmp_path / "jobs.txt"
    for line in (GOOD.replace("600", "six"), GOOD.replace("600", "six") + " 5"):
        path.write_text(line + "\n")
        with pytest.raises(TraceError, match=r"jobs\.txt:1: not a number: field 9 is 'six'"):
            read_trace(path)


def test_impossible_times_name_the_line_of_a_file_parsed_at_once(read):
    lines = ["; c", GOOD, "", GOOD.replace(" 60 ", " 999999999999 "), GOOD.replace(" 20 ", " -5 ")]
    with pytest.raises(TraceError, match=r"log\.swf:4: time out of range: end_s is 1000000000119; instants lie"):
        read(*lines)
    report = read(*lines, on_error="skip").report
    assert {why: (s.count, s.first_line) for why, s in report.skipped.items()} == {
        "time out of range": (1, 4),
        "negative time": (1, 5),
    }
    assert (report.jobs, report.accounted) == (1, report.lines)


def test_short_and_long_lines_do_not_make_up_for_each_other(read):
    with pytest.raises(TraceError, match=r"log\.swf:1: not eighteen fields: 17"):
        read(GOOD[:-3], GOOD + " -1")


def test_a_well_formed_file_is_parsed_at_once(read, monkeypatch):
    monkeypatch.setattr(swf._Reader, "_by_line", None)
    users = [f"{job}{GOOD[1:]}".replace(" 7 2 9 ", f" {2**61 + job} 2 9 ") for job in (4, 5)]
    table = read("; c", GOOD, "", "  " + users[0] + "\r", ";", users[1]).table
    assert table.user.values() == ["7", str(2**61 + 4), str(2**61 + 5)]


@pytest.mark.parametrize("text", ["; only a comment", "; one\n; two", ";"])
def test_no_jobs(tmp_path, text):
    path = tmp_path / "empty.swf"
    path.write_text(text)
    report = read_trace(path).report
    assert (report.jobs, report.comment, report.accounted) == (0, report.lines, report.lines)


@pytest.mark.parametrize(
    ("name", "jobs", "processors"),
    [
        ("theta-2022/theta_2022.swf.gz", 23_911, "4360"),
        ("synthetic-reference/w5k.swf.gz", 5_000, "352"),
        ("synthetic-reference/w5k_ties.swf.gz", 5_000, "352"),
        ("synthetic-reference/w5kp.swf.gz", 5_000, "352"),
        ("synthetic-reference/w20k.swf.gz", 20_000, "352"),
        ("easy-reference/CTC-SP2.easy_clairvoyant.swf.gz", 77_199, "338"),
        ("easy-reference/CTC-SP2.easy_user_estimates.swf.gz", 77_199, "338"),
        ("easy-reference/KTH-SP2.easy_clairvoyant.swf.gz", 28_481, "100"),
        ("easy-reference/KTH-SP2.easy_user_estimates.swf.gz", 28_481, "100"),
        ("easy-reference/SDSC-SP2.easy_clairvoyant.swf.gz", 54_006, "128"),
        ("easy-reference/SDSC-SP2.easy_user_estimates.swf.gz", 54_006, "128"),
    ],
)
def test_real_logs(shared_data, name, jobs, processors):
    trace = read_trace(shared_data / name)
    assert (trace.report.jobs, trace.report.metadata["MaxProcs"]) == (jobs, processors)
    assert trace.report.accounted == trace.report.lines
    assert trace.report.notes == {}
    assert (trace.table.elapsed_s >= 0).all()
    known = trace.table.start_s >= 0
    assert known.all() or not known.any()
    np.testing.assert_array_equal(trace.table.run_s, trace.table.elapsed_s)


def test_a_bad_line_among_lines_of_eighteen_is_the_only_remark(read):
    trace = read(GOOD, "x", on_error="skip")
    assert (len(trace.table), trace.report.notes) == (1, {})
    assert [(what, skipped.count) for what, skipped in trace.report.skipped.items()] == [("not eighteen fields", 1)]


def test_numbers_that_stand_twice_are_noted(read):
    lines = (GOOD, GOOD.replace(" 100 ", " 170 "), GOOD.replace(" 100 ", " 190 "))
    assert read(*lines).report.notes == {"row that repeats a job id (a further attempt of the same job)": 2}


@pytest.mark.parametrize("requested", ["0", "-1"])
def test_a_request_of_no_processors_is_unknown(read, requested):
    assert GOOD.count(" 4 -1 -1 8 ") == 1
    assert read(GOOD.replace(" 4 -1 -1 8 ", f" 4 -1 -1 {requested} ")).table.nodes.tolist() == [4]


@pytest.mark.parametrize("end", ["", ".0"])
@pytest.mark.parametrize("label", ["92605928607567", "9007199254740993", "9" * 19, "7" * 40])
def test_labels_have_any_length(read, label, end):
    """CQGym's logs have labels of fourteen digits.

    Fractional seconds make the whole file floating-point numbers.
    """
    users = GOOD.replace(" 7 2 9 ", f" {label} {label[1:]} 9 ").replace(" 60 ", f" 60{end} ")
    table = read(users, OTHER.replace(" 7 2 9 ", f" {int(label) - 1} 2 9 ")).table
    assert table.user.values() == [label, str(int(label) - 1)]
    assert table.account.values() == [label[1:].lstrip("0"), "2"]
    assert table.run_s.tolist() == [60, 60]


def test_labels_may_be_words(read):
    table = read(GOOD.replace(" 7 2 9 1 5 ", " ada lab-3 -1 gpu -2 "), OTHER.replace(" 7 2 9 ", " 7.0 02 - ")).table
    labels = {name: getattr(table, name).values() for name in ("user", "account", "name", "qos", "partition")}
    assert labels == {
        "user": ["ada", "7"], "account": ["lab-3", "2"], "name": ["", ""], "qos": ["gpu", "1"], "partition": ["", "5"],
    }  # fmt: skip


def test_fast_and_slow_give_the_same_table(read):
    lines = [GOOD, OTHER.replace(" 2 -1", " 0 -1"), f"5{GOOD[1:-4]}-1 -1", f"-1{GOOD[1:]}"]
    fast, slow = read(*lines).table, read(*lines, "broken", on_error="skip").table
    assert_same(fast, slow)
    assert fast.dependency.values() == ["afterany:2", "", "", "afterany:2"]


HEADING = "id\tsubmit\twait\truntime\tcpus\tcputime\tmem\tcpusreq\twalltime\tmemreq\tstatus\tuser\tgroup\tapplication"


@pytest.mark.parametrize("before", [[], ["; Version: 2.2", ""]])
def test_a_line_of_column_names_is_a_header(tmp_path, before):
    """Alea's workflows: tabs, a line of names, two more columns, and lists of preceding jobs."""
    rows = [f"{GOOD} DAG-1 1".replace(" ", "\t"), f"{OTHER} DAG-1 2".replace(" 2 -1 ", " 1&3&2 -1 ").replace(" ", "\t")]
    (tmp_path / "x").write_text("\n".join([*before, HEADING, *rows]) + "\n")
    trace = read_trace(tmp_path / "x")
    assert (trace.report.format, trace.table.job_id.tolist()) == ("swf", ["3", "4"])
    assert trace.table.dependency.values() == ["afterany:2", "afterany:1:3:2"]
    assert (trace.report.header, trace.report.accounted) == (1, trace.report.lines)
    assert trace.report.blank == len(before) // 2
    (tmp_path / "x").write_text("\n".join([HEADING, GOOD, "4 x"]) + "\n")
    with pytest.raises(TraceError, match=r"x:3: not eighteen fields: 2 fields"):
        read_trace(tmp_path / "x")


@pytest.mark.parametrize("counts", ["4 -1 -1 -3", "-3 -1 -1 0", "-3 -1 -1 -1"])
def test_a_negative_number_of_processors_is_refused(read, counts):
    bad = OTHER.replace("4 -1 -1 8", counts)
    with pytest.raises(TraceError, match=r"log\.swf:2: negative count: nodes is -3; leave out what is not known"):
        read(GOOD, bad)
    report = read(GOOD, bad, on_error="skip").report
    assert (report.jobs, report.skipped["negative count"].count, report.accounted) == (1, 1, 2)


@pytest.mark.parametrize("size", [1, 60, 100, 150, 1000])
def test_a_file_in_pieces_is_read_like_one_piece(read, monkeypatch, size):
    """Irregular lines lie in different pieces.

    Comments, empty lines, labels of any length, partial executions and bad lines.
    """
    rows = [GOOD, "", OTHER.replace(" 7 2 9 ", f" {'8' * 30} 2 9 "), "; UnixStartTime: 500", "broken"]
    rows += [f"{k}{GOOD[1:]}".replace(" 7 2 9 ", f" {k} {k % 3} ada ") for k in range(5, 25)]
    rows += [
        OTHER.replace("-1 1 7", "-1 3 7"),
        OTHER.replace(" 60 ", " 60.4 "),
        OTHER.replace(" 4 -1 -1 8 ", " 4 -1 -1 -8 "),
    ]
    whole = read(*rows, on_error="skip")
    monkeypatch.setattr(swf, "PIECE_BYTES", size)
    parts = read(*rows, on_error="skip")
    assert_same(parts.table, whole.table)
    assert parts.report == whole.report
    assert whole.report.skipped_total == 2
    assert whole.table.submit_s[0] == 600
    with pytest.raises(TraceError, match=r"log\.swf:5: not eighteen fields"):
        read(*rows)
