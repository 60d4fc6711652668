"""Where the agent's things lie: ``MIRAGE_HOME``, by default ``~/.mirage``, for its owner's eyes only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mirage.errors import StoreError


@dataclass(frozen=True, slots=True)
class Home:
    """The folder, and what is in it.

    Attributes:
        store_url: ``MIRAGE_STORE``, by default an SQLite file in the folder.
    """

    folder: Path
    store_url: str

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Home:
        """As the environment says.

        Raises:
            StoreError: The folder cannot be made.
        """
        folder = Path(environment.get("MIRAGE_HOME") or Path(environment.get("HOME") or "~").expanduser() / ".mirage")
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise StoreError(f"cannot make {folder}: {error.strerror}; name another folder with MIRAGE_HOME") from error
        return cls(folder, environment.get("MIRAGE_STORE") or f"sqlite:///{folder.resolve()}/store.db")

    @property
    def log(self) -> Path:
        """What the agent says when it runs in the background."""
        return self.folder / "agent.log"

    def spool(self, chain: str, name: str, text: str) -> Path:
        """Keep our own copy of a chain's script: later links run what was submitted, whatever becomes of the file.

        Raises:
            StoreError: It cannot be written.
        """
        folder = self.folder / "chains" / chain
        path = folder / name
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            path.write_text(text, encoding="utf-8")
            path.chmod(0o700)
        except OSError as error:
            raise StoreError(f"cannot keep a copy of the script in {folder}: {error.strerror}") from error
        return path
