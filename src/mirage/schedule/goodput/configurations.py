"""Configurations: the shapes of allocations, a number of GPUs of one kind on some servers.

These are powers of two on one server, and whole servers beyond (Sia, SOSP'23, section 3.3): any set of them within the
GPUs of a kind can be placed without splitting a job over more servers than necessary.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mirage.job_state import Ints


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
        found = np.full(len(kind), -1, np.int64)
        held = kind >= 0
        key = self.kind * (1 << 32) + self.gpus
        wanted = kind[held] * (1 << 32) + gpus[held]
        at = np.minimum(np.searchsorted(key, wanted), len(key) - 1)
        found[held] = np.where(key[at] == wanted, at, -1)
        return found


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
    table = np.array(rows, dtype=np.int64).reshape(-1, 3)
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
