"""Scaling of the trace of one cluster to another size."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from mirage.array_types import Ints
from mirage.trace.table import JobTable


def scaled_nodes(table: JobTable, factor: Fraction) -> JobTable:
    """Multiplies the nodes of jobs by a factor, to the nearest whole one and at least one.

    A job's GPUs, CPUs and memory per node are unchanged, so their totals scale with the nodes. The load of the cluster
    is unchanged except for rounding.

    Args:
        factor: Nodes of the new cluster divided by those of the old one.
    """
    known = table.nodes > 0
    nodes = np.where(known, np.maximum(_nearest(table.nodes, factor), 1), table.nodes)

    def of_nodes(total: Ints) -> Ints:
        there = known & (total > 0)
        return np.where(there, -(-total * nodes // np.where(known, table.nodes, 1)), total)

    return table.with_columns(
        nodes=nodes, gpus=of_nodes(table.gpus), cpus=of_nodes(table.cpus), memory_mib=of_nodes(table.memory_mib)
    )


def _nearest(values: Ints, factor: Fraction) -> Ints:
    return (2 * values * factor.numerator + factor.denominator) // (2 * factor.denominator)
