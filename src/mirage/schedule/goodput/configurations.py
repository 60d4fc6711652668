"""Configurations: the shapes in which a job may be given GPUs, so many of one kind on so many servers.

On one server the powers of two, beyond it whole servers (Sia, SOSP'23, section 3.3): any set of these that is within
the GPUs of a kind can be placed without splitting a job over more servers than it must.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mirage.job_state import Ints


@dataclass(frozen=True, slots=True)
class Configurations:
    """Shapes, those of one kind of server one after the other, in ascending order of GPUs.

    Attributes:
        kind: Kind of server of each shape.
        servers: Of each.
        gpus: Of each, over all its servers.
        gpu_type: Of each kind of server.
        gpus_per_server: Of each kind.
        pool: Of each kind.
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
        """Places of shapes by kind and GPUs; −1 where there is none."""
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
        gpu_type: Of each server.
        gpus: Of each server.
        pool: Of each server.
        most_gpus: No other shape is larger.
        sizes: Numbers of GPUs that jobs ask for and cannot do without; they are shapes besides, however large.
    """
    kinds, kind_of, servers = server_kinds(gpu_type, gpus, pool)
    rows = []
    for k, (size, count) in enumerate(zip(kinds[1].tolist(), servers.tolist())):
        shapes = {1 << n for n in range(size.bit_length())} | {size * n for n in range(1, count + 1)}
        asked = {int(gpus) for gpus in sizes if gpus <= size * count}
        shapes = {shape for shape in shapes if shape <= max(most_gpus, size)} | asked
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
    """Kinds of servers: types, GPUs and pools of the kinds; the kind of each server; how many servers each kind has."""
    kinds, kind_of, servers = np.unique(
        np.stack([gpu_type, gpus, pool]), axis=1, return_inverse=True, return_counts=True
    )
    return kinds, kind_of.reshape(-1), servers
