"""What hand-overs cost."""

from __future__ import annotations

import numpy as np
import pytest

from mirage.errors import ConfigurationError
from mirage.policy.cost import Cost

HOUR = 3600


@pytest.mark.parametrize(
    ("cost", "gap_s", "expected"),
    [
        (Cost(), HOUR, 1.0),
        (Cost(), -HOUR, 1.0),
        (Cost(3, 1), 2 * HOUR, 6.0),
        (Cost(3, 1), -2 * HOUR, 2.0),
        (Cost(3, 1), 0, 0.0),
        (Cost(0, 4), 5 * HOUR, 0.0),
        (Cost(0, 4), -90 * 60, 6.0),
        (Cost(5, 0), -9 * HOUR, 0.0),
        (Cost(7200, 1), 1, 2.0),
    ],
)
def test_a_gap_costs_its_hours_and_so_does_an_overlap(cost: Cost, gap_s: float, expected: float) -> None:
    assert cost.of(gap_s) == expected


def test_many_hand_overs_are_weighed_one_by_one() -> None:
    costs = Cost(2, 10).of(np.array([[HOUR, -HOUR], [0, -HOUR // 2]]))
    assert costs.tolist() == [[2.0, 10.0], [0.0, 5.0]]
    assert costs.dtype == np.float64


@pytest.mark.parametrize(
    ("both", "printed"),
    [
        ((-1.0, 1.0), "interruption=-1.0, overlap=1.0"),
        ((0.0, 0.0), "interruption=0.0, overlap=0.0"),
        ((2.0, float("nan")), "interruption=2.0, overlap=nan"),
    ],
)
def test_a_refusal_names_both_costs_and_gives_an_example(both: tuple[float, float], printed: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        Cost(*both)
    assert str(refused.value) == (
        f"costs must not be negative, infinite or both zero, got {printed}; give what an hour of each costs you, "
        "e.g. 3 and 1"
    )
