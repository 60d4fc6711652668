"""The governor of a resident agent: a budget of processor time over any ten minutes.

The agent and its children share the budget. Near its end, fewer policies are called, the most urgent chains first, and
polls wait longer. Signals of hand-overs never wait. The compilation of the simulator and the calibration are not part
of it: they have bounds of their own, and never run on a host that the site calls a login node.
"""

from __future__ import annotations

import logging
import os
import resource
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path

from mirage.duration import MINUTE_S

log = logging.getLogger("mirage.agent")

SHARE, WINDOW_S = 0.05, 10 * MINUTE_S
"""Sites suspend processes that use half of a core for ten minutes; this is a tenth of that."""

RESERVE = 0.2
"""Share of the budget that policies leave to polls, signals and submissions."""

FIRST_COST_S, FIRST_QUESTIONS = 1.0, 4
"""Assumed processor time for a question, and the number of questions, before any was answered."""

Processes = Callable[[], Iterable[int]]


class CpuBudget:
    """A budget of processor time over a sliding window.

    Args:
        used_s: Processor time that the agent and its children have used, seconds.
        real_s: Clock of real seconds that never goes back.
        share: Share of one core.
    """

    def __init__(self, used_s: Callable[[], float], real_s: Callable[[], float], share: float = SHARE) -> None:
        self.used_s, self.real_s, self.share = used_s, real_s, share
        self.cost_s = FIRST_COST_S
        self.delayed = 0
        self._samples: deque[tuple[float, float]] = deque([(real_s(), used_s())])
        self._is_known = False
        self._requested: tuple[float, int] | None = None
        self._logged_s = -float(WINDOW_S)

    def spare_s(self) -> float:
        """Processor time that is left of the budget; negative where it is overdrawn."""
        now_s, used_s = self.real_s(), self.used_s()
        self._samples.append((now_s, used_s))
        while len(self._samples) > 1 and self._samples[1][0] <= now_s - WINDOW_S:
            self._samples.popleft()
        return self.share * WINDOW_S - (used_s - self._samples[0][1])

    def affordable(self, questions: int) -> int:
        """The number of questions to policies that the budget allows; others are delayed."""
        spare_s = self.spare_s() - RESERVE * self.share * WINDOW_S
        allowed = min(max(int(spare_s / max(self.cost_s, 0.001)), 0), questions)
        if not self._is_known:
            allowed = min(allowed, FIRST_QUESTIONS)
        if allowed < questions:
            self.delayed += questions - allowed
            self._log(f"{questions - allowed} decisions are delayed; each takes {self.cost_s:.2f} s")
        return allowed

    def begin(self, questions: int) -> None:
        """Record that questions were sent."""
        if questions:
            self._requested = (self.used_s(), questions)

    def end(self) -> None:
        """Learn the cost of a question once all are answered."""
        if self._requested is not None:
            used_s, questions = self._requested
            cost_s = (self.used_s() - used_s) / questions
            self.cost_s = max(cost_s, (self.cost_s + cost_s) / 2)
            self._requested, self._is_known = None, True

    def wait_s(self) -> float:
        """The time without work after which the budget is not overdrawn any more."""
        over_s = -self.spare_s()
        if over_s <= 0:
            return 0.0
        self._log(f"the next poll is delayed: {over_s:.0f} s of processor time too much")
        return over_s / self.share

    def _log(self, what: str) -> None:
        """Log a delay, once in each window."""
        if self.real_s() - self._logged_s >= WINDOW_S:
            self._logged_s = self.real_s()
            log.info("delayed", extra={"detail": f"{what} (budget: {self.share:.0%} of a core over ten minutes)"})


def processor_time(exempt: Processes) -> Callable[[], float]:
    """Returns a clock of the processor time of this process and of its children.

    Args:
        exempt: Process ids of children that do not count.
    """
    exempted: dict[int, float] = {}

    def used_s() -> float:
        for pid in exempt():
            exempted[pid] = max(exempted.get(pid, 0.0), _used_by_s(pid))
        living = {pid: _used_by_s(pid) for pid in _children()}
        own, ended = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
        total_s = own.ru_utime + own.ru_stime + ended.ru_utime + ended.ru_stime + sum(living.values())
        return total_s - sum(exempted.values())

    return used_s


def _children() -> list[int]:
    """The living children of this process (proc(5)); none where the system does not list them."""
    found: list[int] = []
    for path in Path("/proc/self/task").glob("*/children"):
        try:
            found += map(int, path.read_text(encoding="ascii").split())
        except OSError:
            continue  # the thread has ended
    return found


def _used_by_s(pid: int) -> float:
    """The processor time of a process and its ended children; 0 where it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
