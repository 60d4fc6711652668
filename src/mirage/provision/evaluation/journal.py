"""Journal of an evaluation: results kept as they come, to resume from."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

from mirage.errors import ConfigurationError
from mirage.provision.evaluation.study import Study, Trial


class Journal:
    """Played windows of a study in a file of JSON lines, named after the study's key.

    A line is found by the time at which its window's predecessor was submitted, so that a study takes over what any
    other of the same key has played then: one of a whole winter that of one of its months. A line that was cut off
    (the machine went down), or has no such time (earlier versions numbered windows), is dropped and played again.

    Args:
        folder: Where the file lies; None to keep nothing.
        study: Whose windows.

    Raises:
        ConfigurationError: The folder cannot be written.
    """

    def __init__(self, folder: Path | None, study: Study) -> None:
        self.path = None if folder is None else folder / f"evaluation-{study.key}.jsonl"
        self.protocol = study.protocol
        self._played: dict[int, tuple[Trial, ...]] = {}
        if self.path is None:
            return
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            lines = self.path.read_text(encoding="utf-8").split("\n") if self.path.exists() else []
            whole = [line for line in lines[:-1] if self._take(line)]
            if lines and (len(whole) < len(lines) - 1 or lines[-1]):
                self._rewrite(whole)
        except OSError as error:
            raise ConfigurationError(f"cannot keep results in {folder}: {error.strerror or error}") from error

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
        if self.path is not None:
            line = json.dumps({"submitted_s": submitted_s, "trials": [trial.to_json() for trial in trials]})
            with open(self.path, "a", encoding="utf-8") as file:
                file.write(line + "\n")
                file.flush()
                os.fsync(file.fileno())

    def _take(self, line: str) -> bool:
        """Read one line; False if it cannot be read."""
        try:
            entry = json.loads(line)
            self._played[entry["submitted_s"]] = tuple(Trial.from_json(trial) for trial in entry["trials"])
        except (ValueError, KeyError, TypeError):
            return False
        return True

    def _rewrite(self, lines: list[str]) -> None:
        assert self.path is not None
        beside = self.path.with_suffix(".new")
        beside.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
        beside.replace(self.path)
