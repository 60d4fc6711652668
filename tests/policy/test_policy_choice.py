"""Choices of a policy: for links alike in size, cost and allowance; read back."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from mirage.duration import DAY_S, HOUR_S
from mirage.errors import ConfigurationError
from mirage.policy.policy_choice import PolicyChoice, nearest_choice

EIGHT = PolicyChoice("holds", "it was better", nodes=8, limit_s=2 * DAY_S, cost_ratio=3.0)
ONE = replace(EIGHT, policy="what-if", nodes=1)


def nearest(nodes: int, limit_s: int, ratio: float | None = 3.0, *, bank_age: bool = False) -> PolicyChoice | None:
    return nearest_choice((ONE, EIGHT), nodes, limit_s, ratio, bank_age=bank_age)


@pytest.mark.parametrize(
    ("nodes", "limit_s", "expected"),
    [
        (8, 2 * DAY_S, EIGHT), (5, 2 * DAY_S, EIGHT), (2, DAY_S, ONE), (16, 4 * DAY_S, EIGHT),
        (3, 2 * DAY_S, None), (17, 2 * DAY_S, None), (8, 12 * HOUR_S, None), (0, 2 * DAY_S, None),
    ],
)  # fmt: skip
def test_links_within_a_factor_of_two_share_a_choice(nodes: int, limit_s: int, expected: PolicyChoice | None) -> None:
    assert nearest(nodes, limit_s) == expected


def test_the_choice_for_the_most_similar_link_counts() -> None:
    four = replace(EIGHT, policy="reactive", nodes=4)
    assert nearest_choice((EIGHT, four), 5, 2 * DAY_S, 3.0, bank_age=False) == four
    assert nearest_choice((EIGHT, four), 7, 2 * DAY_S, 3.0, bank_age=False) == EIGHT


def test_choices_at_another_cost_or_allowance_do_not_count() -> None:
    assert nearest(8, 2 * DAY_S, 1.0) is None
    assert nearest(8, 2 * DAY_S, None) is None
    assert nearest(8, 2 * DAY_S, bank_age=True) is None


def test_a_choice_for_any_link_has_no_size_to_be_near_to() -> None:
    assert math.isinf(PolicyChoice("what-if", "by default").distance(8, DAY_S))


@pytest.mark.parametrize("choice", [EIGHT, replace(EIGHT, cost_ratio=None, bank_age=True)])
def test_it_is_read_back_as_written(choice: PolicyChoice) -> None:
    assert PolicyChoice.from_json(choice.to_json()) == choice


@pytest.mark.parametrize("plain", [None, [], {}, EIGHT.to_json() | {"nodes": "many"}])
def test_other_values_are_refused(plain: object) -> None:
    with pytest.raises(ConfigurationError, match="is no choice of a policy"):
        PolicyChoice.from_json(plain)
