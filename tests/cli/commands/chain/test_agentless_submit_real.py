"""``mirage submit --agentless`` on a real slurmctld, with Slurm's own estimate of a start."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.user_shell import Shell
from tests.support.waiting import until

pytestmark = [pytest.mark.real_slurm, pytest.mark.slow]


@pytest.fixture(scope="module")
def site(private_cluster) -> object:
    return private_cluster(nodes=1, gpus=0, min_job_age_s=36_000)


def test_the_next_link_is_released_when_slurm_expects_it_too_late(site, tmp_path: Path) -> None:
    shell = Shell(site, tmp_path)
    filler = site.run("sbatch", "--parsable", "--exclusive", "-t5", "-o/dev/null", "--wrap", "sleep 600").strip()
    words = ("submit", "--agentless", "--exclusive", "-t", "3", "--chain", "alone", "--links", "2", "serve.sh", "a b")
    first = int(shell.mirage(*words).split()[-1])
    folder = Path(shell.environment["MIRAGE_HOME"]) / "agentless" / "alone"
    assert f"to end the chain: touch {folder}/stop" in shell.stderr
    rival = site.run("sbatch", "--parsable", "--exclusive", "-t10", "-o/dev/null", "--wrap", "sleep 600").strip()
    site.run("scancel", filler)  # the first link starts when its rival is in the queue
    log = folder / "log"
    until(lambda: log.exists() and "releases" in log.read_text(), 30, lambda: log.read_text() if log.exists() else "")
    (line,) = [line for line in log.read_text().splitlines() if "releases" in line]
    numbers = [int(word.rstrip(":,")) for word in line.split() if word.rstrip(":,").isdecimal()]
    successor, remaining_s, wait_s = numbers[-3:]
    assert 100 < remaining_s <= 180
    assert wait_s == pytest.approx(remaining_s + 600, abs=90)
    assert successor not in (first, int(rival))
    shown = site.run("squeue", "-h", "-j", str(successor), "-o", "%r|%k|%l")
    assert shown.split("|")[0] in ("None", "Priority")  # no longer Dependency
    assert shown.split("|")[1].startswith("agentless:alone:")
    assert shown.strip().endswith(":2|3:00")
    until(lambda: "1 start 0 a b" in (tmp_path / "service.log").read_text(), 10, "the user's script and its argument")

    site.run("scancel", rival)
    site.run("scancel", "--batch", "--signal=USR2", str(first))
    until(lambda: f"2 start {first} a b" in (tmp_path / "service.log").read_text(), 60, lambda: log.read_text())
    assert "1 checkpoint" in (tmp_path / "service.log").read_text()
    site.run("scancel", str(successor))
    shell.mirage(*words, status=1)
    assert "choose another name" in shell.stderr


def test_a_dry_run_prints_the_script_and_makes_nothing(site, tmp_path: Path) -> None:
    shell = Shell(site, tmp_path)
    printed = shell.mirage("submit", "--agentless", "--dry-run", "--json", "-t", "3", "--until-done", "serve.sh")
    script = json.loads(printed)["script"]
    assert script.startswith("#!/bin/sh\n")
    assert "--job-name=serve.sh" in script
    assert "--output=/dev/null" in script  # from the #SBATCH line
    assert not (Path(shell.environment["MIRAGE_HOME"]) / "agentless").exists()
