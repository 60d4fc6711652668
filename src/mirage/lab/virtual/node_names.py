"""Names of nodes: the simulator's bins count similar nodes, Slurm names each."""

from __future__ import annotations

from collections.abc import Iterable

from mirage.sim.kernel.arrays import NEVER_S, NIL, RUNNING, SUSPENDING
from mirage.sim.simulation import Simulation


class NodeNames:
    """Names of nodes, and the nodes of every running job, which do not change while it runs.

    Args:
        simulation: The simulation with the bins to name: ``n1``, ``n2`` … in their order.
    """

    def __init__(self, simulation: Simulation) -> None:
        self.sim = simulation
        self.names: list[list[str]] = []
        self.bin_of: dict[str, int] = {}
        count = 0
        for b, most in enumerate(self._most()):
            self.names.append([f"n{count + k + 1}" for k in range(most)])
            self.bin_of |= dict.fromkeys(self.names[b], b)
            count += most
        self._free = [list(reversed(names)) for names in self.names]
        self._taken: dict[int, list[str]] = {}

    def of(self, slot: int) -> list[str]:
        """Names of the nodes of the running job in a slot."""
        if not self._whole():
            return [self.names[b][0] for b, _ in self._chunks(slot)]
        job = int(self.sim.state.live[slot].id)
        if job not in self._taken:
            self._sweep()
            self._taken[job] = [
                self._free[b].pop() for b, count in self._chunks(slot) for _ in range(count) if self._free[b]
            ]
        return self._taken[job]

    def in_use(self) -> set[str]:
        """Names of the nodes that running jobs hold."""
        running = self.sim.state.running[: self.sim.state.clock[0].n_running]
        return {name for slot in running for name in self.of(int(slot))}

    def completing(self, in_use: set[str]) -> set[str]:
        """Names of completing nodes, without those shared with running jobs.

        These are between two jobs. The simulator only counts similar nodes: the first idle ones are taken as such.
        """
        state = self.sim.state
        idle = [[name for name in names if name not in in_use] for names in self.names]
        found: set[str] = set()
        for left in state.completing[: state.clock[0].n_completing]:
            for b, count in self._held(int(left.width), int(left.chunk)):
                found |= set(idle[b][:count])
                if self._whole():
                    del idle[b][:count]
        return found

    def gone(self, in_use: set[str]) -> set[str]:
        """Names of the nodes that are down or draining.

        These are idle ones first, then those that leave as soon as they become free. The simulator only counts nodes,
        so the last idle ones are taken as down.
        """
        gone: set[str] = set()
        for b, names in enumerate(self.names):
            count = len(names) - self._level(b)
            idle_first = sorted(reversed(names), key=lambda name: name in in_use)
            gone.update(idle_first[: max(count, 0)])
        return gone

    def reserved(self, gone: set[str], in_use: set[str]) -> set[str]:
        """Names of reserved nodes among those that are gone and idle."""
        changes = self.sim.world.changes[: self.sim.state.clock[0].changed_capacity]
        known = changes[changes.announced_s < NEVER_S]
        found: set[str] = set()
        for b, names in enumerate(self.names):
            idle = [name for name in names if name in gone and name not in in_use]
            found.update(idle[: max(-int(known.nodes[known.bin == b].sum()), 0)])
        return found

    def _level(self, b: int) -> int:
        """Present number of nodes of a bin."""
        clock, changes = self.sim.state.clock[0], self.sim.world.changes
        change = sum(int(c.nodes) for c in changes[: clock.changed_capacity] if c.bin == b)
        return (int(self.sim.world.capacity[b, 0]) if self._whole() else 1) + change

    def _whole(self) -> bool:
        return not self.sim.cluster.shared_nodes

    def _most(self) -> Iterable[int]:
        for b, (_, count) in enumerate(self.sim.cluster.bins()):
            level = most = count
            for change in self.sim.world.changes if self._whole() else ():
                level += int(change.nodes) if change.bin == b else 0
                most = max(most, level)
            yield most

    def _chunks(self, slot: int) -> Iterable[tuple[int, int]]:
        """Yields bin and number of nodes there."""
        job = self.sim.state.live[slot]
        return self._held(int(job.width), int(job.chunk))

    def _held(self, width: int, at: int) -> Iterable[tuple[int, int]]:
        """Yields this for the chunks from ``at`` on, or for one pool's ``width`` nodes."""
        state = self.sim.state
        if self._whole() and len(self.names) == 1:
            yield 0, width
            return
        while at != NIL:
            chunk = state.chunks[at]
            yield int(chunk.bin), int(chunk["count"])
            at = int(chunk.next)

    def _sweep(self) -> None:
        """Return the names of ended jobs to the free ones."""
        fate = self.sim.state.fate
        for job in [job for job in self._taken if fate[job] not in (RUNNING, SUSPENDING)]:
            for name in self._taken.pop(job):
                self._free[self.bin_of[name]].append(name)
        for names in self._free:
            names.sort(key=lambda name: -int(name[1:]))


def hostlist(names: list[str]) -> str:
    """Formats names such as ``n1`` as a host list of Slurm: ``n[1-3,7]``."""
    numbers = sorted(int(name[1:]) for name in names)
    if len(numbers) < 2:
        return "".join(f"n{number}" for number in numbers)
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return f"n[{','.join(str(a) if a == b else f'{a}-{b}' for a, b in parts)}]"
