from dataclasses import replace

import numpy as np
import pytest
import small_environment

from mirage.errors import ConfigurationError
from mirage.learn.networks.inputs import OF_THE_LINK, InputScaling, Look, ScaledHandOvers, logarithm


@pytest.fixture(scope="module")
def data():
    found = small_environment.sampled(20)
    features = found.features.copy()
    features[::3, 1] = np.nan
    return replace(found, features=features)


def look_of(data, row):
    link = np.array([getattr(data, name)[row] for name in OF_THE_LINK], dtype=np.float32)
    return Look(data.history(np.array([row]))[0, :, :34], data.features[row], data.names), link


def test_training_rows_have_mean_0_and_deviation_1(data):
    scaling = InputScaling.learnt(data)
    seen = ScaledHandOvers(data, scaling).seen(np.arange(len(data)))
    known = np.isfinite(data.features[:, 1])
    assert np.allclose(seen.features[:, 0].mean(), 0, atol=1e-5)
    assert np.allclose([seen.features[known, 1].mean(), seen.features[known, 1].std()], [0, 1], atol=1e-5)
    assert seen.features.shape[1] == scaling.width


def test_what_is_not_known_is_0_and_flagged(data):
    seen = ScaledHandOvers(data, InputScaling.learnt(data)).seen(np.arange(4))
    assert seen.features[[0, 3], 1].tolist() == [0, 0]
    assert seen.features[:, -1].tolist() == [0, 1, 1, 0]


def test_a_look_is_scaled_as_the_same_row_of_the_data(data):
    scaling = InputScaling.learnt(data)
    look, link = look_of(data, 7)
    said = scaling.of_rows(scaling.raw(look, link), look.features[None], link[None])
    for mine, theirs in zip(said, ScaledHandOvers(data, scaling).seen(np.array([7])), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-6)


def test_an_input_far_outside_training_is_named(data):
    scaling = InputScaling.learnt(data)
    look, link = look_of(data, 7)
    assert scaling.foreign(look, link) is None
    assert scaling.foreign(look, link * np.array([1, 50, 1, 1], dtype=np.float32)) == "link_nodes"
    crowded = look.history.copy()
    crowded[-1, 0] = 10_000
    assert scaling.foreign(replace(look, history=crowded), link) == "queue_column_0"
    assert scaling.foreign(replace(look, features=look.features * np.nan), link) is None  # not known is not far


def test_other_features_are_refused(data):
    scaling = InputScaling.learnt(data)
    look, link = look_of(data, 7)
    with pytest.raises(ConfigurationError, match="backlog_3"):
        scaling.raw(replace(look, features=look.features[:3], names=look.names[:3]), link)
    with pytest.raises(ConfigurationError, match="not those of the model"):
        ScaledHandOvers(replace(data, names=("a", "b", "c", "d")), scaling)


def test_logarithms_keep_their_sign():
    assert logarithm(np.array([-np.expm1(2), 0.0, np.expm1(3)])).tolist() == pytest.approx([-2, 0, 3])
