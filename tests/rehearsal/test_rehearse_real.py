"""Rehearsals on a real Slurm: planted traps are named, right scripts raise no alarm."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from mirage.lab.real.slurm_packages import faketime_library
from tests.support.planted_traps import DEEPSPEED, HOOKED, RIGHT, TRAIN, TRAPS, Planted

pytestmark = [pytest.mark.real_slurm, pytest.mark.slow]

AT_ONCE = 4

GATE = "signal-reaches-no-process,trap-in-foreground,save-longer-than-grace,not-resumed,bare,hooks,hooks alone"
CHOSEN = os.environ.get("MIRAGE_TEST_PLANTED", GATE)
PLANTED = [*TRAPS, *RIGHT] if CHOSEN == "all" else CHOSEN.split(",")
"""The scripts to rehearse: a few of each kind; all by ``MIRAGE_TEST_PLANTED=all``, on an idle machine."""


@pytest.fixture(scope="module")
def cluster(private_cluster: Any) -> Any:
    return private_cluster(nodes=4, min_job_age_s=36_000)


@pytest.fixture(scope="module")
def outcomes(cluster: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What ``mirage rehearse --json`` prints about every script, by its name."""
    folder = tmp_path_factory.mktemp("rehearsals")

    def outcome(item: tuple[str, Planted]) -> tuple[str, dict[str, Any]]:
        name, planted = item
        return name, rehearsed(cluster, folder / name.replace(" ", "-"), planted)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return dict(pool.map(outcome, ((name, {**TRAPS, **RIGHT}[name]) for name in PLANTED)))


def environment_of(cluster: Any, folder: Path) -> dict[str, str]:
    return {
        **os.environ, **cluster.environment, "MIRAGE_HOME": str(folder.with_suffix(".home")),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }  # fmt: skip


def rehearsed(cluster: Any, folder: Path, planted: Planted) -> dict[str, Any]:
    folder.mkdir()
    for name, text in {
        "train.py": TRAIN,
        "hooked.py": HOOKED,
        "deepspeed": DEEPSPEED,
        "job.sh": planted.script,
    }.items():
        (folder / name).write_text(text)
    (folder / ".mirage-stop-77").touch()
    of_a_link = {"MIRAGE_STOP_FILE": f"{folder}/.mirage-stop-77", "MIRAGE_JOB_END_TIME": "1", "MIRAGE_LEAD_S": "9"}
    environment = environment_of(cluster, folder) | of_a_link  # as in a job that its wrapper has stopped
    if planted.further.get("shared"):
        other = "while sleep 0.5; do date +%N > state/part; for f in state/step-*.json; do touch $f; done; done"
        subprocess.run(
            ["sbatch", "-o", "/dev/null", "-t", "5", f"--wrap={other}"], cwd=folder, env=environment, check=True
        )
    done = subprocess.run(
        [sys.executable, "-m", "mirage", "rehearse", "--json", "--after", "4s", *planted.words, "job.sh"],
        cwd=folder, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr
    (folder / "outcome.json").write_text(done.stdout)
    return {"status": done.returncode, "stderr": done.stderr, **json.loads(done.stdout or "{}")}


@pytest.mark.parametrize("name", [name for name in TRAPS if name in PLANTED])
def test_a_planted_trap_is_named(name: str, outcomes: dict[str, dict[str, Any]]) -> None:
    outcome = outcomes[name]
    assert [trap["name"] for trap in outcome["traps"]] == [name], outcome
    assert outcome["status"] == 1


@pytest.mark.parametrize("name", [name for name in RIGHT if name in PLANTED])
def test_a_right_script_raises_no_alarm_and_resumes(name: str, outcomes: dict[str, dict[str, Any]]) -> None:
    outcome = outcomes[name]
    assert outcome["traps"] == [], outcome
    assert (outcome["passed"], outcome["status"]) == (True, 0), outcome
    assert outcome["lost_steps"] <= 2
    assert 2 <= outcome["lead_s"] <= 20


def test_a_rehearsal_that_is_ended_by_a_signal_cancels_its_job(cluster: Any, tmp_path: Path) -> None:
    (tmp_path / "job.sh").write_text("#!/bin/bash\nsleep 300\n")
    environment = environment_of(cluster, tmp_path)
    process = subprocess.Popen(
        [sys.executable, "-m", "mirage", "rehearse", "-J", "ended", "job.sh"],
        cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    assert any("is submitted" in line for line in process.stderr)  # stops reading at this line
    process.terminate()
    process.communicate()
    assert process.returncode == 128 + signal.SIGTERM
    listed = subprocess.run(
        ["squeue", "-h", "-n", "ended", "-t", "PD,R"], env=environment, capture_output=True, text=True
    )
    assert (listed.returncode, listed.stdout) == (0, "")


@pytest.mark.parametrize("speed", [1, 60])
def test_a_job_that_cannot_start_is_reported_with_its_reason(cluster: Any, tmp_path: Path, speed: int) -> None:
    (tmp_path / "job.sh").write_text("#!/bin/bash\nsleep 300\n")
    clock = {} if speed == 1 else {"LD_PRELOAD": str(faketime_library()), "FAKETIME": f"+0 x{speed}"}
    begun_s = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "mirage", "rehearse", "-N", "9", "--patience", f"{4 * speed}s", "job.sh"],
        cwd=tmp_path, env=environment_of(cluster, tmp_path) | clock, capture_output=True, text=True,
    )  # fmt: skip
    assert re.search(r"mirage: job \d+ waits: PartitionNodeLimit\n", done.stderr), done.stderr
    assert f"did not start within {4 * speed} s; give a longer --patience" in done.stderr
    assert time.monotonic() - begun_s < 100


def test_a_job_that_ends_at_once_is_reported_with_its_output(cluster: Any, tmp_path: Path) -> None:
    (tmp_path / "job.sh").write_text("#!/bin/sh\nexec no-such-program\n")
    done = subprocess.run(
        [sys.executable, "-m", "mirage", "rehearse", "job.sh"],
        cwd=tmp_path, env=environment_of(cluster, tmp_path), capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 1
    assert "had ended with exit status 127 (a chain pauses after three jobs" in done.stdout
    output = re.search(r"showed no step: see (\S+/slurm-\d+\.out)", done.stdout)
    assert output, done.stdout + done.stderr
    assert "no-such-program: not found" in Path(output[1]).read_text()


@pytest.mark.parametrize("end", ["", "sleep 6"])
def test_steps_are_recorded_from_the_begin_of_a_job_to_its_end(cluster: Any, tmp_path: Path, end: str) -> None:
    (tmp_path / "job.sh").write_text(f"#!/bin/sh\necho step 1\n{end}\n")
    done = subprocess.run(
        [sys.executable, "-m", "mirage", "rehearse", "--json", "--after", "2s", "job.sh"],
        cwd=tmp_path, env=environment_of(cluster, tmp_path), capture_output=True, text=True,
    )  # fmt: skip
    assert (done.returncode, json.loads(done.stdout)["resumed_step"]) == (1, 1), done.stdout + done.stderr
