"""A journal of JSON lines: results of long work, written one by one, to resume from."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mirage.errors import ConfigurationError


class JsonJournal:
    """A journal of JSON lines in a file; each is on disk as soon as it is added.

    A line that a crash truncated is skipped when the journal is read again; the lines after it stay readable.

    Args:
        folder: The folder of the file, created where it is absent. None stores nothing.
        name: Name of the file.

    Raises:
        ConfigurationError: The folder cannot be written.
    """

    def __init__(self, folder: Path | None, name: str) -> None:
        self.path = None if folder is None else folder / name
        self._text = ""
        if self.path is None:
            return
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._text = self.path.read_text(encoding="utf-8", errors="replace") if self.path.exists() else ""
            self._append("\n" * bool(self._text and not self._text.endswith("\n")))
        except OSError as error:
            raise self._refusal(error) from error

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yields the lines present when the journal was opened, as far as they are JSON objects."""
        for line in self._text.splitlines():
            try:
                stored = json.loads(line)
            except ValueError:
                continue
            if isinstance(stored, dict):
                yield stored

    def add(self, line: Mapping[str, Any]) -> None:
        """Adds a line; it is on disk when this returns.

        Raises:
            ConfigurationError: The line cannot be written, for example because the disk is full.
        """
        if self.path is None:
            return
        try:
            self._append(json.dumps(line) + "\n")
        except OSError as error:
            raise self._refusal(error) from error

    def _append(self, text: str) -> None:
        assert self.path is not None
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())

    def _refusal(self, error: OSError) -> ConfigurationError:
        return ConfigurationError(
            f"cannot store results in {self.path}: {error.strerror or error}; name a writable folder with free space"
        )
