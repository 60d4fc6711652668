"""The owner of a job on real Slurm: two users, two stores of one user, two clusters."""

from __future__ import annotations

import os
import pwd
import time
from pathlib import Path
from typing import Any

import pytest

from mirage.agent.agent import Agent
from mirage.agent.chain.create import create_chain
from mirage.agent.chain.request import Caller, read_request
from mirage.agent.cycle.readiness import SystemShell
from mirage.agent.model import ChainSpec
from mirage.agent.paths import Home
from mirage.agent.settings import AgentSettings
from mirage.agent.store.sql_store import open_store
from mirage.job_state import JobState
from mirage.slurm.client import SlurmClient
from mirage.slurm.runner import SystemRunner
from tests.support.second_user import OTHER, as_other_user, opened
from tests.support.started_agents import no_agent_outlives_its_test  # noqa: F401  a fixture for every test here
from tests.support.user_shell import Shell
from tests.support.waiting import terminate

pytestmark = [pytest.mark.real_slurm, pytest.mark.slow]


@pytest.fixture(scope="module")
def cluster(private_cluster) -> Any:
    return private_cluster(nodes=6, min_job_age_s=36_000)


@pytest.fixture
def reachable(private_cluster) -> Any:
    return opened(private_cluster(nodes=6, min_job_age_s=36_000))


def test_a_tag_that_another_user_has_copied_changes_nothing(reachable, open_folder: Path, tmp_path: Path) -> None:
    """A deliberate copy of the tag, by a user with jobs that the agent, as root, could cancel."""
    shell = Shell(reachable, tmp_path)
    first = shell.submit("serve", "-t", "15", "--policy", "reactive", "serve.sh")
    (comment,) = [job.comment for job in shell.slurm.observe().jobs if job.id == first]
    (open_folder / "own.sh").write_text("#!/bin/sh\nsleep 600\n")
    submit = ("sbatch", "--parsable", "-N1", "-t15", "-o/dev/null", f"--comment={comment}", "own.sh")
    copies = [int(as_other_user(reachable, open_folder, *submit)) for _ in range(2)]
    agent = shell.agent()
    shell.until(lambda: shell.jobs("serve").get(2) is not None, 30, "the second link is submitted")
    time.sleep(5)
    states = {job.id: (job.user, job.state) for job in shell.slurm.observe().jobs}
    assert {states[copy] for copy in copies} == {(OTHER, JobState.RUNNING)}
    assert states[first][1] is JobState.RUNNING
    assert shell.row("serve")["why"] == ""
    assert "double-cancelled" not in shell.kinds("serve")
    assert terminate(agent) == 0
    for copy in copies:
        as_other_user(reachable, open_folder, "scancel", str(copy))
    shell.mirage("chain", "stop", "serve")


def test_two_users_with_equal_names_of_chains(reachable, open_folder: Path, tmp_path: Path) -> None:
    """Each has an agent; the second lives in a process of that user."""
    shell = Shell(reachable, tmp_path)
    first = shell.submit("serve", "-t", "15", "--policy", "reactive", "serve.sh")
    agent = shell.agent()
    shell.until(lambda: shell.jobs("serve").get(2) is not None, 30, "our second link is submitted")
    (open_folder / "own.sh").write_text("#!/bin/sh\n#SBATCH -o /dev/null -t 15\nsleep 600\n")
    open_store(f"sqlite:///{tmp_path}/ahead.db").close()  # what the child needs is loaded while it may be read
    child = os.fork()
    if child == 0:
        os._exit(_other_user_s_agent(reachable, open_folder))
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0, (open_folder / "error").read_text()
    states = {job.id: job.state for job in shell.slurm.observe().jobs}
    assert states[first] is JobState.RUNNING
    assert set(map(len, shell.jobs("serve").values())) == {1}
    theirs = [job for job in shell.slurm.observe().jobs if job.user == OTHER and ":serve:" in job.comment]
    assert sorted(job.state.name for job in theirs) == ["PENDING", "RUNNING"]
    terminate(agent)
    shell.mirage("chain", "stop", "serve")
    as_other_user(reachable, open_folder, "scancel", *(str(job.id) for job in theirs))


def _other_user_s_agent(cluster: Any, folder: Path) -> int:
    """A chain ``serve`` of the second user, and some cycles of its agent; 0 if all went well."""
    try:
        user = pwd.getpwnam(OTHER)
        os.setgroups([])
        os.setgid(user.pw_gid)
        os.setuid(user.pw_uid)
        os.environ.update({"HOME": str(folder), **cluster.environment})
        os.chdir(folder)
        home = Home.of({"MIRAGE_HOME": str(folder / "home")})
        store, slurm = open_store(home.store_url), SlurmClient(SystemRunner(cluster.environment))
        request = read_request({}, "own.sh", (), Caller(dict(os.environ), folder, 0o022))
        create_chain(
            store, slurm, home, request, ChainSpec(request.submission, policy="reactive"), "serve", int(time.time())
        )
        agent = Agent(
            store, slurm, SystemShell(), clock=time.time, monotonic=time.monotonic, holder="theirs",
            settings=AgentSettings(poll_s=1, busy_poll_s=1),
        )  # fmt: skip
        for _ in range(8):
            agent.cycle()
            time.sleep(1)
        return 0
    except BaseException as error:
        (folder / "error").write_text(repr(error))
        return 1


def test_two_stores_of_one_user_leave_each_other_alone(cluster, tmp_path: Path) -> None:
    shells = [Shell(cluster, tmp_path / name) for name in ("one", "two")]
    firsts = [shell.submit("serve", "-t", "15", "--policy", "reactive", "serve.sh") for shell in shells]
    agents = [shell.agent() for shell in shells]
    for shell in shells:
        shell.until(lambda shell=shell: 2 in shell.jobs("serve"), 30, "a second link is submitted")
    time.sleep(4)
    states = {job.id: job.state for job in shells[0].slurm.observe().jobs}
    assert [states[first] for first in firsts] == [JobState.RUNNING] * 2
    for shell, agent in zip(shells, agents):
        assert "double-cancelled" not in shell.kinds("serve")
        assert terminate(agent) == 0
        shell.mirage("chain", "stop", "serve")
    assert {tuple(states) for states in shells[0].jobs("serve").values()} <= {
        (JobState.RUNNING,), (JobState.CANCELLED,), (JobState.COMPLETED,)
    }  # fmt: skip


def test_a_store_knows_its_cluster_and_touches_nothing_on_another(cluster, private_cluster, tmp_path: Path) -> None:
    """The other cluster counts its jobs from 1, too: our links' numbers are other jobs there."""
    shell = Shell(cluster, tmp_path / "here")
    shell.submit("serve", "-t", "15", "--policy", "reactive", "serve.sh")
    numbers = [job.id for job in shell.slurm.observe().jobs]
    other = Shell(private_cluster(nodes=4, min_job_age_s=36_000), tmp_path / "there")
    for _ in numbers:
        other.cluster.run("sbatch", "-N1", "-t15", "-o/dev/null", "--wrap", "sleep 300")
    elsewhere = {"SLURM_CONF": other.environment["SLURM_CONF"]}
    agent = shell.agent(env=elsewhere)
    assert agent.wait(120) == 1
    assert "live on the cluster" in (shell.folder / "agent.log").read_text()
    for words in (("chain", "stop", "serve"), ("chain", "pause", "serve"), ("submit", "--no-agent", "serve.sh")):
        shell.mirage(*words, status=1, env=elsewhere)
        assert "live on the cluster" in shell.stderr
    assert shell.row("serve")["state"] == "active"
    states = {job.id: job.state for job in other.slurm.observe().jobs}
    assert [states[number] for number in numbers if number in states]
    assert JobState.CANCELLED not in states.values()
    shell.mirage("chain", "stop", "serve")
    for job in states:
        other.slurm.cancel(job)


def test_a_store_is_bound_anew_where_its_controller_has_moved(cluster, private_cluster, tmp_path: Path) -> None:
    shell = Shell(cluster, tmp_path / "here")
    shell.submit("serve", "-t", "15", "--policy", "reactive", "serve.sh")
    agent = shell.agent()
    shell.until(lambda: 2 in shell.jobs("serve"), 30, "the agent works")
    shell.mirage("agent", "rebind", status=1)
    assert "stop it first" in shell.stderr
    terminate(agent)
    shell.mirage("chain", "stop", "serve")
    moved = private_cluster(nodes=1)
    elsewhere = {"SLURM_CONF": moved.environment["SLURM_CONF"]}
    shell.mirage("agent", "rebind", status=1, env=elsewhere)
    assert "so it is probably another cluster" in shell.stderr
    reported = shell.mirage("agent", "rebind", "--force", env=elsewhere)
    assert reported.strip().endswith(f":{moved.spec.port}")
    shell.mirage("chain", "pause", "serve", status=1)
    assert "live on the cluster" in shell.stderr
