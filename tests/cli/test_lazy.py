"""Groups of commands that are imported when they are run."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from mirage.cli.lazy import CommandGroup, LazyCommand, LazyGroup

MODULE = """
import click


@click.command("dig")
@click.argument("depth")
def dig(depth):
    click.echo(f"dug {depth}")
"""


@pytest.fixture
def group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LazyGroup:
    """A group of one lazy command, one with a module that is absent, and one of its own."""
    (tmp_path / "garden_tools.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "garden_tools", raising=False)
    made = LazyGroup(
        name="garden",
        lazy={
            "dig": LazyCommand("garden_tools:dig", "Make a hole."),
            "mow": LazyCommand("garden_machines:mow", "Cut the grass."),
        },
    )
    made.add_command(click.Command("rest", callback=lambda: click.echo("rested")))
    return made


def test_the_list_shows_summaries_and_imports_nothing(group: LazyGroup) -> None:
    printed = CliRunner().invoke(group, ["--help"]).output.splitlines()
    assert printed[-2:] == ["Commands:", "  dig  Make a hole."]
    assert "garden_tools" not in sys.modules


def test_names_come_in_their_order_and_own_commands_after(group: LazyGroup) -> None:
    assert group.list_commands(click.Context(group)) == ["dig", "rest"]


@pytest.mark.parametrize(("words", "output"), [(["dig", "deep"], "dug deep\n"), (["rest"], "rested\n")])
def test_a_command_is_run(group: LazyGroup, words: list[str], output: str) -> None:
    done = CliRunner().invoke(group, words)
    assert (done.exit_code, done.output) == (0, output)


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("dgi", "No such command 'dgi'. Did you mean 'dig'?"),
        ("rset", "No such command 'rset'. Did you mean 'rest'?"),
        ("mow", "No such command 'mow'. There are dig, rest."),
        ("", "No such command ''. There are dig, rest."),
        ("y" * 100, f"No such command '{'y' * 77}…'. There are dig, rest."),
    ],
)
def test_a_mistyped_command_is_answered_with_the_nearest_or_with_all(group: LazyGroup, word: str, message: str) -> None:
    done = CliRunner().invoke(group, [word])
    assert done.exit_code == 2
    assert done.output.splitlines()[-1] == f"Error: {message}"


def test_a_word_that_is_an_option_is_answered_as_one(group: LazyGroup) -> None:
    done = CliRunner().invoke(group, ["--gid"])
    assert done.exit_code == 2
    assert done.output.splitlines()[-1].startswith("Error: No such option")


def test_while_a_shell_completes_nothing_is_refused() -> None:
    group = CommandGroup("garden", commands={"dig": click.Command("dig")})
    with click.Context(group, resilient_parsing=True) as context:
        assert group.resolve_command(context, ["di"]) == (None, None, [])


def test_whether_a_module_is_there_is_found_without_importing_it(group: LazyGroup) -> None:
    assert LazyCommand("garden_tools:dig", "").exists()
    assert not LazyCommand("garden_machines:mow", "").exists()
    assert "garden_tools" not in sys.modules
