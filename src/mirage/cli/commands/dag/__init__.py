"""``mirage dag``: schedulers of jobs made of stages."""

from __future__ import annotations

from mirage.cli.lazy import LazyCommand, LazyGroup
from mirage.cli.options import CONTEXT, examples

dag = LazyGroup(
    name="dag",
    lazy={
        "compare": LazyCommand(
            "mirage.cli.commands.dag.dag_compare:compare", "Compare schedulers of stages on the same episodes."
        ),
    },
    context_settings=CONTEXT,
    help="Jobs made of stages: in which order, and on how many executors.",
    epilog=examples("mirage dag compare --setting 50/200 --seeds 0-19 --policies fair,capped:0.25:1.5"),
)
