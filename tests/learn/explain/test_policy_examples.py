"""Examples of a policy: played answers, and the share of decisions outside of a training."""

from dataclasses import replace

import numpy as np
import pytest

from mirage.errors import ConfigurationError
from mirage.learn.explain.policy_examples import examples_of, outside, played_submits
from mirage.learn.hand_overs import HandOvers
from mirage.learn.ranges import Ranges
from mirage.learn.training.trained_policy import LinkSizeModel, TrainedPolicy
from mirage.predict.model_file import TrainedOn
from tests.support.made_up_hand_overs import made_up_hand_overs

DIFFERENTLY = (
    "^a window was played differently from the data: give the trace, machine, discipline and step that the data were "
    "made with$"
)


def two_sizes() -> HandOvers:
    """Two windows of links of eight nodes, and one of links of two."""
    large, small = made_up_hand_overs(1, nodes=8), made_up_hand_overs(1, seed=1, nodes=2)
    return HandOvers.joined([large[: large.windows()[2]], small[: small.windows()[1]]])


def answers_of(data: HandOvers, submits: np.ndarray) -> dict:
    """Answers at the decisions with a choice, by link size, window and time."""
    found: dict = {}
    for row in np.flatnonzero(data.remaining_s > 0).tolist():
        of_window = found.setdefault(int(data.link_nodes[row]), {}).setdefault(int(data.window_s[row]), {})
        of_window[int(data.time_s[row])] = bool(submits[row])
    return found


def test_answers_that_were_played_are_those_of_their_link_window_and_time() -> None:
    data = two_sizes()
    submits = np.random.default_rng(0).random(len(data)) < 0.3
    found = played_submits(data, answers_of(data, submits))
    has_choice = data.remaining_s > 0
    assert (found.dtype, found.shape) == (np.bool_, (len(data),))
    assert found[has_choice].tolist() == submits[has_choice].tolist()
    assert found[~has_choice].tolist() == [True] * 3  # every policy submits at the end of a link


@pytest.mark.parametrize("lacks", ["size", "window", "decision"])
def test_data_of_another_world_are_refused(lacks: str) -> None:
    data = two_sizes()
    answers = answers_of(data, data.remaining_s > 0)
    window_s = int(data.window_s[-1])
    if lacks == "size":
        del answers[2]
    elif lacks == "window":
        del answers[2][window_s]
    else:
        del answers[2][window_s][int(data.time_s[-2])]
    with pytest.raises(ConfigurationError, match=DIFFERENTLY):
        played_submits(data, answers)


def test_the_share_outside_of_a_training_counts_every_row_of_its_link_sizes() -> None:
    data = two_sizes()
    pending = data.column("pending_jobs").astype(np.float64)
    least, most = pending[data.link_nodes == 8].min(), float(np.median(pending[data.link_nodes == 8]))
    narrow = Ranges(("pending_jobs",), np.array([least]), np.array([most]), np.array([False]), beyond=0.0)
    wide = replace(narrow, low=np.array([-1e9]), high=np.array([1e9]))
    parts = {8: LinkSizeModel("forest", ranges=narrow), 2: LinkSizeModel("forest", ranges=wide)}
    trained = TrainedPolicy(parts, TrainedOn("made-up", 0, 0, 0), {})
    has_choice = (data.link_nodes == 8) & (data.remaining_s > 0)
    of_large = (pending[has_choice] > most).mean()
    assert 0.3 < of_large < 0.7
    assert outside(trained, data) == pytest.approx(of_large * 48 / 72)
    assert outside(replace(trained, parts={2: parts[8]}), data[data.link_nodes == 8]) == 0.0  # none of its size
    assert outside(replace(trained, parts={}), data) == 0.0


def test_only_decisions_with_known_values_are_examples() -> None:
    data = two_sizes()
    features = data.features.copy()
    features[[1, 5], 1] = np.nan
    found = examples_of(replace(data, features=features), data.remaining_s < 3600 * 4)
    assert set(np.flatnonzero(data.remaining_s > 0)) - set(found.where) == {1, 5}
    assert len(found.choices.rows) == len(found.where)
    features[:, 1] = np.nan
    message = "^no decision of the data set has both a choice and known values in all columns$"
    with pytest.raises(ConfigurationError, match=message):
        examples_of(replace(data, features=features), data.remaining_s > 0)
