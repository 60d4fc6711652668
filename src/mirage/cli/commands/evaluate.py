"""``mirage evaluate``: judge policies by interruption and overlap."""

from __future__ import annotations

import importlib.util
import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mirage import __version__
from mirage.cli.commands.trace.generate import utc_seconds
from mirage.cli.machine import chosen_machine, discipline_help, machine_options
from mirage.cli.options import CONTEXT, examples, json_output, trace_reading
from mirage.cli.trace_reading import read_named_trace
from mirage.duration import DAY_S, parse_duration_s

if TYPE_CHECKING:
    from mirage.policy.cost import Cost
    from mirage.provision.evaluation.evaluate import Evaluation
    from mirage.provision.evaluation.protocol import Protocol
    from mirage.trace.table import JobTable

DISCIPLINE_OF = {"warm": "slurm", "published": "mirage-2023"}
DEFAULT_WINDOWS = 156
DEFAULT_POLICIES = "reactive,average,lead:4,what-if,oracle"


@click.command(
    context_settings=CONTEXT,
    epilog=examples(
        "mirage evaluate jobs.log.gz --nodes 76 --settings lonestar6 --start 2023-03-01",
        "mirage evaluate jobs.log.gz --nodes 76 --protocol published --start 2023-03-01 --link-nodes 1,8",
        "mirage evaluate jobs.csv --slurm-conf slurm.conf --interruption-cost 5 --overlap-cost 1",
        "mirage evaluate jobs.csv --nodes 64 --cost-ratios 1,2,5,10 --plot frontier.svg --resume results",
        "mirage evaluate jobs.csv --nodes 64 --json | jq '.rows[] | select(.load == \"heavy\")'",
    ),
)
@click.argument("trace")
@machine_options
@click.option("--link-nodes", default="1", show_default=True, metavar="LIST", help="Nodes of a link, as in 1,8.")
@click.option("--link-limit", default="2-00:00:00", show_default=True, metavar="TIME", help="Time limit of a link.")
@click.option("--policies", default=DEFAULT_POLICIES, show_default=True, metavar="LIST", help="Who is to be judged.")
@click.option("--start", metavar="DATE", help="Where the first window begins, UTC.  [default: 2/3 into the trace]")
@click.option(
    "--windows", type=click.IntRange(min=1), metavar="N", help=f"How many.  [default: {DEFAULT_WINDOWS}, or what fits]"
)
@click.option("--every", default="4h", show_default=True, metavar="TIME", help="Distance of windows.")
@click.option("--step", metavar="TIME", help="Time between decisions.  [default: 30m, 10m with published]")
@click.option(
    "--protocol",
    type=click.Choice(list(DISCIPLINE_OF)),
    default="warm",
    show_default=True,
    help="warm: one replay of the whole trace; published: as in the Mirage paper, two days from an empty machine.",
)
@click.option(
    "--discipline",
    metavar="NAME",
    help=f"How jobs queue: {discipline_help()}.  [default: slurm, mirage-2023 with published]",
)
@click.option("--interruption-cost", type=float, metavar="X", help="What an hour of interruption costs.  [default: 1]")
@click.option("--overlap-cost", type=float, metavar="Y", help="What an hour of overlap costs.  [default: 1]")
@click.option("--cost-ratios", metavar="LIST", help="Several costs of interruption, overlap costing 1: 1,2,5,10.")
@click.option("--skip-impossible", is_flag=True, help="Leave out jobs that can never run there, instead of stopping.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, metavar="S")
@click.option("--workers", type=click.IntRange(min=1), metavar="N", help="Processes at once.  [default: all cores]")
@click.option("--resume", metavar="DIR", help="Keep results there as they come, and go on from those found.")
@click.option("--parquet", metavar="FILE", help="Write the rows as Parquet too.")
@click.option("--plot", metavar="FILE", help="Draw the frontier of interruption and overlap (.svg, .html, .png).")
@json_output
@trace_reading
def evaluate(
    trace: str,
    link_nodes: str,
    link_limit: str,
    policies: str,
    start: str | None,
    windows: int | None,
    every: str,
    step: str | None,
    protocol: str,
    discipline: str | None,
    interruption_cost: float | None,
    overlap_cost: float | None,
    cost_ratios: str | None,
    skip_impossible: bool,
    seed: int,
    workers: int | None,
    resume: str | None,
    parquet: str | None,
    plot: str | None,
    as_json: bool,
    nodes: int | None,
    processors: int | None,
    gpus_per_node: int | None,
    cpus_per_node: int | None,
    slurm_conf: str | None,
    settings: str | None,
    max_job_test: int | None,
    **reading: Any,
) -> None:
    """Try policies out on TRACE (a file, or - for standard input) and judge them.

    Every window submits a link and lets each policy say when to ask for the next one; what would have come of every
    possible moment is known exactly, by forking the simulation. Interruption is the time without a link, overlap the
    time with two. The load of a window is light, medium or heavy by what a reactive chain would have suffered there:
    up to 2 h, up to 12 h, more.

    Policies: reactive, dependency, lead:HOURS, average, quantile:SHARE, slurm-estimate, what-if, those of installed
    packages, and oracle, the best moment in hindsight.
    """
    costs = _costs(interruption_cost, overlap_cost, cost_ratios)
    sizes = [_whole(word, "--link-nodes") for word in _words(link_nodes)]
    names = _words(policies)
    machine = chosen_machine(
        nodes=nodes, processors=processors, gpus_per_node=gpus_per_node, cpus_per_node=cpus_per_node,
        slurm_conf=slurm_conf, settings=settings, max_job_test=max_job_test,
    )  # fmt: skip
    changes = {"every_s": parse_duration_s(every)} | ({"step_s": parse_duration_s(step)} if step else {})
    limit_s = parse_duration_s(link_limit)
    _check_outputs(parquet, plot)
    table = read_named_trace(trace, **reading).table

    from mirage.provision.chain import Link
    from mirage.provision.evaluation.episode import Scenario
    from mirage.provision.evaluation.evaluate import evaluate as evaluate_policies
    from mirage.provision.evaluation.workers import available_cores
    from mirage.report.terminal.evaluation import print_evaluation, progress_bar
    from mirage.sim.jobs import workload

    plan = _protocol(protocol, table, start, windows, changes)
    jobs = workload(table, machine.cluster, refuse=not skip_impossible)
    scenario = Scenario(machine.cluster, jobs, discipline or DISCIPLINE_OF[protocol], machine.settings)
    with progress_bar("windows") as progress:
        evaluation = evaluate_policies(
            scenario,
            plan,
            [Link(size, limit_s) for size in sizes],
            names,
            costs,
            seed=seed,
            workers=workers or available_cores(),
            progress=progress,
            resume_dir=None if resume is None else Path(resume),
        )
    provenance = _provenance(trace, scenario.discipline, machine.said_by, machine.cluster.nodes, plan, seed, evaluation)
    report = {"rows": [row.to_json() for row in evaluation.rows], **provenance}
    if parquet is not None:
        _write_parquet(report, parquet)
    if plot is not None:
        from mirage.report.pages.frontier import draw_frontiers

        draw_frontiers(evaluation, plot, provenance)
    if as_json:
        click.echo(json.dumps(report, indent=2))
    else:
        print_evaluation(evaluation, provenance)


def _check_outputs(parquet: str | None, plot: str | None) -> None:
    """Refuse now what could not be written after hours of work.

    Raises:
        ConfigurationError: A package is missing, or a picture of that kind cannot be drawn.
    """
    from mirage.errors import ConfigurationError

    if parquet is not None and importlib.util.find_spec("pyarrow") is None:
        raise ConfigurationError(
            'Parquet needs pyarrow, which is not installed; run: pip install "mirage-hpc[parquet]"'
        )
    if plot is not None:
        from mirage.report.pages.frontier import kind_of

        kind_of(plot)
    for path in filter(None, (parquet, plot)):
        if not Path(path).parent.is_dir():
            raise ConfigurationError(f"cannot write {path}: there is no folder {Path(path).parent}")


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _whole(text: str, option: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise click.UsageError(f"{option} {text!r} is no positive whole number")
    return int(text)


def _costs(interruption: float | None, overlap: float | None, ratios: str | None) -> list[Cost]:
    from mirage.policy.cost import Cost

    if ratios is None:
        return [Cost(1.0 if interruption is None else interruption, 1.0 if overlap is None else overlap)]
    if interruption is not None or overlap is not None:
        raise click.UsageError("--cost-ratios takes the place of --interruption-cost and --overlap-cost")
    try:
        return [Cost(float(word), 1.0) for word in _words(ratios)]
    except ValueError as error:
        raise click.UsageError(f"--cost-ratios {ratios!r} is no list of numbers, as 1,2,5,10") from error


def _protocol(name: str, table: JobTable, start: str | None, windows: int | None, changes: dict[str, int]) -> Protocol:
    """The protocol over the windows asked for; by default those that fit behind two thirds of the trace."""
    from mirage.provision.evaluation.protocol import Protocol

    submit_s = table.submit_s[table.submit_s >= 0]
    if start is not None:
        begin_s = utc_seconds(start, "--start")
    else:
        first_s, last_s = (int(submit_s.min()), int(submit_s.max())) if len(submit_s) else (0, 0)
        begin_s = (first_s + (last_s - first_s) * 2 // 3) // DAY_S * DAY_S
    plan = Protocol.named(name, begin_s, **changes)
    if windows is None:
        last_s = int(submit_s.max(initial=0))
        windows = max(min((last_s - plan.submits_s(0)) // plan.every_s + 1, DEFAULT_WINDOWS), 1)
    return Protocol.named(name, begin_s, windows=windows, **changes)


def _provenance(
    trace: str, discipline: str, settings: str, nodes: int, plan: Protocol, seed: int, evaluation: Evaluation
) -> dict[str, Any]:
    from mirage.trace.statistics.summary import iso_utc

    return {
        "trace": trace,
        "nodes": nodes,
        "discipline": discipline,
        "settings": settings,
        "protocol": plan.name,
        "start": iso_utc(plan.begin_s),
        "windows": plan.windows,
        "every_s": plan.every_s,
        "step_s": plan.step_s,
        "costs": [{"interruption": cost.interruption, "overlap": cost.overlap} for cost in evaluation.costs],
        "intervals": evaluation.intervals,
        "windows_reused": evaluation.reused,
        "seed": seed,
        "version": __version__,
        "command": shlex.join(["mirage", *sys.argv[1:]]),
    }


def _write_parquet(report: dict[str, Any], path: str) -> None:
    """The rows, with the provenance as metadata of the file.

    Raises:
        ConfigurationError: The file cannot be written.
    """
    import pyarrow
    import pyarrow.parquet

    from mirage.errors import ConfigurationError

    rows = report["rows"]
    told = json.dumps({key: value for key, value in report.items() if key != "rows"})
    flat = [{k: list(v) if isinstance(v, tuple) else v for k, v in row.items()} for row in rows]
    try:
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(flat).replace_schema_metadata({"mirage": told}), path)
    except OSError as error:
        raise ConfigurationError(f"cannot write {path}: {error}") from error
