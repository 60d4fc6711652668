"""The gymnasium environment: gymnasium's own checks; the table equals the simulator."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from mirage.duration import DAY_S, HOUR_S
from mirage.errors import ConfigurationError, MirageError
from mirage.policy.cost import Cost
from mirage.provision.environment.chain_env import SUBMIT, WAIT, ChainEnv, ChainVectorEnv
from mirage.provision.environment.episode_table import EpisodeTable, build_episode_table
from mirage.provision.evaluation.episode import Scenario, play, warm_simulations
from mirage.provision.evaluation.evaluation_protocol import EvaluationProtocol
from mirage.provision.link_size import LinkSize
from mirage.sim.cluster import Cluster
from mirage.sim.workload import workload
from mirage.trace.workload.generate_workload import generate_workload
from mirage.trace.workload.workload_json import builtin_model


@pytest.fixture(scope="module")
def trial() -> tuple[Scenario, EvaluationProtocol]:
    table = generate_workload(builtin_model("lonestar6-like"), days=16, seed=3)
    cluster = Cluster.pool(76)
    scenario = Scenario(cluster, workload(table, cluster, refuse=False), "easy")
    return scenario, EvaluationProtocol.warm(int(table.submit_s.min()) + 5 * DAY_S, windows=4, every_s=12 * HOUR_S)


@pytest.fixture(scope="module")
def table(trial: tuple[Scenario, EvaluationProtocol]) -> EpisodeTable:
    return build_episode_table(*trial, LinkSize(1), history=4)


def test_gymnasiums_checker_passes(table: EpisodeTable) -> None:
    check_env(ChainEnv(table), skip_render_check=True)


def test_it_is_registered_single_and_vectorised(table: EpisodeTable) -> None:
    env = gym.make("mirage.provision.environment.chain_env:mirage/Chain-v1", table=table)
    assert env.reset(seed=1)[0].shape == (4, 42)
    many = gym.make_vec("mirage/Chain-v1", num_envs=3, vectorization_mode="vector_entry_point", table=table)
    assert many.reset(seed=1)[0].shape == (3, 4, 42)


def test_reading_the_table_is_playing(trial: tuple[Scenario, EvaluationProtocol], table: EpisodeTable) -> None:
    scenario, protocol = trial
    for k, (window, sim) in enumerate(warm_simulations(scenario, protocol, [0, 1, 2, 3])):
        episode = play(sim, protocol, LinkSize(1), window)
        assert table.decisions[k] == len(episode.decisions_s)
        np.testing.assert_array_equal(table.outcome_s[k, : table.decisions[k]], episode.outcome_s)
        env = ChainEnv(table, Cost(3.0, 1.0))
        env.reset(options={"episode": k})
        for _ in range(5):
            _, reward, terminated, _, _ = env.step(np.int64(WAIT))
            assert (reward, terminated) == (0.0, False)
        _, reward, terminated, _, info = env.step(np.int64(SUBMIT))
        assert terminated
        assert info["interruption_h"] - info["overlap_h"] == pytest.approx(episode.outcome_s[5] / HOUR_S)
        assert min(info["interruption_h"], info["overlap_h"]) == 0
        assert reward == pytest.approx(-float(Cost(3.0, 1.0).of(float(episode.outcome_s[5]))))


def test_episodes_of_a_later_hand_over_begin_with_the_links_before_it(busy_setting: Scenario) -> None:
    protocol = EvaluationProtocol.warm(
        10 * DAY_S, windows=2, every_s=DAY_S, lead_in_s=DAY_S, step_s=3 * HOUR_S, hand_over=3
    )
    link = LinkSize(2, 12 * HOUR_S)
    found = build_episode_table(busy_setting, protocol, link, history=3)
    played = [
        play(sim, protocol, link, window)
        for window, sim in warm_simulations(busy_setting, protocol, [0, 1], protocol.early_s([link]))
    ]
    assert found.submitted_s.tolist() == [episode.submitted_s for episode in played]
    assert found.reactive_s.tolist() == [episode.reactive_s for episode in played]


def test_a_list_of_seeds_repeats_the_episodes(table: EpisodeTable) -> None:
    def drawn(*seeds: int) -> list[int]:
        found: list[int] = ChainVectorEnv(40, table).reset(seed=[*seeds])[1]["episode"].tolist()
        return found

    assert drawn(*range(40)) == drawn(*range(40)) != drawn(*range(1, 41))


def test_always_waiting_is_reactive(table: EpisodeTable) -> None:
    env = ChainEnv(table)
    env.reset(options={"episode": 2})
    steps, terminated, info = 0, False, {}
    while not terminated:
        _, _, terminated, _, info = env.step(np.int64(WAIT))
        steps += 1
    assert steps == table.decisions[2] - 1
    assert info["interruption_h"] == info["reactive_interruption_h"]
    assert info["overlap_h"] == info["reactive_overlap_h"]


def test_a_step_outside_an_episode_or_of_another_action_is_refused(table: EpisodeTable) -> None:
    env = ChainEnv(table)
    for options, message in (
        ({"episode": None}, "episode is None; give a whole number"),
        ({"episode": 1.5}, "episode is 1.5; give a whole number"),
        ({"episode": -1}, "there is no episode -1; there are "),
        ({"epsiode": 1}, "unknown option 'epsiode'. Did you mean 'episode'"),
    ):
        with pytest.raises(MirageError, match=message):
            env.reset(options=options)
    with pytest.raises(ConfigurationError, match=r"^an episode begins with reset; call it before step$"):
        env.step(np.int64(WAIT))
    env.reset(seed=1)
    with pytest.raises(ConfigurationError, match=r"^5 is not an action; there are 0 \(wait\) and 1 \(submit\)$"):
        env.step(np.int64(5))
    assert env.step(np.int64(SUBMIT))[2]
    with pytest.raises(ConfigurationError, match="begins with reset"):
        env.step(np.int64(SUBMIT))


def test_vectorised_equals_single(table: EpisodeTable) -> None:
    many = ChainVectorEnv(3, table)
    observations, start = many.reset(seed=7)
    rng = np.random.default_rng(0)
    singles = []
    for k in range(3):
        env = ChainEnv(table)
        first, _ = env.reset(options={"episode": int(start["episode"][k])})
        np.testing.assert_array_equal(first, observations[k])
        singles.append(env)
    running = np.ones(3, dtype=bool)
    while running.any():
        actions = (rng.random(3) < 0.02).astype(np.int64)
        observations, rewards, terminated, _, info = many.step(actions)
        for k in np.flatnonzero(running):
            one, reward, ends, _, facts = singles[k].step(actions[k])
            assert (reward, ends) == (rewards[k], terminated[k])
            if ends:
                assert info["interruption_h"][k] == facts["interruption_h"]
                assert info["overlap_h"][k] == facts["overlap_h"]
            else:
                np.testing.assert_array_equal(one, observations[k])
        running &= ~terminated


def test_an_ended_episode_begins_anew_in_the_next_step(table: EpisodeTable) -> None:
    many = ChainVectorEnv(2, table)
    many.reset(seed=1)
    _, _, terminated, _, _ = many.step(np.array([SUBMIT, WAIT]))
    assert terminated.tolist() == [True, False]
    observations, rewards, terminated, _, _ = many.step(np.array([SUBMIT, WAIT]))
    assert (rewards[0], terminated[0]) == (0.0, False)
    assert any(np.array_equal(observations[0], table.observations[e, :4]) for e in range(len(table)))


def test_a_table_survives_the_disk(table: EpisodeTable, tmp_path: object) -> None:
    path = f"{tmp_path}/table.npz"
    table.save(path)
    again = EpisodeTable.load(path)
    np.testing.assert_array_equal(again.observations, table.observations)
    assert (again.history, again.step_s) == (table.history, table.step_s)
    with pytest.raises(ConfigurationError, match="not an episode table"):
        EpisodeTable.load(__file__)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"windows": 0}, "there is no window to play; give at least 1"),
        ({"history": -1}, "history is -1; a decision needs at least 1 snapshot"),
        ({"windos": 3}, "unknown argument 'windos'. Did you mean 'windows'"),
        ({"cost": 2.0}, r"the cost must be a Cost, such as Cost\(2\.0, 1\.0\), got 2\.0"),
    ],
)
def test_values_out_of_range_are_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(MirageError, match=message):
        ChainEnv(**{"windows": 1, **changed})
