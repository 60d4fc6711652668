"""Plays a comparison: the windows of every month, with the policies themselves.

All seeds are pooled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from mirage.errors import ConfigurationError
from mirage.learn.training.comparison.comparison_models import ModelKey
from mirage.learn.training.comparison.comparison_plan import ComparisonPlan, Group, method_within
from mirage.learn.training.folds import iso, month_begin_s, shifted
from mirage.policy.policy_registry import with_policy_named
from mirage.provision.evaluation.candidate import ORACLE_HOLDS, Candidate, candidates
from mirage.provision.evaluation.episode import Scenario
from mirage.provision.evaluation.evaluation_protocol import EvaluationProtocol
from mirage.provision.evaluation.evaluation_study import Study, WindowTrial
from mirage.provision.evaluation.play_study import Trials, play_study
from mirage.provision.link_size import LinkSize
from mirage.study.executors.executor import Executor
from mirage.study.play_trials import Progress


@dataclass(frozen=True, slots=True)
class ComparisonSetup:
    """Where and how everything is played.

    Attributes:
        protocol: All windows of the data; those of the months are played.
        folder: Folder of the journals; windows in them are not played again.
        executor: Plays the windows.
        every: Only every ``every``-th window of a month is played, from its first one on.
    """

    scenario: Scenario
    protocol: EvaluationProtocol
    links: tuple[LinkSize, ...]
    folder: Path
    executor: Executor
    every: int = 1

    def within(self, month: str) -> EvaluationProtocol:
        """The windows to play, among those with a predecessor submitted in a month.

        Raises:
            ConfigurationError: There are none.
        """
        protocol, inside = self.protocol, windows_in(self.protocol, month)
        begin_s, every_s = protocol.begin_s + inside[0] * protocol.every_s, protocol.every_s * self.every
        return replace(protocol, begin_s=begin_s, windows=-(-len(inside) // self.every), every_s=every_s)


def windows_in(protocol: EvaluationProtocol, month: str) -> list[int]:
    """The windows with a predecessor submitted in a month.

    Raises:
        ConfigurationError: There are none.
    """
    begin_s, end_s = month_begin_s(month), month_begin_s(shifted(month, 1))
    submits_s = [protocol.submits_s(window) for window in range(protocol.windows)]
    inside = [window for window, time_s in enumerate(submits_s) if begin_s <= time_s < end_s]
    if not inside:
        before_s = [time_s for time_s in submits_s if time_s < begin_s]  # later ones may not have been planned
        last = f", the last one before that month on {iso(before_s[-1])}" if before_s else ""
        raise ConfigurationError(
            f"the data have no windows in {month} to test on; the first one begins on {iso(submits_s[0])}{last}"
        )
    return inside


def play(
    setup: ComparisonSetup, plan: ComparisonPlan, models: Mapping[ModelKey, Path], progress: Progress | None = None
) -> Trials:
    """Plays every window of every month once for each seed, seed by seed.

    Choices have the plain names of their policies and methods.

    Args:
        setup: Where it is played.
        plan: What is played.
        models: Model files of the methods.
        progress: Called as windows are finished.

    Raises:
        ConfigurationError: A month has no windows, or a policy cannot be made.
    """
    windows = {month: setup.within(month) for month in plan.months}
    groups = list(plan.groups())
    total = len(groups) * sum(protocol.windows for protocol in windows.values())
    done = 0
    found: dict[int, dict[int, list[WindowTrial]]] = {
        seed: {link.nodes: [] for link in setup.links} for seed in plan.seeds
    }
    for month, protocol in windows.items():
        parts: dict[int, list[Trials]] = {seed: [] for seed in plan.seeds}
        for group in groups:
            study, names = _study(setup, plan, group, month, protocol, models)

            def report(of_group: int, _: int, before: int = done) -> None:
                if progress is not None:
                    progress(before + of_group, total)

            by_link, _ = play_study(study, setup.folder, setup.executor, report)
            played = {nodes: tuple(_plain(trial, names) for trial in trials) for nodes, trials in by_link.items()}
            done += protocol.windows
            for seed in plan.seeds if group.every_seed else (group.seed,):
                parts[seed].append(played)
        for seed in plan.seeds:
            others = [part for other in plan.seeds if other != seed for part in parts[other]]
            for nodes, trials in found[seed].items():
                own = zip(*(part[nodes] for part in parts[seed]))
                moments = zip(*(part[nodes] for part in others)) if others else ((),) * protocol.windows
                trials += [merged(same, more) for same, more in zip(own, moments)]
    return {link.nodes: tuple(t for seed in plan.seeds for t in found[seed][link.nodes]) for link in setup.links}


def merged(trials: Sequence[WindowTrial], moments: Sequence[WindowTrial] = ()) -> WindowTrial:
    """Merges a window that was played several times, with the moments and choices of all.

    Args:
        trials: Its trials.
        moments: Only the moments of these count: bounds are found among those of all seeds, and are equal for each.
    """
    episodes = [trial.episode for trial in (*trials, *moments)]
    decisions_s, first = np.unique(np.concatenate([e.decisions_s for e in episodes]), return_index=True)
    outcome_s = np.concatenate([e.outcome_s for e in episodes])[first]
    chosen = {
        key: int(np.searchsorted(decisions_s, trial.episode.decisions_s[position]))
        for trial in trials
        for key, position in trial.chosen.items()
    }
    return WindowTrial(
        replace(episodes[0], decisions_s=decisions_s, outcome_s=outcome_s),
        chosen,
        {key: calls for trial in trials for key, calls in trial.calls.items()},
        {key: followed for trial in trials for key, followed in trial.followed.items()},
        next((trial.held_outcome_s for trial in trials if trial.held_outcome_s is not None), None),
    )


def _study(
    setup: ComparisonSetup,
    plan: ComparisonPlan,
    group: Group,
    month: str,
    protocol: EvaluationProtocol,
    models: Mapping[ModelKey, Path],
) -> tuple[Study, dict[str, str]]:
    """The study of a group in a month, and plain keys for what is played from files."""

    def file_of(method: str) -> str:
        return str(models[ModelKey(method, month, group.seed)])

    named = {method: file_of(method) for method in group.methods}
    for policy in group.policies:
        method = method_within(policy)
        named[policy] = policy if method is None else with_policy_named(policy, file_of(method))
    tried = candidates(list(named.values()), list(plan.costs))
    holds = group.every_seed and ORACLE_HOLDS in plan.policies
    study = Study(setup.scenario, protocol, setup.links, tuple(tried), group.seed, holds)
    names = {
        Candidate(played, cost).key: Candidate(plain, cost).key
        for plain, played in named.items()
        for cost in plan.costs
    }
    return study, names


def _plain(trial: WindowTrial, names: Mapping[str, str]) -> WindowTrial:
    """Renames a trial's keys from model files to methods."""
    chosen = {names.get(key, key): position for key, position in trial.chosen.items()}
    calls = {names.get(key, key): times for key, times in trial.calls.items()}
    followed = {names.get(key, key): one for key, one in trial.followed.items()}
    return replace(trial, chosen=chosen, calls=calls, followed=followed)
