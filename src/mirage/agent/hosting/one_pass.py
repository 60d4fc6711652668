"""One pass of the agent for all chains, for cron, scrontab and timers.

A pass does what a resident agent does in one cycle, with the same store and lease. Three things differ. It starts with
the memory of the last pass. It waits for answers of policies, sbatch and ready commands instead of polling again. And
it knows that the next pass comes later: Slurm itself releases a link at a moment before that, and the pass stays for a
moment of a hand-over that is due to the second.
"""

from __future__ import annotations

import logging
import math
import resource
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from mirage.agent.agent import Agent
from mirage.agent.hosting.pass_memory import LAST_PASSES, PassMemory
from mirage.agent.model import Cycle, LinkState
from mirage.agent.settings import AgentSettings
from mirage.agent.store.lease import drop_if_gone
from mirage.duration import MINUTE_S
from mirage.errors import WrongCluster

log = logging.getLogger("mirage.agent")

MOST_QUERIES = 7
"""Polls of a pass without a memory: options, nodes, reservations, and the history in steps of twice the length."""

ANSWERS_S = 60.0
"""Real time for a policy: a forecast takes seconds. After it the fall-back decides."""

SBATCH_S = 30.0
"""Real time for sbatch; a later pass finds the job by its tag."""

OUTPUT_S = 20.0
"""Real time for the output of failed links; a pass that ends before does not use it."""

MESSAGES_S = 30.0
"""Real time for messages; a later pass sends them again."""

LEAVES_BEFORE_S = 15
"""A pass ends this long before the next one, which would otherwise find the lease held."""

STARTED_S = MINUTE_S
"""Slurm has started a link that may start from a moment on, and can, within this time.

So it has where Slurm's plan names the moment, unless the plan changes.
"""


def pass_settings(settings: AgentSettings, every_s: int) -> AgentSettings:
    """The settings of a pass: no agent runs until the next one.

    Args:
        every_s: Time between passes.
    """
    return replace(
        settings,
        poll_s=every_s,
        busy_poll_s=every_s,
        decide_s=max(settings.decide_s, every_s),
        longest_poll_s=max(settings.longest_poll_s, every_s),
        wait_for_answers_s=ANSWERS_S,
        answer_s=ANSWERS_S,
        pass_every_s=every_s,
    )


@dataclass(frozen=True, slots=True)
class PassReport:
    """The result of a pass.

    Attributes:
        chains: Number of chains.
        every_s: Time between passes.
        next_s: Expected begin of the next pass.
        polls: Number of polls of the queue.
        stayed_s: Time for which the pass waited for moments of hand-overs.
        trouble: The error of Slurm or of the store; empty for none.
        cpu_s: Processor time of the pass and its children.
        peak_mib: Largest memory of the process, MiB.
        child_mib: Largest memory of a child, MiB.
    """

    chains: int
    every_s: int
    next_s: int
    polls: int
    stayed_s: int
    trouble: str
    cpu_s: float
    peak_mib: int
    child_mib: int


class OnePass:
    """A pass over all chains of a store.

    Args:
        memory: What the last pass left.
        memory_file: Where this pass leaves its own; None for nowhere.
        stay_s: Longest time to wait for moments of hand-overs before the next pass.
    """

    def __init__(self, agent: Agent, memory: PassMemory, memory_file: Path | None, stay_s: int) -> None:
        self.agent, self.memory, self.file, self.stay_s = agent, memory, memory_file, stay_s
        self.every_s = agent.settings.pass_every_s
        self.polls = self.stayed_s = 0

    def run(self, sleep: Callable[[float], object], stop: Callable[[], bool]) -> PassReport:
        """Does the pass, and returns the lease.

        Raises:
            LeaseHeld: Another agent has the store.
            StoreGone: The store's file was deleted or replaced.
            WrongCluster: Slurm's commands reach another cluster than that of the chains.
        """
        agent, begun_s = self.agent, int(self.agent.clock())
        drop_if_gone(agent.store)
        agent.store.take_lease(agent.holder, agent.clock(), agent.settings.lease_s)
        try:
            self._recall()
            self._remember(begun_s)
            cycle = self._complete(stop)
            cycle = self._settle(cycle, stop)
            cycle = self._stay(cycle, begun_s, sleep, stop)
            self._remember(begun_s)
        except WrongCluster:
            self._write(self.memory)  # a pass that is refused is none
            raise
        finally:
            agent.leave(MESSAGES_S)
        own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
        return PassReport(
            chains=cycle.chains,
            every_s=self.every_s,
            next_s=begun_s + self.every_s,
            polls=self.polls,
            stayed_s=self.stayed_s,
            trouble=cycle.trouble,
            cpu_s=round(own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime, 3),
            peak_mib=own.ru_maxrss >> 10,
            child_mib=children.ru_maxrss >> 10,
        )

    def _cycle(self) -> Cycle:
        self.polls += 1
        return self.agent.cycle()

    def _complete(self, stop: Callable[[], bool]) -> Cycle:
        """Poll until all that policies need is known; after another pass one poll is enough."""
        cycle = self._cycle()
        while cycle.chains and not cycle.trouble and not stop() and self.polls < MOST_QUERIES:
            poller = self.agent.poller
            if poller.complete and poller.has_whole_history:
                break
            cycle = self._cycle()
        return cycle

    def _settle(self, cycle: Cycle, stop: Callable[[], bool]) -> Cycle:
        """Wait for the work that was begun, and poll again where its result can change something."""
        agent = self.agent
        if cycle.trouble or stop():
            return cycle
        waited = agent.probes.wait(agent.settings.ready_timeout_s) | agent.submissions.wait(SBATCH_S)
        if agent.outputs is not None and (answered := agent.outputs.wait(OUTPUT_S)):
            agent.turns.interrupted(answered)
            waited = True
        return self._cycle() if waited else cycle

    def _stay(self, cycle: Cycle, begun_s: int, sleep: Callable[[float], object], stop: Callable[[], bool]) -> Cycle:
        """Wait for each moment of a hand-over before the next pass.

        The start of a link is such a moment, too, where it is expected before the next pass: until it is noticed, two
        links hold nodes.
        """
        agent, until_s = self.agent, begun_s + min(self.stay_s, self.every_s - LEAVES_BEFORE_S)
        planned_s = agent.poller.planned_starts_s()
        while not cycle.trouble and not stop():
            now_s = agent.clock()
            starts_s, starting = self._next_start(now_s, planned_s)
            moment_s = min(agent.turns.next_moment_s(), starts_s)
            if not moment_s < until_s:
                break
            agent.pause(max(moment_s - now_s, 1.0), sleep, stop)
            self.stayed_s += max(round(agent.clock() - now_s), 0)
            if not stop():
                if moment_s == starts_s:
                    agent.turns.interrupted(starting)
                cycle = self._settle(self._cycle(), stop)
        return cycle

    def _next_start(self, now_s: float, planned_s: Mapping[int, int]) -> tuple[float, list[int]]:
        """The next time at which a successor of a running link is expected to run, and its chain.

        A link can start at its release, from the time on that it waits for, and at its start in Slurm's plan. Infinite
        where none is expected.

        Args:
            planned_s: By job, the start in the plan of this pass's first polls: Slurm may postpone it again and again.
        """
        links = self.agent.store.links(open=True)
        running = {link.chain for link in links if link.state is LinkState.RUNNING}
        waiting = [link for link in links if link.state is LinkState.QUEUED and link.chain in running]
        starts = [(max(link.begins_s, link.released_s) + STARTED_S, link.chain) for link in waiting]
        starts += [(planned_s[link.job] + STARTED_S, link.chain) for link in waiting if link.job in planned_s]
        at_s = min((start_s for start_s, _ in starts if start_s > now_s), default=math.inf)
        return at_s, [chain for start_s, chain in starts if start_s == at_s]

    def _recall(self) -> None:
        """Start with the knowledge of the last pass, as far as it is of this store."""
        known = self.agent.store.identity()
        if not self.memory.is_of(known):
            return
        try:
            if self.memory.poller is not None:
                self.agent.poller.recall(self.memory.poller)
        except (ValueError, KeyError, TypeError) as error:
            log.warning("no memory", extra={"detail": f"{self.file} is damaged: {error}; Slurm is queried again"})
        if self.agent.clock() - known.polled_s > 2 * self.every_s + MINUTE_S:
            self.agent.poller.forget_silence()
        if self.memory.is_last(known):
            reconciler = self.agent.reconciler
            reconciler.missing.update({(chain, link): since_s for chain, link, since_s in self.memory.missing})
            reconciler.releases.update({(chain, link): count for chain, link, count in self.memory.releases})

    def _remember(self, begun_s: int) -> None:
        """Write the memory; a pass that is killed leaves its begin and its holder."""
        known, reconciler = self.agent.store.identity(), self.agent.reconciler
        begun = (*[at_s for at_s in self.memory.begun_s if at_s < begun_s], begun_s)
        memory = PassMemory(
            begun_s=begun[-LAST_PASSES:],
            every_s=self.every_s,
            holder=self.agent.holder,
            polled_s=known.polled_s,
            store=known.identity,
            cluster=known.cluster,
            poller=self.agent.poller.memory(),
            missing=tuple((*key, since_s) for key, since_s in reconciler.missing.items()),
            releases=tuple((*key, count) for key, count in reconciler.releases.items() if count),
        )
        self._write(memory)

    def _write(self, memory: PassMemory) -> None:
        try:
            if self.file is not None:
                memory.write(self.file)
        except OSError as error:
            log.warning("no memory", extra={"detail": f"cannot write {self.file}: {error.strerror}"})
