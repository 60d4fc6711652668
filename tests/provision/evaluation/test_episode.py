"""Episodes: exact outcomes, and what a dependency gives."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mirage.duration import DAY_S, HOUR_S
from mirage.errors import ConfigurationError
from mirage.policy.contract import Policy
from mirage.policy.cost import Cost
from mirage.policy.plan import Plan, Submit, Wait
from mirage.policy.view import ChainView, View
from mirage.provision.evaluation.episode import Scenario, link_user, play, warm_simulations
from mirage.provision.evaluation.evaluate import check_windows
from mirage.provision.evaluation.evaluation_protocol import LINK_USERS, EvaluationProtocol
from mirage.provision.evaluation.followed_link import BankedLink, follow
from mirage.provision.link_size import LinkSize, load_class
from mirage.sim.cluster import Cluster
from mirage.sim.simulation import Simulation
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings
from mirage.sim.workload import workload
from mirage.trace.read_trace import read_trace
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
    for make in (EvaluationProtocol.named, EvaluationProtocol):
        with pytest.raises(ConfigurationError, match="unknown protocol 'cold'; use warm or published"):
            make("cold", 0)


FAIR = SlurmSettings(weight_age=1000.0, weight_fairshare=10_000.0)


def fair_scenario() -> tuple[Scenario, int]:
    trial, begin_s = scenario("slurm", nodes=60)
    return replace(trial, settings=FAIR), begin_s


@pytest.mark.parametrize("name", LINK_USERS)
@pytest.mark.parametrize("hand_over", [1, 3])
def test_a_later_hand_over_follows_links_of_one_user(name: str, hand_over: int) -> None:
    trial, begin_s = fair_scenario()
    link = LinkSize(16, 12 * HOUR_S)
    protocol = EvaluationProtocol.warm(begin_s, windows=2, every_s=DAY_S, link_user=name, hand_over=hand_over)
    for window, sim in warm_simulations(trial, protocol, range(2), protocol.early_s([link])):
        episode = play(sim, protocol, link, window)
        user = link_user(trial.jobs, name, protocol.submits_s(window))
        alone = trial.simulation()
        ends_s = begin_s + 2 * DAY_S + window * DAY_S - (hand_over - 1) * link.limit_s
        for _ in range(hand_over):
            alone.approach(ends_s)
            submitted_s, job = ends_s, alone.inject(nodes=16, limit_s=link.limit_s, user=user)
            started_s = alone.run_until_started(job)
            assert started_s is not None
            ends_s = started_s + link.limit_s
        assert (episode.submitted_s, episode.started_s, episode.ends_s) == (submitted_s, started_s, ends_s)
        alone.approach(int(episode.decisions_s[3]))
        following = alone.inject(nodes=16, limit_s=link.limit_s, user=user)
        assert alone.run_until_started(following) == ends_s + episode.outcome_s[3]


class At(Policy):
    """Submits at the first call."""

    def decide(self, view: View) -> Plan:
        return Plan((Submit(),)) if view.chain is not None and view.chain.queued is None else Plan((Wait(),))


def test_all_that_follows_a_link_has_its_user() -> None:
    """Under fair-share the user determines the wait: each way to follow a link has one start."""
    trial, begin_s = fair_scenario()
    link, banked, followed_s = LinkSize(16, 12 * HOUR_S), BankedLink(), list[int]()
    protocol = EvaluationProtocol.warm(begin_s, windows=1, link_user="heavy", step_s=2 * HOUR_S)

    def on_decision(sim: Simulation, chain: ChainView) -> None:
        assert chain.user == heavy
        if not banked.outcome_s:
            banked.on_decision(sim, chain)
        if sim.now_s < chain.ends_s:
            followed_s.append(follow(sim.fork(), At(), chain, Plan((Submit(),))).outcome_s)

    heavy = link_user(trial.jobs, "heavy", protocol.submits_s(0))
    ((_, sim),) = warm_simulations(trial, protocol, [0])
    newcomer = play(sim.fork(), replace(protocol, link_user="newcomer"), link, 0)
    episode = play(sim, protocol, link, 0, on_decision=on_decision)
    assert followed_s == episode.outcome_s[:-1].tolist()
    assert banked.outcome_s == episode.outcome_s[:1].tolist()
    waits_s, waits_of_newcomer_s = (e.outcome_s + e.ends_s - e.decisions_s for e in (episode, newcomer))
    assert waits_s.mean() > waits_of_newcomer_s.mean() + HOUR_S


def test_the_owner_of_links_by_recent_use(tmp_path: Path) -> None:
    lines = [(10, "idle", 1), (DAY_S, "much", 8), (DAY_S + 5, "little", 1), (2 * DAY_S, "some", 4), (3 * DAY_S, "", 50)]
    rows = [
        f"{k},{submit_s},3600,7200,{nodes},{user}" for k, (submit_s, user, nodes) in enumerate([*lines, *lines[1:3]])
    ]
    path = tmp_path / "jobs.csv"
    path.write_text("\n".join(["job_id,submit_s,elapsed_s,limit_s,nodes,user", *rows]) + "\n")
    jobs = workload(read_trace(path).table, Cluster.pool(64))
    names = ("", *jobs.table.user.names)
    owners = {name: names[link_user(jobs, name, 15 * DAY_S)] for name in LINK_USERS}
    assert owners == {"newcomer": "", "light": "little", "median": "some", "heavy": "much"}
    assert names[link_user(jobs, "user:some", 40 * DAY_S)] == "some"
    with pytest.raises(ConfigurationError, match="links of 'user:none' need jobs of that user"):
        link_user(jobs, "user:none", 15 * DAY_S)
    with pytest.raises(ConfigurationError, match="links of a median user need users with jobs"):
        link_user(jobs, "median", 40 * DAY_S)


def test_a_chain_that_begins_before_the_trace_is_refused() -> None:
    trial, begin_s = scenario("easy")
    check_windows(trial, EvaluationProtocol.warm(begin_s, windows=1, hand_over=3), [LinkSize(1)])
    with pytest.raises(ConfigurationError, match="the first window begins before the trace"):
        check_windows(trial, EvaluationProtocol.warm(begin_s, windows=1, hand_over=5), [LinkSize(1)])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"link_user": "root"}, "unknown user 'root' of links; use newcomer"),
        ({"hand_over": 0}, "numbered from 1"),
        ({"lead_in_s": -1}, "lead_in_s is -1; give 0 or more"),
        ({"step_s": -60}, "step_s is -60; give 0 or more"),
        ({"begin_s": 7200.0}, "begin_s is 7200.0; give a whole number, not a float"),
        ({"windows": 2.0}, "windows is 2.0; give a whole number, not a float"),
    ],
)
def test_values_out_of_range_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        EvaluationProtocol.warm(**{"begin_s": 0} | changes)


def test_integers_of_numpy_become_those_of_python() -> None:
    protocol = EvaluationProtocol.warm(np.int64(7200), every_s=np.int64(60))
    link = LinkSize(np.int64(2), np.int32(7200))
    values = (protocol.begin_s, protocol.every_s, link.nodes, link.limit_s)
    assert (values, {type(value) for value in values}) == ((7200, 60, 2, 7200), {int})
