"""The agent's folder: ``MIRAGE_HOME``, by default ``~/.mirage``, closed to others."""

from __future__ import annotations

import shutil
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
        """The folder and the store that the environment names.

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
        """The log file of an agent in the background."""
        return self.folder / "agent.log"

    def spool(self, chain: str, name: str, text: bytes) -> Path:
        """Our own copy of a chain's script, which its links run.

        Args:
            name: Of the copy in the chain's folder, ``script/job.sh``.

        Raises:
            StoreError: It cannot be written.
        """
        folder = self.folder / "chains" / chain
        path = folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            path.write_bytes(text)
            path.chmod(0o700)
        except OSError as error:
            raise StoreError(f"cannot keep a copy of the script in {folder}: {error.strerror}") from error
        return path

    def forget(self, chain: str) -> None:
        """Remove what was kept of a chain."""
        shutil.rmtree(self.folder / "chains" / chain, ignore_errors=True)
