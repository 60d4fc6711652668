"""``mirage distill draw``: a picture of a tree, with the executor rule below it."""

from __future__ import annotations

import click

from mirage.cli.commands.dag.distill.tree_file import SHIPPED, read, tree_argument
from mirage.cli.options import CONTEXT, examples
from mirage.cli.output import check_output


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
