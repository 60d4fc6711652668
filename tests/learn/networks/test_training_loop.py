"""The training of a network: epochs, the best of them, seeds, checkpoints and digests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from mirage.errors import ConfigurationError
from mirage.learn.networks.network_checkpoint import load_weights, restore, state_of, weights_of_module
from mirage.learn.networks.training_loop import Epoch, TrainingSchedule, digest_of, torch_threads, train
from tests.support.made_up_hand_overs import made_up_hand_overs


class Counting:
    """A learner with the number of the epoch as its one weight; judged as listed."""

    def __init__(self, *tunes: float) -> None:
        self.network: nn.Module = nn.Linear(1, 1, bias=False)
        self.modules: Mapping[str, nn.Module] = {"network": self.network}
        self.optimiser = torch.optim.SGD(self.network.parameters(), lr=0.1)
        self.tunes, self.drawn, self.calls = tunes, [], []

    def epoch(self, number: int, of: int, rng: np.random.Generator) -> Mapping[str, float]:
        assert self.network.training
        nn.init.constant_(self.network.weight, number)
        self.drawn.append((float(rng.random()), float(torch.rand(1))))
        self.calls.append((number, of, torch.get_num_threads()))
        return {"loss": np.float32(number / 4), "tune": self.tunes[number - 1]}

    @property
    def weight(self) -> float:
        return float(self.network.weight.detach()[0, 0])


def test_the_best_epoch_counts_and_training_stops_after_patience() -> None:
    learner, reported = Counting(5.0, 3.0, 3.0, 4.0, 1.0), []
    curve = train("ppo", learner, TrainingSchedule(9, patience=2, progress=reported.append, threads=1))
    assert [epoch.figures["tune"] for epoch in curve] == [5.0, 3.0, 3.0, 4.0]  # an equal figure is no better one
    assert list(curve) == reported
    assert curve[1] == Epoch("ppo", 2, 9, {"loss": 0.5, "tune": 3.0})
    assert type(curve[1].figures["loss"]) is float
    assert learner.calls == [(number, 9, 1) for number in (1, 2, 3, 4)]
    assert (learner.weight, learner.network.training) == (2.0, False)


def test_training_ends_with_the_last_epoch() -> None:
    learner = Counting(3.0, 2.0, 1.0, 0.0)
    assert len(train("dqn", learner, TrainingSchedule(3, patience=3))) == 3
    assert learner.weight == 3.0


def test_randomness_depends_on_seed_stage_and_number_and_leaves_that_of_others() -> None:
    drawn = {}
    torch.manual_seed(11)
    following = float(torch.rand(1))
    for stage, seed in (("dqn", 0), ("dqn", 0), ("dqn", 1), ("ppo", 0)):
        learner = Counting(1.0, 2.0)
        torch.manual_seed(11)
        train(stage, learner, TrainingSchedule(2, 9, seed))
        assert float(torch.rand(1)) == following
        assert drawn.setdefault((stage, seed), learner.drawn) == learner.drawn
    every = [value for draws in drawn.values() for pair in draws for value in pair]
    assert len(set(every)) == len(every) == 3 * 2 * 2


def test_a_checkpoint_has_the_curve_and_the_best_weights(tmp_path: Path) -> None:
    schedule = TrainingSchedule(5, 3, checkpoint=tmp_path / "new" / "a.safetensors", identity="this")
    first = Counting(4.0, 2.0, 3.0)
    with pytest.raises(IndexError):
        train("dqn", first, schedule)  # it ends after three epochs, as if it was killed
    resumed = Counting(*[np.nan] * 3, 2.5, 0.0)
    curve = train("dqn", resumed, schedule)
    assert [epoch.figures["tune"] for epoch in curve] == [4.0, 2.0, 3.0, 2.5, 0.0]
    assert [(epoch.stage, epoch.number, epoch.of) for epoch in curve] == [("dqn", k, 5) for k in range(1, 6)]
    assert [number for number, _, _ in resumed.calls] == [4, 5]
    once_more = Counting()
    assert train("dqn", once_more, schedule) == curve
    assert once_more.weight == 5.0
    whole = Counting(4.0, 2.0, 3.0, 2.5, 0.0)
    assert train("dqn", whole, replace(schedule, checkpoint=None)) == curve
    assert first.drawn[:3] + resumed.drawn == whole.drawn


def test_epochs_without_a_gain_are_counted_across_a_kill(tmp_path: Path) -> None:
    schedule = TrainingSchedule(9, 3, checkpoint=tmp_path / "a.safetensors")
    with pytest.raises(IndexError):
        train("dqn", Counting(1.0, 2.0, 3.0), schedule)
    resumed = Counting(*[np.nan] * 3, 4.0, 0.0)
    assert len(train("dqn", resumed, schedule)) == 4
    assert resumed.weight == 1.0


@pytest.mark.parametrize(("stage", "identity"), [("ppo", "this"), ("dqn", "that")])
def test_the_checkpoint_of_another_training_is_refused(tmp_path: Path, stage: str, identity: str) -> None:
    path = tmp_path / "a.safetensors"
    train("dqn", Counting(1.0), TrainingSchedule(1, 1, checkpoint=path, identity="this"))
    message = (
        rf"^{path} belongs to another training \(stage dqn, other data or settings\); name another folder, or remove "
        "it$"
    )
    with pytest.raises(ConfigurationError, match=message):
        train(stage, Counting(1.0), TrainingSchedule(1, 1, checkpoint=path, identity=identity))


def test_a_state_is_restored_with_the_memory_of_the_optimiser() -> None:
    def stepped(module: nn.Module, optimiser: torch.optim.Optimizer) -> None:
        loss = module(torch.tensor([[1.0, 2.0]])).square().sum()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    def made(seed: int) -> tuple[dict[str, nn.Module], torch.optim.Optimizer]:
        torch.manual_seed(seed)
        modules: dict[str, nn.Module] = {"one": nn.Linear(2, 3), "another": nn.Linear(2, 3)}
        return modules, torch.optim.Adam(modules["one"].parameters(), lr=0.1)

    (modules, optimiser), (others, other_optimiser) = made(1), made(2)
    stepped(modules["one"], optimiser)
    restore(others, other_optimiser, state_of(modules, optimiser))
    for each, optimised in ((modules, optimiser), (others, other_optimiser)):
        stepped(each["one"], optimised)
    for name, module in modules.items():
        for key, value in weights_of_module(module).items():
            np.testing.assert_array_equal(weights_of_module(others[name])[key], value)


def test_weights_are_stored_in_rows_whatever_their_layout_and_do_not_follow_the_module() -> None:
    module = nn.Linear(2, 3)
    module.weight.data = torch.arange(6.0).reshape(2, 3).T  # a file of weights holds rows, whatever the strides
    found = weights_of_module(module)
    assert found["weight"].flags["C_CONTIGUOUS"]
    nn.init.zeros_(module.weight)
    assert found["weight"].tolist() == [[0, 3], [1, 4], [2, 5]]
    load_weights(module, found)
    assert module.weight.tolist() == [[0, 3], [1, 4], [2, 5]]


def test_a_digest_covers_every_input_of_a_training() -> None:
    data, tune = made_up_hand_overs(2), made_up_hand_overs(1, seed=1)
    changed = [
        replace(data, **{name: getattr(data, name) + 1})
        for name in ("window_s", "link_nodes", "time_s", "outcome_s", "features", "last", "snapshots")
    ]
    digests = [digest_of(each, tune, 1, "a") for each in (data, *changed)]
    digests += [digest_of(data, changed[0], 1, "a"), digest_of(tune, data, 1, "a")]
    digests += [digest_of(data, tune, 2, "a"), digest_of(data, tune, 1, "b"), digest_of(data, tune, 1)]
    assert len(set(digests)) == len(digests)
    assert digest_of(made_up_hand_overs(2), made_up_hand_overs(1, seed=1), 1, "a") == digests[0]
    assert (len(digests[0]), set(digests[0]) <= set("0123456789abcdef")) == (64, True)


def test_the_number_of_threads_is_restored() -> None:
    counts: list[int] = []

    def stop() -> None:
        with torch_threads(2):
            counts.append(torch.get_num_threads())
            raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        stop()
    assert (counts, torch.get_num_threads()) == ([2], 1)
