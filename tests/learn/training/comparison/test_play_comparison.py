"""A comparison is played: months, groups and seeds, as evaluations of each play them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import chain, pairwise
from pathlib import Path

import numpy as np
import pytest

from mirage.duration import DAY_S
from mirage.errors import ConfigurationError
from mirage.learn.dataset.recipe import Recipe
from mirage.learn.training.comparison.comparison_plan import ComparisonPlan
from mirage.learn.training.comparison.play_comparison import ComparisonSetup, play, windows_in
from mirage.learn.training.train_policy import play_what_if
from mirage.policy.cost import Cost
from mirage.provision.evaluation.episode import Scenario
from mirage.provision.evaluation.evaluate import evaluate
from mirage.provision.evaluation.evaluation_protocol import EvaluationProtocol
from mirage.provision.evaluation.evaluation_study import WindowTrial
from mirage.sim.cluster import Cluster
from mirage.sim.workload import workload
from mirage.study.executors.local_processes import LocalProcesses
from mirage.trace.table import JobTable

JANUARY, FEBRUARY = "1970-01", "1970-02"
COSTS = (Cost(), Cost(3, 1))


@pytest.fixture(scope="module")
def setup(small_recipe: Recipe, small_trace: JobTable, tmp_path_factory: pytest.TempPathFactory) -> ComparisonSetup:
    """Windows of the small cluster a month later: one is in January, four are in February."""
    later = JobTable.build(
        small_trace.job_id, submit_s=small_trace.submit_s + 24 * DAY_S, elapsed_s=small_trace.run_s,
        limit_s=small_trace.limit_s, nodes=small_trace.nodes,
    )  # fmt: skip
    cluster, protocol = Cluster.pool(8), small_recipe.study.protocol
    return ComparisonSetup(
        Scenario(cluster, workload(later, cluster), "easy"),
        replace(protocol, begin_s=protocol.begin_s + 23 * DAY_S),
        small_recipe.study.links,
        tmp_path_factory.mktemp("played"),
        LocalProcesses(1),
    )


def submits_s(protocol: EvaluationProtocol) -> list[int]:
    return [protocol.submits_s(window) for window in range(protocol.windows)]


def test_the_windows_of_a_month_begin_with_its_first(setup: ComparisonSetup) -> None:
    every = submits_s(setup.protocol)
    assert (windows_in(setup.protocol, JANUARY), windows_in(setup.protocol, FEBRUARY)) == ([0], [1, 2, 3, 4])
    assert submits_s(setup.within(JANUARY)) == every[:1]
    assert submits_s(setup.within(FEBRUARY)) == every[1:]
    assert submits_s(replace(setup, every=3).within(FEBRUARY)) == [every[1], every[4]]
    assert replace(setup.within(FEBRUARY), begin_s=setup.protocol.begin_s, windows=5) == setup.protocol
    exactly = replace(setup.protocol, begin_s=31 * DAY_S - setup.protocol.lead_in_s)
    assert (windows_in(exactly, FEBRUARY)[0], windows_in(replace(exactly, every_s=14 * DAY_S), FEBRUARY)) == (0, [0, 1])
    first = "to test on; the first one begins on 1970-01-31"
    with pytest.raises(ConfigurationError, match=f"4 {first}, the last one before that month on 1970-02-05$"):
        setup.within("1970-04")
    with pytest.raises(ConfigurationError, match=f"^the data have no windows in 1969-12 {first}$"):
        setup.within("1969-12")


def evaluated(setup: ComparisonSetup, month: str, policy: str, seed: int) -> Mapping[int, tuple[WindowTrial, ...]]:
    windows = setup.within(month)
    return evaluate(setup.scenario, windows, setup.links, [policy], COSTS, seed=seed, against=policy).trials


def test_every_seed_has_the_windows_of_every_month_in_order(setup: ComparisonSetup) -> None:
    plan = ComparisonPlan((), ("reactive", "average", "oracle", "what-if:2"), (JANUARY, FEBRUARY), COSTS, (5, 6))
    calls: list[tuple[int, int]] = []
    found = play(setup, plan, {}, lambda *now: calls.append(now))
    # a group without randomness and one of each seed play the window of January, then the four of February
    before = [0, 1, 2, 3, 7, 11, 15]
    assert calls == [(done, 15) for first, last in pairwise(before) for done in range(first, last + 1)]
    expected = {
        (policy, seed): [evaluated(setup, month, policy, seed) for month in plan.months]
        for policy, seed in (("average", 5), ("what-if:2", 5), ("what-if:2", 6))
    }
    assert list(found) == [1, 2]
    for nodes, trials in found.items():
        steady, *random = ([one for part in of for one in part[nodes]] for of in expected.values())
        assert [one.episode.submitted_s for one in trials] == 2 * submits_s(setup.protocol)
        own, other = (list(chain(*of)) for of in (random, random[::-1]))
        for trial, of_all, mine, theirs in zip(trials, 2 * steady, own, other, strict=True):
            every = np.concatenate([one.episode.decisions_s for one in (of_all, mine, theirs)])
            assert trial.episode.decisions_s.tolist() == np.unique(every).tolist()
            assert (trial.calls["average"], set(trial.chosen)) == (of_all.calls["average"], set(trial.calls))
            for one in (of_all, mine):
                assert {trial.chosen.keys() >= one.chosen.keys(), trial.calls.items() >= one.calls.items()} == {True}
                for key, at in one.chosen.items():
                    assert trial.episode.decisions_s[trial.chosen[key]] == one.episode.decisions_s[at]
    again: list[tuple[int, int]] = []
    assert len(play(setup, plan, {}, lambda *now: again.append(now))[2]) == 10
    assert again[-1] == (15, 15)


def test_what_if_is_played_from_the_first_to_the_last_of_the_months(setup: ComparisonSetup, tmp_path: Path) -> None:
    calls: list[tuple[int, int]] = []
    late = replace(setup.protocol, begin_s=setup.protocol.begin_s + 2 * setup.protocol.every_s, windows=3)
    world, links = (setup.scenario, late), setup.links[1:]
    found = play_what_if(
        *world, links, [FEBRUARY], COSTS, seed=4, progress=lambda *now: calls.append(now), resume_dir=tmp_path
    )
    again = play_what_if(*world, links, ["1970-03", FEBRUARY, JANUARY], COSTS, seed=4, resume_dir=tmp_path)
    expected = evaluate(*world, links, ["what-if"], COSTS, seed=4).trials
    for trials in (found, again):
        assert {nodes: [one.to_json() for one in of] for nodes, of in trials.items()} == {
            nodes: [one.to_json() for one in of] for nodes, of in expected.items()
        }
    assert (calls[-1], list(found), len(list(tmp_path.iterdir()))) == ((3, 3), [2], 1)
    with pytest.raises(ConfigurationError, match=r"^no window of the data lies in 1970-03, 1970-04$"):
        play_what_if(*world, links, ["1970-03", "1970-04"], COSTS)
    only = play_what_if(setup.scenario, setup.protocol, links, [JANUARY], COSTS[:1])
    assert [one.episode.submitted_s for one in only[2]] == submits_s(setup.protocol)[:1]
