"""A chain on a real slurmctld under a moved folder of the agent: each link is one job."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mirage.job_state import JobState
from tests.support.started_agents import no_agent_outlives_its_test  # noqa: F401  a fixture for every test here
from tests.support.user_shell import SERVICE, Shell
from tests.support.waiting import SLOWNESS, terminate

pytestmark = [pytest.mark.real_slurm, pytest.mark.slow]

FIRST_ONLY = SERVICE.replace("#SBATCH --nodes=1", "#SBATCH --begin=now\n#SBATCH --nodes=1")
"""Later links run a copy of their own, without ``--begin``."""


@pytest.fixture(scope="module")
def cluster(private_cluster) -> Any:
    """A cluster that forgets no job while these tests run."""
    return private_cluster(nodes=4, gpus=0, min_job_age_s=36_000)


@pytest.fixture
def shell(cluster, tmp_path: Path) -> Shell:
    """A user with one chain, ``serve``, of links that follow each other as fast as they can."""
    shell = Shell(cluster, tmp_path)
    shell.script("serve.sh", FIRST_ONLY)
    words = ("--policy", "lead:0.08", "--links", "5", "--grace", "5s")
    shell.submit("serve", "-t", "5", *words, "serve.sh", "argument")
    return shell


def started(shell: Shell) -> list[int]:
    """Links by the service's own log, in the order of their starts."""
    return [int(line.split()[0]) for line in shell.log() if " start " in line]


def move(shell: Shell) -> Path:
    """Move the agent's folder; later commands of this shell use its new place."""
    before, after = Path(shell.environment["MIRAGE_HOME"]), shell.folder / "elsewhere" / "mirage"
    after.parent.mkdir()
    before.rename(after)
    shell.environment["MIRAGE_HOME"] = str(after)
    return before


def as_earlier_versions_wrote(shell: Shell) -> None:
    """Absolute paths of the scripts and of the store, in the store and in the chain's file."""
    home = Path(shell.environment["MIRAGE_HOME"])

    def absolute(spec: dict[str, Any]) -> dict[str, Any]:
        del spec["folder"]
        spec["submission"]["script"] = str(home / spec["submission"]["script"])
        return spec | {"later_script": str(home / spec["later_script"])}

    with closing(sqlite3.connect(home / "store.db")) as store, store:
        (text,) = store.execute("SELECT spec FROM chains").fetchone()
        store.execute("UPDATE chains SET spec = ?", (json.dumps(absolute(json.loads(text))),))
    file = home / "chains" / "serve" / "chain.json"
    stored = json.loads(file.read_text())
    stored["store"]["place"] = str(home / "store.db")
    file.write_text(json.dumps(stored | {"spec": absolute(stored["spec"])}))


def second_waits(shell: Shell) -> None:
    shell.until(lambda: 2 in shell.jobs("serve"), 30, "the second link is submitted")


def continues(shell: Shell) -> None:
    """Links submitted after the move run; each is one job, and ran once."""
    agent = shell.agent()
    shell.until(lambda: len(started(shell)) >= 4, 150, "two links that were submitted after the move run")
    shell.mirage("chain", "stop", "serve")
    shell.until(lambda: shell.row("serve")["state"] == "done", 60, "the chain ends")
    assert terminate(agent) == 0
    assert started(shell) == list(range(1, len(started(shell)) + 1))
    assert {len(jobs) for jobs in shell.jobs("serve").values()} == {1}
    assert {state for jobs in shell.jobs("serve").values() for state in jobs} <= {
        JobState.COMPLETED, JobState.CANCELLED, JobState.TIMEOUT,
    }  # fmt: skip
    assert "refused" not in shell.kinds("serve")


@pytest.mark.parametrize("earlier", [False, True], ids=["now", "paths of earlier versions"])
def test_a_folder_that_was_moved_while_no_agent_ran_serves_its_chains(shell: Shell, earlier: bool) -> None:
    agent = shell.agent()
    second_waits(shell)
    assert terminate(agent) == 0
    if earlier:
        as_earlier_versions_wrote(shell)
    before = move(shell)
    continues(shell)
    assert not before.exists()


def test_an_agent_with_a_moved_folder_ends_and_another_continues(shell: Shell) -> None:
    agent = shell.agent()
    second_waits(shell)
    before = move(shell)
    assert agent.wait(SLOWNESS * 20) == 1
    log = (shell.folder / "agent.log").read_text()
    assert f"the store {before}/store.db was deleted or moved" in log
    assert "where its folder was moved: MIRAGE_HOME=FOLDER mirage agent start" in log
    continues(shell)
    assert not before.exists()
