"""Tuning in closed loop: which changes are tried on all episodes, and what resumes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mirage.dag.distilled import tuning
from mirage.dag.distilled.candidate_columns import FEATURES
from mirage.dag.distilled.decisions import Teacher, decisions_of
from mirage.dag.distilled.executor_rule import Cap, ExecutorRule
from mirage.dag.distilled.tree_decider import decide_by_tree
from mirage.dag.distilled.tree_policy import parameters_of, scheduler_of
from mirage.dag.distilled.tuning import Episodes, TuningResult, shortened, tuned
from mirage.dag.schedulers.stage_schedulers import make_scheduler
from mirage.dag.setting import EpisodeSetting
from mirage.dag.simulator.dag_simulation import DagSimulation
from mirage.dag.simulator.dag_world import DagCluster
from mirage.dag.workload.generated import generated_templates
from mirage.distill.tree import Leaf, Split, Tree
from mirage.distill.units import Unit
from mirage.errors import ContractBroken
from tests.dag.test_check_stage_scheduler import nothing

TREE = Tree(FEATURES, Unit.NUMBER, Split("work", 300.0, Leaf(1.0), Leaf(2.0)), ExecutorRule(Cap(0.25, 1.5)).settings())


def drawn(seeds: range | tuple[int, ...], executors: int = 6, jobs: int = 5) -> Episodes:
    return Episodes.drawn(generated_templates(), EpisodeSetting(executors, jobs), DagCluster(moving_s=3.0), seeds)


class Listed:
    """Episodes with listed times, by the score of a tree's first leaf."""

    def __init__(self, **jct_s: list[float]) -> None:
        self.jct_s, self.calls = {name: np.array(values) for name, values in jct_s.items()}, []

    def mean_jct_s(self, decider: Any, parameters: Any, which: slice = slice(None)) -> Any:
        assert decider is decide_by_tree
        name = next(name for name, tree in NAMED.items() if np.array_equal(parameters, parameters_of(tree)))
        self.calls.append((name, which))
        return self.jct_s[name][which]


NAMED = {
    "first": TREE,
    "other": Tree(FEATURES, Unit.NUMBER, Split("work", 300.0, Leaf(3.0), Leaf(2.0)), TREE.settings),
    "short": Tree(FEATURES, Unit.NUMBER, Leaf(1.0), TREE.settings),
}
SIX = [100.0, 10.0, 10.0, 10.0, 10.0, 50.0]  # one in five: the first and the last


@pytest.mark.parametrize(
    ("of_other", "is_tried"),
    [
        ([100.4, 1, 1, 1, 1, 50.0], True),  # 0.27 % worse in the first part, and much better in the others
        ([100.5, 1, 1, 1, 1, 50.0], False),  # 0.33 %
        ([90.0, 99, 99, 99, 99, 50.0], True),
    ],
)
def test_a_change_that_does_badly_in_the_first_episodes_is_not_tried_on_all(
    of_other: list[float], is_tried: bool
) -> None:
    settings = [Listed(first=SIX, other=of_other), Listed(first=[1.0] * 6, other=[1.0] * 6)]
    now = [one.jct_s["first"] for one in settings]
    reference = [one.jct_s["first"] * 0.5 for one in settings]  # relative to which both are twice as long
    settings[1].jct_s["other"][:] = 1.0
    found = tuning._tried(NAMED["other"], settings, now, reference)  # type: ignore[arg-type]
    assert (found is not None) == is_tried
    assert settings[0].calls[0] == ("other", slice(None, None, 5))
    if found is not None:
        assert [times.tolist() for times in found] == [of_other, [1.0] * 6]


def test_times_are_relative_to_those_of_the_same_episodes_and_settings_count_alike() -> None:
    times, base = [np.array([30.0, 50.0]), np.array([1.0])], [np.array([10.0, 0, 0, 30.0]), np.array([4.0, 9, 9])]
    assert tuning._relative(times, base, 3) == pytest.approx((40 / 20 + 1 / 4) / 2)


@pytest.mark.parametrize(
    ("of_other", "of_short", "accepted"),
    [
        ([99.0] * 6, [200.0] * 6, ["other"]),
        ([100.0] * 6, [200.0] * 6, []),  # no better
        ([100.0] * 6, [100.0] * 6, ["short"]),  # no better, but shorter
        ([90.0] * 6, [95.0] * 6, ["other"]),  # shorter, but worse than the other
        ([95.0] * 6, [90.0] * 6, ["other", "short"]),
    ],
)
def test_a_tree_is_accepted_where_jobs_end_sooner_or_as_soon_with_fewer_leaves(
    of_other: list[float], of_short: list[float], accepted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    proposed = iter([NAMED["other"], NAMED["short"]])
    monkeypatch.setattr(tuning, "changed", lambda *arguments, **options: next(proposed))
    episodes, reported, stored = Listed(first=[100.0] * 6, other=of_other, short=of_short), [], []
    found = tuned(
        TREE, [episodes], np.zeros((1, len(FEATURES))), np.random.default_rng(0),  # type: ignore[list-item]
        may_continue=lambda tried: tried < 2, report=reported.append, store=stored.append,
    )  # fmt: skip
    assert [one.tree for one in reported] == [NAMED[name] for name in accepted]
    assert (found.tree, found.accepted, found.tried) == (NAMED[["first", *accepted][-1]], len(accepted), 2)
    times = {"first": 100.0, "other": of_other[0], "short": of_short[0]}
    assert found.cost == pytest.approx(times[["first", *accepted][-1]] / 100)
    assert ([one.tried for one in stored], stored[-1]) == ([1, 2], found)


def test_a_tuning_that_was_interrupted_ends_as_one_that_was_not() -> None:
    settings, plays = [drawn((1, 2, 3, 4, 5, 6)), drawn((7, 8), 3)], scheduler_of(TREE, "t")
    values = decisions_of(Teacher(plays), settings[0].worlds[:1], states_of=plays, tree=plays).contests.rows

    def run(rng: np.random.Generator, until: int, begun: TuningResult | None = None) -> list[TuningResult]:
        stored: list[TuningResult] = []
        found = tuned(
            TREE, settings, values, rng, may_continue=lambda tried: tried < until, begun=begun, store=stored.append
        )
        assert not stored or found == stored[-1]
        return stored or [found]

    whole, rng = run(np.random.default_rng(3), 24), np.random.default_rng(3)
    part = run(rng, 12)
    assert part == whole[:12]
    assert part[-1].accepted > 0
    assert run(rng, 24, part[-1]) == whole[12:]
    assert run(rng, 24, whole[-1]) == whole[-1:]
    assert whole[-1].accepted > part[-1].accepted


def test_a_tuning_that_resumes_compares_changes_with_the_best_tree_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "changed", lambda *arguments, **options: NAMED["short"])
    episodes = Listed(first=[100.0] * 6, other=[50.0] * 6, short=[60.0] * 6)
    begun, rng = TuningResult(NAMED["other"], 0.5, 7, 2), np.random.default_rng(0)
    values = np.zeros((1, len(FEATURES)))
    found = tuned(TREE, [episodes], values, rng, may_continue=lambda tried: tried < 8, begun=begun)  # type: ignore[list-item]
    assert found == TuningResult(NAMED["other"], 0.5, 8, 2)
    assert episodes.calls == [("first", slice(None)), ("other", slice(None)), ("short", slice(None, None, 5))]


def test_pruning_reports_relative_to_the_first_tree_and_prices_leaves() -> None:
    shown: list[tuple[float, Tree]] = []

    class Priced(Listed):
        """The time under a tree by its number of leaves."""

        def __init__(self, of_leaves: dict[int, float]) -> None:
            self.of_leaves = of_leaves

        def mean_jct_s(self, decider: Any, parameters: Any, which: slice = slice(None)) -> Any:
            leaves = {parameters_of(tree).tobytes(): len(tree.leaves) for tree in every}[parameters.tobytes()]
            return np.array([self.of_leaves[leaves]] * 2)

    tree = Tree(FEATURES, Unit.NUMBER, Split("own", 0.5, TREE.root, Leaf(4.0)), TREE.settings)
    shorter = list(tuning._shorter_trees(tree))
    every = [tree, *shorter, *(other for one in shorter for other in tuning._shorter_trees(one))]
    cheap = Priced({3: 100.0, 2: 100.04, 1: 100.12})  # 0.04 % for the first leaf, 0.08 % for the second
    found = shortened(tree, [cheap], lambda cost, shorter: shown.append((cost, shorter)))  # type: ignore[list-item]
    assert (len(found.leaves), len(shown), shown[0][0]) == (2, 1, pytest.approx(1.0004))
    assert len(shortened(tree, [Priced({3: 100.0, 2: 100.06, 1: 100.12})]).leaves) == 3  # type: ignore[list-item]
    assert len(shortened(tree, [Priced({3: 100.0, 2: 100.04, 1: 100.08})]).leaves) == 1  # type: ignore[list-item]


def test_episodes_are_those_of_the_simulator() -> None:
    seeds, setting = (4, 9), EpisodeSetting(6, 5, gap_s=60.0)
    episodes = Episodes.drawn(generated_templates(), setting, DagCluster(50, moving_s=3.0), seeds)
    fair = make_scheduler("fair:1")
    parameters = fair.parameters_for(0)
    times = episodes.times(fair.decider, parameters)
    for k, seed in enumerate(seeds):
        cluster = DagCluster(6, moving_s=3.0)
        simulation = DagSimulation(generated_templates(), setting.arrivals(seed, 154), cluster, seed=seed)
        outcome = simulation.run(fair.decider, parameters.copy())
        assert times.mean_jct_s[k] == pytest.approx(outcome.jct_s.mean())
        assert times.makespan_s[k] == outcome.makespan_s
    assert times.mean_jct_s[0] != times.mean_jct_s[1]
    only = episodes.times(fair.decider, parameters, slice(1, None))
    assert (only.mean_jct_s.tolist(), only.makespan_s.tolist()) == ([times.mean_jct_s[1]], [times.makespan_s[1]])
    message = "^the scheduler left jobs without executors although no event was left; pick one$"
    with pytest.raises(ContractBroken, match=message):
        episodes.times(nothing, np.zeros(1))
