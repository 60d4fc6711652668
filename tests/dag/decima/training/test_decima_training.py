"""Training of the graph network: tensors, advantages, and resumption after a kill."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from mirage.dag.decima.deciders import decide_own  # noqa: E402
from mirage.dag.decima.network_file import read_network, write_network  # noqa: E402
from mirage.dag.decima.networks import graph_network  # noqa: E402
from mirage.dag.decima.networks.workspace import arrays_of  # noqa: E402
from mirage.dag.decima.own_features import observe_own  # noqa: E402
from mirage.dag.decima.training.decima_training import FIRST_SEQUENCE, DecimaTrainingPlan, sequence_of, train  # noqa: E402
from mirage.dag.decima.training.rollouts import (  # noqa: E402
    TrainingSetting,
    advantages,
    empty_record,
    net_space,
    play_episode,
)
from mirage.dag.decima.training.torch_network import DecisionBatch, GraphNetwork  # noqa: E402
from mirage.dag.simulator.dag_simulation import DagSimulation  # noqa: E402
from mirage.dag.simulator.dag_world import DagCluster  # noqa: E402
from mirage.dag.simulator.stage_decision import executors_of, stage_of  # noqa: E402
from mirage.dag.workload.dag_arrivals import poisson_arrivals  # noqa: E402
from mirage.dag.workload.generated import generated_templates  # noqa: E402
from mirage.dag.workload.templates import templates_digest  # noqa: E402
from mirage.errors import ConfigurationError, ModelFileError  # noqa: E402

SMALL = TrainingSetting(6, 5, 10.0, 1000, 100.0, "capped:0:2")


def test_tensors_give_each_decision_the_probability_of_the_compiled_pass() -> None:
    """The probability of each decision of an episode, from the compiled scores."""
    torch.manual_seed(2)
    network = GraphNetwork()
    space = net_space(network.layers())
    templates, record = generated_templates(), empty_record(400, 20_000)
    play_episode(templates, SMALL, 3, decide_own, space, space, record, 1000)
    with torch.no_grad():
        reported = network(DecisionBatch.of(record, 0, int(record.size[0])))[0].numpy()
    arrivals = poisson_arrivals(SMALL.jobs, 3, gap_s=SMALL.gap_s, templates=len(templates))
    simulation = DagSimulation(templates, arrivals, DagCluster(SMALL.executors), seed=3)
    _, graph, room = arrays_of(space)
    more, wanted = simulation.advance(), []
    while more:
        decided = decide_own(simulation.world, simulation.state, space)
        added = room.message[0, : len(graph_network.CAPS)].copy()
        caps = np.exp(room.number_score[: len(added)] - room.number_score[: len(added)].max())
        observe_own(simulation.world, simulation.state, graph, room.level)
        rows = slice(0, graph.size[1])
        scores = np.where(graph.offered[rows], room.stage_score[rows], -np.inf)
        stages = np.exp(scores - scores.max())
        row = int(np.flatnonzero(graph.stage[rows] == stage_of(decided))[0])
        meant = caps[added == executors_of(decided)].sum() / caps.sum()
        wanted.append(np.log(stages[row] / stages.sum()) + np.log(meant))
        more = simulation.decide(int(stage_of(decided)), int(executors_of(decided)))
    np.testing.assert_allclose(reported, wanted, atol=1e-4)


def test_advantages_are_the_time_in_the_system_that_the_other_rollouts_spend_more() -> None:
    """One job, there from 0, ends at 10 s or at 30 s; without discounting the mean is 20 s."""
    ends = [np.array([10_000]), np.array([30_000])]
    times = [np.array([0]), np.array([0, 20_000])]
    quick, slow = advantages(ends, np.array([0]), times, horizon_s=1e9)
    np.testing.assert_allclose(quick, [10], atol=0.1)
    np.testing.assert_allclose(slow, [-10, -5], atol=0.1)  # at 20 s: 10 s are left, and none for the other


def test_a_killed_training_resumes_without_a_difference(tmp_path: Path) -> None:
    plan = DecimaTrainingPlan(imitations=1, iterations=1, rollouts=2, epochs=1, batch=100, settings=(SMALL,))
    templates = generated_templates()
    whole, progress = train(templates, plan, tmp_path / "whole", budget_s=1e9)
    clock = iter(range(100))
    _, first = train(templates, plan, tmp_path / "killed", budget_s=0.5, now=lambda: float(next(clock)))
    assert (first.step, progress.step) == (1, 2)
    resumed, _ = train(templates, plan, tmp_path / "killed", budget_s=1e9)
    np.testing.assert_array_equal(resumed.numbers, whole.numbers)
    with pytest.raises(ConfigurationError, match="another plan: seed was 1 and is 9;"):
        train(templates, replace(plan, seed=9), tmp_path / "killed", budget_s=1e9)
    with pytest.raises(ConfigurationError, match=r"profiles was '154 kinds of jobs, .*' and is '132 kinds of jobs, "):
        train(templates[:132], plan, tmp_path / "killed", budget_s=1e9)


def test_a_seed_moves_the_arrivals_and_never_to_those_of_judgements() -> None:
    met = [sequence_of(seed, step, place) for seed in (0, 1, 2, 3, 10**12) for step in (0, 339) for place in (0, 1)]
    assert len(set(met)) == len(met)
    assert min(met) >= FIRST_SEQUENCE
    assert sequence_of(1, 3, 1) == FIRST_SEQUENCE + 301  # what the network that ships has met
    one, other = (poisson_arrivals(20, sequence_of(seed, 0, 0)) for seed in (1, 2))
    assert (one.arrival_ms != other.arrival_ms).sum() > 15


def test_a_training_of_another_seed_meets_other_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    met: list[int] = []

    def noted(templates: object, setting: object, sequence: int, *rest: object) -> object:
        met.append(sequence)
        return play_episode(templates, setting, sequence, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr("mirage.dag.decima.training.decima_training.play_episode", noted)
    for seed in (1, 2, 1):
        plan = DecimaTrainingPlan(seed=seed, imitations=1, iterations=0, settings=(SMALL,))
        train(generated_templates(), plan, tmp_path / f"{len(met)}", budget_s=1e9)
    assert met[0] == met[2] != met[1]


def test_digests_of_jobs_depend_on_every_duration() -> None:
    templates = generated_templates()
    stage = templates[3].stages[0]
    last = max(stage.rest_ms)
    slower = replace(stage, rest_ms={**stage.rest_ms, last: stage.rest_ms[last] + 1})
    changed = (*templates[:3], replace(templates[3], stages=(slower, *templates[3].stages[1:])), *templates[4:])
    assert templates_digest(templates) == templates_digest(list(templates))
    assert templates_digest(changed) != templates_digest(templates)
    assert templates_digest(templates[::-1]) != templates_digest(templates)


def test_imitation_learns_to_decide_as_the_heuristic_does(tmp_path: Path) -> None:
    plan = DecimaTrainingPlan(imitations=8, iterations=0, settings=(SMALL,))
    _, progress = train(generated_templates(), plan, tmp_path / "kept", budget_s=1e9)
    losses = [figures["imitation_loss"] for figures in progress.curve]
    assert losses[-1] < 0.6 * losses[0]


def test_a_network_is_the_same_after_writing_and_reading(tmp_path: Path) -> None:
    net = GraphNetwork().layers()
    write_network(tmp_path / "net", net, jobs=3, figures={}, settings={})
    np.testing.assert_array_equal(read_network(tmp_path / "net").numbers, net.numbers)
    (tmp_path / "short").write_bytes((tmp_path / "net").read_bytes()[:-9])
    with pytest.raises(ModelFileError):
        read_network(tmp_path / "short")
