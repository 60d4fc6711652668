"""Chains without an agent: new ones, and those of an agent that continue without it."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from mirage.agent.chain.edit import JobEdit, checked_spec, edit_chain, edited_job
from mirage.agent.chain.request import Request
from mirage.agent.chain.spec_check import limit_s
from mirage.agent.chain.submission import FIRST_LINK_ONLY
from mirage.agent.model import WAITING, Chain, ChainSpec, Link
from mirage.agent.paths import LINK_SCRIPT, Home, private_folder
from mirage.agent.store.identity import random_letters
from mirage.agent.store.protocol import Store
from mirage.agentless.link_script import LEAST_S, AgentlessSpec, link_script
from mirage.agentless.shell_features import THOUSAND, USE_S, mean_use
from mirage.agentless.shell_tree import ShellTree
from mirage.atomic_file import write_atomically
from mirage.duration import HOUR_S, UNLIMITED_S, format_duration
from mirage.errors import ConfigurationError, RequestNotSent, SlurmError, SlurmRefused, StoreError
from mirage.job_state import MISSING
from mirage.policy.policy_registry import make_policy
from mirage.slurm.client import SlurmClient
from mirage.slurm.records import AccountedJob, Submission
from mirage.slurm.sbatch_options import Chosen

POLICY = "shell-tree"

SCRIPT = "job.sh"
"""Name in the chain's folder of the copy of the user's script."""

LONGEST_LEAD_S, LEAD_SHARE = 4 * HOUR_S, 4
"""Where Slurm's estimate of a start cannot be used, links lead by this time, or by this part of their limit."""

_WARNING = "USR2"
"""The signal by which a link's batch script is signalled to leave; the user's script gets the one of the chain."""


@dataclass(frozen=True, slots=True)
class AgentlessRequest:
    """A chain without an agent that was not submitted yet.

    Attributes:
        spec: Its rules.
        code: The batch script of its links.
        script: The user's script.
        first: The submission of its first link.
    """

    spec: AgentlessSpec
    code: str
    script: bytes
    first: Submission


def shell_tree(policy: str) -> ShellTree:
    """The tree of a policy that a job's shell can run.

    Raises:
        ConfigurationError: It is none.
    """
    made = make_policy(policy)
    if isinstance(made, ShellTree):
        return made
    raise ConfigurationError(
        f"--agentless decides by a tree in the job, not by {policy}; leave --policy out, or give {POLICY}:tree=FILE"
    )


def agentless_request(
    home: Home, request: Request, spec: ChainSpec, name: str, slurm: SlurmClient, now_s: int, *, continues: bool = False
) -> AgentlessRequest:
    """Checks a request, and generates the script of its links.

    Args:
        spec: The user's specification, checked as for other chains.
        continues: Whether it continues a chain of the agent with this name.
        slurm: Reads how much of their limits jobs used, where the policy does not give it.

    Raises:
        ConfigurationError: The policy is no tree that a shell can run, the limit is infinite, or the user requests a
            signal from Slurm.
    """
    policy = shell_tree(spec.policy)
    given = request.given
    if "signal" in given:
        raise ConfigurationError("--signal cannot be used with --agentless; give --signal-previous and --grace")
    limit = limit_s(given)
    if limit is not None and limit >= UNLIMITED_S:
        raise ConfigurationError("a job without a time limit needs no next one; give a limit with -t")
    folder = home.agentless_folder(name)
    for taken in (folder, home.chain_folder(name)):
        if taken.exists() and not (continues and taken != folder):
            raise ConfigurationError(f"there is a chain in {taken}; choose another name with --chain")
    options = _options(request, spec)
    rules = AgentlessSpec(
        chain=name,
        key=random_letters(8),
        folder=str(folder),
        script=SCRIPT,
        options={key: value for key, value in options.items() if key not in FIRST_LINK_ONLY},
        arguments=request.submission.arguments,
        nodes=_nodes(given),
        use=measured_use(slurm, now_s) if policy.use is None else policy.use,
        nice=_nice(given),
        lead_s=LONGEST_LEAD_S if limit is None else min(LONGEST_LEAD_S, limit // LEAD_SHARE),
        signal=spec.signal,
        grace_s=spec.grace_s,
        warmup_s=spec.warmup_s,
        ready_by_job=spec.ready_by_job,
        links=spec.links,
        until_s=max(spec.until_s, 0),
        until_done=spec.until_done,
    )
    first = replace(
        request.submission, script=str(folder / LINK_SCRIPT), options=options,
        arguments=("1", "0", *request.submission.arguments),
    )  # fmt: skip
    return AgentlessRequest(rules, link_script(rules, policy.tree), request.script, first)


def all_end_soon(spec: ChainSpec, given: Chosen) -> tuple[str, ...]:
    """A remark on a limit so short that the chain stops after three links."""
    limit = limit_s(given)
    if limit is None or limit > LEAST_S or spec.links in (1, 2, 3):
        return ()
    return (
        f"warning: three jobs in a row that end within {format_duration(LEAST_S)} stop the chain, and with -t "
        f"{given['time']} every job does; give a longer limit",
    )


def _options(request: Request, spec: ChainSpec) -> dict[str, str | None]:
    """Options of sbatch for a link, from the command line, the environment and the script."""
    options = {
        key: value for key, value in request.given.items() if key not in ("parsable", "quiet", "verbose", "wrap")
    }
    options["job-name"] = request.job_name
    options["chdir"] = str(Path(request.submission.directory, options.get("chdir") or ""))
    if spec.slurm_warning_s:
        options["signal"] = f"B:{_WARNING}@{spec.slurm_warning_s}"
    return options


def _nodes(given: Chosen) -> int:
    """The least number of nodes of a link; 1 where the request does not state it."""
    least = (given.get("nodes") or "1").partition("-")[0]
    return max(int(least), 1) if least.isdecimal() else 1


def _nice(given: Chosen) -> int:
    """The nice value of a request; 100 where ``--nice`` has no value, as for sbatch."""
    text = given.get("nice", "0") or "100"
    return int(text) if text.lstrip("-").isdecimal() else 0


def measured_use(slurm: SlurmClient, now_s: int) -> int:
    """Use of limits by the jobs of the last 30 days in accounting, in thousandths.

    See ``mean_use``. It is 1000 where accounting has no such jobs, or does not answer.
    """
    try:
        jobs = slurm.accounting(now_s - USE_S)
    except SlurmError:
        return THOUSAND
    ended = [job for job in jobs if _has_run(job)]
    run_s = np.array([job.end_s - job.start_s for job in ended], dtype=np.int64)
    limits_s = np.array([job.limit_s if job.limit_s < UNLIMITED_S else MISSING for job in ended], dtype=np.int64)
    return mean_use(run_s, limits_s, np.array([job.nodes for job in ended], dtype=np.int64))


def _has_run(job: AccountedJob) -> bool:
    return MISSING not in (job.start_s, job.end_s) and job.end_s > job.start_s


def submit_agentless(slurm: SlurmClient, chain: AgentlessRequest) -> int:
    """Writes the folder of a chain, and submits its first job; returns the job.

    Raises:
        SlurmRefused: sbatch refused; there is no chain.
        RequestNotSent: The request did not reach Slurm; there is no chain.
        SlurmUnreachable: No answer: the chain may exist.
        StoreError: The folder cannot be written.
    """
    _write_folder(chain)
    try:
        return slurm.submit(chain.first)
    except (SlurmRefused, RequestNotSent):
        shutil.rmtree(chain.spec.folder, ignore_errors=True)
        raise


def _write_folder(chain: AgentlessRequest) -> None:
    folder = Path(chain.spec.folder)
    try:
        private_folder(folder)
        write_atomically(folder / SCRIPT, chain.script, 0o700)
        write_atomically(folder / LINK_SCRIPT, chain.code.encode(), 0o700)
    except OSError as error:
        raise StoreError(f"cannot write {folder}: {error.strerror}; name another folder with MIRAGE_HOME") from error


def request_to_continue(
    home: Home, chain: Chain, links: list[Link], policy: str, slurm: SlurmClient, now_s: int
) -> AgentlessRequest:
    """Checks that a chain can continue without its agent, and generates its script.

    Args:
        links: Its links.
        policy: Name of the policy of the links, ``shell-tree``.

    Raises:
        ConfigurationError: It cannot.
    """
    spec = chain.spec
    for field, why in NOT_CONTINUED.items():
        if getattr(spec, field):
            raise ConfigurationError(f"chain {chain.name} needs its agent: {why}")
    used = max((link.place for link in links if not link.never_ran and link.state not in WAITING), default=0)
    if spec.links and used >= spec.links:
        raise ConfigurationError(f"no job follows the running one in chain {chain.name}: nothing to continue")
    own = replace(spec, policy=policy, links=spec.links - used if spec.links else 0)
    return agentless_request(home, edited_job(chain, home, JobEdit()), own, chain.name, slurm, now_s, continues=True)


def continue_without_agent(store: Store, home: Home, chain: Chain, request: AgentlessRequest, now_s: int) -> None:
    """Makes the next link of a chain one that needs no agent.

    The agent submits and releases it as any other, and ends the link before it once it is ready. It plans no link
    after that.

    Raises:
        ConfigurationError: Another command has edited or ended the chain since it was read.
        StoreError: A file cannot be written.
    """
    _write_folder(request)
    first = replace(request.first, script="")
    job = Request(first, request.code.encode(), LINK_SCRIPT, dict(first.options))
    last = max((link.number for link in store.links(chain.id) if link.attempted_s != MISSING), default=0)
    spec = checked_spec(replace(chain.spec, agentless_after=last), job, None, until_done=True)
    try:
        edit_chain(store, home, chain, spec, job, new_script=True, now_s=now_s)
    except (ConfigurationError, StoreError):
        shutil.rmtree(request.spec.folder, ignore_errors=True)
        raise


NOT_CONTINUED: Mapping[str, str] = {
    "never_two": "two of its jobs must never run at once (--never-two)",
    "ready_command": "no other process runs its --ready-command",
    "framework": "the wrapper of its preset needs the signals of an agent",
    "to_steps": "its signals go to the steps of its jobs",
    "bank_age": "only an agent holds a job to gather age (--bank-age)",
    "agentless": "it continues without one from its next job on already",
}
"""Fields of a specification with which a chain cannot continue without an agent, and the reason."""


NOT_AGENTLESS: Mapping[str, str] = {
    "never_two": "the next link may start before this one ends",
    "ready_command": "no process runs it; the script makes the file $MIRAGE_READY with --ready-by-job",
    "bank_age": "a link is never held to gather age",
    "request_id": "there is no store of requests",
    "least_life": "it is a quarter of the limit there",
    "waiting_links": "a link submits only the next one",
    "notify": "no process sends messages",
    "notify_gap": "no process sends messages",
    "progress_file": "no process reads it",
    "no_progress_links": "no process reads the progress",
    "budget": "no process counts node-hours",
    "shortest_link": "no process reads the reservations",
    "framework": "the wrapper of a preset needs the signals of an agent",
    "links_a_day": "three links in a row that end within five minutes stop the chain",
}
"""Options of ``mirage submit`` that need an agent, and the reason."""
