"""``mirage simulate``."""

import csv
import gzip
import json
import os
from pathlib import Path

import pytest

from mirage.cli import main

SWF = """\
; UnixStartTime: 1000
1 0 -1 100 2 -1 -1 2 100 -1 1 1 1 1 1 1 -1 -1
2 10 -1 50 2 -1 -1 2 60 -1 1 1 1 1 1 1 -1 -1
3 20 -1 30 1 -1 -1 1 30 -1 1 1 1 1 1 1 -1 -1
"""


@pytest.fixture
def swf(tmp_path):
    path = tmp_path / "jobs.swf"
    path.write_text(SWF)
    return str(path)


def simulated(capsys, *arguments):
    assert main(["simulate", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_easy_fills_the_hole_and_fcfs_does_not(swf, tmp_path, capsys):
    out = tmp_path / "schedule.csv"
    easy = simulated(capsys, swf, "--processors", "3", "--discipline", "easy", "-o", str(out))
    assert out.read_text() == "id,submit,start,end\n1,0,0,100\n2,10,100,150\n3,20,20,50\n"
    simulated(capsys, swf, "--processors", "3", "--discipline", "easy", "-o", f"{out}.gz")
    assert gzip.decompress(Path(f"{out}.gz").read_bytes()) == out.read_bytes()
    assert (easy["jobs"], easy["mean_wait_s"], easy["max_wait_s"], easy["makespan_s"]) == (3, 30.0, 90, 150)
    assert easy["utilisation"] == pytest.approx((200 + 100 + 30) / (3 * 150))
    Path(swf).write_text(SWF.replace("UnixStartTime: 1000", f"UnixStartTime: {10**13}"))  # no time: moves nothing
    simulated(capsys, swf, "--processors", "3", "--discipline", "easy", "-o", f"{out}.csv")
    assert Path(f"{out}.csv").read_bytes() == out.read_bytes()
    fcfs = simulated(capsys, swf, "--processors", "3", "--discipline", "fcfs")
    assert fcfs["max_wait_s"] == 90
    assert fcfs["mean_wait_s"] == pytest.approx((0 + 90 + 80) / 3)


@pytest.mark.parametrize(
    ("shares", "machine", "end_s", "utilisation"),
    [
        ("cpus\n1,0,100,1,24\n2,0,100,1,16", ["--cpus-per-node", "64"], 100, 40 / 64),
        ("cpus\n1,0,100,2,48\n2,0,100,1,40", ["--cpus-per-node", "64", "-N", "2"], 100, 88 / 128),
        ("cpus\n1,0,100,1,24\n2,0,100,1,48", ["--cpus-per-node", "64"], 200, (24 + 48) / (2 * 64)),
        ("gpus\n1,0,100,1,3\n2,0,100,1,2", ["--gpus-per-node", "8"], 100, 5 / 8),
        ("gpus,cpus\n1,0,100,1,1,48\n2,0,100,1,0,8", ["--gpus-per-node", "8"], 100, 56 / 64),
        ("cpus\n1,0,100,1,24\n2,0,100,1,16", ["--gpus-per-node", "8"], 200, 1),  # GPUs unknown: whole nodes
    ],
)
def test_where_jobs_share_nodes_their_cpus_or_gpus_are_used(tmp_path, capsys, shares, machine, end_s, utilisation):
    (tmp_path / "jobs.csv").write_text(f"job_id,submit_s,elapsed_s,nodes,{shares}\n")
    report = simulated(capsys, str(tmp_path / "jobs.csv"), "-N", "1", *machine)
    assert (report["makespan_s"], report["utilisation"]) == (end_s, pytest.approx(utilisation))


def test_the_report_names_where_it_comes_from(swf, capsys):
    report = simulated(capsys, swf, "--processors", "3", "--discipline", "easy")
    assert {"simulate_cpu_s", "jobs_per_cpu_s", "version", "command"} <= set(report)
    assert (report["trace"], report["discipline"], report["nodes"]) == (swf, "easy", 3)


def test_without_a_terminal_progress_is_printed_in_lines(swf, capsys, monkeypatch):
    monkeypatch.setattr("mirage.report.terminal.progress.EVERY_S", 0)
    assert main(["simulate", swf, "--processors", "3", "--discipline", "easy", "--json"]) == 0
    shown = capsys.readouterr().err.splitlines()
    lines = [line for line in shown if line.startswith("mirage: jobs simulated: ")]
    assert [line.rpartition(", ")[0].removeprefix("mirage: jobs simulated: ") for line in lines] == [
        "0 of 3 (0%)", "1 of 3 (33%)", "2 of 3 (67%)",
    ]  # fmt: skip


@pytest.mark.parametrize(("name", "reference"), [("easy", "ref0"), ("fcfs", "fcfs"), ("conservative", "cons")])
def test_known_schedules(shared_data, tmp_path, capsys, name, reference):
    folder, out = shared_data / "synthetic-reference", tmp_path / "schedule.csv"
    extra = ["--max-job-test", "1000000"] if name == "conservative" else []
    trace = str(folder / "w5k.swf.gz")
    simulated(capsys, trace, "--processors", "352", "--discipline", name, "-o", str(out), *extra)
    with gzip.open(folder / f"w5k.{reference}.csv.gz", "rt") as file:
        known = {row[0]: int(row[2]) for row in csv.reader(file)}
    with open(out) as file:
        assert {row["id"]: int(row["start"]) for row in csv.DictReader(file)} == known


def test_human_output(swf, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "8")  # of a terminal: in a pipe no cell is cut
    assert main(["simulate", swf, "--processors", "3", "--discipline", "easy"]) == 0
    out = capsys.readouterr().out
    assert "easy on 3 processors, settings" in out
    assert "00:01:30" in out


def test_jobs_larger_than_the_machine_stop_it_or_are_left_out(swf, capsys):
    assert main(["simulate", swf, "--processors", "1", "--discipline", "easy"]) == 1
    err = capsys.readouterr().err
    assert "job 1 can never run: it requests 2 nodes" in err
    assert "--skip-impossible" in err
    assert "by --processors" not in err
    assert main(["simulate", swf, "--nodes", "1"]) == 1
    assert f"; if {swf} counts processors, not nodes, replace --nodes by --processors" in capsys.readouterr().err
    report = simulated(capsys, swf, "--processors", "1", "--discipline", "easy", "--skip-impossible")
    assert (report["jobs"], report["left_out"]) == (1, {"can never run": 2})


def test_an_id_with_commas_stays_one_cell(tmp_path, capsys):
    (tmp_path / "jobs.csv").write_text('job_id,submit_s,elapsed_s,nodes\n"7_[1,3,9%2]",0,60,1\n')
    out = tmp_path / "schedule.csv"
    simulated(capsys, str(tmp_path / "jobs.csv"), "--nodes", "1", "--discipline", "easy", "-o", str(out))
    assert list(csv.reader(out.read_text().splitlines()))[1] == ["7_[1,3,9%2]", "0", "0", "60"]


def test_jobs_that_wait_indefinitely_and_for_less_than_declared_are_reported(tmp_path, capsys):
    trace = tmp_path / "jobs.csv"
    rows = "1,0,60,1,afterok:2\n2,0,60,1,afterok:1\n3,0,60,1,singleton\n4,0,60,1,\n"
    trace.write_text("job_id,submit_s,elapsed_s,nodes,dependency\n" + rows)
    report = simulated(capsys, str(trace), "--nodes", "4", "--discipline", "easy")
    assert (report["jobs"], report["never_started"], report["dependencies_dropped"]) == (2, 2, 1)
    assert main(["simulate", str(trace), "--nodes", "4", "--discipline", "easy"]) == 0
    err = capsys.readouterr().err
    assert "the dependencies of 1 job count in part: on one other job at most, by after, afterany or afterok" in err
    assert "2 jobs without a start: a dependency on jobs that never start, nodes that never become available" in err


def test_a_trace_without_a_job_to_simulate_is_an_error(tmp_path, capsys):
    for rows, reported in (
        ("", ": it has no job; check its period"),
        ("1,0,60,2\n2,5,60,3\n", " has no job to simulate; left out: 2 that can never run"),
    ):
        path = tmp_path / "jobs.csv"
        path.write_text("job_id,submit_s,elapsed_s,nodes\n" + rows)
        assert main(["simulate", str(path), "--nodes", "1", "--discipline", "easy", "--skip-impossible"]) == 1
        out, err = capsys.readouterr()
        assert out == ""
        assert f"{path}{reported}" in err


@pytest.mark.parametrize(
    ("arguments", "status", "complaint"),
    [
        (["--processors", "3", "--discipline", "esay"], 1, "Did you mean 'easy'?"),
        ([], 2, "give the size of the cluster"),
        (["--nodes", "3", "--processors", "3"], 2, "exclude each other"),
        (["--slurm-conf", "/no/slurm.conf"], 1, "cannot read /no/slurm.conf"),
        (["--slurm-conf", "x", "--settings", "lonestar6"], 2, "exclude each other"),
        (["--processors", "3", "--discipline", "paused"], 1, "unknown queue discipline 'paused'"),
        (["--processors", "3", "-o", "/no/such/folder/x.csv"], 1, "cannot write /no/such/folder/x.csv"),
    ],
)
def test_complaints(swf, capsys, arguments, status, complaint):
    assert main(["simulate", swf, *arguments]) == status
    assert complaint in capsys.readouterr().err


def test_a_slurm_conf_describes_the_machine(shared_data, tmp_path, capsys):
    trace = tmp_path / "jobs.csv"
    rows = [f"{k},{k},{k},{k + 100},600,1,8" for k in range(1, 40)]
    trace.write_text("job_id,submit_s,start_s,end_s,limit_s,nodes,gpus\n" + "\n".join(rows) + "\n")
    conf = shared_data / "slurm-fidelity/conf/fid60/slurm.conf"
    report = simulated(capsys, str(trace), "--slurm-conf", str(conf))
    assert report["nodes"] == 16
    assert report["max_wait_s"] >= 60
    folder = tmp_path / "[new]" / "a[" / "b]"
    folder.mkdir(parents=True)
    (folder / "slurm.conf").write_text(conf.read_text())
    main(["simulate", str(trace), "--slurm-conf", str(folder / "slurm.conf")])
    assert capsys.readouterr().out.startswith(f"slurm on 16 nodes, settings {folder}/slurm.conf\n")


@pytest.mark.parametrize("place", ["/no/such/folder/x.csv", "."])
def test_a_place_that_cannot_be_written_is_refused_before_the_trace_is_read(place, capsys):
    assert main(["simulate", "/no/such/trace", "-N", "3", "-o", place]) == 1
    assert f"cannot write {place}" in capsys.readouterr().err


def test_an_older_schedule_stays_where_the_new_one_cannot_be_written(swf, tmp_path, capsys, monkeypatch):
    out = tmp_path / "schedule.csv"
    out.write_text("old")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert main(["simulate", swf, "--processors", "3", "-o", str(out)]) == 1
    assert f"cannot write {out}: No space left on device" in capsys.readouterr().err
    assert out.read_text() == "old"
    assert [path.name for path in tmp_path.glob(".*")] == []


def test_the_cluster_of_a_file_with_its_maintenance(swf, tmp_path, capsys):
    out, file = tmp_path / "schedule.csv", tmp_path / "cluster.toml"
    file.write_text(
        'mirage_cluster = 1\n[[group]]\nname = "node"\ncount = 3\n'
        '[[reservation]]\nstart = 1970-01-01T00:18:20Z\nend = 1200\ngroup = "node"\nnodes = 3\n'
    )
    report = simulated(capsys, swf, "--cluster", str(file), "--discipline", "easy", "-o", str(out))
    assert out.read_text() == "id,submit,start,end\n1,0,0,100\n2,10,200,250\n3,20,20,50\n"
    assert (report["nodes"], report["settings"]) == (3, str(file))
    assert main(["simulate", swf, "--cluster", str(file), "--nodes", "3"]) == 2
    assert "--cluster and --nodes exclude each other" in capsys.readouterr().err
    file.write_text("mirage_cluster = 1\n[[group]]\nnaem = 3\n")
    assert main(["simulate", swf, "--cluster", str(file)]) == 1
    assert f"{file}: [[group]] number 1: there is no key 'naem'" in capsys.readouterr().err


ADA = """\
id,user,submit,start,end,nodes,limit
a,ada,0,7200,10800,1,3600
b,ada,11400,11400,15000,1,3600
c,bob,11450,11500,11560,1,60
"""
"""Ada's first job waited two hours; ten minutes after its end she submitted the second."""
COLUMNS = ("--columns", "job_id=id,user=user,submit_s=submit,start_s=start,end_s=end,nodes=nodes,limit_s=limit")


@pytest.fixture
def ada(tmp_path):
    path = tmp_path / "ada.csv"
    path.write_text(ADA)
    return str(path)


CLOSED = "id,submit,start,end\na,0,0,3600\nb,4200,4200,7800\nc,11450,11450,11510\n"


def test_in_a_closed_loop_an_answer_comes_after_the_simulated_end(ada, tmp_path, capsys):
    out = tmp_path / "schedule.csv"
    words = [ada, *COLUMNS, "--nodes", "2", "--discipline", "easy", "-o", str(out)]
    assert "answers" not in simulated(capsys, *words)
    assert out.read_text() == "id,submit,start,end\na,0,0,3600\nb,11400,11400,15000\nc,11450,11450,11510\n"
    report = simulated(capsys, *words, "--think-time", "20m")
    assert out.read_text() == CLOSED
    assert report["answers"] == {
        "jobs": 3, "answer": 1, "share": pytest.approx(1 / 3), "by_chance": 0.0, "longest_s": 1200,
    }  # fmt: skip
    simulated(capsys, *words, "--think-time", "10m")
    assert out.read_text() == CLOSED, "she took ten minutes"
    assert main(["simulate", *words, "--think-time", "9m"]) == 1
    assert "no job of" in capsys.readouterr().err


def test_a_schedule_of_a_closed_loop_is_in_order_of_simulated_submission(ada, tmp_path, capsys):
    out = tmp_path / "schedule.csv"
    with open(ada, "a") as file:
        file.write("d,cleo,100,100,160,1,60\n")
    simulated(capsys, ada, *COLUMNS, "-N", "2", "--discipline", "easy", "-o", str(out), "--think-time", "20m")
    assert [line.partition(",")[0] for line in out.read_text().splitlines()] == ["id", "a", "d", "b", "c"]


def test_a_cluster_file_closes_the_loop(ada, tmp_path, capsys):
    cluster, out = tmp_path / "cluster.toml", tmp_path / "schedule.csv"
    head = 'mirage_cluster = 1\n[[group]]\nname = "node"\ncount = 2\n[users]\nthink_time = "00:20:00"\n'
    cluster.write_text(head)
    words = [ada, *COLUMNS, "--cluster", str(cluster), "--discipline", "easy", "-o", str(out)]
    simulated(capsys, *words)
    assert out.read_text() == CLOSED
    simulated(capsys, *words, "--think-time", "0")
    assert "b,11400" in out.read_text()


def test_a_cluster_file_simulates_traces_without_answers(swf, tmp_path, capsys):
    cluster = tmp_path / "cluster.toml"
    cluster.write_text('mirage_cluster = 1\n[[group]]\nname = "node"\ncount = 3\n[users]\nthink_time = "00:20:00"\n')
    assert main(["simulate", swf, "--cluster", str(cluster), "--json"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["jobs"] == 3
    assert "jobs are submitted at the recorded times" in printed.err


def test_the_terminal_reports_the_number_of_answers(ada, capsys):
    assert main(["simulate", ada, *COLUMNS, "--nodes", "2", "--think-time", "20m"]) == 0
    assert "1 of 3 jobs (33%) answer to an earlier job of their user, 0% by chance" in capsys.readouterr().out


def test_where_none_answers_there_is_no_loop_to_close(swf, capsys):
    assert main(["simulate", swf, "--processors", "3", "--think-time", "20m"]) == 1
    assert "there is no loop to close; the trace must have users" in capsys.readouterr().err


def test_a_schedule_is_written_as_csv_only(tmp_path, capsys):
    (tmp_path / "t.csv").write_text("job_id,submit_s,elapsed_s,nodes\n1,0,60,1\n")
    out = tmp_path / "schedule.parquet"
    assert main(["simulate", str(tmp_path / "t.csv"), "-N", "2", "-o", str(out)]) == 1
    assert capsys.readouterr().err == f"mirage: error: cannot write {out}: a schedule is CSV, so name it .csv\n"
