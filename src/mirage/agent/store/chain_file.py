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
        place: Path of the store's file, or its URL without the password. The file has the store's name alone where the
            store is in the agent's folder, so that both can be moved together.
        cluster: That its jobs are on.
    """

    name: str
    key: str
    created_s: int
    spec: ChainSpec
    store: str
    place: str
    cluster: str

    def is_of(self, store: Path) -> bool:
        """Whether the chain is of the store in this file."""
        return Path(self.place).resolve() == store.resolve()


def keep_chain(folder: Path, kept: KeptChain) -> None:
    """Write the file of a chain, in one step, for its owner's eyes only.

    Args:
        folder: Of the chain, where the copy of its script is.

    Raises:
        StoreError: It cannot be written.
    """
    place = kept.place
    if Path(place).is_absolute() and Path(place).parent.resolve() == _agent_folder(folder):
        place = Path(place).name
    text = json.dumps(
        {
            "name": kept.name,
            "key": kept.key,
            "created_s": kept.created_s,
            "store": {"id": kept.store, "place": place, "cluster": kept.cluster},
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
            found.append(_read(path.parent, json.loads(path.read_bytes())))
        except OSError as error:
            unread[path] = str(error.strerror)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            unread[path] = f"it is no such file ({type(error).__name__}: {error})"
    return sorted(found, key=lambda kept: (kept.created_s, kept.name)), unread


def kept_chain(folder: Path) -> KeptChain | None:
    """The chain whose folder this is; None where no file, or none that can be read, tells."""
    try:
        return _read(folder, json.loads((folder / NAME).read_bytes()))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _read(folder: Path, text: dict[str, object]) -> KeptChain:
    name, store, spec = str(text["name"]), text["store"], text["spec"]
    if not isinstance(store, dict) or not isinstance(spec, dict):
        raise ValueError("store or spec is no object")
    read = spec_from_json(spec, name)
    return KeptChain(
        name,
        str(text["key"]),
        int(str(text["created_s"])),
        read,
        str(store["id"]),
        _place(folder, str(store["place"]), read),
        str(store["cluster"]),
    )


def _place(folder: Path, written: str, spec: ChainSpec) -> str:
    """The place of a store: in the present agent's folder where it was in that of the chain's submission.

    Earlier versions wrote the absolute path of such a store.
    """
    if "://" in written:
        return written
    place = Path(written)
    was_inside = bool(spec.folder) and place.parent.resolve() == Path(spec.folder).resolve()
    return str(_agent_folder(folder) / place.name) if was_inside or not place.is_absolute() else written


def _agent_folder(folder: Path) -> Path:
    """The agent's folder, from that of a chain in it."""
    return folder.absolute().parent.parent.resolve()
