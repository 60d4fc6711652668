"""``mirage trace convert``: write a trace in another format."""

from __future__ import annotations

import math
from fractions import Fraction

import click

from mirage.cli.options import CONTEXT, TraceOptions, examples, to_option, trace_options
from mirage.cli.output import check_output
from mirage.cli.trace_reading import read_named_trace
from mirage.errors import quantity
from mirage.trace.scale import scaled_nodes
from mirage.trace.table import JobTable
from mirage.trace.write_trace import format_to_write, write_trace

NOTABLE_CHANGE = 0.05
"""Least relative change of the load by rounding that is reported."""


def _factor(ctx: click.Context, parameter: click.Parameter, value: str | None) -> Fraction | None:
    """Returns a factor above 0.

    Raises:
        click.BadParameter: The value is not a factor above 0.
    """
    if value is None:
        return None
    try:
        if not all(0 < float(part) < math.inf for part in value.split("/")):  # a Fraction of 1e999999999 never ends
            raise ValueError(value)
        factor = Fraction(value)
    except (ValueError, ZeroDivisionError):
        factor = Fraction(0)
    if factor <= 0:
        raise click.BadParameter(f"{value!r} is no factor above 0; write it as 0.5 or 76/4360", ctx, parameter)
    return factor


@click.command(
    context_settings=CONTEXT,
    epilog=examples(
        "mirage trace convert jobs.log.gz jobs.parquet",
        "mirage trace convert --timezone America/Chicago ls6-a100.log.gz ls6.csv.gz",
        "mirage trace convert --skip-bad-lines sacct.txt jobs.swf",
        "mirage trace convert theta_2022.swf.gz theta-76.csv --scale-nodes 76/4360",
        "sacct -a -P -o ALL | mirage trace convert - /dev/stdout --to csv",
    ),
)
@click.argument("trace")
@click.argument("out")
@to_option
@click.option(
    "--scale-nodes",
    metavar="X",
    callback=_factor,
    help="Multiply the nodes of every job by X, such as 76/4360, for a replay on a cluster of another size. A job has "
    "at least one node.",
)
@trace_options
def convert(trace: str, out: str, to: str | None, scale_nodes: Fraction | None, reading: TraceOptions) -> None:
    """Write TRACE (a file, or - for standard input) to OUT in another format.

    CSV and Parquet hold the whole job table; SWF holds only its eighteen numeric fields. OUT is replaced only when the
    new file is complete; a name that ends in .gz is compressed.
    """
    check_output(out, trace)
    format_to_write(out, to)
    table = read_named_trace(trace, reading).table
    if scale_nodes is not None:
        whole, table = table, scaled_nodes(table, scale_nodes)
        _report_rounded(trace, whole, table, scale_nodes)
    write_trace(table, out, to)
    click.echo(f"mirage: {quantity(len(table), 'job')} written to {out}", err=True)


def _report_rounded(trace: str, whole: JobTable, scaled: JobTable, factor: Fraction) -> None:
    """Reports jobs raised to one node, and a load that rounding changes."""
    raised = int(((whole.nodes > 0) & (whole.nodes * float(factor) < 1)).sum())
    held, scaled_held = (float(table.nodes.clip(0) @ table.run_s.clip(0)) for table in (whole, scaled))
    change = scaled_held / (held * factor) if held else 1
    if not raised and abs(change - 1) < NOTABLE_CHANGE:
        return
    what = f"{quantity(raised, 'job')} of {trace} below one node after scaling, raised to one node"
    load = f"; all jobs together need {change:.3g} times the scaled node-hours" if held else ""
    click.echo(f"mirage: {what if raised else f'nodes of jobs of {trace} rounded after scaling'}{load}", err=True)
