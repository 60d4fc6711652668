"""Sensitivity: how much waits and completion times depend on each assumption.

Every *case* changes one assumption, or one value of each with ``crossed``. It is played under all schedulers and all
references, on the same workloads. The effect is a ratio of a reference to a scheduler, of mean waits or of mean
completion times: above 1 the scheduler is better. A ratio is the geometric mean over the workloads. Its 95 % interval
is Student's, of the logarithms of the ratios by workload, which are paired; fewer than three workloads give none.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Self

import numpy as np

from mirage.array_types import Floats
from mirage.errors import ConfigurationError, UnknownName
from mirage.schedule.compare.assumptions import OF_SCHEDULERS, Assumptions
from mirage.schedule.compare.gpu_comparison import (
    FailedTrial,
    check_trials,
    check_workloads,
    named_schedulers,
    trial_keys,
)
from mirage.schedule.compare.gpu_comparison_row import GpuComparisonRow
from mirage.schedule.compare.gpu_trial import GpuOutcome, GpuSetting, GpuTrial, begin
from mirage.schedule.compare.inference_demand import DAILY
from mirage.schedule.compare.request_load import Serving
from mirage.schedule.compare.scheduler_text import SchedulerText
from mirage.schedule.compare.workload_names import workload_names
from mirage.study.executors.executor import Executor
from mirage.study.executors.work_codec import sent_to_jobs
from mirage.study.intervals import Interval, student_quantile
from mirage.study.journal import TrialJournal
from mirage.study.play_trials import Progress, play_trials
from mirage.study.trial import TrialFailure

FILE = "sensitivity-trials.jsonl"
"""Journal of the outcomes."""

FEWEST_WORKLOADS = 3
"""Fewer give no interval."""

SETTINGS = ("prediction_error", "save_succeeds", "cost_spread")
"""Assumptions that are options of their own."""

COSTS = ("restart_s", "save_s", "checkpoint_s")
"""Costs of preemption, for jobs without their own."""

OF_DAILY_DEMAND = ("demand_low", "demand_high")
OF_ANNOUNCEMENTS = ("notice_s", "announce_error")
OF_REQUESTS = tuple(f.name for f in fields(Serving))
"""Assumptions on inference: its daily demand, announcements of it or of that for requests, and requests."""

RANGES: Mapping[str, tuple[float, ...]] = {
    "elastic_jobs": (0.0, 0.05, 0.2),
    "elastic_gpu_time": (0.0, 0.18, 0.36, 0.72),
    "elastic_max": (2.0, 4.0),
    "fungible": (0.0, 0.21, 0.5, 1.0),
    "t4_per_v100": (1.0, 2.0, 3.0),
    "demand_low": (0.2, 0.35, 0.5),
    "demand_high": (0.8, 0.95, 1.0),
    "notice_s": (0.0, 60.0, 300.0, 1800.0),
    "announce_error": (0.0, 0.02, 0.1),
    "headroom": (0.0, 0.02, 0.1),
    "interval_s": (60.0, 300.0, 900.0),
    "prediction_error": (0.0, 0.1, 0.3, 1.0),
    "save_succeeds": (1.0, 0.9, 0.5, 0.0),
    "cost_spread": (0.0, 1.0),
    "most_loss_h": (0.0, 1.0, 4.0, 16.0),
    "least_gain_s": (0.0, 300.0, 1800.0),
    "margin": (0.0, 0.3, 1.0),
    "loss_weight": (0.0, 1.0, 15.0),
    "width_power": (0.0, 0.5, 1.0),
    "near_end": (0.0, 1.0, 4.0),
    "min_run_s": (0.0, 60.0, 600.0),
    "most_preemptions": (1.0, 3.0, 50.0),
}
"""The values of each assumption that are played if none are given (H): around those of the published system."""

_WIDENS = {"elastic", "most_gpus"}
"""Parameters of the schedulers that give jobs more GPUs than they request."""

_OPPOSITE: Mapping[str, Mapping[str, None]] = {
    "elastic_jobs": {"elastic_gpu_time": None},
    "elastic_gpu_time": {"elastic_jobs": None},
}
"""Assumptions of which only one can be given."""


@dataclass(frozen=True, slots=True)
class SensitivityCase:
    """What one case assumes.

    Attributes:
        assumed: The assumptions that differ from those of the caller, with their values; none for the first case.
        setting: The setting of its trials.
        schedulers: The schedulers with their parameters, by the text of the caller.
    """

    assumed: tuple[tuple[str, float], ...]
    setting: GpuSetting
    schedulers: tuple[tuple[str, SchedulerText], ...]

    @property
    def name(self) -> str:
        """Assumptions and values in one word; ``as given`` for the first case."""
        return ",".join(f"{key}={value:g}" for key, value in self.assumed) or "as given"


@dataclass(frozen=True, slots=True)
class PairedRatio:
    """A ratio over workloads.

    Attributes:
        ratio: Geometric mean; None if a value is 0.
        interval: Its 95 % interval; None with fewer than ``FEWEST_WORKLOADS`` workloads.
    """

    ratio: float | None
    interval: Interval | None

    @classmethod
    def of(cls, above: Floats, below: Floats) -> Self:
        """The ratio of paired values; shapes (workloads,)."""
        if not ((above > 0) & (below > 0)).all():
            return cls(None, None)
        logs = np.log(above / below)
        mean, n = float(logs.mean()), len(logs)
        if n < FEWEST_WORKLOADS:
            return cls(math.exp(mean), None)
        width = student_quantile(n - 1) * float(logs.std(ddof=1)) / math.sqrt(n)
        return cls(math.exp(mean), (math.exp(mean - width), math.exp(mean + width)))


@dataclass(frozen=True, slots=True)
class SensitivityRow:
    """One scheduler in one case; means are over the workloads.

    Attributes:
        assumed: The assumptions that differ from those of the caller, with their values.
        scheduler: The scheduler as the caller wrote it.
        mean_wait_s: Mean of the mean waits.
        mean_jct_s: Mean of the mean times from submission to completion.
        wait: Ratio of waits by reference.
        jct: Ratio of completion times by reference.
    """

    assumed: tuple[tuple[str, float], ...]
    scheduler: str
    mean_wait_s: float
    mean_jct_s: float
    wait: Mapping[str, PairedRatio]
    jct: Mapping[str, PairedRatio]
    preemptions: float
    restarts: float
    lost_gpu_h: float
    overhead_gpu_h: float
    breaches: float
    unmet_server_h: float

    def to_json(self) -> dict[str, Any]:
        """The row as JSON values."""
        return asdict(self) | {"assumed": dict(self.assumed)}


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """Results of all cases.

    Attributes:
        rows: One for each case and scheduler, the case without changes first.
        references: The references as the caller wrote them.
        left_out: Ranges that do not apply, with the reason.
        reused: Number of trials reused from an earlier run.
        failed: Trials without a result.
    """

    rows: tuple[SensitivityRow, ...]
    references: tuple[str, ...]
    left_out: Mapping[str, str]
    reused: int
    failed: tuple[FailedTrial, ...]


@dataclass(frozen=True, slots=True)
class CaseTrial:
    """A trial under one of several settings, by its number."""

    setting: int
    trial: GpuTrial


def sensitivity(
    workloads: Sequence[str],
    schedulers: Sequence[str],
    against: Sequence[str],
    setting: GpuSetting,
    vary: Mapping[str, Sequence[float]],
    *,
    crossed: bool = False,
    executor: Executor | None = None,
    progress: Progress | None = None,
    resume_folder: Path | None = None,
) -> Sensitivity:
    """Play every workload in every case under all schedulers and references.

    Args:
        workloads: Files; with one file per seed, intervals are over seeds.
        schedulers: As ``SchedulerText`` reads them.
        against: The references, in the same form.
        setting: The cluster and options of the first case.
        vary: Values by assumption; empty for ``RANGES``, as far as they apply.
        crossed: Whether the cases are all combinations of the values.
        executor: Runs the trials; by default this process.
        progress: Called with the number of completed trials.
        resume_folder: Stores each outcome when it is ready, and provides those of earlier runs; None to store none.

    Raises:
        MirageError: A workload, a scheduler or an assumption cannot be used; nothing was played.
    """
    named = named_schedulers([*against, *schedulers])
    if not schedulers or not against:
        raise ConfigurationError("schedulers: name at least one scheduler, and one to compare it with")
    check_workloads(workloads)
    found, left_out = cases(setting.under(named), named, vary, crossed)
    settings = tuple(dict.fromkeys(alone(case.setting, one) for case in found for _, one in case.schedulers))
    trials = {
        (k, text, workload): CaseTrial(settings.index(alone(case.setting, one)), GpuTrial(workload, one))
        for k, case in enumerate(found)
        for text, one in case.schedulers
        for workload in workloads
    }
    journal = None
    if resume_folder is not None:
        journal = TrialJournal(resume_folder / FILE, _case_keys(settings), GpuOutcome.from_json, asdict)
    played = play_trials(
        begin_cases,
        settings,
        sorted(set(trials.values()), key=lambda trial: (trial.setting, workloads.index(trial.trial.workload))),
        journal=journal,
        executor=executor,
        progress=progress,
        prepare=partial(_check_cases, settings),
        may_fail=True,
    )
    names = dict(zip(workloads, workload_names(workloads)))
    failed = [
        FailedTrial(f"{names[workload]} with {found[k].name}", text, played.failures[trial])
        for (k, text, workload), trial in trials.items()
        if trial in played.failures
    ]
    outcomes = {
        (k, text): [played.found[trials[k, text, workload]].row for workload in workloads]
        for k, case in enumerate(found)
        for text, _ in case.schedulers
        if all(trials[k, text, workload] in played.found for workload in workloads)
    }
    rows = [
        _row(case, text, outcomes[k, text], {name: outcomes[k, name] for name in against if (k, name) in outcomes})
        for k, case in enumerate(found)
        for text in schedulers
        if (k, text) in outcomes
    ]
    return Sensitivity(tuple(rows), tuple(against), left_out, played.reused, tuple(failed))


def values_of(texts: Sequence[str]) -> dict[str, tuple[float, ...]]:
    """Read ``KEY=V1,V2,…`` texts.

    Raises:
        ConfigurationError: A text has another form, or a key is given twice.
    """
    found: dict[str, tuple[float, ...]] = {}
    for text in texts:
        key, _, listed = text.partition("=")
        key = key.strip().replace("-", "_")
        try:
            values = tuple(dict.fromkeys(float(value) for value in listed.split(",")))
        except ValueError:
            values = (math.nan,)
        if not key or key in found or not np.isfinite(values).all():
            raise ConfigurationError(f"{text!r} is no range; give each assumption once, as KEY=NUMBER,NUMBER,…")
        found[key] = values
    return found


def cases(
    setting: GpuSetting, schedulers: Sequence[SchedulerText], vary: Mapping[str, Sequence[float]], crossed: bool
) -> tuple[list[SensitivityCase], dict[str, str]]:
    """The cases, and ranges that do not apply with the reason.

    Raises:
        UnknownName: There is no such assumption; the message lists those that exist.
        ConfigurationError: A value cannot be used.
    """
    texts = tuple((one.text, one) for one in schedulers)
    found, left_out = [SensitivityCase((), setting, texts)], {}
    if crossed and not vary:
        raise ConfigurationError("all combinations of all ranges are too many; give the assumptions to combine")
    if crossed:
        combined = [tuple(zip(vary, values)) for values in itertools.product(*vary.values())]
        return found + [under(setting, schedulers, assumed) for assumed in combined], {}
    for key, values in (vary or RANGES).items():
        is_checked = not vary or key in {f.name for f in fields(Assumptions)}
        reason = why_unused(key, setting, schedulers) if is_checked else None
        if reason is not None:
            left_out[key] = reason
            continue
        changed = [under(setting, schedulers, ((key, value),)) for value in values]
        found += [case for case in changed if (case.setting, case.schedulers) != (setting, texts)]
    return found, left_out


def under(
    setting: GpuSetting, schedulers: Sequence[SchedulerText], assumed: tuple[tuple[str, float], ...]
) -> SensitivityCase:
    """The case in which some assumptions have other values.

    Raises:
        UnknownName: There is no such assumption.
        ConfigurationError: A value cannot be used.
    """
    changed, texts = setting, [(one.text, one) for one in schedulers]
    for key, value in assumed:
        change: dict[str, Any] = {key: value}
        if key in SETTINGS:
            changed = replace(changed, **change)
        elif key in COSTS:
            changed = replace(changed, preemption_costs=replace(changed.preemption_costs, **change))
        elif key in (f.name for f in fields(Assumptions)):
            if key == "t4_per_v100" and value == int(value):
                change[key] = int(value)
            assumptions = replace(changed.assumptions, **_OPPOSITE.get(key, {}), **change)
            changed = replace(changed, assumptions=assumptions, cluster=assumptions.cluster(changed.cluster))
        elif any(key in one.spec.parameters for one in schedulers):
            texts = [(text, _with(one, key, value)) for text, one in texts]
        else:
            parameters = {name for one in schedulers for name in one.spec.parameters}
            known = {*(f.name for f in fields(Assumptions)), *SETTINGS, *COSTS, *parameters}
            raise UnknownName("assumption", key, sorted(known))
    return SensitivityCase(assumed, changed, tuple(texts))


def alone(setting: GpuSetting, scheduler: SchedulerText) -> GpuSetting:
    """The setting without parameters that a scheduler does not have or has of its own.

    The same trial is then played only once.
    """
    own = {key for key, _ in scheduler.parameters}
    unused = [key for key in OF_SCHEDULERS if key in own or key not in scheduler.spec.parameters]
    return replace(setting, assumptions=replace(setting.assumptions, **dict.fromkeys(unused)))


@sent_to_jobs
def begin_cases(
    settings: tuple[GpuSetting, ...],
) -> Callable[[CaseTrial], tuple[CaseTrial, GpuOutcome | TrialFailure]]:
    """A function that plays one trial under its setting, without times of single jobs."""

    @lru_cache(maxsize=2)
    def of(number: int) -> Callable[[GpuTrial], tuple[GpuTrial, GpuOutcome | TrialFailure]]:
        return begin(settings[number])

    def one(trial: CaseTrial) -> tuple[CaseTrial, GpuOutcome | TrialFailure]:
        found = of(trial.setting)(trial.trial)[1]
        return trial, found if isinstance(found, TrialFailure) else replace(found, jct_s=())

    return one


def _case_keys(settings: Sequence[GpuSetting]) -> Callable[[CaseTrial], str]:
    keys = [trial_keys(setting) for setting in settings]
    return lambda trial: keys[trial.setting](trial.trial)


def _check_cases(settings: Sequence[GpuSetting], trials: Sequence[CaseTrial]) -> None:
    """Raise for what cannot be played in the first case; others may fail alone."""
    first = trials[0].setting
    check_trials(settings[first], [trial.trial for trial in trials if trial.setting == first])


def why_unused(key: str, setting: GpuSetting, schedulers: Sequence[SchedulerText]) -> str | None:
    """The reason why an assumption changes nothing; None if it may change something.

    Raises:
        MirageError: The file of the inference demand cannot be used.
    """
    of_jobs = setting.assumptions
    if key == "headroom" and setting.demand is None:
        return "there is no inference demand"
    if key in OF_DAILY_DEMAND and setting.demand != DAILY:
        return "there is no daily demand"
    if key in OF_ANNOUNCEMENTS and setting.demand != DAILY and setting.request_load() is None:
        return "there is no daily demand, and there are no requests"
    if key in OF_REQUESTS and setting.request_load() is None:
        return "there are no requests"
    if key == "t4_per_v100" and "t4" not in setting.cluster.gpu_types:
        return "the cluster has no T4"
    if key == "fungible" and len(setting.cluster.gpu_types) < 2:
        return "the cluster has one GPU type"
    if key == "elastic_max" and of_jobs.elastic_jobs is None and of_jobs.elastic_gpu_time is None:
        return "no share of elastic jobs is assumed"
    known = {f.name for f in fields(Assumptions)} - set(OF_SCHEDULERS) | set(SETTINGS)
    if key not in known and not any(key in one.spec.parameters.keys() - dict(one.parameters) for one in schedulers):
        return "no scheduler has this parameter, or each has its own value"
    if key.startswith("elastic") and not any(_WIDENS & one.spec.parameters.keys() for one in schedulers):
        return "no scheduler has elastic jobs"
    return None


def _with(scheduler: SchedulerText, key: str, value: float) -> SchedulerText:
    """The scheduler with another value of a parameter, if it has no value of its own."""
    own = dict(scheduler.parameters)
    default = scheduler.spec.parameters.get(key)
    if key in own or default is None or value == default:
        return scheduler
    number = int(value) if isinstance(default, int) and value == int(value) else value
    return SchedulerText.of(f"{scheduler.text}:{key}={number:.15g}")


def _row(
    case: SensitivityCase,
    scheduler: str,
    rows: Sequence[GpuComparisonRow],
    references: Mapping[str, Sequence[GpuComparisonRow]],
) -> SensitivityRow:
    def column(of: Sequence[GpuComparisonRow], name: str) -> Floats:
        return np.array([getattr(row, name) for row in of], dtype=np.float64)

    def mean(name: str) -> float:
        return float(column(rows, name).mean())

    def ratios(name: str) -> dict[str, PairedRatio]:
        return {text: PairedRatio.of(column(of, name), column(rows, name)) for text, of in references.items()}

    return SensitivityRow(
        assumed=case.assumed,
        scheduler=scheduler,
        mean_wait_s=mean("mean_wait_s"),
        mean_jct_s=mean("mean_jct_s"),
        wait=ratios("mean_wait_s"),
        jct=ratios("mean_jct_s"),
        preemptions=mean("preemptions"),
        restarts=mean("restarts"),
        lost_gpu_h=mean("lost_gpu_h"),
        overhead_gpu_h=mean("overhead_gpu_h"),
        breaches=mean("breaches"),
        unmet_server_h=mean("unmet_server_h"),
    )
