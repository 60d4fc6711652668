"""The agent: a loop that polls, reconciles, submits, decides and hands over, then sleeps.

Everything it knows is in the store and in Slurm.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from mirage.agent.cycle.context import CycleContext
from mirage.agent.cycle.decide import Decider
from mirage.agent.cycle.handover import ReadinessProbes, Shell, hand_over
from mirage.agent.cycle.poller import Poller
from mirage.agent.cycle.reconcile import Reconciler
from mirage.agent.cycle.submit import submit_planned
from mirage.agent.cycle.transitions import steer
from mirage.agent.model import Chain, ChainState, Link, LinkState
from mirage.agent.policy_runner import InProcess, PolicyRunner
from mirage.agent.settings import AgentSettings
from mirage.agent.store.lease import drop_if_gone
from mirage.agent.store.protocol import Store
from mirage.errors import LeaseHeld, SlurmError, SlurmUnreachable, StoreError
from mirage.policy.view import View
from mirage.slurm.backend import Backend
from mirage.slurm.view import Names, view_of

log = logging.getLogger("mirage.agent")

JUMP_S = 60
"""The wall clock and the steady one may differ by so much between two polls before we speak of a jump."""


@dataclass(frozen=True, slots=True)
class Cycle:
    """The result of one cycle.

    Attributes:
        chains: Chains looked after.
        busy: Whether a hand-over is under way, so that the next look should come soon.
        put_off: Decisions there was no time for.
        trouble: What Slurm or the store said, if the cycle could not be completed.
    """

    chains: int = 0
    busy: bool = False
    put_off: int = 0
    trouble: str = ""


class Agent:
    """The agent of a store, which keeps all its chains alive.

    Args:
        clock: Wall-clock seconds, on the cluster's time.
        monotonic: Seconds that only ever grow, for pacing and for budgets.
        holder: Who we are, for the lease: host and process.
        runner: Where policies think; by default in this process.
        on_cycle: Hears of every cycle and how long it took, for metrics.
    """

    def __init__(
        self,
        store: Store,
        backend: Backend,
        shell: Shell,
        *,
        clock: Callable[[], float],
        monotonic: Callable[[], float],
        holder: str,
        settings: AgentSettings | None = None,
        runner: PolicyRunner | None = None,
        on_cycle: Callable[[Cycle, float], None] | None = None,
    ) -> None:
        self.store, self.backend, self.clock, self.monotonic = store, backend, clock, monotonic
        self.holder, self.settings = holder, settings or AgentSettings()
        self.poller = Poller(backend, self.settings)
        self.reconciler, self.probes = Reconciler(), ReadinessProbes(shell)
        self.decider = Decider(monotonic, runner or InProcess())
        self.names, self.on_cycle = Names(), on_cycle
        self.troubles = 0
        self._took_s: deque[float] = deque([0.0, 0.0], maxlen=3)
        self._last: tuple[float, float] | None = None

    def cycle(self) -> Cycle:
        """One poll and all that follows from it; trouble with Slurm or the disk is logged.

        Raises:
            LeaseHeld: Another agent looks after this store.
        """
        now_s = int(self.clock())
        self._notice_jumps(now_s)
        try:
            self.store.take_lease(self.holder, now_s, self.settings.lease_s)
            cycle = self._cycle(now_s)
        except LeaseHeld:
            raise
        except (SlurmError, StoreError) as error:
            self.troubles += 1
            log.warning("trouble", extra={"detail": str(error), "in_a_row": self.troubles})
            return Cycle(trouble=str(error))
        self.troubles = self.troubles + 1 if cycle.trouble else 0
        return cycle

    def pause_s(self, cycle: Cycle, took_s: float) -> float:
        """The pause until the next cycle, longer the slower the controller answers."""
        if cycle.trouble:
            return min(self.settings.poll_s * 2.0 ** min(self.troubles, 8), self.settings.longest_poll_s)
        shortest_s = self.settings.busy_poll_s if cycle.busy else self.settings.poll_s
        self._took_s.append(took_s)  # one slow answer is an accident; several are a busy controller
        return min(max(shortest_s, 10 * min(self._took_s)), self.settings.longest_poll_s)

    def run(self, sleep: Callable[[float], object], stop: Callable[[], bool]) -> None:
        """Cycle until told to stop, then give the lease back."""
        if (gone := drop_if_gone(self.store)) is not None:
            log.info("lease taken over", extra={"detail": f"from {gone}, which lives no more"})
        try:
            while not stop():
                begun_s = self.monotonic()
                cycle = self.cycle()
                if self.on_cycle is not None:
                    self.on_cycle(cycle, self.monotonic() - begun_s)
                sleep(self.pause_s(cycle, self.monotonic() - begun_s))
        finally:
            self.probes.close()
            self.decider.runner.rest()
            self.store.drop_lease(self.holder)

    def _cycle(self, now_s: int) -> Cycle:
        chains = {chain.id: chain for chain in self.store.chains(alive=True)}
        links = group(link for link in self.store.links(open=True) if link.chain in chains)
        open_links = [link for row in links.values() for link in row if link.state is not LinkState.ENDED]
        snapshot = self.poller.poll(now_s, missing_since_s=self.reconciler.missing_since_s(open_links))
        context = CycleContext(self.store, self.backend, self.settings, now_s, snapshot, chains, links)
        busy = not self.poller.complete
        trouble = ""
        for chain in list(chains.values()):
            try:
                busy |= self._update_chain(context, chain)
            except SlurmError as error:
                trouble = str(error)
                log.warning("trouble", extra={"chain": chain.name, "detail": trouble})
                if isinstance(error, SlurmUnreachable):  # nobody else would fare better; a refusal is one chain's own
                    break
        put_off = 0
        if self.poller.complete and not trouble:
            self.decider.options = self.poller.options or {}
            put_off = self.decider.decide(context, self._view)
        return Cycle(len(chains), busy or put_off > 0, put_off, trouble)

    def _update_chain(self, context: CycleContext, chain: Chain) -> bool:
        """Update one chain from the snapshot; whether a hand-over is under way."""
        before = {link.number for link in context.links.get(chain.id, ()) if link.state is LinkState.ENDED}
        self.reconciler.follow(context, chain)
        ended = [link for link in context.of(chain, LinkState.ENDED) if link.number not in before]
        chain = steer(context, chain, ended)
        if chain.state is ChainState.ACTIVE:
            submit_planned(context, chain)
        busy = hand_over(context, chain, self.probes) if chain.state is not ChainState.DONE else False
        return busy or bool(context.of(chain, LinkState.PLANNED))

    def _view(self, context: CycleContext) -> View:
        assert self.poller.machine is not None
        ended = tuple(self.poller.ended.values())
        return view_of(context.snapshot.queue, self.poller.machine, ended, self.names, self.poller.options)

    def _notice_jumps(self, now_s: int) -> None:
        steady_s = self.monotonic()
        if self._last is not None:
            jump_s = (now_s - self._last[0]) - (steady_s - self._last[1])
            if abs(jump_s) > JUMP_S:
                log.warning("clock jumped", extra={"seconds": round(jump_s)})
        self._last = (now_s, steady_s)


def group(links: Iterable[Link]) -> dict[int, list[Link]]:
    """Links by chain, in order."""
    by_chain: dict[int, list[Link]] = {}
    for link in links:
        by_chain.setdefault(link.chain, []).append(link)
    return by_chain
