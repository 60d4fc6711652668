"""``mirage submit`` where a real slurmctld is away, silent, or on a fast clock (60 times)."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path

import pytest

from mirage.real_time import real_s
from tests.support.started_agents import no_agent_outlives_its_test  # noqa: F401  a fixture for every test here
from tests.support.user_shell import Shell
from tests.support.waiting import terminate

pytestmark = [pytest.mark.real_slurm, pytest.mark.slow]

WORDS = ("submit", "-t", "5", "--policy", "reactive", "--no-agent", "--request-id")


@pytest.fixture(scope="module")
def site(private_cluster) -> object:
    return private_cluster(nodes=1, gpus=0, min_job_age_s=36_000)


@pytest.fixture
def shell(site, tmp_path: Path) -> Shell:
    return Shell(site, tmp_path)


def tagged(shell: Shell) -> list[int]:
    """Jobs of chains."""
    return [job.id for job in shell.slurm.observe().jobs if job.comment.startswith("mirage:")]


def test_a_controller_that_is_away_got_no_request_and_the_next_try_makes_one_chain(site, shell: Shell) -> None:
    words = (*WORDS, "away", "serve.sh")
    before = tagged(shell)
    site.kill_controller()
    try:
        assert shell.mirage(*words, status=1) == ""
        assert "nothing was submitted, and there is no chain: try again" in shell.stderr
        assert "Unable to contact slurm controller (connect failure)" in shell.stderr
    finally:
        site.start_controller()
    assert shell.mirage("chain", "list", "--all", "--noheader") == ""
    printed = shell.mirage(*words)
    assert shell.mirage(*words) == printed
    assert sorted(set(tagged(shell)) - set(before)) == [int(printed.split()[-1])]


def test_a_controller_that_gives_no_answer_from_the_beginning_gets_no_request_for_a_job(site, shell: Shell) -> None:
    """Which cluster it is has to be known first: the store's chains live on one."""
    before = tagged(shell)
    controller = site.running()["slurmctld"]
    os.kill(controller, signal.SIGSTOP)
    try:
        assert shell.mirage(*WORDS, "mute", "serve.sh", status=1) == ""
        assert "nothing was submitted, and there is no chain: try again" in shell.stderr
    finally:
        os.kill(controller, signal.SIGCONT)
    assert shell.mirage("chain", "list", "--all", "--noheader") == ""
    assert tagged(shell) == before


def silencing_sbatch(folder: Path, controller: int) -> dict[str, str]:
    """An environment in which the first sbatch finds that the controller has just gone silent."""
    (folder / "bin").mkdir()
    once = f"mkdir {folder}/silenced 2> /dev/null && kill -STOP {controller}"  # later links keep this PATH
    (folder / "bin" / "sbatch").write_text(f'#!/bin/sh\n{once}\nexec {shutil.which("sbatch")} "$@"\n')
    (folder / "bin" / "sbatch").chmod(0o700)
    return {"PATH": f"{folder}/bin:{os.environ['PATH']}"}


def test_a_controller_that_gives_no_answer_leaves_a_chain_and_no_second_one(site, shell: Shell) -> None:
    words = (*WORDS, "silent", "serve.sh")
    before = tagged(shell)
    controller = site.running()["slurmctld"]
    try:
        assert shell.mirage(*words, status=75, env=silencing_sbatch(shell.folder, controller)) == ""
        assert "it is not known whether a job was submitted" in shell.stderr
        began_s = real_s()
        assert shell.mirage(*words, status=75) == ""
        assert "its job is not known yet" in shell.stderr
        assert json.loads(shell.mirage("submit", "--json", *words[1:], status=75))["job"] is None
        assert real_s() - began_s < 60, "nobody asks again"
    finally:
        os.kill(controller, signal.SIGCONT)
    agent = shell.agent()
    try:
        shell.until(lambda: "Submitted" in known(shell, words), 150, "the job is known")
    finally:
        terminate(agent)
    first, *later = sorted(set(tagged(shell)) - set(before))
    assert known(shell, words).split()[-1] == str(first)
    (chain,) = json.loads(shell.mirage("chain", "list", "--json"))
    assert set(map(len, shell.jobs(chain["chain"]).values())) == {1}, later


def known(shell: Shell, words: tuple[str, ...]) -> str:
    """What a repeated request prints."""
    try:
        return shell.mirage(*words)
    except AssertionError:
        return ""


def test_an_agent_on_a_fast_clock_has_as_long_to_start_as_on_a_slow_one(private_cluster, tmp_path: Path) -> None:
    fast = Shell(private_cluster(nodes=1, gpus=0, speed=60, min_job_age_s=360_000), tmp_path)
    try:
        printed = fast.mirage("submit", "-t", "60", "--policy", "reactive", "serve.sh")
        assert printed.startswith("Submitted batch job ")
        assert "no agent was running: started one here" in fast.stderr
    finally:
        fast.mirage("agent", "stop")
