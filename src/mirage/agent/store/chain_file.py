"""``chains/NAME/chain.json``: a chain at its creation, for recovery without the store."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from mirage.agent.model import Chain, ChainSpec
from mirage.agent.store.rows import spec_from_json, spec_to_json
from mirage.atomic_file import write_atomically
from mirage.errors import ScriptGone, StoreError, reason

NAME = "chain.json"


@dataclass(frozen=True, slots=True)
class StoredChain:
    """A chain as described by its file.

    Attributes:
        key: The secret of the chain in its jobs' tags.
        store: The identity of its store.
        place: Path of the store's file, or its URL without the password. The file contains only the store's name where
            the store is in the agent's folder, so that both can be moved together.
        cluster: The cluster of its jobs.
    """

    name: str
    key: str
    created_s: int
    spec: ChainSpec
    store: str
    place: str
    cluster: str

    def is_of(self, store: Path) -> bool:
        """Whether the chain belongs to the store in this file."""
        return os.path.realpath(self.place) == os.path.realpath(store)  # unlike resolve(), also of a circle of links


def write_chain_file(folder: Path, stored: StoredChain) -> None:
    """Write the file of a chain, in one step, readable only for its owner.

    Args:
        folder: Folder of the chain, with the copy of its script.

    Raises:
        StoreError: It cannot be written.
    """
    place = stored.place
    if Path(place).is_absolute() and Path(place).parent.resolve() == _agent_folder(folder):
        place = Path(place).name
    text = json.dumps(
        {
            "name": stored.name,
            "key": stored.key,
            "created_s": stored.created_s,
            "store": {"id": stored.store, "place": place, "cluster": stored.cluster},
            "spec": spec_to_json(stored.spec),
        },
        indent=1,
    )
    try:
        write_atomically(folder / NAME, text.encode(), 0o600)
    except OSError as error:
        raise StoreError(f"cannot write {folder / NAME}: {error.strerror}") from error


def read_chain_files(folder: Path) -> tuple[list[StoredChain], dict[Path, str]]:
    """The chains with a file, oldest first, and the unreadable files with the reason.

    Args:
        folder: The agent's folder, which contains ``chains``.
    """
    found, unread = [], {}
    for path in sorted(folder.glob(f"chains/*/{NAME}")):
        try:
            found.append(_read(path.parent, json.loads(path.read_bytes())))
        except OSError as error:
            unread[path] = str(error.strerror)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            unread[path] = f"it is not a chain's file ({reason(error)})"
    return sorted(found, key=lambda stored: (stored.created_s, stored.name)), unread


def read_chain_file(folder: Path) -> StoredChain | None:
    """The chain of a folder; None without a readable file."""
    try:
        return _read(folder, json.loads((folder / NAME).read_bytes()))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _read(folder: Path, text: dict[str, object]) -> StoredChain:
    name, store, spec = str(text["name"]), text["store"], text["spec"]
    if not isinstance(store, dict) or not isinstance(spec, dict):
        raise ValueError("store or spec is not an object")
    read = spec_from_json(spec, name)
    return StoredChain(
        name,
        str(text["key"]),
        int(str(text["created_s"])),
        read,
        str(store["id"]),
        _place(folder, str(store["place"]), read),
        str(store["cluster"]),
    )


def _place(folder: Path, written: str, spec: ChainSpec) -> str:
    """The location of a store: in the present agent's folder where it was in the former one.

    Earlier versions wrote the absolute path of such a store.
    """
    if "://" in written:
        return written
    place = Path(written)
    was_inside = bool(spec.folder) and place.parent.resolve() == Path(spec.folder).resolve()
    return str(_agent_folder(folder) / place.name) if was_inside or not place.is_absolute() else written


def _agent_folder(folder: Path) -> Path:
    """The agent's folder, from the folder of a chain in it."""
    return folder.absolute().parent.parent.resolve()


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
