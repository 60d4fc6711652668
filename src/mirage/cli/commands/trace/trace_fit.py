r"""``mirage trace fit``: the workload model of a trace.

The built-in model ``lonestar6-like`` was made by this command from the trace published with the Mirage paper, over the
weeks in which the cluster had its final size:

    mirage trace fit ls6-a100.log.gz -o src/mirage/trace/models/lonestar6-like.json --name lonestar6-like \
        --from 2022-12-12 --until 2023-03-20 -N 76 --gpus-per-node 3 --cpus-per-node 128 -p gpu-a100
"""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np

from mirage.cli.commands.trace.generate import steady_jobs
from mirage.cli.options import CONTEXT, TraceOptions, examples, trace_options
from mirage.cli.output import check_output
from mirage.cli.trace_reading import read_named_trace
from mirage.cli.values import COUNT, COUNT_OR_NONE, DATE
from mirage.errors import quantity
from mirage.trace.table import JobTable, Labels
from mirage.trace.workload.fit_workload import MIN_USERS, fit_workload
from mirage.trace.workload.workload_json import write_model


@click.command(
    context_settings=CONTEXT,
    epilog=examples(
        "mirage trace fit jobs.log.gz -o ours.json",
        "mirage trace fit --from 2025-01-06 --until 2025-03-31 -N 200 jobs.parquet -o ours.json",
        "mirage trace generate --like ours.json --days 60 -o like-ours.csv",
    ),
)
@click.argument("trace")
@click.option("-o", "--out", required=True, metavar="MODEL", help="File to write (.json).")
@click.option("--name", metavar="NAME", help="Name of the model.  [default: the name of TRACE]")
@click.option("--from", "first", type=DATE, metavar="DATE", help="Leave out jobs submitted before DATE, UTC.")
@click.option("--until", type=DATE, metavar="DATE", help="Leave out jobs submitted at DATE or later, UTC.")
@click.option("-N", "--nodes", type=COUNT, metavar="N", help="Nodes of the cluster.  [default: most busy]")
@click.option("--gpus-per-node", type=COUNT_OR_NONE, metavar="N", help="GPUs per node, if not in TRACE.")
@click.option("--cpus-per-node", type=COUNT_OR_NONE, metavar="N", help="CPUs per node, if not in TRACE.")
@click.option("-p", "--partition", metavar="NAME", help="Partition of all jobs, if not in TRACE.")
@trace_options
def fit(
    trace: str,
    out: str,
    name: str | None,
    first: int | None,
    until: int | None,
    nodes: int | None,
    gpus_per_node: int | None,
    cpus_per_node: int | None,
    partition: str | None,
    reading: TraceOptions,
) -> None:
    """Write the workload model of TRACE (a file, or - for standard input) to MODEL.

    A model holds rates, shares and quantiles of groups of at least five users, or of all users where there are fewer.
    It contains no job, user, account or name of the trace, except the names of its partitions. 'mirage trace generate
    --like MODEL' draws from it.

    Without --from and --until, a rise of the load at the beginning of TRACE and a fall at its end are left out.
    """
    if first is not None and until is not None and first >= until:
        raise click.UsageError("--from must be before --until")
    if partition == "":
        raise click.UsageError("the name of --partition is empty; name a partition")
    check_output(out, trace)
    table = read_named_trace(trace, reading).table
    if first is None and until is None:
        table = steady_jobs(trace, table)
    begin = 0 if first is None else first
    end = np.iinfo(np.int64).max if until is None else until
    table = table[(table.submit_s >= begin) & (table.submit_s < end)]
    for option, given, what, recorded in (
        ("gpus-per-node", gpus_per_node, "GPUs", (table.gpus >= 0).any()),
        ("cpus-per-node", cpus_per_node, "CPUs", (table.cpus >= 0).any()),
        ("partition", partition, "partitions", table.partition.names),
    ):
        if given is not None and recorded:
            click.echo(f"mirage: warning: {trace} has {what}, so --{option} {given} is not used", err=True)
    if nodes is not None and (most := int(table.nodes.max(initial=0))) > nodes:
        click.echo(
            f"mirage: warning: {trace} has jobs of {most:,} nodes, and --nodes is {nodes:,}; give the nodes of the "
            "cluster",
            err=True,
        )
    table = _completed(table, gpus_per_node, cpus_per_node, partition)
    model = fit_workload(table, nodes=nodes, name=name or Path(trace).name)
    if (users := sum(habit.users for habit in model.habits)) < MIN_USERS:
        click.echo(
            f"mirage: warning: the model describes {quantity(users, 'user')}, so it shows how each of them works; do "
            "not publish it without their consent",
            err=True,
        )
    write_model(model, out)
    click.echo(
        f"mirage: model of {quantity(len(table), 'job')}, {quantity(model.nodes, 'node')}, load {model.load:.2f}, "
        f"{quantity(sum(h.users for h in model.habits), 'user')} in {quantity(len(model.habits), 'habit')}, "
        f"written to {out}",
        err=True,
    )


def _completed(table: JobTable, gpus: int | None, cpus: int | None, partition: str | None) -> JobTable:
    """Returns the table with columns added that the trace does not have."""
    if gpus is not None and (table.gpus < 0).all():
        table = table.with_columns(gpus=table.nodes * gpus)
    if cpus is not None and (table.cpus < 0).all():
        table = table.with_columns(cpus=table.nodes * cpus)
    if partition is not None and not table.partition.names:
        table = table.with_columns(partition=Labels(np.zeros(len(table), dtype=np.int64), (partition,)))
    return table
