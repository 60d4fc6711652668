"""Forecast features: their quantiles are numpy's own."""

from __future__ import annotations

import numpy as np
import pytest

from mirage.learn.features.forecast_features import LEVELS, quantiles_of


@pytest.mark.parametrize("n", [1, 2, 3, 31, 32, 64])
def test_quantiles_are_those_of_numpy_to_the_bit(n: int) -> None:
    rng = np.random.default_rng(n)
    for scale in (1.0, 100.0, 1e6) * 10:
        values = np.round(scale * rng.normal(size=(n, 2)), 3)
        np.testing.assert_array_equal(quantiles_of(values), np.quantile(values, LEVELS, axis=0))
