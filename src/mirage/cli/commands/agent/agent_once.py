"""``mirage agent once``: one pass over all chains."""

from __future__ import annotations

import json
import os

import click

from mirage.cli import cli_context as cluster
from mirage.cli.commands.agent.foreground_agent import (
    StopSignals,
    agent_of,
    command_timeout,
    heartbeat_url,
    log_format,
    patient_settings,
)
from mirage.cli.options import CONTEXT, examples, json_output
from mirage.cli.values import DURATION_WITH_UNIT, Duration
from mirage.duration import HOUR_S, MINUTE_S
from mirage.errors import quantity


@click.command(
    context_settings=CONTEXT,
    epilog=examples("mirage agent once", "mirage agent once --every 10m --json"),
)
@click.option(
    "--every",
    "every_s",
    metavar="TIME",
    type=Duration(MINUTE_S, 2 * HOUR_S, limited=True, with_unit=True),  # the bounds of hosting.pass_memory
    help="Time between passes, from 1m to 2h. [default: that of the last passes]",
)
@click.option(
    "--stay",
    "stay_s",
    metavar="TIME",
    type=DURATION_WITH_UNIT,
    default="5m",
    show_default=True,
    help="Longest wait for a signal or an end of a hand-over that is due before the next pass.",
)
@command_timeout
@heartbeat_url
@log_format
@json_output
@click.pass_context
def once(
    ctx: click.Context,
    every_s: int | None,
    stay_s: int,
    timeout_s: int | None,
    heartbeat: str | None,
    log_json: bool | None,
    as_json: bool,
) -> None:
    """Manage all chains once and end: for cron, scrontab or a timer.

    Each pass continues where the last agent or pass ended. If an agent runs elsewhere, the pass changes nothing and
    ends with exit status 1, also if Slurm gives no answer.
    """
    from dataclasses import asdict

    from mirage.agent.background.calibration import ONE_THREAD
    from mirage.agent.hosting.one_pass import OnePass, pass_settings
    from mirage.agent.hosting.pass_memory import PassMemory, interval_s, too_rare
    from mirage.agent.monitoring.log import start_logging
    from mirage.agent.policy_runner.child_process import ChildProcess
    from mirage.agent.settings import AgentSettings
    from mirage.duration import format_duration

    start_logging(as_json=log_json, files=cluster.home().logs)
    os.environ.update(ONE_THREAD)
    stopping, home, site = StopSignals(), cluster.home(), cluster.site_rules()
    with cluster.store() as store:
        memory = PassMemory.read(home.pass_memory).as_of(store.identity())
        every_s = interval_s((*memory.begun_s, int(cluster.clock())), every_s)
        slurm = cluster.client(timeout_s)
        settings = pass_settings(patient_settings(AgentSettings(), timeout_s).under(site), every_s)
        forbidden = site.login_refusal("compile the simulator")
        runner = ChildProcess(calibrations=home.calibrations, compiles_first=False, forbidden=forbidden)
        single = agent_of(store, slurm, settings, runner, heartbeat)
        report = OnePass(single, memory, home.pass_memory, stay_s).run(stopping.sleep, stopping.arrived)
        count = getattr(slurm.runner, "count", {})
        commands = sum(count.values())
        alive = {chain.id for chain in store.chains(alive=True)}
        rare = too_rare(every_s, (link.limit_s for link in store.links(open=True) if link.chain in alive))
    if as_json:
        click.echo(json.dumps({**asdict(report), "slurm_commands": commands}))
    else:
        every = format_duration(report.every_s)
        over = "incomplete pass" if report.trouble else quantity(report.chains, "chain")
        click.echo(f"{over}, {quantity(commands, 'Slurm command')}; the next pass is expected {every} later")
    for trouble in filter(None, (rare, report.trouble)):
        click.echo(f"mirage: warning: {trouble}", err=True)
    if report.trouble:
        ctx.exit(1)
