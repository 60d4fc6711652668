"""``mirage train METHOD``: from a trace to a policy in a file."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from mirage.cli import main
from mirage.cli.commands.train import SUMMARIES
from mirage.duration import DAY_S, HOUR_S
from mirage.learn.features.repeats import REPEATS
from mirage.learn.training.methods import METHODS
from mirage.learn.training.trained_policy import read_trained
from mirage.trace.table import JobTable
from mirage.trace.write_trace import write_trace

parquet = pytest.importorskip("pyarrow.parquet", reason="pip install mirage-hpc[learn]")
for package in ("xgboost", "sklearn", "safetensors", "pyarrow", "tensorboard", "matplotlib"):
    pytest.importorskip(package, reason="pip install mirage-hpc[learn,plot]")

BEGIN_S = 1_672_531_200  # 2023-01-01
WORLD = ("--nodes", "8", "--discipline", "easy")
WINDOWS = ("--link-nodes", "2", "--link-limit", "12:00:00", "--step", "3h", "--every", "48h", "--workers", "1")


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    """Seventeen weeks of two users on eight nodes, with waits of hours now and then."""
    random, n = np.random.default_rng(3), 2600
    submit_s = BEGIN_S + np.sort(random.integers(0, 120 * DAY_S, n))
    run_s = random.integers(600, 8 * HOUR_S, n)
    path = tmp_path_factory.mktemp("trace") / "jobs.csv"
    columns = {"submit_s": submit_s, "start_s": submit_s, "end_s": submit_s + run_s}
    limit_s, nodes = run_s * random.integers(1, 4, n), random.choice([1, 1, 1, 2, 4], n)
    table = JobTable.build(range(n), **columns, limit_s=limit_s, nodes=nodes, user=[f"user{k % 2}" for k in range(n)])
    write_trace(table, path)
    return path


@pytest.fixture(scope="module")
def made(trace, tmp_path_factory):
    """A model, with the data set that was made for it."""
    out = tmp_path_factory.mktemp("made") / "model"
    arguments = ["--tune-until", "2023-05-01", "--futures", "8", "-o", str(out)]
    assert main(["train", "correction", str(trace), *WORLD, *WINDOWS, *arguments]) == 0
    return out


def test_the_menu_has_every_method():
    assert list(SUMMARIES) == ["best", *METHODS]


def test_help_shows_examples(capsys):
    for method in SUMMARIES:
        assert main(["train", method, "--help"]) == 0
        assert f"mirage train {method} jobs.log.gz" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--data", "nowhere"], "nowhere is not a data set"),
        (["--nodes", "8", "--methods", "correction,magic"], "unknown method 'magic'"),
        (["--nodes", "8", "--data", "nowhere", "--months", "2023-01,2023-02,2023-03"], "nowhere is not a data set"),
        (["--nodes", "8", "--data", "nowhere", "--months", "2023-01,2023-02"], "a choice needs at least 3 months"),
        (["--nodes", "8", "--months", "2023-01,2023-02,2023-03,2023-02"], "a choice counts each month once"),
        ([], "give the size of the cluster"),
        (["--trees", "7"], "--trees is for forest, random-forest-2023, xgboost-2023; leave it out"),
        (["--methods", "correction,forest", "--epochs", "3"], "--epochs is for transformer, transformer-dqn, "),
    ],
)
def test_what_cannot_be_done_is_refused_before_the_work(tmp_path, capsys, arguments, message):
    method = "best" if "--methods" in arguments or "--months" in arguments else "correction"
    assert main(["train", method, "jobs.csv", "-o", str(tmp_path / "m"), *arguments]) != 0
    assert message in capsys.readouterr().err
    assert not (tmp_path / "m").exists()


@pytest.mark.slow
def test_a_model_is_a_policy(made, trace, capsys):
    arguments = ["--start", "2023-04-20", "--windows", "2", "--policies", f"reactive,{made}", "--json"]
    assert main(["evaluate", str(trace), *WORLD, *WINDOWS, *arguments]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert {row["policy"] for row in rows} == {"reactive", str(made)}


@pytest.mark.slow
def test_that_a_model_of_older_data_does_not_know_another_cluster_is_reported(
    made, trace, tmp_path, capsys, monkeypatch
):
    older = tmp_path / "data"
    shutil.copytree(f"{made}.data", older)
    for path in older.glob("rows-*.parquet"):
        rows = parquet.read_table(path)
        parquet.write_table(rows.drop_columns(list(REPEATS)), path)
    arguments = ["--data", str(older), "--tune-until", "2023-05-01", "-o", str(tmp_path / "model")]
    monkeypatch.setattr("mirage.report.terminal.progress.EVERY_S", 0)
    assert main(["train", "correction", str(trace), *arguments]) == 0
    shown = capsys.readouterr().err
    assert "will not notice when it is used on another cluster" in shown
    assert re.search(r"^mirage: training: \S.* done, after 00:0\d:\d\d$", shown, re.MULTILINE)
    assert read_trained(tmp_path / "model").parts[2].repeats is None
    assert read_trained(made).parts[2].repeats is not None
    assert read_trained(tmp_path / "model").trained_on.trace == "data"  # without the cluster it was not compared
    assert read_trained(made).trained_on.trace == trace.name


@pytest.mark.slow
def test_tuning_that_begins_after_its_end_is_refused(made, trace, tmp_path, capsys):
    dates = ["--until", "2023-04-01", "--tune-until", "2023-03-01"]
    assert main(["train", "forest", str(trace), "--data", f"{made}.data", *dates, "-o", str(tmp_path / "m")]) == 2
    assert "--until must come before --tune-until" in capsys.readouterr().err


@pytest.mark.slow
def test_the_best_is_chosen_by_rolling_origin_and_reported(made, trace, tmp_path, capsys):
    out, report = tmp_path / "best", tmp_path / "report"
    months = ["--methods", "correction", "--months", "2023-02,2023-03,2023-04"]
    arguments = ["--data", f"{made}.data", "--workers", "1", "--report", str(report), "-o", str(out)]
    assert main(["train", "best", str(trace), *WORLD, *months, *arguments]) == 0
    printed = capsys.readouterr().out
    output = json.loads((report / "report.json").read_text())
    choice = output["choices"][0]
    assert f"links of 2 nodes: {choice['method']}" in printed
    assert choice["reason"] in printed.replace("\n", " ")
    assert {tried["cost_ratio"] for tried in choice["tried"]} == {1.0, 3.0}
    assert (read_trained(out).parts[2].method) == choice["method"]
    assert {row["policy"] for row in output["rows"]} == {"reactive", "what-if", "correction", "oracle"}
    assert {row["month"] for row in output["months"]} == {"2023-02", "2023-03", "2023-04"}
    assert "2 nodes" in (report / "report.txt").read_text()
    for picture in ("learning-curves.png", "frontier.png"):
        assert (report / picture).read_bytes().startswith(b"\x89PNG")
    assert len(list((report / "curves").rglob("events.out.tfevents*"))) >= 3
    assert not (tmp_path / "best.steps").exists()


@pytest.mark.slow
def test_a_month_after_the_tuning_chooses_no_method(made, trace, tmp_path, capsys):
    arguments = ["--data", f"{made}.data", "--workers", "1", "--methods", "correction", "-o", str(tmp_path / "best")]
    months = ["--tune-until", "2023-04-01", "--months", "2023-02,2023-03,2023-04"]
    assert main(["train", "best", str(trace), *WORLD, *months, *arguments]) == 1
    assert "the data have no windows in 2023-04 to test on" in capsys.readouterr().err
    assert not (tmp_path / "best.steps").exists()
    for until, message in (
        ("2022-12-01", "--tune-until is before the first window"),
        ("2023-01-11T06:00", "no window of the data is over by 2023-01-11; windows begin 2023-01-11 to"),
    ):
        assert main(["train", "best", str(trace), *WORLD, "--tune-until", until, *arguments]) != 0
        assert message in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.real_slurm
def test_the_same_policy_is_trained_here_by_several_processes_and_on_an_array_of_slurm_jobs(
    made, trace, tmp_path, private_cluster
):
    environment = {**os.environ, **private_cluster(nodes=2).environment}
    arguments = ["--methods", "correction,forest", "--months", "2023-02,2023-03,2023-04", "--cost-ratios", "1"]
    arguments += ["--trees", "20", "--data", f"{made}.data", "--resume", str(tmp_path / "what-if"), "-o"]
    command = ["train", "best", str(trace), *WORLD, *arguments]
    for workers in ("1", "2"):
        assert main([*command, str(tmp_path / workers), "--workers", workers]) == 0
    array = ["--executor", "slurm", "--array-jobs", "3", "--sbatch", "time=10"]
    done = subprocess.run(
        [sys.executable, "-m", "mirage", *command, str(tmp_path / "array"), *array],
        env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    one, two, three = ((tmp_path / name).read_bytes() for name in ("1", "2", "array"))
    assert one == two == three
    printed = subprocess.run(["scontrol", "-o", "show", "job"], env=environment, capture_output=True, text=True).stdout
    assert printed.count("JobName=mirage-learn ") >= 3
    assert not (tmp_path / "array.slurm").exists()


@pytest.mark.slow
def test_killed_in_the_middle_and_started_again_it_ends_with_the_same_model(made, trace, tmp_path):
    def command(out):
        arguments = ["--data", f"{made}.data", "--trees", "200", "-o", str(out)]
        return ["train", "forest", str(trace), *arguments]

    assert main(command(tmp_path / "whole")) == 0
    killed = subprocess.Popen([sys.executable, "-m", "mirage", *command(tmp_path / "again")], env=os.environ | {})
    steps, begun_s = tmp_path / "again.steps", time.monotonic()
    while len(list(steps.rglob("trees-*.safetensors"))) < 2:
        assert killed.poll() is None
        assert time.monotonic() - begun_s < 120
        time.sleep(0.005)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert not (tmp_path / "again").exists()
    stored = {path: path.stat().st_mtime_ns for path in steps.rglob("trees-*.safetensors")}
    assert 2 <= len(stored) < 20
    assert main(command(tmp_path / "again")) == 0
    assert (tmp_path / "again").read_bytes() == (tmp_path / "whole").read_bytes()
