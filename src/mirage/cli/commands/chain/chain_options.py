"""Options of a chain that ``submit``, ``adopt`` and ``chain edit`` share."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

import click

from mirage.cli.options import ExtensibleOption, is_given
from mirage.cli.values import COUNT, DURATION, LIMITED_DURATION, POSITIVE_DURATION, Number
from mirage.errors import ConfigurationError
from mirage.job_state import MISSING

COSTS = ("interruption_cost", "overlap_cost")

ChainOption = Callable[[bool], Callable[[Any], Any]]
"""An option as a decorator of a command, by whether the command makes a new chain."""


def _option(*names: str, default: str = "", **attributes: Any) -> ChainOption:
    """An option; its help names the default only in a command that makes a new chain."""

    def decorator(of_new_chain: bool) -> Callable[[Any], Any]:
        shown = f" [default: {default}]" if default and of_new_chain else ""
        return click.option(*names, **{**attributes, "help": attributes["help"] + shown})

    return decorator


def not_empty(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Returns the value of an option; an empty one, as from an unset variable, is wrong usage."""
    if value is not None and not value.strip():
        raise click.BadParameter("it is empty; give a text, or leave the option out")
    return value


OPTIONS: dict[str, ChainOption] = {
    "for": _option(
        "--for",
        "lasting",
        type=LIMITED_DURATION,
        metavar="TIME",
        help="Keep the chain alive for this duration: 14d, 36h.",
    ),
    "until": _option(
        "--until",
        metavar="DATE",
        help="Keep it alive until DATE: 2026-01-31, 2026-01-31T18:00, 18:00, tomorrow, now+3days; local time.",
    ),
    "links": _option("--links", metavar="N", type=COUNT, help="At most N jobs."),
    "until-done": _option(
        "--until-done", is_flag=True, help="Run until a job exits by itself with code 0, or `mirage link done`."
    ),
    "chain": _option(
        "--chain",
        "name",
        metavar="NAME",
        callback=not_empty,
        help="Name of the chain.",
        default="the job name and four letters",
    ),
    "policy": _option(
        "--policy",
        cls=ExtensibleOption,
        group="mirage.policies",
        metavar="NAME",
        help="When to release the next job.",
        default="auto",
    ),
    "never-two": _option(
        "--never-two",
        is_flag=True,
        help="Start the next job only after Slurm reports the end of the previous one: no overlap, but an "
        "interruption.",
    ),
    "bank-age": _option(
        "--bank-age",
        is_flag=True,
        help="Allow the policy to submit a job early only to accrue age priority while it is held. Slurm's "
        "documentation does not intend this, and sites may limit it (MaxJobsAccrue...): see `mirage doctor`. Off by "
        "default.",
    ),
    "least-life": _option(
        "--least-life",
        type=Number(0, 1),
        metavar="SHARE",
        help="Share of a job's time limit in which the next job is not released, if the job itself started with more "
        "than a quarter of the previous job's limit left.",
        default="0.25; 0 for policies of a constant lead",
    ),
    "waiting-links": _option(
        "--waiting-links",
        type=COUNT,
        metavar="N",
        help="Maximum number of jobs of the chain that wait in the queue at once. A second one is submitted where one "
        "has waited for its time limit, if the policy can hold it again (auto, hold, holds).",
        default="3",
    ),
    "links-a-day": _option(
        "--links-a-day",
        type=COUNT,
        metavar="N",
        help="Jobs that may start within 24 hours before the chain is paused.",
        default="three times what their time limit needs, plus 5",
    ),
    "ready-command": _option(
        "--ready-command", metavar="CMD", help="Command that succeeds once the next job can take over."
    ),
    "ready-by-job": _option(
        "--ready-by-job", is_flag=True, help="The next job reports itself that it can take over: `mirage link ready`."
    ),
    "warmup": _option(
        "--warmup",
        type=DURATION,
        metavar="TIME",
        help="Time a job needs to load, where nothing else reports that it is ready.",
        default="0",
    ),
    "grace": _option(
        "--grace",
        type=DURATION,
        metavar="TIME",
        help="Time from the signal to the end of the job; at most half of its time limit.",
        default="2m, at most a quarter of the time limit",
    ),
    "budget": _option(
        "--budget",
        type=Number(0),
        metavar="NODE_HOURS",
        help="Node-hours that all jobs of the chain together may use. The last job gets a shorter limit to stay within "
        "them; then the chain is done. 0 for no budget.",
    ),
    "shortest-link": _option(
        "--shortest-link",
        type=POSITIVE_DURATION,
        metavar="TIME",
        help="Shortest time limit that the agent gives to a job so that it ends before a maintenance or another "
        "reservation of its nodes, or within --budget. With the usual limit here, no job is shortened.",
        default="1h, at most a quarter of the time limit",
    ),
    "notify": _option(
        "--notify",
        metavar="TARGET",
        multiple=True,
        help="Where to send a message when the chain is paused or done, a job fails, no job runs for long, or a "
        "reservation stops the chain: a URL, which gets JSON, a mail address, or a command, which gets MIRAGE_TEXT. "
        "May be repeated; none for nowhere.",
    ),
    "notify-gap": _option(
        "--notify-gap",
        type=POSITIVE_DURATION,
        metavar="TIME",
        help="Time without a running job after which --notify sends a message.",
        default="1h",
    ),
    "progress-file": _option(
        "--progress-file",
        metavar="FILE",
        help="Progress file of mirage.hooks, or checkpoints, also with wildcards: 'ckpt/step_*'. The agent pauses the "
        "chain when links make no progress.",
    ),
    "no-progress-links": _option(
        "--no-progress-links",
        type=COUNT,
        metavar="N",
        help="Number of jobs in a row without progress, by --progress-file, after which the chain is paused.",
        default="2",
    ),
    "no-agent": _option("--no-agent", is_flag=True, help="Do not start an agent where none runs."),
}
"""The options by name, without their dashes."""


def chain_options(*names: str, of_new_chain: bool) -> Callable[[Any], Any]:
    """A decorator that adds options to a command, in the order of its help.

    Args:
        names: Keys of ``OPTIONS``.
        of_new_chain: Whether the command makes a new chain, so that its help names the defaults.
    """
    return lambda command: reduce(lambda made, name: OPTIONS[name](of_new_chain)(made), reversed(names), command)


def end_s(words: Mapping[str, Any], now_s: int) -> int:
    """Returns the instant after which no link starts; ``MISSING`` for none.

    Raises:
        ConfigurationError: ``--until`` names no time, or one that has passed.
    """
    from mirage.slurm_words.timestamps import next_instant_s

    lasting_s, until = words["lasting"], words["until"]
    if until is None:
        return now_s + lasting_s if lasting_s else MISSING
    if lasting_s is not None:
        raise click.UsageError("--for and --until both define the end of the chain; give one of them")
    try:
        until_s = next_instant_s(until, now_s)
    except ConfigurationError as error:
        raise ConfigurationError(f"--until {error}") from error
    if until_s <= now_s:
        instant = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(until_s))
        raise ConfigurationError(f"--until {until}: {instant} has passed; give a time in the future")
    return until_s


def notify_fields(words: Mapping[str, Any], known_targets: Sequence[str] = ()) -> dict[str, Any]:
    """Returns the fields of a specification that ``--notify`` and ``--notify-gap`` set.

    Args:
        known_targets: The targets that the chain has already.

    Raises:
        ConfigurationError: A target cannot get messages.
        UsageError: A gap is given without targets, or ``none`` with others.
    """
    fields: dict[str, Any] = {}
    if "none" in words["notify"] and set(words["notify"]) != {"none"}:
        raise click.UsageError("--notify none sends no messages; leave it or the other targets out")
    if words["notify_gap"] is not None and set(words["notify"] or known_targets) <= {"none"}:
        raise click.UsageError("--notify-gap is for the messages of --notify; give a target, too")
    if words["notify"]:
        from mirage.agent.background.notifications import check_target

        targets = tuple(target for target in words["notify"] if target != "none")
        for target in targets:
            if check_target(target) == "command":
                _warn_of_missing_program(words, "--notify", target)
        fields["notify"] = targets
    if words["notify_gap"] is not None:
        fields["notify_gap_s"] = words["notify_gap"]
    return fields


def progress_fields(words: Mapping[str, Any], known_file: str = "") -> dict[str, Any]:
    """Returns the fields of a specification that the options about progress set.

    Args:
        known_file: The progress file that the chain has already.

    Raises:
        UsageError: A number of links is given, and no progress file; or its name is empty, and there is none to drop.
    """
    fields: dict[str, Any] = {}
    if words["progress_file"] == "" and not known_file:
        raise click.UsageError("--progress-file is empty; name a file, or leave the option out")
    if words["progress_file"] is not None:
        fields["progress_file"] = words["progress_file"]
    if words["no_progress_links"] is not None:
        if not fields.get("progress_file", known_file):
            raise click.UsageError("--no-progress-links counts jobs by --progress-file; give it, too")
        fields["no_progress_links"] = words["no_progress_links"]
    return fields


def check_never_two() -> None:
    """Checks that no option for decisions is given with ``--never-two``, which has none.

    Raises:
        UsageError: There is one.
    """
    for option in ("least_life", "waiting_links", "interruption_cost", "overlap_cost"):
        if is_given(option):
            raise click.UsageError(
                f"--{option.replace('_', '-')} has no effect with --never-two: Slurm alone starts the next job; leave "
                "one of them out"
            )


def check_ready_command(words: Mapping[str, Any]) -> None:
    """Checks that ``--ready-command`` is not empty, and alone decides when a job is ready.

    Raises:
        ConfigurationError: It is empty.
        UsageError: ``--ready-by-job`` is given too.
    """
    if words["ready_command"] is not None and words.get("ready_by_job"):
        raise click.UsageError(
            "--ready-command and --ready-by-job both define when a job is ready; a chain has one of them"
        )
    if words["ready_command"] is not None and not words["ready_command"].strip():
        raise ConfigurationError("--ready-command is empty; give a command, or leave the option out")
    if words["ready_command"] is not None:
        _warn_of_missing_program(words, "--ready-command", words["ready_command"])


def _warn_of_missing_program(words: Mapping[str, Any], option: str, command: str) -> None:
    """Warns of a shell command with a program that is not on this host: a typing error.

    A name and an absolute path are checked. Another path counts from the folder in which the command will run.
    """
    from mirage.agent.cycle.readiness import SystemShell

    if words.get("quiet"):
        return
    program = command.split()[0]
    if re.fullmatch(r"(/[\w.+-]+)+|\w[\w.+-]*", program) and not SystemShell().succeeds(
        f"command -v {program}", os.environ, "/", 10
    ):
        click.echo(
            f"warning: {option} {command}: there is no program {program} here; if the agent runs on this host, the "
            "command will always fail",
            err=True,
        )
