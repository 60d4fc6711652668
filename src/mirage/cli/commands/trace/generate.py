"""``mirage trace generate``: a synthetic trace that queues like a real one."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click

from mirage.cli.options import CONTEXT, TraceOptions, examples, seed_option, to_option, trace_options
from mirage.cli.output import check_output
from mirage.cli.trace_reading import read_named_trace
from mirage.cli.values import DATE
from mirage.duration import DAY_S
from mirage.errors import UnknownName
from mirage.trace.statistics.marginals import MarginalComparison, compare
from mirage.trace.workload.fit_workload import fit_workload
from mirage.trace.workload.generate_workload import generate_workload
from mirage.trace.workload.workload_json import builtin_model, builtin_models, is_model_file, read_model
from mirage.trace.workload.workload_model import DEFAULT_START_S, WorkloadModel
from mirage.trace.write_trace import format_to_write, write_trace

DEFAULT_DAYS = 30.0


@click.command(
    context_settings=CONTEXT,
    epilog=examples(
        "mirage trace generate -o month.csv",
        "mirage trace generate --days 90 --load 0.95 --seed 7 -o busy.parquet",
        "mirage trace generate --jobs 100000 --nodes 200 -o large.swf.gz",
        "mirage trace generate --like jobs.log.gz --nodes 76 --days 60 --check -o like.csv",
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
@click.option("-o", "out", required=True, metavar="OUT", help="File to write.")
@to_option
@click.option("--check", is_flag=True, help="Print the marginals of the model's trace and of the new one.")
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
    reading: TraceOptions,
) -> None:
    """Write a synthetic trace to OUT; the same options give the same jobs.

    It holds submissions, sizes, limits, users and run times, but no starts: a simulator computes those.
    """
    if days is not None and jobs is not None:
        raise click.UsageError("--days and --jobs exclude each other")
    check_output(out)
    format_to_write(out, to)
    model = _model(like, nodes, reading)
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
        f"mirage: {len(table):,} jobs over {span_days:.1f} days on {nodes or model.nodes} nodes "
        f"at load {model.load if load is None else load:.2f}, like {model.name}, written to {out}",
        err=True,
    )
    if check:
        print_comparison(compare(model.fitted_to, table))


def _model(like: str, nodes: int | None, reading: TraceOptions) -> WorkloadModel:
    """Returns the model that ``--like`` names."""
    if like in builtin_models():
        return builtin_model(like)
    if like != "-" and not Path(like).exists():
        raise UnknownName("trace file or workload model", like, builtin_models())
    if is_model_file(like):
        return read_model(like)
    return fit_workload(read_named_trace(like, reading).table, nodes=nodes, name=Path(like).name)


def print_comparison(rows: Iterable[MarginalComparison]) -> None:
    """Prints a table of the marginals of the model's trace and of the new one."""
    click.echo(f"{'marginal':<32}{'like':>10}{'new':>10}")
    for row in rows:
        click.echo(f"{row.marginal:<32}{row.real:>10.3f}{row.synthetic:>10.3f}")
