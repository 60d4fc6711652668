"""``mirage agent run``: an agent in the foreground, also through ssh."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from mirage.cli import cli_context as cluster
from mirage.cli.commands.agent.foreground_agent import (
    StopSignals,
    agent_of,
    command_timeout,
    heartbeat_url,
    is_pass_under_way,
    log_format,
    patient_settings,
)
from mirage.cli.options import CONTEXT, VariableOption, examples
from mirage.cli.values import Duration, IntegerRange
from mirage.duration import HOUR_S, MINUTE_S, format_duration
from mirage.errors import SlurmError

if TYPE_CHECKING:
    from mirage.agent.settings import AgentSettings

MOST_SKEW_S = 10
"""Difference between the clocks of this machine and of the host of --ssh that is reported, seconds."""


def _at_least_an_hour(_: click.Context, __: click.Parameter, value_s: int | None) -> int | None:
    if value_s and value_s < HOUR_S:
        raise click.BadParameter(f"{format_duration(value_s)} is too short; give at least 1h, or 0 for never")
    return value_s


@click.command(
    context_settings=CONTEXT,
    epilog=examples(
        "mirage agent run",
        "mirage agent run --metrics-port 9190 --poll 30s",
        "mirage agent run --ssh ada@login1.cluster.example",
    ),
)
@click.option(
    "--poll",
    "poll_s",
    metavar="TIME",
    type=Duration(1, 30 * MINUTE_S, limited=True, with_unit=True),  # with a longer one it cannot hand over
    help="Time between polls of the queue, such as 30s; at most 30m.",
)
@click.option(
    "--metrics-port", metavar="PORT", type=IntegerRange(1, 65_535), help="Serve Prometheus metrics on 127.0.0.1."
)
@command_timeout
@heartbeat_url
@click.option(
    "--calibrate-every",
    "calibrate_every_s",
    cls=VariableOption,
    callback=_at_least_an_hour,
    metavar="TIME",
    type=Duration(limited=True, with_unit=True),
    envvar="MIRAGE_CALIBRATE_EVERY",
    help="Interval of fitting the simulator to this cluster, in the background: at least 1h, or 0 for never. [7d]",
)
@log_format
@click.option("--standby", is_flag=True, help="Wait while another agent runs; take over when its lease expires.")
@click.option(
    "--ssh",
    "host",
    metavar="HOST",
    envvar="MIRAGE_SSH",
    help="Run Slurm's commands on HOST through ssh, such as a login node of the cluster. [MIRAGE_SSH]",
)
def run(
    poll_s: int | None,
    metrics_port: int | None,
    timeout_s: int | None,
    heartbeat: str | None,
    calibrate_every_s: int | None,
    log_json: bool | None,
    standby: bool,
    host: str | None,
) -> None:
    """Manage the chains in the foreground, until SIGTERM or Ctrl-C.

    With --standby on a second login node, the chains continue within five minutes if the first node loses power, or
    later if the --command-timeout of its agent is longer than 60s. With --ssh nothing runs on the cluster but Slurm's
    commands; while the connection is lost, nothing is concluded from it.
    """
    from dataclasses import replace

    from mirage.agent.background.calibration import ONE_THREAD, SiteCalibration
    from mirage.agent.monitoring.cpu_budget import CpuBudget, processor_time
    from mirage.agent.monitoring.log import start_logging
    from mirage.agent.policy_runner.child_process import ChildProcess
    from mirage.agent.settings import AgentSettings
    from mirage.agent.store.lease import holder_name
    from mirage.real_time import on_this_clock_s, real_s

    if host is not None and not host.strip():
        raise click.UsageError("--ssh is empty; name a host, or leave the option out")
    start_logging(as_json=log_json, files=cluster.home().logs)
    if host:
        _connect(host)
    site = cluster.site_rules()
    settings = AgentSettings()
    if poll_s is not None:
        settings = replace(settings, poll_s=poll_s, busy_poll_s=min(poll_s, settings.busy_poll_s))
    settings = patient_settings(settings, timeout_s)
    if calibrate_every_s is not None:
        settings = replace(settings, calibrate_every_s=calibrate_every_s)
    settings = settings.under(site)
    _log_rules(settings)
    os.environ.update(ONE_THREAD)
    stopping = StopSignals()
    with cluster.store() as store:
        slurm = cluster.client(timeout_s)
        calibration = SiteCalibration(cluster.home().calibrations, slurm.user, settings, real_s)
        runner = ChildProcess(
            calibrations=cluster.home().calibrations, forbidden=site.login_refusal("compile the simulator")
        )

        def exempt() -> list[int]:
            return [pid for pid in (runner.compilation.pid, calibration.pid) if pid is not None]

        metrics = None
        if metrics_port is not None:
            from mirage.agent.monitoring.metrics import Metrics

            metrics = Metrics(store, slurm.runner, cluster.clock, holder_name(), calibration)
            metrics.serve(metrics_port)
        watched = agent_of(
            store,
            slurm,
            settings,
            runner,
            heartbeat,
            on_cycle=None if metrics is None else metrics.record_cycle,
            calibration=calibration,
            budget=None if on_this_clock_s(1.0) > 1.0 else CpuBudget(processor_time(exempt), real_s),  # not in a lab
        )
        if standby or is_pass_under_way(store):
            watched.stand_by(stopping.sleep, stopping.arrived)
        watched.run(stopping.sleep, stopping.arrived)


def _connect(host: str) -> None:
    """Opens the connection to a host, and copies the rules of its site.

    Slurm's commands run there from now on. Without a connection the copy is that of the last time.
    """
    from mirage.agent.site_file import SITE_FILE
    from mirage.atomic_file import write_atomically

    os.environ["MIRAGE_SSH"] = host
    runner, rules = cluster.ssh_runner(), cluster.site_copy()
    runner.open_connection(interactive=sys.stdin.isatty())
    try:
        before_s = cluster.clock()
        there_s = int(runner.run(["date", "+%s"]).stdout.split()[-1])
        skew_s = there_s - min(max(there_s, before_s), cluster.clock())  # the command may take seconds
        found = runner.run(["cat", str(SITE_FILE)])
    except (SlurmError, ValueError, IndexError) as error:
        click.echo(f"mirage: warning: {error}; the agent tries again", err=True)
        return
    if found.status == 0:
        write_atomically(rules, found.stdout.encode(), 0o600)
    else:
        rules.unlink(missing_ok=True)
    if abs(skew_s) > MOST_SKEW_S:
        click.echo(
            f"mirage: warning: the clock of {host} differs by {skew_s:+.0f} s from this one: waits and signals are off "
            "by as much; synchronize this machine's clock",
            err=True,
        )


def _log_rules(settings: AgentSettings) -> None:
    """Logs how often the agent polls, and the rules of the site."""
    import logging

    log = logging.getLogger("mirage.agent")
    polls = f"the queue every {settings.poll_s} s, and every {settings.busy_poll_s} s during a hand-over"
    log.info("polls", extra={"detail": polls})
    if settings.site.path:
        log.info("site", extra={"detail": f"{settings.site.path}: {'; '.join(settings.site.lines())}"})
    if settings.site.is_login_node():
        log.info("site", extra={"detail": "on this login node nothing is compiled or calibrated"})
