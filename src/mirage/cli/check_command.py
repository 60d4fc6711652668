"""Check of a command; run it on your own command before you plug it in."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

import click
from click.testing import CliRunner, Result

from mirage.cli import root
from mirage.errors import ContractBroken, MirageError, UnknownName, shown
from mirage.worker_processes import WorkerProcesses

HEAVY = ("numpy", "numba", "scipy", "pandas", "torch", "matplotlib", "sklearn", "xgboost", "pyarrow")
"""Modules that a command imports when it runs, never when it is imported."""


def check_command(command: str | click.Command, arguments: Sequence[str] | None = None) -> None:
    """Run a command and check that it behaves as commands do.

    Its module, imported in a process of its own, loads no heavy module, so that help stays fast. It has a help text,
    and refuses an unknown option with exit status 2. With ``arguments`` it runs twice, and both runs end with exit
    status 0 and print the same to standard output.

    Args:
        command: Its name, or the command itself.
        arguments: Arguments with which it succeeds; None to run it only with ``--help`` and an unknown option.

    Raises:
        UnknownName: There is no command of the name.
        ContractBroken: The first violation found.
    """
    found = _named(command) if isinstance(command, str) else command
    if not isinstance(found, click.Command):
        raise ContractBroken(f"{shown(found)} is not a command; decorate a function with @click.command()")
    name = command if isinstance(command, str) else found.name or "command"
    if found.callback is not None:
        _check_light(name, found.callback.__module__)
    if not found.get_short_help_str():
        raise ContractBroken(f"{name} has no help text; give its function a docstring")
    _run(name, found, ["--help"])
    if not found.ignore_unknown_options:
        done = CliRunner().invoke(found, ["--no-such-option"])
        if done.exit_code != 2:
            raise ContractBroken(
                f"{name} ends with {done.exit_code} after an option that it does not have; let click refuse it with 2"
            )
    if arguments is not None:
        first, again = (_run(name, found, arguments).stdout for _ in range(2))
        if first != again:
            raise ContractBroken(
                f"{name} {' '.join(arguments)} prints {shown(first)} and then {shown(again)}; let equal arguments "
                "give equal output, with --seed for what is drawn, and print progress to standard error"
            )


def _named(name: str) -> click.Command:
    context = click.Context(root)
    found = root.get_command(context, name)
    if found is None:
        raise UnknownName("command", name, root.list_commands(context))
    return found


def _run(name: str, command: click.Command, arguments: Sequence[str]) -> Result:
    done = CliRunner().invoke(command, list(arguments), prog_name=name)
    line = " ".join([name, *arguments])
    if done.exception is not None and not isinstance(done.exception, SystemExit | MirageError):
        raise ContractBroken(
            f"{line} raises {done.exception!r}; raise a MirageError or a click.UsageError that says what to do"
        ) from done.exception
    if done.exit_code != 0:
        raise ContractBroken(f"{line} ends with {done.exit_code}, not 0: {done.exception!r} {done.output.strip()}")
    return done


def _check_light(name: str, module: str) -> None:
    """Checks what an import of the module loads, in a fresh process."""
    with WorkerProcesses(1, _set_path, sys.path) as workers:
        heavy = workers.submit(_loaded_by, module).result()
    if heavy:
        raise ContractBroken(
            f"{name}: importing {module} loads {', '.join(heavy)}; import them in the function, after the options are "
            "read"
        )


def _set_path(path: list[str]) -> None:
    sys.path[:] = path


def _loaded_by(module: str) -> list[str]:
    before = set(sys.modules)
    import_module(module)
    return [name for name in HEAVY if name in sys.modules and name not in before]
