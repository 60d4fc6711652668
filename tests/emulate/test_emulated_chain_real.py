"""A chain of emulated trainings on a real slurmctld: what each link resumes from."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.started_agents import no_agent_outlives_its_test  # noqa: F401  a fixture for every test here
from tests.support.toy_profiles import write_profiles
from tests.support.user_shell import Shell
from tests.support.waiting import terminate

pytestmark = [pytest.mark.real_slurm, pytest.mark.slow]

STEP_S, CHECKPOINT_S = 2.4, 12.0

LINKS = range(1, 7)
"""Slurm warns a link up to a minute early, so a training of three links may need more."""

TRAIN = f"""#!/bin/bash
#SBATCH -o train.log --open-mode=append
leave() {{ trap '' USR2; kill -USR2 $pid; }}
trap leave USR2
{sys.executable} -m mirage emulate train --profiles profiles --model toy --gpu-type slow --gpus 2 --steps 30 \\
    --restart-s 3 --resume toy.ckpt --checkpoint-s {CHECKPOINT_S} --progress progress.json \\
    --json > link-$MIRAGE_LINK.json & pid=$!
echo $pid > pid-$MIRAGE_LINK
{{ wait $pid || wait $pid; }} && {sys.executable} -m mirage link done
"""


@pytest.mark.soak
def test_links_finish_a_training_and_a_killed_one_loses_at_most_one_interval(
    private_cluster: Any, tmp_path: Path
) -> None:
    shell = Shell(private_cluster(nodes=2), tmp_path)
    write_profiles(shell.folder / "profiles")
    shell.script("train.sh", TRAIN)
    shell.submit("train", "-t", "1", "--policy", "reactive", "--links", str(len(LINKS)), "--grace", "15s", "train.sh")
    agent = shell.agent()

    def progress(link: int) -> dict[str, Any]:
        there = (shell.folder / f"pid-{link}").exists() and (shell.folder / "progress.json").exists()
        return json.loads((shell.folder / "progress.json").read_text()) if there else {}

    def result(link: int) -> dict[str, Any]:
        file = shell.folder / f"link-{link}.json"
        return json.loads(file.read_text()) if file.exists() and file.stat().st_size else {}

    shell.until(lambda: bool(result(1)), 75, "the first link is warned and leaves")
    first = result(1)
    assert (first["state"], first["warning"]) == ("left", "USR2")
    assert first["saved_step"] == first["step"]

    shell.until(lambda: progress(2).get("step", 0) >= first["step"] + 6, 60, "the second link trains")
    os.kill(int((shell.folder / "pid-2").read_text()), signal.SIGKILL)
    reached = progress(2)["step"]
    shell.until(lambda: bool(result(3)), 120, "the third link leaves or finishes")
    assert result(2) == {}
    assert result(3)["first_step"] > first["step"]
    assert reached - result(3)["first_step"] <= CHECKPOINT_S / STEP_S + 5 / STEP_S  # the file is up to 5 s old
    shell.until(lambda: any(result(k).get("state") == "done" for k in LINKS), 150, "no link finishes the training")
    links = [found for k in LINKS[2:] if (found := result(k))]
    assert [found["first_step"] for found in links[1:]] == [found["saved_step"] for found in links[:-1]]
    assert (links[-1]["state"], links[-1]["step"]) == ("done", 30)
    shell.until(lambda: "done" in shell.kinds("train"), 30, "the chain is not done")
    terminate(agent)
