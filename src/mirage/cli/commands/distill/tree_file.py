"""``mirage distill show``, ``draw``, ``edit``, ``combine``, ``check``: files of trees."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mirage.atomic_file import write_output
from mirage.cli.commands.distill.distill_options import EpisodeOptions, episode_options
from mirage.cli.commands.distill.times import by_setting, times_line, times_under
from mirage.cli.options import CONTEXT, examples, is_given, json_output
from mirage.cli.output import check_output
from mirage.cli.values import WORDS
from mirage.errors import ConfigurationError, shown

if TYPE_CHECKING:
    from mirage.distill.tree import Tree


SHIPPED = "tree"
"""Name of the tree that ships with the package, in place of a file."""

tree_argument = click.argument("tree_file", metavar="[TREE]", default=SHIPPED)


def read(tree_file: str) -> tuple[str, Tree]:
    """Returns the text of a tree's file, or of the shipped one, and the tree.

    Raises:
        ConfigurationError: There is no such file, or it is not a tree that can run.
    """
    from mirage.dag.distilled.tree_policy import read_tree, shipped_path

    if tree_file == SHIPPED:
        return read_tree(shipped_path())
    path = path_of(tree_file)
    if not path.exists():
        raise ConfigurationError(_no_file(tree_file))
    return read_tree(path)


def path_of(tree_file: str) -> Path:
    """Returns the path of a tree's file."""
    return Path(tree_file.removeprefix(f"{SHIPPED}:"))


def check_tree_output(out: str, *inputs: str | Path | None) -> None:
    """Checks before the work that a tree can be written after it, and read by its name.

    Raises:
        ConfigurationError: The file cannot be written, or its name is that of the tree that ships.
    """
    if out == SHIPPED:
        raise ConfigurationError(f"{out} is the tree that ships with Mirage, not a file; name another file")
    check_output(out, *inputs)


def policy_of(tree_file: str) -> str:
    """Returns a tree as a policy name, even if a scheduler has the name of its file."""
    from mirage.dag.schedulers.stage_schedulers import known_schedulers

    name = tree_file.partition(":")[0]
    return f"{SHIPPED}:{tree_file}" if name != SHIPPED and name in known_schedulers() else tree_file


def _no_file(name: str) -> str:
    """Returns the message for an absent tree file."""
    from mirage.dag.schedulers.stage_schedulers import known_schedulers

    if name.partition(":")[0] in known_schedulers():
        return (
            f"{shown(name)} is a scheduler, not a tree: name a tree's file, or tree for the one that "
            f"ships; 'mirage dag compare --policies {name},tree' runs schedulers of any kind, and "
            f"'mirage distill fit --teacher {name} -o FILE' makes a tree of this one"
        )
    return (
        f"there is no file {name}; name a tree's file, as 'mirage distill fit', 'tune' and 'edit -o' write it, "
        "or tree for the one that ships"
    )


@click.command(context_settings=CONTEXT, epilog=examples("mirage distill show", "mirage distill show mine.txt --rules"))
@tree_argument
@click.option("--rules", is_flag=True, help="Print one line per leaf, the highest score first.")
def show(tree_file: str, rules: bool) -> None:
    """Show a tree; without a file, the one that ships with Mirage.

    Of all candidate stages, the one with the highest score gets executors; ties go to the job with less work. A stage
    with a score below 0 gets none.
    """
    from mirage.distill.tree_text import rules_of

    text, tree = read(tree_file)
    click.echo("\n".join(rules_of(tree)) if rules else text, nl=rules)


class _WithChanges(click.Command):
    """A command with arguments that may begin with a negative number, which is no option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, [f" {word}" if re.match(r"-[\d.]", word) else word for word in args])


@click.command(
    cls=_WithChanges,
    context_settings=CONTEXT,
    epilog=examples(
        "mirage distill edit mine.txt 'drains_in < 45s -> drains_in < 1min' -o other.txt",
        "mirage distill edit mine.txt '55: 4 -> 3'           a leaf is named by its line",
        "mirage distill edit mine.txt 'cap: 0.4 1.8 -> cap: 0 2'",
    ),
)
@click.argument("tree_file", metavar="TREE")
@click.argument("changes", metavar="CHANGE...", nargs=-1, required=True)
@click.option("-o", "--out", metavar="FILE", help="File for the edited tree.  [default: only show the diff]")
def edit(tree_file: str, changes: tuple[str, ...], out: str | None) -> None:
    """Change lines of a tree, each by 'OLD -> NEW', and show the diff.

    The result must be a tree that can run; otherwise nothing is written. TREE is a file, or tree for the one that ships
    with Mirage.
    """
    from mirage.dag.distilled.tree_policy import parameters_of
    from mirage.distill.editing import difference, edited

    text, before = read(tree_file)
    if out is not None:
        check_tree_output(out)
    after, tree = edited(text, changes, tree_file)
    parameters_of(tree)
    if out is not None:
        write_output(out, after)
    click.echo(difference(text, after, tree_file), nl=False)
    if after == text:
        click.echo(f"mirage: nothing differs: {tree_file} has these lines already", err=True)
    elif tree == before:
        click.echo("mirage: the tree decides as before: only its text differs", err=True)


@click.command(
    context_settings=CONTEXT,
    epilog=examples(
        "mirage distill check mine.txt",
        "mirage distill check mine.txt --teacher capped:0.25:1.5 --setting 50/200 --seeds 20-21",
        "mirage distill check mine.txt --case gap-15                      completion times in an edge case",
    ),
)
@tree_argument
@click.option("--teacher", metavar="POLICY", help="Also report how faithfully the tree imitates this scheduler.")
@episode_options
@json_output
def check(tree_file: str, teacher: str | None, played: EpisodeOptions, as_json: bool) -> None:
    """Check that a tree can run: print its leaves, depth, features and executor rule.

    With --teacher, or with an option of the episodes, the tree also plays them, and completion times are printed.
    """
    from mirage.dag.decima.decima_schedulers import with_weights
    from mirage.dag.distilled.executor_rule import rule_of
    from mirage.dag.distilled.student import judged
    from mirage.dag.distilled.teachers import teacher_of

    _, tree = read(tree_file)
    rule = dict(rule_of(dict(tree.settings)).settings())
    plays = any(is_given(field.name) for field in fields(EpisodeOptions))
    report: dict[str, object] = {
        "tree": tree_file,
        "leaves": len(tree.leaves),
        "depth": tree.depth,
        "asks": list(tree.tested),
        "settings": dict(tree.settings),
        "executor_rule": rule,
    }
    if teacher is not None:
        episodes = played.episodes()
        scheduler = with_weights(teacher, None, played.profiles)
        found = judged(teacher_of(scheduler), tree, episodes, [slice(None)] * len(episodes))
        states = {"states_of_teacher": asdict(found.on_teacher), "own_states": asdict(found.on_own)}
        times = by_setting(played.settings, found.mean_jct_s, found.makespan_s)
        report["fidelity"] = {"teacher": teacher, **states, **times}
    elif plays:
        times = times_under(tree, played, played.episodes())
        report |= {"case": played.case, **times}
    if as_json:
        click.echo(json.dumps(report, indent=2))
        return
    click.echo(
        f"{tree_file}: {len(tree.leaves)} leaves, depth {tree.depth}, tests {', '.join(tree.tested) or 'nothing'}"
    )
    click.echo(f"  executor rule: {', '.join(f'{key} {value}' for key, value in rule.items())}")
    if teacher is None and not plays:
        click.echo(f"  completion times: mirage distill run {tree_file}; fidelity: --teacher POLICY")
        return
    click.echo(f"  {times_line(times)}")
    if teacher is not None:
        for where, one in (("the teacher's states", found.on_teacher), ("its own states", found.on_own)):
            click.echo(f"  {fidelity_line(where, asdict(one))}")


def fidelity_line(where: str, one: dict[str, float]) -> str:
    """Returns the shares of decisions in which a tree agrees with its teacher, as a line."""
    return (
        f"{where}: job {one['job']:.1%}, stage {one['stage']:.1%}, executors {one['executors']:.1%}, "
        f"probability {one['probability']:.3f} of {one['most']:.3f}, {one['decisions']:,} decisions"
    )


@click.command(
    context_settings=CONTEXT,
    epilog=examples(
        "mirage distill draw -o tree.svg                    the tree that ships with Mirage",
        "mirage distill draw mine.txt -o mine.png",
    ),
)
@tree_argument
@click.option(
    "-o", "--out", required=True, metavar="FILE", help="Picture to write: .svg, or .png and .pdf by matplotlib."
)
def draw(tree_file: str, out: str) -> None:
    """Draw a tree: tests from left to right, scores at the leaves, the executor rule below."""
    from mirage.report.dag.tree_picture import tree_picture
    from mirage.report.picture_file import picture_kind, write_picture

    picture_kind(out)
    check_output(out)
    _, tree = read(tree_file)
    heading = "The tree that ships with Mirage" if tree_file == SHIPPED else tree_file
    write_picture(tree_picture(tree, heading), out)


@click.command(
    context_settings=CONTEXT,
    epilog=examples(
        "mirage distill combine quiet.txt busy.txt --above '20 %' -o both.txt",
        "mirage distill combine quiet.txt tree full.txt --above '10 %,150 %' -o three.txt",
    ),
)
@click.argument("tree_files", metavar="TREE TREE...", nargs=-1, required=True)
@click.option(
    "--above",
    "starts",
    type=WORDS,
    required=True,
    metavar="LOAD,…",
    help="Load, in jobs per executor and per cent, from which the second tree decides, then the third, and so on.",
)
@click.option("-o", "--out", required=True, metavar="FILE", help="The combined tree; its path is then a policy.")
@json_output
def combine(tree_files: tuple[str, ...], starts: tuple[str, ...], out: str, as_json: bool) -> None:
    """Combine several trees, each with its executor rule and its range of load, into one.

    The first tree decides while there are few jobs per executor in the cluster, the others from the loads of --above.
    The result is a tree like any other: it tests the load first, and the settings of the busier trees begin with
    ``crowded_``, ``crowded2_`` and so on. TREE is a file, or tree for the one that ships with Mirage.
    """
    from mirage.dag.distilled.combining import LOAD, combined
    from mirage.distill.tree_text import text_of
    from mirage.distill.units import number_of

    check_tree_output(out, *map(path_of, tree_files))
    loads = [number_of(word, LOAD.unit) for word in starts]
    tree = combined([read(file)[1] for file in tree_files], loads)
    write_output(out, text_of(tree))
    if as_json:
        parts = [{"tree": file, "from": load} for file, load in zip(tree_files, (0.0, *loads), strict=True)]
        click.echo(json.dumps({"tree": out, "leaves": len(tree.leaves), "parts": parts}, indent=2))
        return
    ranges = [f"below {starts[0]} {tree_files[0]}"]
    ranges += [f"from {start} on {file}" for start, file in zip(starts, tree_files[1:], strict=True)]
    click.echo(f"{out}: {len(tree.leaves)} leaves; {', '.join(ranges)}")
