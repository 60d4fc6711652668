"""Pools of nodes: partitions that compete for the same nodes; one pool is calibrated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mirage.errors import ConfigurationError
from mirage.slurm.records import Machine
from mirage.slurm.slurm_view import shares_nodes
from mirage.trace.table import JobTable


@dataclass(frozen=True, slots=True)
class Pool:
    """Nodes, and all partitions with jobs that may run on any of them.

    Attributes:
        partitions: Their names, in Slurm's order.
        nodes: Number of nodes, up or down.
        whole_nodes: Whether every job has exclusive use of its nodes.
        alike: Whether every partition has all of the nodes.
    """

    partitions: tuple[str, ...]
    nodes: int
    whole_nodes: bool
    alike: bool

    def has(self, jobs: JobTable) -> NDArray[np.bool_]:
        """Returns which jobs are of these partitions, shape (n,); the first named one counts."""
        ours = [name.partition(",")[0] in self.partitions for name in jobs.partition.names]
        found: NDArray[np.bool_] = np.array([*ours, False])[jobs.partition.codes]
        return found


def pools(machine: Machine, options: Mapping[str, str]) -> tuple[Pool, ...]:
    """Returns the pools of a cluster; two partitions with a node in common are in one.

    Args:
        machine: Nodes and partitions.
        options: Of slurm.conf, keys in lower case.
    """
    groups: list[tuple[set[str], list[str]]] = []
    for partition in machine.partitions:
        nodes, names = set(partition.nodes), [partition.name]
        for other in [group for group in groups if group[0] & nodes]:
            groups.remove(other)
            nodes, names = nodes | other[0], other[1] + names
        if nodes:
            groups.append((nodes, names))
    return tuple(_pool(machine, options, nodes, names) for nodes, names in groups)


def _pool(machine: Machine, options: Mapping[str, str], nodes: set[str], names: list[str]) -> Pool:
    partitions = tuple(partition for partition in machine.partitions if partition.name in names)
    whole = not shares_nodes(Machine(machine.nodes, partitions), options)
    alike = all(set(partition.nodes) == nodes for partition in partitions)
    return Pool(tuple(partition.name for partition in partitions), len(nodes), whole, alike)


def busiest_pool(machine: Machine, options: Mapping[str, str], jobs: JobTable) -> Pool:
    """Returns the pool of whole nodes with the most node hours of jobs.

    Raises:
        ConfigurationError: Jobs share nodes everywhere.
    """
    whole = [pool for pool in pools(machine, options) if pool.whole_nodes]
    if not whole:
        raise ConfigurationError(
            "jobs share nodes in every partition of this cluster (no partition has OverSubscribe=EXCLUSIVE, and "
            "SelectType is not select/linear); calibration supports whole nodes only"
        )
    used = np.maximum(jobs.end_s - jobs.start_s, 0) * jobs.nodes * (jobs.start_s >= 0)
    return max(whole, key=lambda pool: int(used[pool.has(jobs)].sum()))


def pool_remarks(pool: Pool, jobs: JobTable) -> Iterator[str]:
    """Yields remarks on jobs left out and partitions merged in the calibration of one pool.

    Args:
        pool: The pool.
        jobs: The jobs of the whole cluster.
    """
    others = int((~pool.has(jobs)).sum())
    if others:
        names = ", ".join(pool.partitions)
        yield f"only {names}: {others:,} of {len(jobs):,} jobs ran on other nodes, or in partitions that are gone"
    if len(pool.partitions) > 1:
        why = "" if pool.alike else ", though they do not have the same nodes"
        yield f"partitions {', '.join(pool.partitions)} are one pool, not distinguished{why}"
