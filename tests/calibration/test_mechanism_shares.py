"""Shares of mechanisms: the replays that are compared, and the causes of waits of a slice."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mirage.calibration.fit_mechanisms import TraceSlice
from mirage.calibration.inferred.capacity import queued
from mirage.calibration.mechanism_shares import ALL, HELD, PLAIN, shares, waits
from mirage.calibration.mechanisms import Mechanisms, Site
from mirage.calibration.wait_causes import LIMIT, NODES
from mirage.duration import DAY_S
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings
from tests.support.made_up_site import Row, table

FITTED, AFTER = TraceSlice(14 * DAY_S, 28 * DAY_S), TraceSlice(28 * DAY_S, 44 * DAY_S)
SETTINGS = replace(SlurmSettings(), weight_age=70.0, weight_fairshare=30.0)


def test_each_mechanism_that_is_on_is_left_out_once_and_only_the_later_slice_is_resampled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    replays: list[tuple[Any, ...]] = []

    def judge_one(
        site: Site, chosen: Mechanisms, stretch: TraceSlice, *, held: bool = False, resamples: int = 0
    ) -> tuple[Any, ...]:
        replays.append((chosen, stretch, held, resamples))
        return replays[-1]

    monkeypatch.setattr("mirage.calibration.mechanism_shares.judged", judge_one)
    site = Site(table(("ada", 0, 0, 1, 2)), SETTINGS, 3, -1.0)
    best = Mechanisms(age=500.0, turnover_s=15, user_jobs=4)
    rows = list(shares(site, best, FITTED, AFTER, resamples=9))
    expected = {
        PLAIN: (Mechanisms(age=70.0, fairshare=30.0), False),
        ALL: (best, False),
        "age": (replace(best, age=0.0), False),
        "user_jobs": (replace(best, user_jobs=None), False),
        "turnover_s": (replace(best, turnover_s=0), False),
        HELD: (best, True),
    }
    assert [row.name for row in rows] == list(expected)
    for row, (chosen, held) in zip(rows, expected.values()):
        assert row.fitted == (chosen, FITTED, held, 0)
        assert row.judged == (chosen, AFTER, held, 9)
    next(shares(site, best, FITTED, AFTER))
    assert [resamples for _, _, _, resamples in replays[-2:]] == [0, 1000]


def test_the_causes_are_those_of_the_slice_as_recorded_and_as_replayed() -> None:
    """Until the fourth week ada waits for a limit, then for nodes; a replay knows the limit."""
    rows: list[Row] = []
    for day in range(44):
        rows += [("ada", 24.0 * day, 24.0 * day, 9.0, 1), ("ada", 24.0 * day + 1, 24.0 * day + 9, 2.0, 1)]
        rows += [("bob", 24.0 * day + 1, 24.0 * day + 1, 7.0, 4)] if day >= 28 else []
    jobs = queued(table(*rows))
    site = Site(jobs, SETTINGS, 5, -1.0)
    limited = Mechanisms(user_jobs=1)
    before, after = waits(site, limited, FITTED), waits(site, limited, AFTER)
    assert before.recorded[LIMIT] == after.recorded[LIMIT] == pytest.approx(1, abs=0.05)
    assert before.replayed[LIMIT] == pytest.approx(1, abs=0.05)
    freely = waits(site, Mechanisms(), AFTER)
    assert freely.recorded[LIMIT] == freely.replayed[LIMIT] == 0
    assert freely.recorded[NODES] == pytest.approx(7 / 8, abs=0.1)
    assert freely.replayed[NODES] == pytest.approx(1, abs=0.1)
    assert freely.unexplained_moving_average == pytest.approx(1 / 8, abs=0.1)
    assert before.unexplained_moving_average == 0
