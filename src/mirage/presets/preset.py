"""Presets: what a framework and its launcher need to leave in time, with sources."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

from mirage.duration import parse_duration_s
from mirage.errors import ConfigurationError

FILE, NOTHING = "file", "none"
"""Values of ``signal`` that are no signals: a stop file, and nothing at all."""


@dataclass(frozen=True, slots=True)
class SourcedValue:
    """A value of a preset.

    Attributes:
        source: Where it comes from.
        tried: The version that it was tried with; ``not tried`` where it was not.
    """

    value: str
    source: str
    tried: str


@dataclass(frozen=True, slots=True)
class Launcher:
    """What starts the processes of a training, such as torchrun.

    Attributes:
        command: Patterns of command lines in a batch script.
        environment: Variables to set; ``LEAD`` stands for the lead in seconds.
    """

    name: str
    title: str
    command: tuple[str, ...]
    environment: Mapping[str, SourcedValue] = field(default_factory=dict)
    traps: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Preset:
    """The settings of a framework.

    Attributes:
        code: Patterns of lines in Python files that the batch script starts.
        command: Patterns of command lines in a batch script.
        signal: What the wrapper sends to trainers or servers: a signal, ``file`` or ``none``.
        lead: Time from the warning to the end of a job.
        mark: Files, or a URL's path, that prove progress.
        requeue: ``no`` to submit with ``--no-requeue``.
        server: Whether it answers requests, rather than trains.
        needs: What the script or its configuration must have.
    """

    name: str
    title: str
    code: tuple[str, ...]
    command: tuple[str, ...]
    signal: SourcedValue
    lead: SourcedValue
    mark: SourcedValue
    requeue: SourcedValue
    server: bool = False
    needs: tuple[str, ...] = ()
    traps: tuple[str, ...] = ()

    @property
    def lead_s(self) -> int:
        """The lead in seconds."""
        return parse_duration_s(self.lead.value)


@cache
def presets() -> dict[str, Preset]:
    """All presets by name, in the order in which a script is compared with them."""
    return {name: _preset(name, row) for name, row in _tables()["framework"].items()}


@cache
def launchers() -> dict[str, Launcher]:
    """All launchers by name, in the order in which a script is compared with them."""
    return {name: _launcher(name, row) for name, row in _tables()["launcher"].items()}


def preset_named(name: str) -> Preset:
    """A preset by its name.

    Raises:
        ConfigurationError: There is none of this name; the message lists the known ones.
    """
    if name not in presets():
        raise ConfigurationError(f"--framework {name}: there is no such preset; choose from {', '.join(presets())}")
    return presets()[name]


@cache
def _tables() -> dict[str, Any]:
    return tomllib.loads((files("mirage.presets") / "presets.toml").read_text(encoding="utf-8"))


def _preset(name: str, row: Mapping[str, Any]) -> Preset:
    texts = {key: tuple(row[key]) for key in ("code", "command", "needs", "traps")}
    values = {key: SourcedValue(**row[key]) for key in ("signal", "lead", "mark", "requeue")}
    fields: dict[str, Any] = {**row, **texts, **values}
    return Preset(name, **fields)


def _launcher(name: str, row: Mapping[str, Any]) -> Launcher:
    environment = {variable: SourcedValue(**value) for variable, value in row["environment"].items()}
    return Launcher(name, row["title"], tuple(row["command"]), environment, tuple(row["traps"]))
