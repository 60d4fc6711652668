"""``mirage trace info`` and ``mirage trace convert``."""

import io
import json

import pytest
from rich.console import Console

from mirage.cli import main
from mirage.report.terminal.trace_text import print_trace, sparkline
from mirage.trace.read_trace import read_trace
from mirage.trace.statistics.summary import describe

SACCT = """JobID|User|State|Submit|Start|End|Timelimit|NNodes|Partition
1|ada|COMPLETED|2024-01-15T08:00:00|2024-01-15T08:05:00|2024-01-15T09:05:00|2-00:00:00|2|gpu
2|bo|TIMEOUT|2024-01-15T09:00:00|2024-01-15T09:05:00|2024-01-15T10:05:00|01:00:00|3|gpu
2.batch|bo|TIMEOUT|||||3|
"""


@pytest.fixture
def sacct(tmp_path):
    path = tmp_path / "sacct.txt"
    path.write_text(SACCT)
    return str(path)


def test_human_output(sacct, capsys):
    assert main(["trace", "info", sacct]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "sacct, 4 lines: 2 jobs, 1 step, 0 skipped" in " ".join(out.split())
    assert "submitted 2024-01-15T08:00:00Z to 2024-01-15T09:00:00Z (01:00:00), 2 users" in out
    assert "inferred capacity about 3" in out
    assert "\x1b" not in out


def test_jobs_that_had_not_ended_are_left_out_of_busy_nodes_and_reported(tmp_path, capsys):
    path = tmp_path / "sacct.txt"
    path.write_text(SACCT + "3|bo|RUNNING|2024-01-15T09:00:00|2024-01-15T09:05:00|Unknown|01:00:00|8|gpu\n")
    assert main(["trace", "info", str(path)]) == 0
    assert "peak 3, inferred capacity about 3; without 1 job that had not ended\n" in capsys.readouterr().out


def test_a_capacity_below_the_peak_is_explained(tmp_path, capsys):
    path = tmp_path / "jobs.csv"
    daily = "".join(f"{day},{day * 86_400},{day * 86_400},{day * 86_400 + 43_200},2\n" for day in range(40))
    path.write_text("job_id,submit_s,start_s,end_s,nodes\n" + daily + "b,0,0,3600,2\n")
    assert main(["trace", "info", str(path)]) == 0
    assert "peak 4, inferred capacity about 2 (95% of the time, no more were busy)" in capsys.readouterr().out


def test_json_is_one_value(sacct, capsys):
    assert main(["trace", "info", "--json", sacct]) == 0
    out, err = capsys.readouterr()
    value = json.loads(out)
    assert err == ""
    assert (value["read"]["jobs"], value["read"]["steps"], value["read"]["skipped"]) == (2, 1, {})
    assert value["statistics"]["first_submit"] == "2024-01-15T08:00:00Z"
    assert value["statistics"]["wait_s"]["p50"] == 300
    assert value["statistics"]["busy"]["peak"] == 3


def test_times_are_read_in_the_zone(sacct, capsys):
    assert main(["trace", "info", "--json", "--timezone", "America/Chicago", sacct]) == 0
    assert json.loads(capsys.readouterr().out)["statistics"]["first_submit"] == "2024-01-15T14:00:00Z"


def test_bad_lines_stop_or_are_reported(tmp_path, capsys):
    path = tmp_path / "sacct.txt"
    path.write_text(SACCT + "3|ada\n4|ada\n")
    assert main(["trace", "info", str(path)]) == 1
    assert capsys.readouterr().err.startswith(f"mirage: error: {path}:5: too few fields: 2 of 9, in")
    assert main(["trace", "info", "--json", "--skip-bad-lines", str(path)]) == 0
    out, err = capsys.readouterr()
    assert err == f"mirage: {path}:5: too few fields (the first of 2 skipped for this)\n"
    assert json.loads(out)["read"]["skipped"] == {"too few fields": {"count": 2, "first_line": 5}}


def test_fields_of_a_text_without_header(tmp_path, capsys):
    path = tmp_path / "sacct.txt"
    path.write_text("7|4\n")
    assert main(["trace", "info", "--json", "--fields", "JobID,NNodes", str(path)]) == 0
    assert json.loads(capsys.readouterr().out)["statistics"]["nodes"]["max"] == 4


def test_an_unknown_format_suggests_the_nearest(sacct, capsys):
    assert main(["trace", "info", "--format", "scact", sacct]) == 1
    assert "Did you mean 'sacct'?" in capsys.readouterr().err


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_plot(sacct, tmp_path, capsys, suffix):
    pytest.importorskip("matplotlib")
    picture = tmp_path / f"busy.{suffix}"
    assert main(["trace", "info", "--plot", str(picture), sacct]) == 0
    assert picture.stat().st_size > 5_000


@pytest.mark.parametrize("name", ["busy.docx", "busy.gif", "busy"])
def test_plot_into_an_unknown_kind_is_refused_before_the_trace_is_read(tmp_path, capsys, name):
    assert main(["trace", "info", "--plot", str(tmp_path / name), "/no/such/trace"]) == 1
    assert "its name must end in .png, .pdf, .svg" in capsys.readouterr().err
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize("width", [60, 80, 140])
def test_no_line_is_wider_than_the_terminal(shared_data, width):
    trace = read_trace(shared_data / "mirage-ls6/ls6-a100.log.gz")
    file = io.StringIO()
    console = Console(file=file, width=width, force_terminal=True, color_system=None, highlight=False)
    print_trace(trace, describe(trace.table), console)
    lines = file.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    (bars,) = [line for line in lines if "▁" in line]
    assert len(bars) == width


def test_a_trace_without_starts_is_shown(shared_data, capsys):
    assert main(["trace", "info", str(shared_data / "synthetic-reference/w5k.swf.gz")]) == 0
    out = capsys.readouterr().out
    assert "5,000 jobs" in out
    assert "busy nodes" not in out


def test_sparkline():
    assert sparkline([0, 1, 2, 4, 9], 4, "_-=#") == "_-=##"
    assert sparkline([1, 2], 0, "_#") == "__"


@pytest.mark.parametrize("name", ["jobs.csv", "jobs.parquet", "jobs.swf", "jobs.csv.gz"])
def test_convert(sacct, tmp_path, capsys, name):
    out = str(tmp_path / name)
    assert main(["trace", "convert", sacct, out]) == 0
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", f"mirage: 2 jobs written to {out}\n")
    assert read_trace(out).table.start_s.tolist() == read_trace(sacct).table.start_s.tolist()


def test_convert_names_the_format_it_does_not_know(sacct, tmp_path, capsys):
    assert main(["trace", "convert", sacct, str(tmp_path / "jobs.xlsx")]) == 1
    assert (
        "jobs.xlsx: its name has no format to write; end it in .csv, .parquet, .swf, each also with .gz, or name one "
        "with --to (in Python format=)\n"
    ) in capsys.readouterr().err
    assert main(["trace", "convert", sacct, str(tmp_path)]) == 1
    assert "it is a folder; name a file" in capsys.readouterr().err
    assert main(["trace", "convert", sacct, str(tmp_path / "jobs.xlsx"), "--to", "csv"]) == 0


def test_convert_scales_nodes(sacct, tmp_path, capsys):
    twice = str(tmp_path / "twice.csv")
    assert main(["trace", "convert", sacct, twice, "--scale-nodes", "4/2"]) == 0
    assert read_trace(twice).table.nodes.tolist() == (2 * read_trace(sacct).table.nodes).tolist()
    for wrong in ("0", "-1", "1/0", "half", "1e400", "1e999999999", "1/2/3"):
        assert main(["trace", "convert", sacct, twice, "--scale-nodes", wrong]) == 2
        assert "76/4360" in capsys.readouterr().err


def test_convert_reports_jobs_that_cannot_be_scaled_down(tmp_path, capsys):
    path, out = tmp_path / "jobs.csv", str(tmp_path / "small.csv")
    path.write_text("job_id,nodes,elapsed_s\n1,1,60\n2,3,20\n3,40,30\n")  # 1,320 node-seconds: 132, and 60 + 20 + 120
    assert main(["trace", "convert", str(path), out, "--scale-nodes", "0.1"]) == 0
    load = "; all jobs together need 1.52 times the scaled node-hours"
    assert capsys.readouterr().err.startswith(
        f"mirage: 2 jobs of {path} below one node after scaling, raised to one node{load}\n"
    )
    path.write_text("job_id,nodes\n1,1\n2,30\n")
    assert main(["trace", "convert", str(path), out, "--scale-nodes", "0.1"]) == 0
    assert capsys.readouterr().err.startswith(
        f"mirage: 1 job of {path} below one node after scaling, raised to one node\n"
    )


@pytest.mark.parametrize(("factor", "load"), [("3/2", 1.15), ("1.3", 0.919), ("1.2", None), ("3", None)])
def test_convert_reports_a_load_that_rounding_changes(tmp_path, capsys, factor, load):
    path = tmp_path / "jobs.csv"
    path.write_text("job_id,nodes,elapsed_s\n1,1,60\n2,3,20\n3,4,15\n")  # 60 node-seconds each
    assert main(["trace", "convert", str(path), str(tmp_path / "large.csv"), "--scale-nodes", factor]) == 0
    rounded = f"mirage: nodes of jobs of {path} rounded after scaling; all jobs together need {load} times the scaled"
    assert capsys.readouterr().err.startswith(rounded if load else "mirage: 3 jobs written to")


@pytest.mark.parametrize(("given", "delimiter"), [(";", ";"), (r"\t", "\t"), ("@@", "@@")])
def test_the_delimiter_of_sacct(tmp_path, capsys, given, delimiter):
    path = tmp_path / "sacct.txt"
    path.write_text(SACCT.replace("|", delimiter))
    assert main(["trace", "info", "--json", "--delimiter", given, str(path)]) == 0
    read = json.loads(capsys.readouterr().out)["read"]
    assert (read["format"], read["jobs"], read["steps"], read["lines"]) == ("sacct", 2, 1, 4)


def test_skipping_every_line_fails_and_explains_why(tmp_path, capsys):
    path = tmp_path / "sacct.txt"
    path.write_text("JobID|User\nx|ada\ny|bo\n")
    assert main(["trace", "info", "--skip-bad-lines", str(path)]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "no job could be read: 2 lines skipped (2 × not a job id, the first in line 2)" in err
    assert main(["trace", "convert", "--skip-bad-lines", str(path), str(tmp_path / "x.csv")]) == 1
    assert not (tmp_path / "x.csv").exists()


@pytest.mark.parametrize("text", ["JobID|User|NNodes\n", '{"jobs": [], "errors": [{"error": "unable to connect"}]}'])
@pytest.mark.parametrize("command", [["info"], ["convert"]])
def test_a_trace_without_a_job_fails(tmp_path, capsys, command, text):
    path = tmp_path / "dump"
    path.write_text(text)
    out = [str(tmp_path / "x.csv")] if command == ["convert"] else []
    assert main(["trace", *command, str(path), *out]) == 1
    assert capsys.readouterr().err.endswith(
        f"{path}: it has no job; check its period, and the errors of what wrote it\n"
    )
    assert not (tmp_path / "x.csv").exists()
