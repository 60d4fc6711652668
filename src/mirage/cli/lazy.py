"""Groups of commands, imported only when run; a mistyped name gets the nearest one.

Installed packages add commands to a group through its entry points. A built-in name stays the built-in command.
"""

from __future__ import annotations

import difflib
import importlib.util
from collections.abc import Mapping
from typing import Any, NamedTuple

import click

from mirage.cli.file_parameters import refuse_wrong_names
from mirage.cli.values import refuse_underscores
from mirage.errors import MirageError, shown
from mirage.registry import PlugIn, Registry, load_entry, plug_ins


class LazyCommand(NamedTuple):
    """A command that is imported only when it is run.

    Attributes:
        entry: ``module:attribute`` of a click command.
        summary: One line for the list of commands.
        section: Title of the part of that list that has it.
    """

    entry: str
    summary: str
    section: str = "Commands"

    def exists(self) -> bool:
        """Whether the module exists; it is not imported."""
        return importlib.util.find_spec(self.entry.partition(":")[0]) is not None

    def load(self) -> click.Command:
        """Imports and returns the command."""
        command: click.Command = load_entry(self.entry)
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
        found = super().resolve_command(ctx, args)
        if ctx.resilient_parsing and found[1] is not None:  # a shell completes a word
            from mirage.cli.completion import complete_values

            complete_values(found[1])
        elif found[1] is not None:
            refuse_wrong_names(found[1])
            refuse_underscores(found[1])
        return found


class LazyGroup(CommandGroup):
    """A group with commands that are listed here and imported when run.

    Args:
        lazy: The commands by name; those with an absent module are left out.
        group: Entry-point group of further commands; empty for none.
        attributes: Passed to ``click.Group``.
    """

    def __init__(self, *, lazy: Mapping[str, LazyCommand], group: str = "", **attributes: Any) -> None:
        super().__init__(**attributes)
        self._lazy = {name: command for name, command in lazy.items() if command.exists()}
        self._registry = Registry("command", group, self._lazy, _declared, "a click command")

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Returns the names, the built-in ones in the given order and then plug-ins."""
        return [*self._lazy, *(point.name for point in self._plug_ins()), *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Imports and returns the command of a name; None without one.

        Raises:
            ConfigurationError: The command of an installed package cannot be used; the message names the package.
        """
        if cmd_name in self._lazy:
            return self._lazy[cmd_name].load()
        if all(cmd_name != point.name for point in self._plug_ins()):
            return super().get_command(ctx, cmd_name)
        try:
            return self._registry.spec(cmd_name).load()
        except MirageError:
            if ctx.resilient_parsing:  # a shell completes a word
                return None
            raise

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the commands with their summaries; none of them is imported."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for name, command in self._lazy.items():
            sections.setdefault(command.section, []).append((name, command.summary))
        points = {point.name: point for point in self._plug_ins()}
        foreign = [(name, f"{point.summary} (package {point.package})".strip()) for name, point in points.items()]
        foreign += [
            (point.name, f"is built in: rename the command in the package {point.package}, or uninstall it")
            for point in self._plug_ins(taken=True)
        ]
        if foreign:
            sections["Commands of installed packages"] = foreign
        for title, rows in sections.items():
            with formatter.section(title):
                formatter.write_dl(rows)

    def _plug_ins(self, *, taken: bool = False) -> list[PlugIn]:
        """Returns the plug-ins with names of their own, or those with a built-in name."""
        points = plug_ins(self._registry.group) if self._registry.group else ()
        return sorted((one for one in points if (one.name in self._lazy) is taken), key=lambda one: one.name)


def _declared(entry: str, found: Any) -> LazyCommand | None:
    return LazyCommand(entry, "") if isinstance(found, click.Command) else None
