"""Schedulers of GPU clusters by name, built-in or from entry points.

An entry point of the group ``mirage.gpu_schedulers`` names a ``GpuSchedulerSpec``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from mirage.errors import ConfigurationError, shown
from mirage.extras import install
from mirage.registry import Registry, call_entry, unusable
from mirage.schedule.engine.compiled_scheduler import CompiledScheduler
from mirage.schedule.scheduler_contract import GpuScheduler


@dataclass(frozen=True, slots=True)
class GpuSchedulerSpec:
    """Facts about a scheduler that are known before it is loaded.

    Attributes:
        entry: ``module:attribute`` of a class or function that makes it; called with its parameters by name.
        summary: One line for menus.
        parameters: Its parameters with their defaults.
        knows_run_s: Whether it needs true run times of jobs without a user's estimate.
        one_kind: Whether it runs each job on servers of one GPU type, one size and one pool.
        needs: Packages that it needs in addition to those that Mirage always installs.
    """

    entry: str
    summary: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    knows_run_s: bool = False
    needs: tuple[str, ...] = ()
    one_kind: bool = False

    def make(self, **parameters: Any) -> GpuScheduler | CompiledScheduler:
        """The scheduler with the given parameters.

        Raises:
            ConfigurationError: It has no such parameter, and the message lists those it has; or the type of a value
                is not that of the default, or a number is not finite; or a package that it needs is absent; or it
                cannot be imported, or makes no scheduler.
        """
        unknown = sorted(set(parameters) - set(self.parameters))
        if unknown:
            known = ", ".join(f"{name}={value}" for name, value in self.parameters.items()) or "none"
            raise ConfigurationError(f"{self.entry} has no parameter {', '.join(unknown)}; it has {known}")
        for key, value in parameters.items():
            _check(key, value, self.parameters[key])
        for package in self.needs:
            _check_installed(package)
        made = call_entry(self.entry, **{**self.parameters, **parameters})
        if not isinstance(made, GpuScheduler | CompiledScheduler):
            raise unusable(self.entry, f"makes {shown(made)}, which has no method decide(view)")
        return made


def _check_installed(package: str) -> None:
    try:
        import_module(package)
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"this scheduler needs {package}, which is not installed; run: {install('schedule')}"
        ) from error


def _check(key: str, value: Any, default: Any) -> None:
    """Check that a value has the type of the default.

    This is a finite number, a whole number, several of them, or a word.
    """
    values = tuple(value) if isinstance(default, tuple) and not isinstance(value, str) else (value,)
    sample = default[0] if isinstance(default, tuple) and default else default
    if isinstance(sample, str):
        right, wanted = all(isinstance(one, str) for one in values), "a word"
    elif isinstance(sample, bool):
        right, wanted = all(isinstance(one, bool) for one in values), "yes or no"
    else:
        numbers = all(isinstance(one, int | float) and not isinstance(one, bool) for one in values)
        right, wanted = numbers and all(math.isfinite(one) for one in values), "a number"
        if right and isinstance(sample, int):
            right, wanted = all(one == int(one) for one in values), "a whole number"
    if not right:
        example = "" if isinstance(sample, bool | tuple) else f", such as {sample!r}"
        given = "/".join(map(str, value)) if isinstance(value, tuple) else value
        raise ConfigurationError(f"{key} is {given!r}; give {wanted}{example}")


_HERE = "mirage.schedule.schedulers"
_SOLVER = ("scipy",)
_PREEMPT = {"preempt": "save"}
_ARYL = {"loans": True, "elastic": True, "interval_s": 300.0, "headroom": 0.02, **_PREEMPT, "extra_on_loans": True}
_SIA = {"fairness": -0.5, "waiting": 1.1, "most_gpus": 64, "round_s": 60.0, "tune_s": 15.0, **_PREEMPT}
SCHEDULERS: dict[str, GpuSchedulerSpec] = {
    "fifo": GpuSchedulerSpec(
        f"{_HERE}.gpu_fifo:scheduler", "first in, first out; the first that does not fit blocks the rest"
    ),
    "sjf": GpuSchedulerSpec(f"{_HERE}.gpu_sjf:scheduler", "shortest job first, without preemption", knows_run_s=True),
    "srtf": GpuSchedulerSpec(
        f"{_HERE}.gpu_srtf:scheduler", "shortest remaining time first, preemptive", _PREEMPT, knows_run_s=True
    ),
    "easy": GpuSchedulerSpec(
        f"{_HERE}.gpu_easy:scheduler", "EASY backfill: the head has a reservation", knows_run_s=True
    ),
    "tiresias": GpuSchedulerSpec(
        f"{_HERE}.tiresias:scheduler",
        "least attained service in two levels, preemptive",
        {"thresholds_gpu_s": (3600.0,), **_PREEMPT},
    ),
    "gittins": GpuSchedulerSpec(
        f"{_HERE}.tiresias:gittins_scheduler",
        "Gittins index in levels, preemptive; needs service_gpu_s, the GPU-seconds of earlier jobs",
        {"service_gpu_s": (), "levels": 16, **_PREEMPT},
    ),
    "aryl": GpuSchedulerSpec(
        f"{_HERE}.aryl:scheduler",
        "inference lends idle servers to training, and elastic jobs use what is left (EuroSys'23)",
        {**_ARYL, "least_gain_s": 0.0},
        knows_run_s=True,
    ),
    "aryl-plus": GpuSchedulerSpec(
        f"{_HERE}.aryl:plus_scheduler",
        "aryl with moves to faster GPUs, the smallest jobs first, wide starts, and losses weighed in reclaims",
        {
            **_ARYL,
            "most_loss_h": 24.0,
            "least_gain_s": 300.0,
            "reclaim": "greedy",
            "moves": True,
            "width_power": 1.0,
            "wide_starts": True,
            "least_work_first": True,
        },
        knows_run_s=True,
    ),
    "pickyman": GpuSchedulerSpec(
        f"{_HERE}.pickyman:PickyMan",
        "preempts at the end of an epoch if the waiting time saved exceeds the losses (IPCCC'22)",
        {"near_end": 1.0, "width_power": 0.0, "preempt": "boundary"},
        knows_run_s=True,
    ),
    "pickyman-plus": GpuSchedulerSpec(
        f"{_HERE}.pickyman_plus:PickyManPlus",
        "pickyman with all waits weighed, the cheapest way to preempt each job, and bounds",
        {
            "margin": 0.3,
            "loss_weight": 1.0,
            "width_power": 0.5,
            "save_succeeds": 1.0,
            "most_preemptions": 50,
            "min_run_s": 60.0,
        },
        knows_run_s=True,
    ),
    "fitgpp": GpuSchedulerSpec(
        f"{_HERE}.fitgpp:FitGpp",
        "short jobs preempt one small job that leaves quickly",
        {"trial_s": 1800.0, "grace_weight": 4.0, "most_preemptions": 1, "min_run_s": 600.0},
        knows_run_s=True,
    ),
    "kueue": GpuSchedulerSpec(
        f"{_HERE}.kueue:Kueue",
        "Kueue's rule: preempts the lowest priority and the newest; earlier submissions have priority",
        {"class_jobs": 50, "min_run_s": 0.0},
        knows_run_s=True,
    ),
    "slurm-preempt": GpuSchedulerSpec(
        f"{_HERE}.slurm_preempt:SlurmPreempt",
        "Slurm's preempt-and-requeue between tiers of run time, with an exempt time",
        {"tier_limits_s": (3600.0, 43200.0), "first": "youngest", "exempt_s": 600.0},
        knows_run_s=True,
    ),
    "gavel": GpuSchedulerSpec(
        f"{_HERE}.gavel:Gavel",
        "shares of time on every GPU type by a linear program, in rounds of 360 s (OSDI'20)",
        {"objective": "max-sum", "round_s": 360.0, **_PREEMPT},
        needs=_SOLVER,
        one_kind=True,
    ),
    "gavel-max-min": GpuSchedulerSpec(
        f"{_HERE}.gavel:Gavel",
        "gavel, for the job that gains least over an equal split",
        {"objective": "max-min", "round_s": 360.0, **_PREEMPT},
        needs=_SOLVER,
        one_kind=True,
    ),
    "sia": GpuSchedulerSpec(
        f"{_HERE}.sia:Sia",
        "goodput of every configuration, and every 60 s the fairest assignment (SOSP'23)",
        _SIA,
        needs=_SOLVER,
        one_kind=True,
    ),
    "sia-plus": GpuSchedulerSpec(
        f"{_HERE}.sia:SiaPlus",
        "sia with measurements shared by all jobs of a model, and true restart costs",
        _SIA,
        needs=_SOLVER,
        one_kind=True,
    ),
}
"""Name → specification."""

_REGISTRY = Registry(
    "GPU scheduler",
    "mirage.gpu_schedulers",
    SCHEDULERS,
    lambda _, found: found if isinstance(found, GpuSchedulerSpec) else None,
    "a GpuSchedulerSpec",
)


def known_schedulers() -> tuple[str, ...]:
    """Names of the schedulers, built-in and of installed packages; nothing is imported."""
    return _REGISTRY.names()


def scheduler_spec(name: str) -> GpuSchedulerSpec:
    """The specification of a scheduler by name.

    Raises:
        UnknownName: No scheduler has that name.
        ConfigurationError: Two packages define the name, or one cannot be loaded.
    """
    return _REGISTRY.spec(name)


def make_scheduler(name: str, **parameters: Any) -> GpuScheduler | CompiledScheduler:
    """Make a scheduler by name.

    Raises:
        UnknownName: No scheduler has that name.
        ConfigurationError: It has no such parameter, or cannot be loaded.
    """
    return scheduler_spec(name).make(**parameters)
