"""Stored calibration of a cluster: its date, the simulator's fidelity, and their meaning."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from mirage.calibration.site.calibration_files import CalibrationAttempt, CalibrationFiles
from mirage.duration import DAY_S, HOUR_S
from mirage.errors import ConfigurationError
from mirage.job_state import MISSING

STALE_S = 28 * DAY_S
"""An older calibration is outdated: users, nodes and limits change."""

_MEANS = ((0.1, "correct within a tenth"), (0.25, "correct within a quarter"), (0.5, "correct within a half"))
_ORDER = ((0.6, "is predicted well"), (0.4, "is predicted roughly"))


@dataclass(frozen=True, slots=True)
class StoredCalibration:
    """Facts in a cluster file about the calibration that made it.

    Attributes:
        made_s: When it was made, on the cluster's clock.
        from_s: Begin of the slice that it was judged on.
        until_s: First second after that slice.
        jobs: Number of jobs compared there.
        error: Of the mean wait over two weeks, as a share; None where it is not defined.
        rank_correlation: Of single jobs' waits; None where it is not defined.
        partitions: Partitions of the jobs.
        remarks: Notes on what is left out or not distinguished.
    """

    made_s: int
    from_s: int
    until_s: int
    jobs: int
    error: float | None
    rank_correlation: float | None
    partitions: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> StoredCalibration:
        """Reads the section ``calibration`` of a cluster file.

        Raises:
            KeyError: A fact is missing.
            TypeError: A fact has another type.
        """
        judged = facts["fidelity"]["all"]["judged"]
        times = (facts["made"], facts["fitted_until"], facts["judged_until"])
        if not all(isinstance(one, datetime) for one in times):
            raise TypeError("a time is not a date and time")
        made_s, from_s, until_s = (int(one.timestamp()) for one in times)
        return cls(
            made_s, from_s, until_s, int(judged["jobs"]), judged.get("moving_average_mape"),
            judged.get("rank_correlation"), tuple(facts.get("partitions", ())), tuple(facts.get("remarks", ())),
        )  # fmt: skip

    def is_stale(self, now_s: float) -> bool:
        """Whether it is too old to rely on."""
        return now_s - self.made_s > STALE_S

    @property
    def figures(self) -> str:
        """The two figures of fidelity as text."""
        off = "unknown" if self.error is None else f"{self.error:.0%}"
        order = "unknown" if self.rank_correlation is None else f"{self.rank_correlation:.2f}"
        return f"error of two-week mean waits {off}, rank correlation of single waits {order}"

    @property
    def meaning(self) -> str:
        """The meaning of the figures as text."""
        return f"simulated mean waits are {self._mean_words()}; the order of waits {self._order()}"

    @property
    def is_faithful(self) -> bool:
        """Whether both figures are in the range in which a simulation is informative."""
        off, order = self.error, self.rank_correlation
        return off is not None and order is not None and off <= _MEANS[-1][0] and order >= _ORDER[-1][0]

    def _mean_words(self) -> str:
        if self.error is None:
            return "of unknown accuracy: no window of two weeks had waits"
        return next((words for most, words in _MEANS if self.error <= most), "wrong by more than half")

    def _order(self) -> str:
        if self.rank_correlation is None:
            return "is not known"
        return next((words for least, words in _ORDER if self.rank_correlation >= least), "is hardly predicted")

    def age(self, now_s: float) -> str:
        """Returns its age as text."""
        return in_words(now_s - self.made_s)

    def to_json(self, now_s: float) -> dict[str, Any]:
        """Plain values: instants in ISO-8601 UTC, durations in seconds."""
        return {
            "made": _instant(self.made_s),
            "age": max(round(now_s - self.made_s), 0),
            "stale": self.is_stale(now_s),
            "judged_from": _instant(self.from_s),
            "judged_until": _instant(self.until_s),
            "jobs": self.jobs,
            "moving_average_mape": self.error,
            "rank_correlation": self.rank_correlation,
            "partitions": list(self.partitions),
            "remarks": list(self.remarks),
        }


def read_stored_calibration(files: CalibrationFiles) -> StoredCalibration | None:
    """Returns the stored calibration of a cluster; None where there is none.

    Only the facts are read, not the cluster, which needs no simulator.

    Raises:
        ConfigurationError: The file cannot be read, or was not written by ``mirage calibrate --site``.
    """
    try:
        facts = tomllib.loads(files.file.read_text(encoding="utf-8"))["calibration"]
        if facts["cluster"] != files.cluster:
            raise ConfigurationError(f"{files.file} is of the cluster {facts['cluster']}; {_AGAIN}")
        return StoredCalibration.of(facts)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigurationError(f"cannot read {files.file}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigurationError(f"{files.file} is no calibration of a site ({error}); {_AGAIN}") from error


_AGAIN = "make it again: mirage calibrate --site"


def attempt_words(attempt: CalibrationAttempt | None, now_s: float) -> str:
    """Describes the last attempt if it left no file; empty where there is nothing to report."""
    if attempt is None or attempt.outcome == "done":
        return ""
    ago = f"{in_words(now_s - attempt.began_s)} ago"
    if attempt.ended_s == MISSING:
        return f"the attempt begun {ago} has not ended"
    return f"the last attempt, {ago}, {'was refused' if attempt.outcome == 'refused' else 'failed'}: {attempt.why}"


def in_words(seconds: float) -> str:
    """Formats a duration: ``3 days``, ``1 hour``."""
    for unit_s, name in ((7 * DAY_S, "week"), (DAY_S, "day"), (HOUR_S, "hour")):
        if seconds >= 2 * unit_s or (unit_s == HOUR_S and seconds >= unit_s):
            count = int(seconds // unit_s)
            return f"{count} {name}" + "s" * (count > 1)
    return "less than an hour"


def _instant(at_s: int) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
