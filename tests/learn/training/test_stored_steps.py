"""Stored steps of a training."""

import numpy as np

from mirage.learn.training.stored_steps import StoredSteps, training_key
from tests.support.made_up_hand_overs import made_up_hand_overs


def test_a_step_is_done_once(tmp_path):
    made = []

    def make():
        made.append(1)
        return {"x": np.arange(3), "curve/tune": np.array([2.0, 1.0])}

    for _ in range(2):
        reported = []
        steps = StoredSteps(tmp_path, reported.append).under("8/forest")
        assert steps.done("trees-0", make)["x"].tolist() == [0, 1, 2]
        assert steps.curves["8/forest/trees-0/tune"].tolist() == [2.0, 1.0]
        assert reported == ["8/forest/trees-0"]
    assert len(made) == 1


def test_a_file_that_was_cut_short_is_made_again(tmp_path):
    steps = StoredSteps(tmp_path)
    steps.done("a", lambda: {"x": np.arange(100)})
    path = tmp_path / "a.safetensors"
    path.write_bytes(path.read_bytes()[:200])
    assert steps.done("a", lambda: {"x": np.arange(5)})["x"].tolist() == [0, 1, 2, 3, 4]


def test_another_training_has_another_key():
    data = made_up_hand_overs(2)
    assert training_key(data, 1) == training_key(made_up_hand_overs(2), 1)
    assert training_key(data, 1) != training_key(data, 2)
    assert training_key(data, 1) != training_key(data[:-1], 1)


def test_without_a_folder_a_step_is_done_each_time():
    steps = StoredSteps()
    assert [steps.done("a", lambda k=k: {"x": np.array([k])})["x"][0] for k in (1, 2)] == [1, 2]
