"""``mirage predict`` on a real slurmctld, under load."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.waiting import until

pytestmark = [pytest.mark.real_slurm, pytest.mark.slow]

BOTH_S = 2 * 10 * 60 + 60
"""As long as two jobs of ten minutes, one after the other, may take."""

SCRIPT = "#!/bin/bash\n#SBATCH -N 2 --exclusive -t 3 -J mine -o /dev/null\nsleep 1\n"


def test_a_promise_is_made_stored_and_settled(private_cluster, tmp_path: Path) -> None:
    site = private_cluster(nodes=2, gpus=0, accounting=False, min_job_age_s=36_000)
    environment = {**os.environ, **site.environment, "MIRAGE_HOME": str(tmp_path / "home"), "TZ": "UTC"}
    (tmp_path / "mine.sh").write_text(SCRIPT)

    def mirage(*words: str, status: int = 0) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "mirage", "predict", *words],
            env=environment, cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == status, f"{done.stdout}{done.stderr}"
        return done.stdout if not status else done.stderr

    def sbatch(*words: str) -> int:
        printed = subprocess.run(
            ["sbatch", "--parsable", *words], env=environment, cwd=tmp_path, capture_output=True, text=True, check=True
        )
        return int(printed.stdout)

    idle = json.loads(mirage("--json", "mine.sh"))
    assert idle["wait"]["95%"] == [0, 0]
    assert idle["slurm"]["wait"] <= 1
    going = f"--wrap=until test -e {tmp_path}/go; do sleep 1; done"  # they end when all has been asked
    before = [sbatch("-N2", "--exclusive", "-t", "10", "-o", "/dev/null", going) for _ in range(2)]
    busy = json.loads(mirage("--json", "mine.sh"))
    assert 0 < busy["wait"]["median"] <= BOTH_S
    assert 0 < busy["slurm"]["wait"] <= BOTH_S, "sbatch --test-only, as this Slurm prints it"
    number = sbatch("mine.sh")
    waiting = json.loads(mirage("--json", "--job", str(number)))
    assert 0 < waiting["wait"]["median"] <= BOTH_S
    mine = {one["job"]: one["wait"]["median"] for one in json.loads(mirage("--json", "--mine"))}
    assert mine.keys() == {before[1], number}
    assert mine[before[1]] < mine[number], "of equal priorities, in the order of their numbers"
    assert "Requested node configuration is not available" in mirage("-N", "9", status=1)

    (tmp_path / "go").touch()

    def settled() -> int:
        groups = json.loads(mirage("--json", "--calibration"))["groups"]
        return groups[0]["kept"] if groups else 0

    until(lambda: settled() == 3, 30, "the script that became a job, this job, and the one before it", 2.0)
    (group, *_) = json.loads(mirage("--json", "--calibration"))["groups"]
    assert group["kept"] == 3
    assert group["slurm_kept"] >= 1
    assert 0 <= group["error_s"] <= BOTH_S
