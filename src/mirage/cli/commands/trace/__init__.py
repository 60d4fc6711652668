"""``mirage trace``: commands on traces."""

from __future__ import annotations

from mirage.cli.lazy import LazyCommand, LazyGroup
from mirage.cli.options import CONTEXT, examples

trace = LazyGroup(
    name="trace",
    lazy={
        "info": LazyCommand("mirage.cli.commands.trace.info:info", "Show the statistics of a trace."),
        "convert": LazyCommand("mirage.cli.commands.trace.convert:convert", "Write a trace in another format."),
        "fit": LazyCommand("mirage.cli.commands.trace.trace_fit:fit", "Write the workload model of a trace."),
        "generate": LazyCommand("mirage.cli.commands.trace.generate:generate", "Generate a workload like a real one."),
        "fidelity": LazyCommand(
            "mirage.cli.commands.trace.fidelity:fidelity", "Show how well a simulation agrees with a trace."
        ),
    },
    context_settings=CONTEXT,
    help="Inspect traces, convert them, generate new ones, judge simulations by them.",
    epilog=examples(
        "mirage trace info jobs.log.gz",
        "sacct -a -P -S 2024-01-01 -o ALL | mirage trace info -",
        "mirage trace convert jobs.log.gz jobs.parquet",
    ),
)
