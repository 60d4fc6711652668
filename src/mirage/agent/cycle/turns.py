"""The turns of chains: when each is attended to next, independent of the others.

Turns lie on a common grid of the clock, so that one snapshot of the queue serves all chains with a turn. A chain in the
middle of a hand-over has the finer grid, and the times that matter to it; one in trouble waits longer and longer.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping

from mirage.agent.cycle.handover import Progress
from mirage.agent.model import Chain, ChainState
from mirage.agent.settings import AgentSettings
from mirage.duration import MINUTE_S
from mirage.job_state import MISSING

SOON = 4
"""Number of soon attempts for a signal that is due and could not be sent."""


class Turns:
    """The next turn of every chain, by its number in the store."""

    def __init__(self, settings: AgentSettings) -> None:
        self.settings = settings
        self.due_s: dict[int, float] = {}
        self.moments_s: dict[int, list[int]] = {}
        self.stumbles: Counter[int] = Counter()
        self._progress: dict[int, Progress] = {}
        self._busy: set[int] = set()
        self._unanswered: set[int] = set()

    @property
    def busy(self) -> bool:
        """Whether a chain must be polled soon."""
        return bool(self._busy)

    def begin(self, chains: Mapping[int, Chain], now_s: int) -> list[int]:
        """The chains with a turn now; a new chain has one at once."""
        for gone in self.due_s.keys() - chains.keys():
            del self.due_s[gone], self.stumbles[gone]
            self.moments_s.pop(gone, None)
        self._busy &= chains.keys()
        self._unanswered &= chains.keys()
        self._progress.clear()
        if self.settings.notice_s != MISSING:  # a change may have ended the sleep
            return list(chains)
        latest_s = now_s + self.settings.longest_poll_s  # a later turn is from before the clock was set back
        return [number for number in chains if not now_s < self.due_s.get(number, 0) <= latest_s]

    def progress(self, chain: int, progress: Progress) -> None:
        """Record the state of a chain's hand-over, which had no problem."""
        self._progress[chain] = progress
        del self.stumbles[chain]
        self._unanswered.discard(chain)

    def stumbled(self, chain: int, *, unanswered: bool = False) -> None:
        """Record that a chain could not do what was due.

        Args:
            unanswered: Whether Slurm did not answer, which an outage explains.
        """
        self.stumbles[chain] += 1
        (self._unanswered.add if unanswered else self._unanswered.discard)(chain)

    def interrupted(self, chains: Iterable[int]) -> None:
        """Record that an outage cut the turns of chains short: the next poll repeats them."""
        for chain in chains:
            self.due_s.pop(chain, None)
            self.moments_s.pop(chain, None)

    def forget_silence(self) -> None:
        """Give chains with an unanswered last command a turn at once, without their back-off."""
        self.interrupted(self._unanswered)
        for chain in self._unanswered:
            del self.stumbles[chain]
        self._unanswered.clear()

    def end(self, chain: Chain, now_s: int, settled: bool, call_s: int = MISSING) -> None:
        """Give a chain its next turn.

        Args:
            settled: Whether it has no open question, and no released link that waits.
            call_s: Time at which one of its links needs a signal before its limit: a chain in trouble has a turn then,
                too.
        """
        progress = self._progress.get(chain.id, Progress())
        self.moments_s.pop(chain.id, None)
        if self.stumbles[chain.id]:
            pause_s = self.settings.poll_s * 2.0 ** min(self.stumbles[chain.id] - 1, 8)
            self._busy.discard(chain.id)
            due_s = grid(now_s, min(pause_s, self.settings.longest_poll_s))
            if call_s > now_s:
                self.moments_s[chain.id], due_s = [call_s], min(due_s, call_s)
            elif call_s != MISSING and self.stumbles[chain.id] <= SOON:
                due_s = grid(now_s, self.settings.busy_poll_s)
            self.due_s[chain.id] = due_s
            return
        busy = progress.busy or (not settled and chain.state is ChainState.ACTIVE)
        (self._busy.add if busy else self._busy.discard)(chain.id)
        moments = [grid(now_s, self.settings.busy_poll_s if busy else self.settings.poll_s)]
        if progress.next_s != MISSING:
            self.moments_s[chain.id] = [progress.next_s]
            moments.append(progress.next_s)
        if chain.state is ChainState.ACTIVE:
            if self.settings.pass_every_s and now_s < chain.next_decision_s <= now_s + MINUTE_S:
                self.moments_s.setdefault(chain.id, []).append(chain.next_decision_s)  # the next pass is too late
            moments += [at_s for at_s in (chain.next_decision_s, chain.next_try_s) if at_s > now_s]
        self.due_s[chain.id] = max(min(moments), now_s + 1)

    def next_moment_s(self) -> float:
        """The next time that matters to the second to any chain, however slow the controller is."""
        return min((at_s for moments in self.moments_s.values() for at_s in moments), default=math.inf)

    def next_s(self, now_s: float) -> float:
        """The next turn of any chain; without one, the time to check for new chains."""
        return min(self.due_s.values(), default=grid(int(now_s), self.settings.poll_s))


def grid(now_s: int, step_s: float) -> float:
    """The next multiple of a step."""
    return (math.floor(now_s / step_s) + 1) * step_s
