"""``mirage distill``: small trees that schedule stages, fitted, shown, edited, checked, tuned, mended and run."""

from __future__ import annotations

from mirage.cli.lazy import LazyCommand, LazyGroup
from mirage.cli.options import CONTEXT, examples

_HERE = "mirage.cli.commands.dag.distill"

distill = LazyGroup(
    name="distill",
    lazy={
        "fit": LazyCommand(f"{_HERE}.fit:fit", "Fit a small tree to what a scheduler does."),
        "show": LazyCommand(f"{_HERE}.tree_file:show", "Show a tree, indented or as a list of rules."),
        "draw": LazyCommand(f"{_HERE}.draw:draw", "Draw a tree, with the executor rule below it."),
        "edit": LazyCommand(
            f"{_HERE}.tree_file:edit", "Change a threshold, a score or a setting, and show what differs."
        ),
        "combine": LazyCommand(f"{_HERE}.combine:combine", "Put trees for different loads into one."),
        "check": LazyCommand(f"{_HERE}.tree_file:check", "Say whether a tree can run, and how faithful it is."),
        "tune": LazyCommand(f"{_HERE}.tune:tune", "Make small changes to a tree as long as jobs end sooner."),
        "mend": LazyCommand(f"{_HERE}.mend:mend", "Find the best change of one line for each edge case."),
        "run": LazyCommand(f"{_HERE}.run:run", "Run a tree beside other schedulers."),
    },
    context_settings=CONTEXT,
    help="Schedulers of stages that fit on a page: small trees that people read, edit and run.",
    epilog=examples(
        "mirage distill show",
        "mirage distill edit mine.txt 'drains_in < 45s -> drains_in < 1min' -o other.txt",
        "mirage distill run other.txt --setting 50/200 --seeds 0-9",
    ),
)
