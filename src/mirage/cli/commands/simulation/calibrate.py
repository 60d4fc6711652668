"""``mirage calibrate``: fit the simulator to a cluster from its accounting."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mirage.cli.cli_context import check_login_node
from mirage.cli.machine_options import SETTINGS, report_remarks
from mirage.cli.options import CONTEXT, TraceOptions, examples, given_options, is_given, json_output, trace_options
from mirage.cli.output import check_distinct, check_output, check_page
from mirage.cli.trace_reading import read_named_trace
from mirage.cli.values import DATE, LINK_REQUEST, IntegerRange
from mirage.duration import DAY_S, format_duration
from mirage.errors import ConfigurationError, quantity
from mirage.version import __version__

if TYPE_CHECKING:
    from mirage.calibration.declared_settings import DeclaredSettings
    from mirage.calibration.fit_mechanisms import TraceSlice
    from mirage.cli.own_site import OwnSite
    from mirage.provision.evaluation.site_choice import LinkRequest
    from mirage.trace.table import JobTable


@click.command(
    context_settings=CONTEXT,
    epilog=examples(
        "mirage calibrate jobs.log.gz --settings lonestar6 -o cluster.toml",
        "mirage calibrate jobs.log.gz --until 2023-03-29 --report calibration.html -o cluster.toml",
        "mirage calibrate sacct.txt --slurm-conf /etc/slurm/slurm.conf --fit-from 2023-01-01 --judge-from 2023-02-01",
        "mirage calibrate sacct.txt --slurm-conf config.txt --qos qos.txt -o cluster.toml",
        "mirage simulate jobs.log.gz --cluster cluster.toml -o simulated.csv",
        "mirage evaluate jobs.log.gz --cluster cluster.toml --link-nodes 8",
        "mirage calibrate --site                 this cluster, from its own accounting",
        "mirage calibrate --site --choose-for 8,48h,3    and the best policy for links of 8 nodes, 48 h, costs 3:1",
    ),
)
@click.argument("trace", required=False)
@click.option("--site", "at_site", is_flag=True, help="Calibrate the cluster that sacct and scontrol reach here.")
@click.option(
    "--weeks",
    type=IntegerRange(min=6, max=520),
    default=12,
    show_default=True,
    metavar="N",
    help="Weeks of accounting that --site reads, up to now.",
)
@click.option(
    "--choose-for",
    multiple=True,
    type=LINK_REQUEST,
    metavar=LINK_REQUEST.form,
    help="With --site: evaluate policies for such links in the calibrated simulator, and store the best for auto. "
    "RATIO is the cost of an hour of interruption in hours of overlap [1]; bank allows to gather age. Repeatable.",
)
@click.option("-o", "--out", metavar="FILE", help="Write the fitted cluster file, for --cluster of other commands.")
@click.option(
    "--slurm-conf",
    metavar="FILE",
    help="Take the scheduler's parameters from a slurm.conf, or from the output of `scontrol show config`.",
)
@click.option("--settings", type=click.Choice(SETTINGS), help="The scheduler's parameters, without --slurm-conf.")
@click.option("--qos", metavar="FILE", help="Take QOS and their limits from the output of `sacctmgr -P show qos`.")
@click.option(
    "--associations",
    metavar="FILE",
    help="Take limits on the age priority of users and accounts from the output of `sacctmgr -P show assoc "
    "format=Cluster,Account,ParentName,User,Partition,GrpJobsAccrue,MaxJobsAccrue`.",
)
@click.option("--sprio", metavar="FILE", help="Take the priority weights from the output of `sprio -w`.")
@click.option("--fit-from", type=DATE, metavar="DATE", help="Fit to jobs submitted at DATE or later, UTC.")
@click.option("--judge-from", type=DATE, metavar="DATE", help="Judge by jobs submitted at DATE or later.")
@click.option("--until", type=DATE, metavar="DATE", help="Ignore jobs submitted at DATE or later.")
@json_output
@click.option("--report", metavar="FILE", help="Write a page with charts of all results (.html).")
@trace_options
def calibrate(
    trace: str | None,
    at_site: bool,
    weeks: int,
    choose_for: tuple[LinkRequest, ...],
    out: str | None,
    slurm_conf: str | None,
    settings: str | None,
    qos: str | None,
    associations: str | None,
    sprio: str | None,
    fit_from: int | None,
    judge_from: int | None,
    until: int | None,
    as_json: bool,
    report: str | None,
    reading: TraceOptions,
) -> None:
    """Fit the simulator to the cluster on which TRACE was recorded, and report its fidelity.

    The nodes over time, outages, the limit on running jobs of a user and job priorities are taken from accounting. The
    priority weights, the time a node needs between two jobs, and whether users answer to their jobs, are fitted so that
    a replay of one slice of time is closest to that slice. A mechanism that makes parts of this slice worse that were
    held back from the fit is left out. The fit is judged on the next slice: by default, the trace without its first two
    weeks is cut in half. Values given by --slurm-conf, --qos, --associations and --sprio are not inferred; from given
    weights of age, fair-share and job size the fit only starts.

    With --site instead of TRACE, accounting, settings and partitions are those of this cluster. The result is stored in
    the agent's folder, for mirage doctor and mirage predict; the agent does the same once a week.
    """
    if at_site == (trace is not None):
        raise click.UsageError("name a TRACE, or --site, and not both")
    if at_site and (slurm_conf or settings or qos or associations or sprio):
        raise click.UsageError("--site queries this cluster for the scheduler's parameters; leave the others out")
    if at_site and (given := given_options(reading)):
        raise click.UsageError(f"{', '.join(given)}: --site reads no TRACE, but sacct of this cluster; leave it out")
    if choose_for and not at_site:
        raise click.UsageError("--choose-for needs --site: a choice is for the agent of this cluster")
    if is_given("weeks") and not at_site:
        raise click.UsageError("--weeks needs --site; --until and --fit-from choose the time of a TRACE")
    if slurm_conf is not None and settings is not None:
        raise click.UsageError("--slurm-conf and --settings exclude each other")
    inputs = (trace, slurm_conf, qos, associations, sprio)
    if report is not None:
        check_page(report, *inputs)
    if out is not None:
        check_output(out, *inputs)
    check_distinct(report, out)

    options = _CalibrateOptions(fit_from, judge_from, until, out, report, as_json)
    if trace is not None:
        from mirage.calibration.declared_settings import read_declared_settings

        declared = read_declared_settings(slurm_conf, settings, qos, sprio, associations)
        if slurm_conf is not None:
            report_remarks(slurm_conf)
        _calibrate(trace, read_named_trace(trace, reading).table, declared, options)
        return
    from mirage.cli.own_site import own_site

    check_login_node("calibrate")
    with own_site(weeks) as own:
        _calibrate(own.name, own.jobs, own.declared, replace(options, facts=own.facts, second_file=own.place.file))
        for request in choose_for:
            _choose(own, request)


@dataclass(frozen=True, slots=True)
class _CalibrateOptions:
    """The options of the command.

    Attributes:
        facts: Additional facts for the cluster file.
        second_file: A second location of the cluster file, readable by its owner only.
    """

    fit_from: int | None
    judge_from: int | None
    until: int | None
    out: str | None
    report: str | None
    as_json: bool
    facts: Mapping[str, Any] = field(default_factory=dict)
    second_file: Path | None = None


def _calibrate(trace: str, table: JobTable, declared: DeclaredSettings, options: _CalibrateOptions) -> None:
    """Fits, judges, writes and prints."""
    from mirage.calibration.calibration_result import Calibration
    from mirage.calibration.declared_settings import check_associations, check_qos
    from mirage.calibration.inferred.capacity import queued
    from mirage.calibration.mechanisms import Site
    from mirage.report.terminal.progress import progress_bar
    from mirage.sim.slurm_conf.cluster_file import write_cluster_file

    jobs = queued(table)
    check_qos(declared, jobs)
    check_associations(declared, jobs)
    slices = _slices(jobs, options.fit_from, options.judge_from, options.until)
    for stretch in slices:
        _check_slice(stretch, jobs)
    site = Site.of(jobs, declared.settings, slices[0].from_s, slices[0].until_s)
    site = replace(site, qos=declared.qos, age_limits=declared.age_limits(jobs))
    with progress_bar("replays") as progress:
        found = Calibration.of(trace, declared, site, slices, lambda done, most, _: progress(done, most))
    command = shlex.join(["mirage", *sys.argv[1:]])
    facts: dict[str, Any] = found.to_json() | {"version": __version__, "command": command} | dict(options.facts)
    for path, mode in ((options.out, None), (options.second_file, 0o600)):
        if path is not None:
            write_cluster_file(path, found.cluster_file(facts), mode)
    if options.report is not None:
        from mirage.report.pages.calibration_page import write_calibration_page

        write_calibration_page(found, options.report, command, __version__)
    if options.as_json:
        click.echo(json.dumps(facts, indent=2, default=str))
        return
    from mirage.report.terminal.calibration_text import print_calibration

    print_calibration(found)


def _choose(own: OwnSite, request: LinkRequest) -> None:
    """Evaluates policies for links in the calibrated simulator, and stores the best one."""
    from mirage.calibration.inferred.capacity import queued
    from mirage.calibration.site.stored_choices import read_choices, store_choices
    from mirage.provision.evaluation.episode import Scenario
    from mirage.provision.evaluation.site_choice import choose_policy, without_links
    from mirage.report.figures import links_words
    from mirage.report.terminal.progress import progress_bar
    from mirage.sim.slurm_conf.cluster_file import read_cluster_file
    from mirage.sim.workload import workload

    read = read_cluster_file(own.place.file)
    request = replace(request, user=own.user)
    jobs = workload(queued(without_links(own.jobs, request)), read.cluster, refuse=False)
    with progress_bar("windows") as progress:
        scenario = Scenario(read.cluster, jobs, "slurm", read.settings)
        choice = choose_policy(scenario, request, read_choices(own.place), progress)
    store_choices(own.place, [choice])
    links = f"{links_words(request.nodes)} and {format_duration(request.limit_s)}"
    click.echo(f"auto uses {choice.policy} for {links}: {choice.reason}", err=True)


def _check_slice(stretch: TraceSlice, jobs: JobTable) -> None:
    """Checks that there are jobs in a slice, and that some of them waited.

    Raises:
        ConfigurationError: The slice has no jobs, or none that waited.
    """
    from mirage.trace.statistics.summary import iso_utc

    there = stretch.within(jobs)
    if (there.wait_s > 0).any():
        return
    amiss = "no job waited of those" if len(there) else "there are no jobs that were"
    first, last = iso_utc(int(jobs.submit_s.min())), iso_utc(int(jobs.submit_s.max()))
    raise ConfigurationError(
        f"{amiss} submitted from {iso_utc(stretch.from_s)} to {iso_utc(stretch.until_s)}; the trace has jobs from "
        f"{first} to {last}: choose --fit-from, --judge-from and --until where there was a queue"
    )


def _check_span(fit_s: int, judge_s: int, until_s: int, trace_s: int, *, by_default: bool) -> None:
    """Refuses slices of less than two weeks, in words of the options and the trace.

    Args:
        fit_s: Begin of the slice to fit to.
        judge_s: Begin of the slice to judge on.
        until_s: Its end.
        trace_s: Length of the trace until then.
        by_default: Whether no option names the first two.
    """
    from mirage.calibration.fit_mechanisms import SHORTEST_S, WARM_UP_S
    from mirage.trace.statistics.summary import iso_utc

    shortest, needed = SHORTEST_S // DAY_S, (WARM_UP_S + 2 * SHORTEST_S) // DAY_S
    if by_default and min(judge_s - fit_s, until_s - judge_s) < SHORTEST_S:
        raise ConfigurationError(
            f"the trace spans {quantity(max(trace_s, 0) // DAY_S, 'day')} until {iso_utc(until_s)}; a calibration "
            f"needs {needed}: two weeks to warm up, two to fit to and two to judge by"
        )
    for what, begin_s, end_s, first, last in (
        ("fitted", fit_s, judge_s, "--fit-from", "--judge-from"),
        ("judged", judge_s, until_s, "--judge-from", "--until"),
    ):
        days = (end_s - begin_s) / DAY_S
        span = f"the slice to be {what}, from {iso_utc(begin_s)} ({first}) to {iso_utc(end_s)} ({last})"
        if days <= 0:
            raise ConfigurationError(f"{span}, ends before it begins: give {last} a later date than {first}")
        if days < shortest:
            raise ConfigurationError(f"{span}, spans {days:.1f} days: it must span {shortest} at least")


def _slices(
    jobs: JobTable, fit_from: int | None, judge_from: int | None, until: int | None
) -> tuple[TraceSlice, TraceSlice]:
    """Returns the slice to fit to, and the slice to judge on.

    Raises:
        ConfigurationError: One of them is shorter than two weeks, or begins after the trace.
    """
    from mirage.calibration.fit_mechanisms import WARM_UP_S, TraceSlice
    from mirage.trace.statistics.summary import iso_utc

    first, last = int(jobs.submit_s[0]) // DAY_S * DAY_S, (int(jobs.submit_s[-1]) // DAY_S + 1) * DAY_S
    begin_s = first + WARM_UP_S if fit_from is None else fit_from
    end_s = last if until is None else until
    if judge_from is None and begin_s >= end_s and fit_from is not None:
        raise ConfigurationError(
            f"{iso_utc(begin_s)} (--fit-from) is not before {iso_utc(end_s)} "
            f"({'the end of the trace' if until is None else '--until'}): give an earlier date"
        )
    middle_s = (begin_s + end_s) // (2 * DAY_S) * DAY_S if judge_from is None else judge_from
    _check_span(begin_s, middle_s, end_s, min(end_s, last) - first, by_default=(fit_from, judge_from) == (None, None))
    return TraceSlice(begin_s, middle_s), TraceSlice(middle_s, end_s)
