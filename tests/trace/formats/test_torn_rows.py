"""Rows of ``sacct -o ALL`` with delimiters and line ends inside their fields."""

import pytest

from mirage.errors import ConfigurationError, TraceError
from mirage.trace.read_trace import read_trace

FIELDS = (
    "Account|AdminComment|AllocCPUS|AllocNodes|AllocTRES|AssocID|AveCPU|AveCPUFreq|AveDiskRead|AveDiskWrite|"
    "AvePages|AveRSS|AveVMSize|BlockID|Cluster|Comment|Constraints|ConsumedEnergy|ConsumedEnergyRaw|Container|"
    "CPUTime|CPUTimeRAW|DBIndex|DerivedExitCode|Elapsed|ElapsedRaw|Eligible|End|ExitCode|Flags|GID|Group|"
    "JobID|JobIDRaw|JobName|Layout|MaxDiskRead|MaxDiskReadNode|MaxDiskReadTask|MaxDiskWrite|MaxDiskWriteNode|"
    "MaxDiskWriteTask|MaxPages|MaxPagesNode|MaxPagesTask|MaxRSS|MaxRSSNode|MaxRSSTask|MaxVMSize|MaxVMSizeNode|"
    "MaxVMSizeTask|McsLabel|MinCPU|MinCPUNode|MinCPUTask|NCPUS|NNodes|NodeList|NTasks|Partition|Priority|QOS|"
    "QOSRAW|Reason|ReqCPUFreq|ReqCPUFreqGov|ReqCPUFreqMax|ReqCPUFreqMin|ReqCPUS|ReqMem|ReqNodes|ReqTRES|"
    "Reservation|ReservationId|Reserved|ResvCPU|ResvCPURAW|Start|State|Submit|SubmitLine|Suspended|"
    "SystemComment|SystemCPU|Timelimit|TimelimitRaw|TotalCPU|TRESUsageInAve|TRESUsageInMax|UID|User|UserCPU|"
    "WCKey|WCKeyID|WorkDir"
)
ALL = FIELDS.split("|")
"""The fields of 21.08 in its order, all but some of the TRESUsage…."""

OLD = [name for name in ALL if name not in ("SubmitLine", "Container")]
"""20.11 keeps no submit lines."""

JOB = {
    "Account": "lab", "AllocCPUS": "4", "AllocNodes": "1", "AllocTRES": "billing=4,cpu=4,gres/gpu=2,mem=8G,node=1",
    "AssocID": "7", "Cluster": "c1", "CPUTime": "04:00:00", "CPUTimeRAW": "14400", "DBIndex": "99",
    "DerivedExitCode": "0:0", "Elapsed": "01:00:00", "ElapsedRaw": "3600", "Eligible": "2024-01-15T08:00:00",
    "End": "2024-01-15T09:05:00", "ExitCode": "0:0", "Flags": "SchedBackfill", "GID": "1001", "Group": "users",
    "JobID": "1", "JobIDRaw": "1", "JobName": "wrap", "NCPUS": "4", "NNodes": "1", "NodeList": "n1",
    "Partition": "gpu", "Priority": "4048", "QOS": "normal", "QOSRAW": "1", "Reason": "None",
    "ReqCPUFreq": "Unknown", "ReqCPUFreqGov": "Unknown", "ReqCPUFreqMax": "Unknown", "ReqCPUFreqMin": "Unknown",
    "ReqCPUS": "4", "ReqMem": "8000M", "ReqNodes": "1", "ReqTRES": "billing=4,cpu=4,gres/gpu=2,mem=8G,node=1",
    "Reserved": "00:05:00", "ResvCPU": "00:20:00", "ResvCPURAW": "1200", "Start": "2024-01-15T08:05:00",
    "State": "COMPLETED", "Submit": "2024-01-15T08:00:00", "SubmitLine": "sbatch job.sh", "Suspended": "00:00:00",
    "SystemCPU": "00:01.203", "Timelimit": "2-00:00:00", "TimelimitRaw": "2880", "TotalCPU": "3-01:02:03",
    "UID": "1001", "User": "ada", "UserCPU": "59:58.797", "WCKeyID": "0", "WorkDir": "/home/ada",
}  # fmt: skip


def lines(*jobs, fields=ALL, delimiter="|"):
    rows = [delimiter.join((JOB | {"JobID": str(k), "JobIDRaw": str(k)} | job).get(f, "") for f in fields)
            for k, job in enumerate(jobs, 1)]  # fmt: skip
    return "\n".join([delimiter.join(fields), *rows]) + "\n"


@pytest.fixture
def read(tmp_path):
    def read_text(text, **options):
        (tmp_path / "sacct.txt").write_text(text)
        return read_trace(tmp_path / "sacct.txt", **options)

    return read_text


def assert_all_read(trace, jobs):
    table, report = trace.table, trace.report
    assert (report.jobs, report.skipped, report.accounted) == (jobs, {}, report.lines)
    assert table.job_id.tolist() == [str(k) for k in range(1, jobs + 1)]
    expected = {
        "submit_s": 1_705_305_600, "start_s": 1_705_305_900, "end_s": 1_705_309_500, "elapsed_s": 3600,
        "limit_s": 172_800, "nodes": 1, "cpus": 4, "gpus": 2, "priority": 4048,
    }  # fmt: skip
    for name, value in expected.items():
        assert set(getattr(table, name).tolist()) == {value}, name
    assert set(table.user.values()) == {"ada"}


BARS = [
    {"SubmitLine": 'sbatch --wrap env | egrep "SLURM|CUDA" | sort; scontrol show job $SLURM_JOB_ID -d | grep GRES'},
    {"SubmitLine": "sbatch --wrap a|b"},
    {"SubmitLine": "sbatch --wrap a||b"},
    {"SubmitLine": "sbatch --wrap |"},
    {"SubmitLine": "sbatch job.sh"},
    {"SubmitLine": "sbatch --comment 00:01|00:02 x", "Comment": "00:01|00:02"},
    {"SubmitLine": "sbatch -J Job| Name |003 x", "JobName": "Job| Name |003"},
]


def test_bars_in_submit_lines_comments_and_names_of_all_fields(read):
    trace = read(lines(*BARS))
    assert_all_read(trace, 7)
    assert trace.table.name.values() == ["wrap"] * 6 + ["Job| Name |003"]
    assert [count for what, count in trace.report.notes.items() if "|" in what] == [6]


def test_a_bar_in_a_name_of_20_11(read):
    trace = read(lines({"JobName": "Job| Name |003"}, {}, {"JobName": "a|0"}, fields=OLD))
    assert_all_read(trace, 3)
    assert trace.table.name.values() == ["Job| Name |003", "wrap", "a|0"]


def test_line_ends_in_submit_lines_and_comments(read):
    script = "sbatch --wrap #!/bin/bash\nsource env.sh\n\npython train.py | tee log\n"
    trace = read(
        lines(
            {"SubmitLine": script},
            {},
            {"Comment": "first\nsecond"},
            {"Comment": "a\nb|c", "SubmitLine": "sbatch --comment a\nb|c x"},
            {"JobName": "two\nlines"},
            {},
        )
    )
    assert_all_read(trace, 6)
    assert trace.report.continued == 3 + 1 + 2 + 1
    assert trace.report.blank == 1
    assert trace.table.name.values()[4] == "two\nlines"
    assert [count for what, count in trace.report.notes.items() if "line ends" in what] == [4]


def test_a_row_cut_short_takes_no_other_row_with_it(read):
    whole = lines({}, {"SubmitLine": "sbatch --wrap a\nb"}, {}).splitlines()
    cut = whole[1][: whole[1].index("sbatch") + 3]
    text = "\n".join([whole[0], cut, *whole[1:], cut, ""])
    with pytest.raises(TraceError, match=r"sacct\.txt:2: too few fields: 81 of 95, in .*; the line is cut short"):
        read(text)
    trace = read(text, on_error="skip")
    assert trace.table.job_id.tolist() == ["1", "2", "3"]
    assert trace.report.skipped["too few fields"].count == 2
    assert trace.report.accounted == trace.report.lines


def test_line_ends_in_a_last_field_that_users_write(read):
    fields = ["JobID", "State", "SubmitLine"]
    trace = read(lines({"SubmitLine": "sbatch --wrap a\nb | c\n"}, {"SubmitLine": "x\ny"}, {}, fields=fields))
    assert trace.table.job_id.tolist() == ["1", "2", "3"]
    assert (trace.report.continued, trace.report.accounted) == (2, trace.report.lines)
    cut = read(lines({}, {}, fields=fields) + "3|COMPL", on_error="skip")
    assert (cut.table.job_id.tolist(), cut.report.skipped["too few fields"].first_line) == (["1", "2"], 4)
    named = read(lines({"JobName": "a\nb|c"}, {"JobName": "d"}, fields=["JobID", "State", "JobName"]))
    assert named.table.name.values() == ["a\nb|c", "d"]


def test_concatenated_output_with_a_row_cut_at_the_seam(read):
    text = lines({}, {"SubmitLine": "sbatch a\nb"})
    first = text.rstrip("\n")
    trace = read(first[: first.index("sbatch a") + 4] + "\n" + text, on_error="skip")
    assert trace.table.job_id.tolist() == ["1", "2"]
    assert (trace.report.header, trace.report.skipped_total, trace.report.merged) == (2, 1, 1)
    assert trace.report.accounted == trace.report.lines


@pytest.mark.parametrize("delimiter", [";", ",", "^", "\t", "@#@", "\x1f", "."])
def test_other_delimiters(read, delimiter):
    jobs = [{"NodeList": "n[1,3-4]", "NNodes": "3", "ReqNodes": "3"}, {"JobID": "2_[1,5%2]"}, {"SubmitLine": "a b"}]
    plain = read(lines(*jobs)).table
    fields = ALL if delimiter != "." else ["JobID", "NodeList", "AllocTRES", "NNodes", "State"]
    trace = read(lines(*jobs, fields=fields, delimiter=delimiter), delimiter=delimiter)
    assert (trace.report.format, trace.report.jobs, trace.report.skipped) == ("sacct", 3, {})
    assert trace.table.job_id.tolist() == plain.job_id.tolist() == ["1", "2_[1,5%2]", "3"]
    for name in ("nodes", "gpus"):
        assert getattr(trace.table, name).tolist() == getattr(plain, name).tolist()
    assert plain.nodes.tolist() == [3, 1, 1]


def test_without_a_delimiter_the_message_requests_one(read):
    with pytest.raises(TraceError, match=r"none of the known formats .*; if sacct wrote it, name the delimiter"):
        read(lines({}, delimiter=";"))
    with pytest.raises(ConfigurationError, match="the delimiter is empty"):
        read(lines({}), delimiter="")


def test_rows_that_end_with_the_delimiter(read):
    text = "".join(f"{line}|\n" for line in lines(*BARS).splitlines())
    trace = read(text)
    assert_all_read(trace, 7)
    assert trace.table.name.values()[-1] == "Job| Name |003"


def test_the_minutes_of_timelimitraw_and_the_dependency(read):
    fields = ["JobID", "State", "TimelimitRaw", "Dependency"]
    trace = read(
        lines({"TimelimitRaw": "90", "Dependency": "afterany:7"}, {"TimelimitRaw": "UNLIMITED"},
              {"TimelimitRaw": "Partition_Limit"}, {"TimelimitRaw": ""}, fields=fields)
    )  # fmt: skip
    assert trace.table.limit_s.tolist() == [5_400, 2**40, -1, -1]
    assert trace.table.dependency.values() == ["afterany:7", "", "", ""]
    both = read(lines({"Timelimit": "01:00:00", "TimelimitRaw": "90"}, fields=["JobID", "Timelimit", "TimelimitRaw"]))
    assert both.table.limit_s.tolist() == [3_600]
    with pytest.raises(TraceError, match="not a number: timelimitraw is 'long'"):
        read(lines({"TimelimitRaw": "long"}, fields=fields))


def test_real_output_with_all_its_submit_lines_torn(shared_data, read):
    """Submit lines of a real dump, with more line ends and bars, give equal jobs."""
    text = (shared_data / "slurm-fixtures/25.11/sacct.X.P.ALL.txt").read_text()
    plain = read(text).table
    torn = text.replace("|sbatch ", "|sbatch --wrap 'a | b\nc || d\n' ")
    assert torn.count("\n") > text.count("\n") + 10
    trace = read(torn)
    assert trace.report.continued == torn.count("\n") - text.count("\n")
    assert trace.table.job_id.tolist() == plain.job_id.tolist()
    for name in ("limit_s", "submit_s", "start_s", "end_s", "nodes", "gpus", "state", "priority"):
        assert getattr(trace.table, name).tolist() == getattr(plain, name).tolist(), name
