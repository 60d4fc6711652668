"""The command line of chains, on a real slurmctld."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest

from mirage.job_state import JobState
from tests.support.started_agents import no_agent_outlives_its_test  # noqa: F401  a fixture for every test here
from tests.support.user_shell import Shell
from tests.support.waiting import terminate

pytestmark = [pytest.mark.real_slurm, pytest.mark.slow]


@pytest.fixture(scope="module")
def cluster(private_cluster) -> object:
    return private_cluster(nodes=4, min_job_age_s=36_000)


@pytest.fixture
def shell(cluster, tmp_path: Path) -> Shell:
    return Shell(cluster, tmp_path)


def test_a_chain_from_its_submission_to_its_end(shell: Shell) -> None:
    printed = shell.mirage(
        "submit", "-t", "2", "--chain", "serve", "--policy", "lead:0.024", "--links", "3", "--no-agent", "serve.sh", "x"
    )
    assert printed.startswith("Submitted batch job ")
    assert "chain serve" in shell.stderr
    assert json.loads(shell.mirage("agent", "status", "--json", status=1))["agent"] is None
    agent = shell.agent()
    try:
        shell.until(lambda: "2 checkpoint" in shell.log(), 120, "the second link leaves for the third")
        again = subprocess.run(
            [sys.executable, "-m", "mirage", "agent", "run"], env=shell.environment, capture_output=True, text=True
        )
        assert again.returncode == 1
        assert "manages these chains" in again.stderr
        shell.mirage("chain", "stop", "serve")
        shell.until(lambda: json.loads(shell.mirage("chain", "list", "--json"))[0]["state"] == "done", 60, "it ends")
    finally:
        assert terminate(agent) == 0
    first = int(printed.split()[-1])
    assert [line.split()[:2] for line in shell.log()[:2]] == [["1", "start"], ["2", "start"]]
    assert shell.log()[1] == f"2 start {first} x"
    assert set(map(len, shell.jobs("serve").values())) == {1}
    shown = json.loads(shell.mirage("chain", "show", "serve", "--json"))
    assert [link["number"] for link in shown["links"]][:3] == [1, 2, 3]
    assert "lead-reached" in shell.mirage("chain", "explain", "serve")
    assert "signalled" in shell.mirage("chain", "log", "serve")
    shell.mirage("chain", "report", "serve", "-o", "serve.html")
    assert "Hand-overs" in (shell.folder / "serve.html").read_text()
    assert "upstream serve" in shell.mirage("endpoint", "serve", "--port", "8000")


def test_a_refusal_is_reported_in_slurm_s_words_and_leaves_no_chain(shell: Shell) -> None:
    shell.mirage("submit", "-p", "nowhere", "-t", "2", "--no-agent", "serve.sh", status=1)
    assert "invalid partition specified: nowhere" in shell.stderr
    assert shell.mirage("chain", "list", "--noheader") == ""


def test_doctor_and_dry_run_change_nothing(shell: Shell) -> None:
    findings = {finding["what"]: finding["level"] for finding in json.loads(shell.mirage("doctor", "--json"))}
    assert findings["version"] == "ok"
    assert findings["accounting"] == "warn"
    before = len(shell.slurm.observe().jobs)
    assert "--dependency=afterany:JOB" in shell.mirage("submit", "--dry-run", "-t", "2", "serve.sh")
    assert len(shell.slurm.observe().jobs) == before


def test_a_job_reports_that_it_is_ready_and_that_the_work_is_done(shell: Shell) -> None:
    mirage = f"{sys.executable} -m mirage"
    (shell.folder / "work.sh").write_text(
        f"#!/bin/bash\n#SBATCH -t 2 -o /dev/null\nsleep 3; {mirage} link ready; sleep 2; {mirage} link done; sleep 1\n"
    )
    shell.mirage(
        "submit", "--chain", "work", "--policy", "reactive", "--ready-command", "false", "--no-agent", "work.sh"
    )
    agent = shell.agent()
    try:
        shell.until(lambda: json.loads(shell.mirage("chain", "list", "--json"))[0]["state"] == "done", 60, "it ends")
    finally:
        terminate(agent)
    assert "ready" in shell.mirage("chain", "log", "work")
    assert not [k for k, states in shell.jobs("work").items() if k > 1 and states != [JobState.CANCELLED]]


def test_slurmctld_killed_and_restarted_in_the_middle_of_a_chain(shell: Shell) -> None:
    """Jobs of the controller's last seconds are lost with it: the chain continues with others.

    The agent believes sooner than by default that a lost job is lost, and asks for another sooner.
    """
    shell.mirage("submit", "-t", "3", "--chain", "tough", "--policy", "lead:0.037", "--no-agent", "serve.sh")

    def newest() -> int:
        return max((int(line.split()[0]) for line in shell.log() if "start" in line), default=0)

    agent = shell.agent_with(poll_s=1, busy_poll_s=1, vanish_s=20, first_retry_s=10)
    try:
        for _ in range(2):
            before = newest()
            shell.until(lambda k=before: newest() > max(k, 1), 300, f"a link after {before}")
            shell.cluster.kill_controller()
            time.sleep(3)
            shell.cluster.start_controller()
        before = newest()
        shell.until(lambda: any("checkpoint" in line and int(line.split()[0]) > before for line in shell.log()), 300,
                    "a link leaves for the next, as ever")  # fmt: skip
    finally:
        terminate(agent)
        shell.mirage("chain", "stop", "tough")
    assert set(map(len, shell.jobs("tough").values())) == {1}


def test_an_hour_without_an_agent(private_cluster, tmp_path: Path) -> None:
    """At sixty times the speed: the agent is killed, and the held link takes over in time."""
    fast = Shell(private_cluster(nodes=2, speed=60, min_job_age_s=360_000), tmp_path)
    fast.mirage(
        "submit",
        "-t",
        "40",
        "--chain",
        "alone",
        "--policy",
        "reactive",
        "--signal-previous",
        "none",
        "--no-agent",
        "serve.sh",
    )
    agent = fast.agent("--command-timeout", "30m")
    fast.until(lambda: fast.jobs("alone").get(2) == [JobState.PENDING], 60, "the dead man's link is in the queue")
    agent.send_signal(signal.SIGKILL)
    agent.wait()
    over = {1: [JobState.TIMEOUT], 2: [JobState.RUNNING]}
    fast.until(lambda: fast.jobs("alone") == over, 60, "the first link's 40 minutes are over, and the second runs")
    agent = fast.agent("--command-timeout", "30m")
    try:
        fast.until(lambda: 3 in fast.jobs("alone"), 60, "the agent goes on")
    finally:
        terminate(agent)
    assert set(map(len, fast.jobs("alone").values())) == {1}
    assert json.loads(fast.mirage("chain", "list", "--json"))[0]["interrupted"] <= 120


ENDING = """#!/bin/bash
#SBATCH -N1 -o /dev/null
sleep $1
if [ "$MIRAGE_LINK" -ge 2 ]; then case "$2" in done) {mirage} link done;; 0) exit 0;; esac; fi
exit 1
"""
"""A job of some seconds, of which the second says or shows by its exit code that the work is done."""


def test_the_account_of_a_finished_chain_is_that_of_its_jobs(shell: Shell) -> None:
    """However the chain ends, and however late a poll finds out: here up to half a minute."""
    shell.script("end.sh", ENDING.format(mirage=f"{sys.executable} -m mirage"))
    common = ("--policy", "reactive", "--no-agent", "--signal-previous", "none")
    ends = {
        "links": ("-t", "2", "--links", "2", "end.sh", "12", "1"),
        "exit": ("-t", "5", "--until-done", "end.sh", "14", "0"),
        "done": ("-t", "5", "end.sh", "13", "done"),
        "time": ("-t", "5", "--for", "40s", "end.sh", "300", "1"),
    }
    for name, words in ends.items():
        shell.mirage("submit", "--chain", name, *common, *words)
    agent = shell.agent("--poll", "30s")
    try:
        shell.until(lambda: {row["state"] for row in shell.rows().values()} == {"done"}, 150, "all are done")
    finally:
        terminate(agent)
    rows = shell.rows()
    for name in ends:
        found = shell.found(name)
        runs = sorted(
            (job.start_s, job.end_s) for jobs in found.values() for job in jobs if job.end_s > job.start_s > 0
        )
        gaps_s = sum(max(later[0] - before[1], 0) for before, later in pairwise(runs))
        assert abs(rows[name]["interrupted"] - gaps_s) <= 2, (name, rows[name], runs)
        # a link that is held already when the second exits with 0 may start before the agent observes the exit
        assert len(runs) in {"time": (1,), "exit": (2, 3)}.get(name, (2,))


def test_a_word_that_does_not_count_is_answered_in_the_job_and_in_the_log(shell: Shell) -> None:
    shell.script(
        "word.sh", f"#!/bin/bash\n#SBATCH -t 2 -o word.txt\nsleep 4; {sys.executable} -m mirage link ready\nsleep 100\n"
    )
    shell.mirage("submit", "--chain", "word", "--policy", "reactive", "--links", "1", "--no-agent", "word.sh")
    agent = shell.agent()
    try:
        shell.until(lambda: "ready-ignored" in shell.kinds("word"), 25, "the word is in the log")
        answer = shell.folder / "word.txt"
        shell.until(lambda: "`mirage link ready` is ignored: chain word" in answer.read_text(), 25, "the job knows it")
        shell.mirage("chain", "stop", "--wait", "word")
        job = shell.found("word")[1][0].id
        assert shell.stderr.splitlines() == [
            f"chain word is stopping: job {job} is cancelled",
            "waiting until the agent has observed the end of its jobs ...",
            "chain word is done",
        ]
    finally:
        terminate(agent)
    assert (shell.kinds("word").count("ready-ignored"), shell.row("word")["state"]) == (1, "done")
