"""Prometheus metrics of the agent, from its own counts and from the store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirage.agent.background.calibration import OUTCOMES
from mirage.agent.chain.history import chain_run
from mirage.agent.model import Chain, ChainState, Cycle, Link, LinkState
from mirage.duration import HOUR_S, UNLIMITED_S
from mirage.errors import ConfigurationError, StoreError
from mirage.extras import install
from mirage.job_state import MISSING
from mirage.slurm_words.reasons import is_usual

try:
    from prometheus_client import CollectorRegistry, generate_latest, start_http_server, write_to_textfile
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
    from prometheus_client.registry import Collector
except ModuleNotFoundError as error:
    raise ConfigurationError(
        f"metrics need prometheus-client, which is not installed; run: {install('metrics')}"
    ) from error

if TYPE_CHECKING:
    from mirage.agent.background.calibration import SiteCalibration
    from mirage.agent.store.protocol import Store

REVISIONS = ("held-again", "released-again", "postponed", "shortened", "withdrawn-by-policy")
"""Kinds of events of revisions."""

Labelled = Mapping[Any, float]
"""Values by a tuple of labels."""


class Metrics(Collector):
    """The metrics after the last cycle; a scrape queries neither the store nor Slurm.

    Totals of decisions and refusals are the store's: they survive a restart.

    Args:
        runner: Counts Slurm's commands in ``count``.
        clock: The cluster's clock.
        holder: The holder of our lease; empty to accept any.
        calibration: Updates the calibration of this cluster; None for none.
    """

    def __init__(
        self,
        store: Store,
        runner: Any,
        clock: Callable[[], float],
        holder: str = "",
        calibration: SiteCalibration | None = None,
    ) -> None:
        self.calibration = calibration
        self.store, self.runner, self.clock, self.holder = store, runner, clock, holder
        self.troubles = self.late_answers = 0
        self.took_s = self.longest_s = self.last_s = self.outage_s = 0.0
        self._last_decision = self._last_event = 0
        self._decided: Counter[tuple[str, bool]] = Counter()
        self._happened: Counter[str] = Counter()
        self._of_store: tuple[Metric, ...] = ()
        self._families: tuple[Metric, ...] = ()
        self.registry = CollectorRegistry()
        self.registry.register(self)

    def record_cycle(self, cycle: Cycle, took_s: float) -> None:
        """Record a cycle; after a problem with Slurm or the store, the chains stay as known."""
        self.took_s, self.late_answers = took_s, self.late_answers + cycle.late_answers
        self.longest_s = max(self.longest_s, took_s)
        since_s = cycle.outage_since_s
        self.outage_s = max(self.clock() - since_s, 0.0) if since_s != MISSING else 0.0
        try:
            if not cycle.trouble:
                now_s = self.clock()
                self._of_store = tuple(self._read(int(now_s)))
                self.last_s = now_s
        except StoreError:
            self.troubles += 1
        self.troubles += bool(cycle.trouble)
        calibrated = _of_calibration(self.calibration) if self.calibration is not None else ()
        self._families = (*self._of_process(), *self._of_store, *calibrated)

    def collect(self) -> Iterable[Metric]:
        """The metric families of a scrape."""
        return self._families

    def serve(self, port: int, address: str = "127.0.0.1") -> Callable[[], None]:
        """Answer scrapes in a thread; the returned function stops it.

        Raises:
            ConfigurationError: The port is not available.
        """
        try:
            server, thread = start_http_server(port, addr=address, registry=self.registry)
        except OSError as error:
            raise ConfigurationError(
                f"cannot serve metrics on {address}:{port}: {error.strerror}; name another port"
            ) from error

        def stop() -> None:
            server.shutdown()
            server.server_close()
            thread.join()

        return stop

    def text(self) -> str:
        """The metrics in Prometheus' exposition format."""
        return generate_latest(self.registry).decode()

    def write(self, path: Path) -> None:
        """The text in a file, replaced in one step, for node-exporter's textfile collector.

        Raises:
            ConfigurationError: It cannot be written.
        """
        try:
            write_to_textfile(str(path), self.registry)
        except OSError as error:
            raise ConfigurationError(f"cannot write metrics to {path}: {error.strerror}") from error

    def _of_process(self) -> Iterable[Metric]:
        ran = {(name,): float(count) for name, count in (getattr(self.runner, "count", None) or {}).items()}
        yield _counter("slurm_commands", "Slurm commands run", ran, "command")
        yield _counter("troubles", "Cycles cut short by Slurm or the store", {(): self.troubles})
        yield _gauge(
            "outage_seconds", "Time since Slurm or the store last answered; 0 while both do", {(): self.outage_s}
        )
        yield _counter("decisions_put_off", "Decisions without an answer in time", {(): self.late_answers})
        yield _gauge("cycle_seconds", "Duration of the last cycle", {(): self.took_s})
        yield _gauge("longest_cycle_seconds", "Duration of the longest cycle", {(): self.longest_s})
        yield _gauge("last_cycle_timestamp_seconds", "When the last cycle without trouble ended", {(): self.last_s})

    def _read(self, now_s: int) -> Iterable[Metric]:
        chains = self.store.chains()
        links = self.store.links()
        alive = [chain for chain in chains if chain.state is not ChainState.DONE]
        held = self.store.lease()
        ours = held is not None and held[0] == (self.holder or held[0]) and held[1] >= now_s
        yield _gauge("lease_held", "Whether we hold the lease of the store", {(): ours})
        yield _gauge("chains", "Chains by state", _by_state(ChainState, (chain.state for chain in chains)), "state")
        yield _gauge("links", "Links by state", _by_state(LinkState, (link.state for link in links)), "state")
        yield from _of_chains([(chain, [link for link in links if link.chain == chain.id]) for chain in alive], now_s)
        self._last_decision, decided = self.store.decided_since(self._last_decision)
        self._last_event, happened = self.store.happened_since(self._last_event)
        self._decided += Counter({(_kind(reason), submits): n for (reason, submits), n in decided.items()})
        self._happened += happened
        chosen = {(reason, "submit" if submits else "wait"): float(n) for (reason, submits), n in self._decided.items()}
        yield _counter("decisions", "Choices of policies, by reason", chosen, "reason", "choice")
        revised = {(kind,): float(self._happened[kind]) for kind in REVISIONS}
        yield _counter("revisions", "Changes of links that were queued", revised, "kind")
        unsignalled = {(): float(self._happened["unsignalled"])}
        yield _counter("links_unsignalled", "Links that their limit ended without a signal in time", unsignalled)
        refused = sum(self._happened[kind] for kind in ("refused", "release-refused", "revision-refused"))
        yield _counter("submissions_refused", "Submissions and releases that Slurm refused", {(): refused})


def _of_chains(chains: Sequence[tuple[Chain, list[Link]]], now_s: int) -> Iterable[Metric]:
    """Metrics of chains that are not done: a chain that is done leaves no label."""
    runs = {(chain.name,): chain_run(chain, links, (), now_s) for chain, links in chains}
    running = {(chain.name,): [x for x in links if x.state is LinkState.RUNNING] for chain, links in chains}
    live = {key: row[-1].number if row else 0 for key, row in running.items()}
    ends_s = {k: row[-1].limit_ends_s for k, row in running.items() if row and row[-1].limit_ends_s < UNLIMITED_S}
    lost_s = {key: run.interruption_s for key, run in runs.items()}
    twice_s = {key: run.overlap_s for key, run in runs.items()}
    wasted_s = {key: run.wasted_node_h * HOUR_S for key, run in runs.items()}
    troubled = {(chain.name,): bool(chain.trouble) for chain, _ in chains}
    waits = {
        (chain.name, link.reason): 1
        for chain, links in chains
        for link in links
        if link.state is LinkState.QUEUED and not is_usual(link.reason)
    }
    yield _gauge("chain_trouble", "Whether the chain has a problem", troubled, "chain")
    yield _gauge("link_blocked", "Why a link waits, other than for its turn", waits, "chain", "reason")
    yield _counter("interruption_seconds", "Time in which no link served, so far", lost_s, "chain")
    yield _counter("overlap_seconds", "Time in which two links held nodes, so far", twice_s, "chain")
    yield _counter("wasted_node_seconds", "Node-seconds of overlap, so far", wasted_s, "chain")
    yield _gauge("link_ends_timestamp_seconds", "When the newest running link reaches its limit", ends_s, "chain")
    yield _gauge("live_link", "Number of the newest link that runs, 0 for none", live, "chain")


def _of_calibration(calibration: SiteCalibration) -> Iterable[Metric]:
    """Age and quality of the simulator's calibration, where there is one."""
    stored = calibration.stored
    made = {(): stored.made_s} if stored is not None else {}
    off = {(): stored.error} if stored is not None and stored.error is not None else {}
    order = {(): stored.rank_correlation} if stored is not None and stored.rank_correlation is not None else {}
    tried = {(outcome,): float(calibration.ended[outcome]) for outcome in OUTCOMES}
    yield _gauge("calibration_under_way", "Whether the simulator is being calibrated", {(): calibration.is_under_way})
    yield _counter("calibrations", "Calibrations of this agent that have ended", tried, "outcome")
    yield _gauge("calibration_timestamp_seconds", "When the simulator was calibrated to this cluster", made)
    yield _gauge("calibration_error_ratio", "Error of two-week mean waits, simulated here", off)
    yield _gauge("calibration_rank_correlation", "Rank correlation of single waits, simulated here", order)


def _kind(reason: str) -> str:
    """A reason without its details, which would make one time series each."""
    return reason.partition(":")[0] or "none"


def _by_state(states: Iterable[Any], found: Iterable[Any]) -> Labelled:
    """A count for every state, including those without members."""
    count = Counter(state.value for state in found)
    return {(state.value,): float(count[state.value]) for state in states}


def _gauge(name: str, explained: str, values: Labelled, *labels: str) -> Metric:
    return _filled(GaugeMetricFamily(f"mirage_{name}", explained, labels=labels), values)


def _counter(name: str, explained: str, values: Labelled, *labels: str) -> Metric:
    return _filled(CounterMetricFamily(f"mirage_{name}", explained, labels=labels), values)


def _filled(family: Any, values: Labelled) -> Metric:
    for labels, value in values.items():
        family.add_metric(labels, float(value))
    found: Metric = family
    return found
