"""Kernels for the uses of the limit: latest jobs of a kind, merged with all jobs' uses."""

from __future__ import annotations

from typing import Any

from numba import float64, int64, void

from mirage.kernel.compile import kernel

ALMOST_ALL = 0.999999
"""A job that has used more of its limit than this counts as one that has used exactly this."""

BARELY = 1e-6
"""Weight of the whole limit where no job is known to have used it."""


BLOCK = 64
"""Rows that are searched at once: most blocks contain no job of a kind."""


@kernel()
def count(values: Any, wanted: int) -> int:
    """Counts the occurrences of a number."""
    found = 0
    for k in range(len(values)):
        found += values[k] == wanted
    return found


@kernel()
def put_in_order(ascending: Any, n: int, value: float) -> None:
    """Inserts a value into the first n, which are sorted."""
    at = n
    while at > 0 and ascending[at - 1] > value:
        ascending[at] = ascending[at - 1]
        at -= 1
    ascending[at] = value


@kernel(void(int64[::1], int64[::1], float64[::1], float64[:, ::1], int64[::1]))
def fill_latest(kinds: Any, kind: Any, values: Any, found: Any, counts: Any) -> None:
    """Writes the values of the latest jobs of every kind, ascending, and their counts."""
    for case in range(len(kinds)):
        n, last = 0, len(kind)
        while last > 0 and n < found.shape[1]:
            first = max(last - BLOCK, 0)
            if count(kind[first:last], kinds[case]) > 0:
                for row in range(last - 1, first - 1, -1):
                    if kind[row] == kinds[case] and n < found.shape[1]:
                        put_in_order(found[case], n, values[row])
                        n += 1
            last = first
        counts[case] = n


@kernel()
def add_up(values: Any) -> float:
    """Sums up to 128 values in eight columns, bit for bit as ``numpy.sum`` does."""
    n = len(values)
    whole = n - n % 8
    total = 0.0
    if whole > 0:
        a, b, c, d, e, f, g, h = (
            values[0], values[1], values[2], values[3], values[4], values[5], values[6], values[7]
        )  # fmt: skip
        for k in range(8, whole, 8):
            a += values[k]
            b += values[k + 1]
            c += values[k + 2]
            d += values[k + 3]
            e += values[k + 4]
            f += values[k + 5]
            g += values[k + 6]
            h += values[k + 7]
        total = ((a + b) + (c + d)) + ((e + f) + (g + h))
    for k in range(whole, n):
        total += values[k]
    return total


@kernel()
def merge(everybody: Any, own: Any, prior: float, uses: Any, mass: Any) -> None:
    """Writes all uses in ascending order with their weights; unused places weigh nothing."""
    n, k = len(everybody), 0
    for at in range(len(uses)):
        j = at - k
        if j < n and (k == len(own) or everybody[j] <= own[k]):
            uses[at], mass[at] = everybody[j], prior / n
        elif k < len(own):
            uses[at], mass[at] = own[k], 1.0
            k += 1
        else:
            uses[at], mass[at] = 1.0, 0.0
    mass[len(mass) - 1] = BARELY


@kernel()
def count_longer(uses: Any, mass: Any, used: float) -> None:
    """Moves a running job's weight to the uses above ``used``, in proportion to theirs."""
    first = 0
    while uses[first] <= min(used, ALMOST_ALL):
        first += 1
    longer = mass[first:]
    more = 1.0 + 1.0 / add_up(longer)
    for k in range(len(longer)):
        longer[k] *= more


@kernel(
    void(
        float64[:, ::1], float64[::1], int64[::1], float64[::1], int64[::1], float64, float64[::1],
        float64[::1], float64[::1], float64[:, ::1],
    )
)  # fmt: skip
def fill_levels(
    everybody: Any, own: Any, own_ends: Any, running: Any, running_ends: Any, prior: float, middles: Any,
    uses: Any, mass: Any, levels: Any,
) -> None:  # fmt: skip
    """Writes equally likely uses, as ``with_own_history`` describes.

    Args:
        own: Own uses of all cases, concatenated, each case ascending; the cases end at ``own_ends``.
        running: The uses of running jobs, in the same form.
        prior: Weight of all jobs' uses together, in jobs.
        middles: Shape (levels,): the probabilities of the levels.
        uses: Scratch space, for all jobs' uses, the largest number of own uses of a case, and one.
        mass: Scratch space of the same size.
        levels: Shape (cases, levels), written.
    """
    first_own = first_running = 0
    for case in range(len(everybody)):
        merge(everybody[case], own[first_own : own_ends[case]], prior, uses, mass)
        for k in range(running_ends[case] - 1, first_running - 1, -1):  # the longest first: it is among those longer
            count_longer(uses, mass, running[k])
        first_own, first_running = own_ends[case], running_ends[case]
        total = add_up(mass)
        at, below = 0, mass[0]
        for k in range(len(middles)):
            while at + 1 < len(mass) and below / total < middles[k]:
                at += 1
                below += mass[at]
            levels[case, k] = uses[at]
