"""``mirage trace fidelity``: how well a simulated history agrees with the recorded one."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from mirage.cli.options import CONTEXT, TraceOptions, examples, json_output, trace_options
from mirage.cli.output import check_output
from mirage.cli.trace_reading import read_named_trace
from mirage.cli.values import DATE
from mirage.errors import ConfigurationError, TraceError, UnknownFormat
from mirage.trace.formats.column_mapping import parse_columns
from mirage.version import __version__

if TYPE_CHECKING:
    from mirage.trace.read_trace import Trace


@click.command(
    context_settings=CONTEXT,
    epilog=examples(
        "mirage simulate jobs.log.gz --nodes 76 -o simulated.csv",
        "mirage trace fidelity jobs.log.gz simulated.csv",
        "mirage trace fidelity jobs.log.gz simulated.csv --from 2023-02-01 --until 2023-04-01",
        "mirage trace fidelity jobs.log.gz simulated.csv --plot fidelity.html",
        "mirage trace fidelity --json sacct.txt simulated.csv | jq .moving_average.mape",
    ),
)
@click.argument("recorded")
@click.argument("simulated")
@click.option("--from", "first", type=DATE, metavar="DATE", help="Leave out jobs submitted before DATE, UTC.")
@click.option("--until", type=DATE, metavar="DATE", help="Leave out jobs submitted at DATE or later, UTC.")
@json_output
@click.option("--plot", "chart", metavar="FILE", help="Also draw waits and busy nodes of both (.svg, .html).")
@click.option(
    "--simulated-columns",
    metavar="MAP",
    help="Map the columns of SIMULATED if it is a CSV of another tool; same form as --columns.",
)
@trace_options
def fidelity(
    recorded: str,
    simulated: str,
    first: int | None,
    until: int | None,
    as_json: bool,
    chart: str | None,
    simulated_columns: str | None,
    reading: TraceOptions,
) -> None:
    """Show how well SIMULATED agrees with RECORDED.

    RECORDED is a trace with real starts and ends (a file, or - for standard input). SIMULATED has the starts and ends
    of the same jobs in a simulation: the output of 'mirage simulate -o', or a trace in any format. Jobs are matched by
    their id; those in only one of the two are counted.

    The comparison covers mean waits over windows of two weeks, the waits of single jobs, starts, the waits of every
    class of nodes and time limit, busy nodes and the queue. The options for reading apply to RECORDED.
    """
    if first is not None and until is not None and first >= until:
        raise click.UsageError("--from must be before --until")
    if recorded == simulated == "-":
        raise click.UsageError("RECORDED and SIMULATED cannot both be standard input; name one file")
    if chart is not None:
        from mirage.report.pages.fidelity_page import check_kind

        check_kind(chart)
        check_output(chart, recorded, simulated)
    trace, schedule = read_named_trace(recorded, reading), _read_simulated(simulated, reading, simulated_columns)
    if trace.report.format == "schedule" and schedule.report.format != "schedule":
        raise ConfigurationError(f"{recorded} is a simulated schedule, and {simulated} is none; exchange the two")

    from mirage.calibration.fidelity.judge_fidelity import judge

    found = judge(trace.table, schedule.table, from_s=first, until_s=until)
    command = shlex.join(["mirage", *sys.argv[1:]])
    if chart is not None:
        from mirage.report.pages.fidelity_page import draw_fidelity

        draw_fidelity(found, chart, recorded, simulated, command)
    if as_json:
        record = {"recorded": recorded, "simulated": simulated, "version": __version__, "command": command}
        click.echo(json.dumps(record | found.to_json(), indent=2))
        return
    from mirage.report.terminal.fidelity_text import print_fidelity

    print_fidelity(found, recorded, simulated)


def _read_simulated(path: str, reading: TraceOptions, columns: str | None) -> Trace:
    """Reads the simulated starts and ends.

    Raises:
        ConfigurationError: The mapping names no column with the jobs' ids.
        TraceError: The file cannot be read, or has no known format.
    """
    if columns is not None and "job_id" not in parse_columns(columns).sources:
        raise ConfigurationError(
            "--simulated-columns names no job_id, so simulated jobs cannot be matched; "
            "add job_id=COLUMN, the column with the ids of the recorded jobs"
        )
    plain = replace(reading, format=None, fields=None, delimiter=None, columns=columns)
    try:
        return read_named_trace(path, plain)
    except UnknownFormat as error:
        raise TraceError(
            f"{path}:1: this is no schedule with the ids of jobs: its first row must be id,submit,start,end, as "
            "'mirage simulate -o' writes it; or map its columns: "
            "--simulated-columns job_id=...,submit_s=...,start_s=...,end_s=..."
        ) from error
