"""Arrays of Slurm jobs on a real slurmctld: failed, killed and abandoned jobs."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mirage.errors import SlurmError
from mirage.study.executors.slurm_array import SlurmArray
from tests.support.executor_work import failing, waiting
from tests.support.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.real_slurm]


@pytest.fixture
def array(tmp_path: Path, private_cluster: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> SlurmArray:
    for name, value in private_cluster(nodes=2).environment.items():
        monkeypatch.setenv(name, value)
    options = {"time": "10"}
    return SlurmArray(tmp_path / "jobs", jobs=2, sbatch=options, sleep=lambda seconds: time.sleep(seconds / 10))


def states() -> dict[str, str]:
    shown = subprocess.run(["scontrol", "-o", "show", "job"], check=True, capture_output=True, text=True).stdout
    jobs = [dict(word.partition("=")[::2] for word in line.split()) for line in shown.splitlines()]
    return {f"{job['ArrayJobId']}_{job['ArrayTaskId']}": job["JobState"] for job in jobs}


def test_a_failed_job_reports_its_error_and_its_output(array: SlurmArray) -> None:
    found: list[int] = []
    with pytest.raises(SlurmError, match=r"job \d+_1 failed: ValueError: 5 cannot be halved") as error:
        found.extend(array(failing, 5, range(6)))
    output = str(error.value).partition("its output is in ")[2].partition(". Run the same")[0]
    assert "Traceback" in Path(output).read_text()
    assert {3, 4} <= set(found)  # what came before the error


def test_a_killed_job_is_reported(array: SlurmArray, tmp_path: Path) -> None:
    results = array(waiting, str(tmp_path), range(2))
    (tmp_path / "leave-0").touch()
    assert next(results) == 0
    until((tmp_path / "begun-1").exists, 20, "the second job")
    subprocess.run(["scancel", "--signal=KILL", next(job for job in states() if job.endswith("_1"))], check=True)
    with pytest.raises(SlurmError, match=r"job \d+_1 failed: it ended without a result: killed"):
        next(results)


def test_abandoned_jobs_are_cancelled(array: SlurmArray, tmp_path: Path) -> None:
    results = array(waiting, str(tmp_path), range(4))
    (tmp_path / "leave-0").touch()
    assert next(results) == 0
    results.close()
    over = {
        "CANCELLED",
        "COMPLETED",
    }  # the second may begin so late that it finds no caller waiting, and ends by itself
    until(lambda: set(states().values()) <= over, 20, lambda: str(states()))
    assert next(state for job, state in states().items() if job.endswith("_0")) == "CANCELLED"
