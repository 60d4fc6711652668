"""A comparison: plays every workload under every scheduler, on any executor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from pathlib import Path

from mirage.errors import ConfigurationError, MirageError
from mirage.executors.executor import Executor
from mirage.executors.local_processes import LocalProcesses
from mirage.schedule.compare.gpu_comparison_row import GpuComparisonRow, mean_rows
from mirage.schedule.compare.gpu_journal import GpuJournal, keys_of
from mirage.schedule.compare.gpu_trial import (
    GpuOutcome,
    GpuSetting,
    GpuTrial,
    TrialFailure,
    begin,
    errors_in_one_line,
    read,
)
from mirage.schedule.compare.scheduler_text import SchedulerText
from mirage.schedule.workload.gpu_workload import read_any_profiles
from mirage.schedule.workload.workload_names import workload_names

TrialProgress = Callable[[int, int], object]
"""Called with the number of completed trials and the total."""


@dataclass(frozen=True, slots=True)
class FailedTrial:
    """A trial that did not complete.

    Attributes:
        workload: Name of the workload.
        scheduler: The scheduler as the caller wrote it.
        error: The error message.
    """

    workload: str
    scheduler: str
    error: str


@dataclass(frozen=True, slots=True)
class GpuComparison:
    """Results of all trials.

    Attributes:
        rows: One for each workload and scheduler, then the means over workloads.
        outcomes: One for each workload and scheduler, in the same order.
        reused: Number of trials reused from an earlier run.
        failed: Trials without a row.
    """

    rows: tuple[GpuComparisonRow, ...]
    outcomes: tuple[GpuOutcome, ...]
    reused: int
    failed: tuple[FailedTrial, ...] = ()


def compare(
    workloads: Sequence[str],
    schedulers: Sequence[str],
    setting: GpuSetting,
    *,
    executor: Executor | None = None,
    progress: TrialProgress = lambda done, total: None,
    resume_folder: Path | None = None,
) -> GpuComparison:
    """Play every workload under every scheduler; a failed trial does not affect the others.

    Args:
        workloads: Files.
        schedulers: As ``SchedulerText`` reads them.
        setting: The cluster and options of the trials.
        executor: Runs the trials; by default this process.
        progress: Called with the number of completed trials.
        resume_folder: Stores each outcome when it is ready, and provides those of earlier runs; None to store none.

    Raises:
        MirageError: A workload, a scheduler or a profile cannot be used, or the executor fails before the first
            result; nothing was played.
    """
    named = _schedulers(schedulers)
    if not workloads:
        raise ConfigurationError("workloads: none; name each once")
    if "-" in workloads:
        raise ConfigurationError(
            "-: standard input can be read once only, but every scheduler plays the workload; save it to a file, or "
            "play it under one scheduler with mirage schedule run"
        )
    setting = setting.under(named)
    names = dict(zip(workloads, workload_names(workloads), strict=True))
    trials = [GpuTrial(workload, scheduler) for workload in workloads for scheduler in named]
    journal = GpuJournal(resume_folder)
    keys = {} if resume_folder is None else keys_of(trials, setting)
    stored = {trial: journal.outcome(key, names[trial.workload]) for trial, key in keys.items()}
    outcomes = {trial: outcome for trial, outcome in stored.items() if outcome is not None}
    reused = len(outcomes)
    progress(reused, len(trials))
    left = [trial for trial in trials if trial not in outcomes]
    _check(left, setting)
    failures: dict[GpuTrial, str] = {}
    try:
        for trial, outcome in (executor or LocalProcesses())(begin, setting, left):
            if isinstance(outcome, TrialFailure):
                failures[trial] = outcome.error
            else:
                if trial in keys:
                    journal.add(keys[trial], outcome)
                outcomes[trial] = replace(outcome, row=replace(outcome.row, workload=names[trial.workload]))
            progress(len(outcomes) + len(failures), len(trials))
    except (MirageError, BrokenProcessPool) as error:
        if not outcomes and not failures:
            raise _broken(error) from error
        why = f"not played: {_broken(error)}"
        failures |= {trial: why for trial in left if trial not in outcomes and trial not in failures}
    in_order = tuple(outcomes[trial] for trial in trials if trial in outcomes)
    rows = [outcome.row for outcome in in_order]
    failed = [FailedTrial(names[t.workload], t.scheduler.text, failures[t]) for t in trials if t in failures]
    return GpuComparison((*rows, *mean_rows(rows, len(names))), in_order, reused, tuple(failed))


def _broken(error: MirageError | BrokenProcessPool) -> MirageError:
    """The error to report for an executor that failed."""
    if isinstance(error, MirageError):
        return error
    return MirageError(f"a worker process ended unexpectedly ({error}); if memory ran out, give fewer --workers")


def _schedulers(texts: Sequence[str]) -> list[SchedulerText]:
    named = [SchedulerText.of(text) for text in texts]
    twice = sorted({one for one in texts if list(texts).count(one) > 1})
    if twice or not texts:
        raise ConfigurationError(
            f"schedulers: {', '.join(twice) + ' is given twice' if twice else 'none'}; name each once"
        )
    return named


def _check(trials: Sequence[GpuTrial], setting: GpuSetting) -> None:
    """Raise for invalid profiles, workloads and schedulers before anything is played."""
    if not trials:
        return
    with errors_in_one_line():
        for scheduler in dict.fromkeys(trial.scheduler for trial in trials):
            scheduler.make()
    profiles = read_any_profiles(setting.profiles, setting.cluster)
    for workload in dict.fromkeys(trial.workload for trial in trials):
        read(setting, workload, profiles)
