"""``mirage distill tune``: small changes of a tree that make jobs end sooner."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mirage.atomic_file import write_output
from mirage.cli.commands.distill.distill_options import EpisodeOptions, episode_options
from mirage.cli.commands.distill.times import times_line, times_under
from mirage.cli.commands.distill.tree_file import SHIPPED, check_tree_output, path_of, read
from mirage.cli.options import CONTEXT, examples, json_output, seed_option
from mirage.cli.output import checkpoint_of, resumable
from mirage.cli.values import COUNT_OR_NONE, IntegerRange
from mirage.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mirage.array_types import Floats
    from mirage.dag.distilled.tuning import Episodes, TuningResult
    from mirage.distill.tree import Tree


@click.command(
    context_settings=CONTEXT,
    epilog=examples(
        "mirage distill tune mine.txt --seeds 1000-1027 --changes 500 -o tuned.txt",
        "mirage distill tune student.txt --prune -o tuned.txt",
        "mirage distill tune mine.txt --numbers --gap 15 -o busy.txt       thresholds, scores and the rule only",
        "mirage distill tune tree --case large-job -o large.txt            on a named edge case",
    ),
)
@click.argument("tree_file", metavar="TREE")
@click.option("-o", "--out", required=True, metavar="FILE", help="Tuned tree to write; its path is then a policy.")
@click.option(
    "--changes", type=COUNT_OR_NONE, default=300, show_default=True, metavar="N", help="Number of changes to try."
)
@click.option(
    "--leaves",
    type=IntegerRange(1, 1024),
    default=32,
    show_default=True,
    metavar="N",
    help="Most leaves allowed.",
)
@click.option("--prune", is_flag=True, help="First remove the tests that do not make jobs end sooner.")
@click.option("--numbers", is_flag=True, help="Change only numbers, add no tests.")
@episode_options
@seed_option
@json_output
def tune(
    tree_file: str,
    out: str,
    changes: int,
    leaves: int,
    prune: bool,
    numbers: bool,
    played: EpisodeOptions,
    seed: int,
    as_json: bool,
) -> None:
    """Try small changes of a tree and its rule; adopt those that make jobs end sooner.

    New tests may use any feature of a stage, even one that TREE does not list; with --numbers there are no new tests.
    All settings have equal weight. The reported gain is that on the seeds used for tuning; compare on others.

    FILE always holds the best tree so far, and must not be TREE; comments of TREE are dropped if anything is changed. A
    killed or interrupted command resumes when it is repeated, even with more --changes.
    """
    import numpy as np

    from mirage.dag.distilled.tuning import shortened, tuned
    from mirage.distill.editing import difference
    from mirage.distill.tree_text import text_of
    from mirage.report.terminal.progress import progress_bar
    from mirage.study.work_journal import WorkJournal

    text, given = read(tree_file)
    _check_out(tree_file, out, played.profiles)
    if len(given.leaves) > leaves:
        raise ConfigurationError(
            f"{tree_file} has {len(given.leaves)} leaves, and --leaves allows {leaves}; give --leaves "
            f"{len(given.leaves)} or more, or fit a smaller tree: mirage distill fit --leaves"
        )
    decides = {**played.plan(), "leaves": leaves, "prune": prune, "numbers": numbers, "seed": seed}
    journal = WorkJournal(checkpoint_of(out), _plan(text, decides))
    rng, settings = np.random.default_rng(seed), played.episodes()
    tree = shortened(given, settings, _shorter) if prune else given
    values = _candidates(tree, settings)
    begun = None
    if journal.finished:
        begun = _begun(journal.finished)
        rng.bit_generator.state = journal.finished["drawn"]
        click.echo(f"mirage: resumes after {begun.tried} changes, at {begun.cost - 1:+.2%}", err=True)

    def better(one: TuningResult) -> None:
        write_output(out, text_of(one.tree))
        click.echo(f"mirage: {one.cost - 1:+.2%} after {one.tried} changes", err=True)

    def store(one: TuningResult) -> None:
        record = {"cost": one.cost, "tried": one.tried, "kept": one.accepted}
        journal.store(best=text_of(one.tree), drawn=rng.bit_generator.state, **record)
        progress(one.tried, changes)

    with progress_bar("changes") as progress, resumable(journal.path):
        found = tuned(
            tree,
            settings,
            values,
            rng,
            may_continue=lambda tried: tried < changes,
            most_leaves=leaves,
            may_grow=not numbers,
            begun=begun,
            report=better,
            store=store,
        )
    is_as_given = tree == given and found.accepted == 0
    write_output(out, text if is_as_given else text_of(found.tree))
    journal.remove()
    before_it, after_it = (times_under(one, played, settings) for one in (given, found.tree))
    if as_json:
        record = {"tree": out, "cost": found.cost, "tried": found.tried, "kept": found.accepted, "case": played.case}
        click.echo(json.dumps({**record, "before": before_it, **after_it}, indent=2))
        return
    click.echo(difference(text_of(given), text_of(found.tree), tree_file), nl=False)
    click.echo(f"before: {times_line(before_it)}\nafter: {times_line(after_it)}")
    after_pruning = " after pruning" if prune else ""
    click.echo(f"{found.cost - 1:+.2%} on these seeds{after_pruning}; {found.accepted} of {found.tried} changes kept")


def _check_out(tree_file: str, out: str, profiles: str | None) -> None:
    """Refuses an output that is the input tree, which a resumed command needs unchanged."""
    written = Path(out)
    if tree_file != SHIPPED and written.exists() and written.samefile(path_of(tree_file)):
        raise ConfigurationError(
            f"{out} is the tree to tune, and an interrupted command resumes from that tree; name another file"
        )
    check_tree_output(out, profiles)


def _shorter(cost: float, tree: Tree) -> None:
    click.echo(f"mirage: {cost - 1:+.2%} with {len(tree.leaves)} leaves", err=True)


_CODE = ("mirage.dag.distilled.tuning", "mirage.dag.distilled.decisions")


def _plan(text: str, decides: dict[str, object]) -> dict[str, object]:
    """Returns all that determines the tuning, except the number of changes."""
    from mirage.source_digest import source_digest

    code = source_digest(_CODE)[:16]
    return {"tree": sha256(text.encode()).hexdigest()[:16], **decides, "version of the code": code}


def _candidates(tree: Tree, settings: Sequence[Episodes]) -> Floats:
    """Returns the candidates of a tree's decisions in the first episode of each setting."""
    import numpy as np

    from mirage.dag.distilled.decisions import Teacher, decisions_of
    from mirage.dag.distilled.tree_policy import scheduler_of

    itself = scheduler_of(tree, "tree")
    record = [decisions_of(Teacher(itself), each.worlds[:1], states_of=itself, tree=itself) for each in settings]
    return np.concatenate([one.contests.rows for one in record])


def _begun(finished: dict[str, Any]) -> TuningResult:
    """Returns the progress of an interrupted command."""
    from mirage.dag.distilled.tuning import TuningResult
    from mirage.distill.tree_reading import tree_of

    return TuningResult(tree_of(finished["best"]), finished["cost"], finished["tried"], finished["kept"])
