"""``mirage schedule compare`` on an array of jobs of a real Slurm."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mirage.cli import main
from mirage.schedule.compare.gpu_comparison import FILE
from tests.support.waiting import until


@pytest.mark.slow
@pytest.mark.real_slurm
def test_an_array_killed_and_resumed_gives_the_rows_of_this_machine(
    tmp_path: Path, private_cluster: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """The waiter is killed after the answer of the first of two jobs on one processor."""
    rows = [f"2017-01-01 00:0{k}:00,{3600 // (k + 1)},{k % 3 + 1}" for k in range(9)]
    (tmp_path / "jobs.csv").write_text("\n".join(["timestamp,duration,num_gpus", *rows, ""]))
    (tmp_path / "gpus.toml").write_text("[[servers]]\nname='a'\ngpu_type='a'\nservers=1\ngpus_per_server=4\n")
    words = ["schedule", "compare", str(tmp_path / "jobs.csv"), "--json", "--schedulers", "fifo,srtf"]
    words += ["--cluster", str(tmp_path / "gpus.toml"), "--checkpoint-s", "600"]
    assert main([*words, "--workers", "1"]) == 0
    here = json.loads(capsys.readouterr().out)["rows"]

    environment = {**os.environ, **private_cluster(nodes=1, cpus=1).environment}
    journal = tmp_path / "kept"
    array = ["--resume", str(journal), "--executor", "slurm", "--array-jobs", "2", "--sbatch", "time=10"]
    command = [sys.executable, "-m", "mirage", *words, *array]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        until(lambda: process.poll() is not None or _lines(journal) > 0, 30, "an answer", pause_s=0.02)
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    assert _lines(journal) == 1
    finished = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr
    report = json.loads(finished.stdout)
    assert (report["trials_reused"], report["failed"]) == (1, [])
    assert report["rows"] == here
    jobs = subprocess.run(["scontrol", "-o", "show", "job"], env=environment, capture_output=True, text=True).stdout
    assert jobs.count("JobName=mirage-schedule ") >= 3
    assert len(list((journal / ".slurm").iterdir())) == 1  # of the killed one, whose second job may still be at work


def _lines(folder: Path) -> int:
    """The number of stored outcomes."""
    return len((folder / FILE).read_text().splitlines()) if (folder / FILE).exists() else 0
