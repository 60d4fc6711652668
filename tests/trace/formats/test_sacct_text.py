import numpy as np
import pytest

from mirage.duration import UNLIMITED_S
from mirage.errors import TraceError
from mirage.job_state import MISSING, JobState
from mirage.trace.formats.sacct_row import UNSPLIT_ARRAY
from mirage.trace.formats.sacct_text import NOT_ENDED
from mirage.trace.read_trace import read_trace

HEADER = "JobID|JobName|User|State|Submit|Start|End|Elapsed|Timelimit|NNodes|NCPUS|AllocTRES|NodeList"


def row(job="1", name="train", state="COMPLETED", *, submit="08:00:00", start="08:05:00", end="09:05:00", **other):
    times = [f"2024-01-15T{clock}" if clock[0].isdigit() else clock for clock in (submit, start, end)]
    rest = [other.get(name, default) for name, default in (
        ("elapsed", "01:00:00"), ("limit", "2-00:00:00"), ("nodes", "2"), ("cpus", "8"),
        ("tres", "cpu=8,gres/gpu=4,node=2"), ("hosts", "n[1-2]"),
    )]  # fmt: skip
    return "|".join([job, name, "ada", state, *times, *rest])


@pytest.fixture
def read(tmp_path):
    def read_lines(*lines, header=HEADER, **options):
        path = tmp_path / "sacct.txt"
        path.write_text("\n".join([header, *lines] if header else lines) + "\n")
        return read_trace(path, **options)

    return read_lines


@pytest.mark.parametrize("on_error", ["strict", "skip"])
def test_jobs_of_several_clusters_are_refused(read, on_error):
    assert len(read(f"{row('1')}|alpha", f"{row('2')}|alpha", header=f"{HEADER}|Cluster").table) == 2
    with pytest.raises(TraceError, match=r"it has jobs of 2 clusters \(alpha, beta\).*sacct -M CLUSTER"):
        read(f"{row('1')}|beta", f"{row('1')}|alpha", header=f"{HEADER}|Cluster", on_error=on_error)


def test_a_row_with_nul_bytes_is_a_bad_line(read):
    hole = row("2", tres="cpu=8,gres/g\0\0pu=4,node=2")
    with pytest.raises(TraceError, match=r"sacct.txt:3: NUL bytes: .*; the file has a hole; copy it again"):
        read(row(), hole)
    report = read(row(), hole, on_error="skip").report
    assert (report.jobs, report.skipped_total, report.accounted) == (1, 1, report.lines)


def test_a_row(read):
    table = read(row()).table
    known = {
        "submit_s": 1_705_305_600, "start_s": 1_705_305_900, "end_s": 1_705_309_500, "elapsed_s": 3600,
        "limit_s": 172_800, "nodes": 2, "cpus": 8, "gpus": 4, "state": JobState.COMPLETED,
        "eligible_s": MISSING, "priority": MISSING,
    }  # fmt: skip
    assert {name: int(getattr(table, name)[0]) for name in known} == known
    assert (table.job_id.tolist(), table.user.values(), table.name.values()) == (["1"], ["ada"], ["train"])
    assert table.partition.values() == [""]


def test_identifiers_and_steps(read):
    jobs = ["123", "123_4", "123_[1-3]", "123_[1,5%2]", "123_[8]", "123_[9%2]", "123+0", "123_7+1"]
    steps = ["123.batch", "123.extern", "123.0", "123_4.batch", "123+0.0", "123_[1-3].0"]
    trace = read(*(row(job) for job in jobs + steps))
    assert trace.table.job_id.tolist() == jobs
    assert trace.report.steps == len(steps)
    assert trace.report.notes == {UNSPLIT_ARRAY: 2}


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1-06:00:00", 108_000),
        ("2-12", 216_000),
        ("00:30:00", 1_800),
        ("UNLIMITED", UNLIMITED_S),
        ("Partition_Limit", MISSING),
        ("", MISSING),
    ],
)
def test_limits(read, text, seconds):
    assert read(row(limit=text)).table.limit_s.tolist() == [seconds]


def test_states(read):
    words = ("CANCELLED by 123", "OUT_OF_MEMORY", "FOO", "CANCELLED+")
    trace = read(*(row(str(job), state=state) for job, state in enumerate(words)))
    states = [JobState.CANCELLED, JobState.OUT_OF_MEMORY, JobState.UNKNOWN, JobState.CANCELLED]
    assert trace.table.state.tolist() == states
    assert [count for what, count in trace.report.notes.items() if "state" in what] == [1]


def test_a_job_that_has_not_ended_has_no_end(read):
    waits = row("2", state="PENDING", start="Unknown", elapsed="00:00:00")
    table = read(row(state="RUNNING", end="Unknown"), waits).table
    assert table.end_s.tolist() == [MISSING, MISSING]
    assert (table.start_s >= 0).tolist() == [True, False]


def test_a_job_cancelled_while_pending_never_started(read):
    trace = read(
        row(state="CANCELLED by 5", start="09:05:00", elapsed="00:00:00", hosts="None assigned"),
        row("2", state="CANCELLED by 5", start="09:05:00", elapsed="00:00:00"),
    )
    assert (trace.table.start_s >= 0).tolist() == [False, True]
    assert sum("pending" in what for what in trace.report.notes) == 1


def test_nodes_come_from_the_node_list_where_their_number_is_missing(read):
    table = read(row(nodes="0"), row("2", nodes="", hosts="None assigned"), row("3", nodes="7")).table
    assert table.nodes.tolist() == [2, 2, 7]


def test_counts_abbreviated_by_1024(read):
    table = read("1|1K|64K|", "2|1.5k|7|", header="JobID|AllocNodes|AllocCPUS|").table
    assert (table.nodes.tolist(), table.cpus.tolist()) == ([1024, 1536], [65_536, 7])


def test_gres_of_old_versions_is_per_node(read):
    header = "JobID|NNodes|AllocGRES|ReqGRES"
    table = read("1|2|gpu:2|", "2|3|gres:gpu:8|", "3|2||gpu:tesla:1", "4|1||", header=header).table
    assert table.gpus.tolist() == [4, 24, 2, MISSING]


def test_attempts_of_a_requeued_job_are_all_read(read):
    trace = read(row("7", state="NODE_FAIL"), row("7", submit="10:00:00", start="10:01:00", end="10:30:00"))
    assert trace.table.job_id.tolist() == ["7", "7"]
    assert sum("attempt" in what for what in trace.report.notes) == 1


OVER_THE_HOUR = "job over the hour in which summer time begins or ends (its run time is Elapsed)"


@pytest.mark.parametrize(
    ("day", "start", "end", "elapsed", "zone", "times"),
    [
        # summer time ends in Berlin at 01:00 UTC: 02:00 to 03:00 happens twice
        ("2024-10-27", "01:30:00", "02:15:00", "01:45:00", "Europe/Berlin", ("2024-10-26T23:30", 6300)),
        ("2024-10-27", "02:15:00", "04:05:00", "01:50:00", "Europe/Berlin", ("2024-10-27T01:15", 6600)),
        ("2024-10-27", "02:15:00", "04:05:00", "02:50:00", "Europe/Berlin", ("2024-10-27T00:15", 10_200)),
        ("2024-10-27", "02:50:00", "02:20:00", "00:30:00", "Europe/Berlin", ("2024-10-27T00:50", 1800)),
        # the zone is not named
        ("2024-10-27", "02:50:00", "02:20:00", "00:30:00", "UTC", ("2024-10-27T02:50", 1800)),
        ("2024-03-31", "01:45:00", "03:25:00", "00:40:00", "UTC", ("2024-03-31T01:45", 2400)),
        ("2024-03-31", "01:45:00", "03:25:00", "00:40:00", "Europe/Berlin", ("2024-03-31T00:45", 2400)),
        # a job that was suspended for another time than an hour
        ("2024-10-27", "01:30:00", "04:15:00", "02:05:00", "Europe/Berlin", ("2024-10-26T23:30", 13_500)),
    ],
)
def test_a_job_over_the_hour_of_summer_time_has_its_run_time(read, day, start, end, elapsed, zone, times):
    line = f"1|{day}T01:00:00|{day}T{start}|{day}T{end}|{elapsed}"
    trace = read(line, header="JobID|Submit|Start|End|Elapsed", timezone=zone)
    found = np.datetime64(int(trace.table.start_s[0]), "s").astype("datetime64[m]")
    assert (str(found), int(trace.table.run_s[0])) == times
    expected = {} if zone == "Europe/Berlin" and times[1] in (10_200, 2400, 13_500) else {OVER_THE_HOUR: 1}
    assert trace.report.notes == expected


@pytest.mark.parametrize(("end", "notes"), [("", {NOT_ENDED: 1}), ("\n", {}), ("\r\n", {})])
def test_a_last_line_without_its_end_is_noted(tmp_path, end, notes):
    (tmp_path / "t").write_bytes(f"JobID|NNodes|Elapsed\n1|2|01:00:00{end}".encode())
    trace = read_trace(tmp_path / "t")
    assert trace.table.elapsed_s.tolist() == [3600]
    assert trace.report.notes == notes


def test_a_separator_in_a_name_is_restored(read):
    trace = read(row(name="a|b||c"), row("2.batch", name="x|y"))
    assert trace.table.name.values() == ["a|b||c"]
    assert trace.report.steps == 1


def test_cells_in_quotes_are_read_where_the_delimiter_is_a_comma(read):
    header = "JobID,JobName,AllocTRES,NNodes"
    rows = ['1,train,"cpu=32,gres/gpu=4,node=1",1', '2,"a ""b"", c","cpu=8,node=2",2', '3,"d",,3', "4,e,cpu=9,node=4,4"]
    table = read(*rows, header=header, delimiter=",").table
    assert table.name.values() == ["train", 'a "b", c', '"d"', "e"], "sacct itself never quotes"
    assert (table.gpus.tolist(), table.cpus.tolist()) == ([4, 0, -1, 0], [32, 8, -1, 9])
    assert table.nodes.tolist() == [1, 2, 3, 4]


def test_a_separator_in_the_last_field_is_restored(read):
    table = read("5|2024-01-15T08:00:00|COMPLETED|x|y|", header="JobID|Submit|State|JobName").table
    assert table.name.values() == ["x|y|"]


def test_a_row_that_reads_in_two_ways_is_skipped_with_a_reason(read):
    header = "JobID|JobName|Comment|State"
    with pytest.raises(TraceError, match=r"sacct\.txt:2: too many fields: 5 of 4; .*more than one way"):
        read("1|a|b|c|COMPLETED", header=header)
    trace = read("1|a|b|c|COMPLETED", "2|a|b|FAILED", header=header, on_error="skip")
    assert trace.table.job_id.tolist() == ["2"]
    assert trace.report.skipped["too many fields"].first_line == 2


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (row("abc"), r"not a job id: 'abc'"),
        (row(start="noon!"), r"not a time: 'noon!'"),
        (row(limit="long"), r"not a duration: Timelimit is 'long'"),
        (row(limit="9" * 20 + "-00:00:00"), r"not a duration: Timelimit is '9+-00:00:00'"),
        (row(cpus="9" * 20), r"not a number: ncpus is '9+'"),
        (row(start="9" * 20), r"not a time: '2024-01-15T9+'"),
        (row(nodes="two"), r"not a number: nnodes is 'two'"),
        ("9|x", r"too few fields: 2 of 13, in '9\|x'"),
    ],
)
def test_strict_names_file_line_value_and_skipping_counts(read, line, complaint):
    with pytest.raises(TraceError, match=rf"sacct\.txt:4: {complaint}; \w+"):
        read(row(), "", line, row("2"))
    trace = read(row(), "", line, row("2"), line, on_error="skip")
    ((_, skipped),) = trace.report.skipped.items()
    assert (skipped.count, skipped.first_line, len(trace.table)) == (2, 4, 2)
    assert trace.report.accounted == trace.report.lines == 6


def test_without_a_header_the_fields_are_given(read):
    table = read("1|2024-01-15T08:00:00|3", header="", fields=["JobID", "Submit", "NNodes%10"]).table
    assert (table.nodes.tolist(), table.submit_s.tolist()) == ([3], [1_705_305_600])
    with pytest.raises(TraceError, match="no header with a JobID, and 3 fields without names"):
        read("1|2024-01-15T08:00:00|3", header="", format="sacct")
    with pytest.raises(TraceError, match="hold no JobID"):
        read("1|2", header="", fields=["User", "State"])


@pytest.mark.parametrize("named", [{}, {"format": "sacct"}, {"fields": ["JobID", "Start"]}])
def test_columns_of_a_fixed_width_are_refused_with_the_remedy(read, named):
    with pytest.raises(TraceError, match=r"sacct.txt:1: its columns have a fixed width, .*; make it with sacct -P$"):
        read(
            "------------ ---------- --------",
            "12            train      2024-01+",
            header="JobID JobName Start",
            **named,
        )


def test_given_fields_may_not_contradict_a_header(read):
    assert len(read("1|a", header="JobID|JobName", fields=["jobid", "JobName%20"]).table) == 1
    with pytest.raises(TraceError, match=r"names its own fields \(JobID\|JobName\|State\), and other fields were"):
        read("1|a|COMPLETED", header="JobID|JobName|State", fields=["JobID", "State", "JobName"])


def test_parsable_and_concatenated_output(read):
    trace = read("1|a|", "JobID|JobName|", "2|b|", header="JobID|JobName|")
    assert trace.table.name.values() == ["a", "b"]
    assert trace.report.header == 2


@pytest.mark.parametrize("on_error", ["strict", "skip"])
@pytest.mark.parametrize("other", ["JobID|NCPUS|NNodes|JobName", "JobID|NNodes", "JobIDRaw|NNodes|NCPUS|JobName|"])
@pytest.mark.parametrize("header", ["JobID|NNodes|NCPUS|JobName", ""])
def test_a_further_heading_with_other_columns_is_an_error(read, header, other, on_error):
    fields = None if header else ["JobID", "NNodes", "NCPUS", "JobName"]
    than = "line 1" if header else "--fields"
    at = 3 if header else 2
    with pytest.raises(TraceError, match=rf"sacct\.txt:{at}: .* heading with other columns than {than}; export"):
        read("1|2|64|a", other, "2|32|1|b", header=header, fields=fields, on_error=on_error)


@pytest.mark.parametrize("again", ["JobID|NNodes|NCPUS|JobName|", "jobid|NNodes|NCPUS|JobName%30"])
def test_a_further_heading_with_the_same_columns_may_be_written_otherwise(read, again):
    trace = read("1|2|64|a", again, "2|1|32|JobID", "line|of a name", header="JobID|NNodes|NCPUS|JobName")
    assert trace.table.nodes.tolist() == [2, 1]
    assert trace.table.name.values() == ["a", "JobID\nline|of a name"]
    assert (trace.report.header, trace.report.skipped) == (2, {})


def test_bytes_that_are_not_utf8_do_not_cost_the_row(tmp_path):
    path = tmp_path / "latin.txt"
    path.write_bytes(b"JobID|JobName\n1|a\xe0b\n2|a\xc3\xa0b\n")
    trace = read_trace(path)
    assert trace.table.name.values() == ["a\ufffdb", "aàb"]
    assert sum("UTF-8" in what for what in trace.report.notes) == 1


@pytest.mark.parametrize(
    ("name", "jobs", "steps", "notes"),
    [
        ("sacct-fixtures/xdmod/phillips.log.gz", 4285, 0, {"pending": 239}),
        ("sacct-fixtures/xdmod/pozidriv.log.gz", 11704, 0, {"pending": 419}),
        ("sacct-fixtures/xdmod/unit/accounting-logs.log", 4, 0, {}),
        ("sacct-fixtures/xdmod/unit/accounting-logs-with-job-arrays.log", 6, 0, {"array": 5}),
        ("sacct-fixtures/xdmod/unit/unknown-job-state.log", 2, 0, {"state": 2}),
        ("sacct-fixtures/xdmod/unit/non-ended-job-state.log", 2, 0, {}),
        ("sacct-fixtures/xdmod/unit/utf8-multibyte-chars.log", 1, 0, {}),
        ("sacct-fixtures/schedulers/slurm/sacct_parsable2.txt", 7, 1, {}),
        ("slurm-fixtures/sacct.P.ALL.txt", 17, 12, {"|": 3, "same user": 17}),
        ("slurm-fixtures/sacct.X.P.txt", 24, 0, {"same user": 24}),
        ("slurm-fixtures/25.11/sacct.X.P.ALL.txt", 12, 0, {}),
    ],
)
def test_real_output(shared_data, name, jobs, steps, notes):
    report = read_trace(shared_data / name).report
    assert (report.format, report.jobs, report.steps) == ("sacct", jobs, steps)
    assert report.accounted == report.lines
    assert len(report.notes) == len(notes)
    for word, count in notes.items():
        assert [n for what, n in report.notes.items() if word in what] == [count]


def test_xdmod_known_values(shared_data):
    folder = shared_data / "sacct-fixtures/xdmod"
    few = read_trace(folder / "unit/accounting-logs.log").table
    assert few.nodes.tolist() == [32, 3, 4, 2]
    assert few.gpus.tolist() == [0, 0, 0, 2]
    assert few.name.values() == ["1AbC-2-3", "100-Floors-of-Frights", "anonjobname", "allocation"]
    assert read_trace(folder / "unit/utf8-multibyte-chars.log").table.name.values() == ["aàb"]
    many = read_trace(folder / "pozidriv.log.gz").table
    assert (many.limit_s == MISSING).sum() == 58  # Partition_Limit
    assert (many.state == JobState.PREEMPTED).sum() == 86
    ran = many.start_s >= 0
    assert (many.elapsed_s == many.run_s)[ran].all()
