"""``mirage trace generate``: a synthetic trace that queues like a real one."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path

import click

from mirage.cli.commands.trace.gang_options import GangOptions, gang_options
from mirage.cli.options import CONTEXT, TraceOptions, examples, is_given, seed_option, to_option, trace_options
from mirage.cli.output import check_output
from mirage.cli.trace_reading import read_named_trace
from mirage.cli.values import DATE
from mirage.duration import DAY_S, HOUR_S
from mirage.errors import UnknownName, quantity
from mirage.trace.statistics.marginals import MarginalComparison, compare
from mirage.trace.table import JobTable
from mirage.trace.workload.fit_workload import fit_workload
from mirage.trace.workload.generate_workload import generate_workload
from mirage.trace.workload.steady_part import steady_part
from mirage.trace.workload.workload_json import builtin_model, builtin_models, is_model_file, read_model
from mirage.trace.workload.workload_model import DEFAULT_START_S, WorkloadModel
from mirage.trace.write_trace import format_to_write, write_trace

DEFAULT_DAYS = 30.0

MOST_USUAL_LOAD = 5.0
"""Load above which a percentage is more likely than a share."""

WAIT_FACTOR, WAIT_APART_H = 2.0, 0.25
"""Waits of two months of one workload differ by as much."""

LOAD_ROWS = ("jobs a day", "busy nodes", "burstiness (var/mean an hour)", "mean wait h, EASY", "95 % of waits h, EASY")


@click.command(
    context_settings=CONTEXT,
    epilog=examples(
        "mirage trace generate -o month.csv",
        "mirage trace generate --days 90 --load 0.95 --seed 7 -o busy.parquet",
        "mirage trace generate --jobs 100000 --nodes 200 -o large.swf.gz",
        "mirage trace generate --like jobs.log.gz --nodes 76 --days 60 --check -o like.csv",
        "mirage trace generate --gangs --jobs 1000 --load 1.0 --cluster pool128 -o gangs.csv",
        "mirage trace generate --like ours.json --start 2025-03-01 -o spring.csv",
    ),
)
@click.option(
    "--like",
    metavar="WHAT",
    default="lonestar6-like",
    show_default=True,
    help="A built-in model, a model written by 'mirage trace fit', or a trace to fit one to.",
)
@click.option("--days", type=float, metavar="N", help=f"Span of submissions.  [default: {DEFAULT_DAYS:g}]")
@click.option("--jobs", type=int, metavar="N", help="Number of jobs, instead of --days.")
@click.option("--start", type=DATE, metavar="DATE", help="Start of the span, UTC.  [default: 2024-01-01]")
@click.option(
    "--load",
    type=float,
    metavar="X",
    help="Offered load; 1.0 keeps all nodes busy. It changes the rate of arrivals, not the jobs.  [default: the "
    "model's]",
)
@click.option("-N", "--nodes", type=int, metavar="N", help="Nodes of the cluster.  [default: the model's]")
@seed_option
@click.option("-o", "--out", required=True, metavar="OUT", help="File to write.")
@to_option
@click.option(
    "--check",
    is_flag=True,
    help="Compare the new trace with the model's, with a verdict on each line; and, if --like is a trace, their waits, "
    "both simulated by EASY.",
)
@gang_options
@trace_options
def generate(
    like: str,
    days: float | None,
    jobs: int | None,
    start: int | None,
    load: float | None,
    nodes: int | None,
    seed: int,
    out: str,
    to: str | None,
    check: bool,
    gang: GangOptions,
    reading: TraceOptions,
) -> None:
    """Write a synthetic trace to OUT; the same options give the same jobs.

    It holds submissions, sizes, limits, users and run times, but no starts: a simulator computes those.

    If the load of a trace rises at its beginning or falls at its end, the steady part between is imitated;
    'mirage trace fit --from DATE --until DATE' fits any part.

    With --gangs, it is a workload of GPU jobs for 'mirage schedule': wide jobs with epochs and costs of preemption. Of
    --jobs, --days and --load, two determine the third.
    """
    if gang.gangs:
        gang.write(out, jobs=jobs, days=days, load=load, seed=seed)
        return
    gang.refuse_alone()
    if days is not None and jobs is not None:
        raise click.UsageError("--days and --jobs exclude each other")
    check_output(out, like)
    format_to_write(out, to)
    model, original = _model(like, nodes, reading)
    table = generate_workload(
        model,
        days=DEFAULT_DAYS if days is None and jobs is None else days,
        jobs=jobs,
        start_s=DEFAULT_START_S if start is None else start,
        seed=seed,
        load=load,
        nodes=nodes,
    )
    write_trace(table, out, to)
    span_days = (table.submit_s[-1] - table.submit_s[0]) / DAY_S
    click.echo(
        f"mirage: {quantity(len(table), 'job')} over {span_days:.1f} days on {quantity(nodes or model.nodes, 'node')} "
        f"at load {model.load if load is None else load:.2f}, like {model.name}, written to {out}",
        err=True,
    )
    if load is not None and load > MOST_USUAL_LOAD:
        click.echo(
            f"mirage: warning: a load of {load:g} is {load:g} times what the cluster can do; write 85 % as 0.85",
            err=True,
        )
    if check:
        rows = list(compare(model.fitted_to, table))
        if original is not None:
            rows += compare_waits(original, table, model.nodes, nodes or model.nodes)
        print_comparison(rows, LOAD_ROWS if load is not None else ())


def _model(like: str, nodes: int | None, reading: TraceOptions) -> tuple[WorkloadModel, JobTable | None]:
    """Returns the model that ``--like`` names, and the jobs it was fitted to, if known."""
    if like in builtin_models() or is_model_file(like):
        for name in ("format", "fields", "columns", "delimiter", "timezone", "skip_bad_lines"):
            if is_given(name):
                raise click.UsageError(f"--{name.replace('_', '-')} is for a trace, and {like} is a workload model")
    if like in builtin_models():
        return builtin_model(like), None
    if like != "-" and not Path(like).exists():
        raise UnknownName("trace file or workload model", like, builtin_models())
    if is_model_file(like):
        return read_model(like), None
    table = steady_jobs(like, read_named_trace(like, reading).table)
    return fit_workload(table, nodes=nodes, name=Path(like).name), table


def steady_jobs(name: str, table: JobTable) -> JobTable:
    """Returns the jobs of the steady part of a trace; prints what was left out, and why."""
    part = steady_part(table)
    if part is None:
        return table
    click.echo(f"mirage: {name} is fitted to {part.in_words}", err=True)
    return part.jobs


def compare_waits(original: JobTable, new: JobTable, nodes: int, new_nodes: int) -> tuple[MarginalComparison, ...]:
    """Compares the waits of two traces, both simulated by EASY."""
    pairs = list(zip(_waits_h(original, nodes), _waits_h(new, new_nodes)))
    names = ("mean wait h, EASY", "95 % of waits h, EASY")
    return tuple(
        MarginalComparison(name, *pair, factor=WAIT_FACTOR, apart=WAIT_APART_H) for name, pair in zip(names, pairs)
    )


def _waits_h(table: JobTable, nodes: int) -> tuple[float, float]:
    """Returns mean and 95th percentile of waits in hours."""
    from mirage.sim.cluster import Cluster
    from mirage.sim.simulation import Simulation
    from mirage.sim.workload import workload

    cluster = Cluster.pool(nodes)
    metrics = Simulation(cluster, workload(table, cluster, refuse=False), "easy").run().metrics()
    return metrics["mean_wait_s"] / HOUR_S, metrics.get("p95_wait_s", 0.0) / HOUR_S


def print_comparison(rows: Iterable[MarginalComparison], changed: Collection[str] = ()) -> None:
    """Prints the marginals of the model's trace and of the new one, each with a verdict.

    Args:
        rows: The marginals.
        changed: Names of those that ``--load`` changes on purpose.
    """
    click.echo(f"{'marginal':<32}{'like':>10}{'new':>10}  verdict")
    for row in rows:
        verdict = "changed by --load" if row.marginal in changed else row.verdict
        click.echo(f"{row.marginal:<32}{row.real:>10.3f}{row.synthetic:>10.3f}  {verdict}")
