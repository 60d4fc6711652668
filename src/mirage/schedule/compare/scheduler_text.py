"""Schedulers on a command line: ``tiresias`` or ``tiresias:thresholds_gpu_s=3600``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mirage.errors import ConfigurationError
from mirage.schedule.engine.compiled_scheduler import CompiledScheduler
from mirage.schedule.scheduler_contract import GpuScheduler
from mirage.schedule.schedulers.gpu_scheduler_registry import GpuSchedulerSpec, scheduler_spec


@dataclass(frozen=True, slots=True)
class SchedulerText:
    """A scheduler by name, with parameters of its own.

    Attributes:
        text: The text as written; its name in results.
        name: Its name.
        parameters: Its parameters by name.
    """

    text: str
    name: str
    parameters: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def of(cls, text: str) -> SchedulerText:
        """Read ``NAME[:KEY=VALUE]…``.

        A value that reads as a number, ``yes``, ``no``, ``true``, ``false`` or ``none`` is converted. Slashes separate
        several values of one parameter: ``tiresias:thresholds_gpu_s=3600/36000``.

        Raises:
            UnknownName: No scheduler has that name.
            ConfigurationError: A parameter is not ``KEY=VALUE``, the scheduler has no parameter of that name, or
                one is given twice.
        """
        name, *pairs = text.split(":")
        parameters = tuple(_pair(text, pair) for pair in pairs)
        found = cls(text, name, parameters)
        known = found.spec.parameters
        keys = [key for key, _ in parameters]
        for key in keys:
            if keys.count(key) > 1:
                raise ConfigurationError(f"scheduler {text!r} has {key} {keys.count(key)} times; give it once")
            if key not in known:
                raise ConfigurationError(
                    f"scheduler {name!r} has no parameter {key!r}; it has {', '.join(known) or 'none'}"
                )
        several = {key for key, default in known.items() if isinstance(default, tuple)}
        return cls(
            text, name, tuple((key, values if key in several else _one(text, values)) for key, values in parameters)
        )

    @property
    def spec(self) -> GpuSchedulerSpec:
        """The specification, known before the scheduler is loaded."""
        return scheduler_spec(self.name)

    def make(self, defaults: Mapping[str, Any] | None = None) -> GpuScheduler | CompiledScheduler:
        """A new scheduler without any memory.

        Args:
            defaults: Values of parameters that the text does not give; parameters that the scheduler does not have are
                ignored.
        """
        spec = self.spec
        known = {key: value for key, value in (defaults or {}).items() if key in spec.parameters}
        return spec.make(**{**known, **dict(self.parameters)})


def _pair(text: str, pair: str) -> tuple[str, tuple[Any, ...]]:
    key, sign, value = pair.partition("=")
    if not key or not sign or not value:
        raise ConfigurationError(f"scheduler {text!r}: {pair!r} is not KEY=VALUE; write NAME:KEY=VALUE")
    return key.replace("-", "_"), tuple(_value(word) for word in value.split("/"))


def _one(text: str, values: tuple[Any, ...]) -> Any:
    if len(values) > 1:
        raise ConfigurationError(f"scheduler {text!r}: {'/'.join(map(str, values))} are several values; give one")
    return values[0]


def _value(text: str) -> Any:
    words = {"yes": True, "no": False, "true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
