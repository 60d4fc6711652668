"""The creation of a chain, from the user's request to its first job."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Container
from dataclasses import replace
from pathlib import Path

from mirage.agent.chain.request import Request
from mirage.agent.chain.submission import FIRST_LINK_ONLY, submit_link
from mirage.agent.chain.tag import chain_name
from mirage.agent.model import Chain, ChainSpec, ChainState, Link, StoreIdentity
from mirage.agent.paths import Home
from mirage.agent.store.chain_file import StoredChain, read_chain_file, write_chain_file
from mirage.agent.store.engine import place_of
from mirage.agent.store.identity import random_letters
from mirage.agent.store.protocol import Store
from mirage.errors import ConfigurationError, RequestNotSent, SlurmRefused, SlurmUnreachable, StoreError
from mirage.job_state import MISSING
from mirage.real_time import wait_until
from mirage.slurm.backend import Backend, cluster_of
from mirage.slurm.text.batch_script import without

AGENT_S = 60.0
"""Real seconds that an agent has for its sbatch where it claims the first link before us."""

FIRST, LATER = "script", "later-script"
"""Folders of a chain for the script's copies, which retain the name that sbatch gives to the job."""


def create_chain(
    store: Store, backend: Backend, home: Home, request: Request, spec: ChainSpec, name: str, now_s: int
) -> int:
    """A new chain with its first link submitted; returns the job of that link.

    Args:
        spec: The user's specification; its submission is filled in here.
        name: Name of the chain.

    Raises:
        ConfigurationError: There is a chain of this name.
        SlurmRefused: sbatch refused; there is no chain.
        RequestNotSent: The request did not reach Slurm; there is no chain.
        SlurmUnreachable: No answer: the chain exists, and the agent will find its job.
        WrongCluster: The chains of the store are on another cluster.
    """
    try:
        store.bind(cluster_of(backend.configuration()))
    except SlurmUnreachable as error:  # nothing was sent yet
        raise RequestNotSent(str(error)) from error
    store.check_name(name)  # before the script of an existing chain is overwritten
    check_folder(home, name, store.identity())
    chain = store.add_chain(name, with_scripts(home, request, spec, name), now_s)
    try:
        store_new_chain(home, chain, store.identity())
    except StoreError:
        _forget(store, home, chain)
        raise
    try:
        job = submit_link(store, backend, chain, Link(chain.id, 1), None, now_s)
        if job == MISSING and not wait_until(lambda: first_job(store, chain) != MISSING, AGENT_S):
            raise SlurmUnreachable(f"an agent was quicker to submit chain {name}, and its job is not known yet")
        return job if job != MISSING else first_job(store, chain)
    except (SlurmRefused, RequestNotSent):
        _forget(store, home, chain)
        raise


def with_scripts(home: Home, request: Request, spec: ChainSpec, name: str, edits: int = 0) -> ChainSpec:
    """The specification with the copies of its script in place.

    Args:
        edits: Number of changes of the specification; each has copies of its own.
    """
    number = f"-{edits}" if edits else ""
    first = home.spool(name, f"{FIRST}{number}/{request.script_name}", request.script)
    text = without(request.script, FIRST_LINK_ONLY)
    later = home.spool(name, f"{LATER}{number}/{request.script_name}", text) if text != request.script else ""
    submission = replace(request.submission, script=str(first))
    return replace(spec, submission=submission, later_script=str(later), folder=str(home.folder))


def name_for(job_name: str, request_id: str = "", taken: Container[str] = ()) -> str:
    """A name for a chain: the job's, made safe, with letters that make it unique.

    Args:
        taken: Names that chains have already; four letters repeat among some hundreds of names.
        request_id: Key of a request that may be repeated: the letters follow from it, so that two processes with the
            same request at once make one chain.
    """
    safe = re.sub(r"[^A-Za-z0-9._-]+", "-", Path(job_name).stem).strip("-._") or "chain"
    if request_id:
        return chain_name(f"{safe[:50]}-{hashlib.sha256(request_id.encode()).hexdigest()[:10]}")
    while (name := chain_name(f"{safe[:50]}-{random_letters(4)}")) in taken:
        pass
    return name


def chain_of_request(store: Store, request_id: str) -> Chain | None:
    """The chain that a request has made before; None where there is none."""
    return next((chain for chain in store.chains() if chain.spec.request_id == request_id), None)


def _forget(store: Store, home: Home, chain: Chain) -> None:
    """Remove a chain without a job, and its files."""
    store.change_chain(chain.id, state=ChainState.DONE)
    store.remove_chain(chain.id)
    home.forget(chain.name)


def first_job(store: Store, chain: Chain) -> int:
    """The first job of a chain; ``MISSING`` while it is not known."""
    return next((link.job for link in store.links(chain.id) if link.number == 1), MISSING)


def store_new_chain(home: Home, chain: Chain, store: StoreIdentity) -> None:
    """Write ``chains/NAME/chain.json``, after the chain's row and before its first sbatch.

    Raises:
        StoreError: It cannot be written.
    """
    stored = StoredChain(
        chain.name, chain.key, chain.created_s, chain.spec, store.identity, place_of(home.store_url), store.cluster
    )
    write_chain_file(home.chain_folder(chain.name), stored)


def check_folder(home: Home, name: str, store: StoreIdentity) -> None:
    """Refuse the name of an agentless chain, and of a chain of another store.

    Raises:
        ConfigurationError: There is such a chain.
    """
    if (agentless := home.agentless_folder(name)).exists():
        raise ConfigurationError(f"there is a chain without an agent in {agentless}; choose another name")
    stored = read_chain_file(home.chain_folder(name))
    if stored is not None and stored.store != store.identity:
        raise ConfigurationError(
            f"{home.chain_folder(name)} belongs to a chain of another store, {stored.place}; choose another name, "
            "or give this store a folder of its own with MIRAGE_HOME"
        )
