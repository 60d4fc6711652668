"""Journal of a comparison: stores each outcome when it is ready, to resume from."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from mirage.kept_lines import KeptLines
from mirage.schedule.compare.row import Row
from mirage.schedule.compare.trial import Outcome

FILE = "schedule-trials.jsonl"


class Journal:
    """Outcomes in a file of JSON lines, each found by the key of its trial.

    The trial of an incomplete line is played again.

    Args:
        folder: Folder of the file; None to store nothing.

    Raises:
        ConfigurationError: The folder cannot be written.
    """

    def __init__(self, folder: Path | None) -> None:
        self._lines = KeptLines(folder, FILE)
        self._kept: dict[str, Outcome] = {}
        for line in self._lines:
            self._take(line)

    def outcome(self, key: str, workload: str) -> Outcome | None:
        """The outcome of a trial, under the present name of its workload; None if unknown."""
        found = self._kept.get(key)
        return None if found is None else replace(found, row=replace(found.row, workload=workload))

    def add(self, key: str, outcome: Outcome) -> None:
        """Store an outcome; it is on disk when this returns."""
        self._kept[key] = outcome
        self._lines.add({"key": key, **asdict(outcome)})

    def _take(self, told: dict[str, Any]) -> None:
        try:
            left_out = tuple((str(reason), int(count)) for reason, count in told["left_out"])
            self._kept[told["key"]] = Outcome(Row(**told["row"]), tuple(told["jct_s"]), left_out)
        except (ValueError, KeyError, TypeError):
            return
