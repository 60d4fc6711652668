"""Journal of a comparison: outcomes kept as they come, to resume from."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, replace
from pathlib import Path

from mirage.errors import ConfigurationError
from mirage.schedule.compare.row import Row
from mirage.schedule.compare.trial import Outcome

FILE = "schedule-trials.jsonl"


class Journal:
    """Outcomes in a file of JSON lines, each found by its trial's key; a line that was cut off is played again.

    Args:
        folder: Where the file lies; None to keep nothing.

    Raises:
        ConfigurationError: The folder cannot be written.
    """

    def __init__(self, folder: Path | None) -> None:
        self.path = None if folder is None else folder / FILE
        self._kept: dict[str, Outcome] = {}
        if self.path is None:
            return
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            text = self.path.read_text(encoding="utf-8", errors="replace") if self.path.exists() else ""
            with open(self.path, "a", encoding="utf-8") as file:
                file.write("\n" * bool(text and not text.endswith("\n")))
        except OSError as error:
            raise ConfigurationError(
                f"cannot keep results in {folder}: {error.strerror or error}; name a folder that you can write"
            ) from error
        for line in text.splitlines():
            self._take(line)

    def outcome(self, key: str, workload: str) -> Outcome | None:
        """What became of a trial, under the present name of its workload; None where that is not known."""
        found = self._kept.get(key)
        return None if found is None else replace(found, row=replace(found.row, workload=workload))

    def add(self, key: str, outcome: Outcome) -> None:
        """Take an outcome down; it is on the disk when this returns."""
        self._kept[key] = outcome
        if self.path is not None:
            with open(self.path, "a", encoding="utf-8") as file:
                file.write(json.dumps({"key": key, **asdict(outcome)}) + "\n")
                file.flush()
                os.fsync(file.fileno())

    def _take(self, line: str) -> None:
        try:
            told = json.loads(line)
            left_out = tuple((str(reason), int(count)) for reason, count in told["left_out"])
            self._kept[told["key"]] = Outcome(Row(**told["row"]), tuple(told["jct_s"]), left_out)
        except (ValueError, KeyError, TypeError):
            return
