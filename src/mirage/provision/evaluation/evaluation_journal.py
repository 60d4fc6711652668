"""Journal of an evaluation: results stored as they arrive, to resume from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from mirage.json_journal import JsonJournal
from mirage.provision.evaluation.evaluation_study import Study, WindowTrial


class EvaluationJournal:
    """Played windows of a study in a file of JSON lines, named after the study's key.

    A line is identified by the time at which its window's predecessor was submitted, so a study reuses what any other
    study of the same key has played for that time: a study of a whole winter reuses one of its months. A
    line that is truncated (the machine went down), or has no such time (earlier versions numbered windows), is skipped
    and its window played again.

    Args:
        folder: Where the file is; None to store nothing.
        study: The study that has the windows.

    Raises:
        ConfigurationError: The folder cannot be written.
    """

    def __init__(self, folder: Path | None, study: Study) -> None:
        self._lines = JsonJournal(folder, f"evaluation-{study.key}.jsonl")
        self.protocol = study.protocol
        self._played: dict[int, tuple[WindowTrial, ...]] = {}
        for line in self._lines:
            self._take(line)

    def __contains__(self, window: int) -> bool:
        return self.protocol.submits_s(window) in self._played

    def trials(self, window: int) -> tuple[WindowTrial, ...]:
        """Returns the trials of a window of this study."""
        found = self._played[self.protocol.submits_s(window)]
        return tuple(replace(trial, episode=replace(trial.episode, window=window)) for trial in found)

    def add(self, window: int, trials: tuple[WindowTrial, ...]) -> None:
        """Write the trials of a window to disk, and return when they are there."""
        submitted_s = self.protocol.submits_s(window)
        self._played[submitted_s] = trials
        self._lines.add({"submitted_s": submitted_s, "trials": [trial.to_json() for trial in trials]})

    def _take(self, line: dict[str, Any]) -> None:
        try:
            self._played[line["submitted_s"]] = tuple(WindowTrial.from_json(trial) for trial in line["trials"])
        except (ValueError, KeyError, TypeError):
            return
