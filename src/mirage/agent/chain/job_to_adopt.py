"""A job that Mirage has not submitted: its checks, and its description by sources.

Nothing here changes the job.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path

from mirage.agent.chain.request import EXCLUDED, Caller, Request, read_request
from mirage.agent.chain.tag import Tag, parse_tag
from mirage.agentless.link_script import MARK, AgentlessSpec, read_link_script
from mirage.duration import format_duration
from mirage.errors import ConfigurationError, SlurmError, SlurmRefused
from mirage.job_state import MISSING, JobState
from mirage.presets.keyed_state import keyed_lines, submitit_folder, with_submitit_bridge
from mirage.slurm.job_reader import JobProcess, JobReader, StoredSubmission, batch_process, submitted_environment
from mirage.slurm.records import QueuedJob
from mirage.slurm.sbatch_options import Chosen, from_environment
from mirage.slurm.text.batch_script import directives
from mirage.slurm.text.job_details import NOT_SHOWN, JobDetails, differing, options_of_line, options_shown, other_files

ACCOUNTING, OWN_STEP, HERE = "accounting", "job", "here"
"""Sources of the environment: what accounting stores, the job's own processes, and this shell."""

_LIMIT = "SLURM_RLIMIT_"


@dataclass(frozen=True, slots=True)
class JobFinding:
    """A part of a job's description, with its source in words."""

    what: str
    value: str
    source: str

    def __str__(self) -> str:
        return f"{self.what}: {self.value} [{self.source}]"


@dataclass(frozen=True, slots=True)
class JobToAdopt:
    """A job that passed all checks.

    Attributes:
        queued: The job as the queue shows it.
        request: Its submission, for later links.
        processes: Its processes on the node of its batch script; empty while it is pending or cannot be read.
        findings: What was found, and from which source.
        unknown: What no source shows.
        warnings: What will differ for later links.
        rules: The rules of its chain from this job on, if it is a link of a chain without an agent.
    """

    queued: QueuedJob
    request: Request
    processes: tuple[JobProcess, ...]
    findings: tuple[JobFinding, ...]
    unknown: tuple[str, ...]
    warnings: tuple[str, ...]
    rules: AgentlessSpec | None = None


def check_job(job: JobDetails, queued: QueuedJob | None, user: str, now_s: int, poll_s: int) -> QueuedJob:
    """Check that a job can be adopted; returns it as the queue shows it.

    Args:
        queued: The job in the queue; None where it is not among the user's jobs.
        poll_s: Time between two polls of an agent, which cannot follow a job that ends within it.

    Raises:
        ConfigurationError: It cannot; the message contains the reason and the remedy.
    """
    number = job.number
    if job.user != user:
        raise ConfigurationError(
            f"job {number} belongs to {job.user}, not to {user}; only your own jobs can be adopted"
        )
    if "ArrayJobId" in job.row:
        raise ConfigurationError(
            f"job {number} is a task of the array {job.row['ArrayJobId']}: a chain is one job after another; submit "
            "one chain a task"
        )
    if "HetJobId" in job.row:
        raise ConfigurationError(f"job {number} is a component of a heterogeneous job, which cannot be a chain")
    if not job.is_batch:
        raise ConfigurationError(
            f"job {number} has no batch script: srun or salloc started it, and no later job could repeat it; submit a "
            "script with `mirage submit`"
        )
    if queued is None or queued.state not in (JobState.PENDING, JobState.RUNNING) or queued.completing:
        state = job.row.get("JobState", "unknown")
        raise ConfigurationError(
            f"job {number} is {state}: only a pending or running job can be adopted; submit its script with "
            "`mirage submit`"
        )
    if queued.state is JobState.PENDING and queued.reason.startswith(("JobHeld", "launch")):
        raise ConfigurationError(f"job {number} is held; release it first: scontrol release {number}")
    left_s = queued.end_s - now_s if queued.state is JobState.RUNNING and queued.end_s != MISSING else poll_s
    if left_s < poll_s:
        raise ConfigurationError(
            f"job {number} reaches its limit in {max(left_s, 0)} s, and an agent polls every "
            f"{format_duration(poll_s)}: submit its script with `mirage submit`"
        )
    return queued


def check_tag(queued: QueuedJob, store: str, keys: Mapping[str, str]) -> Tag | None:
    """Check that a job is no link yet; returns the tag of an interrupted adoption.

    Args:
        store: Identity of the store.
        keys: Names of its chains by key.

    Raises:
        ConfigurationError: It is a link already.
    """
    tag = parse_tag(queued.comment)
    if tag is None:
        return None
    if tag.store != store:
        raise ConfigurationError(
            f"job {queued.id} is link {tag.link} of chain {tag.chain} of another store; name the folder of its agent "
            "with MIRAGE_HOME"
        )
    if tag.key in keys:
        raise ConfigurationError(f"job {queued.id} is link {tag.link} of chain {keys[tag.key]} already")
    return tag


def describe_job(
    reader: JobReader, job: JobDetails, queued: QueuedJob, cluster: str, options: Chosen, caller: Caller, source: str
) -> JobToAdopt:
    """Describe a job, so that later links can repeat it.

    Args:
        cluster: Slurm's name of the cluster.
        options: Options of sbatch for later links, which override what was found.
        caller: This process: its environment counts where no source shows that of the job.
        source: Source of the environment; empty for the best.

    Raises:
        ConfigurationError: A part that is needed cannot be found, or the script cannot be a chain.
    """
    number, unknown, warnings = job.number, list[str](), list[str]()
    findings = [JobFinding("working directory", job.directory, "the queue")]
    if not Path(job.directory).is_dir():
        raise ConfigurationError(
            f"the working directory of job {number}, {job.directory}, is not there; run this where it is mounted"
        )
    stored = reader.stored(number)
    processes: tuple[JobProcess, ...] = ()
    if queued.state is JobState.RUNNING:
        try:
            processes = reader.processes(number, job.row.get("BatchHost", ""), cluster)
        except SlurmError as error:
            unknown.append(f"the processes of the job, and the signals that they handle: {error}")
    shell = batch_process(processes)
    script, script_source = _script(reader, number, stored)
    rules = rules_of(script)
    if rules is not None:
        script, script_source = _script_of(rules, queued), f"the folder of its chain, {rules.folder}"
    raw, environment, origin = _environment(number, shell, stored, caller, source)
    if origin.startswith("this shell"):
        warnings.append(
            f"no source shows the environment of job {number}: later links get that of this shell; run this in the "
            "shell that has submitted the job"
        )
    if rules is None:
        chosen, line = _options(job, script, raw, environment, stored)
        path, arguments, exact = _command(job, shell)
    else:
        chosen, line = {name: value for name, value in rules.options.items() if name != "signal"}, True
        path, arguments, exact = rules.script, tuple(rules.arguments), True
        place = re.search(r"/link\.sh (\d+) \d+", job.command)
        rules = replace(rules, links=max(rules.links - int(place[1]) + 1, 1) if rules.links and place else rules.links)
    if arguments and not exact:
        warnings.append("Slurm shows the arguments joined by spaces: an argument with a space was split")
    limits = {n.removeprefix(_LIMIT): int(v) for n, v in raw.items() if n.startswith(_LIMIT) and v.isdecimal()}
    umask = (shell.umask if shell else "") or raw.get("SLURM_UMASK", "") or f"{caller.umask:04o}"
    patterns = [one for one in (environment.get(EXCLUDED), caller.environment.get(EXCLUDED)) if one]
    if patterns:  # those of the job, and those of this shell
        environment[EXCLUDED] = ",".join(dict.fromkeys(patterns))
    made = Caller(environment, Path(job.directory), int(umask, 8), _signed(limits) or caller.limits, BytesIO(script))
    request = read_request({**chosen, **options}, None, arguments, made)
    request = replace(request, script_name=Path(path).name if path else "wrap")
    options_source = "the command line of its submission, and the queue" if line else "its #SBATCH lines, and the queue"
    findings += [
        JobFinding("script", f"{request.script_name}, {len(script.splitlines())} lines", script_source),
        JobFinding("arguments", shlex.join(arguments) or "none", "the job's own process" if exact else "the queue"),
        JobFinding("environment", f"{len(environment)} variables", origin),
        JobFinding("options", shlex.join(_words(request.given)), options_source),
    ]
    if not line:
        unknown.append(f"options that the queue does not show: {', '.join(f'--{name}' for name in NOT_SHOWN)}")
    warnings += _keyed(request, number) + _shared_files(request.given)
    if submitit_folder(request.script) is not None:
        request = replace(request, script=with_submitit_bridge(request.script, number))
        warnings.append(
            f"submitit names its state by the number of the job: later links get a link to {number}_submitted.pkl, and "
            f"write their result as NUMBER_0_result.pkl, where the job object of {number} does not search"
        )
    return JobToAdopt(queued, request, processes, tuple(findings), tuple(unknown), (*request.remarks, *warnings), rules)


def rules_of(script: bytes) -> AgentlessSpec | None:
    """The rules in the script of a chain without an agent; None for any other script.

    Raises:
        ConfigurationError: Another version of Mirage has made the script.
    """
    own = MARK.encode() in script.splitlines()[:2]
    return read_link_script(script.decode(errors="surrogateescape")) if own else None


def _script_of(rules: AgentlessSpec, queued: QueuedJob) -> bytes:
    """The user's script of a chain without an agent, the running link of which is adopted.

    Raises:
        ConfigurationError: The link does not run, or the script cannot be read.
    """
    if queued.state is not JobState.RUNNING:
        raise ConfigurationError(
            f"job {queued.id} waits in the chain without an agent {rules.chain}: adopt the running job of that chain"
        )
    try:
        return (Path(rules.folder) / rules.script).read_bytes()
    except OSError as error:
        raise ConfigurationError(
            f"cannot read the script of job {queued.id}, {rules.folder}/{rules.script}: {error.strerror}"
        ) from error


def _words(given: Chosen) -> list[str]:
    return [f"--{name}" if value is None else f"--{name}={value}" for name, value in given.items()]


def _script(reader: JobReader, number: int, stored: StoredSubmission) -> tuple[bytes, str]:
    """The batch script, and its source."""
    try:
        return reader.batch_script(number), "scontrol write batch_script"
    except SlurmRefused as error:
        if stored.script:
            return stored.script.encode(errors="surrogateescape"), "sacct --batch-script"
        raise ConfigurationError(
            f"the batch script of job {number} cannot be read, and no later job could repeat it: {error}; submit the "
            "script with `mirage submit`"
        ) from error


def _environment(
    number: int, shell: JobProcess | None, stored: StoredSubmission, caller: Caller, source: str
) -> tuple[Mapping[str, str], dict[str, str], str]:
    """The variables as a source shows them, those of the submission, and the source in words.

    Raises:
        ConfigurationError: The source that the user named does not show them.
    """
    known = {
        ACCOUNTING: (stored.environment, "sacct --env-vars"),
        OWN_STEP: (
            shell.environment if shell else {},
            f"/proc of its batch process, by srun --jobid={number} --overlap",
        ),
    }
    for name in (source,) if source else (ACCOUNTING, OWN_STEP):
        variables, words = known.get(name, ({}, ""))
        if variables and name == ACCOUNTING and shell is not None:
            return variables, submitted_environment(_exact(variables, shell.environment)), words
        if variables:
            return variables, submitted_environment(variables), words
        if name in known and source:
            raise ConfigurationError(
                f"--variables-from {name}: this source does not show the environment of job {number}; leave the option "
                f"out, or give --variables-from {HERE}"
            )
    return {}, submitted_environment(caller.environment), "this shell"


def _exact(stored: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """Stored variables, with values of several lines from the process of the job.

    sacct prints one variable a line: a line of a value that has an equals sign reads as one more variable.
    """
    return {name: own[name] if "\n" in own[name] else value for name, value in stored.items() if name in own}


def _options(
    job: JobDetails, script: bytes, raw: Mapping[str, str], environment: Mapping[str, str], stored: StoredSubmission
) -> tuple[Chosen, bool]:
    """The options for sbatch's command line, and whether those of the submission are known."""
    line = options_of_line(job.submit_line or stored.submit_line, job)
    base = {**directives(script), **from_environment(environment), **(line or {})}
    shown = options_shown(job)
    if raw and "SLURM_NTASKS" not in raw:
        shown.pop("ntasks", None)
    if raw.get("SLURM_EXPORT_ENV") and "export" not in base:
        shown["export"] = raw["SLURM_EXPORT_ENV"]
    chosen = {**(other_files(job, base) if line is None else line), **differing(shown, base)}
    if "chdir" in base:
        chosen["chdir"] = job.directory
    return chosen, line is not None


def _command(job: JobDetails, shell: JobProcess | None) -> tuple[str, tuple[str, ...], bool]:
    """Path of the script, its arguments, and whether these are exact."""
    if shell is not None and shell.is_batch_shell:
        return job.command.removesuffix(" " + " ".join(shell.arguments)), shell.arguments, True
    path, *arguments = job.command.split(" ")
    return path, tuple(arguments), False


def _keyed(request: Request, number: int) -> list[str]:
    """Warnings about lines that use the number of the job; none where an option replaces one."""
    lines = [
        line for line in keyed_lines(request.script) if directives(line.text.encode()).items() <= request.given.items()
    ]
    found = [f"{line}: the next job has another number than {number}, and so another path" for line in lines
             if not line.is_log]  # fmt: skip
    return found + [f"{line}: each job writes a log of its own" for line in lines if line.is_log]


def _shared_files(given: Chosen) -> list[str]:
    """Warnings about output files that each job would truncate."""
    if (given.get("open-mode") or "").startswith("a"):
        return []
    return [
        f"--{option}={file}: all jobs write this file, and each may truncate it as it starts; give --open-mode=append, "
        "or a name with %j"
        for option in ("output", "error")
        if (file := given.get(option)) and not re.search(r"%\d*[jJA]", file) and not file.startswith("/dev/")
    ]


def _signed(limits: Mapping[str, int]) -> dict[str, int]:
    """Resource limits as ``resource`` has them: Slurm's largest number is no limit."""
    return {name: -1 if value >= 2**64 - 2 else value for name, value in limits.items()}
