"""The ceiling of an evaluation by whole chains: hand-overs chosen in hindsight.

Every moment at which the next link could begin to compete is tried in a fork of the simulation, in which all jobs to
come are known. The cheapest one is played. Where a held job keeps its age, each link has gathered age for as long as
the number of waiting links allows. A choice is the best for its own hand-over, and does not consider those after it. So
another chain can be a little cheaper.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from mirage.agent.model import GRACE_S, WAITING_LINKS
from mirage.job_state import MISSING
from mirage.policy.cost import Cost
from mirage.policy.plan import Hold, Release
from mirage.provision.chain_record import ChainRun, LinkRecord
from mirage.provision.link_size import LinkSize
from mirage.sim.job_updates import end_at, revise_queued_link
from mirage.sim.kernel.arrays import NEVER_S, RUNNING
from mirage.sim.simulation import Simulation


def play_oracle(
    sim: Simulation,
    link: LinkSize,
    cost: Cost,
    until_s: int,
    waiting_links: int = WAITING_LINKS,
    *,
    user: int = 0,
    step_s: int,
) -> ChainRun:
    """The record of a chain with hand-overs chosen in hindsight, from now until a time.

    Args:
        sim: The simulation; it is consumed.
        link: Size of every link.
        cost: The cost that each hand-over minimises.
        waiting_links: Maximum number of links that wait at once.
        user: Owner of the links, as a code of the workload; 0 for a newcomer.
        step_s: Time between the moments that are tried.
    """
    begin_s = sim.now_s
    chain = _Chain(sim, link, user, waiting_links)
    chain.compete()
    chain.gather_age()
    played = chain.at_last_start(until_s)
    while played.ends_s < until_s:
        chain, played = _best_hand_over(chain, cost, until_s, step_s)
    return ChainRun(link, begin_s, until_s, tuple(played.links), ())


def _best_hand_over(chain: _Chain, cost: Cost, until_s: int, step_s: int) -> tuple[_Chain, _Chain]:
    """The chain when its next link begins to compete, and when that link starts.

    The cheapest moment counts; of several, the last one. Moments are tried from the last one to the first one that
    leaves no interruption.
    """
    best, least = (chain, chain), math.inf
    for moment in reversed(_moments(chain, until_s, step_s)):
        moment.compete()
        played = moment.at_last_start(until_s)
        last, following = played.links[-2:]
        start_s = until_s if following.started_s == MISSING else following.started_s
        if start_s < last.started_s:
            continue  # out of order
        late_s = start_s - (last.started_s + chain.link.limit_s)
        price = float(cost.total(max(late_s, 0), min(max(-late_s, 0), GRACE_S)))
        if price < least:
            best, least = (moment, played), price
        if late_s <= 0:
            break
    return best


def _moments(chain: _Chain, until_s: int, step_s: int) -> list[_Chain]:
    """The chain at every moment at which one more link may begin to compete."""
    found = []
    while True:
        if chain.waiting < chain.waiting_links or chain.held:
            found.append(chain.fork())
        if chain.sim.now_s >= min(chain.ends_s, until_s):
            return found
        chain.run(min(chain.sim.now_s + step_s, chain.ends_s, until_s))


@dataclass
class _Chain:
    """A chain in a simulation of its own.

    Attributes:
        link: Size of its links.
        links: The links that compete, run or have ended.
        held: Jobs that gather age for the links after these, with the times of their submission.
    """

    sim: Simulation
    link: LinkSize
    user: int
    waiting_links: int
    links: list[LinkRecord] = field(default_factory=list)
    held: list[tuple[int, int]] = field(default_factory=list)

    def fork(self) -> _Chain:
        """A copy that continues independently."""
        return replace(self, sim=self.sim.fork(), links=[*self.links], held=[*self.held])

    @property
    def waiting(self) -> int:
        """Number of links in the queue."""
        return len(self.held) + sum(link.started_s == MISSING for link in self.links)

    @property
    def ends_s(self) -> int:
        """When the limit of the last link ends it; ``NEVER_S`` before it has started."""
        started_s = self.links[-1].started_s
        return NEVER_S if started_s == MISSING else started_s + self.link.limit_s

    def compete(self) -> None:
        """Let one more link compete from now on."""
        held_s = MISSING
        if self.held:
            job, held_s = self.held.pop(0)
            revise_queued_link(self.sim, job, Release())
        else:
            job = self._submit()
        self.links.append(LinkRecord(len(self.links), job, self.sim.now_s, MISSING, MISSING, held_s))

    def at_last_start(self, until_s: int) -> _Chain:
        """A copy in which the last link has just started, or the time has come."""
        copy = self.fork()
        while copy.ends_s == NEVER_S and copy.sim.now_s < until_s:
            copy.run(until_s, to_next_start=True)
        return copy

    def run(self, until_s: int, *, to_next_start: bool = False) -> None:
        """Run until just before a time, or to the start of a link if that is earlier."""
        while self.sim.now_s < until_s:
            waits = next((link for link in self.links if link.started_s == MISSING), None)
            start_s = None if waits is None else self._start_of(waits.job, until_s)
            if waits is None or start_s is None:
                self.sim.approach(until_s)
                return
            self._started(waits, start_s)
            if to_next_start:
                return

    def _start_of(self, job: int, until_s: int) -> int | None:
        """When a link has started or starts; None if that is not before a time."""
        live, used = self.sim.state.live, int(self.sim.state.clock["slots_used"][0])
        slots = np.flatnonzero((live.id[:used] == job) & (live.status[:used] == RUNNING))
        if len(slots):
            return int(live.first_start_s[slots[0]])
        self.sim.watch(job)
        return self.sim.run_until_started(job, until_s - 1)

    def _started(self, link: LinkRecord, start_s: int) -> None:
        """Record a start; the link before it ends after its grace time."""
        self.links[link.number] = replace(link, started_s=start_s, ends_s=start_s + self.link.limit_s)
        last = self.links[link.number - 1] if link.number else None
        if last is not None and last.ends_s > start_s + GRACE_S:
            self.links[last.number] = replace(last, ends_s=start_s + GRACE_S)
            end_at(self.sim, last.job, start_s + GRACE_S)
        self.gather_age()

    def gather_age(self) -> None:
        """Submit and hold as many links as may wait, if a held job retains its age."""
        while self.sim.settings.retains_age(self.sim.cluster.limits) and self.waiting < self.waiting_links:
            job = self._submit()
            revise_queued_link(self.sim, job, Hold())
            self.held.append((job, self.sim.now_s))

    def _submit(self) -> int:
        return self.sim.inject(nodes=self.link.nodes, limit_s=self.link.limit_s, user=self.user, watched=False)
