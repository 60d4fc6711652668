"""Random numbers are those of the published algorithms and of the published figures."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mirage.kernel.random import GOLDEN_64, in_unit, mixed_32, mixed_64, murmur_32, normal, splitmix_64, uniform

SPLITMIX = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F, 0xF88BB8A8724C81EC]
"""The first outputs of SplitMix64 with seed 0, in the reference implementation."""


def test_the_64_bits_are_those_of_splitmix() -> None:
    counters = np.arange(len(SPLITMIX), dtype=np.uint64) * GOLDEN_64
    assert splitmix_64(counters).tolist() == SPLITMIX
    assert [int(mixed_64(counter)) for counter in counters] == SPLITMIX


@pytest.mark.parametrize(("bits", "expected"), [(0, 0), (1, 0x514E28B7), (2, 0x30F4C306)])
def test_murmur_is_the_finisher_of_murmurhash_3(bits: int, expected: int) -> None:
    assert murmur_32(bits) == murmur_32(bits + 2**32) == _plain(murmur_32)(bits) == expected


@pytest.mark.parametrize(("bits", "expected"), [(0, 0), (1, 0xED345605), (0xDEADBEEF, 0xB19C7922)])
def test_the_32_bits_of_durations(bits: int, expected: int) -> None:
    assert mixed_32(bits) == _plain(mixed_32)(bits) == expected


@pytest.mark.parametrize(
    ("seed", "job", "draw", "expected"),
    [
        (0, 0, 0, -0.20139429176597956),
        (7, 3, 1, -0.9870062840217617),
        (2**31 + 5, 70_000, 12, -0.13375030126985724),
    ],
)
def test_normal_numbers(seed: int, job: int, draw: int, expected: float) -> None:
    assert normal(seed, job, draw) == pytest.approx(expected, rel=1e-12)  # the cosine may differ by a bit
    assert _plain(normal)(seed, job, draw) == pytest.approx(expected, rel=1e-12)


def test_normal_numbers_have_mean_0_and_deviation_1_and_do_not_depend_on_each_other() -> None:
    drawn = np.array([[normal(5, job, draw) for draw in range(50)] for job in range(200)])
    assert abs(drawn.mean()) < 0.04
    assert abs(drawn.std() - 1) < 0.03
    assert abs(np.corrcoef(drawn[:, 0], drawn[:, 1])[0, 1]) < 0.25
    assert len(np.unique(drawn)) == drawn.size


def test_uniform_numbers() -> None:
    future, key = np.array([[0], [39]], np.uint64), np.array([7, 2**40 + 5], np.uint64)
    assert uniform(2**61 + 5, future, key, 3).tolist() == [
        [0.5888169660673505, 0.6991950907074473],
        [0.7572730534007746, 0.731532640320112],
    ]


def test_bits_become_numbers_from_0_to_1() -> None:
    assert [in_unit(np.uint64(bits)) for bits in (0, 2**62, 2**63)] == [0.0, 0.25, 0.5]


def _plain(function: Any) -> Any:
    return getattr(function, "py_func", function)
