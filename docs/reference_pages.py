"""The pages of the reference: one for the commands, and one for each room."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import click

from mirage.cli import root

INTERNAL = {("sim", "kernel"), ("lab", "commands"), ("agent", "policy_runner")}
"""Folders that hold nothing for others to call."""

COMMANDS = """Commands
========

.. click:: mirage.cli:root
   :prog: mirage
   :nested: full
"""


class OptionUse(NamedTuple):
    """An option of a command.

    Attributes:
        command: Words of the command after ``mirage``.
        option: The option.
    """

    command: str
    option: click.Option

    @property
    def value(self) -> str:
        """The word for its value in ``--help``; empty for a flag."""
        option = self.option
        if option.is_flag:
            return ""
        if isinstance(option.type, click.Choice):
            return "|".join(str(choice) for choice in option.type.choices)
        if option.metavar:
            return option.metavar
        own = option.type.get_metavar(option, click.Context(root))  # such as the names of all executors
        return own.strip("[]") if own else {"path": "FILE"}.get(option.type.name, "N")

    @property
    def meaning(self) -> str:
        """The help, with the default value where ``--help`` shows one."""
        text = self.option.help or ""
        default = self.option.get_help_extra(click.Context(root)).get("default")
        return f"{text}  [default: {default}]".lstrip() if default else text


def option_uses() -> dict[str, list[OptionUse]]:
    """The visible options of all commands by their longest name, without ``--help``."""
    uses: dict[str, list[OptionUse]] = defaultdict(list)
    for words, command in _commands(root, ()):
        for option in command.params:
            if isinstance(option, click.Option) and not option.hidden:
                uses[max(option.opts, key=len)].append(OptionUse(" ".join(words), option))
    return dict(sorted(uses.items()))


def _commands(command: click.Command, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    if not isinstance(command, click.Group):
        yield words, command
        return
    context = click.Context(command, info_name="mirage")
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found is not None
        yield from _commands(found, (*words, name))


def _options_page() -> str:
    lines = [
        "# Options",
        "",
        "Every option of every command. Most have one meaning everywhere; where not, each is listed.",
        "",
    ]
    lines += ["| option | value | commands | meaning |", "|---|---|---|---|"]
    for name, uses in option_uses().items():
        by_meaning = defaultdict(list)
        for use in uses:
            by_meaning[use.meaning].append(use)
        for meaning, same in by_meaning.items():
            short = "".join(f"`{one}`, " for one in same[0].option.opts if one != name)
            value = f"`{_escaped(same[0].value)}`" if same[0].value else ""
            commands = ", ".join(f"`{use.command}`" for use in same if not use.command.startswith("train "))
            trained = [use.command.removeprefix("train ") for use in same if use.command.startswith("train ")]
            if trained:
                words = ", ".join(trained) if len(trained) < 4 else "METHOD"
                commands += (", " if commands else "") + f"`train {words}`"
            lines.append(f"| {short}`{name}` | {value} | {commands} | {_escaped(meaning)} |")
    return "\n".join([*lines, ""])


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def write_pages(package: Path, folder: Path) -> None:
    """Write the pages of commands, options, each room, and the root modules."""
    folder.mkdir(exist_ok=True)
    (folder / "options.md").write_text(_options_page(), encoding="utf-8")
    rooms = sorted(path for path in package.iterdir() if (path / "__init__.py").exists() and path.name != "cli")
    pages = {"commands": COMMANDS, "ground": _page("Ground floor", _modules(package, package.glob("*.py")))}
    for room in rooms:
        pages[room.name] = _page(f"mirage.{room.name}", _modules(package, room.rglob("*.py")))
    for path in folder.glob("*.rst"):
        if path.stem not in pages:
            path.unlink()
    for name, text in pages.items():
        path = folder / f"{name}.rst"
        if not path.exists() or path.read_text(encoding="utf-8") != text:  # an unchanged page is not built again
            path.write_text(text, encoding="utf-8")


def _modules(package: Path, files: Iterable[Path]) -> list[tuple[str, bool]]:
    """Dotted names of modules with anything to document, and whether each is a package."""
    found = []
    for path in sorted(files):
        if path.name == "__main__.py" or "migrations" in path.parts or path.relative_to(package).parts[:2] in INTERNAL:
            continue
        parts = ("mirage", *path.relative_to(package).with_suffix("").parts)
        is_package = parts[-1] == "__init__"
        found.append((".".join(parts[:-1] if is_package else parts), is_package))
    return found


def _page(title: str, modules: list[tuple[str, bool]]) -> str:
    lines = [title, "=" * len(title), ""]
    for name, is_package in modules:
        if name.count(".") > 1 or not is_package:
            lines += [name, "-" * len(name), ""]
        lines += [f".. automodule:: {name}", *(["   :no-members:"] if is_package else []), ""]
    return "\n".join(lines)
