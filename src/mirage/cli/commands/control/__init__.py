"""``mirage control``: GPU schedulers on a real Slurm."""

from __future__ import annotations

from mirage.cli.lazy import LazyCommand, LazyGroup
from mirage.cli.options import CONTEXT, examples

_HERE = "mirage.cli.commands.control"

control = LazyGroup(
    name="control",
    lazy={
        "check": LazyCommand(f"{_HERE}.control_check:check", "Check the cluster and the file of pools."),
        "run": LazyCommand(f"{_HERE}.control_run:run", "Advise what to do, or do it with --act."),
        "off": LazyCommand(f"{_HERE}.control_off:off", "Restore Slurm after a controller."),
        "replay": LazyCommand(f"{_HERE}.control_replay:replay", "Decide recorded views again."),
    },
    context_settings=CONTEXT,
    help="Let a GPU scheduler decide on a real Slurm, for an operator. Without --act it only advises.",
    epilog=examples(
        "mirage control check --config pools.toml",
        "mirage control run --config pools.toml --once",
        "mirage control run --config pools.toml --scheduler aryl --json --record views",
        "mirage control run --config pools.toml --act",
        "mirage control off --config pools.toml",
    ),
)
