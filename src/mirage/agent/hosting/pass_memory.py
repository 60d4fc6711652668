"""The memory between passes of ``mirage agent once``: one file in the agent's folder.

The store contains all that chains need. The memory saves queries: nodes, options and ended jobs are read from Slurm
only when they are due, as in a resident agent. It also has the begin of the last passes, which give the interval.
A missing, damaged or foreign file costs a few queries.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from mirage.agent.model import StoreIdentity
from mirage.agent.monitoring.outage import AgentState, Outage
from mirage.atomic_file import write_atomically
from mirage.duration import HOUR_S, MINUTE_S, UNLIMITED_S, format_duration
from mirage.job_state import MISSING
from mirage.version import __version__

DEFAULT_EVERY_S = 5 * MINUTE_S
"""Interval of passes that is assumed before two passes have begun: that of the installed entries."""

SHORTEST_EVERY_S, LONGEST_EVERY_S = MINUTE_S, 2 * HOUR_S
"""Bounds of the interval: cron has a resolution of a minute, and a policy sleeps at most two hours."""

LAST_PASSES = 8


@dataclass(frozen=True, slots=True)
class PassMemory:
    """What a pass leaves for the next one.

    Attributes:
        begun_s: Begin of the last passes, in order.
        every_s: Interval of passes, as declared or learnt by the last one; 0 for none.
        holder: The pass, as its lease names it.
        polled_s: Its last poll as the store has it: another agent may have worked since.
        store: Identity of the store.
        cluster: The store's cluster.
        poller: ``Poller.memory``.
        missing: Chain, link, and the time since which its job is missing.
        releases: Chain, link, and the number of times that the agent has released its job.
    """

    begun_s: tuple[int, ...] = ()
    every_s: int = 0
    holder: str = ""
    polled_s: int = MISSING
    store: str = ""
    cluster: str = ""
    poller: dict[str, Any] | None = None
    missing: tuple[tuple[int, int, int], ...] = ()
    releases: tuple[tuple[int, int, int], ...] = ()

    @classmethod
    def read(cls, path: Path) -> PassMemory:
        """The memory in a file; an empty one where it is missing, damaged, or of another version."""
        try:
            found = json.loads(path.read_bytes())
            if found.pop("version") != __version__:
                return cls(tuple(map(int, found["begun_s"])))
            for name in ("missing", "releases"):
                found[name] = tuple((int(chain), int(link), int(value)) for chain, link, value in found[name])
            return cls(**{**found, "begun_s": tuple(map(int, found["begun_s"]))})
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return cls()

    def as_of(self, store: StoreIdentity) -> PassMemory:
        """The memory without passes before another agent: the time since is no interval."""
        return replace(self, begun_s=()) if self.is_of(store) and not self.is_last(store) else self

    def write(self, path: Path) -> None:
        """Write the file, which only its owner may read.

        Raises:
            OSError: It cannot be written.
        """
        known = {each.name: getattr(self, each.name) for each in fields(self)}
        write_atomically(path, json.dumps({"version": __version__, **known}).encode(), 0o600)

    def is_of(self, store: StoreIdentity) -> bool:
        """Whether it is of this store and of its cluster."""
        return bool(self.store) and (self.store, self.cluster) == (store.identity, store.cluster)

    def is_last(self, store: StoreIdentity) -> bool:
        """Whether no other agent has polled since."""
        return self.is_of(store) and self.polled_s == store.polled_s


@dataclass(frozen=True, slots=True)
class RecentPasses:
    """Passes that manage the chains of a store: the last one was not long ago.

    Attributes:
        last_s: Begin of the last pass.
        every_s: Interval of passes.
    """

    last_s: int
    every_s: int

    def in_words(self) -> str:
        """Interval and last pass."""
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(self.last_s))
        return f"passes every {format_duration(self.every_s)}, the last one at {at},"


def recent_passes(path: Path, now_s: float) -> RecentPasses | None:
    """The passes that manage the chains; None where two of them are overdue.

    Args:
        path: The file of the memory.
    """
    memory = PassMemory.read(path)
    begun_s, every_s = memory.begun_s, memory.every_s or interval_s(memory.begun_s)
    if not begun_s or now_s - begun_s[-1] > 2 * every_s + MINUTE_S:
        return None
    return RecentPasses(begun_s[-1], every_s)


def outage_of_passes(path: Path, state_file: Path, polled_s: int, now_s: float) -> Outage | None:
    """The outage that the last pass has met; None where it met none.

    It counts while passes manage the chains.

    Args:
        path: The file of the memory.
        state_file: The agent's file with its outage.
        polled_s: Time of the last poll of the queue; ``MISSING`` for none.
    """
    state = AgentState.read(state_file)
    if recent_passes(path, now_s) is None or state is None or state.holder != PassMemory.read(path).holder:
        return None
    if state.outage is None or polled_s == MISSING:
        return state.outage
    return replace(state.outage, since_s=min(polled_s, state.outage.since_s))


def interval_s(begun_s: tuple[int, ...], every_s: int | None = None) -> int:
    """The interval of passes: as declared, else the median of the last ones.

    Args:
        begun_s: Begin of passes, in order.
        every_s: The declared interval; None for none.
    """
    if every_s is None:
        gaps_s = [after - before for before, after in pairwise(begun_s) if after > before]
        every_s = round(median(gaps_s)) if gaps_s else DEFAULT_EVERY_S
    return min(max(every_s, SHORTEST_EVERY_S), LONGEST_EVERY_S)


def too_rare(every_s: int, limits_s: Iterable[int]) -> str:
    """A remark on passes that are too rare for some time limits; empty where they are not.

    Args:
        limits_s: ``MISSING`` where unknown.
    """
    shortest_s = min((limit_s for limit_s in limits_s if limit_s != MISSING), default=UNLIMITED_S)
    if 2 * every_s <= shortest_s:
        return ""
    return (
        f"passes every {format_duration(every_s)} are too rare for jobs of {format_duration(shortest_s)}: they can be "
        f"replaced early, or end without a next one; run a pass every {format_duration(shortest_s // 2)} or more "
        "often, or an agent: mirage agent start"
    )
