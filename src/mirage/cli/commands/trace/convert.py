"""``mirage trace convert``: write a trace in another format."""

from __future__ import annotations

import click

from mirage.cli.options import CONTEXT, TraceOptions, examples, to_option, trace_options
from mirage.cli.output import check_output
from mirage.cli.trace_reading import read_named_trace
from mirage.trace.write import format_to_write, write_trace


@click.command(
    context_settings=CONTEXT,
    epilog=examples(
        "mirage trace convert jobs.log.gz jobs.parquet",
        "mirage trace convert --timezone America/Chicago ls6-a100.log.gz ls6.csv.gz",
        "mirage trace convert --skip-bad-lines sacct.txt jobs.swf",
        "sacct -a -P -o ALL | mirage trace convert - /dev/stdout --to csv",
    ),
)
@click.argument("trace")
@click.argument("out")
@to_option
@trace_options
def convert(trace: str, out: str, to: str | None, reading: TraceOptions) -> None:
    """Write TRACE (a file, or - for standard input) to OUT in another format.

    CSV and Parquet hold the whole job table; SWF holds what eighteen numbers can say. OUT is replaced only
    when it is complete; a name that ends in .gz is compressed.
    """
    format_to_write(out, to)
    check_output(out)
    table = read_named_trace(trace, reading).table
    write_trace(table, out, to)
    click.echo(f"mirage: {len(table):,} jobs written to {out}", err=True)
