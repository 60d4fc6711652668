"""The turns of chains: when each is looked at next, whatever the others do.

Turns lie on a common grid of the clock, so that one look at the queue serves all chains whose turn it is. A chain in
the middle of a hand-over has the finer grid, and the moments that matter to it; one in trouble waits ever longer.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping

from mirage.agent.cycle.handover import Progress
from mirage.agent.model import Chain, ChainState
from mirage.agent.settings import AgentSettings
from mirage.job_state import MISSING

SOON = 4
"""A signal that is due and could not be sent is tried again soon so many times."""


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
        """Whether a chain is to be looked at soon."""
        return bool(self._busy)

    def begin(self, chains: Mapping[int, Chain], now_s: int) -> list[int]:
        """The chains whose turn it is; those that are new at once."""
        for gone in self.due_s.keys() - chains.keys():
            del self.due_s[gone], self.stumbles[gone]
            self.moments_s.pop(gone, None)
        self._busy &= chains.keys()
        self._unanswered &= chains.keys()
        self._progress.clear()
        latest_s = now_s + self.settings.longest_poll_s  # a turn beyond is of a clock that was set back
        return [number for number in chains if not now_s < self.due_s.get(number, 0) <= latest_s]

    def progress(self, chain: int, progress: Progress) -> None:
        """Note what a chain's hand-over is at; it had no trouble with it."""
        self._progress[chain] = progress
        del self.stumbles[chain]
        self._unanswered.discard(chain)

    def stumbled(self, chain: int, *, unanswered: bool = False) -> None:
        """Note that a chain could not do what was to be done.

        Args:
            unanswered: Whether Slurm did not answer, which an outage explains.
        """
        self.stumbles[chain] += 1
        (self._unanswered.add if unanswered else self._unanswered.discard)(chain)

    def interrupted(self, chains: Iterable[int]) -> None:
        """Note that an outage cut the turn of chains short: they have it again at the next poll."""
        for chain in chains:
            self.due_s.pop(chain, None)
            self.moments_s.pop(chain, None)

    def forget_silence(self) -> None:
        """Give chains whose last command had no answer a turn at once, without their back-off."""
        self.interrupted(self._unanswered)
        for chain in self._unanswered:
            del self.stumbles[chain]
        self._unanswered.clear()

    def end(self, chain: Chain, now_s: int, settled: bool, call_s: int = MISSING) -> None:
        """Give a chain its next turn.

        Args:
            settled: Whether no question about it is open, and none of its links, perhaps released just now, waits.
            call_s: When a link of it is to be signalled before its limit: a chain in trouble has a turn then, too.
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
            moments += [at_s for at_s in (chain.next_look_s, chain.next_try_s) if at_s > now_s]
        self.due_s[chain.id] = max(min(moments), now_s + 1)

    def next_moment_s(self) -> float:
        """The next moment that matters to the second to any chain, however slow the controller is."""
        return min((at_s for moments in self.moments_s.values() for at_s in moments), default=math.inf)

    def next_s(self, now_s: float) -> float:
        """The next turn of any chain; where there is none, when to look for new chains."""
        return min(self.due_s.values(), default=grid(int(now_s), self.settings.poll_s))


def grid(now_s: int, step_s: float) -> float:
    """The next multiple of a step."""
    return (math.floor(now_s / step_s) + 1) * step_s
