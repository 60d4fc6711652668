"""A comparison: plays every workload under every scheduler, on any executor."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from pathlib import Path

from mirage.errors import ConfigurationError
from mirage.schedule.compare.gpu_comparison_row import GpuComparisonRow, mean_rows
from mirage.schedule.compare.gpu_trial import GpuOutcome, GpuSetting, GpuTrial, begin, errors_in_one_line, read
from mirage.schedule.compare.inference_demand import DAILY
from mirage.schedule.compare.scheduler_text import SchedulerText
from mirage.schedule.compare.workload_names import workload_names
from mirage.schedule.workload.gpu_workload import read_any_profiles
from mirage.study.executors.executor import Executor
from mirage.study.journal import TrialJournal
from mirage.study.play_trials import Progress, play_trials
from mirage.study.trial import code_key, key_of

FILE = "schedule-trials.jsonl"
"""Journal of the outcomes."""


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
    progress: Progress | None = None,
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
    named = named_schedulers(schedulers)
    check_workloads(workloads)
    setting = setting.under(named)
    names = dict(zip(workloads, workload_names(workloads)))
    trials = [GpuTrial(workload, scheduler) for workload in workloads for scheduler in named]
    journal = None
    if resume_folder is not None:
        journal = TrialJournal(resume_folder / FILE, trial_keys(setting), GpuOutcome.from_json, asdict)
    played = play_trials(
        begin,
        setting,
        trials,
        journal=journal,
        executor=executor,
        progress=progress,
        prepare=partial(check_trials, setting),
        may_fail=True,
    )
    outcomes = {
        trial: replace(outcome, row=replace(outcome.row, workload=names[trial.workload]))
        for trial, outcome in played.found.items()
    }
    in_order = tuple(outcomes[trial] for trial in trials if trial in outcomes)
    rows = [outcome.row for outcome in in_order]
    failures = played.failures
    failed = [FailedTrial(names[t.workload], t.scheduler.text, failures[t]) for t in trials if t in failures]
    return GpuComparison((*rows, *mean_rows(rows, len(names))), in_order, played.reused, tuple(failed))


def trial_keys(setting: GpuSetting) -> Callable[[GpuTrial], str]:
    """Returns the function from a trial to its key: files, settings, scheduler and code.

    Raises:
        ConfigurationError: A file cannot be read; the function raises it, too.
    """
    content_of = cache(_digest_of)
    profiles = None if setting.profiles is None else content_of(setting.profiles)
    demand = None if setting.demand is None or setting.demand == DAILY else content_of(setting.demand)

    @cache
    def key(trial: GpuTrial) -> str:
        modules = [GpuTrial.__module__, trial.scheduler.spec.entry.partition(":")[0]]
        code = code_key(modules, "numpy", "numba", "scipy")  # kernels, and the solution of programs
        return key_of(
            replace(setting, profiles=None), profiles, demand, content_of(trial.workload), trial.scheduler, code
        )

    return key


def _digest_of(path: str) -> str:
    """Digest of a file, or of all files below a folder with their relative names."""
    digest, root = hashlib.sha256(), Path(path)
    try:
        files = sorted(file for file in root.rglob("*") if file.is_file()) if root.is_dir() else [root]
        for file in files:
            content = file.read_bytes()
            digest.update(f"{file.relative_to(root)} {len(content)}\n".encode() + content)
    except OSError as error:
        raise ConfigurationError(f"{error.filename}: cannot be read: {error.strerror}; check the path") from error
    return digest.hexdigest()


def check_workloads(workloads: Sequence[str]) -> None:
    """Refuse a list of workloads that several schedulers cannot play.

    Raises:
        ConfigurationError: It is empty, or contains standard input.
    """
    if not workloads:
        raise ConfigurationError("workloads: none; name each once")
    if "-" in workloads:
        raise ConfigurationError(
            "-: standard input can be read once only, but every scheduler plays the workload; save it to a file, or "
            "play it under one scheduler with mirage schedule run"
        )


def named_schedulers(texts: Sequence[str]) -> list[SchedulerText]:
    """The schedulers of a list of texts.

    Raises:
        ConfigurationError: The list is empty, or one is given twice.
        UnknownName: No scheduler has one of the names.
    """
    named = [SchedulerText.of(text) for text in texts]
    twice = sorted({one for one in texts if list(texts).count(one) > 1})
    if twice or not texts:
        raise ConfigurationError(
            f"schedulers: {', '.join(twice) + ' is given twice' if twice else 'none'}; name each once"
        )
    return named


def check_trials(setting: GpuSetting, trials: Sequence[GpuTrial]) -> None:
    """Refuse invalid profiles, workloads and schedulers before anything is played.

    Raises:
        MirageError: One cannot be used.
    """
    with errors_in_one_line():
        for scheduler in dict.fromkeys(trial.scheduler for trial in trials):
            scheduler.make()
    profiles = read_any_profiles(setting.profiles, setting.cluster)
    for workload in dict.fromkeys(trial.workload for trial in trials):
        read(setting, workload, profiles)
