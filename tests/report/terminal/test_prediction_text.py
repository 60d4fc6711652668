"""Predicted starts on the terminal: moments, offers, advice, and how past promises held."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mirage.duration import DAY_S, HOUR_S, MINUTE_S, UNLIMITED_S
from mirage.predict.start.offers import Offer
from mirage.predict.start.predictor import JobRequest, StartPrediction
from mirage.predict.start.promise_calibration import PromiseCalibration
from mirage.report.terminal.prediction_text import (
    advice,
    blend_note,
    calibration_note,
    hours,
    local,
    prediction_lines,
    print_calibration,
    print_offers,
    wait_text,
)

NOW_S = 1_790_000_000  # 2026-09-21 14:13:20 UTC
HORIZON_S = 14 * DAY_S
LEVELS_S = [20.0, 60.0, 1800.0, 2 * HOUR_S, 9 * HOUR_S, 30 * HOUR_S, float(HORIZON_S)]
NAMES = {0: "main", 3: "small"}
REQUESTED = JobRequest(nodes=4, limit_s=8 * HOUR_S)


def offer(request: JobRequest, waits_h: list[float], sooner_h: float = 0.0, share: float = 0.0) -> Offer:
    waits_s = np.array([round(hours * HOUR_S) for hours in waits_h], dtype=np.int64)
    return Offer(request, StartPrediction(NOW_S, waits_s, HORIZON_S), sooner_h * HOUR_S, share)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "now"), (59.9, "now"), (60, "00:01"), (89, "00:01"), (91, "00:02"), (3600, "01:00"), (5430, "01:30"),
        (86_399, "1-00:00"), (86_400 + 16_200, "1-04:30"), (12 * 86_400 + 60, "12-00:01"),
    ],
)  # fmt: skip
def test_waits_are_written_to_the_minute(seconds: float, text: str) -> None:
    assert wait_text(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(1500, "25 min"), (3599, "60 min"), (3600, "1.0 h"), (16_560, "4.6 h"), (29, "0 min")]
)
def test_durations_are_hours_from_an_hour_on(seconds: float, text: str) -> None:
    assert hours(seconds) == text


def test_a_start_is_printed_with_its_ranges_and_slurm_s_estimate(utc: None) -> None:
    assert local(NOW_S) == "2026-09-21 14:13"
    lines = prediction_lines(LEVELS_S, NOW_S, HORIZON_S, NOW_S + 3 * HOUR_S, 200)
    assert lines == [
        "  start    2026-09-21 16:13 (in 02:00)   the median of 200 futures",
        "  50%      2026-09-21 14:43 (in 00:30) ... 2026-09-21 23:13 (in 09:00)",
        "  80%      2026-09-21 14:14 (in 00:01) ... 2026-09-22 20:13 (in 1-06:00)",
        "  95%      2026-09-21 14:13 (now) ... later than 2026-10-05 14:13",
        "  Slurm    2026-09-21 17:13 (in 03:00)",
    ]


def test_a_start_in_the_local_zone_without_an_estimate(newfoundland: None) -> None:
    *_, slurm = prediction_lines(LEVELS_S, NOW_S, HORIZON_S, None, 200)
    assert slurm == "  Slurm    no estimate"
    assert local(NOW_S) == "2026-09-21 11:43"


def test_slurm_s_estimate_has_no_horizon(utc: None) -> None:
    *_, slurm = prediction_lines(LEVELS_S, NOW_S, HORIZON_S, NOW_S + 20 * DAY_S, 200)
    assert slurm == "  Slurm    2026-10-11 14:13 (in 20-00:00)"


def test_the_trust_in_ranges_is_described() -> None:
    assert [calibration_note(*known) for known in ((7, 1), (7, 5), (7, 0), (0, 0))] == [
        "ranges corrected by 1 promise recorded on this cluster; see `mirage predict --calibration`",
        "ranges corrected by 5 promises recorded on this cluster; see `mirage predict --calibration`",
        "ranges not corrected: no promise recorded on this cluster (7 so far) was as certain as this one",
        "ranges not corrected: no promise has been recorded on this cluster yet",
    ]


def test_the_blend_is_described() -> None:
    assert [blend_note("waits.model", count) for count in (0, 1, 7)] == [
        "ranges not blended with waits.model: no promise made with a model has an outcome yet",
        "ranges blended with waits.model, by 1 promise made with a model",
        "ranges blended with waits.model, by 7 promises made with a model",
    ]


def test_offers_are_printed_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    short = replace(REQUESTED, limit_s=6 * HOUR_S, nodes=1)
    endless = replace(REQUESTED, limit_s=UNLIMITED_S, partition=3)
    offers = [
        offer(short, [1, 2], 2.25, 0.75),
        offer(REQUESTED, [3, 5]),
        offer(endless, [30, 14 * 24], -90.0, 0.0),
    ]
    quarter = [0.0, 15 * MINUTE_S, 0.0, 0.0, 0.0]
    levels_s = [[*quarter, 2 * HOUR_S, 0.0], [*quarter, 26 * HOUR_S, 0.0], [*quarter, HORIZON_S, 0.0]]
    print_offers(offers, levels_s, REQUESTED, NAMES)
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == [
        "partition  nodes      limit  expected wait     starts in, 80 %  ends by, 80 %  node hours   sooner",
        "main           1   06:00:00          01:30       00:15 - 02:00          08:00         6.0   +2.2 h",
        "main *         4   08:00:00          04:00     00:15 - 1-02:00        1-10:00        32.0",
        "small          4  UNLIMITED      > 7-15:00  00:15 - > 14-00:00              -           -  -90.0 h",
    ]


def test_the_advice_names_all_that_would_change() -> None:
    requested = offer(REQUESTED, [6])

    def advised(request: JobRequest, sooner_h: float = 2.5) -> str:
        return advice([offer(request, [3], sooner_h, 0.8), requested], REQUESTED, NAMES)

    tail = "starts 2.5 h sooner (in 80% of the futures it is sooner)"
    assert advised(replace(REQUESTED, limit_s=6 * HOUR_S)) == f"6 h instead of 8 h: {tail}"
    assert advised(replace(REQUESTED, nodes=1)) == f"1 node instead of 4: {tail}"
    assert (
        advised(replace(REQUESTED, nodes=2, limit_s=5400))
        == f"01:30:00 instead of 8 h and 2 nodes instead of 4: {tail}"
    )
    assert advised(replace(REQUESTED, nodes=2, limit_s=3600, partition=3)) == (
        f"1 h instead of 8 h, 2 nodes instead of 4 and partition small instead of main: {tail}"
    )
    nothing = "no alternative that was tried is expected to start sooner than the request"
    assert advised(replace(REQUESTED, nodes=1), 59 / 3600) == nothing
    assert advised(replace(REQUESTED, nodes=1), 60 / 3600) == (
        "1 node instead of 4: starts 1 min sooner (in 80% of the futures it is sooner)"
    )
    assert advice([requested, offer(replace(REQUESTED, nodes=1), [9], -3.0)], REQUESTED, NAMES) == nothing


def test_past_promises_are_printed_with_slurm_s(capsys: pytest.CaptureFixture[str]) -> None:
    groups = [
        PromiseCalibration("all", 40, (0.55, 0.825, 0.95), 5400.0, 12, 9000.0, 1800.0),
        PromiseCalibration("main, 1-4 nodes", 7, (0.0, 0.5, 1.0), 60.0, 0, None, None),
    ]
    print_calibration(groups)
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == [
        "promises         kept  inside 50%  inside 80%  inside 95%  median error  where Slurm spoke  Slurm's",
        "all                40         55%         82%         95%         1.5 h             30 min    2.5 h",
        "main, 1-4 nodes     7          0%         50%        100%         1 min                  -        -",
    ]
