"""Completion of values in a shell: files, chains, and the names in registries.

click itself completes commands, options and choices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import click
from click.shell_completion import CompletionItem, get_completion_class

from mirage.cli.file_parameters import names_file, names_folder
from mirage.errors import ConfigurationError, shown
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


def check_completion(environment: Mapping[str, str]) -> None:
    """Checks the variables by which a shell requests a completion.

    Raises:
        ConfigurationError: They are incomplete, as in a command that a user types.
    """
    shell, _, instruction = (environment.get("_MIRAGE_COMPLETE") or "bash_source").partition("_")
    position = environment.get("COMP_CWORD")  # fish gives the word itself
    typed = "COMP_WORDS" in environment and position is not None and (shell == "fish" or position.isdecimal())
    if get_completion_class(shell) is None or not (instruction == "source" or (instruction == "complete" and typed)):
        raise ConfigurationError(
            f"_MIRAGE_COMPLETE={shown(environment['_MIRAGE_COMPLETE'])} is for a shell's completion; unset it, or give "
            "bash_source, zsh_source or fish_source to print the script of a shell"
        )


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
