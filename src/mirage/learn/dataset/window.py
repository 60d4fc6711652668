"""One window of a data set: every decision with its outcome and its inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from mirage.array_types import Ints
from mirage.forecast.forecaster import Forecaster
from mirage.learn.dataset.recipe import Recipe
from mirage.learn.features.forecast_features import forecast_of
from mirage.learn.features.hand_over_features import features_of
from mirage.learn.features.queue_history import SNAPSHOT_S, queue_history
from mirage.learn.features.repeats import repeats_of
from mirage.learn.hand_overs import HISTORY, QUEUE_COLUMNS, Floats32, HandOvers
from mirage.policy.view import ChainView, View
from mirage.provision.evaluation.candidate import window_seed
from mirage.provision.evaluation.episode import Episode, play
from mirage.provision.evaluation.evaluation_study import Player
from mirage.provision.link_size import LinkSize
from mirage.sim.simulation import Simulation

FeatureRow = tuple[Floats32, tuple[str, ...]]


class WindowMaker:
    """Makes windows of a data set in ascending order, in one replay of the trace."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe, self._player = recipe, Player(recipe.study)

    def make(self, window: int) -> HandOvers:
        """The rows of a window for all link sizes in turn; windows must ascend."""
        return HandOvers.joined([self._of_link(link, sim, window) for link, sim in self._player.worlds(window)])

    def _of_link(self, link: LinkSize, sim: Simulation, window: int) -> HandOvers:
        study = self.recipe.study
        if not self.recipe.views:
            return _labels(play(sim, study.protocol, link, window))
        tape, rows, repeats = SnapshotTape(), list[Floats32](), list[Floats32]()
        make_features = self._feature_maker(window_seed(study.seed, link.nodes, study.protocol.submits_s(window)))

        def record(view: View) -> None:
            tape.record(view)
            values, names[:] = make_features(view)
            rows.append(values)
            repeats.append(repeats_of(view))

        names: list[str] = []
        episode = play(sim, study.protocol, link, window, record)
        record(sim.view(_chain_at_the_end(sim, episode, study.protocol.step_s)))
        snapshots, last = tape.rows()
        found = _labels(episode)
        return replace(
            found,
            features=np.stack(rows),
            names=tuple(names),
            snapshots=snapshots,
            last=last,
            repeats=np.stack(repeats),
        )

    def _feature_maker(self, seed: int) -> Callable[[View], FeatureRow]:
        """Returns the function that makes features of a view.

        Its futures are those of a policy in the same window of an evaluation.
        """
        scenario, futures = self.recipe.study.scenario, self.recipe.futures
        if futures is None:
            return features_of
        forecaster = Forecaster(
            futures,
            seed=seed,
            discipline=scenario.discipline,
            scheduler=scenario.settings,
            limits=scenario.cluster.limits,
        )

        def make_features(view: View) -> FeatureRow:
            assert view.chain is not None
            return features_of(view, forecast_of(forecaster.of(view), view.chain))

        return make_features


def _chain_at_the_end(sim: Simulation, episode: Episode, step_s: int) -> ChainView:
    """The chain at the end of its present link, the only one in this branch."""
    link = episode.link
    return ChainView(
        link.nodes,
        link.limit_s,
        sim.next_id - 1,
        episode.submitted_s,
        episode.started_s,
        episode.ends_s,
        step_s,
    )


def _labels(episode: Episode) -> HandOvers:
    """Decisions and outcomes, without features and snapshots."""
    n = len(episode.decisions_s)

    def same(value: int) -> Ints:
        return np.full(n, value, dtype=np.int64)

    return HandOvers(
        window_s=same(episode.submitted_s),
        link_nodes=same(episode.link.nodes),
        link_limit_s=same(episode.link.limit_s),
        wait_s=same(episode.started_s - episode.submitted_s),
        time_s=episode.decisions_s,
        remaining_s=episode.ends_s - episode.decisions_s,
        outcome_s=episode.outcome_s,
        features=np.zeros((n, 0), dtype=np.float32),
        names=(),
        snapshots=np.zeros((0, QUEUE_COLUMNS), dtype=np.float32),
        last=same(-1),
    )


class SnapshotTape:
    """The queue of a window at its decisions, each row recorded once.

    The first decision records the 24 hours before it, and every later one the time since. So a row holds only what was
    known at a decision, and nothing of later ones. Decisions that are not a multiple of ten minutes apart have rows of
    their own.
    """

    def __init__(self) -> None:
        self._tapes: dict[int, list[Floats32]] = {}
        self._latest_s: dict[int, int] = {}
        self._positions: list[tuple[int, int]] = []

    def record(self, view: View) -> None:
        """Records the rows of a view that are not yet on the tape; times must ascend."""
        phase_s = view.now_s % SNAPSHOT_S
        tape = self._tapes.setdefault(phase_s, [])
        since = (view.now_s - self._latest_s.get(phase_s, -HISTORY * SNAPSHOT_S + view.now_s)) // SNAPSHOT_S
        if since:
            tape.append(queue_history(view, since))
        self._latest_s[phase_s] = view.now_s
        self._positions.append((phase_s, sum(map(len, tape)) - 1))

    def rows(self) -> tuple[Floats32, Ints]:
        """Shape (m, ``QUEUE_COLUMNS``), the snapshots, and shape (views,), the row of each view."""
        if not self._positions:
            return np.zeros((0, QUEUE_COLUMNS), dtype=np.float32), np.zeros(0, dtype=np.int64)
        first, found = {}, 0
        for phase_s, tape in self._tapes.items():
            first[phase_s], found = found, found + sum(map(len, tape))
        together = np.concatenate([rows for tape in self._tapes.values() for rows in tape])
        return together, np.array([first[phase_s] + row for phase_s, row in self._positions], dtype=np.int64)
