"""Plays the windows of a study, with a journal that studies of one key share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from mirage.provision.compile_simulator import use
from mirage.provision.evaluation.evaluation_study import Study, WindowTrial, begin
from mirage.provision.evaluation.rolling_choice import with_choices
from mirage.sim.disciplines.discipline_registry import discipline_spec
from mirage.study.executors.executor import Executor
from mirage.study.journal import TrialJournal
from mirage.study.play_trials import Progress, play_trials

Trials = dict[int, tuple[WindowTrial, ...]]
"""Nodes of a link → its windows."""


def play_study(
    study: Study, folder: Path | None = None, executor: Executor | None = None, progress: Progress | None = None
) -> tuple[Trials, int]:
    """Plays a study; returns its trials, and the number of windows from the journal.

    Args:
        study: What to play.
        folder: Folder of the journal, named after the study's key; None for none. A window is found there by the time
            at which its predecessor is submitted, so a study reuses what any other study of the same key has played for
            that time: a study of a whole winter reuses one of its months.
        executor: Plays the windows in ascending order, so that each process replays the trace only once; None for this
            process.
        progress: Called at the beginning and after every window.

    Raises:
        UnknownName: The discipline does not exist.
        ConfigurationError: A policy's parameter is invalid, or the journal cannot be written.
    """

    def prepare(windows: Sequence[int]) -> None:
        discipline_spec(study.scenario.discipline).load()
        for candidate in study.candidates:  # refuses a wrong parameter before hours of work, and compiles once
            candidate.make(study.scenario, study.seed)
        if len(windows) > 1:
            use(study.scenario.discipline)

    windows = range(study.protocol.windows)
    journal = None if folder is None else _journal(folder / f"evaluation-{study.key}.jsonl", study)
    played = play_trials(begin, study, windows, journal=journal, executor=executor, progress=progress, prepare=prepare)
    trials = {
        link.nodes: tuple(_numbered(played.found[window][k], window) for window in windows)
        for k, link in enumerate(study.links)
    }
    return {nodes: with_choices(study, of_link) for nodes, of_link in trials.items()}, played.reused


def _journal(path: Path, study: Study) -> TrialJournal[int, tuple[WindowTrial, ...]]:
    def trials_of(plain: dict[str, Any]) -> tuple[WindowTrial, ...]:
        return tuple(WindowTrial.from_json(trial) for trial in plain["trials"])

    return TrialJournal(
        path,
        lambda window: str(study.protocol.submits_s(window)),
        trials_of,
        lambda trials: {"trials": [trial.to_json() for trial in trials]},
    )


def _numbered(trial: WindowTrial, window: int) -> WindowTrial:
    """The trial with the number of its window; another study may have played it."""
    return replace(trial, episode=replace(trial.episode, window=window))
