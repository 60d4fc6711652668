"""Arrays that are kept in order: a value put in, a value taken out, and an index that never counts from the end."""

from __future__ import annotations

from typing import Any

import numpy as np

from mirage.sim.kernel.compile import kernel


@kernel()
def put_in(array: Any, at: int, n: int, value: int) -> None:
    """Put a value at place ``at`` of the n there are; those from there on move up."""
    tail = array[at : n + 1]  # indices that cannot be negative: the compiler then moves several places at once
    for k in range(len(tail) - 1, 0, -1):
        tail[k] = tail[k - 1]
    tail[0] = value


@kernel()
def take_out(array: Any, at: int, n: int) -> None:
    """Drop place ``at`` of the n there are; those after it move down."""
    tail = array[at:n]
    for k in range(len(tail) - 1):
        tail[k] = tail[k + 1]


@kernel()
def unsigned(index: int) -> np.uint64:
    """An index that is not negative, where the compiler cannot see it: it would add the length to one that is."""
    return np.uint64(index)
