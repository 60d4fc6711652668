"""``mirage schedule``: schedulers of GPU clusters."""

from __future__ import annotations

from mirage.cli.lazy import LazyCommand, LazyGroup
from mirage.cli.options import CONTEXT, examples

schedule = LazyGroup(
    name="schedule",
    lazy={
        "compare": LazyCommand(
            "mirage.cli.commands.schedule.schedule_compare:compare", "Compare several schedulers on workloads."
        ),
        "run": LazyCommand(
            "mirage.cli.commands.schedule.schedule_run:run", "Play one workload under one scheduler, in detail."
        ),
        "sensitivity": LazyCommand(
            "mirage.cli.commands.schedule.schedule_sensitivity:sensitivity",
            "Measure how much results depend on assumptions.",
        ),
        "speeds": LazyCommand(
            "mirage.cli.commands.schedule.schedule_speeds:speeds", "Predict step times from four measurements."
        ),
    },
    context_settings=CONTEXT,
    help="Compare schedulers of GPU clusters: which jobs run, where, how wide.",
    epilog=examples(
        "mirage schedule compare jobs.csv --schedulers fifo,sjf,tiresias --cluster philly7704",
        "mirage schedule run jobs.csv --scheduler tiresias --cluster gpus.toml --report run.html",
        "mirage schedule sensitivity seed-*.csv --cluster aryl7704 --demand daily --vary fungible=0.21,0.5,1",
    ),
)
