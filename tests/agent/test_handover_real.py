"""Hand-overs on a real slurmctld, checked against the log of the service itself."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from mirage.job_state import JobState
from tests.support import dying_agent
from tests.support.started_agents import AGENTS, no_agent_outlives_its_test  # noqa: F401  a fixture for every test here
from tests.support.user_shell import Shell
from tests.support.waiting import terminate

pytestmark = [pytest.mark.real_slurm, pytest.mark.slow]

LEASE_S = int(os.environ.get("MIRAGE_TEST_LEASE_S", "20"))
"""An agent's own is four minutes; the gate has no time for that."""

MIRAGE = f"{sys.executable} -m mirage"

LOADS = """#!/bin/bash
#SBATCH -o /dev/null
say() { echo "$MIRAGE_LINK $1 $(date +%s)" >> service.log; }
trap 'say told; sleep 1; say down; exit 0' USR2
say start
sleep LOAD_S & wait $!
say ready; MIRAGE link ready
while true; do sleep 600 & wait $!; done
"""


def loads(load_s: int) -> str:
    """The script of a service that loads, reports ready, and leaves at the signal.

    It says so in its own log first: on a busy machine the agent reads the report before the reporting command ends.
    """
    return LOADS.replace("LOAD_S", str(load_s)).replace("MIRAGE link", f"{MIRAGE} link")


@pytest.fixture(scope="module")
def cluster(private_cluster) -> Any:
    return private_cluster(nodes=8, min_job_age_s=36_000)


@pytest.fixture
def shell(cluster, tmp_path: Path) -> Shell:
    return Shell(cluster, tmp_path)


def words(shell: Shell) -> dict[tuple[int, str], int]:
    """The reports of each link, with their times on its own clock."""
    return {(int(link), word): int(at_s) for link, word, at_s in map(str.split, shell.log())}


def test_no_link_is_signalled_before_the_next_reports_ready(shell: Shell) -> None:
    shell.script("load.sh", loads(6))
    shell.submit(
        "loads", "-t", "5", "--policy", "lead:0.075", "--ready-by-job", "--links", "3", "--grace", "5s", "load.sh"
    )
    agent = shell.agent()
    shell.until(lambda: (2, "told") in words(shell), 150, "the second link leaves for the third")
    output = words(shell)
    for link in (1, 2):
        assert output[link, "told"] >= output[link + 1, "ready"], f"link {link} was told before the next was ready"
    shell.until(lambda: shell.row("loads")["link"] == 3, 20, "the third link is alone")
    assert shell.row("loads")["interrupted"] == 0
    terminate(agent)
    shell.mirage("chain", "stop", "loads")


def test_done_ends_a_successor_that_runs_already(shell: Shell) -> None:
    # A link asks for the next one 25 s after its start: the second runs when the first is done, and none after it.
    shell.script("work.sh", f"#!/bin/bash\n#SBATCH -o /dev/null -t 3\n[ $MIRAGE_LINK = 1 ] || exec sleep 100\n"
                 f"sleep 32; {MIRAGE} link done; sleep 2\n")  # fmt: skip
    shell.submit("work", "--policy", "lead:0.043", "--ready-by-job", "--grace", "5s", "work.sh")
    agent = shell.agent()
    shell.until(lambda: shell.row("work")["state"] == "done", 90, "the chain is done")
    terminate(agent)
    states = shell.jobs("work")
    assert states.pop(1) == [JobState.COMPLETED]
    assert states.pop(2) == [JobState.CANCELLED]
    assert any(job.start_s > 0 for job in shell.found("work")[2]), "it ran"
    assert states in ({}, {3: [JobState.CANCELLED]}), "a link held in reserve goes too"


def test_a_link_with_a_released_successor_is_signalled_before_its_own_limit(shell: Shell) -> None:
    """The successor waits for the first one's node, which only the limit would end."""
    shell.script("here.sh", loads(0))
    chosen = ("-t", "1", "--policy", "lead:0.011", "--grace", "20s", "--links", "2", "-w", "n7", "--exclusive")
    shell.submit("waits", *chosen, "here.sh")
    agent = shell.agent()
    shell.until(lambda: (1, "told") in words(shell), 70, "the first link is told")
    output = words(shell)
    assert output[1, "told"] - output[1, "start"] <= 50, "twenty seconds before its minute is over"
    shell.until(lambda: (2, "start") in words(shell), 40, "the second follows on the node that is free now")
    terminate(agent)
    shell.mirage("chain", "stop", "waits")


@pytest.mark.parametrize("by", ["the agent", "Slurm itself"])
def test_a_lone_link_is_signalled_its_grace_before_its_limit(shell: Shell, by: str) -> None:
    """No link follows; without an agent the signal is Slurm's own, up to a minute early.

    With a signal of the user's own, which a shell ignores, Slurm sends no other: the agent's is the only warning.
    """
    shell.script("alone.sh", loads(0))
    own = ("--signal", "B:CONT@1") if by == "the agent" else ()
    shell.submit("alone", "-t", "2", "--policy", "reactive", "--grace", "30s", "--links", "1", *own, "alone.sh")
    agent = shell.agent() if by == "the agent" else None
    shell.until(lambda: (1, "told") in words(shell), 150, f"{by} signals the link")
    output = words(shell)
    assert 120 - 30 - 60 <= output[1, "told"] - output[1, "start"] <= 120 - 30 + 2
    if agent is not None:
        shell.until(lambda: "signalled" in shell.kinds("alone"), 60, "and the agent's own signal is in the log")
        terminate(agent)
        assert shell.row("alone")["unsignalled"] == 0
    if shell.row("alone")["state"] != "done":  # the agent may have seen the end
        shell.mirage("chain", "stop", "alone")


def test_never_two_links_hold_nodes_at_once(shell: Shell) -> None:
    """Slurm ends a job up to half a minute after its limit; the next one starts after that."""
    shell.script(
        "stays.sh", "#!/bin/bash\n#SBATCH -o /dev/null\ntrap '' USR2\nwhile true; do sleep 600 & wait $!; done\n"
    )
    shell.submit("one", "-t", "1", "--never-two", "--links", "2", "--grace", "15s", "stays.sh")
    agent = shell.agent()
    shell.until(lambda: JobState.RUNNING in shell.jobs("one").get(2, []), 180, "the second link runs")
    terminate(agent)
    found = shell.found("one")
    (first,), (second,) = found[1], found[2]
    assert first.state is JobState.TIMEOUT
    assert first.end_s > first.start_s + 60, "Slurm has ended it later than its limit"
    assert second.start_s >= first.end_s
    assert shell.row("one")["overlap"] == 0
    shell.mirage("chain", "stop", "one")


def test_a_link_that_started_far_too_early_is_not_succeeded_in_the_first_part_of_its_life(shell: Shell) -> None:
    """The policy wants each next link at once, and it would start at once."""
    shell.script("load.sh", loads(0))
    shell.submit("burns", "-t", "2", "--policy", "lead:0.03", "--least-life", "0.4", "--grace", "5s", "load.sh")
    agent = shell.agent()
    shell.until(lambda: (3, "start") in words(shell), 150, "the third link starts")
    terminate(agent)
    found = shell.found("burns")
    (first,), (second,), (third,) = found[1], found[2], found[3]
    assert second.start_s - first.start_s < 45, "nothing has gone wrong yet"
    assert 48 <= third.start_s - second.start_s <= 80, "by Slurm's clock; a script's first line may come a second later"
    assert "least-life:lead-reached" in shell.mirage("chain", "explain", "burns", "-n", "50")
    shell.mirage("chain", "stop", "burns")


def test_what_others_do_to_a_held_link_leaves_a_line_in_the_log(shell: Shell) -> None:
    shell.script("load.sh", loads(0))
    shell.submit("others", "-t", "5", "--policy", "reactive", "--ready-by-job", "load.sh")
    agent = shell.agent()
    shell.until(lambda: 2 in shell.jobs("others"), 60, "the next link is held")
    (job,) = shell.found("others")[2]
    shell.cluster.run("scontrol", "hold", str(job.id))
    shell.until(lambda: "held" in shell.row("others")["why"], 90, "the hold is noticed while the link waits")
    shell.cluster.run("scontrol", "release", str(job.id))
    shell.cluster.run("scontrol", "update", f"JobId={job.id}", "Dependency=")
    shell.until(lambda: "released-elsewhere" in shell.kinds("others"), 90, "and so is the release")
    terminate(agent)
    shell.mirage("chain", "stop", "others")


def test_a_requeue_between_two_polls_is_observed_and_accounted_for(shell: Shell) -> None:
    shell.script("load.sh", loads(1))
    job = shell.submit("again", "-t", "5", "--policy", "reactive", "--ready-by-job", "load.sh")
    agent = shell.agent("--poll", "20s")
    shell.until(lambda: (1, "ready") in words(shell), 40, "the link serves")
    shell.until(lambda: "ready" in shell.kinds("again"), 60, "the agent has heard it")
    first = words(shell)
    shell.cluster.run("scontrol", "requeue", str(job))
    shell.until(lambda: words(shell)[1, "start"] > first[1, "start"], 60, "it runs once more")
    shell.until(lambda: "requeued" in shell.kinds("again"), 60, "the agent has seen it")
    shell.until(lambda: shell.kinds("again").count("ready") == 2, 60, "and that it is ready again")
    terminate(agent)
    reported = shell.row("again")["interrupted"]
    lines = [line.split() for line in shell.log()]
    ready = [int(at_s) for _, word, at_s in lines if word == "ready"]
    away_s = ready[1] - _requeued_s(shell, job)
    assert abs(reported - away_s) <= 5, (reported, away_s, lines)
    shell.mirage("chain", "stop", "again")
    assert shell.row("again")["interrupted"] >= reported, "what was lost stays lost when the chain ends"


def _requeued_s(shell: Shell, job: int) -> int:
    shown = shell.cluster.run("scontrol", "show", "job", str(job))
    at = re.search(r"SubmitTime=(\S+)", shown)
    assert at is not None
    return int(time.mktime(time.strptime(at[1], "%Y-%m-%dT%H:%M:%S")))


def test_an_agent_on_a_second_host_takes_over_after_a_power_failure(shell: Shell) -> None:
    """The first dies with its host: its lease expires, and its process cannot be checked."""
    shell.script("load.sh", loads(1))
    first_job = shell.submit("moved", "-t", "2", "--policy", "lead:0.015", "--ready-by-job", "load.sh")
    settings = {"poll_s": 1, "busy_poll_s": 1, "lease_s": LEASE_S, "standby": True}
    url = f"sqlite:///{shell.environment['MIRAGE_HOME']}/store.db"

    def agent_on(host: str) -> subprocess.Popen[bytes]:
        program = (sys.executable, dying_agent.__file__, url, "never", json.dumps(settings))
        renamed = ("unshare", "--uts", "sh", "-c", f'hostname {host}; exec "$@"', "sh", *program)
        with (shell.folder / "agent.log").open("ab") as log:
            AGENTS.append(subprocess.Popen(renamed, env=shell.environment, stdout=log, stderr=log))
        return AGENTS[-1]

    one = agent_on("login1")
    shell.until(lambda: 2 in shell.jobs("moved"), 30, "the first agent works")
    two = agent_on("login2")
    time.sleep(5)
    assert "login1" in shell.mirage("agent", "status")
    one.kill()
    one.wait()
    began = time.monotonic()
    has_taken_over = lambda: "login2" in shell.mirage("agent", "status", status=None)  # noqa: E731  no agent for a moment
    shell.until(has_taken_over, LEASE_S + 30, "the second agent takes over")
    assert time.monotonic() - began >= LEASE_S / 2, "not before the lease has run out"
    shell.until(lambda: "released" in shell.kinds("moved"), 300, "and acts")
    assert two.poll() is None
    assert set(map(len, shell.jobs("moved").values())) == {1}
    assert shell.found("moved")[1][0].id == first_job
    two.kill()
    shell.mirage("chain", "stop", "moved")


def test_the_children_of_a_killed_agent_end_with_it(shell: Shell) -> None:
    """Its ready command here; policies are tried in tests/agent/policy_runner."""
    shell.submit("orphan", "-t", "5", "--policy", "reactive", "--ready-command", "exec sleep 7654", "serve.sh")
    agent = shell.agent()

    def children() -> list[str]:
        found = subprocess.run(["ps", "-o", "args=", "--ppid", str(agent.pid)], capture_output=True, text=True)
        return [line for line in found.stdout.splitlines() if line.startswith("sleep 7654")]

    shell.until(lambda: len(children()) >= 1, 40, "children are at work")
    agent.kill()
    agent.wait()
    shown = lambda: subprocess.run(["ps", "-eo", "args="], capture_output=True, text=True).stdout  # noqa: E731
    shell.until(lambda: not any(line.startswith("sleep 7654") for line in shown().splitlines()), 5, "they end")
    shell.mirage("chain", "stop", "orphan")
