"""Episodes: exact outcomes, and what a dependency gives."""

from __future__ import annotations

import numpy as np
import pytest

from mirage.duration import DAY_S, HOUR_S
from mirage.errors import ConfigurationError
from mirage.policy.cost import Cost
from mirage.provision.evaluation.episode import Scenario, play, warm_simulations
from mirage.provision.evaluation.evaluation_protocol import EvaluationProtocol
from mirage.provision.link_size import LinkSize, load_class
from mirage.sim.cluster import Cluster
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings
from mirage.sim.workload import workload
from mirage.trace.workload.generate_workload import generate_workload
from mirage.trace.workload.workload_json import builtin_model


def scenario(discipline: str, nodes: int = 76) -> tuple[Scenario, int]:
    table = generate_workload(builtin_model("lonestar6-like"), days=14, seed=5)
    cluster = Cluster.pool(nodes)
    jobs = workload(table, cluster, refuse=False)
    return Scenario(cluster, jobs, discipline, SlurmSettings.lonestar6()), int(table.submit_s.min()) + 5 * DAY_S


@pytest.mark.parametrize("discipline", ["easy", "slurm", "mirage-2023"])
def test_every_outcome_is_what_submitting_then_gives(discipline: str) -> None:
    trial, begin_s = scenario(discipline)
    protocol = EvaluationProtocol.warm(begin_s, windows=1, step_s=4 * HOUR_S)
    link = LinkSize(4)
    ((_, sim),) = warm_simulations(trial, protocol, [0])
    episode = play(sim, protocol, link, 0)
    for k in (0, 5, len(episode.decisions_s) - 1):
        alone = trial.simulation()
        alone.approach(episode.submitted_s)
        first = alone.inject(nodes=link.nodes, limit_s=link.limit_s)
        assert alone.run_until_started(first) == episode.started_s
        alone.approach(int(episode.decisions_s[k]))
        following = alone.inject(nodes=link.nodes, limit_s=link.limit_s)
        assert alone.run_until_started(following) == episode.ends_s + episode.outcome_s[k]


@pytest.mark.parametrize("discipline", ["easy", "slurm"])
def test_a_dependency_queues_from_the_end_of_its_predecessor(discipline: str) -> None:
    # Queued at once but held, it gains nothing over a link that is submitted when the last has ended.
    trial, begin_s = scenario(discipline)
    protocol = EvaluationProtocol.warm(begin_s, windows=3, every_s=DAY_S, step_s=48 * HOUR_S)
    for window, sim in warm_simulations(trial, protocol, range(3)):
        held = sim.fork()
        episode = play(sim, protocol, LinkSize(8), window)
        first = held.inject(nodes=8, limit_s=48 * HOUR_S)
        held.run_until_started(first)
        following = held.inject(nodes=8, limit_s=48 * HOUR_S, after=first)
        started_s = held.run_until_started(following)
        assert started_s is not None
        assert started_s >= episode.ends_s
        assert started_s - episode.ends_s == pytest.approx(episode.reactive_s, abs=HOUR_S)


def test_the_last_decision_is_the_end_of_the_link() -> None:
    trial, begin_s = scenario("easy")
    ((_, sim),) = warm_simulations(trial, EvaluationProtocol.warm(begin_s, windows=1), [0])
    call_times_s: list[int] = []
    episode = play(sim, EvaluationProtocol.warm(begin_s), LinkSize(1), 0, lambda view: call_times_s.append(view.now_s))
    assert episode.decisions_s[-1] == episode.ends_s == episode.started_s + 48 * HOUR_S
    assert call_times_s == episode.decisions_s[:-1].tolist()
    assert (np.diff(episode.decisions_s) == 1800).all()


def test_a_link_that_cannot_start_is_an_error() -> None:
    trial, begin_s = scenario("easy", nodes=40)
    with pytest.raises(Exception, match="can never run"):
        play(trial.simulation(begin_s), EvaluationProtocol.warm(begin_s), LinkSize(41), 0)


def test_load_classes() -> None:
    assert [load_class(h * HOUR_S) for h in (0, 2, 2.1, 12, 12.1)] == ["light", "light", "medium", "medium", "heavy"]


def test_costs() -> None:
    cost = Cost(3, 1)
    assert cost.of(np.array([7200.0, -3600.0, 0.0])).tolist() == [6.0, 1.0, 0.0]
    for bad in ((-1, 1), (0, 0)):
        with pytest.raises(ConfigurationError, match="costs"):
            Cost(*bad)


def test_protocols_by_name() -> None:
    assert EvaluationProtocol.named("published", 0).step_s == 600
    assert EvaluationProtocol.named("warm", 7200).submits_s(1) == 7200 + 4 * HOUR_S + 2 * DAY_S
    with pytest.raises(ConfigurationError, match="warm or published"):
        EvaluationProtocol.named("cold", 0)
