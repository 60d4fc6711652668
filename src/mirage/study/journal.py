"""The journal of a study: results of trials, written one by one, to resume from."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

from mirage.errors import ConfigurationError

Trial = TypeVar("Trial")
Result = TypeVar("Result")


class TrialJournal(Generic[Trial, Result]):
    """Results in a file of JSON lines, each found by the key of its trial.

    A result is on disk as soon as it is added. Lines that a crash truncated, or that hold something else, are skipped
    when the file is read again; the trials of truncated lines are played again.

    Args:
        path: The file; it and its folder are created where they are absent.
        key_of: Returns the key of a trial: equal only where all that determines the result is equal.
        result_of: Reads a result; raises a ValueError, KeyError or TypeError where the values are none.
        to_json: Returns the values of a result; ``result_of`` reads them back.

    Raises:
        ConfigurationError: The file cannot be written.
    """

    def __init__(
        self,
        path: Path,
        key_of: Callable[[Trial], str],
        result_of: Callable[[dict[str, Any]], Result],
        to_json: Callable[[Result], Mapping[str, Any]],
    ) -> None:
        self.path, self._key_of, self._to_json = path, key_of, to_json
        self._results: dict[str, Result] = {}
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
            self._append("\n" * bool(text and not text.endswith("\n")))
        except OSError as error:
            raise self._refusal(error) from error
        for line in text.splitlines():
            try:
                stored = json.loads(line)
                key = stored.pop("key")
                self._results[key] = result_of(stored)
            except (ValueError, KeyError, TypeError, AttributeError):
                continue

    def get(self, trial: Trial) -> Result | None:
        """Returns the result of a trial; None if there is none."""
        return self._results.get(self._key_of(trial))

    def add(self, trial: Trial, result: Result) -> None:
        """Adds the result of a trial; it is on disk when this returns.

        Raises:
            ConfigurationError: It cannot be written, for example because the disk is full.
        """
        key = self._key_of(trial)
        self._results[key] = result
        try:
            self._append(json.dumps({"key": key, **self._to_json(result)}) + "\n")
        except OSError as error:
            raise self._refusal(error) from error

    def _append(self, text: str) -> None:
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())

    def _refusal(self, error: OSError) -> ConfigurationError:
        folder = self.path.parent
        why = f"{folder} is no folder" if folder.exists() and not folder.is_dir() else error.strerror or error
        return ConfigurationError(f"cannot store results in {self.path}: {why}; name a writable folder with free space")
