"""Journal of an evaluation: results kept as they come, to resume from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from mirage.kept_lines import KeptLines
from mirage.provision.evaluation.study import Study, Trial


class Journal:
    """Played windows of a study in a file of JSON lines, named after the study's key.

    A line is found by the time at which its window's predecessor was submitted, so that a study takes over what any
    other of the same key has played then: one of a whole winter that of one of its months. A line that was cut off
    (the machine went down), or has no such time (earlier versions numbered windows), is passed over and played again.

    Args:
        folder: Where the file lies; None to keep nothing.
        study: Whose windows.

    Raises:
        ConfigurationError: The folder cannot be written.
    """

    def __init__(self, folder: Path | None, study: Study) -> None:
        self._lines = KeptLines(folder, f"evaluation-{study.key}.jsonl")
        self.protocol = study.protocol
        self._played: dict[int, tuple[Trial, ...]] = {}
        for line in self._lines:
            self._take(line)

    def __contains__(self, window: int) -> bool:
        return self.protocol.submits_s(window) in self._played

    def trials(self, window: int) -> tuple[Trial, ...]:
        """What became of a window of this study."""
        found = self._played[self.protocol.submits_s(window)]
        return tuple(replace(trial, episode=replace(trial.episode, window=window)) for trial in found)

    def add(self, window: int, trials: tuple[Trial, ...]) -> None:
        """Take down what became of a window; it is on the disk when this returns."""
        submitted_s = self.protocol.submits_s(window)
        self._played[submitted_s] = trials
        self._lines.add({"submitted_s": submitted_s, "trials": [trial.to_json() for trial in trials]})

    def _take(self, told: dict[str, Any]) -> None:
        try:
            self._played[told["submitted_s"]] = tuple(Trial.from_json(trial) for trial in told["trials"])
        except (ValueError, KeyError, TypeError):
            return
