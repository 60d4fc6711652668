"""``mirage learn dataset``: hand-overs of a trace, with the outcome of every moment to submit."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from mirage.cli.machine import MachineOptions, machine_options
from mirage.cli.options import CONTEXT, TraceOptions, examples, json_output, trace_options
from mirage.cli.study import WindowOptions, window_options
from mirage.cli.trace_reading import read_named_trace


def _pairs(ctx: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> dict[str, str]:
    """``KEY=VALUE`` by key, without the dashes of an option.

    Raises:
        click.BadParameter: There is no equals sign.
    """
    pairs = [one.partition("=") for one in value]
    for key, sign, _ in pairs:
        if not key.lstrip("-") or not sign:
            raise click.BadParameter(f"{key!r} is no KEY=VALUE, as partition=cpu", ctx, parameter)
    return {key.lstrip("-"): told for key, _, told in pairs}


@click.command(
    context_settings=CONTEXT,
    epilog=examples(
        "mirage learn dataset jobs.log.gz --nodes 76 --link-nodes 1,8 --windows 348 --every 8h -o data",
        "mirage learn dataset jobs.csv --cluster cluster.toml --no-forecast -o data",
        "mirage learn dataset jobs.csv --nodes 64 --labels-only --workers 1 --json -o labels",
        "mirage learn dataset jobs.csv --nodes 64 --executor submitit --array-jobs 20 --sbatch partition=cpu -o data",
    ),
)
@click.argument("trace")
@click.option("-o", "out", required=True, metavar="FOLDER", help="Where it is kept; run again to go on after a stop.")
@machine_options
@window_options
@click.option(
    "--forecast/--no-forecast", default=True, show_default=True, help="Features from futures of the queue, too."
)
@click.option(
    "--futures",
    type=click.IntRange(1),
    default=32,
    show_default=True,
    metavar="N",
    help="Futures of each forecast.",
)
@click.option("--labels-only", is_flag=True, help="Outcomes without what was seen: no features, no snapshots.")
@click.option(
    "--executor",
    type=click.Choice(["local", "submitit"]),
    default="local",
    show_default=True,
    help="Where it is made: by processes here, or by an array of Slurm jobs that see FOLDER.",
)
@click.option(
    "--array-jobs", type=click.IntRange(1), metavar="N", help="Jobs of the array at most, with submitit.  [default: 8]"
)
@click.option(
    "--sbatch",
    multiple=True,
    callback=_pairs,
    metavar="KEY=VALUE",
    help="An option of sbatch for them, as partition=cpu or time=1:00:00; repeatable.",
)
@json_output
@trace_options
def dataset(
    trace: str,
    out: str,
    machine: MachineOptions,
    asked: WindowOptions,
    forecast: bool,
    futures: int,
    labels_only: bool,
    executor: str,
    array_jobs: int | None,
    sbatch: dict[str, str],
    as_json: bool,
    reading: TraceOptions,
) -> None:
    """Make a data set of the hand-overs in TRACE (a file, or - for standard input).

    Every window submits a link; at every decision until its end a row tells what was seen then, and what submitting the
    next link there would have led to, exactly, by forking the simulation. The same options give the same data, however
    often it is stopped and started again, and whoever makes it.
    """
    if executor == "local" and (array_jobs is not None or sbatch):
        raise click.UsageError("--array-jobs and --sbatch need --executor submitit")
    simulated = machine.machine()
    table = read_named_trace(trace, reading).table

    from mirage.learn.dataset.make import make_data_set
    from mirage.learn.dataset.read import read_hand_overs
    from mirage.learn.dataset.recipe import Recipe
    from mirage.learn.dataset.slurm_array import JOBS, SlurmArray
    from mirage.provision.evaluation.episode import Scenario
    from mirage.provision.evaluation.evaluate import check_windows
    from mirage.provision.evaluation.study import Study
    from mirage.provision.evaluation.workers import available_cores
    from mirage.report.terminal.data_set import print_data_set, summary_of
    from mirage.report.terminal.evaluation import progress_bar
    from mirage.sim.jobs import workload

    jobs = workload(table, simulated.cluster, refuse=not machine.skip_impossible)
    scenario = Scenario(simulated.cluster, jobs, asked.queue, simulated.settings)
    study = Study(scenario, asked.plan(table), tuple(asked.links()), (), asked.seed)
    check_windows(scenario, study.protocol, study.links)
    recipe = Recipe(study, futures if forecast and not labels_only else None, views=not labels_only)
    array = SlurmArray(array_jobs or JOBS, sbatch) if executor == "submitit" else None
    with progress_bar("windows") as progress:
        made = make_data_set(recipe, Path(out), array, progress, workers=asked.workers or available_cores())
    rows = read_hand_overs(out)
    if as_json:
        click.echo(json.dumps(asdict(made) | summary_of(rows), indent=2))
    else:
        print_data_set(rows, made)
