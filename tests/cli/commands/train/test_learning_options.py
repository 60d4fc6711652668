"""The windows and the slices of a training, by default and by dates."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirage.cli.commands.train.learning_options import LearningOptions
from mirage.cli.study import WindowOptions
from mirage.duration import DAY_S, HOUR_S
from mirage.learn.dataset.read_data_set import known_by
from mirage.trace.table import JobTable
from tests.support.made_up_hand_overs import made_up_hand_overs

LEARNING = LearningOptions("model", None, None, None, None, 1, 100, None, 32)
WINDOWS = WindowOptions((1,), 12 * HOUR_S, None, None, 6 * HOUR_S, None, "warm", None, 0)


@pytest.mark.parametrize(
    ("tune_until", "given", "start", "last_submission"),
    [
        # a week after the first job, and two days lead in; a link of 12 h ends by the last submission, at 30.25 d
        (None, {}, 8, 29.75),
        (None, {"link_limit": 3 * DAY_S}, 8, 27.25),
        (20 * DAY_S, {}, 8, 20),
        (30 * DAY_S, {}, 8, 29.75),
        (None, {"start": 10 * DAY_S, "every": DAY_S}, 10, 29),
        (None, {"windows": 90}, 8, 10 + 89 / 4),
    ],
)
def test_a_link_ends_before_the_trace_does(
    tune_until: int | None, given: dict[str, int], start: float, last_submission: float
) -> None:
    table = JobTable.build(range(2), submit_s=[DAY_S // 2, 30 * DAY_S + 6 * HOUR_S])
    made = replace(LEARNING, tune_until=tune_until).windows(replace(WINDOWS, **given), table)
    plan = made.plan(table)
    assert (plan.begin_s / DAY_S, plan.submits_s(plan.windows - 1) / DAY_S) == (start, last_submission)


def test_by_default_tuning_ends_when_all_is_known() -> None:
    data = made_up_hand_overs(days=30)
    known_s = int((data.time_s + data.remaining_s + data.outcome_s).max())
    slices = LEARNING.slices(data)
    assert slices.tune_until_s == known_s
    assert slices.until_s == known_s - (known_s - int(data.window_s.min())) // 3
    assert known_by(data, known_s).all()
    assert not known_by(data, known_s - 1).all()
