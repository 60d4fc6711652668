"""``chains/NAME/chain.json``: what a chain was when it was made, enough to go on when the store is lost."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from mirage.agent.model import ChainSpec
from mirage.agent.store.rows import spec_from_json, spec_to_json
from mirage.errors import StoreError
from mirage.whole_file import write_whole

NAME = "chain.json"


@dataclass(frozen=True, slots=True)
class KeptChain:
    """A chain as its file tells of it.

    Attributes:
        key: The secret of the chain in its jobs' tags.
        store: The identity of its store.
        place: Path of the store's file, or its URL without the password.
        cluster: That its jobs are on.
    """

    name: str
    key: str
    created_s: int
    spec: ChainSpec
    store: str
    place: str
    cluster: str


def keep_chain(folder: Path, kept: KeptChain) -> None:
    """Write the file of a chain, in one step, for its owner's eyes only.

    Args:
        folder: Of the chain, where the copy of its script is.

    Raises:
        StoreError: It cannot be written.
    """
    text = json.dumps(
        {
            "name": kept.name,
            "key": kept.key,
            "created_s": kept.created_s,
            "store": {"id": kept.store, "place": kept.place, "cluster": kept.cluster},
            "spec": spec_to_json(kept.spec),
        },
        indent=1,
    )
    try:
        write_whole(folder / NAME, text.encode(), 0o600)
    except OSError as error:
        raise StoreError(f"cannot write {folder / NAME}: {error.strerror}") from error


def kept_chains(folder: Path) -> tuple[list[KeptChain], dict[Path, str]]:
    """The chains that have a file, oldest first, and the files that cannot be read with the reason.

    Args:
        folder: The agent's, which holds ``chains``.
    """
    found, unread = [], {}
    for path in sorted(folder.glob(f"chains/*/{NAME}")):
        try:
            found.append(_read(json.loads(path.read_bytes())))
        except OSError as error:
            unread[path] = str(error.strerror)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            unread[path] = f"it is no such file ({type(error).__name__}: {error})"
    return sorted(found, key=lambda kept: (kept.created_s, kept.name)), unread


def kept_chain(folder: Path) -> KeptChain | None:
    """The chain whose folder this is; None where no file, or none that can be read, tells."""
    try:
        return _read(json.loads((folder / NAME).read_bytes()))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _read(text: dict[str, object]) -> KeptChain:
    store, spec = text["store"], text["spec"]
    if not isinstance(store, dict) or not isinstance(spec, dict):
        raise ValueError("store or spec is no object")
    return KeptChain(
        str(text["name"]),
        str(text["key"]),
        int(str(text["created_s"])),
        spec_from_json(spec),
        str(store["id"]),
        str(store["place"]),
        str(store["cluster"]),
    )
