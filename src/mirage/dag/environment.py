"""``mirage/Dag-v1``: scheduling of stages as a gymnasium environment.

    env = gymnasium.make("mirage.dag.environment:mirage/Dag-v1")

(gymnasium imports the module before the colon, and importing it registers the environment).

Observation: ``graph``, the stages that are not finished with the columns of ``FEATURES`` and edges from parents to
children; ``job``, the job of each row; ``stage_mask``, the rows that may be picked; ``executor_mask``, shape
(rows, executors), the numbers that are allowed for each row. Action: a row, and a number of executors less one: the
number to add (``action="add"``) or the job's total (``action="limit"``). An action that the masks exclude is refused
with an error, never replaced by the nearest one. Reward: minus the seconds that all jobs together spent in the
system since the last decision. The episode terminates when all jobs have ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mirage.dag.setting import EpisodeSetting
from mirage.dag.simulator.dag_simulation import DagSimulation
from mirage.dag.simulator.dag_world import DagCluster
from mirage.dag.simulator.observation import FEATURES, StageGraph, observe
from mirage.dag.simulator.stage_decision import under_limit
from mirage.dag.workload.generated import generated_templates
from mirage.dag.workload.templates import JobTemplate
from mirage.errors import ConfigurationError, shown
from mirage.extras import install

try:
    import gymnasium as gym
    from gymnasium import spaces
except ModuleNotFoundError as error:
    raise ConfigurationError(
        f"the environment needs gymnasium, which is not installed; run: {install('env')}"
    ) from error

ACTIONS = ("add", "limit")

Observation = dict[str, Any]


class DagEnv(gym.Env[Observation, NDArray[np.int64]]):
    """The gymnasium environment of stage scheduling, one episode after another.

    Args:
        templates: Kinds of jobs, drawn uniformly; by default the built-in ones.
        setting: Executors, jobs and the gap between arrivals.
        cluster: Everything else about the cluster.
        action: The meaning of a number of executors: one of ``ACTIONS``.

    Raises:
        ConfigurationError: The action is unknown, the setting is none, or there is no template.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 (gymnasium's own form)

    def __init__(
        self,
        templates: Sequence[JobTemplate] | None = None,
        setting: EpisodeSetting | None = None,
        cluster: DagCluster | None = None,
        action: str = "add",
    ) -> None:
        if action not in ACTIONS:
            raise ConfigurationError(f"{shown(action)} is not an action mode; there are {' and '.join(ACTIONS)}")
        if not isinstance(setting, EpisodeSetting | None):
            raise ConfigurationError(f"the setting must be an EpisodeSetting(50, 200), got {shown(setting)}")
        self.templates = generated_templates() if templates is None else tuple(templates)
        if not self.templates:
            raise ConfigurationError("there is no kind of job to draw; give at least one template")
        self.setting = setting or EpisodeSetting(10, 50)
        self.cluster = replace(cluster or DagCluster(), executors=self.setting.executors)
        self.action = action
        self.simulation: DagSimulation | None = None
        executors = self.setting.executors
        most = max(len(template.stages) for template in self.setting.templates(self.templates)) * self.setting.jobs
        self.action_space = spaces.MultiDiscrete([most, executors])
        node_space = spaces.Box(-np.inf, np.inf, (len(FEATURES),), np.float32)
        self.observation_space = spaces.Dict(
            {
                "graph": spaces.Graph(node_space, spaces.Discrete(1)),  # gymnasium accepts no edges without a value
                "job": spaces.Sequence(spaces.Discrete(self.setting.jobs), stack=True),
                "stage_mask": spaces.Sequence(spaces.Discrete(2), stack=True),
                "executor_mask": spaces.Sequence(spaces.Box(0, 1, (executors,), np.int8), stack=True),
            }
        )
        self._graph: StageGraph | None = None
        self._numbers_mask: NDArray[np.int8] = np.zeros((0, executors), np.int8)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begins the episode ``options["episode"]``, or one drawn at random.

        Its number is the seed of everything in it.
        """
        super().reset(seed=seed)
        drawn = int(self.np_random.integers(2**31))
        episode = int((options or {}).get("episode", drawn))
        arrivals = self.setting.arrivals(episode, len(self.templates))
        templates = self.setting.templates(self.templates)
        self.simulation = DagSimulation(templates, arrivals, self.cluster, seed=episode)
        self.simulation.advance()
        return self._observation(), {**self._info(), "episode": episode}

    def step(self, action: NDArray[np.int64]) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Gives executors to a stage.

        Raises:
            ConfigurationError: ``reset`` was not called, the action is no pair, or the masks exclude it.
        """
        if self.simulation is None or self._graph is None:
            raise ConfigurationError("an episode begins with reset; call it before step")
        if np.shape(action) != (2,):
            raise ConfigurationError(f"an action is two numbers, of a row and of executors; got {shown(action)}")
        row, executors = int(action[0]), int(action[1]) + 1
        graph = self._graph
        if not 0 <= row < len(graph.stage) or not graph.may_pick[row]:
            raise ConfigurationError(
                f"the action {shown([row, executors - 1])} is excluded: {row} is no row whose stage_mask is 1"
            )
        allowed = self._numbers_mask[row]
        if not (1 <= executors <= len(allowed) and allowed[executors - 1]):
            numbers = np.flatnonzero(allowed)
            raise ConfigurationError(
                f"the action {shown([row, executors - 1])} is excluded: the executor_mask of row {row} allows "
                f"{numbers[0]} to {numbers[-1]}"
            )
        if self.action == "limit":
            job = int(self.simulation.state.active[graph.job[row]])
            executors = under_limit(self.simulation.state, job, executors)
        clock = self.simulation.state.clock
        before_ms = int(clock[0].in_system_ms)
        has_next = self.simulation.decide(int(graph.stage[row]), executors)
        reward = -(int(clock[0].in_system_ms) - before_ms) / 1000
        return self._observation(), reward, not has_next, False, self._info()

    def _observation(self) -> Observation:
        assert self.simulation is not None
        world, state = self.simulation.world, self.simulation.state
        self._graph = graph = observe(world, state)
        numbers = np.arange(1, self.setting.executors + 1)
        if self.action == "add":
            allowed = np.broadcast_to(numbers <= int(state.clock[0].free), (len(graph.stage), len(numbers)))
        else:
            allowed = numbers[None, :] >= graph.least_limit[:, None]
        self._numbers_mask = (allowed & (graph.may_pick[:, None] == 1)).astype(np.int8)
        return {
            "graph": spaces.GraphInstance(graph.nodes, np.zeros(len(graph.edges), np.int64), graph.edges),
            "job": graph.job,
            "stage_mask": graph.may_pick,
            "executor_mask": self._numbers_mask.copy(),
        }

    def _info(self) -> dict[str, Any]:
        assert self.simulation is not None
        clock = self.simulation.state.clock[0]
        return {"now_s": int(clock.now_ms) / 1000, "jobs": int(clock.n_active), "finished": int(clock.finished)}


if "mirage/Dag-v1" not in gym.registry:
    gym.register(id="mirage/Dag-v1", entry_point="mirage.dag.environment:DagEnv")
