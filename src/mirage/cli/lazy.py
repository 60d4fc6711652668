"""Groups of commands that import a command only when it is run, so that ``--help`` is there at once."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from typing import Any, NamedTuple

import click


class LazyCommand(NamedTuple):
    """Where a command is and what it does.

    Attributes:
        target: ``module:attribute`` of a click command.
        summary: One line for the list of commands.
    """

    target: str
    summary: str

    def exists(self) -> bool:
        """Whether the module is there, found without importing it."""
        return importlib.util.find_spec(self.target.partition(":")[0]) is not None

    def load(self) -> click.Command:
        """The command itself."""
        module, _, attribute = self.target.partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command


class LazyGroup(click.Group):
    """A group whose commands are named here and imported when run.

    Args:
        lazy: The commands by name; one whose module is absent does not exist.
        attributes: Passed on to ``click.Group``.
    """

    def __init__(self, *, lazy: Mapping[str, LazyCommand], **attributes: Any) -> None:
        super().__init__(**attributes)
        self._lazy = {name: command for name, command in lazy.items() if command.exists()}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the order they were given."""
        return [*self._lazy, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, imported now."""
        lazy = self._lazy.get(cmd_name)
        return lazy.load() if lazy else super().get_command(ctx, cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands with their summaries, importing none of them."""
        rows = [(name, command.summary) for name, command in self._lazy.items()]
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)
