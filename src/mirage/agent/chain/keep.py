"""A new chain's file beside the copy of its script, from which the chain can be recovered."""

from __future__ import annotations

import os
from pathlib import Path

from sqlalchemy.engine import make_url

from mirage.agent.model import Chain, StoreIdentity
from mirage.agent.paths import Home
from mirage.agent.store.chain_file import KeptChain, keep_chain, kept_chain
from mirage.agent.store.engine import without_password
from mirage.agent.store.store_file import path_of
from mirage.errors import ConfigurationError, ScriptGone


def keep_new_chain(home: Home, chain: Chain, store: StoreIdentity) -> None:
    """Write ``chains/NAME/chain.json``; to be called between the chain's row in the store and its first sbatch.

    Raises:
        StoreError: It cannot be written.
    """
    kept = KeptChain(
        chain.name, chain.key, chain.created_s, chain.spec, store.identity, place_of(home.store_url), store.cluster
    )
    keep_chain(home.chain_folder(chain.name), kept)


def check_folder(home: Home, name: str, store: StoreIdentity) -> None:
    """Refuse a name whose folder is that of a chain of another store: its script would be written over.

    Raises:
        ConfigurationError: It is.
    """
    kept = kept_chain(home.chain_folder(name))
    if kept is not None and kept.store != store.identity:
        raise ConfigurationError(
            f"{home.chain_folder(name)} is the folder of a chain of another store, {kept.place}; choose another name, "
            "or give this store a folder of its own with MIRAGE_HOME"
        )


def folder_of_scripts(chain: Chain, script: str, present: Path | None) -> Path:
    """The agent's folder with the copy of a chain's script: the present one, else that of the chain's submission.

    Two agents' folders may share a store on a server, and two stores a folder: a folder counts only where no other
    chain of that name is in it.

    Args:
        script: Its path from the folder.
        present: The agent's folder now; None for that of the submission.

    Raises:
        ScriptGone: It is in neither.
    """
    former = Path(chain.spec.folder)
    folders = list(dict.fromkeys((present or former, former)))
    for folder in folders:
        kept = kept_chain(folder / "chains" / chain.name)
        if os.path.isfile(folder / script) and (kept is None or kept.key == chain.key):
            return folder
    raise ScriptGone(
        f"the copy of its script, {script}, is not in {' or '.join(map(str, folders))}; where the agent's folder was "
        "moved, name its new place with MIRAGE_HOME and start the agent again; where the copy was deleted, put it back"
    )


def place_of(url: str) -> str:
    """Where a store is: the path of its file, or its URL without the password."""
    path = path_of(make_url(url))
    return str(path) if path is not None else without_password(url)
