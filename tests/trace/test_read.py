"""Any format, detected by content; compression; and a report that adds up."""

import bz2
import gzip
import io
import lzma
import re
import sys
import tarfile
import zipfile
from functools import partial

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mirage.errors import ConfigurationError, TraceError, UnknownName
from mirage.extras import install
from mirage.trace.read_trace import READERS, detect_format, read_trace
from mirage.trace.table import JobTable
from mirage.trace.write_trace import WRITERS, write_trace

SWF = b"; Version: 2.2\n1 100 20 60 4 -1 -1 4 600 -1 1 7 2 9 1 5 -1 -1\n"
SACCT = b"JobID|JobName|State|Submit\n1|a|COMPLETED|2024-01-15T08:00:00\n1.batch|batch|COMPLETED|\n"
LOG = (
    b"3\nJobID JobName UID Start Submit End Priority TimelimitR ExitCode NNodes\n--- ---\n"
    b"1\tn\t0\t2022-11-01T15:34:14\t2022-10-05T11:52:48\t2022-11-03T15:34:15\t1\t2880\t0:0\t2\n"
)
JSON = b'{"meta": {},\n "jobs": [\n {"job_id": 1, "time": {}, "state": {"current": "FAILED"}, "steps": [{}]}\n]}\n'
CONTENT = {
    "swf": SWF,
    "sacct": SACCT,
    "mirage-log": LOG,
    "sacct-json": JSON,
    "pbs": b"01/15/2024 08:10:00;E;1.head;user=ada ctime=1705305600 start=1705305700 end=1705306200\n",
    "schedule": b"id,submit,start,end\n1,1700000000,1700000060,\n",
    "csv": WRITERS["csv"](JobTable.build(["1"], nodes=[2])),
    "parquet": WRITERS["parquet"](JobTable.build(["1"], nodes=[2])),
}


def test_a_byte_order_mark_is_no_part_of_a_line_in_joined_files_either(tmp_path):
    part = b"\xef\xbb\xbfJobID|Submit|NNodes\n%d|2024-01-01T00:00:00|1\n"
    (tmp_path / "x").write_bytes(part % 1 + part % 2)
    trace = read_trace(tmp_path / "x")
    assert (trace.table.job_id.tolist(), trace.report.header) == (["1", "2"], 2)


def test_a_byte_order_mark_inside_parquet_is_data(tmp_path):
    names = ["a\n\ufeffb", "c"]
    table = JobTable.build(["1", "2"], submit_s=[1, 2], nodes=[1, 1], name=names)
    write_trace(table, tmp_path / "x.parquet")
    assert b"\n\xef\xbb\xbf" in (tmp_path / "x.parquet").read_bytes()
    assert read_trace(tmp_path / "x.parquet").table.name.values() == names


def test_every_reader_is_tested_here():
    assert CONTENT.keys() == READERS.keys()


@pytest.mark.parametrize("name", CONTENT)
@pytest.mark.parametrize(
    "compress",
    [bytes, gzip.compress, bz2.compress, lzma.compress, lambda content: gzip.compress(lzma.compress(content))],
)
def test_the_format_is_detected_from_content_under_any_name(tmp_path, name, compress):
    path = tmp_path / "jobs.txt"
    path.write_bytes(compress(CONTENT[name]))
    trace = read_trace(path)
    assert (trace.report.format, trace.table.job_id.tolist()) == (name, ["1"])
    assert trace.report.accounted == trace.report.lines
    assert trace.report.to_json()["path"] == str(path)


def test_swf_is_known_without_comments_and_json_as_a_bare_list():
    assert detect_format(SWF.split(b"\n", 1)[1], "x") == "swf"
    assert detect_format(b'[\n{"job_id": 1}]', "x") == "sacct-json"
    assert detect_format(b"a|b\n", "x", has_fields=True) == "sacct"


@pytest.mark.parametrize(
    "content",
    [
        b"Dear all,\nplease",
        b"1 2 3\n",
        b"[1, 2]",
        b"Owner Acct" + b" Name" * 16 + b"\nada physics" + b" 1" * 16,
    ],
)
def test_content_that_is_no_trace(tmp_path, content):
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(TraceError, match=r"x:1: '.*' looks like none of the known formats .*sacct -P"):
        read_trace(tmp_path / "x")


def test_an_archive_is_named(tmp_path):
    (tmp_path / "sacct.txt").write_bytes(SACCT)
    with tarfile.open(tmp_path / "sacct.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "sacct.txt", "sacct.txt")
    with pytest.raises(TraceError, match="it is a tar archive; unpack it"):
        read_trace(tmp_path / "sacct.tar.gz")
    with zipfile.ZipFile(tmp_path / "sacct.zip", "w") as archive:
        archive.write(tmp_path / "sacct.txt", "sacct.txt")
    with pytest.raises(TraceError, match="it is a zip archive; unpack it"):
        read_trace(tmp_path / "sacct.zip")


@pytest.mark.parametrize("member", ["[Content_Types].xml", "xl/workbook.xml"])
def test_a_spreadsheet_is_named(tmp_path, member):
    with zipfile.ZipFile(tmp_path / "jobs.xlsx", "w") as archive:
        archive.writestr(member, "<Types/>")
    for request in ({}, {"format": "csv"}, {"columns": "submit_s=submit"}):
        with pytest.raises(TraceError, match="it is a spreadsheet; save it as CSV"):
            read_trace(tmp_path / "jobs.xlsx", **request)


def test_a_pointer_of_git_lfs_is_named(tmp_path):
    (tmp_path / "x").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n")
    for request in ({}, {"format": "csv"}, {"columns": "submit_s=submit"}):
        with pytest.raises(TraceError, match=r"x:1: it is a pointer of Git LFS, .*: git lfs pull"):
            read_trace(tmp_path / "x", **request)


@pytest.mark.parametrize("content", [b"JobID|State\r1|COMPLETED\r", b"job_id,submit_s\r1,5\r"])
def test_lines_that_end_in_a_carriage_return_alone(tmp_path, content):
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(TraceError, match=r"x:1: its lines end in a carriage return .*; convert it: tr '\\r' '\\n'"):
        read_trace(tmp_path / "x")
    (tmp_path / "x").write_bytes(b"\x7fELF\0" + content)
    with pytest.raises(TraceError, match=r"x:1: .* looks like none of the known formats"):
        read_trace(tmp_path / "x")


@pytest.mark.parametrize("content", [b"", b" \n\n", gzip.compress(b"", mtime=0)])
def test_an_empty_file(tmp_path, content):
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(TraceError, match="x:1: the file is empty"):
        read_trace(tmp_path / "x")


def test_an_absent_file_and_a_folder(tmp_path):
    with pytest.raises(TraceError, match="absent: cannot be read: No such file"):
        read_trace(tmp_path / "absent")
    with pytest.raises(TraceError, match="Is a directory"):
        read_trace(tmp_path)


def test_unknown_names():
    with pytest.raises(UnknownName, match="Did you mean 'swf'"):
        read_trace("x", format="sfw")
    with pytest.raises(ConfigurationError, match="on_error is 'ignore'"):
        read_trace("x", on_error="ignore")
    with pytest.raises(ConfigurationError, match="time zone"):
        read_trace("x", timezone="Mars/Olympus")


def test_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(SWF)))
    trace = read_trace("-")
    assert (trace.report.path, len(trace.table)) == ("<stdin>", 1)


def test_a_closed_standard_input_is_named(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(TraceError, match="<stdin>: standard input is closed; name a file"):
        read_trace("-")


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, partial(lzma.compress, preset=0)])
def test_a_compressed_file_cut_short(tmp_path, compress):
    lines = SWF + b"".join(b"%d 100 20 60 4 -1 -1 4 600 -1 1 7 2 9 1 5 -1 -1\n" % n for n in range(2, 30_000))
    content = compress(lines)
    (tmp_path / "x").write_bytes(content[: len(content) * 9 // 10])
    with pytest.raises(TraceError, match=r"x:\d+: the compressed file is damaged or cut short"):
        read_trace(tmp_path / "x")
    trace = read_trace(tmp_path / "x", on_error="skip")
    assert len(trace.table) > 10_000
    assert any("cut short" in what for what in trace.report.notes)
    assert trace.report.accounted == trace.report.lines


def test_zstd_is_read_where_a_package_is(tmp_path):
    zstandard = pytest.importorskip("zstandard")
    whole = zstandard.compress(SWF) + zstandard.compress(b"2 100 20 60 4 " + b"-1 " * 13 + b"\n")
    (tmp_path / "x").write_bytes(whole)
    assert read_trace(tmp_path / "x").table.job_id.tolist() == ["1", "2"]
    (tmp_path / "x").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(TraceError, match=r"x:2: the compressed file is damaged or cut short"):
        read_trace(tmp_path / "x")


def test_zstd_names_the_extra_where_no_package_reads_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "zstandard", None)
    monkeypatch.setitem(sys.modules, "compression.zstd", None)
    (tmp_path / "x").write_bytes(b"\x28\xb5\x2f\xfd....")
    with pytest.raises(ConfigurationError, match=re.escape(install("zstd"))):
        read_trace(tmp_path / "x")


def test_gzip_in_several_members_with_padding_and_garbage_after(tmp_path):
    second = b"2 100 20 60 4 " + b"-1 " * 13 + b"\n"
    (tmp_path / "x").write_bytes(gzip.compress(SWF) + gzip.compress(second) + b"\0" * 512)
    assert read_trace(tmp_path / "x").table.job_id.tolist() == ["1", "2"]
    (tmp_path / "x").write_bytes(gzip.compress(SWF) + b"\0\0rubbish")
    with pytest.raises(TraceError, match="damaged or cut short: what follows the compressed data is not compressed"):
        read_trace(tmp_path / "x")


@pytest.mark.parametrize("share", [0.5, 0.8, 0.97])
def test_a_small_file_cut_short_gives_the_lines_it_still_holds(tmp_path, share):
    rows = b"".join(b"%d %d 20 60 4 -1 -1 4 600 -1 1 %d 2 9 1 5 -1 -1\n" % (n, n * n, n) for n in range(1, 200))
    content = gzip.compress(rows)
    (tmp_path / "x").write_bytes(content[: int(len(content) * share)])
    message = (
        "the compressed file is damaged or cut short: it ends before its end marker; "
        "fetch it again, or read what precedes the damage with --skip-bad-lines$"
    )
    with pytest.raises(TraceError, match=message):
        read_trace(tmp_path / "x")
    trace = read_trace(tmp_path / "x", on_error="skip")
    ids = trace.table.job_id.tolist()
    assert ids == [str(n) for n in range(1, len(ids) + 1)]
    assert share * 150 < len(ids) < 200
    assert trace.report.skipped == {}
    assert [n for what, n in trace.report.notes.items() if "cut short" in what] == [1]


def test_a_file_cut_before_its_first_line_is_reported_as_cut_not_as_empty(tmp_path):
    (tmp_path / "x").write_bytes(gzip.compress(SWF)[:12])
    with pytest.raises(TraceError, match=r"x:1: the compressed file is damaged or cut short: .*; fetch it again$"):
        read_trace(tmp_path / "x", on_error="skip")


BAD_ONLY = {
    "swf": (b"; c\n1 2\n3 4 x\n", r"2 lines skipped \(2 × not eighteen fields, the first in line 2\)"),
    "sacct": (b"JobID|User\nx|ada\n", r"1 line skipped \(1 × not a job id, the first in line 2\)"),
    "csv": (b"job_id,nodes\n1,many\n,2\n", r"2 records skipped \(1 × not a value of its column, .*; 1 × no job id"),
    "sacct-json": (b'{"jobs": [\n5, {"job_id": 1}]}', r"2 records skipped \(2 × not a record of sacct"),
    "pbs": (b"01/15/2024 08:10:00;E;one;\n\nx\n", r"2 lines skipped \(1 × not a job id, the first in line 1; 1 × not"),
    "mirage-log": (b"\n".join(LOG.split(b"\n")[:3]) + b"\nx\n", r"1 line skipped \(1 × too few fields"),
}


@pytest.mark.parametrize("name", BAD_ONLY)
def test_skipping_everything_is_an_error_that_names_what_was_skipped(tmp_path, name):
    content, message = BAD_ONLY[name]
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(TraceError, match=rf"x: no job could be read: {message}"):
        read_trace(tmp_path / "x", format=name, on_error="skip")


def test_reading_reports_its_progress(tmp_path):
    rows = SACCT + b"".join(b"%d|a|COMPLETED|2024-01-15T08:00:00\n" % n for n in range(2, 20_000))
    (tmp_path / "x").write_bytes(rows)
    message = []
    read_trace(tmp_path / "x", progress=lambda done, total: message.append((done, total)))
    assert len(message) == 2
    assert [total for _, total in message] == [len(rows)] * 2
    assert 0.3 < message[0][0] / len(rows) < 0.45
    assert message[0][0] < message[1][0] < len(rows)


few = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
line = st.one_of(
    st.sampled_from([piece for content in (SWF, SACCT, LOG, JSON) for piece in content.split(b"\n")]),
    st.binary(max_size=40),
    st.text(alphabet="0123456789 .-+|;\t_[]", max_size=60).map(str.encode),
)


@pytest.mark.parametrize("name", ["swf", "sacct", "mirage-log", "pbs"])
@given(garbage=st.lists(line, max_size=12))
@few
def test_garbage_lines_are_skipped_and_the_account_closes(tmp_path, name, garbage):
    path = tmp_path / "x"
    path.write_bytes(CONTENT[name] + b"\n".join(garbage))
    report = read_trace(path, format=name, on_error="skip").report
    assert report.accounted == report.lines
    assert report.jobs >= 1


@pytest.mark.parametrize("name", CONTENT)
@given(data=st.data())
@few
def test_a_damaged_file_is_read_or_refused(tmp_path, name, data):
    content = CONTENT[name]
    at = data.draw(st.integers(0, len(content)))
    damaged = content[:at] + data.draw(st.binary(max_size=8)) + content[at + data.draw(st.integers(0, 8)) :]
    path = tmp_path / "x"
    path.write_bytes(damaged)
    try:
        report = read_trace(path, format=name, on_error="skip").report
    except TraceError:
        return
    assert report.accounted == report.lines


@pytest.mark.parametrize(("users", "warned"), [(["ada"] * 12, True), (["ada"] * 11 + ["bob"], False)])
def test_jobs_of_a_single_user_are_remarked(tmp_path, users, warned):
    rows = [f"{job}|{user}" for job, user in enumerate(users)]
    (tmp_path / "x").write_text("\n".join(["JobID|User", *rows]) + "\n")
    complaints = read_trace(tmp_path / "x").report.complaints()
    assert [("12 × job of one and the same user" in one, "PrivateData" in one) for one in complaints] == (
        [(True, True)] if warned else []
    )


@pytest.mark.parametrize("users", [["ada"] * 9, [""] * 20])
def test_few_jobs_and_unknown_users_are_not_remarked(tmp_path, users):
    rows = [f"{job}|{user}" for job, user in enumerate(users)]
    (tmp_path / "x").write_text("\n".join(["JobID|User", *rows]) + "\n")
    assert read_trace(tmp_path / "x").report.notes == {}


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-16-le"])
@pytest.mark.parametrize("columns", [None, "job_id=job_id,submit_s=submit_s"])
def test_a_text_in_utf_16_names_the_command_that_converts_it(tmp_path, encoding, columns):
    (tmp_path / "x").write_text("\ufeff" * (encoding == "utf-16-be") + "job_id,submit_s\n1,5\n", encoding=encoding)
    with pytest.raises(TraceError, match=r"x:1: it is text in UTF-16; save it in UTF-8: iconv -f UTF-16 -t UTF-8"):
        read_trace(tmp_path / "x", columns=columns)
