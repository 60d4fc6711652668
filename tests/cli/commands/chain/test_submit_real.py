"""``mirage submit`` where a real slurmctld is away, silent, or on a clock sixty times as fast."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path

import pytest
from started_agents import no_agent_outlives_its_test  # noqa: F401  a fixture for every test here
from user_shell import Shell

from mirage.patience import real_s, wait_until

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


def test_a_controller_that_is_away_was_not_asked_and_the_next_try_makes_one_chain(site, shell: Shell) -> None:
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
    said = shell.mirage(*words)
    assert shell.mirage(*words) == said
    assert sorted(set(tagged(shell)) - set(before)) == [int(said.split()[-1])]


def test_a_controller_that_says_nothing_leaves_a_chain_and_no_second_one(site, shell: Shell) -> None:
    words = (*WORDS, "silent", "serve.sh")
    before = tagged(shell)
    controller = site.running()["slurmctld"]
    try:
        assert (
            shell.mirage(*words, status=75, env={"PATH": f"{stopping(shell, controller)}:{shell.environment['PATH']}"})
            == ""
        )
        assert "it is not known whether a job was submitted" in shell.stderr
        began_s = real_s()
        assert shell.mirage(*words, status=75) == ""
        assert "its job is not known yet" in shell.stderr
        assert json.loads(shell.mirage("submit", "--json", *words[1:], status=75))["job"] is None
        assert real_s() - began_s < 15, "nobody asks again"
    finally:
        os.kill(controller, signal.SIGCONT)
    agent = shell.agent()
    try:
        assert wait_until(lambda: "Submitted" in known(shell, words), 150, 1.0), (
            shell.folder / "agent.log"
        ).read_text()
    finally:
        agent.terminate()
        agent.wait(20)
    first, *later = sorted(set(tagged(shell)) - set(before))
    assert known(shell, words).split()[-1] == str(first)
    (chain,) = json.loads(shell.mirage("chain", "list", "--json"))
    assert set(map(len, shell.jobs(chain["chain"]).values())) == {1}, later


def stopping(shell: Shell, controller: int) -> Path:
    """A folder with an sbatch before which the controller falls silent."""
    folder = shell.folder / "bin"
    folder.mkdir()
    (folder / "sbatch").write_text(f'#!/bin/sh\nkill -STOP {controller}\nexec {shutil.which("sbatch")} "$@"\n')
    (folder / "sbatch").chmod(0o700)
    return folder


def known(shell: Shell, words: tuple[str, ...]) -> str:
    """What a repeated request prints."""
    try:
        return shell.mirage(*words)
    except AssertionError:
        return ""


def test_an_agent_on_a_fast_clock_has_as_long_to_start_as_on_a_slow_one(private_cluster, tmp_path: Path) -> None:
    fast = Shell(private_cluster(nodes=1, gpus=0, speed=60, min_job_age_s=360_000), tmp_path)
    try:
        said = fast.mirage("submit", "-t", "60", "--policy", "reactive", "serve.sh")
        assert said.startswith("Submitted batch job ")
        assert "no agent was running: started one here" in fast.stderr
    finally:
        fast.mirage("agent", "stop")
