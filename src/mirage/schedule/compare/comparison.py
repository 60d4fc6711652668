"""A comparison: every workload under every scheduler, by whoever does the work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from mirage.errors import ConfigurationError
from mirage.executors.executor import Executor
from mirage.executors.processes import Processes
from mirage.schedule.compare.journal import Journal
from mirage.schedule.compare.row import Row, mean_rows
from mirage.schedule.compare.scheduler_text import SchedulerText
from mirage.schedule.compare.trial import Outcome, Setting, Trial, begin
from mirage.schedule.workload.read import read_any_profiles, workload_name

Progress = Callable[[int, int], object]
"""Told how many trials are done, and how many there are."""


@dataclass(frozen=True, slots=True)
class GpuComparison:
    """What became of all trials.

    Attributes:
        rows: One for each workload and scheduler, and the means over workloads at the end.
        outcomes: One for each workload and scheduler, in the same order.
        reused: Trials taken over from an earlier run.
    """

    rows: tuple[Row, ...]
    outcomes: tuple[Outcome, ...]
    reused: int


def compare(
    workloads: Sequence[str],
    schedulers: Sequence[str],
    setting: Setting,
    *,
    executor: Executor | None = None,
    progress: Progress = lambda done, total: None,
    resume_folder: Path | None = None,
) -> GpuComparison:
    """Play every workload under every scheduler.

    Args:
        workloads: Files.
        schedulers: As ``SchedulerText`` reads them.
        setting: Where they are played.
        executor: Who does the work; by default this process.
        progress: Told what is done.
        resume_folder: Where outcomes are kept as they come, and found again; None to keep none.

    Raises:
        MirageError: A workload, a scheduler or a profile cannot be used.
    """
    named = [SchedulerText.of(text) for text in schedulers]
    for what, given in (("workload", workloads), ("scheduler", schedulers)):
        twice = sorted({one for one in given if list(given).count(one) > 1})
        if twice or not given:
            raise ConfigurationError(
                f"{what}s: {', '.join(twice) + ' is there twice' if twice else 'none'}; name each once"
            )
    trials = [Trial(workload, scheduler) for workload in workloads for scheduler in named]
    journal = Journal(resume_folder)
    keys = {trial: _key(trial, setting) for trial in trials}
    kept = {trial: journal.outcome(keys[trial], workload_name(trial.workload)) for trial in trials}
    outcomes = {trial: outcome for trial, outcome in kept.items() if outcome is not None}
    reused = len(outcomes)
    progress(reused, len(trials))
    left = [trial for trial in trials if trial not in outcomes]
    if left:
        read_any_profiles(setting.profiles, setting.cluster)  # what is wrong with them is told here, not by a worker
    for trial, outcome in (executor or Processes())(begin, setting, left):
        journal.add(keys[trial], outcome)
        outcomes[trial] = outcome
        progress(len(outcomes), len(trials))
    in_order = tuple(outcomes[trial] for trial in trials)
    rows = [outcome.row for outcome in in_order]
    return GpuComparison((*rows, *mean_rows(rows)), in_order, reused)


def _key(trial: Trial, setting: Setting) -> str:
    try:
        return trial.key(setting)
    except OSError as error:
        raise ConfigurationError(f"{error.filename}: cannot be read: {error.strerror}; check the path") from error
