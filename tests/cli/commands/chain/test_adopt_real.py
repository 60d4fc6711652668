"""``mirage adopt`` on a real slurmctld: jobs of several launchers get a second link."""

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

from mirage.agent.store.sql_store import SqlStore
from mirage.job_state import JobState
from tests.support import forked_processes
from tests.support.started_agents import AGENTS, no_agent_outlives_its_test  # noqa: F401  a fixture for every test here
from tests.support.user_shell import Shell
from tests.support.waiting import terminate

pytestmark = [pytest.mark.real_slurm, pytest.mark.slow]

PLAIN = """#!/bin/bash
#SBATCH --output=/dev/null --time=4
trap 'echo "told $SLURM_JOB_ID" >> run.log; exit 0' USR2
echo "start $SLURM_JOB_ID|$1|$2|$COLOUR|$PWD|$SLURM_JOB_NUM_NODES|${MIRAGE_LINK:-none}" >> run.log
while true; do sleep 600 & wait $!; done
"""

WORDS = ("--policy", "lead:0.06", "--links", "2", "--grace", "5s", "--no-agent")


@pytest.fixture(scope="module")
def site(private_cluster: Callable[..., Any]) -> Any:
    return private_cluster(nodes=2, gpus=0, min_job_age_s=36_000)


@pytest.fixture
def shell(site: Any, tmp_path: Path) -> Shell:
    made = Shell(site, tmp_path)
    made.script("plain.sh", PLAIN)
    return made


def sbatch(shell: Shell, *words: str, **variables: str) -> int:
    """A job that Mirage knows nothing of."""
    done = subprocess.run(
        ["sbatch", "--parsable", *words], env={**shell.environment, **variables}, cwd=shell.folder, check=True,
        capture_output=True, text=True,
    )  # fmt: skip
    return int(done.stdout)


def lines(shell: Shell, word: str) -> list[list[str]]:
    path = shell.folder / "run.log"
    text = path.read_text().splitlines() if path.exists() else []
    return [line.removeprefix(f"{word} ").split("|") for line in text if line.startswith(f"{word} ")]


def state(shell: Shell, job: int) -> JobState:
    (found,) = shell.slurm.observe_jobs([job])
    return found.state


def adopt(shell: Shell, job: int, *words: str) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(shell.mirage("adopt", str(job), "--json", *WORDS, *words))
    return made


def test_a_running_and_a_pending_job_live_on_in_a_second_link(shell: Shell) -> None:
    running = sbatch(shell, "-N2", "--overcommit", "-s", "plain.sh", "a b", "c", COLOUR="green\nand blue")
    shell.until(lambda: len(lines(shell, "start")) == 1, 30, "the plain job runs")
    before = shell.slurm.observe().jobs
    shell.mirage("adopt", str(running), "--dry-run")
    assert "arguments: 'a b' c [the job's own process]" in shell.mirage("adopt", str(running), "--dry-run")
    assert [job.comment for job in shell.slurm.observe().jobs] == [job.comment for job in before], "nothing is touched"
    made = adopt(shell, running, "--chain", "runs")
    assert made["signal"]["name"] == "USR2", made
    pending = sbatch(shell, "--begin=now+20", "-J", "late one", "plain.sh", "x", COLOUR="red")
    assert adopt(shell, pending, "--chain", "waits", "--variables-from", "here")["state"] == "PENDING"
    assert "is link 1 of chain runs already" in refused(shell, running)
    agent = shell.agent()
    shell.until(lambda: len(lines(shell, "told")) >= 2, 120, "both first links have handed over")
    shell.until(lambda: shell.rows()["waits"]["link"] == 2, 30, "the second link is alone")
    terminate(agent)
    for name, job in (("runs", running), ("waits", pending)):
        found = shell.found(name)
        assert {number: len(jobs) for number, jobs in found.items()} == {1: 1, 2: 1}, name
        assert found[1][0].id == job
        assert found[2][0].name == found[1][0].name
        shell.mirage("chain", "stop", name)
    starts = {int(words[0]): words[1:] for words in lines(shell, "start") if words[0].isdecimal()}
    second = shell.found("runs")[2][0].id
    assert starts[second] == ["a b", "c", "green"], "arguments and environment, with a line end in a value"
    assert f"and blue|{shell.folder}|2|2" in (shell.folder / "run.log").read_text().splitlines(), "and the directory"
    assert shell.found("runs")[2][0].nodes == 2


def refused(shell: Shell, job: int, *words: str) -> str:
    shell.mirage("adopt", str(job), *WORDS, *words, status=1)
    return shell.stderr


def killed_adoption(*words: str) -> None:
    """``mirage adopt`` that dies with SIGKILL between the tag of the job and the store."""
    SqlStore.add_adopted_chain = lambda *_: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[assignment,method-assign]
    forked_processes.mirage(*words)


def test_a_killed_adoption_is_completed_by_a_second_one(shell: Shell) -> None:
    job = sbatch(shell, "plain.sh")
    shell.until(lambda: len(lines(shell, "start")) == 1, 30, "the plain job runs")
    log = shell.folder / "adopt.log"
    process = forked_processes.start(
        killed_adoption, "adopt", str(job), "--chain", "torn", *WORDS, env=shell.environment, cwd=shell.folder, out=log,
        err=log,
    )  # fmt: skip
    AGENTS.append(process)
    assert process.wait() == -signal.SIGKILL, log.read_text()
    AGENTS.remove(process)
    (tagged,) = shell.slurm.observe_jobs([job])
    assert tagged.comment.startswith("mirage:torn:1:")
    assert shell.rows() == {}, "there is no chain, and an agent leaves the job alone"
    agent = shell.agent()
    assert adopt(shell, job)["chain"] == "torn", "name and key are those of the tag"
    shell.until(lambda: 2 in shell.found("torn"), 60, "the agent has submitted the second link")
    assert {number: len(jobs) for number, jobs in shell.found("torn").items()} == {1: 1, 2: 1}
    assert shell.slurm.observe_jobs([job])[0].comment == tagged.comment
    terminate(agent)
    shell.mirage("chain", "stop", "torn")


def test_jobs_that_cannot_be_a_chain_are_refused_before_anything_is_touched(shell: Shell) -> None:
    array = sbatch(shell, "--begin=now+1hour", "--array=1-2", "plain.sh")
    held = sbatch(shell, "--hold", "plain.sh")
    other = {"SLURM_TIME_FORMAT": "standard"}
    interactive = subprocess.Popen(
        ["srun", "-t", "3", "-J", "by-hand", "sleep", "60"], env={**shell.environment, **other}, cwd=shell.folder,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        by_hand = lambda: [job for job in shell.slurm.observe().jobs if job.name == "by-hand"]  # noqa: E731
        shell.until(lambda: any(job.state is JobState.RUNNING for job in by_hand()), 30, "srun has its nodes")
        comments = {job.id: job.comment for job in shell.slurm.observe().jobs}
        assert "array" in refused(shell, array)
        assert f"scontrol release {held}" in refused(shell, held)
        assert "has no batch script" in refused(shell, by_hand()[0].id)
        assert "Invalid job id" in refused(shell, 999_999)
        assert {job.id: job.comment for job in shell.slurm.observe().jobs} == comments
        assert shell.rows() == {}
    finally:
        interactive.terminate()
        interactive.wait()
        shell.slurm.cancel([array, held])


WRAPPED = """#!/bin/bash
#SBATCH --output=/dev/null --time=4 --ntasks=1
launch() { srun --overlap "$@" & child=$!; wait $child; }
launch bash -c 'trap "echo told $SLURM_JOB_ID >> run.log; exit 0" USR1; echo "start $SLURM_JOB_ID" >> run.log
while true; do sleep 600 & wait $!; done'
"""


def test_a_launcher_that_starts_its_own_steps_gets_the_signal_in_them(shell: Shell) -> None:
    shell.script("wrapped.sh", WRAPPED)
    job = sbatch(shell, "wrapped.sh")
    shell.until(lambda: len(lines(shell, "start")) == 1, 30, "the step runs")
    made = adopt(shell, job, "--chain", "steps")
    assert (made["signal"]["name"], made["signal"]["to"]) == ("USR1", "steps")
    agent = shell.agent()
    shell.until(lambda: len(lines(shell, "start")) == 2, 90, "the second link follows")
    shell.until(lambda: lines(shell, "told") == [[str(job)]], 60, "the step of the first link was told")
    terminate(agent)
    assert {number: len(jobs) for number, jobs in shell.found("steps").items()} == {1: 1, 2: 1}
    shell.mirage("chain", "stop", "steps")


SUBMITIT = """
import sys, time
from pathlib import Path
import submitit

class Counter:
    def __init__(self): self.step = 0
    def __call__(self):
        with open("run.log", "a") as out: out.write(f"start {self.step}\\n")
        while self.step < 100_000:
            self.step += 1
            time.sleep(0.1)
    def checkpoint(self):
        with open("run.log", "a") as out: out.write(f"told {self.step}\\n")
        return submitit.helpers.DelayedSubmission(self)

if __name__ == "__main__":
    executor = submitit.SlurmExecutor(folder="states", python=sys.executable)
    executor.update_parameters(time=4, ntasks_per_node=1, signal_delay_s=30)
    print(executor.submit(Counter()).job_id)
"""


@pytest.mark.soak
def test_a_job_of_submitit_resumes_from_its_checkpoint(shell: Shell) -> None:
    pytest.importorskip("submitit")
    shell.script("count.py", SUBMITIT)
    done = subprocess.run(
        [sys.executable, "count.py"],
        env=shell.environment,
        cwd=shell.folder,
        capture_output=True,
        text=True,
        check=True,
    )
    job = int(done.stdout.split()[-1])
    shell.until(lambda: len(lines(shell, "start")) == 1, 60, "submitit has started")
    made = adopt(shell, job, "--chain", "counts")
    assert (made["signal"]["name"], made["signal"]["to"]) == ("USR2", "steps")
    assert any("submitit names its state" in warning for warning in made["warnings"])
    agent = shell.agent()
    shell.until(lambda: len(lines(shell, "start")) == 2, 120, "the second link has loaded the state")
    shell.until(lambda: state(shell, job) not in (JobState.PENDING, JobState.RUNNING), 60, "the first has ended")
    terminate(agent)
    assert {number: len(jobs) for number, jobs in shell.found("counts").items()} == {1: 1, 2: 1}
    shell.mirage("chain", "stop", "counts")
    first, second = lines(shell, "start")
    assert int(second[0]) == int(lines(shell, "told")[0][0]) > int(first[0]), "it goes on where the first has saved"


LIGHTNING = """
import time
import lightning as L, torch
from lightning.pytorch.demos.boring_classes import BoringModel

class Slow(BoringModel):
    def on_train_start(self):
        with open("run.log", "a") as out: out.write(f"start {self.trainer.global_step}\\n")
    def training_step(self, batch, index):
        time.sleep(0.05)
        return super().training_step(batch, index)
    def on_save_checkpoint(self, checkpoint):
        with open("run.log", "a") as out: out.write(f"told {self.trainer.global_step}\\n")

torch.set_num_threads(1)
trainer = L.Trainer(max_epochs=-1, accelerator="cpu", logger=False, enable_progress_bar=False,
                    enable_model_summary=False, enable_checkpointing=False, limit_val_batches=0, default_root_dir=".")
trainer.fit(Slow())
"""


@pytest.mark.soak
def test_a_job_of_lightning_resumes_from_its_checkpoint(shell: Shell) -> None:
    pytest.importorskip("lightning")
    shell.script("lit.py", LIGHTNING)
    options = "#SBATCH -t 6 -n 1 -N 1 -o lit.out --open-mode=append"
    shell.script("lit.sh", f"#!/bin/bash\n{options}\nsrun {sys.executable} lit.py\n")
    job = sbatch(shell, "lit.sh")
    shell.until(lambda: len(lines(shell, "start")) == 1, 120, "Lightning trains")
    words = ("--policy", "lead:0.085", "--links", "2", "--grace", "60s", "--no-agent", "--chain", "lit")
    made = json.loads(shell.mirage("adopt", str(job), "--json", *words))
    assert (made["signal"]["name"], made["signal"]["to"]) == ("USR1", "steps"), made
    agent = shell.agent()
    shell.until(lambda: len(lines(shell, "start")) == 2, 240, "the second link trains")
    shell.until(lambda: state(shell, job) not in (JobState.PENDING, JobState.RUNNING), 90, "the first has ended")
    terminate(agent)
    assert {number: len(jobs) for number, jobs in shell.found("lit").items()} == {1: 1, 2: 1}, "it requeues nothing"
    shell.mirage("chain", "stop", "lit")
    first, second = lines(shell, "start")
    assert int(second[0]) == int(lines(shell, "told")[-1][0]) > int(first[0]), "it goes on where the first has saved"
