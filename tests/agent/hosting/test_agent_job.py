"""The script of an agent that is a Slurm job: its environment, its successor, its rights."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from mirage.agent.hosting import agent_job
from mirage.agent.hosting.agent_job import job_command, script_of_jobs, write_agent_script
from mirage.agent.paths import Home
from mirage.errors import ConfigurationError

ODD = {
    "MIRAGE_STORE": "postgresql://ada:50%25$HOME\\n'\"@db/x",
    "MIRAGE_HOME": "/scratch/a b/%h/ü",
    "SLURM_CONF": '/etc/x %H/slurm "q".conf',
    "MIRAGE_LINES": "one\ntwo",
}

INSIDE = {"SLURM_JOB_ID": "7", "SLURM_MEM_PER_NODE": "1", "SBATCH_PARTITION": "debug", "SLURM_CONF": "/of/the/job"}
"""What Slurm sets in a job; sbatch would take its options from it."""


def script(folder: Path, environment: dict[str, str], limit_s: int = 3600, *options: str) -> Path:
    home = Home(folder, "sqlite://")
    write_agent_script(home, environment, job_command(home, "deer", "long queue", limit_s, options), limit_s)
    return script_of_jobs(home)


def run(folder: Path, monkeypatch: pytest.MonkeyPatch, *words: str) -> tuple[list[str], dict[str, str]]:
    """Run the script in a job; returns its commands and the environment of the agent."""
    output, python = folder / "said", folder / "it's python"
    programs = {
        "sbatch": 'printf "sbatch %s\\n" "$*"; env | grep -E "^(SLURM|SBATCH)_"',
        "scancel": 'printf "scancel %s\\n" "$*"',
        python.name: 'printf "agent %s\\n" "$*"; echo ---; env -0',
    }
    for name, text in programs.items():
        (folder / name).write_text(f"#!/bin/sh\n({text}) >> '{output}'\n")
        (folder / name).chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    path = script(folder, {**ODD, "PATH": f"{folder}:/usr/bin:/bin", "SHELL": "/bin/zsh"}, 86_400, "--comment=it's %j")
    subprocess.run([str(path), *words], env={"PATH": "/usr/bin:/bin", **INSIDE}, check=True)
    commands, _, rest = output.read_text().partition("---\n")
    return commands.splitlines(), dict(word.split("=", 1) for word in rest.split("\0") if word)


def test_it_submits_its_successor_first_and_runs_an_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands, environment = run(tmp_path, monkeypatch)
    submitted, conf, started = commands
    assert submitted.startswith("sbatch --job-name=mirage-agent-deer --partition=long queue --time=1-00:00:00 ")
    assert " --comment=it's %j --dependency=after:7+1380?afterany:7 " in submitted
    assert submitted.endswith(f"{tmp_path}/agent-job.sh 7")
    assert conf == f"SLURM_CONF={ODD['SLURM_CONF']}", "nothing else of the job reaches sbatch"
    assert started == "agent -m mirage agent run --standby"
    assert {name: environment[name] for name in ODD} == ODD
    assert not {"SHELL", "SLURM_JOB_ID", "SBATCH_PARTITION"} & environment.keys()


def test_a_successor_signals_its_predecessor_to_hand_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands, _ = run(tmp_path, monkeypatch, "6")
    assert "scancel --signal=TERM --batch 6" in commands
    assert commands[-1].startswith("agent")


@pytest.mark.parametrize(("pending", "attempts"), [("", 3), ("8", 1)])
def test_a_successor_that_sbatch_refuses_is_submitted_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pending: str, attempts: int
) -> None:
    monkeypatch.setattr(agent_job, "PAUSE_S", 0)
    log, python = tmp_path / "log", tmp_path / "python"
    programs = {
        "sbatch": f'echo sbatch >> {log}; [ "$(grep -c sbatch {log})" = 3 ] && touch {tmp_path}/over',
        "squeue": f'echo "squeue $*" >> {log}; echo "{pending}"; [ -z "{pending}" ] || touch {tmp_path}/over',
        "python": f"until [ -e {tmp_path}/over ]; do sleep 0.01; done; echo agent >> {log}",
    }
    for name, text in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    path = script(tmp_path, {"PATH": f"{tmp_path}:/usr/bin:/bin"})
    subprocess.run([str(path)], env={"PATH": f"{tmp_path}:/usr/bin:/bin", **INSIDE}, check=True, timeout=30)
    lines = log.read_text().splitlines()
    assert (lines.count("sbatch"), lines[-1]) == (attempts, "agent")
    assert "squeue --me -ah -n mirage-agent-deer -t PD -o %i" in lines


def test_only_its_owner_may_read_it(tmp_path: Path) -> None:
    assert stat.S_IMODE(script(tmp_path, ODD).stat().st_mode) == 0o700


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--array=1-3",), "--array cannot be used for the agent's jobs: one job, on one node, runs the agent at a "),
        (("-N", "2"), "--nodes cannot be used"),
        (("-q", "long", "-W"), "--wait cannot be used"),
        (("-q", "long", "job.sh"), "'job.sh' is no option of sbatch; the agent's jobs have a script of their own"),
        (("--nodez",), "unrecognized option '--nodez'"),
    ],
)
def test_options_that_make_no_sense_for_an_agent_are_refused(
    tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        job_command(Home(tmp_path, "sqlite://"), "deer", "", 3_600, words)


def test_a_limit_too_short_for_an_agent_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="00:04:00 is too short for an agent; give it at least 00:05:00"):
        job_command(Home(tmp_path, "sqlite://"), "deer", "", 240)
