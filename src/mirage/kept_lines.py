"""Lines of JSON that are kept as they come: results of long work, to resume from."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mirage.errors import ConfigurationError


class KeptLines:
    """Lines in a file, each on the disk as soon as it is added.

    A line that was cut off, as the machine went down, is left out when lines are read again, and harms none behind it.

    Args:
        folder: Where the file lies; it is made where it is absent. None to keep nothing.
        name: Of the file.

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
        """The lines that were there at the beginning, as far as they are JSON."""
        for line in self._text.splitlines():
            try:
                told = json.loads(line)
            except ValueError:
                continue
            if isinstance(told, dict):
                yield told

    def add(self, line: Mapping[str, Any]) -> None:
        """Add a line; it is on the disk when this returns.

        Raises:
            ConfigurationError: It cannot be written, as where the disk is full.
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
            f"cannot keep results in {self.path}: {error.strerror or error}; name a folder that you can write, where "
            "there is room"
        )
