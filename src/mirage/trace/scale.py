"""Scaling of the trace of one cluster to another size."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from mirage.array_types import Ints
from mirage.errors import ConfigurationError
from mirage.trace.table import JobTable

MOST_NODES, MOST = 10**7, 10**11
"""The most nodes of a job, and the most GPUs, CPUs or MiB."""


def scaled_nodes(table: JobTable, factor: Fraction) -> JobTable:
    """Multiplies the nodes of jobs by a factor, to the nearest whole one and at least one.

    A job's GPUs, CPUs and memory per node are unchanged, so their totals scale with the nodes. The load of the cluster
    is unchanged except for rounding.

    Args:
        factor: Nodes of the new cluster divided by those of the old one.

    Raises:
        ConfigurationError: A job would have more nodes than ``MOST_NODES``, or more of the others than ``MOST``.
    """
    known = table.nodes > 0
    largest = max(int(column.max(initial=0)) for column in (table.gpus, table.cpus, table.memory_mib))
    if int(table.nodes.max(initial=0)) * factor > MOST_NODES or largest * factor > MOST:
        raise ConfigurationError(
            f"nodes times {float(factor):g} are more than a cluster has; give the nodes of the new cluster divided by "
            "those of the old one"
        )
    nodes = np.where(known, np.maximum(_nearest(table.nodes, factor), 1), table.nodes)

    def of_nodes(total: Ints) -> Ints:
        there = known & (total > 0)
        return np.where(there, -(-total * nodes // np.where(known, table.nodes, 1)), total)

    return table.with_columns(
        nodes=nodes, gpus=of_nodes(table.gpus), cpus=of_nodes(table.cpus), memory_mib=of_nodes(table.memory_mib)
    )


def _nearest(values: Ints, factor: Fraction) -> Ints:
    different, which = np.unique(values, return_inverse=True)
    return np.array([math.floor(value * factor + Fraction(1, 2)) for value in different.tolist()], np.int64)[which]
