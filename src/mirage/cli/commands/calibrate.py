"""``mirage calibrate``: fit the simulator to a cluster by its accounting."""

from __future__ import annotations

import json
import shlex
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from mirage import __version__
from mirage.cli.machine import SETTINGS
from mirage.cli.options import CONTEXT, TraceOptions, examples, json_output, trace_options
from mirage.cli.output import check_output
from mirage.cli.trace_reading import read_named_trace
from mirage.cli.values import DATE
from mirage.duration import DAY_S

if TYPE_CHECKING:
    from mirage.calibration.fit import Slice
    from mirage.calibration.mechanisms import Mechanisms, Site
    from mirage.calibration.shares import Share, Waits
    from mirage.sim.slurm_conf.settings import SlurmSettings
    from mirage.trace.table import JobTable


@click.command(
    context_settings=CONTEXT,
    epilog=examples(
        "mirage calibrate jobs.log.gz --settings lonestar6 -o cluster.toml",
        "mirage calibrate sacct.txt --slurm-conf /etc/slurm/slurm.conf --fit-from 2023-01-01 --judge-from 2023-02-01",
        "mirage calibrate jobs.log.gz --until 2023-03-29 --chart fidelity.html -o cluster.toml",
        "mirage simulate jobs.log.gz --cluster cluster.toml -o simulated.csv",
        "mirage evaluate jobs.log.gz --cluster cluster.toml -N 8",
    ),
)
@click.argument("trace")
@click.option("-o", "out", metavar="FILE", help="Write the fitted cluster, for --cluster of other commands.")
@click.option("--slurm-conf", metavar="FILE", help="Take the scheduler's parameters from a slurm.conf.")
@click.option("--settings", type=click.Choice(SETTINGS), help="The scheduler's parameters without one.")
@click.option("--fit-from", type=DATE, metavar="DATE", help="Fit to jobs submitted from then on, UTC.")
@click.option("--judge-from", type=DATE, metavar="DATE", help="Judge by those submitted from then on.")
@click.option("--until", type=DATE, metavar="DATE", help="Look at none submitted then or later.")
@json_output
@click.option("--chart", metavar="FILE", help="Draw simulated beside recorded waits and nodes (.svg, .html).")
@trace_options
def calibrate(
    trace: str,
    out: str | None,
    slurm_conf: str | None,
    settings: str | None,
    fit_from: int | None,
    judge_from: int | None,
    until: int | None,
    as_json: bool,
    chart: str | None,
    reading: TraceOptions,
) -> None:
    """Fit the simulator to the cluster that TRACE was recorded on, and say how faithful it is there.

    From the accounts come the nodes over time, outages, the limit on running jobs of a user and the priorities of jobs;
    weights of priorities, the time a node needs between two jobs and whether users answer to their jobs are chosen so
    that a replay of one slice of time comes closest to it. It is judged on the slice after that one: by default, the
    trace is cut in half behind its first two weeks.
    """
    if slurm_conf is not None and settings is not None:
        raise click.UsageError("--slurm-conf and --settings exclude each other")
    if chart is not None:
        from mirage.report.pages.fidelity import check_kind

        check_kind(chart)
    for path in (out, chart):
        if path is not None:
            check_output(path)
    said = _scheduler(slurm_conf, settings)
    read = read_named_trace(trace, reading)

    from mirage.calibration.capacity import queued
    from mirage.calibration.fit import fit
    from mirage.calibration.mechanisms import Site
    from mirage.calibration.shares import ALL, shares, waits
    from mirage.report.terminal.evaluation import progress_bar

    jobs = queued(read.table)
    fitted, after = _slices(jobs, fit_from, judge_from, until)
    site = Site.of(jobs, said, fitted.from_s, fitted.until_s)
    with progress_bar("replays") as progress:
        best = fit(site, fitted, on_try=lambda done, most, _: progress(done, most))
    rows = list(shares(site, best, fitted, after))
    waited = (waits(site, best, fitted), waits(site, best, after))
    command = shlex.join(["mirage", *sys.argv[1:]])
    whole = next(row for row in rows if row.name == ALL)
    if chart is not None:
        from mirage.report.pages.fidelity import draw_fidelity

        draw_fidelity(whole.judged, chart, trace, "the fitted cluster", command)
    facts = _facts(trace, fitted, after, best, rows, waited, command)
    if out is not None:
        _write(out, site, best, facts)
    if as_json:
        click.echo(json.dumps(facts, indent=2, default=str))
        return
    from mirage.report.terminal.calibration import print_calibration

    print_calibration(site, best, rows, waited, fitted, trace)


def _scheduler(slurm_conf: str | None, settings: str | None) -> SlurmSettings:
    from mirage.sim.slurm_conf.settings import SlurmSettings

    if slurm_conf is not None:
        return SlurmSettings.from_slurm_conf(slurm_conf)
    return SlurmSettings.lonestar6() if settings == "lonestar6" else SlurmSettings()


def _slices(jobs: JobTable, fit_from: int | None, judge_from: int | None, until: int | None) -> tuple[Slice, Slice]:
    from mirage.calibration.fit import WARM_UP_S, Slice

    first, last = int(jobs.submit_s[0]) // DAY_S * DAY_S, (int(jobs.submit_s[-1]) // DAY_S + 1) * DAY_S
    begin_s = first + WARM_UP_S if fit_from is None else fit_from
    end_s = last if until is None else until
    middle_s = (begin_s + end_s) // (2 * DAY_S) * DAY_S if judge_from is None else judge_from
    return Slice(begin_s, middle_s), Slice(middle_s, end_s)


def _facts(
    trace: str,
    fitted: Slice,
    after: Slice,
    best: Mechanisms,
    rows: list[Share],
    waited: tuple[Waits, Waits],
    command: str,
) -> dict[str, Any]:
    from dataclasses import asdict

    chosen = {name: value for name, value in asdict(best).items() if value is not None}
    return {
        "trace": trace,
        "fitted_from": _day(fitted.from_s),
        "fitted_until": _day(fitted.until_s),
        "judged_until": _day(after.until_s),
        "mechanisms": chosen,
        "fidelity": {
            row.name: {which: _figures(getattr(row, which)) for which in ("fitted", "judged")} for row in rows
        },
        "waits": {
            which: {name: value for name, value in asdict(found).items() if value is not None}
            for which, found in zip(("fitted", "judged"), waited)
        },
        "version": __version__,
        "command": command,
    }


def _figures(found: Any) -> dict[str, Any]:
    told = {
        "jobs": found.counts.compared,
        "moving_average_mape": found.moving_average.mape,
        "rank_correlation": found.rank_correlation.value,
        "pearson": found.pearson.value,
        "recorded_mean_wait_s": found.recorded_wait_s.mean,
        "simulated_mean_wait_s": found.simulated_wait_s.mean,
    }
    return {name: value for name, value in told.items() if value is not None}


def _day(instant_s: int) -> datetime:
    return datetime.fromtimestamp(instant_s, UTC)


def _write(path: str, site: Site, best: Mechanisms, facts: dict[str, Any]) -> None:
    from mirage.sim.slurm_conf.cluster_file import ClusterFile, write_cluster_file

    said = {"group": "nodes in use over time", "calibration": "mirage calibrate"}
    write_cluster_file(path, ClusterFile(site.cluster(best), site.scheduler(best), said, facts))
