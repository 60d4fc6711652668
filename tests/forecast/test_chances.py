"""Chances: numbers of jobs in futures, the same in every view."""

from __future__ import annotations

import numpy as np
import pytest

from mirage.forecast.run_times import SHARED, chances
from mirage.kernel.random import uniform
from tests.support.made_up_views import jobs, view

PENDING = [{"id": 7, "user": 3, "limit_s": 3600}, {"id": 9, "user": 3, "limit_s": 3600}]
RUNNING = [{"id": 2**40 + 5, "user": 70_000, "limit_s": 172_800}]


@pytest.mark.parametrize("seed", [0, 3, 2**61 + 5])
def test_they_are_the_numbers_of_three_streams_to_the_bit(seed: int) -> None:
    found = chances(view(0, 4, 4, pending=jobs(*PENDING), running=jobs(*RUNNING)), 40, seed)
    together = [*PENDING, *RUNNING]
    ids, user, limit_s = (
        np.array([job[name] for job in together], dtype=np.uint64) for name in ("id", "user", "limit_s")
    )
    future = np.arange(40, dtype=np.uint64)[:, None]
    shared = uniform(seed, future, user * np.uint64(1_000_003) + limit_s, 2)
    expected = np.where(uniform(seed, future, ids, 3) < SHARED, shared, uniform(seed, future, ids, 1))
    np.testing.assert_array_equal(found, expected)
    assert 0.0 <= found.min() < found.max() < 1.0


def test_a_job_has_the_same_numbers_with_any_other_jobs() -> None:
    alone = chances(view(0, 4, 4, pending=jobs(PENDING[1])), 8, 1)
    together = chances(view(0, 4, 4, pending=jobs(*PENDING), running=jobs(*RUNNING)), 8, 1)
    np.testing.assert_array_equal(alone[:, 0], together[:, 1])
    assert chances(view(0, 4, 4), 8, 1).shape == (8, 0)
