"""Groups of commands, imported only when run; a mistyped name gets the nearest one."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
from collections.abc import Mapping
from typing import Any, NamedTuple

import click

from mirage.errors import shown


class LazyCommand(NamedTuple):
    """A command that is imported only when it is run.

    Attributes:
        target: ``module:attribute`` of a click command.
        summary: One line for the list of commands.
    """

    target: str
    summary: str

    def exists(self) -> bool:
        """Whether the module exists; it is not imported."""
        return importlib.util.find_spec(self.target.partition(":")[0]) is not None

    def load(self) -> click.Command:
        """Imports and returns the command."""
        module, _, attribute = self.target.partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command


class CommandGroup(click.Group):
    """A group that suggests the nearest command for a mistyped name."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Returns the command that the first argument names.

        Raises:
            click.UsageError: No such command; the message names the nearest one.
        """
        name = args[0]
        if not name.startswith("-") and not ctx.resilient_parsing and self.get_command(ctx, name) is None:
            known = self.list_commands(ctx)
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"Did you mean {near[0]!r}?" if near else f"There are {', '.join(known)}."
            ctx.fail(f"No such command {shown(name)}. {hint}")
        return super().resolve_command(ctx, args)


class LazyGroup(CommandGroup):
    """A group with commands that are listed here and imported when run.

    Args:
        lazy: The commands by name; those with an absent module are left out.
        attributes: Passed to ``click.Group``.
    """

    def __init__(self, *, lazy: Mapping[str, LazyCommand], **attributes: Any) -> None:
        super().__init__(**attributes)
        self._lazy = {name: command for name, command in lazy.items() if command.exists()}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Returns the names, in the given order."""
        return [*self._lazy, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Imports and returns the command of a name; None without one."""
        lazy = self._lazy.get(cmd_name)
        return lazy.load() if lazy else super().get_command(ctx, cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the commands with their summaries; none of them is imported."""
        rows = [(name, command.summary) for name, command in self._lazy.items()]
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)
