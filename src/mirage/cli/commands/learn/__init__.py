"""``mirage learn``: the commands that learn hand-overs."""

from __future__ import annotations

from mirage.cli.lazy import LazyCommand, LazyGroup
from mirage.cli.options import CONTEXT, examples

learn = LazyGroup(
    name="learn",
    lazy={
        "dataset": LazyCommand(
            "mirage.cli.commands.learn.dataset:dataset", "Make a data set of hand-overs of a trace."
        ),
    },
    context_settings=CONTEXT,
    help="Learn when to submit the next link.",
    epilog=examples("mirage learn dataset jobs.log.gz --nodes 76 --link-nodes 1,8 --start 2022-12-01 -o data"),
)
