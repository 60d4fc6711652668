"""``mirage trace info``: the statistics of a trace."""

from __future__ import annotations

import json

import click

from mirage.cli.options import CONTEXT, TraceOptions, examples, json_output, trace_options
from mirage.cli.output import check_output
from mirage.cli.trace_reading import read_named_trace
from mirage.trace.statistics.summary import describe


@click.command(
    context_settings=CONTEXT,
    epilog=examples(
        "mirage trace info jobs.log.gz",
        "mirage trace info --timezone America/Chicago ls6-a100.log.gz",
        "mirage trace info --skip-bad-lines --json sacct.txt | jq .statistics.wait_s.p50",
        "sacct -a -P -S 2024-01-01 -o ALL | mirage trace info -",
        "mirage trace info --columns 'submit_s=submitted,elapsed_s=runtime[min],nodes=n' ours.csv",
        "mirage trace info --plot busy.png jobs.parquet",
    ),
)
@click.argument("trace")
@json_output
@click.option("--plot", metavar="FILE", help="Also draw busy nodes and waits (.png, .pdf, .svg).")
@trace_options
def info(trace: str, as_json: bool, plot: str | None, reading: TraceOptions) -> None:
    """Show the statistics of TRACE (a file, or - for standard input).

    They cover waits, run times, limits and their use, sizes, states, and busy nodes over time, with the least number of
    nodes the cluster must have had.
    """
    if plot is not None:
        from mirage.report.picture_file import picture_kind

        check_output(plot, trace)
        picture_kind(plot, (".png", ".pdf", ".svg"))
    read = read_named_trace(trace, reading)
    statistics = describe(read.table)
    if plot is not None:
        from mirage.report.charts.trace_chart import trace_chart
        from mirage.report.picture_file import write_picture

        write_picture(trace_chart(read.table, statistics), plot)
    if as_json:
        click.echo(json.dumps({"read": read.report.to_json(), "statistics": statistics.to_json()}, indent=2))
        return
    from mirage.report.terminal.trace_text import print_trace

    print_trace(read, statistics)
