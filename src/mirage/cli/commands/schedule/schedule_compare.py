"""``mirage schedule compare``: several schedulers, compared on workloads."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from mirage.atomic_file import write_output
from mirage.cli.commands.schedule.schedule_options import (
    PlayOptions,
    play_options,
    provenance,
    report_left_out,
    schedulers_option,
)
from mirage.cli.options import CONTEXT, examples, json_output
from mirage.cli.output import check_page
from mirage.cli.study import ExecutorOptions, executor_options

DEFAULT_SCHEDULERS = "fifo,sjf,tiresias"


@click.command(
    context_settings=CONTEXT,
    epilog=examples(
        "mirage schedule compare jobs.csv --cluster philly7704 --schedulers fifo,sjf,tiresias",
        "mirage schedule compare workload-*.csv --profiles profiles --schedulers sia,gavel",
        "mirage schedule compare workload-*.csv --profiles profiles --schedulers sia,sia-plus --resume results",
        "mirage schedule compare gavel.trace --profiles throughputs.json --cluster gpus.toml --schedulers fifo,gavel",
        "mirage schedule compare month.csv --cluster gpus.toml --gpus-per-node 4",
        "mirage schedule compare jobs.csv --schedulers fifo,tiresias --json | jq '.rows[].mean_jct_s'",
        "mirage schedule compare jobs.csv --cluster aryl7704 --demand daily --schedulers sjf,aryl --window 3d-13d",
        "mirage schedule compare jobs.csv --schedulers fifo,srtf --restart-s 60 --checkpoint-s 1800",
    ),
)
@click.argument("workloads", nargs=-1, required=True, metavar="WORKLOAD...")
@schedulers_option(DEFAULT_SCHEDULERS)
@play_options
@click.option("--report", metavar="FILE", help="Write a page with curves of completion times (.html).")
@click.option("--resume", metavar="DIR", help="Store results in DIR as they arrive, and reuse those found there.")
@executor_options
@json_output
def compare(
    workloads: tuple[str, ...],
    schedulers: tuple[str, ...],
    played: PlayOptions,
    report: str | None,
    resume: str | None,
    where: ExecutorOptions,
    as_json: bool,
) -> int:
    """Play every WORKLOAD under every scheduler, and show the same measures of each.

    A workload is a CSV of Pollux or Sia (with --profiles), of Philly or of gangs ('mirage trace generate --gangs'), a
    trace of Gavel (with --profiles), or any job table that mirage trace reads. Several workloads also give a row with
    the mean of each scheduler.

    If a trial fails, the others are still played to their end; the exit status is then 1.
    """
    executor = where.made_in(resume, "schedule")
    setting = played.setting(schedulers)
    if report is not None:
        check_page(report, *workloads)

    from mirage.report.schedule.schedule_page import comparison_page
    from mirage.report.schedule.schedule_text import print_rows
    from mirage.report.terminal.progress import progress_bar
    from mirage.schedule.compare.gpu_comparison import compare as compare_schedulers

    with progress_bar("trials") as progress:
        comparison = compare_schedulers(
            workloads,
            schedulers,
            setting,
            executor=executor,
            progress=progress,
            resume_folder=None if resume is None else Path(resume),
        )
    played_files = dict.fromkeys((one.row.workload, one.left_out, one.notes) for one in comparison.outcomes)
    for workload, left_out, notes in played_files:
        report_left_out(left_out, notes, workload)
    failed = [asdict(trial) for trial in comparison.failed]
    origin = provenance(played, setting) | {"trials_reused": comparison.reused, "failed": failed}
    if report is not None and comparison.outcomes:
        write_output(report, comparison_page(comparison, origin))
    if as_json:
        click.echo(json.dumps({"rows": [row.to_json() for row in comparison.rows], **origin}, indent=2))
    elif comparison.rows:
        print_rows(comparison.rows)
    for trial in comparison.failed:
        click.echo(f"mirage: error: {trial.workload} under {trial.scheduler}: {trial.error}", err=True)
    return 1 if failed else 0
