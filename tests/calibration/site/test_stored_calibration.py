"""The worth of a stored calibration in figures, in words, and as a finding of doctor."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from mirage.calibration.site.calibration_files import FAILED, REFUSED, CalibrationAttempt, CalibrationFiles
from mirage.calibration.site.doctor_finding import calibration_finding
from mirage.calibration.site.stored_calibration import (
    STALE_S,
    StoredCalibration,
    attempt_words,
    in_words,
    read_stored_calibration,
)
from mirage.duration import DAY_S, HOUR_S
from mirage.errors import ConfigurationError
from mirage.sim.cluster import Cluster
from mirage.sim.slurm_conf.cluster_file import ClusterFile, write_cluster_file

HERE = "polaris@ctl1:6817"
MADE_S = 1_790_000_000
STORED = StoredCalibration(MADE_S, MADE_S - 28 * DAY_S, MADE_S - 2 * DAY_S, 1234, 0.123, 0.714, ("main",))


def day(at_s: int) -> datetime:
    return datetime.fromtimestamp(at_s, UTC)


def facts(**other: Any) -> dict[str, Any]:
    judged = {"jobs": 1234, "moving_average_mape": 0.123, "rank_correlation": 0.714}
    return {
        "cluster": HERE, "made": day(MADE_S), "fitted_until": day(STORED.from_s), "judged_until": day(STORED.until_s),
        "partitions": ["main"], "remarks": [], "fidelity": {"all": {"judged": judged}}, **other,
    }  # fmt: skip


@pytest.fixture
def place(tmp_path: Path) -> CalibrationFiles:
    return CalibrationFiles(tmp_path, HERE)


def write(place: CalibrationFiles, **other: Any) -> None:
    write_cluster_file(place.file, ClusterFile(Cluster.pool(4), calibration=facts(**other)), 0o600)


def test_what_is_written_is_read_back(place: CalibrationFiles) -> None:
    assert read_stored_calibration(place) is None
    write(place)
    assert read_stored_calibration(place) == STORED


def test_a_file_without_partitions_and_remarks_has_none() -> None:
    least = {name: value for name, value in facts().items() if name not in ("partitions", "remarks")}
    found = StoredCalibration.of(least)
    assert found == replace(STORED, partitions=())
    assert found.remarks == ()


@pytest.mark.parametrize("name", ["made", "fitted_until", "judged_until"])
def test_a_time_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(TypeError, match="a time is not a date and time"):
        StoredCalibration.of(facts(**{name: 1_790_000_000}))


def test_figures_that_are_not_defined_are_none(place: CalibrationFiles) -> None:
    write(place, fidelity={"all": {"judged": {"jobs": 3}}})
    stored = read_stored_calibration(place)
    assert stored is not None
    assert (stored.error, stored.rank_correlation, stored.is_faithful) == (None, None, False)
    assert "error of two-week mean waits unknown" in stored.figures
    assert "no window of two weeks had waits" in stored.meaning


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no toml [", "is no calibration of a site"),
        ("mirage_cluster = 1", "is no calibration of a site"),
        ("calibration = 3", "is no calibration of a site"),
        ('[calibration]\ncluster = "polaris@ctl1:6817"', "is no calibration of a site"),
        ('[calibration]\ncluster = "other@x:1"', "is of the cluster other@x:1"),
    ],
)
def test_another_file_in_its_place_is_named_with_what_to_do(place: CalibrationFiles, text: str, message: str) -> None:
    place.file.write_text(text)
    with pytest.raises(ConfigurationError, match=f"{message}.*make it again: mirage calibrate --site"):
        read_stored_calibration(place)
    found = calibration_finding(place, MADE_S)
    assert (found.level, found.value) == ("warn", "cannot be read")


@pytest.mark.parametrize(
    ("error", "order", "words", "good"),
    [
        (0.05, 0.7, "correct within a tenth; the order of waits is predicted well", True),
        (0.2, 0.5, "correct within a quarter; the order of waits is predicted roughly", True),
        (0.5, 0.4, "correct within a half; the order of waits is predicted roughly", True),
        (0.51, 0.9, "wrong by more than half; the order of waits is predicted well", False),
        (0.05, 0.39, "correct within a tenth; the order of waits is hardly predicted", False),
    ],
)
def test_figures_in_words(error: float, order: float, words: str, good: bool) -> None:
    stored = replace(STORED, error=error, rank_correlation=order)
    assert stored.meaning == f"simulated mean waits are {words}"
    assert stored.is_faithful is good


def test_plain_values_for_programs() -> None:
    stored = replace(STORED, remarks=("of main alone",))
    assert stored.to_json(MADE_S + DAY_S) == {
        "made": "2026-09-21T14:13:20Z",
        "age": DAY_S,
        "stale": False,
        "judged_from": "2026-08-24T14:13:20Z",
        "judged_until": "2026-09-19T14:13:20Z",
        "jobs": 1234,
        "moving_average_mape": 0.123,
        "rank_correlation": 0.714,
        "partitions": ["main"],
        "remarks": ["of main alone"],
    }
    assert stored.to_json(MADE_S - 9)["age"] == 0, "a clock that was set back"
    assert stored.to_json(MADE_S + STALE_S + 1)["stale"]


def test_a_file_that_cannot_be_read_is_named_with_the_reason(place: CalibrationFiles) -> None:
    place.file.mkdir()
    with pytest.raises(ConfigurationError) as raised:
        read_stored_calibration(place)
    assert str(raised.value) == f"cannot read {place.file}: Is a directory"


def test_doctor_prints_age_slice_figures_and_their_meaning(place: CalibrationFiles) -> None:
    write(place)
    found = calibration_finding(place, MADE_S + 3 * DAY_S)
    assert (found.level, found.what) == ("ok", "calibration")
    assert found.value == (
        "3 days old; error of two-week mean waits 12%, rank correlation of single waits 0.71; "
        "judged on 1,234 jobs of 2026-08-24 to 2026-09-19"
    )
    assert found.advice == "simulated mean waits are correct within a quarter; the order of waits is predicted well"


def test_doctor_prints_that_there_is_none_and_what_makes_one(place: CalibrationFiles) -> None:
    found = calibration_finding(place, MADE_S)
    assert (found.level, found.value) == ("warn", "none")
    assert "mirage calibrate --site makes one" in found.advice


def test_doctor_prints_what_is_stale_bad_or_left_out(place: CalibrationFiles) -> None:
    write(place, remarks=["of main alone: 3 of 9 jobs ran elsewhere"])
    last_s = MADE_S + STALE_S
    assert calibration_finding(place, last_s).level == "ok"
    stale = calibration_finding(place, last_s + 1)
    assert stale.level == "warn"
    assert stale.advice.startswith("stale: mirage calibrate --site makes one; the agent does so")
    assert stale.advice.endswith("of main alone: 3 of 9 jobs ran elsewhere")
    write(place, fidelity={"all": {"judged": {"jobs": 9, "moving_average_mape": 0.9, "rank_correlation": 0.7}}})
    assert calibration_finding(place, MADE_S).level == "warn"


def test_doctor_prints_why_the_last_attempt_left_nothing(place: CalibrationFiles) -> None:
    with pytest.raises(ConfigurationError), place.attempting(lambda: MADE_S):
        raise ConfigurationError("accounts reach back 9 days")
    later_s = MADE_S + 2 * HOUR_S
    advice = "the last attempt, 2 hours ago, was refused: accounts reach back 9 days"
    assert calibration_finding(place, later_s).advice == advice
    write(place)
    assert calibration_finding(place, later_s).advice.endswith(advice)


def test_attempts_in_words() -> None:
    assert attempt_words(None, 9) == ""
    assert attempt_words(CalibrationAttempt(1, 2, "done"), 9) == ""
    assert attempt_words(CalibrationAttempt(0), 3 * DAY_S) == "the attempt begun 3 days ago has not ended"
    assert (
        attempt_words(CalibrationAttempt(0, 1, FAILED, "x"), 1) == "the last attempt, less than an hour ago, failed: x"
    )
    assert (
        attempt_words(CalibrationAttempt(0, 1, REFUSED, "x"), HOUR_S) == "the last attempt, 1 hour ago, was refused: x"
    )


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "less than an hour"), (HOUR_S, "1 hour"), (47 * HOUR_S, "47 hours"), (2 * DAY_S, "2 days"),
     (HOUR_S - 1, "less than an hour"), (2 * HOUR_S, "2 hours"), (2 * DAY_S - 1, "47 hours"), (14 * DAY_S, "2 weeks"),
     (13 * DAY_S, "13 days"), (15 * DAY_S, "2 weeks"), (-5, "less than an hour")],
)  # fmt: skip
def test_lengths_of_time_in_words(seconds: int, words: str) -> None:
    assert in_words(seconds) == words
