"""Insertion into and removal from sorted arrays, and an index known to be non-negative."""

from __future__ import annotations

from typing import Any

import numpy as np

from mirage.kernel.compile import kernel


@kernel()
def insert_at(array: Any, at: int, n: int, value: int) -> None:
    """Insert a value at index ``at`` of n values; those from there on move up."""
    tail = array[at : n + 1]  # non-negative indices: the compiled loop then moves several values at once
    for k in range(len(tail) - 1, 0, -1):
        tail[k] = tail[k - 1]
    tail[0] = value


@kernel()
def remove_at(array: Any, at: int, n: int) -> None:
    """Remove index ``at`` of n values; those after it move down."""
    tail = array[at:n]
    for k in range(len(tail) - 1):
        tail[k] = tail[k + 1]


@kernel()
def unsigned(index: int) -> np.uint64:
    """An index that is not negative, which the compiler cannot infer.

    The compiled code would add the length to a negative one.
    """
    return np.uint64(index)
