"""An agent in the foreground: what ``mirage agent run`` and ``once`` share."""

from __future__ import annotations

import os
import select
import signal
import time
from typing import TYPE_CHECKING, Any

import click

from mirage.cli import cli_context as cluster
from mirage.cli.values import Duration
from mirage.duration import HOUR_S

if TYPE_CHECKING:
    from mirage.agent.agent import Agent
    from mirage.agent.policy_runner.child_process import ChildProcess
    from mirage.agent.settings import AgentSettings
    from mirage.agent.store.sql_store import SqlStore
    from mirage.slurm.client import SlurmClient

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


command_timeout = click.option(
    "--command-timeout",
    "timeout_s",
    metavar="TIME",
    type=Duration(1, 2 * HOUR_S, limited=True, with_unit=True),
    help="Kill a Slurm command after this time. If the host of this agent fails, an agent on another one takes over "
    "after four times this time, and after four minutes at least. [60s]",
)

heartbeat_url = click.option(
    "--heartbeat",
    metavar="URL",
    envvar="MIRAGE_HEARTBEAT",
    help="Call this URL once a minute while Slurm answers; a monitor that misses the calls alerts you.",
)

log_format = click.option(
    "--log-json/--log-plain", "log_json", default=None, help="Format of the log. [default: plain on a terminal]"
)


def patient_settings(settings: AgentSettings, timeout_s: int | None) -> AgentSettings:
    """Returns settings for Slurm commands that may take some seconds."""
    from dataclasses import replace

    if timeout_s is None:
        return settings
    return replace(
        settings,
        settle_s=max(settings.settle_s, round(1.5 * timeout_s)),
        lease_s=max(settings.lease_s, 4 * timeout_s),
    )


def agent_of(
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


def is_pass_under_way(store: SqlStore) -> bool:
    """Whether a pass of ``mirage agent once`` holds the lease: it ends soon."""
    from mirage.agent.hosting.pass_memory import PassMemory

    held = store.lease()
    return held is not None and held[0] == PassMemory.read(cluster.home().pass_memory).holder
