"""Recording of a policy: its answers at every decision, in the windows of an evaluation."""

from dataclasses import replace

import pytest

from mirage.errors import ConfigurationError
from mirage.learn.dataset.recipe import Recipe
from mirage.learn.explain.policy_recording import played_since, recorded
from mirage.policy.cost import Cost
from mirage.provision.evaluation.evaluate import evaluate
from mirage.provision.evaluation.evaluation_study import WindowTrial

COSTS = (Cost(), Cost(3, 1))


def plain(trials: dict[int, dict[int, WindowTrial]]) -> dict[int, dict[int, dict]]:
    return {nodes: {time_s: one.to_json() for time_s, one in of.items()} for nodes, of in trials.items()}


def test_a_policy_answers_at_every_decision_also_after_it_has_submitted(small_recipe: Recipe) -> None:
    study, calls = small_recipe.study, []
    found = recorded(
        study.scenario, study.protocol, study.links, ["lead:2", "what-if:2"], COSTS, seed=3,
        judged_s=study.protocol.submits_s(2), progress=lambda *now: calls.append(now),
    )  # fmt: skip
    assert list(dict.fromkeys(calls)) == [(k, 5) for k in range(6)]
    evaluated = evaluate(study.scenario, study.protocol, study.links, ["lead:2", "what-if:2"], COSTS, seed=3).trials
    assert list(found.trials) == list(found.submits) == [1, 2]
    for nodes, windows in found.trials.items():
        assert list(windows) == [study.protocol.submits_s(k) for k in range(5)]
        for k, (submitted_s, trial) in enumerate(windows.items()):
            expected = evaluated[nodes][k]
            assert trial.episode.outcome_s.tolist() == expected.episode.outcome_s.tolist()
            played = ["lead:2", "what-if:2"] if k >= 2 else ["lead:2"]
            assert trial.chosen == {key: at for key, at in expected.chosen.items() if key.partition("@")[0] in played}
            ends_s, answers = trial.episode.ends_s, found.submits[nodes][submitted_s]
            assert answers == {time_s: ends_s - time_s <= 7200 for time_s in answers}
            steps = (trial.episode.decisions_s - trial.episode.started_s) % 3600 == 0
            assert list(answers) == trial.episode.decisions_s[steps][:-1].tolist()  # all of the protocol but the end
            assert sum(answers.values()) == 2


def test_one_policy_is_played_in_the_later_windows(small_recipe: Recipe) -> None:
    study, calls = small_recipe.study, []
    scenario, protocol, links = study.scenario, study.protocol, study.links
    since_s = protocol.submits_s(3) - 60
    found = played_since(
        scenario, protocol, links, "lead:2", COSTS, since_s=since_s, seed=3, progress=lambda *now: calls.append(now)
    )
    late = replace(protocol, begin_s=protocol.begin_s + 3 * protocol.every_s, windows=2)
    evaluated = evaluate(scenario, late, links, ["lead:2"], COSTS, seed=3, against="lead:2").trials
    expected = {nodes: {one.episode.submitted_s: one for one in of} for nodes, of in evaluated.items()}
    assert plain(found) == plain(expected)
    assert list(found[2]) == [protocol.submits_s(3), protocol.submits_s(4)]
    assert calls[-1] == (2, 2)
    exactly = played_since(scenario, protocol, links[:1], "lead:2", COSTS[:1], since_s=protocol.submits_s(4))
    assert list(exactly[1]) == [protocol.submits_s(4)]
    with pytest.raises(ConfigurationError, match=r"^no window of the data is left to play$"):
        played_since(scenario, protocol, links, "lead:2", COSTS, since_s=protocol.submits_s(4) + 1)
