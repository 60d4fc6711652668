"""Paired differences and rows by month, of windows written down by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mirage.duration import DAY_S
from mirage.errors import ConfigurationError
from mirage.policy.cost import Cost
from mirage.provision.evaluation.evaluate import assess, compared_with
from mirage.provision.evaluation.evaluation_study import WindowTrial
from mirage.provision.evaluation.paired import Difference, differences
from mirage.provision.evaluation.policy_score import by_month, score, score_by_month, submissions_s
from mirage.study.intervals import Stretches
from tests.support.made_up_windows import four_windows, trial

COST = Cost(3, 1)
POLICIES = ("reactive", "early", "told", "oracle")


def at(trial: WindowTrial, submitted_s: int) -> WindowTrial:
    """The same window at another time."""
    later_s = submitted_s - trial.episode.submitted_s
    times = ("submitted_s", "started_s", "ends_s", "decisions_s")
    changed = {name: getattr(trial.episode, name) + later_s for name in times}
    return replace(trial, episode=replace(trial.episode, **changed))


def one(found: list[Difference], policy: str, load: str = "all", month: str = "all") -> Difference:
    (difference,) = [d for d in found if (d.policy, d.load, d.month) == (policy, load, month)]
    return difference


def test_a_difference_by_pencil() -> None:
    """``early`` costs 2, 6, 3, 8 at 3:1; reactive 3, 15, 39, 0."""
    windows = four_windows()
    found = one(differences(windows, POLICIES, "reactive", [COST]), "early")
    stretches, everyone, ones = Stretches.of(submissions_s(windows)), np.full(4, True), np.ones(4)
    assert found == Difference(
        policy="early",
        against="reactive",
        link_nodes=2,
        load="all",
        month="all",
        cost_ratio=3.0,
        windows=4,
        cost=(-1 - 9 - 36 + 8) / 4,
        interruption_h=(-1 - 3 - 12 + 0) / 4,
        overlap_h=(2 + 0 + 0 + 8) / 4,
        cost_95=stretches.mean(np.array([-1.0, -9, -36, 8]), everyone),
        interruption_95=stretches.mean(np.array([-1.0, -3, -12, 0]), everyone),
        overlap_95=stretches.ratio(np.array([2.0, 0, 0, 8]), ones, everyone),  # may be negative elsewhere
    )
    assert found.cost_95 is not None
    assert found.cost_95[0] < found.cost < found.cost_95[1]


def test_every_other_policy_by_load_and_by_cost() -> None:
    found = differences(four_windows(), POLICIES, "early", [COST, Cost(1, 1)])
    assert {d.policy for d in found} == {"reactive", "told", "oracle"}
    assert {(d.load, d.windows) for d in found if d.month == "all"} == {
        ("all", 4), ("light", 2), ("medium", 1), ("heavy", 1)
    }  # fmt: skip
    medium = [d for d in found if (d.load, d.policy, d.cost_ratio) == ("medium", "told", 3)]
    assert [(d.cost, d.cost_95) for d in medium] == [(3 - 6, None)]  # at 3:1 it overlaps 3 h, early is 2 h late


@pytest.mark.parametrize(
    ("cost", "interval", "verdict"),
    [
        (-2.0, (-3.0, -0.1), "better"),
        (2.0, (0.1, 3.0), "worse"),
        (-2.0, (-5.0, 0.0), ""),
        (2.0, (-0.1, 3.0), ""),
        (-2.0, None, ""),
    ],
)
def test_a_verdict_needs_an_interval_without_zero(
    cost: float, interval: tuple[float, float] | None, verdict: str
) -> None:
    found = one(differences(four_windows(), POLICIES, "early", [COST]), "told")
    changed = replace(found, cost=cost, cost_95=interval)
    assert (changed.verdict, changed.to_json()["verdict"]) == (verdict, verdict)


MARCH_S = 1_677_628_800
"""2023-03-01T00:00Z."""


def winter() -> list[WindowTrial]:
    """Six windows, every second one in February and out of order."""
    times = [MARCH_S - k * DAY_S for k in (1, 8, 15)] + [MARCH_S + k * DAY_S for k in (0, 7, 14)]
    return [at(trial(k, [-6, -2, k], {"early": k % 2}), times[k]) for k in (3, 0, 5, 1, 4, 2)]


def test_months_begin_at_midnight_utc() -> None:
    windows = winter()
    months = by_month([*windows, at(windows[0], MARCH_S - 1)])
    assert {month: len(of) for month, of in months.items()} == {"2023-02": 4, "2023-03": 3}
    assert list(months) == ["2023-02", "2023-03"]


def test_rows_of_a_month_are_those_of_a_study_of_that_month() -> None:
    windows = winter()
    rows = score_by_month(windows, POLICIES[:2], [COST])
    assert [(row.month, row.policy, row.load) for row in rows] == [
        (month, policy, "all") for month in ("2023-02", "2023-03") for policy in POLICIES[:2]
    ]
    march = [trial for trial in windows if trial.episode.submitted_s >= MARCH_S]
    alone = [row for row in score(march, POLICIES[:2], [COST]) if row.load == "all"]
    assert [replace(row, month="all") for row in rows[2:]] == alone


def test_differences_come_by_month_too() -> None:
    found = differences(winter(), POLICIES[:2], "reactive", [COST])
    by = {d.month: (d.windows, d.overlap_h) for d in found if d.load == "all"}
    assert by == {"all": (6, 4.0), "2023-02": (3, pytest.approx(14 / 3)), "2023-03": (3, pytest.approx(10 / 3))}


def test_the_other_policy_is_the_one_named_else_what_if_else_none() -> None:
    assert compared_with(["average", "what-if:32", "what-if"], None) == "what-if:32"
    assert compared_with(["average", "what-if"], "average") == "average"
    assert compared_with(["average"], None) is None
    with pytest.raises(ConfigurationError, match="cannot compare with 'lead:4', which is not judged; judged: average"):
        compared_with(["average"], "lead:4")
    windows = {2: tuple(four_windows())}
    assert assess(windows, ["early", "told"], [COST]).differences == ()
    assert {d.against for d in assess(windows, ["early", "told"], [COST], against="told").differences} == {"told"}
