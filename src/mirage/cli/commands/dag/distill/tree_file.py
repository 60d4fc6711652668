"""``mirage distill show``, ``edit`` and ``check``: a tree that schedules stages, as a file that people own."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mirage.cli.commands.dag.distill.options import EpisodeOptions, episode_options
from mirage.cli.options import CONTEXT, examples, json_output
from mirage.cli.output import check_output, write_output

if TYPE_CHECKING:
    from mirage.distill.tree import Tree

SHIPPED = "tree"
"""The tree that ships with the package, in the place of a file."""

tree_argument = click.argument("tree_file", metavar="[TREE]", default=SHIPPED)


def read(tree_file: str) -> tuple[str, Tree]:
    """The text of a tree's file, or of the shipped one, and the tree."""
    from mirage.dag.distilled.tree_policy import read_tree, shipped_path

    return read_tree(shipped_path() if tree_file == SHIPPED else Path(tree_file))


@click.command(context_settings=CONTEXT, epilog=examples("mirage distill show", "mirage distill show mine.txt --rules"))
@tree_argument
@click.option("--rules", is_flag=True, help="A line for each leaf, the highest score first.")
def show(tree_file: str, rules: bool) -> None:
    """Show a tree; without a file the one that ships with Mirage.

    Of all stages that may be picked, the one with the highest score gets executors; ties go to the job with less work.
    A score below 0 leaves a stage alone.
    """
    from mirage.dag.distilled.rules import rules_of

    text, tree = read(tree_file)
    click.echo("\n".join(rules_of(tree)) if rules else text, nl=rules)


@click.command(
    context_settings=CONTEXT,
    epilog=examples(
        "mirage distill edit mine.txt 'drains_in < 35s -> drains_in < 1min' -o other.txt",
        "mirage distill edit mine.txt '44: 1 -> 3'           a leaf is named by its line",
        "mirage distill edit mine.txt 'cap: 0.4 1.8 -> cap: 0 2'",
    ),
)
@click.argument("tree_file", metavar="TREE")
@click.argument("changes", metavar="CHANGE...", nargs=-1, required=True)
@click.option("-o", "--out", metavar="FILE", help="Where the edited tree goes.  [default: only show what differs]")
def edit(tree_file: str, changes: tuple[str, ...], out: str | None) -> None:
    """Change lines of a tree, each by 'OLD -> NEW', and show what differs.

    What comes out must be a tree that can run; nothing is written otherwise. TREE is a file, or tree for the one that
    ships with Mirage.
    """
    from mirage.dag.distilled.tree_policy import parameters_of
    from mirage.distill.editing import difference, edited

    text, _ = read(tree_file)
    if out is not None:
        check_output(out)
    after, tree = edited(text, changes, tree_file)
    parameters_of(tree)
    if out is not None:
        write_output(out, after)
    click.echo(difference(text, after, tree_file), nl=False)


@click.command(
    context_settings=CONTEXT,
    epilog=examples(
        "mirage distill check mine.txt",
        "mirage distill check mine.txt --teacher capped:0.25:1.5 --setting 50/200 --seeds 20-21",
    ),
)
@tree_argument
@click.option("--teacher", metavar="POLICY", help="Also say how faithfully the tree does what this scheduler does.")
@episode_options
@json_output
def check(tree_file: str, teacher: str | None, played: EpisodeOptions, as_json: bool) -> None:
    """Say whether a tree can run as a scheduler: leaves, depth, what it asks, and the executor rule beside it."""
    from mirage.dag.distilled.student import judged
    from mirage.dag.distilled.teachers import teacher_of
    from mirage.dag.schedulers.registry import make_scheduler

    _, tree = read(tree_file)
    report: dict[str, object] = {
        "tree": tree_file,
        "leaves": len(tree.leaves),
        "depth": tree.depth,
        "asks": list(tree.asked),
        "settings": dict(tree.settings),
    }
    if teacher is not None:
        settings = played.episodes()
        found = judged(teacher_of(make_scheduler(teacher)), tree, settings, [slice(None)] * len(settings))
        report["fidelity"] = {
            "teacher": teacher,
            "states_of_teacher": asdict(found.on_teacher),
            "own_states": asdict(found.on_own),
            "mean_jct_s": dict(zip(played.settings, found.mean_jct_s, strict=True)),
        }
    if as_json:
        click.echo(json.dumps(report, indent=2))
        return
    click.echo(f"{tree_file}: {len(tree.leaves)} leaves, depth {tree.depth}, asks {', '.join(tree.asked) or 'nothing'}")
    if teacher is not None:
        for where, one in (("the teacher's states", found.on_teacher), ("its own states", found.on_own)):
            click.echo(f"  {fidelity_line(where, asdict(one))}")


def fidelity_line(where: str, one: dict[str, float]) -> str:
    """Shares of decisions in which a tree does as its teacher does."""
    return (
        f"{where}: job {one['job']:.1%}, stage {one['stage']:.1%}, executors {one['executors']:.1%}, "
        f"probability {one['probability']:.3f} of {one['most']:.3f}, {one['decisions']:,} decisions"
    )
