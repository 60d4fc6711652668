"""Table of episodes: the observation at every decision, and its outcome, as arrays.

Waiting changes nothing about the cluster, so an episode is a table: one row per decision, with the observation and the
exact outcome of submitting then. An environment that reads this table is equivalent to the simulator itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from mirage.array_types import Ints
from mirage.errors import ConfigurationError
from mirage.job_state import MISSING
from mirage.policy.view import ChainView, View
from mirage.provision.environment.snapshot import COLUMNS, snapshot
from mirage.provision.evaluation.episode import Scenario, play, warm_simulations
from mirage.provision.evaluation.evaluation_protocol import EvaluationProtocol
from mirage.provision.link_size import LinkSize

_SCHEMA = 1
_KEYS = {"observations": "seen"}
"""Names of arrays in the file that are not those of the fields."""


@dataclass(frozen=True, slots=True)
class EpisodeTable:
    """Episodes of one link size, padded to the longest.

    Attributes:
        observations: Shape (episodes, history − 1 + decisions, 42): row ``history − 1 + k`` is that at
            decision k; the rows before the first decision are the past that it may use.
        outcome_s: Shape (episodes, decisions): start of the next link minus end of the last if submitted then.
        decisions: Shape (episodes,): number of decisions; the last is the end of the present link.
        submitted_s: Shape (episodes,): when the present link was submitted.
        history: Number of snapshots that a decision may use, including its own.
        step_s: Time between decisions.
    """

    observations: NDArray[np.float32]
    outcome_s: Ints
    decisions: Ints
    submitted_s: Ints
    history: int
    step_s: int

    def __len__(self) -> int:
        return len(self.decisions)

    @property
    def reactive_s(self) -> Ints:
        """Interruptions of chains that submit when the last link has ended, shape (episodes,)."""
        reactive: Ints = self.outcome_s[np.arange(len(self)), self.decisions - 1]
        return reactive

    def save(self, path: str | Path) -> None:
        """Write the table as a compressed ``.npz``; nothing in it is pickled."""
        fields = {_KEYS.get(name, name): getattr(self, name) for name in self.__slots__}
        np.savez_compressed(path, schema=_SCHEMA, **fields)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a table.

        Raises:
            ConfigurationError: The file is not a table, or has another schema.
        """
        try:
            with np.load(path, allow_pickle=False) as stored:
                if int(stored["schema"]) != _SCHEMA:
                    raise ConfigurationError(f"{path}: a table of schema {int(stored['schema'])}, expected {_SCHEMA}")
                arrays = {name: stored[_KEYS.get(name, name)] for name in cls.__slots__}
        except (OSError, KeyError, ValueError) as error:
            raise ConfigurationError(
                f"{path} is not an episode table ({error}); build one with build_episode_table"
            ) from error
        return cls(**{**arrays, "history": int(arrays["history"]), "step_s": int(arrays["step_s"])})


def build_episode_table(
    scenario: Scenario,
    protocol: EvaluationProtocol,
    link: LinkSize,
    windows: Sequence[int] | None = None,
    history: int = 1,
    progress: Callable[[int], None] | None = None,
) -> EpisodeTable:
    """Play episodes and store their observations and outcomes.

    Args:
        windows: Windows of the protocol, ascending; all by default.
        history: Snapshots that a decision uses; the published learners use 144.
        progress: Called with the number of episodes done.

    Raises:
        ConfigurationError: There is no window, or a decision uses no snapshot.
    """
    if history < 1:
        raise ConfigurationError(f"history is {history}; a decision needs at least 1 snapshot")
    chosen = list(range(protocol.windows)) if windows is None else list(windows)
    if not chosen:
        raise ConfigurationError("there is no window to play; give at least 1")
    rows: list[list[NDArray[np.float32]]] = []
    episodes = []
    links_s, past_s = protocol.early_s([link]), (history - 1) * protocol.step_s
    for window, sim in warm_simulations(scenario, protocol, chosen, links_s + past_s):
        observations: list[NDArray[np.float32]] = []
        chain = ChainView(link.nodes, link.limit_s, MISSING, MISSING, MISSING, MISSING, protocol.step_s)

        def on_view(
            view: View, observations: list[NDArray[np.float32]] = observations, chain: ChainView = chain
        ) -> None:
            observations.append(snapshot(view, chain))

        begin_s = protocol.submits_s(window) - links_s
        for back in range(history - 1, 0, -1):
            sim.approach(begin_s - back * protocol.step_s)
            on_view(sim.view())
        sim.approach(begin_s)
        episodes.append(play(sim, protocol, link, window, on_view))
        rows.append(observations)
        if progress is not None:
            progress(len(rows))
    return _padded(rows, episodes, history, protocol.step_s)


def _padded(rows: list[list[NDArray[np.float32]]], episodes: list, history: int, step_s: int) -> EpisodeTable:  # type: ignore[type-arg]
    longest = max(len(e.decisions_s) for e in episodes)
    observations = np.zeros((len(episodes), history - 1 + longest, COLUMNS), dtype=np.float32)
    outcome_s = np.zeros((len(episodes), longest), dtype=np.int64)
    for k, (episode, shown) in enumerate(zip(episodes, rows)):
        observations[k, : len(shown)] = shown
        observations[k, len(shown) :] = shown[-1]  # at the end of the link there is no decision left
        outcome_s[k, : len(episode.outcome_s)] = episode.outcome_s
    return EpisodeTable(
        observations=observations,
        outcome_s=outcome_s,
        decisions=np.array([len(e.decisions_s) for e in episodes], dtype=np.int64),
        submitted_s=np.array([e.submitted_s for e in episodes], dtype=np.int64),
        history=history,
        step_s=step_s,
    )
