"""``mirage distill run``: a tree compared with other schedulers of stages."""

from __future__ import annotations

import click

from mirage.cli.commands.dag.dag_compare import compare
from mirage.cli.commands.distill.distill_options import EpisodeOptions, episode_options
from mirage.cli.commands.distill.tree_file import policy_of, read, tree_argument
from mirage.cli.options import CONTEXT, ExtensibleOption, examples, json_output
from mirage.cli.values import WORDS


@click.command(
    context_settings=CONTEXT,
    epilog=examples(
        "mirage distill run", "mirage distill run mine.txt --policies tree,fair --setting 50/200 --seeds 0-9"
    ),
)
@tree_argument
@click.option(
    "--policies",
    "others",
    cls=ExtensibleOption,
    group="mirage.stage_schedulers",
    type=WORDS,
    default="fair,capped:0.25:1.5",
    show_default=True,
    metavar="LIST",
    help="The schedulers to compare the tree with, with parameters after colons.",
)
@episode_options
@json_output
@click.pass_context
def run(ctx: click.Context, tree_file: str, others: tuple[str, ...], played: EpisodeOptions, as_json: bool) -> None:
    """Compare a tree with other schedulers: ``mirage dag compare`` with this tree first."""
    read(tree_file)
    ctx.invoke(
        compare,
        profiles=played.profiles,
        settings=played.setting,
        seeds=played.seeds,
        policies=(policy_of(tree_file), *others),
        against=None,
        gap_s=played.gap_s,
        moving_s=played.moving_s,
        noise=played.noise,
        case=played.case,
        environment="spark-sched-sim",
        plots=None,
        as_json=as_json,
    )
