"""``mirage simulate``: replay a trace under a queue discipline."""

from __future__ import annotations

import gzip
import json
import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mirage.atomic_file import write_output
from mirage.cli.machine_options import MachineOptions, SimulatedMachine, discipline_help, machine_options
from mirage.cli.options import CONTEXT, ExtensibleOption, TraceOptions, examples, json_output, trace_options
from mirage.cli.output import check_output
from mirage.cli.trace_reading import QUIET_S, read_named_trace
from mirage.cli.values import Duration
from mirage.errors import ConfigurationError, quantity
from mirage.version import __version__

if TYPE_CHECKING:
    from mirage.sim.schedule import Schedule
    from mirage.sim.workload import Workload
    from mirage.trace.read_trace import Trace


@click.command(
    context_settings=CONTEXT,
    epilog=examples(
        "mirage simulate jobs.swf --processors 352 --discipline easy -o schedule.csv",
        "mirage simulate jobs.log.gz --nodes 76 --settings lonestar6",
        "mirage simulate jobs.csv --nodes 16 --gpus-per-node 8 --cpus-per-node 64 --json",
        "mirage simulate sacct.txt --slurm-conf /etc/slurm/slurm.conf --skip-impossible",
        "mirage simulate jobs.log.gz --cluster cluster.toml",
        "mirage simulate jobs.log.gz --nodes 76 --settings lonestar6 --think-time 20m -o schedule.csv",
        "mirage simulate jobs.swf --processors 352 --discipline conservative --max-job-test 100",
    ),
)
@click.argument("trace")
@click.option(
    "--discipline",
    cls=ExtensibleOption,
    group="mirage.disciplines",
    default="slurm",
    show_default=True,
    metavar="NAME",
    help=f"Queue discipline: {discipline_help()}.",
)
@machine_options
@click.option(
    "--think-time",
    "think_s",
    type=Duration(limited=True),
    metavar="TIME",
    help="Let users answer to their jobs: a job submitted within TIME after a start or an end is submitted as long "
    "after the simulated one. A bare number counts minutes. 0: submit at the recorded times.  [default: that of "
    "--cluster, else 0]",
)
@click.option("-o", "--out", metavar="FILE", help="Write the schedule: CSV with id, submit, start, end.")
@json_output
@trace_options
def simulate(
    trace: str,
    discipline: str,
    machine: MachineOptions,
    think_s: int | None,
    out: str | None,
    as_json: bool,
    reading: TraceOptions,
) -> None:
    """Replay TRACE (a file, or - for standard input) on a cluster, and show the waits.

    Jobs are submitted at the recorded times and run for the recorded durations, but no longer than their limit. The
    discipline decides the order of starts. With --think-time the loop is closed: a job that followed another job of its
    user is submitted one think time after the simulated start or end of that job.
    """
    if out is not None:
        check_output(out, trace, *machine.files)
        if Path(out.removesuffix(".gz")).suffix in (".parquet", ".json", ".swf"):
            raise ConfigurationError(f"cannot write {out}: a schedule is CSV, so name it .csv")
    simulated = machine.machine(discipline)
    read = read_named_trace(trace, reading)

    from mirage.calibration.inferred.think_times import as_submitted
    from mirage.report.terminal.progress import progress_bar
    from mirage.sim.simulation import Simulation

    jobs = machine.workload(read.table, simulated.cluster, trace)
    origin_s = _origin_s(read)
    del read  # memory: the table may be sorted and shorter in the workload
    jobs, answering = _answering(jobs, think_s, simulated.think_s, trace)
    simulation = Simulation(simulated.cluster, jobs, discipline, simulated.settings)
    began_s = time.process_time()
    with progress_bar("jobs simulated", QUIET_S) as progress:
        schedule = simulation.run(progress)
    cpu_s = time.process_time() - began_s
    speed = {"simulate_cpu_s": cpu_s, "jobs_per_cpu_s": len(jobs.jobs) / cpu_s if cpu_s > 0 else 0.0}
    known = {"left_out": jobs.left_out, **answering, "dependencies_dropped": jobs.dependencies_dropped}
    del simulation, jobs  # memory: the requests are as large as the table
    if answering:
        schedule = as_submitted(schedule)
    if out is not None:
        csv = _as_csv(schedule, origin_s).encode("utf-8", "replace")
        write_output(out, gzip.compress(csv, mtime=0) if out.endswith(".gz") else csv)
    report = {**schedule.metrics(), **speed, **known}
    if as_json:
        click.echo(json.dumps(report | _provenance(trace, discipline, simulated), indent=2))
    else:
        _print(report, discipline, simulated, "node" if machine.processors is None else "processor")


def _answering(jobs: Workload, think_s: int | None, of_file_s: int, trace: str) -> tuple[Workload, dict[str, Any]]:
    """Returns the workload in a closed loop, and facts of it; unchanged without think time.

    Args:
        jobs: The workload.
        think_s: The given think time; None for that of the cluster file.
        of_file_s: The think time of the cluster file.
        trace: Name of the trace.

    Raises:
        ConfigurationError: A think time is given, but no job answers to another.
    """
    longest_s = of_file_s if think_s is None else think_s
    if not longest_s:
        return jobs, {}
    from dataclasses import asdict

    from mirage.calibration.inferred.think_times import ThinkTimes, closed_loop

    found = ThinkTimes.of(jobs.table, longest_s)
    if found.answer:
        return closed_loop(jobs, longest_s), {"answers": asdict(found)}
    no_follower = f"no job of {trace} follows another job of its user by {longest_s} s or less"
    if think_s is not None:
        raise ConfigurationError(
            f"{no_follower}, so there is no loop to close; the trace must have users, submissions, starts and ends; "
            "leave --think-time out, or give 0"
        )
    click.echo(f"mirage: {no_follower}: jobs are submitted at the recorded times", err=True)
    return jobs, {}


def _provenance(trace: str, discipline: str, machine: SimulatedMachine) -> dict[str, Any]:
    return {
        "trace": trace,
        "discipline": discipline,
        "nodes": machine.cluster.nodes,
        "settings": machine.source,
        "version": __version__,
        "command": shlex.join(["mirage", *sys.argv[1:]]),
    }


def _origin_s(read: Trace) -> int:
    """Returns the seconds that the reader added to the times of the trace."""
    from mirage.trace.formats.swf import header_start_s

    return header_start_s(read.report.metadata) if read.report.format == "swf" else 0


def _as_csv(schedule: Schedule, origin_s: int) -> str:
    """Returns the schedule as CSV in order of submission, in seconds of the trace.

    A cell is empty where a job did not start or end.
    """
    import csv
    import io

    import numpy as np

    from mirage.job_state import MISSING
    from mirage.trace.read_trace import SCHEDULE_HEADER

    order = np.argsort(schedule.table.submit_s, kind="stable")  # in a closed loop, not the order of the trace
    ids = schedule.table.job_id[order].tolist()
    columns = (schedule.table.submit_s, schedule.start_s, schedule.end_s)
    texts = [["" if t == MISSING else str(t - origin_s) for t in column[order].tolist()] for column in columns]
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows([SCHEDULE_HEADER, *zip(ids, *texts)])
    return text.getvalue()


def _print(report: dict[str, Any], discipline: str, machine: SimulatedMachine, noun: str) -> None:
    from rich.table import Table
    from rich.text import Text

    from mirage.duration import format_duration
    from mirage.report.terminal.console_table import plain_console

    def clock(seconds: float) -> str:
        return format_duration(round(seconds))

    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="dim")
    table.add_column(justify="right")
    table.add_row("jobs", f"{report['jobs']:,}")
    for name, key in (("mean wait", "mean_wait_s"), ("median wait", "median_wait_s"), ("95 % wait", "p95_wait_s")):
        table.add_row(name, clock(report.get(key, 0)))
    table.add_row("longest wait", clock(report["max_wait_s"]))
    table.add_row("makespan", clock(report["makespan_s"]))
    table.add_row("utilisation", f"{report['utilisation']:.1%}")
    table.add_row("bounded slowdown", f"{report.get('mean_bounded_slowdown', 0):,.1f}")
    table.add_row("jobs per CPU second", f"{report['jobs_per_cpu_s']:,.0f}")
    console = plain_console()
    where = f" on {quantity(machine.cluster.nodes, noun)}, settings {machine.source}"
    console.print(Text.assemble((discipline, "bold"), where), soft_wrap=True)
    console.print(table)
    if answers := report.get("answers"):
        console.print(
            f"{answers['answer']:,} of {answers['jobs']:,} jobs ({answers['share']:.0%}) answer to an earlier job of "
            f"their user, {answers['by_chance']:.0%} by chance"
        )
    if report["dependencies_dropped"]:
        click.echo(
            f"mirage: the dependencies of {quantity(report['dependencies_dropped'], 'job')} count in part: on one "
            "other job at most, by after, afterany or afterok, without a delay",
            err=True,
        )
    if report["never_started"]:
        click.echo(
            f"mirage: {quantity(report['never_started'], 'job')} without a start: a dependency on jobs that never "
            "start, nodes that never become available, or a discipline that leaves jobs in the queue",
            err=True,
        )
