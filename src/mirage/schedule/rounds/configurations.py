"""Jobs, kinds of servers and configurations, as schedulers in rounds see them.

*Configurations* are the shapes of allocations: a number of GPUs of one kind on some servers. They are powers of two on
one server, and whole servers beyond (Sia, SOSP'23, section 3.3): any set of them within the GPUs of a kind can be
placed without splitting a job over more servers than necessary.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mirage.array_types import Floats, Ints
from mirage.errors import ConfigurationError, quantity
from mirage.schedule.scheduler_contract import GpuView, Servers


class JobColumns:
    """Columns of the active jobs as in ``ActiveJobs``, by id, and the first server of each."""

    def __init__(self, view: GpuView) -> None:
        jobs, held = view.jobs, view.held
        order = np.argsort(jobs.id)
        self._order, self._held = order, held
        self.id: Ints = jobs.id[order]
        self.model: Ints = jobs.model[order]
        self.status: Ints = jobs.status[order]
        self.gpus: Ints = jobs.gpus[order]
        self.min_gpus: Ints = jobs.min_gpus[order]
        self.max_gpus: Ints = jobs.max_gpus[order]
        self.pool: Ints = jobs.pool[order]
        self.batch: Ints = jobs.batch[order]
        self.held: Ints = jobs.held[order]
        self.servers: Ints = jobs.servers[order]
        self.gpu_type: Ints = jobs.gpu_type[order]
        self.restarts: Ints = jobs.restarts[order]
        self.submit_s: Floats = jobs.submit_s[order]
        self.progress: Floats = jobs.progress[order]
        self.paused_until_s: Floats = jobs.paused_until_s[order]
        self.restart_s: Floats = jobs.restart_s[order]
        self.attained_gpu_s: Floats = jobs.attained_gpu_s[order]
        first = held.first[:-1][order]
        sits = self.held > 0
        self.first_server: Ints = np.zeros(len(order), np.int64)
        self.first_server[sits] = held.server[first[sits]]

    def places(self, k: int) -> dict[int, int]:
        """Server → GPUs of the job at index k."""
        return self._held.of(int(self._order[k]))


@dataclass(frozen=True, slots=True)
class Configurations:
    """Shapes, grouped by kind of server, in ascending order of GPUs.

    Attributes:
        kind: Kind of server of each shape.
        servers: Number of servers of each shape.
        gpus: GPUs of each shape, over all its servers.
        gpu_type: GPU type of each kind of server.
        gpus_per_server: GPUs per server of each kind.
        pool: Pool of each kind.
        capacity: GPUs of each kind.
        kind_of: Kind of each server.
    """

    kind: Ints
    servers: Ints
    gpus: Ints
    gpu_type: Ints
    gpus_per_server: Ints
    pool: Ints
    capacity: Ints
    kind_of: Ints

    def __len__(self) -> int:
        return len(self.kind)

    def find(self, kind: Ints, gpus: Ints) -> Ints:
        """Indices of shapes by kind and GPUs; −1 if there is none."""
        found = np.full(len(kind), -1)
        held = kind >= 0
        key = self.kind * (1 << 32) + self.gpus
        wanted = kind[held] * (1 << 32) + gpus[held]
        at = np.minimum(np.searchsorted(key, wanted), len(key) - 1)
        found[held] = np.where(key[at] == wanted, at, -1)
        return found


class OfferedConfigurations:
    """The configurations of the present servers.

    They are made again when servers change pools or usable GPUs, or jobs have new sizes.

    Args:
        most_gpus: Largest shape on several servers, unless a job requests or needs more.
    """

    def __init__(self, most_gpus: int) -> None:
        self._most_gpus = most_gpus
        self._shapes: Configurations | None = None
        self._pool: Ints
        self._gpus: Ints
        self._sizes: set[int] = set()

    def offer(self, jobs: JobColumns, servers: Servers) -> Configurations:
        """The configurations now; the same object until they change."""
        sizes = set(jobs.gpus[jobs.model < 0].tolist()) | set(jobs.min_gpus.tolist())
        same = self._shapes is not None and np.array_equal(self._pool, servers.pool)
        if not same or not sizes <= self._sizes or not np.array_equal(self._gpus, servers.gpus):
            self._sizes |= sizes
            self._pool, self._gpus = servers.pool.copy(), servers.gpus.copy()
            requested = tuple(sorted(self._sizes))
            self._shapes = configurations(servers.gpu_type, servers.gpus, servers.pool, self._most_gpus, requested)
        assert self._shapes is not None
        return self._shapes


def configurations(
    gpu_type: Ints, gpus: Ints, pool: Ints, most_gpus: int, sizes: NDArray[np.int64] | tuple[int, ...] = ()
) -> Configurations:
    """The shapes that a cluster offers.

    Args:
        gpu_type: GPU type of each server.
        gpus: GPUs of each server.
        pool: Pool of each server.
        most_gpus: Largest shape on several servers, apart from ``sizes``.
        sizes: Numbers of GPUs that jobs request or need at least; additional shapes of any size.
    """
    kinds, kind_of, servers = server_kinds(gpu_type, gpus, pool)
    rows = []
    for k, (size, count) in enumerate(zip(kinds[1].tolist(), servers.tolist())):
        shapes = {1 << n for n in range(size.bit_length())} | {size * n for n in range(1, count + 1)}
        requested = {int(gpus) for gpus in sizes if gpus <= size * count}
        shapes = {shape for shape in shapes if shape <= max(most_gpus, size)} | requested
        rows += [(k, -(-shape // size), shape) for shape in sorted(shapes)]
    table = np.array(rows)
    return Configurations(
        kind=table[:, 0].copy(),
        servers=table[:, 1].copy(),
        gpus=table[:, 2].copy(),
        gpu_type=kinds[0],
        gpus_per_server=kinds[1],
        pool=kinds[2],
        capacity=kinds[1] * servers,
        kind_of=kind_of,
    )


def server_kinds(gpu_type: Ints, gpus: Ints, pool: Ints) -> tuple[Ints, Ints, Ints]:
    """Kinds of servers.

    Returns types, GPUs and pools of the kinds, shape (3, kinds); the kind of each server; the number of servers of each
    kind.
    """
    kinds, kind_of, servers = np.unique(
        np.stack([gpu_type, gpus, pool]), axis=1, return_inverse=True, return_counts=True
    )
    return kinds, kind_of.reshape(-1), servers


def refuse_too_large(
    jobs: JobColumns, needed: Ints, servers: Servers, capacity: Ints, pool: Ints, scheduler: str
) -> None:
    """Refuse a job that fits on no kind of server.

    No job is refused while servers are lent, as servers may come back.

    Args:
        jobs: All active jobs.
        needed: Smallest number of GPUs on which the scheduler runs each job.
        servers: All servers.
        capacity: GPUs of each kind.
        pool: Pool of each kind.
        scheduler: Name of the scheduler in the message.

    Raises:
        ConfigurationError: A job needs more GPUs than any kind that it may use has.
    """
    if not np.array_equal(servers.pool, servers.home):
        return
    may_use = (jobs.pool[:, None] < 0) | (jobs.pool[:, None] == pool)
    most = np.where(may_use, capacity, 0).max(axis=1)
    for k in np.flatnonzero(needed > most)[:1]:
        raise ConfigurationError(
            f"job {jobs.id[k]} (counted from 0) needs {quantity(int(needed[k]), 'GPU')}; {scheduler} runs a job on "
            f"servers of one GPU type, one size and one pool, and those it may use have {most[k]}: leave the job "
            "out, or make the servers of each type identical"
        )
