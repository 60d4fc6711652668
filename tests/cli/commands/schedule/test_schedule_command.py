"""``mirage schedule``: the JSON that scripts read, the table, the story, and refusals."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from mirage.cli import main
from mirage.cli.commands.schedule.schedule_options import NAMES
from mirage.schedule.scheduler_contract import GpuPlan, GpuView
from mirage.schedule.schedulers.gpu_scheduler_registry import SCHEDULERS, GpuSchedulerSpec

KEYS = {
    "workload", "scheduler", "mean_jct_s", "p99_jct_s", "mean_wait_s", "makespan_s", "gpu_h", "preemptions",
    "lost_gpu_h", "policy_ms", "policy_p95_ms",
}  # fmt: skip


class Broken:
    """A scheduler of another package with a mistake in it."""

    def decide(self, view: GpuView) -> GpuPlan:
        raise ValueError("out of order")


def _cluster(gpus: int) -> str:
    return f"[[servers]]\nname = 'a'\ngpu_type = 'a'\nservers = 1\ngpus_per_server = {gpus}\n"


@pytest.fixture
def workload(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Two jobs and two clusters: they fill ``four.toml``; one does not fit on ``two.toml``."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "four.toml").write_text(_cluster(4))
    (tmp_path / "two.toml").write_text(_cluster(2))
    path = tmp_path / "jobs.csv"
    path.write_text("timestamp,duration,num_gpus\n2017-01-01 00:00:00,3600,4\n2017-01-01 00:00:10,600,1\n")
    return str(path)


ON_FOUR = ["--cluster", "four.toml", "--scheduler", "fifo"]


def test_a_comparison_as_json(workload: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other.csv"
    other.write_text(Path(workload).read_text().replace("3600", "1800"))
    report = tmp_path / "page.html"
    words = [
        "schedule",
        "compare",
        workload,
        str(other),
        "--schedulers",
        "fifo,sjf",
        "--workers",
        "1",
        "--cluster",
        "four.toml",
    ]
    assert main([*words, "--report", str(report), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert all(set(row) >= KEYS for row in printed["rows"])
    assert [(Path(row["workload"]).name, row["scheduler"]) for row in printed["rows"]] == [
        ("jobs", "fifo"), ("jobs", "sjf"), ("other", "fifo"), ("other", "sjf"), ("mean", "fifo"), ("mean", "sjf"),
    ]  # fmt: skip
    assert printed["rows"][0]["mean_jct_s"] == pytest.approx((3600 + 4190) / 2)
    assert "Schedulers compared" in report.read_text()


def test_a_run_explains_a_job(workload: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schedule", "run", workload, *ON_FOUR, "--explain", "1"]) == 0
    report = capsys.readouterr().out
    assert "job 1: 1 GPU requested, done after 1.16 h, 1.00 h of them in the queue" in report
    assert "a-1:1" in report
    assert main(["schedule", "run", workload, *ON_FOUR, "--explain", "1", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert set(report["row"]) >= KEYS
    assert [moment["what"] for moment in report["job"]["moments"]] == ["submit", "gets", "done"]
    found = report["measures"]  # four GPUs for 3,600 s, then one for 600 s
    assert (found["gar"], found["excess_gpus"], found["jtted"]) == (1.0, 0, [1.0, 1.0, 1.0])
    assert found["sor"] == pytest.approx((4 * 3600 + 600) / (4 * 4200))
    assert found["gfr"] == pytest.approx(600 / 4200)
    assert found["jwtd_s"] == {"1": [3590, 3590], "4": [0, 0]}
    assert found["worst_unfairness"] > found["mean_unfairness"] > 1


POOLS = """
[[servers]]
name = "new"
gpu_type = "v100"
servers = 1
gpus_per_server = 4

[[servers]]
name = "old"
gpu_type = "t4"
servers = 4
gpus_per_server = 4
pool = "inference"
speed = 0.5
"""


def test_loans_in_a_cluster_with_pools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    """Jobs of one hour on four GPUs; inference has two idle servers, half as fast, at first."""
    monkeypatch.chdir(tmp_path)
    Path("pools.toml").write_text(POOLS)
    Path("demand.csv").write_text("time_s,pool,servers,announced_s\n0,inference,2,\n1800,inference,3,1700\n")
    lines = [f"2017-01-01 0{hour}:00:00,3600,4,{types}" for hour, types in ((0, ""), (0, ""), (0, "v100"), (5, ""))]
    Path("jobs.csv").write_text("timestamp,duration,num_gpus,gpu_types\n" + "\n".join(lines) + "\n")
    words = [
        "schedule",
        "compare",
        "jobs.csv",
        "--cluster",
        "pools.toml",
        "--demand",
        "demand.csv",
        "--window",
        "0h-4h",
    ]
    words += ["--schedulers", "sjf,aryl,aryl:loans=no:elastic=no", "--assume", "headroom=0,interval_s=60"]
    assert main([*words, "--workers", "1", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    sjf, aryl, alone = printed["rows"]
    assert sjf["mean_jct_s"] == alone["mean_jct_s"] == 2 * 3600
    assert aryl["mean_jct_s"] < sjf["mean_jct_s"]
    assert (sjf["jobs"], aryl["breaches"], aryl["unmet_server_h"], sjf["lent_server_h"]) == (3, 0, 0, 0)
    assert aryl["lent_server_h"] > 0
    assert (printed["window_s"], printed["demand"]) == ([0, 4 * 3600], "demand.csv")
    Path("requests.csv").write_text("time_s,pool,requests_per_s\n0,inference,12\n1800,inference,20\n")
    words[words.index("demand.csv")] = "requests.csv"
    assert main([*words, "--workers", "1"]) == 0
    heads, *lines = capsys.readouterr().out.splitlines()
    late = [line.split()[-2:] for line in lines[:3]]
    assert heads.split()[-6:] == ["late", "requests", "%", "without", "loans", "%"]
    assert late[0] == late[2] == ["0.0000", "0.0000"]  # nothing is lent
    assert 0 < float(late[1][0]) < 0.1
    run = ["schedule", "run", "jobs.csv", "--cluster", "pools.toml", "--demand", "daily", "--scheduler", "aryl"]
    assert main([*run, "--assume", "fungible=1,t4_per_v100=2", "--report", "page.html"]) == 0
    assert "lent server h" in capsys.readouterr().out
    assert "server-hours lent" in Path("page.html").read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--window", "3-13"], "no window; give two times with units, such as 3d-13d"),
        (["--window", "3d-1d"], "ends before it begins"),
        (
            ["--window", "3d-13d"],
            "is submitted between 3-00:00:00 and 13-00:00:00; the jobs are submitted from 00:00:00 to ",
        ),
        (["--assume", "fungibl=1"], "unknown assumption 'fungibl'. Did you mean 'fungible'"),
        (["--demand", "daily"], 'the cluster has the pools training; give the servers of inference pool = "inference"'),
    ],
)
def test_bad_windows_assumptions_and_demands(workload: str, options: list[str], message: str, capsys) -> None:
    assert main(["schedule", "run", workload, *ON_FOUR, *options]) > 0
    assert message in " ".join(capsys.readouterr().err.replace("│", "").split())


@pytest.mark.parametrize(
    ("assumed", "reason"),
    [
        ("headroom=0.1", "there is no inference demand"),
        ("demand_high=0.9", "there is no daily demand"),
        ("notice_s=60", "there is no daily demand, and there are no requests"),
        ("server_slots=4", "there are no requests"),
        ("interval_s=60", "no scheduler has this parameter, or each has its own value"),
        ("elastic_jobs=0.1", "no scheduler has elastic jobs"),
        ("fungible=1", "the cluster has one GPU type"),
    ],
)
def test_an_assumption_that_changes_nothing_is_a_warning(
    workload: str, assumed: str, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["schedule", "run", workload, *ON_FOUR, "--assume", assumed]) == 0
    key = assumed.partition("=")[0]
    assert capsys.readouterr().err == f"mirage: warning: the assumption {key} changes nothing: {reason}\n"


def test_help_names_every_scheduler() -> None:
    assert set(re.findall(r"[\w-]+", NAMES)) >= set(SCHEDULERS)


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["--scheduler", "gittins", "--cluster", "four.toml"], 1, "gittins:service_gpu_s=600/3600/86400"),
        (["--scheduler", "fife"], 1, "Did you mean 'fifo'"),
        (["--scheduler", "fifo", "--cluster", "sia"], 1, "Did you mean 'sia64'"),
        ([*ON_FOUR, "--explain", "nobody"], 1, "the workload has no job 'nobody'"),
        ([*ON_FOUR, "--later", "nan"], 2, "'nan' is no finite number"),
        ([*ON_FOUR, "--later", "1e300"], 1, "later_s is 1e+300; give a number of 0 or more, below 1e+10"),
        ([*ON_FOUR, "--profiles", "gone"], 1, "gone: no profiles"),
        (["--scheduler", "fifo", "--report", "/gone/x.html"], 1, "there is no folder"),
        ([*ON_FOUR, "--report", "x.svg"], 1, "its name must end in .html"),
        (["--scheduler", "fifo", "--cluster", "two.toml"], 1, "there are 2 of one type; give --skip-impossible"),
        ([], 2, "--scheduler"),
    ],
)
def test_what_is_refused(
    workload: str,
    words: list[str],
    status: int,
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["schedule", "run", workload, *words]) == status
    assert message in capsys.readouterr().err


def test_a_trial_that_fails_is_reported_at_the_end(
    workload: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SCHEDULERS, "broken", GpuSchedulerSpec(f"{__name__}:Broken", "fails"))
    words = ["schedule", "compare", workload, "--schedulers", "broken,fifo", "--cluster", "four.toml", "--workers", "1"]
    assert main([*words, "--report", "page.html"]) == 1
    report = capsys.readouterr()
    assert "fifo" in report.out
    assert re.fullmatch(r"mirage: error: jobs under broken: ValueError: out of order .*\n", report.err)
    assert "1 trial failed" in Path("page.html").read_text()
    assert main([*words, "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert [row["scheduler"] for row in report["rows"]] == ["fifo"]
    assert [(one["scheduler"], one["error"][:10]) for one in report["failed"]] == [("broken", "ValueError")]
    assert main(["schedule", "run", workload, "--scheduler", "broken", "--cluster", "four.toml"]) == 1
    printed = r"mirage: error: ValueError: out of order \(\S+test_schedule_command.py:\d+\); fix the scheduler.*\n"
    assert re.fullmatch(printed, capsys.readouterr().err)
    words[4] = "broken"  # alone, it leaves nothing but what failed
    assert main([*words, "--json", "--report", "none.html"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert (report["rows"], len(report["failed"]), Path("none.html").exists()) == ([], 1, False)


def test_costs_of_preemption_show_in_the_figures(workload: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["schedule", "run", workload, "--cluster", "four.toml", "--scheduler", "srtf", "--json"]
    reported = []
    for costs in ([], ["--restart-s", "60"], ["--save-s", "30"], ["--checkpoint-s", "1800"]):
        assert main([*words, *costs]) == 0
        reported.append(json.loads(capsys.readouterr().out))
    gpu_s = [(one["row"]["lost_gpu_h"] * 3600, one["row"]["overhead_gpu_h"] * 3600) for one in reported]
    assert gpu_s == [(0, 0), (0, pytest.approx(240)), (0, pytest.approx(120)), (pytest.approx(40), 0)]
    assert [one["restart_s"] for one in reported] == [None, 60.0, None, None]
    assert reported[3]["checkpoint_s"] == 1800.0
    assert main([*words, "--checkpoint-s", "0"]) == 1
    assert "checkpoint_s is 0.0; give a number of seconds above 0" in capsys.readouterr().err


def test_rows_left_out_are_those_of_the_whole_file_where_only_its_first_jobs_are_played(
    workload: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with Path(workload).open("a") as file:
        file.write("2017-01-01 00:00:20,0,1\n")
    assert main(["schedule", "run", workload, *ON_FOUR, "--first-jobs", "1"]) == 0
    assert re.search(r"1 job left out: .+ \(of the whole file\)\n", capsys.readouterr().err)
    assert main(["schedule", "run", workload, *ON_FOUR]) == 0
    assert "whole file" not in capsys.readouterr().err


def test_gpu_types_without_a_measured_model_are_reported_by_each_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "two.toml").write_text(_cluster(1) + _cluster(1).replace("'a'", "'b'"))
    (tmp_path / "rates.json").write_text(json.dumps({"b": {"('Toy', 1)": {"null": 1.0}}, "b_unconsolidated": {}}))
    (tmp_path / "w.trace").write_text("Toy\tpython train.py\tdir\t-n\t0\t10\t1\t1\t-1\t0\n")
    words = ["w.trace", "--profiles", "rates.json", "--cluster", "two.toml"]
    report = "mirage: warning: rates.json has no speeds of GPU type a, so no job of its models runs there"
    assert main(["schedule", "run", *words, "--scheduler", "fifo"]) == 0
    assert report in capsys.readouterr().err
    assert main(["schedule", "compare", *words, "--schedulers", "fifo", "--workers", "1"]) == 0
    assert report in capsys.readouterr().err


def test_an_array_needs_a_folder(workload: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schedule", "compare", workload, "--executor", "slurm"]) == 2
    assert "--resume DIR" in capsys.readouterr().err


def test_jobs_that_are_left_out_are_reported_by_each_command(
    workload: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [workload, "--cluster", "two.toml", "--skip-impossible"]
    printed = "1 job left out: more than 2 GPUs needed"
    assert main(["schedule", "run", *words, "--scheduler", "fifo"]) == 0
    assert printed in capsys.readouterr().err
    for _ in range(2):  # played, then taken over
        assert main(["schedule", "compare", *words, "--schedulers", "fifo,sjf", "--workers", "1", "--resume", "r"]) == 0
        assert capsys.readouterr().err.count(printed) == 1
    (tmp_path / "none.csv").write_text("timestamp,duration,num_gpus\n2017-01-01 00:00:00,3600,4\n")
    assert main(["schedule", "compare", "none.csv", *words[1:], "--schedulers", "fifo"]) == 1
    assert "no job fits" in capsys.readouterr().err


NOTE = "a node counts as one GPU (--gpus-per-node declares more)"


@pytest.mark.parametrize(("option", "gpu_h", "noted"), [([], 5.0, 1), (["--gpus-per-node", "2"], 10.0, 0)])
def test_nodes_without_gpus_are_remarked_or_have_the_declared_number(
    workload: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], option: list[str], gpu_h: float, noted: int
) -> None:
    rows = ["job_id,submit_s,elapsed_s,nodes", "1,1700000000,7200,2", "2,1700000060,3600,1"]
    (tmp_path / "nodes.csv").write_text("\n".join([*rows, ""]))
    words = ["nodes.csv", "--cluster", "four.toml", *option, "--json"]
    assert main(["schedule", "run", *words, "--scheduler", "fifo"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["row"]["gpu_h"] == gpu_h
    assert err.count(NOTE) == noted
    for _ in range(2):  # played, then taken over
        command = ["schedule", "compare", *words, "--schedulers", "fifo,sjf", "--workers", "1", "--resume", "r"]
        assert main(command) == 0
        out, err = capsys.readouterr()
        assert {row["gpu_h"] for row in json.loads(out)["rows"]} == {gpu_h}
        assert err.count(NOTE) == noted


def test_gpus_per_node_is_refused_where_jobs_have_gpus(
    workload: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["schedule", "run", workload, *ON_FOUR, "--gpus-per-node", "2"]) == 1
    assert "jobs.csv: its jobs have GPUs; leave --gpus-per-node out" in capsys.readouterr().err
    (tmp_path / "gpus.csv").write_text("job_id,submit_s,elapsed_s,nodes,gpus\n1,1700000000,7200,2,3\n")
    assert main(["schedule", "run", "gpus.csv", *ON_FOUR, "--gpus-per-node", "2"]) == 1
    assert "gpus.csv: jobs have GPUs in the trace; leave --gpus-per-node out" in capsys.readouterr().err


GANGS = "job_id,submit_s,run_s,gpus,epochs,save_s,restart_s\na,0,1000,4,2,30,60\nb,250,100,4,1,5,10\n"


def test_predictions_and_failing_saves_are_in_the_provenance(workload: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = Path(workload).with_name("gangs.csv")
    path.write_text(GANGS)
    words = ["schedule", "run", str(path), "--cluster", "four.toml", "--scheduler", "srtf:preempt=save", "--json"]
    lost = []
    for options in ([], ["--save-succeeds", "0", "--prediction-error", "0.01"]):
        assert main([*words, *options]) == 0
        printed = json.loads(capsys.readouterr().out)
        lost.append(printed["row"]["lost_gpu_h"])
        expected = (0.01, 0.0) if options else (0.0, 1.0)
        assert (printed["prediction_error"], printed["save_succeeds"]) == expected
    assert lost == pytest.approx([0.0, 4 * 250 / 3600])
    assert main([*words, "--save-succeeds", "1.1"]) == 2
    assert "--save-succeeds" in capsys.readouterr().err
    assert main([*words, "--restart-s", "5"]) == 1
    assert "its jobs have their own restart_s; leave out --restart-s" in capsys.readouterr().err


def test_a_failed_save_is_part_of_the_story(workload: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = Path(workload).with_name("gangs.csv")
    path.write_text(GANGS)
    words = ["--cluster", "four.toml", "--scheduler", "srtf:preempt=save", "--save-succeeds", "0", "--explain", "a"]
    assert main(["schedule", "run", str(path), *words]) == 0
    assert "left without its work, as the save failed" in capsys.readouterr().out


def test_the_sensitivity_as_json_as_a_table_and_as_a_picture(
    workload: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    typed = ["schedule", "sensitivity", workload, "--cluster", "four.toml", "--schedulers", "sjf,srtf", "--against"]
    typed += ["fifo", "--vary", "prediction-error=0.5,2", "--workers", "1", "--resume", str(tmp_path / "results")]
    picture = tmp_path / "sensitivity.svg"
    assert main([*typed, "--json", "--plot", str(picture)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["assumed"] for row in found["rows"]] == [
        {}, {}, {"prediction_error": 0.5}, {"prediction_error": 0.5}, {"prediction_error": 2}, {"prediction_error": 2}
    ]  # fmt: skip
    assert found["rows"][0]["jct"] == {"fifo": {"ratio": 1.0, "interval": None}}
    assert (found["trials_reused"], found["failed"], found["against"]) == (0, [], ["fifo"])
    assert "over that of each, by prediction_error" in picture.read_text()
    assert main(typed) == 0
    lines = capsys.readouterr().out.splitlines()
    assert re.match(r"assumed +scheduler +mean wait s +mean JCT h +wait, of fifo +JCT, of fifo", lines[0])
    assert "which need 3 workloads" in lines[-1]


def test_a_default_reference_may_be_named_as_a_scheduler(workload: str, capsys: pytest.CaptureFixture[str]) -> None:
    typed = ["schedule", "sensitivity", workload, "--cluster", "four.toml", "--schedulers", "fifo,srtf"]
    assert main([*typed, "--vary", "restart_s=0,9", "--workers", "1"]) == 0
    assert "of aryl:" in capsys.readouterr().out.splitlines()[0]


def test_a_sensitivity_that_cannot_be_measured(workload: str, capsys: pytest.CaptureFixture[str]) -> None:
    typed = ["schedule", "sensitivity", workload, "--cluster", "four.toml"]
    assert main([*typed, "--vary", "hedroom=1"]) == 1
    assert "unknown assumption 'hedroom'" in capsys.readouterr().err
    assert main([*typed, "--cross"]) == 1
    assert "give the assumptions to combine" in capsys.readouterr().err
    assert main([*typed, "--plot", "picture.txt"]) == 1
    assert "must end in" in capsys.readouterr().err


def test_speeds_of_a_folder_without_models_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schedule", "speeds", str(tmp_path)]) == 1
    assert "no models; give a folder of profiles in the form of Pollux and Sia" in capsys.readouterr().err


def test_speeds_as_json_and_as_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("scipy")
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "validation-8.csv").write_text("epoch\n")
    for name, slower in (("a", 1.0), ("b", 3.0)):
        rows = [
            f"{place},{batch},{slower * (batch / 8 + len(place))},{slower * (len(place) - 1)}"
            for place in ("1", "2", "4", "11", "22")
            for batch in (8, 16, 32)
        ]
        path = tmp_path / "toy" / f"placements-{name}.csv"
        path.write_text("\n".join(["placement,local_bsz,step_time,sync_time", *rows, ""]))
    assert main(["schedule", "speeds", str(tmp_path), "--candidates", "4", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [(row["model"], row["gpu_type"], row["rows"], row["within"]) for row in rows] == [
        ("toy", "a", 11, 1.0), ("toy", "b", 11, 1.0)
    ]  # fmt: skip
    assert main(["schedule", "speeds", str(tmp_path), "--types", "b,a", "--candidates", "4"]) == 0
    assert re.search(r"toy +b +1:\d+, .* +11 +100.0%", capsys.readouterr().out)
