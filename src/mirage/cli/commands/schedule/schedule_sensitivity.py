"""``mirage schedule sensitivity``: how much results depend on each assumption."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from mirage.cli.commands.schedule.schedule_options import PlayOptions, play_options, provenance, schedulers_option
from mirage.cli.options import CONTEXT, examples, is_given, json_output
from mirage.cli.output import check_output
from mirage.cli.study import ExecutorOptions, executor_options
from mirage.cli.values import WORDS

DEFAULT_SCHEDULERS = "aryl,aryl-plus"
DEFAULT_REFERENCES = "fifo,aryl:loans=no:elastic=no"


@click.command(
    context_settings=CONTEXT,
    epilog=examples(
        "mirage schedule sensitivity seed-*.csv --cluster aryl7704 --demand daily --window 3d-13d",
        "mirage schedule sensitivity seed-*.csv --cluster aryl7704 --demand daily --vary fungible=0.21,0.5,1",
        "mirage schedule sensitivity seed-*.csv --cluster aryl7704 --demand daily --schedulers aryl --cross "
        "--vary headroom=0,0.02,0.1 --vary announce_error=0,0.05",
        "mirage schedule sensitivity gangs-*.csv --cluster pool128 --schedulers pickyman,pickyman-plus "
        "--against fifo,srtf:preempt=save --plot sensitivity.svg",
    ),
)
@click.argument("workloads", nargs=-1, required=True, metavar="WORKLOAD...")
@schedulers_option(DEFAULT_SCHEDULERS)
@click.option(
    "--against",
    type=WORDS,
    default=DEFAULT_REFERENCES,
    show_default=True,
    metavar="POLICY,…",
    help="The schedulers to compare them with, in the same form.",
)
@click.option(
    "--vary",
    multiple=True,
    metavar="KEY=V1,V2,…",
    help="Values of an assumption: one of --assume, prediction_error, save_succeeds, cost_spread, restart_s, save_s, "
    "checkpoint_s, or a parameter of a scheduler. May be repeated.  [default: a range of each that applies]",
)
@click.option("--cross", "crossed", is_flag=True, help="Play all combinations of the values, not one at a time.")
@play_options
@click.option("--plot", metavar="FILE", help="Draw the ratios by value of each assumption (.svg, .png, .pdf).")
@click.option("--resume", metavar="DIR", help="Store results in DIR as they arrive, and reuse those found there.")
@executor_options
@json_output
def sensitivity(
    workloads: tuple[str, ...],
    schedulers: tuple[str, ...],
    against: tuple[str, ...],
    vary: tuple[str, ...],
    crossed: bool,
    played: PlayOptions,
    plot: str | None,
    resume: str | None,
    where: ExecutorOptions,
    as_json: bool,
) -> int:
    """Change one assumption at a time, and show what this does to waits and completion times.

    Each scheduler is compared with each reference of --against on the same workloads: a ratio of 2 in waits means that
    jobs wait half as long as under the reference. With three WORKLOADs or more, such as the seeds of one generator, a
    ratio has a 95 % interval over the workloads.

    If a trial fails, the others are still played to their end; the exit status is then 1.
    """
    executor = where.made_in(resume, "sensitivity")
    setting = played.setting([*against, *schedulers])
    if plot is not None:
        from mirage.report.picture_file import picture_kind

        picture_kind(plot)
        check_output(plot, *workloads)

    from mirage.report.schedule.sensitivity_text import print_sensitivity
    from mirage.report.terminal.progress import progress_bar
    from mirage.schedule.compare.sensitivity import sensitivity as measure_sensitivity
    from mirage.schedule.compare.sensitivity import values_of

    if not is_given("against"):
        against = tuple(reference for reference in against if reference not in schedulers)
    with progress_bar("trials") as progress:
        found = measure_sensitivity(
            workloads,
            schedulers,
            against,
            setting,
            values_of(vary),
            crossed=crossed,
            executor=executor,
            progress=progress,
            resume_folder=None if resume is None else Path(resume),
        )
    for key, reason in found.left_out.items():
        click.echo(f"mirage: {key} is not varied: {reason}", err=True)
    if plot is not None and found.rows:
        from mirage.report.picture_file import write_picture
        from mirage.report.schedule.sensitivity_chart import sensitivity_picture

        write_picture(sensitivity_picture(found), plot)
    failed = [asdict(trial) for trial in found.failed]
    if as_json:
        rows = [row.to_json() for row in found.rows]
        origin = provenance(played, setting) | {"workloads": workloads, "against": against}
        origin |= {"left_out": found.left_out, "trials_reused": found.reused, "failed": failed}
        click.echo(json.dumps({"rows": rows, **origin}, indent=2))
    elif found.rows:
        print_sensitivity(found, len(workloads))
    for trial in found.failed:
        click.echo(f"mirage: error: {trial.workload} under {trial.scheduler}: {trial.error}", err=True)
    return 1 if failed else 0
