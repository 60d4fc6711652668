"""A chain goes from an agent to its own jobs and back, on a real slurmctld."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from mirage.duration import DAY_S
from tests.support.agentless_chain import SOON
from tests.support.started_agents import no_agent_outlives_its_test  # noqa: F401  a fixture for every test here
from tests.support.user_shell import Shell
from tests.support.waiting import terminate

pytestmark = [pytest.mark.real_slurm, pytest.mark.slow]

SERVICE = """#!/bin/bash
#SBATCH --time=5 --output=/dev/null
trap 'echo "left $SLURM_JOB_ID $(date +%s.%N)" >> run.log; exit 0' USR1
echo "up $SLURM_JOB_ID $(date +%s.%N) $1" >> run.log
while true; do sleep 600 & wait $!; done
"""


@pytest.fixture(scope="module")
def site(private_cluster: Callable[..., Any]) -> Any:
    return private_cluster(nodes=3, gpus=0, min_job_age_s=36_000)


@pytest.fixture
def shell(site: Any, tmp_path: Path) -> Shell:
    made = Shell(site, tmp_path)
    made.script("service.sh", SERVICE)
    (tmp_path / "always.tree").write_text(SOON.format(lead=DAY_S))
    return made


def events(shell: Shell, word: str) -> list[tuple[int, float, str]]:
    """Job, time and argument of each line of the script with a word."""
    path = shell.folder / "run.log"
    rows = [line.split(" ") for line in (path.read_text() if path.exists() else "").splitlines()]
    return [(int(row[1]), float(row[2]), " ".join(row[3:])) for row in rows if row[0] == word]


def ups(shell: Shell, count: int) -> Callable[[], bool]:
    return lambda: len(events(shell, "up")) >= count


def test_without_a_gap_to_jobs_that_decide_and_back(shell: Shell) -> None:
    words = ("--chain", "serve", "--policy", "reactive", "--signal-previous", "USR1", "--grace", "20s", "--for", "1d")
    shell.mirage("submit", *words, "--no-agent", "-N1", "--exclusive", "service.sh", "an argument")
    agent = shell.agent()
    shell.until(ups(shell, 1), 60, "the first link runs")
    shell.until(lambda: shell.rows()["serve"]["next"] is not None, 60, "the second one waits")
    tree = ("--policy", f"shell-tree:tree={shell.folder}/always.tree")
    code = shell.mirage("chain", "edit", "serve", "--agentless", *tree, "--dry-run")
    assert code.startswith("#!/bin/sh\n# mirage: a link of a chain without an agent")
    made = json.loads(shell.mirage("chain", "edit", "serve", "--agentless", *tree, "--json"))
    folder = Path(made["folder"])
    assert len(made["replaced"]) == 1
    shell.mirage("chain", "edit", "serve", "-t", "6", status=1)
    assert "continues without an agent from its next job on" in shell.stderr
    for copy in (folder / "link.sh", *folder.parents[1].glob("chains/serve/*/link.sh")):  # a pass every two seconds
        copy.write_text(copy.read_text().replace("every=300", "every=2"))
    shell.mirage("chain", "edit", "serve", "--policy", "lead:0.077")

    shell.until(ups(shell, 2), 60, "a job that decides runs")
    shell.until(lambda: shell.rows()["serve"]["state"] == "ending", 60, "the agent leaves the chain to it")
    assert f"link 3 continues it without an agent; log: {folder}/log" in shell.rows()["serve"]["why"]
    shell.until(lambda: len(events(shell, "left")) >= 1, 60, "the agent's link has saved and left")
    terminate(agent)
    shell.until(ups(shell, 3), 120, "its successor runs, and no agent")
    shell.until(lambda: len(events(shell, "left")) >= 2, 60, "it has saved and left")

    third = events(shell, "up")[2][0]
    words = ("--chain", "back", "--policy", "lead:0.077", "--no-agent", "--json")
    adopted = json.loads(shell.mirage("adopt", str(third), *words))
    assert adopted["signal"] == {
        "name": "USR2", "to": "shell", "why": "it passes the signal of its chain on to its script",
    }  # fmt: skip
    assert (folder / "stop").exists()
    (folder / "stop").unlink()
    shell.mirage("adopt", str(third), *words, status=1)
    assert "is link 1 of chain back already" in shell.stderr
    assert (folder / "stop").exists(), "as after an adoption that was killed"
    agent = shell.agent()
    shell.until(ups(shell, 4), 120, "the agent has started the next link")
    shell.until(lambda: len(events(shell, "left")) >= 3, 60, "the adopted one has saved and left")
    queue = subprocess.run(
        ["squeue", "-h", "-t", "PD", "-o", "%k"], env=shell.environment, check=True, capture_output=True, text=True
    ).stdout
    assert "agentless:serve" not in queue, "its waiting successor was withdrawn"
    terminate(agent)
    started, left = events(shell, "up"), events(shell, "left")
    assert {text for _, _, text in started} == {"an argument"}
    assert [job for job, _, _ in left] == [job for job, _, _ in started][:3]
    assert all(after[1] <= before[1] for before, after in zip(left, started[1:], strict=True)), "never without a link"
    assert len({job for job, _, _ in started}) == len(started)
    assert all(a[1] < b[1] for a, b in pairwise(started))
    shell.mirage("chain", "stop", "back")
