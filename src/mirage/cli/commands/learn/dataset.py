"""``mirage learn dataset``: hand-overs of a trace with the outcomes of all submissions."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from mirage.cli.commands.train.learning_options import futures_option
from mirage.cli.machine_options import MachineOptions, machine_options
from mirage.cli.options import CONTEXT, TraceOptions, examples, is_given, json_output, trace_options
from mirage.cli.study import ExecutorOptions, WindowOptions, executor_options, window_options
from mirage.cli.trace_reading import read_named_trace


@click.command(
    context_settings=CONTEXT,
    epilog=examples(
        "mirage learn dataset jobs.log.gz --nodes 76 --link-nodes 1,8 --windows 348 --every 8h -o data",
        "mirage learn dataset jobs.csv --cluster cluster.toml --no-forecast -o data",
        "mirage learn dataset jobs.csv --nodes 64 --labels-only --workers 1 --json -o labels",
        "mirage learn dataset jobs.csv --nodes 64 --executor slurm --array-jobs 20 --sbatch partition=cpu -o data",
    ),
)
@click.argument("trace")
@click.option(
    "-o",
    "--out",
    required=True,
    metavar="DIR",
    help="Folder of the data set; repeat the command to resume.",
)
@machine_options
@window_options
@executor_options
@click.option(
    "--forecast/--no-forecast",
    default=True,
    show_default=True,
    help="Include features of simulated futures of the queue.",
)
@futures_option
@click.option("--labels-only", is_flag=True, help="Store outcomes only: no features, no snapshots.")
@json_output
@trace_options
def dataset(
    trace: str,
    out: str,
    machine: MachineOptions,
    windows: WindowOptions,
    where: ExecutorOptions,
    forecast: bool,
    futures: int,
    labels_only: bool,
    as_json: bool,
    reading: TraceOptions,
) -> None:
    """Make a data set of the hand-overs in TRACE (a file, or - for standard input).

    Every window submits a link. For every decision until the end of the link, a row holds the observation and the exact
    outcome of submitting the next link then, found by forking the simulation. The same options give the same data, even
    if the command is stopped and resumed, and with every executor.
    """
    if is_given("futures") and (labels_only or not forecast):
        raise click.UsageError("--futures is for a forecast, which --no-forecast and --labels-only leave out")
    executor = where.made(Path(out) / ".slurm", "dataset")
    simulated = machine.machine(windows.queue)
    table = read_named_trace(trace, reading).table

    from mirage.learn.dataset.make_data_set import make_data_set
    from mirage.learn.dataset.read_data_set import read_hand_overs
    from mirage.learn.dataset.recipe import Recipe
    from mirage.provision.evaluation.episode import Scenario
    from mirage.provision.evaluation.evaluate import check_windows
    from mirage.provision.evaluation.evaluation_study import Study
    from mirage.report.terminal.data_set_text import print_data_set, summary_of
    from mirage.report.terminal.progress import progress_bar

    jobs = machine.workload(table, simulated.cluster, trace)
    scenario = Scenario(simulated.cluster, jobs, windows.queue, simulated.settings)
    study = Study(scenario, windows.plan(table), tuple(windows.links()), (), windows.seed)
    check_windows(scenario, study.protocol, study.links)
    recipe = Recipe(study, futures if forecast and not labels_only else None, views=not labels_only)
    with progress_bar("windows") as progress:
        made = make_data_set(recipe, Path(out), executor, progress)
    rows = read_hand_overs(out)
    if as_json:
        click.echo(json.dumps(asdict(made) | summary_of(rows), indent=2))
    else:
        print_data_set(rows, made)
