"""The checker of commands finds violations; built-in commands pass."""

from __future__ import annotations

from collections.abc import Callable

import click
import pytest

from mirage.cli.check_command import check_command
from mirage.errors import ConfigurationError, ContractBroken, UnknownName

COUNT = [0]


@click.command()
@click.argument("name", default="ada")
def greet(name: str) -> None:
    """Greet by name."""
    click.echo(f"hello {name}")


@click.command()
def counting() -> None:
    """Count runs."""
    COUNT[0] += 1
    click.echo(COUNT[0])


@click.command()
def dumb() -> None:
    click.echo("nothing to read about me")


@click.command()
def falls() -> None:
    """Fall."""
    raise KeyError("ground")


@click.command()
def refuses() -> None:
    """Refuse."""
    raise ConfigurationError("give a better trace")


class Deaf(click.Command):
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, [word for word in args if word == "--help"])


@click.command(cls=Deaf)
def deaf() -> None:
    """Take every option."""


@pytest.mark.parametrize("name", ["trace", "doctor", "simulate"])
def test_built_in_commands_pass(name: str) -> None:
    check_command(name)


def test_a_command_that_satisfies_the_contract_passes() -> None:
    check_command(greet, ["grace"])


@pytest.mark.parametrize(
    ("command", "arguments", "complaint"),
    [
        (greet.callback, None, "is not a command; decorate a function"),
        (counting, [], r"counting  prints '1\\n' and then '2\\n'; let equal arguments give equal output"),
        (dumb, None, "dumb has no help text; give its function a docstring"),
        (falls, [], r"falls raises KeyError\('ground'\); raise a MirageError or a click.UsageError"),
        (refuses, [], r"refuses ends with 1, not 0: .*give a better trace"),
        (greet, ["a", "b"], "greet a b ends with 2, not 0"),
        (deaf, None, "deaf ends with 0 after an option that it does not have"),
    ],
)
def test_a_violation_is_named(command: click.Command, arguments: list[str] | None, complaint: str) -> None:
    COUNT[0] = 0
    with pytest.raises(ContractBroken, match=complaint):
        check_command(command, arguments)


def test_a_command_that_is_slow_to_import_is_named(install_package: Callable[..., None]) -> None:
    text = 'import click, numpy\n\n@click.command()\ndef add():\n    """Add."""\n'
    install_package("sums", "sums_pkg", text, {"mirage.commands": {"add": "sums_pkg:add"}})
    with pytest.raises(ContractBroken, match="add: importing sums_pkg loads numpy; import them in the function"):
        check_command("add")


def test_an_unknown_command_lists_those_there_are() -> None:
    with pytest.raises(UnknownName, match=r"unknown command 'smulate'\. Did you mean 'simulate'"):
        check_command("smulate")
