"""``sbatch``, ``scancel`` and ``scontrol``."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from mirage.errors import ConfigurationError
from mirage.job_state import MISSING, JobState
from mirage.lab.commands.invocation import CommandOutput, Failed, Invocation, WantsScript, form_of, read_words, selected
from mirage.lab.commands.output_columns import (
    LIVE,
    OutputFormat,
    config_text,
    job_line,
    node_line,
    partition_line,
    reservation_line,
)
from mirage.lab.virtual.program import SIGNALS
from mirage.lab.virtual.virtual_slurm import VirtualSlurm
from mirage.slurm.records import QueuedJob, Submission
from mirage.slurm.sbatch_options import Chosen, parse_sbatch
from mirage.slurm_words.hostlist import expand_hosts

_FROM_ENVIRONMENT = {
    "SBATCH_PARTITION": "partition", "SBATCH_TIMELIMIT": "time", "SBATCH_ACCOUNT": "account", "SBATCH_QOS": "qos",
    "SBATCH_COMMENT": "comment", "SBATCH_JOB_NAME": "job-name",
}  # fmt: skip
_OWN_WORDS = ("parsable", "wrap", "test-only")
_NO_MATTER = {"scancel": ("batch", "full", "quiet", "verbose"), "scontrol": ("oneliner", "all", "details", "quiet")}


def sbatch(slurm: VirtualSlurm, command: Invocation) -> str | CommandOutput:
    """``sbatch [--test-only] [OPTION…] [SCRIPT [ARGUMENT…]]``."""
    try:
        options, script, arguments = parse_sbatch(command.words)
    except ConfigurationError as error:
        raise Failed(f'sbatch: {error}\nTry "sbatch --help" for more information', 255) from error
    from_environment = {
        name: command.environment[key] for key, name in _FROM_ENVIRONMENT.items() if key in command.environment
    }
    parsable = "parsable" in options
    given: Chosen = {**from_environment, **{name: value for name, value in options.items() if name not in _OWN_WORDS}}
    if (wrapped := options.get("wrap")) is not None:
        if script is not None:
            raise Failed("sbatch: error: Script arguments not permitted with --wrap option")
        script = _stored_script(command, "wrap", f"#!/bin/sh\n{wrapped}\n")
        given.setdefault("job-name", "wrap")
    elif script is None:
        if command.script is None:
            raise WantsScript
        script = _stored_script(command, "sbatch", command.script)
        given.setdefault("job-name", "sbatch")
    directory = given.get("chdir") or command.directory
    where = str(Path(command.directory, script))
    submission = Submission(where, given, arguments, dict(command.environment), directory)
    if "test-only" in options:
        return CommandOutput(err=_tested(slurm.test(submission), form_of(slurm, command)))
    number = slurm.submit(submission)
    return f"{number}\n" if parsable else f"Submitted batch job {number}\n"


def _tested(job: QueuedJob, form: OutputFormat) -> str:
    """Returns sbatch's message about a tested job.

    The real sbatch names the hosts, which a simulation does not plan.
    """
    if job.start_s == MISSING:
        raise Failed("allocation failure: Requested nodes are busy")
    return (
        f"sbatch: Job {job.id} to start at {form.instant(job.start_s)} using {job.cpus} processors on nodes (any) "
        f"in partition {job.partition}\n"
    )


def _stored_script(command: Invocation, name: str, text: str) -> str:
    path = command.spool / f"{name}.{len(list(command.spool.iterdir()))}"
    path.write_text(text, encoding="utf-8")
    return str(path)


def scancel(slurm: VirtualSlurm, command: Invocation) -> str:
    """``scancel [-s SIGNAL] [-u USER] [-n NAME] [-t STATE] JOB…``."""
    names = ["signal=", "user=", "me", "name=", "state=", "partition=", *_NO_MATTER["scancel"]]
    chosen, numbers = read_words(command.words, "s:u:n:t:p:fbqv", names)
    signal = chosen.get("signal", chosen.get("s", "")).removeprefix("SIG")
    if signal and signal not in SIGNALS:
        raise Failed(f"Unknown job signal: {signal}")
    if wrong := [number for number in numbers if not number.isdecimal()]:
        raise Failed(f"scancel: error: Invalid job id {wrong[0]}")
    jobs = [int(number) for number in numbers]
    narrowed = {"u", "user", "me", "n", "name", "t", "state", "p", "partition"} & chosen.keys()
    if not jobs and not narrowed:
        raise Failed("scancel: error: No job identification provided")
    if narrowed:
        named = [job.id for job in selected(slurm, "scancel", chosen, slurm.observe().jobs) if job.state in LIVE]
        jobs = [job for job in named if job in jobs or not jobs]
    states = {job.id: job.state for job in slurm.observe().jobs} if signal else {}
    for job in jobs:
        if not signal:
            slurm.cancel(job)
        elif states.get(job) is JobState.RUNNING:
            slurm.signal(job, signal)
        else:
            why = "Job can not be altered now, try again later" if job in states else "Invalid job id specified"
            over = states.get(job, JobState.PENDING) is not JobState.PENDING
            why = "Invalid job id specified" if over else why
            raise Failed(f"scancel: error: Kill job error on job id {job}: {why}")
    return ""


def scontrol(slurm: VirtualSlurm, command: Invocation) -> str:
    """``scontrol show|update|hold|release|requeue|requeuehold|ping …``."""
    chosen, words = read_words(command.words, "oadQ", _NO_MATTER["scontrol"])
    verb, rest = (words[0].lower(), words[1:]) if words else ("", [])
    if verb == "show":
        return _show(slurm, command, rest, bool({"o", "oneliner"} & chosen.keys()))
    if verb == "ping":
        slurm.machine()
        return "Slurmctld(primary) at simulated is UP\n"
    if verb == "update":
        _update(slurm, dict(word.partition("=")[::2] for word in rest))
        return ""
    on_job: dict[str, Callable[[int], None]] = {
        "hold": slurm.hold, "release": slurm.release, "requeue": slurm.requeue,
        "requeuehold": lambda job: slurm.requeue(job, hold=True),
    }  # fmt: skip
    if verb not in on_job:
        raise Failed(f"invalid keyword: {verb}")
    if not rest:
        raise Failed(f"too few arguments for keyword:{verb}")
    for number in ",".join(rest).split(","):
        if not number.isdecimal():
            raise Failed(f"Invalid job id specified for job {number}")
        on_job[verb](int(number))
    return ""


def _update(slurm: VirtualSlurm, pairs: dict[str, str]) -> None:
    lower = {key.lower(): key for key in pairs}
    if "jobid" in lower:
        numbers = pairs.pop(lower["jobid"]).split(",")
        if wrong := [number for number in numbers if not number.isdecimal()]:
            raise Failed(f"Invalid job id specified for job {wrong[0]}")
        if not pairs:
            raise Failed("No changes specified")
        slurm.update([int(number) for number in numbers], pairs)
    elif "partitionname" in lower and "nodes" in lower:
        slurm.move_nodes(pairs[lower["partitionname"]], tuple(expand_hosts(pairs[lower["nodes"]])))
    else:
        raise Failed('No valid entity in update command\nInput line must include "JobId" or "PartitionName"')


def _show(slurm: VirtualSlurm, command: Invocation, words: Sequence[str], one_line: bool) -> str:
    what, name = (words[0].lower(), words[1] if len(words) > 1 else "") if words else ("", "")
    form = form_of(slurm, command)
    if what.startswith("conf"):
        return config_text(slurm.configuration(), form)
    if what.startswith("part"):
        lines = [partition_line(one) for one in slurm.machine().partitions if name in ("", one.name)]
    elif what.startswith("node"):
        lines = [node_line(one) for one in slurm.machine().nodes if not name or one.name in expand_hosts(name)]
    elif what.startswith("res"):
        lines = [reservation_line(one, form) for one in slurm.reservations() if name in ("", one.name)]
        if not lines:
            return "No reservations in the system\n"
    elif what.startswith("job"):
        lines = [job_line(one, form) for one in slurm.observe().jobs if name in ("", str(one.id))]
        if name and not lines:
            raise Failed("slurm_load_jobs error: Invalid job id specified")
    else:
        raise Failed(f"invalid entity:{what} for keyword:show ")
    return "".join((line if one_line else re.sub(r" (?=[A-Z]\w*=)", "\n   ", line) + "\n") + "\n" for line in lines)
