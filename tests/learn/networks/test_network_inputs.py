from dataclasses import replace

import numpy as np
import pytest

from mirage.errors import ConfigurationError
from mirage.learn.networks.network_inputs import OF_THE_LINK, InputScaling, ScaledHandOvers, logarithm
from tests.support import small_environment


@pytest.fixture(scope="module")
def data():
    found = small_environment.sampled(20)
    features = found.features.copy()
    features[::3, 1] = np.nan
    return replace(found, features=features)


def test_training_rows_have_mean_0_and_deviation_1(data):
    scaling = InputScaling.learnt(data)
    inputs = ScaledHandOvers(data, scaling).inputs(np.arange(len(data)))
    known = np.isfinite(data.features[:, 1])
    assert np.allclose(inputs.features[:, 0].mean(), 0, atol=1e-5)
    assert np.allclose([inputs.features[known, 1].mean(), inputs.features[known, 1].std()], [0, 1], atol=1e-5)
    assert inputs.features.shape[1] == scaling.width


def test_what_is_not_known_is_0_and_flagged(data):
    inputs = ScaledHandOvers(data, InputScaling.learnt(data)).inputs(np.arange(4))
    assert inputs.features[[0, 3], 1].tolist() == [0, 0]
    assert inputs.features[:, -1].tolist() == [0, 1, 1, 0]


def test_rows_put_together_elsewhere_are_scaled_as_the_same_rows_of_the_data(data):
    scaling, rows = InputScaling.learnt(data), np.array([7, 11])
    link = np.stack([getattr(data, name)[rows] for name in OF_THE_LINK], axis=1).astype(np.float32)
    scaled = scaling.of_rows(data.history(rows), data.features[rows], link)
    for mine, theirs in zip(scaled, ScaledHandOvers(data, scaling).inputs(rows), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-6)


def test_other_features_are_refused(data):
    with pytest.raises(ConfigurationError, match="not those of the model"):
        ScaledHandOvers(replace(data, names=("a", "b", "c", "d")), InputScaling.learnt(data))


def test_logarithms_preserve_the_sign():
    assert logarithm(np.array([-np.expm1(2), 0.0, np.expm1(3)])).tolist() == pytest.approx([-2, 0, 3])
