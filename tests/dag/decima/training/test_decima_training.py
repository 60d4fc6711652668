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
from mirage.dag.decima.training import decima_training  # noqa: E402
from mirage.dag.decima.training.decima_training import FIRST_SEQUENCE, DecimaTrainingPlan, sequence_of, train  # noqa: E402
from mirage.dag.decima.training.rollouts import (  # noqa: E402
    Record,
    TrainingSetting,
    advantages,
    clear,
    decided_at,
    empty_record,
    net_space,
    play_episode,
)
from mirage.dag.decima.training.torch_network import (  # noqa: E402
    DecisionBatch,
    GraphNetwork,
    batches,
    load_checkpoint,
    save_checkpoint,
)
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


def test_later_costs_count_less_by_the_horizon() -> None:
    """Two jobs and two rollouts; the discounted time in the system is summed in plain Python."""
    ends, arrival_ms = [np.array([9_000, 31_000]), np.array([15_000, 22_000])], np.array([0, 4_000])
    times = [np.array([0, 6_000]), np.array([2_000, 20_000, 30_000])]

    def to_come_s(rollout: int, since_s: float) -> float:
        grid_s = np.arange(since_s, 40.0, 2.0)
        jobs = [sum(a <= 1000 * t < e for a, e in zip(arrival_ms, ends[rollout], strict=True)) for t in grid_s]
        return sum(count * 2.0 * np.exp(-(t - since_s) / 12.0) for count, t in zip(jobs, grid_s, strict=True))

    found = advantages(ends, arrival_ms, times, horizon_s=12.0)
    for rollout, gained in enumerate(found):
        for at_ms, gain in zip(times[rollout], gained, strict=True):
            both = [to_come_s(k, at_ms / 1000) for k in (0, 1)]
            assert gain == pytest.approx(sum(both) / 2 - both[rollout])


def recorded(network: GraphNetwork, sequences: tuple[int, ...] = (3,), of_1000: int = 1000) -> Record:
    """The decisions of some episodes."""
    space, record = net_space(network.layers()), empty_record(400, 20_000)
    for sequence in sequences:
        space[0] = sequence
        play_episode(generated_templates(), SMALL, sequence, decide_own, space, space, record, of_1000)
    return record


def test_batches_hold_all_decisions_and_change_no_probability() -> None:
    torch.manual_seed(3)
    network = GraphNetwork()
    record = recorded(network, (3, 4), of_1000=300)
    count = int(record.size[0])
    with torch.no_grad():
        whole = torch.stack(network(DecisionBatch.of(record, 0, count)))
        for size, parts in ((10, round(count / 10)), (count, 1), (3 * count, 1)):
            pieces = batches(record, size)
            assert len(pieces) == parts
            lengths = [len(piece.picked) for piece in pieces]
            assert (sum(lengths), max(lengths) - min(lengths) <= 1) == (count, True)
            apart = torch.cat([torch.stack(network(piece)) for piece in pieces], dim=1)
            np.testing.assert_allclose(apart, whole, atol=1e-5, rtol=1e-5)
    assert (whole[1] > 0).all()


def test_a_record_is_continued_cleared_and_read_from_any_decision_on() -> None:
    torch.manual_seed(3)
    network = GraphNetwork()
    one, both = recorded(network), recorded(network, (3, 4))
    first = int(one.size[0])
    assert decided_at(both, 0)[:first].tolist() == decided_at(one, 0).tolist()
    later = decided_at(both, first)
    assert (len(later), later[0], (np.diff(later) >= 0).all()) == (both.size[0] - first, 0, True)
    assert 0.3 < recorded(network, of_1000=500).size[0] / first < 0.7
    clear(both)
    assert both.size.tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("kinds", [9, 44])
def test_an_episode_has_the_jobs_of_its_sequence(kinds: int) -> None:
    templates, space = generated_templates()[:kinds], net_space(GraphNetwork().layers())
    setting = TrainingSetting(7, 6, 40.0, 1000, 100.0, "fifo")
    arrived_ms, end_ms = play_episode(templates, setting, 11, decide_own, space, space, empty_record(400, 20_000), 1000)
    arrivals = poisson_arrivals(6, 11, gap_s=40.0, templates=kinds)
    assert arrived_ms.tolist() == arrivals.arrival_ms.tolist()
    simulation = DagSimulation(templates, arrivals, DagCluster(7), seed=11)
    outcome = simulation.run(decide_own, net_space(GraphNetwork().layers()))
    assert (end_ms > arrived_ms).all()
    again = play_episode(templates, setting, 11, decide_own, space, space, empty_record(400, 20_000), 1000)[1]
    assert (end_ms.shape, again.shape) == (outcome.jct_s.shape, (6,))


def ascended(
    plan: DecimaTrainingPlan, rate: float, weight: float
) -> tuple[GraphNetwork, GraphNetwork, dict[str, float]]:
    """A network after the clipped gradients, and one after the same steps in plain PyTorch."""
    torch.manual_seed(5)
    network = GraphNetwork()
    other = GraphNetwork()
    other.load_state_dict(network.state_dict())
    record = recorded(network, of_1000=300)
    count = int(record.size[0])
    gain = torch.linspace(-2.0, 3.0, count)
    optimizer = torch.optim.SGD(network.parameters(), 1.0)
    figures = decima_training._ascend(network, optimizer, batches(record, count), gain, plan, rate, weight)
    piece, plain = DecisionBatch.of(record, 0, count), torch.optim.SGD(other.parameters(), rate)
    with torch.no_grad():
        before = other(piece)[0]
    moved, entropies, clipped = [], [], 0
    for _ in range(plan.epochs):
        now, entropy = other(piece)
        ratio = (now - before).exp()
        bound = torch.where(gain > 0, torch.tensor(1 + plan.clip), torch.tensor(1 - plan.clip))
        beyond = torch.where(gain > 0, ratio > bound, ratio < bound)
        clipped += int(beyond.sum())
        surrogate = torch.where(beyond, bound, ratio) * gain
        plain.zero_grad()
        (-surrogate.mean() - weight * entropy.mean()).backward()
        torch.nn.utils.clip_grad_norm_(other.parameters(), 0.5)
        plain.step()
        moved.append((before - now).mean().item())
        entropies.append(entropy.mean().item())
    assert (clipped > 0) == (plan.epochs > 2)
    expected = {"kl": moved[-1], "entropy": np.mean(entropies)}
    assert figures == pytest.approx(expected, abs=1e-4)
    return network, other, figures


@pytest.mark.parametrize(("epochs", "weight"), [(1, 0.0), (1, 4.0), (6, 0.3)])
def test_gradients_are_clipped_and_the_entropy_counts_by_its_weight(epochs: int, weight: float) -> None:
    network, other, _ = ascended(DecimaTrainingPlan(epochs=epochs, clip=0.02), 0.3, weight)
    for mine, plain in zip(network.parameters(), other.parameters(), strict=True):
        np.testing.assert_allclose(mine.detach(), plain.detach(), atol=2e-4, rtol=1e-3)


def test_the_rate_falls_to_a_tenth_and_the_entropy_to_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(1)
    network, given = GraphNetwork(), []
    other = replace(SMALL, executors=7, gap_s=20.0)
    plan = DecimaTrainingPlan(seed=2, imitations=3, iterations=10, rollouts=2, batch=40, learning_rate=0.5, entropy=0.2)
    plan = replace(plan, settings=(SMALL, other))
    played: list[tuple[int, float]] = []

    def noted(templates: object, setting: TrainingSetting, sequence: int, *rest: object) -> object:
        played.append((sequence, setting.gap_s))
        return play_episode(templates, setting, sequence, *rest)  # type: ignore[arg-type]

    def ascend(network: object, optimizer: object, pieces: list[DecisionBatch], gain: torch.Tensor, *rest: object):
        given.append((sum(len(piece.picked) for piece in pieces), len(pieces), gain, rest[0] is plan, rest[1:]))
        return {"kl": 0.25}

    monkeypatch.setattr(decima_training, "play_episode", noted)
    monkeypatch.setattr(decima_training, "_ascend", ascend)
    optimizer = torch.optim.SGD(network.parameters(), 1.0)
    for step, (rate, weight) in ((3, (0.5, 0.2)), (8, (0.275, 0.1))):
        played.clear()
        record = empty_record(2_000, 200_000)
        record.size[0] = 7  # of an earlier step
        figures = decima_training._improve(
            generated_templates(), plan, step, network, optimizer, record, np.random.default_rng(0)
        )
        sequences = [sequence_of(2, step, place) for place in (0, 0, 1, 1)]
        assert played == list(zip(sequences, (10.0, 10.0, 20.0, 20.0), strict=True))
        decisions, pieces, gain, of_plan, schedule = given[-1]
        assert (decisions, pieces) == (len(gain), round(len(gain) / 40))
        assert (of_plan, schedule, figures["decisions"]) == (True, pytest.approx((rate, weight)), decisions)
        assert (figures["kl"], 0 < figures["jct_6_s"] < 1000, 0 < figures["jct_7_s"] < 1000) == (0.25, True, True)
        assert set(figures) == {"kl", "jct_6_s", "jct_7_s", "decisions"}


def test_advantages_of_rollouts_are_divided_by_their_spread() -> None:
    torch.manual_seed(1)
    space, record = net_space(GraphNetwork().layers()), empty_record(2_000, 200_000)
    templates, random = generated_templates(), np.random.default_rng(4)
    jct_s, gained = decima_training._rollouts(templates, SMALL, 9, 3, space, record, random)
    seeds = np.random.default_rng(4)
    ends, times, first = [], [], 0
    other = empty_record(2_000, 200_000)
    for _ in range(3):
        space[0] = seeds.integers(2**31)
        arrival_ms, end_ms = play_episode(templates, SMALL, 9, decide_own, space, space, other, 1000)
        ends.append(end_ms)
        times.append(decided_at(other, first))
        first = int(other.size[0])
    plain = np.concatenate(advantages(ends, arrival_ms, times, 100.0))
    np.testing.assert_allclose(gained, plain / plain.std(), rtol=1e-6)
    assert jct_s == pytest.approx(np.mean(np.array(ends) - arrival_ms) / 1000)
    assert len({end.tobytes() for end in ends}) > 1  # each rollout draws its own decisions


def test_a_training_reports_and_stores_every_step(tmp_path: Path) -> None:
    seconds, reported = iter([10.0, 12.44, 20.0, 21.5, 30.0, 31.0]), []
    plan = DecimaTrainingPlan(imitations=2, iterations=0, settings=(SMALL, replace(SMALL, jobs=3)))
    templates = generated_templates()
    _, progress = train(
        templates, plan, tmp_path / "a", budget_s=1e9, now=lambda: next(seconds), report=reported.append
    )
    assert reported == progress.curve
    assert [(figures["step"], figures["spent_s"]) for figures in progress.curve] == [(1, 2.4), (2, 3.9)]
    assert all(set(figures) == {"step", "spent_s", "imitation_loss"} for figures in progress.curve)
    assert (progress.step, progress.jobs, progress.spent_s) == (2, 2 * (5 + 3), pytest.approx(3.94))
    again: list[dict[str, float]] = []
    _, resumed = train(
        templates, replace(plan, imitations=2), tmp_path / "a", budget_s=1e9, now=lambda: 0.0, report=again.append
    )
    assert (again, resumed) == ([{"resumed_after_step": 2}], progress)


def test_a_plan_names_the_jobs_the_code_and_the_version_of_pytorch() -> None:
    plan, templates = DecimaTrainingPlan(seed=4, settings=(SMALL,)), generated_templates()
    found = decima_training._whole_plan(templates, plan)
    assert (found["seed"], found["settings"][0]["executors"]) == (4, 6)
    assert found["profiles"] == templates_digest(templates)
    assert found["torch"] == torch.__version__
    assert len(found["version of the code"]) == 16
    assert set(found) == {*DecimaTrainingPlan.__slots__, "profiles", "torch", "version of the code"}


def test_a_checkpoint_restores_weights_and_optimizer_and_names_what_differs(tmp_path: Path) -> None:
    def stepped(network: GraphNetwork, optimizer: torch.optim.Optimizer) -> None:
        optimizer.zero_grad()
        sum((values * (place + 1)).sum() for place, values in enumerate(network.parameters())).backward()  # type: ignore[union-attr]
        optimizer.step()

    networks = [GraphNetwork(), GraphNetwork()]
    optimizers = [torch.optim.Adam(network.parameters(), 0.01) for network in networks]
    stepped(networks[0], optimizers[0])
    settings = {"plan": {"seed": 1}, "progress": {"step": 3}}
    path = tmp_path / "a"
    assert load_checkpoint(path, networks[1], optimizers[1], {"seed": 1}) is None
    save_checkpoint(path, networks[0], optimizers[0], settings)
    assert load_checkpoint(path, networks[1], optimizers[1], {"seed": 1}) == settings
    for network, optimizer in zip(networks, optimizers, strict=True):
        stepped(network, optimizer)
    for one, other in zip(networks[0].parameters(), networks[1].parameters(), strict=True):
        np.testing.assert_array_equal(one.detach(), other.detach())
    with pytest.raises(ConfigurationError, match=f"{path} belongs to another plan: seed was 1 and is 2; "):
        load_checkpoint(path, networks[1], optimizers[1], {"seed": 2})
    small = torch.nn.Linear(2, 3)
    message = rf"^{path} does not fit the network of this version \(.*\); remove it$"
    with pytest.raises(ModelFileError, match="(?s)" + message):
        load_checkpoint(path, small, torch.optim.Adam(small.parameters()), {"seed": 1})


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


def test_of_two_trainings_with_one_checkpoint_one_ends(tmp_path: Path) -> None:
    plan = DecimaTrainingPlan(imitations=2, iterations=0, settings=(SMALL,))
    templates, path = generated_templates(), tmp_path / "a"

    def other(figures: dict[str, float]) -> None:
        if figures["step"] == 1:
            path.unlink()
            train(templates, replace(plan, seed=7), path, budget_s=1e9)

    with pytest.raises(ConfigurationError, match=f"^another training writes {path}, too; wait for its end, or"):
        train(templates, plan, path, budget_s=1e9, report=other)
    _, progress = train(templates, plan, tmp_path / "b", budget_s=1e9, report=lambda _: (tmp_path / "b").unlink())
    assert progress.step == 2


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
    net.numbers[-1] = np.inf
    write_network(tmp_path / "diverged", net, jobs=3, figures={}, settings={})
    with pytest.raises(ModelFileError, match="layer 15 contains numbers that are not finite; train the network again"):
        read_network(tmp_path / "diverged")
