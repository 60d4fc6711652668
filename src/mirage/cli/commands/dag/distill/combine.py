"""``mirage distill combine``: several trees as one, each for its own range of load."""

from __future__ import annotations

import json

import click

from mirage.atomic_file import write_output
from mirage.cli.commands.dag.distill.tree_file import read
from mirage.cli.options import CONTEXT, examples, json_output
from mirage.cli.output import check_output
from mirage.cli.values import WORDS


@click.command(
    context_settings=CONTEXT,
    epilog=examples(
        "mirage distill combine quiet.txt busy.txt --from '20 %' -o both.txt",
        "mirage distill combine quiet.txt tree full.txt --from '10 %,150 %' -o three.txt",
    ),
)
@click.argument("tree_files", metavar="TREE TREE...", nargs=-1, required=True)
@click.option(
    "--from",
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

    The first tree decides while there are few jobs per executor in the cluster, the others from the loads of --from.
    The result is a tree like any other: it tests the load first, and the settings of the busier trees begin with
    ``crowded_``, ``crowded2_`` and so on. TREE is a file, or tree for the one that ships with Mirage.
    """
    from mirage.dag.distilled.combining import LOAD, combined
    from mirage.distill.tree_text import text_of
    from mirage.distill.units import number_of

    check_output(out)
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
