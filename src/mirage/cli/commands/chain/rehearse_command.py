"""``mirage rehearse``: try whether a training leaves in time and resumes."""

from __future__ import annotations

import json
import math
import os
import re
import secrets
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from mirage.cli import cli_context as cluster
from mirage.cli.commands.chain.framework_option import framework_option, with_preset
from mirage.cli.commands.chain.sbatch_words import LikeSbatch, caller, check_sbatch, misplaced, refuse_ssh
from mirage.cli.options import CONTEXT, examples, is_given, json_output
from mirage.cli.values import LIMITED_DURATION, Duration
from mirage.duration import format_duration
from mirage.errors import ConfigurationError

if TYPE_CHECKING:
    from mirage.rehearsal.rehearse import RehearsalPlan, RehearsalResult

TRAPPED = 1
"""Exit status if a trap was found, or the resume is not proven."""

FIRST_STEP_S = 600
"""Time for the first step where the user gives no patience: the time limit of both jobs contains it."""

REPLACED = ("signal", "time-min", "dependency")
"""Options of the user that would end or warn a job at another time, or let it wait."""


@click.command(
    cls=LikeSbatch,
    context_settings=CONTEXT,
    options_metavar="[SBATCH OPTIONS] [OPTIONS]",
    epilog=examples(
        "mirage rehearse train.sh",
        "mirage rehearse --framework hf -p debug train.sh",
        "mirage rehearse --grace 5m --after 2m --json train.sh   # the warning comes in the evaluation",
    ),
)
@framework_option("Preset to submit with, as in `mirage submit`; auto: by the script. [default: the script as it is]")
@click.option(
    "--grace",
    type=LIMITED_DURATION,
    metavar="TIME",
    help="Time from the warning to the end of the first job. [default: that of --signal or of the preset, or 2m]",
)
@click.option(
    "--after",
    type=Duration(limited=True, with_unit=True),
    default="20s",
    show_default=True,
    metavar="TIME",
    help="Time from the first step to the warning.",
)
@click.option(
    "--patience",
    type=LIMITED_DURATION,
    default="30m",
    show_default=True,
    metavar="TIME",
    help="Time for each job to start; where you give it, also for its first step. [10m without]",
)
@json_output
@click.pass_context
def rehearse(ctx: click.Context, /, **words: Any) -> None:
    """Run a batch script twice, and report whether it leaves in time and resumes.

    The first job is warned as a link of a chain is, and ended as by its time limit when its lead is over: SIGTERM, and
    SIGKILL after KillWait. The second job must resume at a higher step. The command measures the lead that is needed,
    shows the way of the signal, and names the trap where it fails.

    Each job gets the time limit that the rehearsal needs, in place of -t: the time for its first step, --after, and
    the lead.

    Both jobs write checkpoints where the script does: give it an output folder of its own. MIRAGE_REHEARSAL=1 is in
    their environment; the variables of a chain, such as MIRAGE_CHAIN and MIRAGE_LINK, are not.

    Exit status: 0 it left in time and resumed, 1 a trap was found or the resume is not proven, 2 wrong usage.
    """
    from mirage.agent.chain.request import for_another_job, read_request
    from mirage.agent.chain.spec_check import default_grace_s, limit_s
    from mirage.agent.paths import private_folder
    from mirage.presets.detect import shape_of
    from mirage.presets.preset import preset_named
    from mirage.presets.wrapper import is_shell_script
    from mirage.rehearsal.rehearse import RehearsalPlan, judge, warning_of
    from mirage.rehearsal.rehearse import rehearse as run_twice
    from mirage.slurm.sbatch_options import parse_sbatch
    from mirage.slurm.text.batch_script import without

    refuse_ssh("mirage rehearse")
    check_sbatch()
    options, script, arguments = parse_sbatch(ctx.meta["sbatch"])
    request = read_request(options, script, arguments, caller())
    if not is_shell_script(request.script):
        raise ConfigurationError(f"{request.script_name} is no shell script; a rehearsal needs #!/bin/bash")
    directory = caller().directory / (request.given.get("chdir") or "")
    shape = shape_of(request.script, directory)
    own_signal, own_grace_s = request.given.get("signal"), words["grace"]
    request, applied, reasons = with_preset(ctx, words, request)
    for line in (*request.remarks, *misplaced(ctx, script, arguments), *(reasons if applied is not None else ())):
        click.echo(line, err=True)
    limit = limit_s(request.given)
    if own_grace_s and limit is not None and own_grace_s >= limit:
        raise click.UsageError(
            f"--grace {format_duration(own_grace_s)} is not shorter than the time limit {format_duration(limit)}; "
            "shorten the grace, or lengthen the limit"
        )
    grace_s = words["grace"] or default_grace_s(limit)
    name, to_batch_shell, lead_s = warning_of(own_signal, words.get("signal_previous") or "USR2", grace_s)
    if is_given("after") and limit is not None and words["after"] + (own_grace_s or lead_s) > limit:
        raise click.UsageError(
            f"--after {format_duration(words['after'])} and the lead of {format_duration(own_grace_s or lead_s)} are "
            f"longer than the time limit {format_duration(limit)}: a link is warned before; give a shorter --after"
        )
    own_patience = ctx.get_parameter_source("patience") is not ParameterSource.DEFAULT
    has_wrapper = applied is not None and applied.has_wrapper
    plan = RehearsalPlan(
        name, to_batch_shell, own_grace_s or lead_s, words["after"], words["patience"],
        words["patience"] if own_patience else FIRST_STEP_S,
        preset_named(words["framework"]).signal.value if has_wrapper else "",
    )  # fmt: skip
    given = {k: v for k, v in request.submission.options.items() if k not in REPLACED}
    minutes = math.ceil((plan.lead_s + plan.after_s + plan.first_step_s) / 60) + 1
    click.echo(_limit_line(plan, minutes, limit), err=True)
    environment = {**for_another_job(os.environ), **request.submission.environment}
    environment.pop("SBATCH_SIGNAL", None)
    submission = replace(
        request.submission, options={**given, "time": str(minutes)}, directory=str(directory), environment=environment
    )
    folder = cluster.home().folder / "rehearsals" / f"{request.script_name}-{secrets.token_hex(3)}"
    private_folder(folder)
    slurm = cluster.client()
    wait = re.match(r"\d+", slurm.configuration().get("killwait", ""))
    rehearsal = run_twice(
        slurm, submission, without(request.script, REPLACED), request.script_name, shape, plan, folder,
        float(wait[0]) if wait else 30.0, lambda line: click.echo(f"mirage: {line}", err=True), cluster.clock,
    )  # fmt: skip
    result = judge(rehearsal)
    settings = _settings(words["framework"], result, plan.lead_s)
    if words["as_json"]:
        click.echo(json.dumps(_record(result, settings)))
    else:
        _print(result, settings)
    ctx.exit(0 if result.passed else TRAPPED)


def _limit_line(plan: RehearsalPlan, minutes: int, limit: int | None) -> str:
    """Returns the time limit of each job in words, with its parts and what it replaces."""
    in_place = "" if limit is None else f" (in place of {format_duration(limit)})"
    return (
        f"mirage: the time limit of each job is {format_duration(60 * minutes)}{in_place}: "
        f"{format_duration(round(plan.first_step_s))} for its first step (--patience), "
        f"{format_duration(round(plan.after_s))} until the warning (--after), the lead of "
        f"{format_duration(plan.lead_s)}, and a minute more"
    )


def _settings(framework: str | None, result: RehearsalResult, lead_s: int) -> str:
    """Returns the options of ``mirage submit`` to use."""
    needed_s = result.lead_s if math.isfinite(result.lead_s) else lead_s
    preset = f"--framework {framework} " if framework else ""
    return f"{preset}--grace {math.ceil(needed_s)}s"


def _record(result: RehearsalResult, settings: str) -> dict[str, Any]:
    """Returns the JSON of a result; numbers that are unknown are null."""

    def known(value: float) -> float | None:
        return round(value, 2) if math.isfinite(value) and value >= 0 else None

    return {
        "passed": result.passed,
        "traps": [{"name": t.name, "evidence": t.evidence, "remedy": t.remedy} for t in result.traps],
        "longest_step_s": known(result.longest_step_s), "save_s": known(result.save_s), "lead_s": known(result.lead_s),
        "saved_step": known(result.saved), "resumed_step": known(result.resumed), "lost_steps": known(result.lost),
        "way": list(result.way), "notes": list(result.notes), "settings": settings,
    }  # fmt: skip


def _print(result: RehearsalResult, settings: str) -> None:
    if result.way:
        click.echo("the way of the signal:")
    for line in result.way:
        click.echo(f"  {line}")
    if math.isfinite(result.lead_s):
        parts = f"longest step {result.longest_step_s:.1f} s + save {result.save_s:.1f} s + KillWait"
        click.echo(f"lead needed: {result.lead_s:g} s = {parts}")
    if result.resumed >= 0:
        saved = f"checkpoint of step {result.saved}" if result.saved >= 0 else "no checkpoint"
        lost = f"; {result.lost} lost" if result.lost >= 0 else ""
        click.echo(f"{saved}; the second job began at step {result.resumed}{lost}")
    for note in result.notes:
        click.echo(f"note: {note}")
    for trap in result.traps:
        click.echo(f"trap {trap.name}: {trap.evidence}\n  {trap.remedy}")
    if result.passed:
        click.echo(f"passed; use: mirage submit {settings}")
