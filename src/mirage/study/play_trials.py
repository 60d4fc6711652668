"""Plays the trials of a study on an executor; those in its journal are not played again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic

from mirage.errors import MirageError
from mirage.study.executors.executor import Executor, Setup
from mirage.study.executors.local_processes import LocalProcesses
from mirage.study.journal import Result, Trial, TrialJournal
from mirage.study.trial import TrialFailure

Progress = Callable[[int, int], None]
"""Called with the number of finished parts and of all."""


@dataclass(frozen=True, slots=True)
class TrialResults(Generic[Trial, Result]):
    """Results of the trials of a study.

    Attributes:
        found: The results.
        failures: Why the other trials have none.
        reused: Number of results from an earlier run.
    """

    found: dict[Trial, Result]
    failures: dict[Trial, str]
    reused: int


def play_trials(
    begin: Callable[[Setup], Callable[[Trial], tuple[Trial, Result | TrialFailure]]],
    setup: Setup,
    trials: Sequence[Trial],
    *,
    journal: TrialJournal[Trial, Result] | None = None,
    executor: Executor | None = None,
    progress: Progress | None = None,
    prepare: Callable[[Sequence[Trial]], None] | None = None,
    may_fail: bool = False,
) -> TrialResults[Trial, Result]:
    """Plays trials; each result is in the journal before the next one is awaited.

    Args:
        begin: Called once in each process or job; returns the function that plays one trial after another, and returns
            each with its result. It must be a function of a module, marked with ``sent_to_jobs``.
        setup: The argument of ``begin``: what all trials share.
        trials: Played in this order; each once.
        journal: Provides results of earlier runs, and stores new ones; None for neither.
        executor: Plays the trials; None for this process.
        progress: Called at the beginning and after every trial.
        prepare: Called first with the trials to play, if any: compiles their kernels once rather than in each process,
            and refuses what cannot be played.
        may_fail: Whether a study with results gets past a failure of the executor: the remaining trials then count as
            failed.

    Raises:
        MirageError: The executor failed; finished results are in the journal.
    """
    stored = {} if journal is None else {trial: journal.get(trial) for trial in trials}
    found = {trial: result for trial, result in stored.items() if result is not None}
    failures: dict[Trial, str] = {}
    reused = len(found)
    left = [trial for trial in trials if trial not in found]

    def report() -> None:
        if progress is not None:
            progress(len(found) + len(failures), len(trials))

    if left and prepare is not None:
        prepare(left)
    report()
    try:
        for trial, result in (executor or LocalProcesses())(begin, setup, left):
            if isinstance(result, TrialFailure):
                failures[trial] = result.error
            else:
                if journal is not None:
                    journal.add(trial, result)
                found[trial] = result
            report()
    except MirageError as error:
        if not may_fail or not (found or failures):
            raise
        unplayed = [trial for trial in left if trial not in found and trial not in failures]
        failures |= dict.fromkeys(unplayed, f"not played: {error}")
    return TrialResults(found, failures, reused)
