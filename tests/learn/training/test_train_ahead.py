"""Trainings done ahead by several processes."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mirage.duration import DAY_S
from mirage.learn.hand_overs import HandOvers
from mirage.learn.regression.model_contract import TrainingSettings
from mirage.learn.training.folds import month_begin_s, tune_since_s
from mirage.learn.training.method_trials import RollingOriginPlan
from mirage.learn.training.stored_steps import StoredSteps
from mirage.learn.training.train_policy import (
    CardDetails,
    Slices,
    Training,
    TrainingInputs,
    together,
    train_policy,
    try_and_choose,
)
from mirage.study.executors.local_processes import LocalProcesses
from tests.support.made_up_hand_overs import BEGIN_S, made_up_hand_overs

SETTINGS = TrainingSettings(seed=7, rounds=2, most_rows=300)
SLICES = Slices(BEGIN_S + 14 * DAY_S, BEGIN_S + 20 * DAY_S)


def locations(*trainings: Training) -> list[list[str]]:
    return [[one.location for one in piece] for piece in together(trainings)]


def training(method: str, nodes: int = 1, seed: int = 0, until_s: int = 10) -> Training:
    return Training(nodes, method, seed, until_s, 20, f"{nodes}/{until_s}/{method}#{seed}")


def test_networks_of_one_body_are_trained_by_one_process():
    methods = ("transformer", "correction", "moe", "transformer-dqn", "moe-pg", "transformer-pg", "forest")
    assert [[one.partition("/10/")[2] for one in piece] for piece in locations(*map(training, methods))] == [
        ["transformer#0", "transformer-dqn#0", "transformer-pg#0"],
        ["correction#0"],
        ["moe#0", "moe-pg#0"],
        ["forest#0"],
    ]


def test_the_bodies_of_2023_are_others():
    methods = ("transformer-dqn", "transformer-dqn-2023", "transformer-pg-2023")
    assert [len(piece) for piece in together([training(method) for method in methods])] == [1, 2]


def test_other_links_seeds_and_months_are_trained_apart():
    ours = training("transformer")
    others = [training("transformer-pg", nodes=8), training("transformer-pg", seed=1), training("moe", until_s=11)]
    later = replace(ours, tune_until_s=21)
    assert [len(piece) for piece in together([ours, *others, later])] == [1, 1, 1, 1, 1]


def two_sizes(days: int = 24) -> HandOvers:
    return HandOvers.joined([made_up_hand_overs(days, nodes=2, seed=1), made_up_hand_overs(days, nodes=8)])


class Recorded:
    """Does all pieces in this process, and records them and the files of steps."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.setup, self.pieces, self.made = folder, None, [], {}

    def __call__(
        self, begin: Callable[[Any], Callable[[Any], Any]], setup: Any, pieces: Sequence[Any]
    ) -> Iterator[Any]:
        self.setup, self.pieces, work = setup, pieces, begin(setup)
        yield from [work(piece) for piece in pieces]
        self.made = self.files()

    def files(self) -> dict[str, int]:
        return {str(path.relative_to(self.folder)): path.stat().st_mtime_ns for path in self.folder.rglob("*.*")}


def test_a_policy_that_is_trained_ahead_is_the_same_and_no_step_is_done_again(tmp_path: Path) -> None:
    methods, data, card = {8: "correction", 1: "what-if", 2: "boosted"}, two_sizes(), CardDetails("made-up", 8)
    executor, reported = Recorded(tmp_path / "steps"), []
    steps = StoredSteps(tmp_path / "steps", reported.append)
    ahead = train_policy(methods, data, SLICES, card, SETTINGS, steps, executor=executor)
    spans = (7, SLICES.until_s, SLICES.tune_until_s)
    wanted = [Training(2, "boosted", *spans, "2/boosted"), Training(8, "correction", *spans, "8/correction")]
    assert executor.pieces == [(one,) for one in wanted]
    assert reported[:2] == ["2/boosted", "8/correction"]
    assert isinstance(executor.setup, TrainingInputs)
    assert sorted(executor.made) == ["2/boosted/trees.safetensors", "8/correction/trees.safetensors"]
    assert executor.files() == executor.made
    ahead.save(tmp_path / "ahead")
    train_policy(methods, data, SLICES, card, SETTINGS).save(tmp_path / "plain")
    assert (tmp_path / "ahead").read_bytes() == (tmp_path / "plain").read_bytes()


@pytest.mark.parametrize("workers", [1, 4])
def test_nothing_is_trained_ahead_by_one_process_or_without_a_folder(tmp_path: Path, workers: int) -> None:
    def train(steps: StoredSteps, executor: Any) -> None:
        train_policy({8: "correction"}, two_sizes(), SLICES, CardDetails("made-up", 8), SETTINGS, steps,
                     tuned=False, executor=executor)  # fmt: skip

    def refuse(begin: Any, setup: Any, pieces: Any) -> Iterator[Any]:
        raise AssertionError("trained ahead")

    reported: list[str] = []
    train(StoredSteps(None), refuse)
    train(StoredSteps(tmp_path / "steps", reported.append), LocalProcesses(workers))  # there is one training only
    assert reported == ["8/correction/trees"]


def test_a_rolling_origin_trains_every_method_before_every_month_with_every_seed(tmp_path: Path) -> None:
    data, months = two_sizes(122), ("2023-03", "2023-04", "2023-05")
    plan = RollingOriginPlan(("correction", "boosted"), months, seeds=(3, 5))

    class Captured(Exception):
        """The pieces are known."""

    pieces: list[tuple[Training, ...]] = []

    def capture(begin: Any, setup: TrainingInputs, given: Sequence[tuple[Training, ...]]) -> Iterator[Any]:
        pieces.extend(given)
        assert (setup.folder, setup.settings, len(setup.data)) == (tmp_path, SETTINGS, len(data))
        raise Captured

    with pytest.raises(Captured):
        try_and_choose(data, plan, {}, SETTINGS, StoredSteps(tmp_path), capture)
    assert pieces == [
        (
            Training(
                nodes, method, seed, tune_since_s(data, month_begin_s(month)), month_begin_s(month),
                f"rolling-origin/{nodes}/{month}/{method}{'' if seed == 3 else '#5'}",
            ),
        )
        for nodes in (2, 8) for month in months for method in ("correction", "boosted") for seed in (3, 5)
    ]  # fmt: skip
