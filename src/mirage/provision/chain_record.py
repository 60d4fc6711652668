"""Record of a chain, simulated or real: its links, decisions and hand-overs."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from mirage.duration import HOUR_S
from mirage.job_state import MISSING
from mirage.policy.cost import Cost
from mirage.provision.link_size import LinkSize


@dataclass(frozen=True, slots=True)
class LinkRecord:
    """One job of the chain.

    Attributes:
        number: 0 for the first.
        job: Its id in the simulation.
        started_s: ``MISSING`` if it had not started by the horizon.
        ends_s: When its limit ends it; ``MISSING`` likewise.
        held_s: When it was queued and held, before ``submitted_s``; ``MISSING`` if it never was.
        ready_s: When it began to serve; ``MISSING`` if it serves from its start.
    """

    number: int
    job: int
    submitted_s: int
    started_s: int
    ends_s: int
    held_s: int = MISSING
    ready_s: int = MISSING

    @property
    def queued_s(self) -> int:
        """When it was queued: held, or else submitted."""
        return self.submitted_s if self.held_s == MISSING else min(self.held_s, self.submitted_s)

    @property
    def serves_s(self) -> int:
        """When it begins to serve: at its readiness if that is later than its start."""
        return max(self.started_s, self.ready_s)


@dataclass(frozen=True, slots=True)
class Decision:
    """Decision of a policy, and its reason.

    Attributes:
        link: Number of the link that ran.
        remaining_s: Remaining time of that link.
        submits: Whether the next link was submitted then.
        reason: The reasons of the plan's actions.
        estimate: What the policy expected; names include units.
    """

    now_s: int
    link: int
    remaining_s: int
    submits: bool
    reason: str
    estimate: dict[str, float]


@dataclass(frozen=True, slots=True)
class HandOver:
    """Hand-over from one link to the next.

    Attributes:
        link: Number of the link that ended.
        ended_s: When it ended.
        interruption_s: From this end until the next link was ready; up to the horizon if it had not started by then.
        overlap_s: Time during which both held nodes, the load time of the next link included.
        open: Whether the next link had not started by the horizon.
        following: Number of the next; ``MISSING`` while it has not started.
    """

    link: int
    ended_s: int
    interruption_s: int = 0
    overlap_s: int = 0
    open: bool = False
    following: int = MISSING


@dataclass(frozen=True, slots=True)
class ChainRun:
    """History of a chain between its first submission and the horizon.

    It is interrupted while no link serves: from the end of one until the next is ready. Two links overlap while both
    hold nodes, whether the second serves or still loads. Neither includes the wait for the first link, nor
    anything after the last link that was wanted.

    Attributes:
        stopped_s: When links were no longer wanted; ``MISSING`` while they are.
    """

    link: LinkSize
    begin_s: int
    until_s: int
    links: tuple[LinkRecord, ...]
    decisions: tuple[Decision, ...]
    stopped_s: int = MISSING

    @property
    def hand_overs(self) -> tuple[HandOver, ...]:
        """Every end of a link before the horizon and the link after it; overlaps count in full.

        A link that ends before its predecessor hands nothing over: it only overlaps.
        """
        found, covered_s = [], MISSING
        for last, following in zip(self.links, (*self.links[1:], None)):
            if last.ends_s == MISSING:
                continue
            covered_s = max(covered_s, last.ends_s)
            if covered_s > self.until_s:
                continue
            if following is not None and following.started_s != MISSING:
                interruption_s = max(self._wanted_until_s(following.serves_s) - covered_s, 0)
                overlap_s = max(min(covered_s, following.ends_s) - following.started_s, 0)
                found.append(HandOver(last.number, covered_s, interruption_s, overlap_s, following=following.number))
            elif covered_s < self.until_s:
                found.append(HandOver(last.number, covered_s, self.until_s - covered_s, open=True))
        return tuple(found)

    def _wanted_until_s(self, instant_s: int) -> int:
        """Returns an instant, or the earlier time from which no link was wanted."""
        return instant_s if self.stopped_s == MISSING else min(instant_s, self.stopped_s)

    @property
    def started(self) -> tuple[LinkRecord, ...]:
        """Links that had started by the horizon; the others wait or are held."""
        return tuple(link for link in self.links if link.started_s != MISSING and link.started_s <= self.until_s)

    @property
    def interruption_s(self) -> int:
        """Time in which no link served, without the wait for the first one."""
        return sum(h.interruption_s for h in self.hand_overs)

    @property
    def overlap_s(self) -> int:
        """Time in which two links held nodes."""
        return sum(h.overlap_s for h in self.hand_overs)

    @property
    def after_long_waits(self) -> tuple[HandOver, ...]:
        """Interruptions after a wait that was longer than a link may run.

        No policy avoids the first of several: its link was submitted during its predecessor. Another request may.
        """
        found = []
        for over in self.hand_overs:
            following = self.after(over.link)
            if over.interruption_s > 0 and following is not None:
                waited_s = (self.until_s if over.open else following.started_s) - following.submitted_s
                found += [over] if waited_s > self.link.limit_s else []
        return tuple(found)

    @property
    def availability(self) -> float:
        """Share of the time since the first start in which a link served."""
        if not self.links or self.links[0].started_s == MISSING:
            return 0.0
        alive_s = self.until_s - self.links[0].started_s
        return 1 - self.interruption_s / alive_s if alive_s > 0 else 0.0

    def after(self, link: int) -> LinkRecord | None:
        """Returns the link after the link of a given number, if there is one."""
        return next((following for last, following in pairwise(self.links) if last.number == link), None)

    def cost(self, cost: Cost) -> float:
        """Total cost of all hand-overs."""
        return float(cost.total(self.interruption_s, self.overlap_s))

    @property
    def wasted_node_h(self) -> float:
        """Node-hours of overlap."""
        return self.overlap_s / HOUR_S * self.link.nodes
