"""Prometheus metrics of the agent."""

from __future__ import annotations

from collections import Counter as Count
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest, start_http_server

from mirage.agent.history import chain_run

if TYPE_CHECKING:
    from mirage.agent.agent import Cycle
    from mirage.agent.sql_store import SqlStore


class Metrics:
    """Counts and gauges, brought up to date after every cycle.

    Args:
        runner: Counts Slurm's commands in ``count``.
        clock: The cluster's.
    """

    def __init__(self, store: SqlStore, runner: Any, clock: Callable[[], float]) -> None:
        self.store, self.runner, self.clock = store, runner, clock
        self.registry = CollectorRegistry()
        self._seen: Count[str] = Count()
        chain = ("chain",)

        def gauge(name: str, told: str, labels: tuple[str, ...] = ()) -> Gauge:
            return Gauge(f"mirage_{name}", told, labels, registry=self.registry)

        self.chains = gauge("chains", "Chains by state", ("state",))
        self.interruption = gauge("interruption_seconds", "Time without a link, so far", chain)
        self.overlap = gauge("overlap_seconds", "Time with two links, so far", chain)
        self.live = gauge("live_link", "Number of the link that runs, 0 for none", chain)
        self.cycle_s = gauge("cycle_seconds", "How long the last cycle took")
        self.last_s = gauge("last_cycle_timestamp_seconds", "When the last cycle without trouble ended")
        self.commands = Counter("mirage_slurm_commands", "Slurm commands run", ("command",), registry=self.registry)
        self.troubles = Counter("mirage_troubles", "Cycles cut short by Slurm or the store", registry=self.registry)
        self.put_off = Counter("mirage_decisions_put_off", "Decisions there was no time for", registry=self.registry)

    def saw(self, cycle: Cycle, took_s: float) -> None:
        """Take note of a cycle."""
        self.cycle_s.set(took_s)
        self.put_off.inc(cycle.put_off)
        for command, count in (getattr(self.runner, "count", None) or {}).items():
            self.commands.labels(command).inc(count - self._seen[command])
            self._seen[command] = count
        if cycle.trouble:
            self.troubles.inc()
            return
        now_s = self.clock()
        self.last_s.set(now_s)
        self._chains(int(now_s))

    def _chains(self, now_s: int) -> None:
        chains = self.store.chains()
        for state, count in Count(chain.state.value for chain in chains).items():
            self.chains.labels(state).set(count)
        for chain in chains:
            if chain.state.value == "done":
                continue
            links = self.store.links(chain.id)
            run = chain_run(chain, links, (), now_s)
            self.interruption.labels(chain.name).set(run.interruption_s)
            self.overlap.labels(chain.name).set(run.overlap_s)
            self.live.labels(chain.name).set(max((k.number for k in links if k.state.value == "running"), default=0))

    def serve(self, port: int) -> None:
        """Answer on 127.0.0.1."""
        start_http_server(port, addr="127.0.0.1", registry=self.registry)

    def text(self) -> str:
        """In Prometheus' exposition format."""
        return generate_latest(self.registry).decode()
