"""A new chain's file next to the copy of its script, for the recovery of the chain."""

from __future__ import annotations

import os
from pathlib import Path

from sqlalchemy.engine import make_url

from mirage.agent.model import Chain, StoreIdentity
from mirage.agent.paths import Home
from mirage.agent.store.chain_file import StoredChain, read_chain_file, write_chain_file
from mirage.agent.store.engine import without_password
from mirage.agent.store.store_file import path_of
from mirage.errors import ConfigurationError, ScriptGone


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
    """Refuse a name with the folder of another store's chain, which would be overwritten.

    Raises:
        ConfigurationError: The folder belongs to another store.
    """
    stored = read_chain_file(home.chain_folder(name))
    if stored is not None and stored.store != store.identity:
        raise ConfigurationError(
            f"{home.chain_folder(name)} belongs to a chain of another store, {stored.place}; choose another name, "
            "or give this store a folder of its own with MIRAGE_HOME"
        )


def folder_of_scripts(chain: Chain, script: str, present: Path | None) -> Path:
    """The agent's folder with the copy of a chain's script.

    That is the present folder, else the one of the chain's submission. Two agents' folders may share a store on a
    server, and two stores a folder: a folder counts only where no other chain of that name is in it.

    Args:
        script: Its path from the folder.
        present: The agent's folder now; None for the folder of the submission.

    Raises:
        ScriptGone: It is in neither.
    """
    former = Path(chain.spec.folder)
    folders = list(dict.fromkeys((present or former, former)))
    for folder in folders:
        stored = read_chain_file(folder / "chains" / chain.name)
        if os.path.isfile(folder / script) and (stored is None or stored.key == chain.key):
            return folder
    raise ScriptGone(
        f"the copy of its script, {script}, is not in {' or '.join(map(str, folders))}; where the agent's folder was "
        "moved, name its new place with MIRAGE_HOME and start the agent again; where the copy was deleted, put it back"
    )


def place_of(url: str) -> str:
    """The location of a store: the path of its file, or its URL without the password."""
    path = path_of(make_url(url))
    return str(path) if path is not None else without_password(url)
