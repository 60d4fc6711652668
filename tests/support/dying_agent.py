"""An agent that dies with SIGKILL at a named point; run as a program by the crash tests.

    python dying_agent.py STORE_URL POINT SETTINGS_JSON

POINT is ``never`` or ``before:METHOD`` or ``after:METHOD``, where METHOD is one of the cluster (``submit``, ``update``,
``signal``, ``cancel``) or of the store (``attempt``, ``add_link``, ``change_link``); ``change_link=submitted`` is the
change that writes an event of that kind.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import Any

from mirage.agent.agent import Agent
from mirage.agent.cycle.readiness import SystemShell
from mirage.agent.failure.output_reading import OutputReadings
from mirage.agent.paths import Home
from mirage.agent.settings import AgentSettings
from mirage.agent.store.lease import holder_name
from mirage.agent.store.sql_store import open_store
from mirage.cli.cli_context import client
from mirage.slurm.client import SlurmClient


class Dying:
    """A proxy of an object that ends this process around one of its methods."""

    def __init__(self, inner: Any, point: str) -> None:
        self.inner = inner
        self.when, _, rest = point.partition(":")
        self.method, _, self.kind = rest.partition("=")

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.inner, name)
        if name != self.method:
            return found

        def called(*words: Any, **named: Any) -> Any:
            if self.kind and self.kind not in {getattr(word, "kind", "") for word in words}:
                return found(*words, **named)
            if self.when == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            found(*words, **named)
            os.kill(os.getpid(), signal.SIGKILL)

        return called


def main(url: str, point: str, settings: str) -> None:
    known = json.loads(settings)
    slurm = client() if os.environ.get("MIRAGE_SSH") else SlurmClient(clock=time.time)
    nap_s, standby = known.pop("nap_s", 0.2), known.pop("standby", False)
    agent = Agent(
        Dying(open_store(url), point),
        Dying(slurm, point),
        SystemShell(),
        clock=time.time,
        monotonic=time.monotonic,
        holder=holder_name(),
        settings=AgentSettings(**known),
        outputs=OutputReadings(Home.of(os.environ).folder),
    )
    sleep = lambda seconds: time.sleep(min(seconds, nap_s))  # noqa: E731
    if standby:
        agent.stand_by(sleep, lambda: False)
    agent.run(sleep, lambda: False)


if __name__ == "__main__":
    main(*sys.argv[1:])
