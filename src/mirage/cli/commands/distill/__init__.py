"""``mirage distill``: small trees that schedule stages."""

from __future__ import annotations

from mirage.cli.lazy import LazyCommand, LazyGroup
from mirage.cli.options import CONTEXT, examples

_HERE = "mirage.cli.commands.distill"

distill = LazyGroup(
    name="distill",
    lazy={
        "fit": LazyCommand(f"{_HERE}.distill_fit:fit", "Fit a small tree to the decisions of a scheduler."),
        "show": LazyCommand(f"{_HERE}.tree_file:show", "Show a tree, indented or as a list of rules."),
        "draw": LazyCommand(f"{_HERE}.tree_file:draw", "Draw a tree, with the executor rule below it."),
        "edit": LazyCommand(f"{_HERE}.tree_file:edit", "Change a threshold, a score or a setting, and show the diff."),
        "combine": LazyCommand(f"{_HERE}.tree_file:combine", "Combine trees for different loads into one."),
        "check": LazyCommand(f"{_HERE}.tree_file:check", "Check that a tree can run, and how faithful it is."),
        "tune": LazyCommand(f"{_HERE}.tune:tune", "Improve a tree by small changes that make jobs end sooner."),
        "mend": LazyCommand(f"{_HERE}.mend:mend", "Find the best change of one line for each edge case."),
        "run": LazyCommand(f"{_HERE}.distill_run:run", "Compare a tree with other schedulers."),
    },
    context_settings=CONTEXT,
    help="Stage schedulers that fit on a page: small trees to read, edit and run.",
    epilog=examples(
        "mirage distill show",
        "mirage distill edit mine.txt 'drains_in < 45s -> drains_in < 1min' -o other.txt",
        "mirage distill run other.txt --setting 50/200 --seeds 0-9",
    ),
)
