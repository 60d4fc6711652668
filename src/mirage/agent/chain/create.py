"""The creation of a chain, from the words of ``mirage submit`` to its first job."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from mirage.agent.chain.keep import check_folder, keep_new_chain
from mirage.agent.chain.submission import CHAIN, LINK, PREVIOUS_JOB, TAG
from mirage.agent.chain.submit_link import submit_link
from mirage.agent.chain.tag import chain_name
from mirage.agent.model import Chain, ChainSpec, ChainState, Link, LinkState
from mirage.agent.paths import Home
from mirage.agent.store.identity import random_letters
from mirage.agent.store.protocol import Store
from mirage.errors import ConfigurationError, SlurmRefused, StoreError
from mirage.slurm.backend import Backend, cluster_of
from mirage.slurm.options import Chosen, directives
from mirage.slurm.values import Submission

NOT_FOR_CHAINS = {
    "array": "a chain is one job after another; submit one chain a task",
    "wait": "a chain outlives its command; look at it with `mirage chain show`",
    "test-only": "use --dry-run",
    "hold": "a chain submits itself; submit it when it may run",
    "clusters": "one agent looks after one cluster",
}
"""Options of sbatch that make no sense for a chain, and what to do instead."""

WRAPPED = "#!/bin/sh\n# This script was made from --wrap.\n\n{}\n"


@dataclass(frozen=True, slots=True)
class Request:
    """A job as the user described it, read but not yet submitted.

    Attributes:
        text: Of the batch script.
        given: Options as they count: those of the command line over those of the script.
    """

    submission: Submission
    text: str
    given: Chosen
    job_name: str


def read_request(
    options: Chosen, script: str | None, arguments: tuple[str, ...], environment: Mapping[str, str], directory: Path
) -> Request:
    """Read the script and see whether this can be a chain.

    Raises:
        ConfigurationError: There is no script, it cannot be read, or an option makes no sense for a chain.
    """
    chosen = dict(options)
    text, name = _script(chosen, script, directory)
    given = {**directives(text), **chosen}
    for option, why in NOT_FOR_CHAINS.items():
        if option in given:
            raise ConfigurationError(f"--{option} cannot be used with a chain: {why}")
    for ours in ("parsable", "quiet", "verbose"):
        chosen.pop(ours, None)
    job_name = given.get("job-name") or environment.get("SBATCH_JOB_NAME") or name
    chosen["job-name"] = job_name
    if "nodes" in given:
        chosen["nodes"] = given["nodes"]  # said in the script or not, the store is to know
    inherited = {key: value for key, value in environment.items() if key not in (CHAIN, LINK, PREVIOUS_JOB, TAG)}
    return Request(Submission("", chosen, arguments, inherited, str(directory)), text, given, job_name)


def create_chain(
    store: Store, backend: Backend, home: Home, request: Request, spec: ChainSpec, name: str, now_s: int
) -> int:
    """A new chain with its first link submitted; the job of that link.

    Args:
        spec: What the user wants; its submission is filled in here.
        name: Of the chain.

    Raises:
        SlurmRefused: sbatch said no; the chain is done before it began.
        WrongCluster: The chains of the store live on another cluster.
        SlurmUnreachable: No answer: the chain stands, and the agent will find out.
    """
    store.bind(cluster_of(backend.configuration()))
    store.check_name(name)  # before the script of a chain that lives is written over
    check_folder(home, name, store.identity())
    path = home.spool(name, _file_name(request.job_name), request.text)
    spec = replace(spec, submission=replace(request.submission, script=str(path)))
    chain = store.add_chain(name, spec, now_s)
    try:
        keep_new_chain(home, chain, store.identity())
    except StoreError as error:
        abandon(store, chain, str(error), now_s)
        raise
    try:
        return submit_link(store, backend, chain, Link(chain.id, 1), None, now_s)
    except SlurmRefused as error:
        abandon(store, chain, f"sbatch refused its first link: {error}", now_s)
        raise


def abandon(store: Store, chain: Chain, why: str, now_s: int) -> None:
    """End a chain of which no link was submitted."""
    store.change_link(chain.id, 1, state=LinkState.ENDED, ended_s=now_s)
    store.change_chain(chain.id, state=ChainState.DONE, why=why)


def name_for(job_name: str) -> str:
    """A name for a chain: the job's, made safe, and a few letters that make it unique."""
    safe = re.sub(r"[^A-Za-z0-9._-]+", "-", Path(job_name).stem).strip("-._") or "chain"
    return chain_name(f"{safe[:50]}-{random_letters(4)}")


def _script(chosen: Chosen, script: str | None, directory: Path) -> tuple[str, str]:
    """The text of the batch script, and its name."""
    wrapped = chosen.pop("wrap", None)
    if wrapped is not None:
        if script is not None:
            raise ConfigurationError("--wrap takes the place of a script; give one or the other")
        return WRAPPED.format(wrapped), "wrap"
    if script is None:
        raise ConfigurationError("which script? mirage submit [options] script.sh [arguments]")
    path = directory / script
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise ConfigurationError(f"cannot read the script {script}: {reason}") from error
    if not text.startswith("#!"):
        raise ConfigurationError(f"{script} does not begin with #!, as sbatch asks of a batch script; add #!/bin/bash")
    return text, path.name


def _file_name(job_name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", job_name).strip("-.") or "script"
