"""``mirage control replay``: decide recorded views again, or simulate recorded runs."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mirage.cli.options import CONTEXT, examples, json_output
from mirage.errors import ConfigurationError, quantity

if TYPE_CHECKING:
    from mirage.schedule.schedulers.view_schedulers import ViewDecider


@click.command(
    context_settings=CONTEXT,
    epilog=examples(
        "mirage control replay views",
        "mirage control replay views --json",
        "mirage control replay views --simulate",
        "mirage control replay monday tuesday --simulate",
    ),
)
@click.argument("folders", metavar="FOLDER...", type=click.Path(path_type=Path), nargs=-1, required=True)
@click.option("--simulate", is_flag=True, help="Run the recorded jobs in the simulator, and compare the metrics.")
@click.option("--from-scratch", is_flag=True, help="With --simulate: evicted jobs repeat all their work.")
@json_output
@click.pass_context
def replay(ctx: click.Context, folders: tuple[Path, ...], simulate: bool, from_scratch: bool, as_json: bool) -> None:
    """Decide the views in each FOLDER again, as mirage control run --record wrote them.

    Needs no Slurm. Exit status 1 if a plan differs from the recorded one in any byte.

    With --simulate the jobs of the run, its nodes and the demand of the owner are run in the simulator with the same
    scheduler. A table has each metric on the real cluster and in the simulator. Several folders are runs of the same
    workload: the spread is that of the real runs, from the smallest to the largest.
    """
    if len({folder.resolve() for folder in folders}) < len(folders):
        raise click.UsageError("a folder is named twice; name each run once")
    if simulate:
        _simulate(folders, from_scratch, as_json)
        return
    if from_scratch:
        raise click.UsageError("--from-scratch is about simulated jobs; give --simulate, too")
    from mirage.control.recording import decide_again, read_recorded

    n_views, different = 0, []
    for folder in folders:
        deciders: dict[str, ViewDecider] = {}
        paths = sorted(folder.glob("view-*.json"))
        if not paths:
            raise ConfigurationError(f"{folder} has no recorded view; name a folder that --record has written")
        for path in paths:
            recorded = read_recorded(path)
            if decide_again(recorded, deciders) != recorded.plan:
                different.append(path.name if len(folders) == 1 else str(path))
        n_views += len(paths)
    if as_json:
        click.echo(json.dumps({"views": n_views, "different": different}))
    else:
        click.echo(f"{quantity(n_views, 'view')}, {len(different)} with another plan")
        for name in different:
            click.echo(name)
    if different:
        ctx.exit(1)


def _simulate(folders: tuple[Path, ...], from_scratch: bool, as_json: bool) -> None:
    from mirage.control.run_record import read_run
    from mirage.control.simulated_run import compared, simulate_run

    runs = []
    for folder in folders:
        recorded = read_run(folder)
        try:
            runs.append(simulate_run(*recorded, from_scratch))
        except ConfigurationError as error:
            raise ConfigurationError(f"{folder}: {error}") from error
    schedulers = sorted({run.scheduler for run in runs})
    if len(schedulers) > 1:
        raise ConfigurationError(f"the runs have different schedulers, {', '.join(schedulers)}; compare one at a time")
    rows = compared(runs)
    if as_json:
        each = [{"folder": str(folder), **asdict(run)} for folder, run in zip(folders, runs)]
        click.echo(json.dumps({"scheduler": schedulers[0], "metrics": rows, "runs": each}))
        return
    left_out = sum(run.left_out for run in runs)
    left = f"{quantity(left_out, 'job')} left out (never ran, or have not ended)"
    click.echo(f"{schedulers[0]}: {quantity(len(runs), 'run')}, {left}")
    click.echo(f"{'metric':<14}{'real':>10}{'simulated':>11}{'difference':>12}{'spread':>9}")
    for row in rows:
        difference = "-" if row["difference"] is None else f"{row['difference']:+.1%}"
        spread = "-" if row["spread"] is None else f"{row['spread']:.1%}"
        click.echo(f"{row['metric']:<14}{row['real']:>10.2f}{row['simulated']:>11.2f}{difference:>12}{spread:>9}")
