"""``mirage agent``: the process that manages all chains of a user."""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mirage.cli import cli_context as cluster
from mirage.cli.commands.agent_install import check_job_options, install, job_options, submit_agent_job
from mirage.cli.lazy import CommandGroup
from mirage.cli.options import CONTEXT, examples, json_output
from mirage.cli.values import DURATION, DURATION_WITH_UNIT
from mirage.errors import SlurmError

if TYPE_CHECKING:
    from mirage.agent.agent import Agent
    from mirage.agent.chain.recover import Recovery
    from mirage.agent.model import Link
    from mirage.agent.policy_runner.child_process import ChildProcess
    from mirage.agent.settings import AgentSettings
    from mirage.agent.store.sql_store import SqlStore
    from mirage.slurm.client import SlurmClient

MOST_SKEW_S = 10
"""Difference between the clocks of this machine and of the host of --ssh that is reported, seconds."""

SBATCH_PATIENCE_S = 2.0
"""Seconds that a cycle waits for sbatch, which usually answers within a tenth of a second."""


class StopSignals:
    """Handlers of SIGTERM and SIGINT, which end a sleep at once and record the arrival."""

    def __init__(self) -> None:
        self._read, write = os.pipe()
        os.set_blocking(write, False)
        self._arrived = False

        def note(*_: object) -> None:
            self._arrived = True
            os.write(write, b"x")

        for sign in (signal.SIGTERM, signal.SIGINT):
            signal.signal(sign, note)

    def sleep(self, seconds: float) -> None:
        """Sleeps for some seconds, or until a signal arrives."""
        select.select([self._read], [], [], seconds)

    def arrived(self) -> bool:
        """Whether a signal has arrived."""
        return self._arrived


_command_timeout = click.option(
    "--command-timeout",
    "timeout_s",
    metavar="TIME",
    type=DURATION_WITH_UNIT,
    help="Kill a Slurm command after this time. [60s]",
)
_heartbeat = click.option(
    "--heartbeat",
    metavar="URL",
    envvar="MIRAGE_HEARTBEAT",
    help="Call this URL once a minute while Slurm answers; a monitor that misses the calls alerts you.",
)
_log_format = click.option(
    "--log-json/--log-plain", "log_json", default=None, help="Format of the log. [default: plain on a terminal]"
)


def _patient(settings: AgentSettings, timeout_s: int | None) -> AgentSettings:
    """Returns settings for Slurm commands that may take some seconds."""
    from dataclasses import replace

    if timeout_s is None:
        return settings
    return replace(
        settings,
        settle_s=max(settings.settle_s, round(1.5 * timeout_s)),
        lease_s=max(settings.lease_s, 4 * timeout_s),
    )


def _agent_of(
    store: SqlStore, slurm: SlurmClient, settings: AgentSettings, runner: ChildProcess, heartbeat: str | None,
    **more: Any,
) -> Agent:  # fmt: skip
    """Returns the agent of a store, with this host's clock and shell.

    Args:
        heartbeat: The URL of a monitor; None or empty for none.
        more: What else it manages.
    """
    from mirage.agent.agent import Agent
    from mirage.agent.background.endpoints import InstalledEndpoints
    from mirage.agent.background.heartbeat import Heartbeat
    from mirage.agent.background.notifications import Deliveries, Notifications
    from mirage.agent.background.promised_starts import PromisedStarts
    from mirage.agent.cycle.readiness import SystemShell
    from mirage.agent.cycle.submit import Submissions
    from mirage.agent.failure.output_reading import OutputReadings
    from mirage.agent.store.lease import holder_name
    from mirage.real_time import real_s

    home, shell = cluster.home(), SystemShell()
    return Agent(
        store,
        slurm,
        shell,
        clock=cluster.clock,
        monotonic=time.monotonic,
        holder=holder_name(),
        settings=settings,
        runner=runner,
        submissions=Submissions(SBATCH_PATIENCE_S),
        promised=PromisedStarts(home.promises),
        state_file=home.agent_state,
        endpoints=InstalledEndpoints(home, shell, real_s),
        notifications=Notifications(Deliveries(shell)),
        heartbeat=Heartbeat(heartbeat, real_s) if heartbeat else None,
        folder=home.folder,
        outputs=None if os.environ.get("MIRAGE_SSH") else OutputReadings(home.folder),  # they are on the cluster
        **more,
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


def _connect(host: str) -> Path:
    """Opens the connection to a host; returns a copy of the rules of its site.

    Slurm's commands run there from now on. Without a connection the copy is that of the last time.
    """
    from mirage.agent.site_file import SITE_FILE
    from mirage.atomic_file import write_atomically

    os.environ["MIRAGE_SSH"] = host
    runner, rules = cluster.ssh_runner(), cluster.home().folder / "ssh" / "site.toml"
    runner.open_connection(interactive=sys.stdin.isatty())
    try:
        before_s = cluster.clock()
        there_s = int(runner.run(["date", "+%s"]).stdout.split()[-1])
        skew_s = there_s - min(max(there_s, before_s), cluster.clock())  # the command may take seconds
        found = runner.run(["cat", str(SITE_FILE)])
    except (SlurmError, ValueError, IndexError) as error:
        click.echo(f"mirage: warning: {error}; the agent tries again", err=True)
        return rules
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
    return rules


@click.group(cls=CommandGroup, context_settings=CONTEXT, epilog=examples("mirage agent start", "mirage agent status"))
def agent() -> None:
    """Start, stop and find the agent that manages all your chains."""


agent.add_command(install)


@agent.command(
    context_settings=CONTEXT,
    epilog=examples(
        "mirage agent run",
        "mirage agent run --metrics-port 9190 --poll 30s",
        "mirage agent run --ssh ada@login1.cluster.example",
    ),
)
@click.option(
    "--poll", "poll_s", metavar="TIME", type=DURATION_WITH_UNIT, help="Time between polls of the queue, such as 30s."
)
@click.option(
    "--metrics-port", metavar="PORT", type=click.IntRange(1, 65_535), help="Serve Prometheus metrics on 127.0.0.1."
)
@_command_timeout
@_heartbeat
@click.option(
    "--calibrate-every",
    "calibrate_every_s",
    metavar="TIME",
    type=DURATION,
    envvar="MIRAGE_CALIBRATE_EVERY",
    help="Interval of fitting the simulator to this cluster, in the background; 0 for never. [7d]",
)
@_log_format
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

    With --standby on a second login node, the chains continue within five minutes if the first node loses power. With
    --ssh nothing runs on the cluster but Slurm's commands; while the connection is lost, nothing is concluded from it.
    """
    from dataclasses import replace

    from mirage.agent.background.calibration import ONE_THREAD, SiteCalibration
    from mirage.agent.monitoring.cpu_budget import CpuBudget, processor_time
    from mirage.agent.monitoring.log import start_logging
    from mirage.agent.policy_runner.child_process import ChildProcess
    from mirage.agent.settings import AgentSettings
    from mirage.agent.site_file import read_site_files
    from mirage.agent.store.lease import holder_name
    from mirage.real_time import on_this_clock_s, real_s

    start_logging(as_json=log_json)
    site = read_site_files(os.environ, _connect(host) if host else None)
    settings = AgentSettings()
    if poll_s is not None:
        settings = replace(settings, poll_s=poll_s, busy_poll_s=min(poll_s, settings.busy_poll_s))
    settings = _patient(settings, timeout_s)
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
        watched = _agent_of(
            store,
            slurm,
            settings,
            runner,
            heartbeat,
            on_cycle=None if metrics is None else metrics.record_cycle,
            calibration=calibration,
            budget=None if on_this_clock_s(1.0) > 1.0 else CpuBudget(processor_time(exempt), real_s),  # not in a lab
        )
        if standby or _pass_under_way(store):
            watched.stand_by(stopping.sleep, stopping.arrived)
        watched.run(stopping.sleep, stopping.arrived)


@agent.command(
    context_settings=CONTEXT,
    epilog=examples("mirage agent once", "mirage agent once --every 10m --json"),
)
@click.option(
    "--every",
    "every_s",
    metavar="TIME",
    type=DURATION_WITH_UNIT,
    help="Time between passes. [default: that of the last passes]",
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
@_command_timeout
@_heartbeat
@_log_format
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
    from mirage.agent.hosting.pass_memory import PassMemory, interval_s
    from mirage.agent.monitoring.log import start_logging
    from mirage.agent.policy_runner.child_process import ChildProcess
    from mirage.agent.settings import AgentSettings
    from mirage.agent.site_file import read_site_files
    from mirage.duration import format_duration

    start_logging(as_json=log_json)
    os.environ.update(ONE_THREAD)
    stopping, home, site = StopSignals(), cluster.home(), read_site_files(os.environ)
    memory = PassMemory.read(home.pass_memory)
    every_s = interval_s((*memory.begun_s, int(cluster.clock())), every_s)
    with cluster.store() as store:
        slurm = cluster.client(timeout_s)
        settings = pass_settings(_patient(AgentSettings(), timeout_s).under(site), every_s)
        forbidden = site.login_refusal("compile the simulator")
        runner = ChildProcess(calibrations=home.calibrations, compiles_first=False, forbidden=forbidden)
        single = _agent_of(store, slurm, settings, runner, heartbeat)
        report = OnePass(single, memory, home.pass_memory, stay_s).run(stopping.sleep, stopping.arrived)
        count = getattr(slurm.runner, "count", {})
        commands = sum(count.values())
    if as_json:
        click.echo(json.dumps({**asdict(report), "slurm_commands": commands}))
    else:
        every = format_duration(report.every_s)
        click.echo(f"{report.chains} chains, {commands} Slurm commands; the next pass is expected {every} later")
    if report.trouble:
        click.echo(f"mirage: warning: {report.trouble}", err=True)
        ctx.exit(1)


@agent.command(
    context_settings=CONTEXT,
    epilog=examples(
        "mirage agent start", "mirage agent start --systemd", "mirage agent start --in-job -p service -t 1-0"
    ),
)
@click.option("--systemd", is_flag=True, help="Run it as a user unit that systemd keeps alive.")
@click.option("--in-job", is_flag=True, help="Run it as a small Slurm job that submits its own successor.")
@job_options
def start(systemd: bool, in_job: bool, partition: str, limit_s: int | None, sbatch_options: tuple[str, ...]) -> None:
    """Start the agent if none runs; with --in-job, words after -- are options for sbatch.

    It is not started if Slurm's commands reach another cluster than that of the chains.
    """
    from mirage.agent import service

    check_job_options(in_job, partition, limit_s, sbatch_options)
    home = cluster.home()
    with cluster.store() as store:
        found = service.running_agent(store, cluster.clock())
        identity = store.identity().identity
        if found is not None and found.here and _pass_under_way(store):
            service.stop(found)
            found = None
        if found is None:
            cluster.check_cluster(store)
            _warn_of_silence()
    if found is not None:
        click.echo(f"an agent runs already on {found.host}, process {found.pid}", err=True)
    elif systemd:
        click.echo(f"started by systemd as {service.install_unit(os.environ).name}")
    elif in_job:
        click.echo(submit_agent_job(home, identity, partition, limit_s, sbatch_options))
    else:
        click.echo(f"started process {service.start(home, os.environ)}; it logs to {home.log}")


def _pass_under_way(store: SqlStore) -> bool:
    """Whether a pass of ``mirage agent once`` holds the lease: it ends soon."""
    from mirage.agent.hosting.pass_memory import PassMemory

    held = store.lease()
    return held is not None and held[0] == PassMemory.read(cluster.home().pass_memory).holder


def _warn_of_silence() -> None:
    """Prints a warning if Slurm gives no answer now."""
    try:
        cluster.client().probe()
    except SlurmError as error:
        click.echo(f"mirage: warning: {error}; the agent tries again until Slurm answers", err=True)


@agent.command(context_settings=CONTEXT, epilog=examples("mirage agent stop"))
def stop() -> None:
    """End the agent of this host; a chain continues only with jobs that are already queued."""
    from mirage.agent import service

    with cluster.store() as store:
        found = service.running_agent(store, cluster.clock())
    if found is None:
        click.echo("no agent runs", err=True)
        return
    service.stop(found)
    click.echo(f"ended process {found.pid}")


@agent.command(
    context_settings=CONTEXT, epilog=examples("mirage agent recover", "mirage agent recover --from-backup 2")
)
@click.option(
    "--from-backup", metavar="N", type=click.IntRange(1), help="Restore backup N, even if the store is intact."
)
@json_output
def recover(from_backup: int | None, as_json: bool) -> None:
    """Rebuild a lost or damaged store, so that its chains resume with their present jobs.

    It starts from the newest intact backup, or without one from the files of the chains, and then searches the queue
    and the accounting for the chains' jobs. A file in the store's place is moved aside. Slurm must answer.
    """
    from mirage.agent.chain.recover import recover as rebuild

    slurm = cluster.client()
    slurm.everybody = False  # our own jobs are enough; those of all users over months would be too many
    done = rebuild(cluster.home(), slurm, int(cluster.clock()), from_backup)
    folder = cluster.home().folder
    if as_json:
        click.echo(json.dumps(_facts(done), indent=2))
        return
    began = f"{done.source.path.name}, of {_instant(done.source.made_s)}" if done.source else "the files of the chains"
    click.echo(f"started from {began}", err=True)
    for one in done.chains:
        jobs = [f"link {link.number} {link.state.value} (job {link.job})" for link in one.links if _is_open(link)]
        lost = f"; nothing is known of links {', '.join(map(str, one.lost))}" if one.lost else ""
        spec = one.chain.spec
        copies = [path for path in (spec.submission.script, spec.later_script) if path]
        paths = [str(folder / path) for path in copies] if spec.folder else copies
        scripts = [path for path in paths if not os.path.exists(path)]
        gone = f"; restore its script: {', '.join(scripts)}" if scripts and one.chain.state.value != "done" else ""
        click.echo(f"{one.chain.name}  {one.chain.state.value}  {', '.join(jobs) or 'no job in the queue'}{lost}{gone}")
    for name, why in done.unknown:
        click.echo(f"{name}  not recovered: {why}")
    for path in done.aside:
        click.echo(f"the previous file was moved to {path}", err=True)
    click.echo("start the agent again: mirage agent start", err=True)


def _is_open(link: Link) -> bool:
    from mirage.job_state import MISSING

    return link.state.value != "ended" and link.job != MISSING


def _facts(done: Recovery) -> dict[str, Any]:
    """Returns a recovery as one JSON object."""
    source = {"file": str(done.source.path), "time": _instant(done.source.made_s)} if done.source else None
    chains = [
        {
            "chain": one.chain.name,
            "state": one.chain.state.value,
            "why": one.chain.why,
            "jobs": {link.number: link.job for link in one.links if _is_open(link)},
            "found": list(one.found),
            "lost": list(one.lost),
        }
        for one in done.chains
    ]
    unknown = [{"name": name, "why": why} for name, why in done.unknown]
    return {"backup": source, "chains": chains, "not_recovered": unknown, "aside": [str(path) for path in done.aside]}


def _instant(time_s: int) -> str:
    from datetime import UTC, datetime

    return f"{datetime.fromtimestamp(time_s, UTC):%Y-%m-%dT%H:%M:%SZ}"


@agent.command(context_settings=CONTEXT, epilog=examples("mirage agent rebind"))
def rebind() -> None:
    """Bind the store to the cluster that Slurm's commands reach, after its controller moved.

    Only for the same cluster under a new address: on another cluster the job IDs belong to other jobs.
    """
    from mirage.agent import service
    from mirage.errors import ConfigurationError
    from mirage.slurm.backend import cluster_of

    found = cluster_of(cluster.client().configuration())
    with cluster.store() as store:
        if service.running_agent(store, cluster.clock()) is not None:
            raise ConfigurationError("an agent manages this store; stop it first: mirage agent stop")
        before = store.identity().cluster
        store.rebind(found)
    click.echo(f"{before or 'no cluster'} -> {found}")


@agent.command(context_settings=CONTEXT, epilog=examples("mirage agent status", "mirage agent status --json"))
@json_output
@click.pass_context
def status(ctx: click.Context, as_json: bool) -> None:
    """Print where the agent runs and its present outage; exit status 1 if none runs.

    Passes of `mirage agent once` count as an agent while they come at their interval.
    """
    from dataclasses import asdict

    from mirage.agent import service
    from mirage.agent.hosting.installed_passes import entry_trouble
    from mirage.agent.hosting.pass_memory import recent_passes
    from mirage.agent.monitoring.outage import known_outage

    now_s = cluster.clock()
    with cluster.store() as store:
        outage = known_outage(store, cluster.home().agent_state, now_s)
        found = service.last_agent(store) if outage is not None else service.running_agent(store, now_s)
        alive = len(store.chains(alive=True))
        url = str(store.engine.url)
    passes, trouble = recent_passes(cluster.home().pass_memory, now_s), entry_trouble(cluster.home())
    if as_json:
        facts = (
            None if found is None else {"host": found.host, "pid": found.pid, "lease_s": round(found.until_s - now_s)}
        )
        since_s, words = (outage.since_s, outage.in_words(now_s)) if outage is not None else (None, None)
        values = {"agent": facts, "chains": alive, "store": url, "outage_since": since_s, "outage": words}
        hosting = {"passes": None if passes is None else asdict(passes), "entry_trouble": trouble or None}
        click.echo(json.dumps({**values, **hosting}))
    elif found is None and passes is not None:
        click.echo(f"{passes.in_words()} manage {alive} chains of {url}")
    elif found is None:
        click.echo(f"no agent runs; {alive} chains of {url} wait for one: mirage agent start")
    else:
        click.echo(f"process {found.pid} on {found.host} manages {alive} chains of {url}")
        if outage is not None:
            click.echo(outage.in_words(now_s))
    if trouble and not as_json:
        click.echo(trouble)
    if found is None and passes is None:
        ctx.exit(1)
