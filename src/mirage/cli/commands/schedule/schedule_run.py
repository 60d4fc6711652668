"""``mirage schedule run``: play one workload under one scheduler, in detail."""

from __future__ import annotations

import json

import click

from mirage.atomic_file import write_output
from mirage.cli.commands.schedule.schedule_options import NAMES, PlayOptions, play_options, provenance, report_left_out
from mirage.cli.options import CONTEXT, ExtensibleOption, examples, json_output
from mirage.cli.output import check_page


@click.command(
    context_settings=CONTEXT,
    epilog=examples(
        "mirage schedule run jobs.csv --scheduler fifo --cluster philly7704",
        "mirage schedule run workload-1.csv --profiles profiles --scheduler sia --explain cifar10-0",
        "mirage schedule run workload-1.csv --profiles profiles --scheduler sia --report run.html",
        "mirage schedule run jobs.csv --scheduler srtf --cluster philly7704 --restart-s 60 --checkpoint-s 1800",
    ),
)
@click.argument("workload")
@click.option(
    "--scheduler",
    cls=ExtensibleOption,
    group="mirage.gpu_schedulers",
    required=True,
    metavar="NAME",
    help=f"The scheduler: NAME or NAME:KEY=VALUE.  {NAMES}",
)
@play_options
@click.option(
    "--explain",
    metavar="JOB",
    help="Show when and why a job got GPUs or lost them: by its name or, if no job has that name, its number from 0 in "
    "the order of submission.",
)
@click.option("--report", metavar="FILE", help="Write a page: use over time, completion times, placements (.html).")
@json_output
def run(
    workload: str, scheduler: str, played: PlayOptions, explain: str | None, report: str | None, as_json: bool
) -> None:
    """Play WORKLOAD under one scheduler.

    With --explain, show the history of one job: every decision about it with the scheduler's reason, including refused
    ones, and the placement of its GPUs.
    """
    setting = played.setting([scheduler])
    if report is not None:
        check_page(report, workload)

    from dataclasses import asdict

    from mirage.report.schedule.job_story import job_number, story_of
    from mirage.report.schedule.measure_table import measures_json
    from mirage.report.schedule.schedule_page import run_page
    from mirage.report.schedule.schedule_text import print_rows, print_story
    from mirage.schedule.compare.gpu_trial import play, read
    from mirage.schedule.compare.scheduler_text import SchedulerText
    from mirage.schedule.engine.measures import measures
    from mirage.schedule.workload.gpu_workload import read_any_profiles

    named = SchedulerText.of(scheduler)
    setting = setting.under([named])
    jobs = read(setting, workload, read_any_profiles(setting.profiles, setting.cluster))
    report_left_out(jobs.left_out.items(), jobs.notes, jobs.path)
    job = None if explain is None else job_number(jobs, explain)
    outcome, log = play(setting, jobs, named)
    story = None if job is None else story_of(log, job)
    origin = provenance(played, setting)
    if report is not None:
        write_output(report, run_page(outcome.row, log, origin, setting.window_s))
    if as_json:
        explained = {} if story is None else {"job": asdict(story)}
        found = {"row": outcome.row.to_json(), "measures": measures_json(measures(log, setting.window_s))}
        click.echo(json.dumps({**found, **explained, **origin}, indent=2))
        return
    print_rows([outcome.row])
    if story is not None:
        click.echo()
        print_story(story)
