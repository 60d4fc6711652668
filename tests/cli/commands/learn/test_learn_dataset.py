"""``mirage learn dataset``: the same data by any processes, after a kill, and from Slurm."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mirage.cli import main
from mirage.duration import DAY_S, HOUR_S
from mirage.learn.dataset.read_data_set import read_hand_overs
from mirage.trace.table import JobTable
from mirage.trace.write_trace import write_trace
from tests.support import hyperqueue_server
from tests.support.waiting import until

COMPILES = "mirage: compiling, once (up to a minute; the result is cached) ...\n"

OPTIONS = ["-N", "8", "--discipline", "easy", "--link-nodes", "1,2", "--link-limit", "8h", "--step", "1h"]
WINDOWS = ["--start", "1970-01-05", "--windows", "6", "--every", "2d"]


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> str:
    random = np.random.default_rng(3)
    n = 430
    run_s = random.integers(600, 8 * HOUR_S, n)
    table = JobTable.build(
        range(n),
        submit_s=np.sort(random.integers(0, 20 * DAY_S, n)),
        elapsed_s=run_s,
        limit_s=run_s * random.integers(1, 4, n),
        nodes=random.choice([1, 1, 1, 2, 4], n),
    )
    path = tmp_path_factory.mktemp("trace") / "jobs.csv"
    write_trace(table, path)
    return str(path)


@pytest.fixture
def command_line(trace: str) -> list[str]:
    return ["learn", "dataset", trace, *OPTIONS, *WINDOWS]


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.startswith(".")}


def test_it_reports_what_it_made(command_line, tmp_path: Path, capsys) -> None:
    few = [*command_line, "--windows", "2", "--no-forecast", "--workers", "1", "-o", str(tmp_path / "set")]
    assert main(few) == 0
    out, err = capsys.readouterr()
    assert err.removeprefix(COMPILES) == "", "features are compiled at their first use"
    assert "1970-01" in out
    assert "in 2 shards; 0.0 CPU minutes" in out
    assert main([*few, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["shards"], report["reused"], report["rows"]) == (2, 2, len(read_hand_overs(tmp_path / "set")))
    assert sum(sum(row[load] for load in ("light", "medium", "heavy")) for row in report["windows"]) == 4
    assert main([*few, "--seed", "1"]) == 1
    assert "seed 0, now 1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        (["--array-jobs", "3"], "needs --executor slurm or hyperqueue"),
        (["--sbatch", "cpu"], "not KEY=VALUE"),
        (["--sbatch", "--array=1-9"], "Mirage sets array itself; --array-jobs limits the number of jobs"),
        (["--sbatch", "wrap=true"], "Mirage sets wrap itself"),
        (["--sbatch", "mem_per_cpu=1G", "--sbatch", "mem-per-cpu=2G"], "mem-per-cpu is given twice; give each option"),
        (["--sbatch", "time=10", "--executor", "hyperqueue"], "use hq alloc add"),
        (["--workers", "4", "--executor", "slurm"], "--executor slurm takes --array-jobs"),
        (["--no-forecast", "--futures", "4"], "--futures is for a forecast, which --no-forecast and --labels-only"),
        (["--labels-only", "--futures", "4"], "--futures is for a forecast, which --no-forecast and --labels-only"),
        ([], "--nodes N"),
    ],
)
def test_options_that_do_not_fit_are_refused_before_anything_is_read(more, complaint, capsys) -> None:
    machine = ["-N", "8"] if more else []
    assert main(["learn", "dataset", "/no/such/trace", *machine, "-o", "x", *more]) == 2
    assert complaint in capsys.readouterr().err


@pytest.mark.parametrize(
    "command", [["train", "forest"], ["train", "best"], ["compare", "--months", "2023-01"], ["evaluate"]]
)
def test_an_array_s_options_without_an_array_are_refused_everywhere(command, tmp_path: Path, capsys) -> None:
    out = [] if command == ["evaluate"] else ["-o", str(tmp_path / "out")]
    assert main([*command, "/no/such/trace", "-N", "8", "--sbatch", "time=10", *out]) == 2
    assert "needs --executor slurm" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("executor", ["slurm", "hyperqueue"])
def test_jobs_that_play_windows_need_a_folder_that_all_nodes_see(executor, capsys) -> None:
    assert main(["evaluate", "/no/such/trace", "-N", "8", "--executor", executor]) == 2
    assert "--resume DIR" in capsys.readouterr().err


def test_without_a_slurm_an_array_is_refused(command_line, tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main([*command_line, "--executor", "slurm", "-o", str(tmp_path / "set")]) == 1
    assert "no Slurm is found here" in capsys.readouterr().err


@pytest.mark.slow
def test_the_same_data_after_a_kill_and_by_several_processes(command_line, tmp_path: Path, capsys) -> None:
    killed, shared = tmp_path / "killed", tmp_path / "shared"
    command_line = [*command_line, "--futures", "4"]
    command = [sys.executable, "-m", "mirage", *command_line, "--workers", "1", "-o", str(killed)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        until(lambda: process.poll() is not None or len(list(killed.glob("rows-*"))) > 1, 20, "a shard", pause_s=0.005)
        process.send_signal(signal.SIGKILL)
    done = len(list(killed.glob("rows-*")))
    assert process.returncode == -signal.SIGKILL
    assert 1 < done < 6
    assert main([*command_line, "--workers", "1", "--json", "-o", str(killed)]) == 0
    assert json.loads(capsys.readouterr().out)["reused"] == done
    assert main([*command_line, "--workers", "2", "-o", str(shared)]) == 0
    assert files(shared) == files(killed)


@pytest.mark.slow
@pytest.mark.real_slurm
def test_an_array_of_slurm_jobs_makes_the_same_data(command_line, tmp_path: Path, private_cluster) -> None:
    environment = {**os.environ, **private_cluster(nodes=2).environment}
    here, there = tmp_path / "here", tmp_path / "there"
    command_line = [*command_line, "--no-forecast"]
    assert main([*command_line, "--workers", "1", "-o", str(here)]) == 0
    command = [sys.executable, "-m", "mirage", *command_line, "--executor", "slurm", "--array-jobs", "2"]
    done = subprocess.run(
        [*command, "--sbatch", "time=10", "-o", str(there)], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert files(there) == files(here)
    printed = subprocess.run(["scontrol", "-o", "show", "job"], env=environment, capture_output=True, text=True).stdout
    jobs = [dict(word.partition("=")[::2] for word in line.split()) for line in printed.splitlines()]
    assert [(job["JobName"], job["TimeLimit"]) for job in jobs] == [("mirage-dataset", "00:10:00")] * 2


@pytest.mark.slow
@pytest.mark.real_slurm
def test_hyperqueue_inside_a_slurm_job_makes_the_same_data(command_line, tmp_path: Path, private_cluster) -> None:
    cluster, server = private_cluster(nodes=1), tmp_path / "server"
    environment = {**os.environ, **cluster.environment, "HQ_SERVER_DIR": str(server)}
    here, there = tmp_path / "here", tmp_path / "there"
    command_line = [*command_line, "--no-forecast"]
    assert main([*command_line, "--workers", "1", "-o", str(here)]) == 0
    server.mkdir()
    serves = f"exec {sys.executable} {hyperqueue_server.__file__} {server}"
    reported = ["sbatch", "--parsable", "--time=10", f"--output={tmp_path / 'server.log'}", f"--wrap={serves}"]
    subprocess.run(reported, env=environment, check=True, capture_output=True)
    until((server / "hq-current" / "access.json").exists, 20, "a server")
    command = [sys.executable, "-m", "mirage", *command_line, "--executor", "hyperqueue", "--array-jobs", "2"]
    done = subprocess.run([*command, "-o", str(there)], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert files(there) == files(here)
    reported = ["scontrol", "-o", "show", "job"]
    shown = subprocess.run(reported, env=environment, capture_output=True, text=True).stdout
    assert shown.count("JobId=") == 1
