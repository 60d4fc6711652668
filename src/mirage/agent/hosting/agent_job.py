"""The agent inside a small Slurm job, which is a chain of its own.

Each job submits its successor first. The successor may start some time before the limit of its predecessor, or as soon
as that one ends. When it has started, it signals the predecessor, which returns the lease of the store, and takes it.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from mirage.agent.paths import Home
from mirage.agent.service import needed_exports
from mirage.atomic_file import write_atomically
from mirage.duration import HOUR_S, MINUTE_S, format_duration
from mirage.errors import ConfigurationError, shown
from mirage.slurm.sbatch_options import parse_sbatch

_NOT_FOR_AGENTS = frozenset({"array", "dependency", "hold", "test-only", "wait", "wrap"})

LEAST_LIMIT_S = 5 * MINUTE_S
"""A shorter job would spend most of its time on starting successors."""

TRIAL_S = 60
"""Longest wait of a trial for a node."""

PAUSE_S = 60
"""Least time between two jobs of agents that fail at their start, and between two attempts to submit a successor."""

STRIP = "for name in $(env | sed -n 's/^\\(S\\(LURM\\|BATCH\\)_[A-Za-z0-9_]*\\)=.*/\\1/p'); do unset \"$name\"; done"
"""Shell command that removes the variables of a job, in which sbatch would read options."""

SCRIPT = """#!/bin/sh
# An agent that is a job itself. Argument: the job of its predecessor, if any.
me=$SLURM_JOB_ID
{strip}
{exports}
if [ ! -d {folder} ]; then
  echo "the agent's folder" {folder} "was moved or deleted: MIRAGE_HOME=FOLDER mirage agent start --in-job" >&2
  exit 1
fi
submit() {{
  sbatch {options} --dependency="after:$me+{minutes}?afterany:$me" --begin=now+{pause_s} {script} "$me"
}}
if ! submit; then # it may have submitted without an answer
  (until sleep {pause_s}; [ -n "$(squeue --me -ah -n {name} -t PD -o %i)" ] || submit; do :; done) &
fi
[ -z "$1" ] || scancel --signal=TERM --batch "$1"
exec {python} -m mirage agent run --standby
"""


def job_name(store: str) -> str:
    """The name of the agent's jobs: those of another store have another name.

    Args:
        store: Identity of the store.
    """
    return f"mirage-agent-{store}"


def job_command(home: Home, store: str, partition: str, limit_s: int, options: Sequence[str] = ()) -> list[str]:
    """The command that submits a job of the agent.

    Args:
        store: Identity of the store.
        partition: Partition of the jobs; empty for the default one.
        limit_s: Time limit of each job.
        options: Other options of sbatch.

    Raises:
        ConfigurationError: The limit is too short, or an option makes no sense for the agent.
    """
    if limit_s < LEAST_LIMIT_S:
        raise ConfigurationError(
            f"a time limit of {format_duration(limit_s)} is too short for an agent; give it at least "
            f"{format_duration(LEAST_LIMIT_S)}, such as -t 1-0"
        )
    chosen, script, _ = parse_sbatch(list(options))
    if script is not None:
        raise ConfigurationError(f"{shown(script)} is no option of sbatch; the agent's jobs have a script of their own")
    several = {name for name in ("nodes", "ntasks") if chosen.get(name, "1") != "1"}
    for name in sorted(several | (_NOT_FOR_AGENTS & chosen.keys())):
        raise ConfigurationError(
            f"--{name} cannot be used for the agent's jobs: one job, on one node, runs the agent at a time"
        )
    return [
        "sbatch",
        f"--job-name={job_name(store)}",
        *([f"--partition={partition}"] if partition else []),
        f"--time={format_duration(limit_s)}",
        *("--nodes=1", "--ntasks=1", "--no-requeue", "--open-mode=append", "--signal=B:TERM@60"),
        f"--output={home.logs[1]}",
        *options,
        str(script_of_jobs(home)),
    ]


def write_agent_script(home: Home, environment: Mapping[str, str], command: Sequence[str], limit_s: int) -> None:
    """Write the script of the agent's jobs, with the environment of the agent.

    Args:
        command: As ``job_command`` returns it.
        limit_s: Time limit of each job.

    Raises:
        ConfigurationError: The script cannot be written.
    """
    path = script_of_jobs(home)
    text = SCRIPT.format(
        strip=STRIP,
        exports=needed_exports(environment),
        folder=shlex.quote(str(home.folder)),
        options=shlex.join(command[1:-1]),
        minutes=(limit_s - min(limit_s // 4, HOUR_S)) // MINUTE_S,
        pause_s=PAUSE_S,
        name=shlex.quote(command[1].removeprefix("--job-name=")),
        script=shlex.quote(str(path)),
        python=shlex.quote(sys.executable),
    )
    try:
        write_atomically(path, text.encode(), 0o700)
    except OSError as error:
        raise ConfigurationError(f"cannot write {path}: {error.strerror}") from error


def submission_trial(partition: str, environment: Mapping[str, str]) -> list[str]:
    """The command that tries, in a job of a minute, whether sbatch works there.

    Args:
        partition: Partition of that job; empty for the default one.
    """
    conf = environment.get("SLURM_CONF")
    words = [
        STRIP,
        *([f"export SLURM_CONF={shlex.quote(conf)}"] if conf else []),
        "sbatch --test-only -t 1 --wrap=true",
    ]
    own = ["--job-name=mirage-trial", "--time=1", "--nodes=1", "--ntasks=1", f"--immediate={TRIAL_S}"]
    return ["srun", *own, *([f"--partition={partition}"] if partition else []), "sh", "-c", "; ".join(words)]


def script_of_jobs(home: Home) -> Path:
    """Location of the script of the agent's jobs."""
    return home.folder / "agent-job.sh"
