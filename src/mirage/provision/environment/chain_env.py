"""``mirage/Chain-v1``: one hand-over as a gymnasium environment, single and vectorised.

    env = gymnasium.make("mirage.provision.environment.chain_env:mirage/Chain-v1")

(gymnasium imports the module before the colon, and importing this module registers the environment).

Observation: the last ``history`` snapshots, shape (history, 42), float32, oldest first. Action: 0 wait, 1 submit.
Reward: 0 while waiting, minus the cost of the hand-over in hours when the link is submitted. The episode then
terminates; at the end of the present link it is submitted whatever the action. ``info`` at the end has
``interruption_h`` and ``overlap_h`` of the submission, and the same of the reactive one and of the best, as
``reactive_interruption_h``, …, ``best_overlap_h``.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mirage.array_types import Ints
from mirage.duration import DAY_S, HOUR_S
from mirage.errors import ConfigurationError, UnknownName, shown
from mirage.extras import install
from mirage.policy.cost import Cost
from mirage.provision.environment.episode_table import EpisodeTable, build_episode_table
from mirage.provision.environment.snapshot import COLUMNS
from mirage.provision.evaluation.episode import Scenario
from mirage.provision.evaluation.evaluation_protocol import EvaluationProtocol
from mirage.provision.link_size import LinkSize
from mirage.sim.cluster import Cluster
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings
from mirage.sim.workload import workload
from mirage.trace.workload.generate_workload import generate_workload
from mirage.trace.workload.workload_json import builtin_model
from mirage.whole_numbers import whole

try:
    import gymnasium as gym
    from gymnasium import spaces
    from gymnasium.vector import AutoresetMode, VectorEnv
    from gymnasium.vector.utils import batch_space
except ModuleNotFoundError as error:
    raise ConfigurationError(
        f"the environment needs gymnasium, which is not installed; run: {install('env')}"
    ) from error

WAIT, SUBMIT = 0, 1
Observations = NDArray[np.float32]


@lru_cache(maxsize=4)
def builtin_episode_table(link_nodes: int = 1, windows: int = 42, history: int = 1, seed: int = 0) -> EpisodeTable:
    """Episodes on the built-in ``lonestar6-like`` workload.

    There is one episode every four hours, after two weeks of warm-up.
    """
    warm_up_days = 14
    model = builtin_model("lonestar6-like")
    table = generate_workload(model, days=warm_up_days + windows / 6 + 10, seed=seed)
    cluster = Cluster.pool(76)
    scenario = Scenario(cluster, workload(table, cluster, refuse=False), "slurm", SlurmSettings.lonestar6())
    begin_s = int(table.submit_s.min()) + warm_up_days * DAY_S
    return build_episode_table(
        scenario, EvaluationProtocol.warm(begin_s, windows=windows), LinkSize(link_nodes), history=history
    )


class _Episodes:
    """Common part of both environments: spaces, and the outcomes of many episodes at once."""

    def __init__(self, table: EpisodeTable, cost: Cost) -> None:
        self.table, self.cost = table, cost
        shape = (table.history, COLUMNS)
        self.observation_space = spaces.Box(0.0, 1e6, shape, np.float32)
        self.action_space = spaces.Discrete(2)
        self._back = np.arange(table.history)

    def observations(self, episode: Ints, decision: Ints) -> Observations:
        """Observations at these decisions, shape (n, history, 42)."""
        observations: Observations
        if self.table.history == 1:
            observations = self.table.observations[episode, decision][:, None, :]
        else:
            observations = self.table.observations[episode[:, None], decision[:, None] + self._back]
        return observations

    def submit(self, episode: Ints, decision: Ints) -> tuple[NDArray[np.float64], Ints]:
        """Rewards and signed gaps (seconds) of submitting at these decisions, shape (n,) each."""
        gaps_s = self.table.outcome_s[episode, decision]
        return -self.cost.of(gaps_s.astype(np.float64)), gaps_s

    def best_s(self, episode: int) -> int:
        """Outcome of the cheapest decision of an episode."""
        outcome_s = self.table.outcome_s[episode, : self.table.decisions[episode]]
        return int(outcome_s[np.argmin(self.cost.of(outcome_s.astype(np.float64)))])


def _losses_h(gap_s: float, of: str = "") -> dict[str, float]:
    """Hours of interruption and of overlap of a signed gap; ``of`` begins their names."""
    return {f"{of}interruption_h": max(gap_s, 0.0) / HOUR_S, f"{of}overlap_h": max(-gap_s, 0.0) / HOUR_S}


def _refuse_others(kind: str, given: dict[str, Any], known: tuple[str, ...]) -> None:
    for name in given:
        if name not in known:
            raise UnknownName(kind, name, known)


def _prepare(table: EpisodeTable | None, cost: Cost | None, builtin: dict[str, Any]) -> _Episodes:
    if not isinstance(cost, Cost | None):
        raise ConfigurationError(f"the cost must be a Cost, such as Cost(2.0, 1.0), got {shown(cost)}")
    _refuse_others("argument", builtin, ("table", "cost", "link_nodes", "windows", "history", "seed"))
    return _Episodes(builtin_episode_table(**builtin) if table is None else table, cost or Cost())


class ChainEnv(gym.Env[Observations, np.int64]):
    """Environment of single hand-overs, one after another.

    Args:
        table: Episodes to play; by default those of the built-in workload.
        cost: Cost of an hour of interruption and of overlap.
        builtin: ``link_nodes``, ``windows``, ``history``, ``seed`` of the built-in table.

    Raises:
        UnknownName: There is no such argument.
        ConfigurationError: The cost is no ``Cost``, or the built-in table would have no window or no snapshot.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 (gymnasium's own form)

    def __init__(self, table: EpisodeTable | None = None, cost: Cost | None = None, **builtin: Any) -> None:
        self.episodes = _prepare(table, cost, builtin)
        self.observation_space = self.episodes.observation_space
        self.action_space = self.episodes.action_space
        self._episode, self._decision = 0, 0
        self._runs = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observations, dict[str, Any]]:
        """Begin an episode: ``options["episode"]`` or one drawn at random.

        Raises:
            UnknownName: There is no such option.
            ConfigurationError: There is no such episode.
        """
        super().reset(seed=seed)
        drawn = int(self.np_random.integers(len(self.episodes.table)))
        _refuse_others("option", options or {}, ("episode",))
        episode = whole("episode", (options or {}).get("episode", drawn))
        if not 0 <= episode < len(self.episodes.table):
            raise ConfigurationError(f"there is no episode {episode}; there are {len(self.episodes.table)}, from 0")
        self._episode, self._decision = episode, 0
        self._runs = True
        return self._observation(), {"episode": self._episode}

    def step(self, action: np.int64) -> tuple[Observations, float, bool, bool, dict[str, Any]]:
        """Wait or submit; the last decision always submits.

        Raises:
            ConfigurationError: ``reset`` was not called, the episode has ended, or the action is neither.
        """
        if not self._runs:
            raise ConfigurationError("an episode begins with reset; call it before step")
        if action not in (WAIT, SUBMIT):
            raise ConfigurationError(f"{action} is not an action; there are {WAIT} (wait) and {SUBMIT} (submit)")
        table = self.episodes.table
        last = int(table.decisions[self._episode]) - 1
        if action == WAIT and self._decision < last:
            self._decision += 1
            if self._decision < last:
                return self._observation(), 0.0, False, False, {}
        self._runs = False
        reward, gap_s = self.episodes.submit(*self._place())
        info = _losses_h(float(gap_s[0]))
        info |= _losses_h(float(table.reactive_s[self._episode]), "reactive_")
        info |= _losses_h(float(self.episodes.best_s(self._episode)), "best_")
        return self._observation(), float(reward[0]), True, False, info

    def _place(self) -> tuple[Ints, Ints]:
        return np.array([self._episode]), np.array([self._decision])

    def _observation(self) -> Observations:
        observations: Observations = self.episodes.observations(*self._place())[0]
        return observations


class ChainVectorEnv(VectorEnv[Observations, Ints, Any]):
    """Many hand-overs at once; each starts again in the step after its end (``NEXT_STEP``).

    Args:
        num_envs: Number of hand-overs.
        table: As ``ChainEnv``.
        cost: As ``ChainEnv``.
        builtin: As ``ChainEnv``.
    """

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012

    def __init__(
        self, num_envs: int, table: EpisodeTable | None = None, cost: Cost | None = None, **builtin: Any
    ) -> None:
        self.episodes = _prepare(table, cost, builtin)
        self.num_envs = num_envs
        self.single_observation_space = self.episodes.observation_space
        self.single_action_space = self.episodes.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._episode, self._decision = np.zeros(num_envs, np.int64), np.zeros(num_envs, np.int64)
        self._ended = np.zeros(num_envs, dtype=np.bool_)

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observations, dict[str, Any]]:
        """Begin an episode in every environment, drawn at random.

        Args:
            seed: Of all draws; a list of numbers, one for each environment, is one seed, too.
            options: Not used.
        """
        if isinstance(seed, list):
            numbers = [one for one in seed if one is not None]
            seed = int(np.random.SeedSequence(numbers).generate_state(1)[0]) if len(numbers) == len(seed) else None
        super().reset(seed=seed, options=options)
        self._episode = self.np_random.integers(len(self.episodes.table), size=self.num_envs)
        self._decision = np.zeros(self.num_envs, dtype=np.int64)
        self._ended[:] = False
        return self.episodes.observations(self._episode, self._decision), {"episode": self._episode.copy()}

    def step(
        self, actions: Ints
    ) -> tuple[Observations, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Wait or submit in every environment."""
        begins = self._ended
        last = self.episodes.table.decisions[self._episode] - 1
        waits = (np.asarray(actions) == WAIT) & ~begins
        self._decision = np.where(waits, np.minimum(self._decision + 1, last), self._decision)
        submits = ~begins & (~waits | (self._decision == last))
        rewards, gaps_s = self.episodes.submit(self._episode, self._decision)
        rewards = np.where(submits, rewards, 0.0)
        if begins.any():
            drawn = self.np_random.integers(len(self.episodes.table), size=int(begins.sum()))
            self._episode[begins] = drawn
            self._decision[begins] = 0
        self._ended = submits
        gap_h = np.where(submits, gaps_s, 0) / HOUR_S
        interruption_h = np.maximum(gap_h, 0.0)
        info: dict[str, Any] = {"interruption_h": interruption_h, "_interruption_h": submits}
        info |= {"overlap_h": interruption_h - gap_h, "_overlap_h": submits}
        observations = self.episodes.observations(self._episode, self._decision)
        return observations, rewards, submits, np.zeros(self.num_envs, dtype=np.bool_), info


if "mirage/Chain-v1" not in gym.registry:
    gym.register(
        id="mirage/Chain-v1",
        entry_point="mirage.provision.environment.chain_env:ChainEnv",
        vector_entry_point="mirage.provision.environment.chain_env:ChainVectorEnv",
    )
