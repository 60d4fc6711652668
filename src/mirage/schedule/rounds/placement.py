"""Placement of workers, and the actions that lead to it.

A job with the same shape stays, other jobs are packed around it.

Jobs are placed in order of decreasing size: whole servers first, then the fullest server with enough room. If the free
GPUs are too scattered, jobs that block the placement move: as few as possible, the smallest first. If this does not
help either, the job is spread over the free GPUs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mirage.array_types import Ints
from mirage.schedule.rounds.configurations import Configurations, JobColumns
from mirage.schedule.scheduler_contract import GpuAction, GpuPreempt, GpuResize, GpuStart, How


@dataclass(frozen=True, slots=True)
class Choice:
    """The configurations that a round has chosen, one for each job at most.

    Attributes:
        jobs: All active jobs.
        rows: Rows of the jobs in the throughput history.
        shapes: The configurations.
        kind: Present kind of servers of each job; −1 for none.
        present: Present configuration of each job; −1 for none.
        chosen: The chosen one; −1 for none.
        paused: Jobs that start or stop; they do not change.
    """

    jobs: JobColumns
    rows: Ints
    shapes: Configurations
    kind: Ints
    present: Ints
    chosen: Ints
    paused: NDArray[np.bool_]

    def actions(self, gpus_of: Ints, batch: Ints, gpu_types: Sequence[str], how: How) -> tuple[GpuAction, ...]:
        """Place the jobs; returns the actions that implement the choice.

        Args:
            gpus_of: GPUs of each server.
            batch: Total batch of each job from now on.
            gpu_types: Names of the GPU types.
            how: The way to preempt.
        """
        jobs, shapes = self.jobs, self.shapes
        placement = Placement.of(gpus_of, shapes.kind_of, len(shapes.capacity))
        wanted = []
        for k in range(len(jobs.id)):
            if self.paused[k] or (self.chosen[k] == self.present[k] >= 0):
                placement.leave_in_place(k, jobs.places(k), int(self.kind[k]), movable=not self.paused[k])
            elif self.chosen[k] >= 0:
                wanted.append((k, int(shapes.kind[self.chosen[k]]), int(shapes.gpus[self.chosen[k]])))
        placement.place(wanted)
        found = [
            self._action(k, placement, int(batch[k]), gpu_types, how) for k in np.flatnonzero(~self.paused).tolist()
        ]
        return tuple(action for action in found if action is not None)

    def _action(self, k: int, placement: Placement, batch: int, gpu_types: Sequence[str], how: How) -> GpuAction | None:
        """The action of the job at index k; None if nothing changes."""
        jobs, shapes = self.jobs, self.shapes
        job, places, unchanged = int(jobs.id[k]), placement.places.get(k), self.chosen[k] == self.present[k]
        if places is None:
            return GpuPreempt(job, how, reason="others-gain-more") if jobs.held[k] else None
        if unchanged and k not in placement.moved:
            return GpuResize(job, batch=batch, reason="batch") if batch != jobs.batch[k] else None
        gpu_type = gpu_types[shapes.gpu_type[shapes.kind[self.chosen[k]]]]
        if not jobs.held[k]:
            return GpuStart(job, places, batch=batch, reason=f"goodput:gpu_type={gpu_type},gpus={sum(places.values())}")
        if places == jobs.places(k):
            return None
        why = "moved" if unchanged else "goodput"
        return GpuResize(job, places, batch=batch, reason=f"{why}:gpu_type={gpu_type},gpus={sum(places.values())}")


@dataclass(slots=True)
class Placement:
    """GPUs of each job, while jobs are being placed.

    Attributes:
        size: GPUs of each server.
        free: Free GPUs of each server.
        servers: Servers of each kind.
        places: Server → GPUs, of each job.
        movable: Jobs that may be moved, on one server each, with their kind and GPUs.
        moved: Jobs that were moved.
        left_out: Jobs that could not be placed.
    """

    size: list[int]
    free: list[int]
    servers: list[list[int]]
    places: dict[int, dict[int, int]] = field(default_factory=dict)
    movable: dict[int, tuple[int, int]] = field(default_factory=dict)
    moved: set[int] = field(default_factory=set)
    left_out: list[int] = field(default_factory=list)
    _on: dict[int, set[int]] = field(default_factory=dict)

    @classmethod
    def of(cls, size: Ints, kind: Ints, kinds: int) -> Placement:
        """An empty cluster.

        Args:
            size: GPUs of each server.
            kind: Kind of each server.
            kinds: Number of kinds.
        """
        servers: list[list[int]] = [[] for _ in range(kinds)]
        for server, k in enumerate(kind.tolist()):
            servers[k].append(server)
        return cls(size.tolist(), size.tolist(), servers)

    def leave_in_place(self, job: int, places: Mapping[int, int], kind: int, movable: bool) -> None:
        """Leave a job on its GPUs, unless it blocks another job and may be moved."""
        self.places[job] = dict(places)
        gpus = 0
        for server, held in places.items():
            self.free[server] -= held
            gpus += held
        if movable and len(places) == 1:
            (server,) = places
            if gpus < self.size[server]:
                self.movable[job] = kind, gpus
                self._on.setdefault(server, set()).add(job)

    def place(self, wanted: Iterable[tuple[int, int, int]]) -> None:
        """Place jobs, each with its kind of server and its number of GPUs."""
        queue = sorted(wanted, key=lambda entry: (-entry[2], entry[0]))
        while queue:
            job, kind, gpus = queue.pop(0)
            moved = self._place(job, kind, gpus)
            if moved:
                queue = sorted([*queue, *moved], key=lambda entry: (-entry[2], entry[0]))

    def _place(self, job: int, kind: int, gpus: int) -> list[tuple[int, int, int]]:
        """Place a job; returns the jobs that had to move for it."""
        size = self.size[self.servers[kind][0]]
        whole, rest = divmod(gpus, size)
        empty = [server for server in self.servers[kind] if self.free[server] == size][:whole]
        moved: list[tuple[int, int, int]] = []
        if len(empty) < whole:
            for server in self._to_empty(kind, size, whole - len(empty)):
                moved += self._clear(server, sorted(self._on.get(server, ())))
                empty.append(server)
        places = dict.fromkeys(empty, size)
        if len(empty) == whole and rest:
            server, others = self._with_room(kind, rest, places)
            if server >= 0:
                moved += self._clear(server, others)
                places[server] = rest
        if sum(places.values()) < gpus:
            places = self._scattered(kind, gpus)
        if not places:
            self.left_out.append(job)
            return moved
        for server, held in places.items():
            self.free[server] -= held
        self.places[job] = places
        if len(places) == 1 and not whole:
            (server,) = places
            self.movable[job] = kind, gpus
            self._on.setdefault(server, set()).add(job)
        return moved

    def _to_empty(self, kind: int, size: int, needed: int) -> list[int]:
        """Servers that can be emptied, those with the fewest used GPUs first.

        Returns exactly the needed number of servers, or none.
        """
        found = []
        for server in self.servers[kind]:
            used = size - self.free[server]
            if used and used == sum(self.movable[job][1] for job in self._on.get(server, ())):
                found.append((used, server))
        return [server for _, server in sorted(found)[:needed]] if len(found) >= needed else []

    def _with_room(self, kind: int, gpus: int, taken: Mapping[int, int]) -> tuple[int, list[int]]:
        """The fullest server with room; else a server, and the smaller jobs to move from it."""
        servers = [server for server in self.servers[kind] if server not in taken]
        fitting = [(self.free[server], server) for server in servers if self.free[server] >= gpus]
        if fitting:
            return min(fitting)[1], []
        best: tuple[int, int, list[int]] | None = None
        for server in servers:
            room, moving = self.free[server], list[int]()
            for job in sorted(self._on.get(server, ()), key=lambda job: (self.movable[job][1], job)):
                if room < gpus and self.movable[job][1] < gpus:
                    room += self.movable[job][1]
                    moving.append(job)
            if room >= gpus and (best is None or (room - self.free[server], server) < best[:2]):
                best = room - self.free[server], server, moving
        return (best[1], best[2]) if best else (-1, [])

    def _scattered(self, kind: int, gpus: int) -> dict[int, int]:
        """Free GPUs on as few servers as possible, as a last resort; none if too few are free."""
        places, left = dict[int, int](), gpus
        for server in sorted(self.servers[kind], key=lambda server: (-self.free[server], server)):
            taken = min(left, self.free[server])
            if taken:
                places[server] = taken
                left -= taken
        return {} if left else places

    def _clear(self, server: int, jobs: Iterable[int]) -> list[tuple[int, int, int]]:
        """Remove movable jobs from a server; returns their requests."""
        gone = []
        for job in jobs:
            kind, gpus = self.movable.pop(job)
            self._on[server].discard(job)
            self.free[server] += gpus
            del self.places[job]
            self.moved.add(job)
            gone.append((job, kind, gpus))
        return gone
