"""Whole lives of chains by real command lines: Slurm's commands on PATH are answered by the simulated Slurm."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mirage.agent.agent import Agent
from mirage.agent.cycle.readiness import SystemShell
from mirage.agent.settings import AgentSettings
from mirage.agent.store.sql_store import open_store
from mirage.cli import context as cluster
from mirage.cli import main
from mirage.duration import DAY_S, HOUR_S
from mirage.lab.commands.server import Served, served_slurm
from mirage.lab.virtual.faults import FaultySlurm
from mirage.sim.cluster import Cluster
from mirage.sim.jobs import workload
from mirage.sim.simulation import Simulation
from mirage.slurm.client import SlurmClient, user_of_process
from mirage.slurm.runner import SystemRunner
from mirage.trace.table import JobTable

BEGIN_S = 1_790_000_000
NODES = 4


class Terminal:
    """A user's terminal, and an agent that looks as long as it is told to."""

    def __init__(self, served: Served, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.served, self.folder, self.capsys = served, folder, capsys
        (folder / "serve.sh").write_text("#!/bin/bash\n#SBATCH -N 1\n#SBATCH --time=4:00:00\nserve\n")

    def type(self, *words: str, status: int = 0) -> str:
        done = main(list(words))
        said = self.capsys.readouterr()
        assert done == status, said
        self.stderr = said.err
        return said.out

    def live(self, seconds: float) -> None:
        """Let the agent look after everything for so long."""
        client = SlurmClient(SystemRunner(), clock=self.served.slurm.clock)
        with closing(open_store(cluster.home().store_url)) as store:
            agent = Agent(
                store, client, SystemShell(), clock=self.served.slurm.clock, monotonic=time.monotonic, holder="here",
                settings=AgentSettings(poll_s=600, busy_poll_s=60, lease_s=DAY_S),
            )  # fmt: skip
            end_s = self.served.slurm.clock() + seconds
            agent.run(self.served.slurm.sleep, lambda: self.served.slurm.clock() >= end_s)


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Terminal]:
    machine = Cluster.pool(NODES)
    others = JobTable.build(
        range(1, 41),
        submit_s=[BEGIN_S + 1_800 * k for k in range(40)],
        elapsed_s=[3 * HOUR_S] * 40,
        limit_s=[4 * HOUR_S] * 40,
        nodes=[2] * 40,
    )
    slurm = FaultySlurm(Simulation(machine, workload(others, machine), "slurm"), user=user_of_process())
    slurm.sleep(BEGIN_S)
    with served_slurm(slurm) as served:
        monkeypatch.setenv("PATH", served.environment["PATH"])
        monkeypatch.setenv("MIRAGE_HOME", str(tmp_path / "home"))
        monkeypatch.setattr(cluster, "clock", slurm.clock)
        monkeypatch.chdir(tmp_path)
        yield Terminal(served, tmp_path, capsys)


@pytest.mark.slow
def test_a_chain_from_its_submission_to_its_report(terminal: Terminal) -> None:
    said = terminal.type(
        "submit",
        "--chain",
        "serve",
        "--policy",
        "lead:2",
        "--links",
        "3",
        "--time",
        "2:00:00",
        "--no-agent",
        "serve.sh",
    )
    assert said.startswith("Submitted batch job ")
    assert "chain serve" in terminal.stderr
    terminal.live(10 * HOUR_S)
    (row,) = json.loads(terminal.type("chain", "list", "--json"))
    assert row["state"] == "done"
    shown = json.loads(terminal.type("chain", "show", "serve", "--json"))
    assert [link["number"] for link in shown["links"]] == [1, 2, 3]
    assert {link["state"] for link in shown["links"]} == {"ended"}
    assert "lead-reached" in terminal.type("chain", "explain", "serve")
    log = terminal.type("chain", "log", "serve")
    for word in ("submitted", "started", "released", "signalled", "ended", "done"):
        assert word in log
    terminal.type("chain", "report", "serve", "-o", "serve.html")
    assert "Hand-overs" in Path("serve.html").read_text()
    terminal.served.slurm.sleep(DAY_S)
    terminal.type("chain", "report", "serve", "-o", "later.html")
    assert Path("later.html").read_text() == Path("serve.html").read_text(), "a finished chain has one report"


@pytest.mark.slow
def test_a_user_pauses_resumes_and_stops(terminal: Terminal) -> None:
    terminal.type("submit", "--chain", "serve", "--policy", "reactive", "--no-agent", "serve.sh")
    terminal.live(HOUR_S)
    terminal.type("chain", "pause", "serve")
    terminal.live(HOUR_S)
    assert [
        job.comment for job in terminal.served.slurm.observe().jobs if "serve:2" in job.comment and job.end_s < 0
    ] == []
    terminal.type("chain", "resume", "serve")
    terminal.live(HOUR_S)
    assert json.loads(terminal.type("chain", "list", "--json"))[0]["state"] == "active"
    terminal.type("chain", "stop", "serve")
    terminal.live(2 * HOUR_S)
    assert json.loads(terminal.type("chain", "list", "--json"))[0]["state"] == "done"
    assert not [own for own in terminal.served.slurm.own.values() if not own.over]


def test_a_parsable_submission_prints_the_number_alone(terminal: Terminal) -> None:
    number = terminal.type(
        "submit", "--parsable", "--no-agent", "--comment", "mine", "serve.sh", "--port", "80"
    ).strip()
    own = terminal.served.slurm.own[int(number)]
    assert own.comment.endswith("| mine")
    assert own.submission.arguments == ("--port", "80")
    assert own.submission.options["nodes"] == "1", "from the script, for the store"


def test_a_refusal_comes_in_slurm_s_words_and_leaves_no_chain(terminal: Terminal) -> None:
    terminal.type("submit", "-p", "nowhere", "--no-agent", "serve.sh", status=1)
    assert "invalid partition specified" in terminal.stderr
    assert terminal.type("chain", "list", "--noheader") == ""


def test_a_link_that_could_never_be_ready_is_refused(terminal: Terminal) -> None:
    terminal.type("submit", "--warmup", "4h", "--no-agent", "serve.sh", status=1)
    assert "not shorter than the time limit 4:00:00" in terminal.stderr


def test_a_silent_slurm_leaves_a_chain_whose_first_job_the_agent_submits(terminal: Terminal) -> None:
    terminal.served.slurm.restart_controller(600)
    terminal.type("submit", "--chain", "serve", "--policy", "reactive", "--no-agent", "serve.sh", status=1)
    assert "chain serve stands" in terminal.stderr
    terminal.live(HOUR_S)
    assert json.loads(terminal.type("chain", "show", "serve", "--json"))["links"][0]["state"] == "running"


@pytest.mark.slow
def test_an_answer_that_was_lost_makes_no_second_job(terminal: Terminal) -> None:
    terminal.served.slurm.lose_answers = 1
    terminal.type("submit", "--chain", "serve", "--policy", "reactive", "--no-agent", "serve.sh", status=1)
    terminal.live(2 * HOUR_S)
    firsts = [own for own in terminal.served.slurm.own.values() if own.comment.startswith("mirage:serve:1")]
    assert len(firsts) == 1


def test_doctor_reads_the_simulated_site(terminal: Terminal) -> None:
    findings = {finding["what"]: finding["level"] for finding in json.loads(terminal.type("doctor", "--json"))}
    assert findings["version"] == "ok"


def test_slurm_s_own_commands_are_there(terminal: Terminal) -> None:
    def run(line: str) -> str:
        return subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=True).stdout

    number = run("sbatch --parsable -N 1 -t 10 --wrap 'sleep 1'").strip()
    run("fake-slurm advance 60")
    assert run(f"squeue -h -j {number} -o '%i %t %l'") == f"{number} R 10:00\n"
    run(f"scancel {number}")
    assert run(f"squeue -h -t all -j {number} -O state:20").strip() == "CANCELLED"
    assert f"JobId={number} " in run(f"scontrol show job {number} -o")
    assert "idle" in run("sinfo -h -o '%T %D'")
    assert number in run(f"sacct -X -n -P -j {number} -o JobID,State")
