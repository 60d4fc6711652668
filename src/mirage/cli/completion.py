"""Completion of values in a shell: files, chains, and the names in registries.

click itself completes commands, options and choices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import click
from click.shell_completion import CompletionItem

from mirage.cli.file_parameters import names_file, names_folder
from mirage.registry import load_entry

_CHAIN_ARGUMENTS = {"name", "names"}

_NAMES = {
    "mirage.disciplines": "mirage.sim.disciplines.discipline_registry:known_disciplines",
    "mirage.gpu_schedulers": "mirage.schedule.schedulers.gpu_scheduler_registry:known_schedulers",
    "mirage.policies": "mirage.policy.policy_registry:known_policies",
    "mirage.stage_schedulers": "mirage.dag.schedulers.stage_schedulers:known_schedulers",
    "mirage.trace_readers": "mirage.trace.read_trace:known_formats",
    "mirage.wait_models": "mirage.predict.waits.wait_model_registry:known_wait_models",
}
"""By the entry-point group of an option's values, the function that returns the names."""

_Completion = Callable[[click.Context, str], list[CompletionItem]]


def complete_values(command: click.Command) -> None:
    """Make the parameters of a command complete by what their values are."""
    for parameter in command.params:
        complete = _completion(parameter)
        if complete is not None:
            setattr(parameter, "shell_complete", complete)  # noqa: B010  a method of one parameter


def _completion(parameter: click.Parameter) -> _Completion | None:
    if isinstance(parameter.type, click.Choice | click.Path):
        return None
    group = getattr(parameter, "group", "")
    if group in _NAMES:
        return lambda _, typed: _matching(load_entry(_NAMES[group])(), typed) or _files(_, typed)
    if isinstance(parameter, click.Argument) and parameter.name in _CHAIN_ARGUMENTS:
        return lambda _, typed: _matching(_chains(), typed)
    if names_folder(parameter):
        return lambda _, typed: [CompletionItem(typed, type="dir")]
    return _files if names_file(parameter) else None


def _files(_: click.Context, typed: str) -> list[CompletionItem]:
    return [CompletionItem(typed, type="file")]


def _matching(names: Iterable[str], typed: str) -> list[CompletionItem]:
    """The names that continue what is typed, after the last comma of a list."""
    before, comma, last = typed.rpartition(",")
    found = [name for name in sorted(names) if name.startswith(last)]
    return [CompletionItem(f"{before}{comma}{name}") for name in found]


def _chains() -> list[str]:
    from mirage.cli.cli_context import home
    from mirage.errors import MirageError

    try:
        if not home().folder.is_dir():
            return []
        from mirage.cli.cli_context import store

        with store(to_read=True) as opened:
            return [chain.name for chain in opened.chains()]
    except MirageError:  # a command says what is wrong; a key must not
        return []
