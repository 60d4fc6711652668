"""``mirage train``: the commands that learn from traces."""

from __future__ import annotations

from mirage.cli.lazy import LazyCommand, LazyGroup
from mirage.cli.options import CONTEXT, examples

train = LazyGroup(
    name="train",
    lazy={
        "predict": LazyCommand("mirage.cli.commands.train.predict:predict", "Learn queue waits from a trace."),
    },
    context_settings=CONTEXT,
    help="Learn from traces.",
    epilog=examples("mirage train predict jobs.log.gz -o waits.model"),
)
