"""Amounts of bins, in total or free: GPUs, CPUs, and memory where the cluster counts it.

An array of amounts has one row per bin and two or three columns: the third is the memory of a node in MiB, and only
exists where jobs that share nodes take memory. All other clusters skip this work.
"""

from __future__ import annotations

from typing import Any

from mirage.kernel.compile import kernel

MEMORY = 2
"""The column of memory."""

UNLIMITED_MIB = 1 << 40
"""The memory of a node of unknown memory, where other nodes have known memory: no job takes any of it."""


@kernel()
def with_memory(amounts: Any) -> bool:
    """Whether amounts include memory."""
    return bool(amounts.shape[1] > MEMORY)


@kernel()
def copy_amounts(target: Any, source: Any) -> None:
    """Copy amounts, shape (bins, 2 or 3)."""
    bins = source.shape[0]
    for b in range(bins):
        target[b, 0] = source[b, 0]
        target[b, 1] = source[b, 1]
    if with_memory(source):
        for b in range(bins):
            target[b, MEMORY] = source[b, MEMORY]


@kernel()
def set_least(target: Any, one: Any, other: Any) -> None:
    """Set amounts to the lesser of two others, each of which may be the target itself."""
    bins = target.shape[0]
    for b in range(bins):
        target[b, 0] = min(one[b, 0], other[b, 0])
        target[b, 1] = min(one[b, 1], other[b, 1])
    if with_memory(target):
        for b in range(bins):
            target[b, MEMORY] = min(one[b, MEMORY], other[b, MEMORY])
