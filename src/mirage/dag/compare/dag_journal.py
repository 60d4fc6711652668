"""Journal of a comparison of schedulers of stages: trials as they finish, to resume from."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from mirage.dag.compare.dag_trial import DagTrialResult
from mirage.json_journal import JsonJournal

FILE = "dag-trials.jsonl"


class DagJournal:
    """Results of trials and costs of decisions, in a file of JSON lines.

    A trial whose line was cut off runs again.

    Args:
        folder: Folder of the file; None to store nothing.

    Raises:
        ConfigurationError: The folder cannot be written.
    """

    def __init__(self, folder: Path | None) -> None:
        self._lines = JsonJournal(folder, FILE)
        self._played: dict[str, DagTrialResult] = {}
        self._decision_us: dict[str, float] = {}
        for line in self._lines:
            self._take(line)

    def played(self, key: str) -> DagTrialResult | None:
        """The result of a trial; None if unknown."""
        return self._played.get(key)

    def decision_us(self, key: str) -> float | None:
        """The cost of a decision in a trial; None if unknown."""
        return self._decision_us.get(key)

    def add_played(self, key: str, played: DagTrialResult) -> None:
        """Stores the result of a trial; it is on disk when this returns."""
        self._played[key] = played
        self._lines.add({"key": key, **asdict(played)})

    def add_decision_us(self, key: str, decision_us: float) -> None:
        """Stores the cost of a decision."""
        self._decision_us[key] = decision_us
        self._lines.add({"key": key, "decision_us": decision_us})

    def _take(self, stored: dict[str, Any]) -> None:
        try:
            key = str(stored.pop("key"))
            if stored.keys() == {"decision_us"}:
                self._decision_us[key] = float(stored["decision_us"])
            else:
                self._played[key] = DagTrialResult(**{**stored, "jct_s": tuple(map(float, stored["jct_s"]))})
        except (ValueError, KeyError, TypeError):
            return
