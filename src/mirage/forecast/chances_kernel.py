"""Uniform random numbers that depend only on seed, future, job and stream."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import float64, uint64, void

from mirage.kernel.compile import kernel

OWN, SHARED_BY_USER, FOLLOWS = 1, 2, 3
"""Streams: of the single job, of similar jobs of a user, and of the choice between the two."""

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_30, _27, _31 = np.uint64(30), np.uint64(27), np.uint64(31)
_OF_A_USER = np.uint64(1_000_003)
_ALL = 2.0**64


@kernel()
def mix(bits: Any) -> Any:
    """SplitMix64's finalizer; overflow wraps around."""
    value = bits + _GOLDEN
    value ^= value >> _30
    value *= _FIRST
    value ^= value >> _27
    value *= _SECOND
    value ^= value >> _31
    return value


@kernel()
def in_unit(bits: Any) -> float:
    """Converts 64 bits to a number in [0, 1)."""
    return float(np.float64(bits) / _ALL)


@kernel(void(uint64, uint64[::1], uint64[::1], uint64[::1], float64, float64[:, ::1]))
def fill_chances(seed: Any, ids: Any, user: Any, limit_s: Any, shared: float, chances: Any) -> None:
    """Writes the chances of every future and job, see ``mirage.forecast.run_times.chances``.

    Args:
        seed: Eight times that of the forecaster, truncated to 64 bits.
        shared: The share of draws that similar jobs of one user have in common.
        chances: Shape (futures, jobs), written.
    """
    for k in range(len(ids)):
        own, like = mix(ids[k]), mix(user[k] * _OF_A_USER + limit_s[k])
        for future in range(len(chances)):
            moved = _GOLDEN * mix(np.uint64(future))
            if in_unit(mix(mix(seed + np.uint64(FOLLOWS) + moved) ^ own)) < shared:
                chances[future, k] = in_unit(mix(mix(seed + np.uint64(SHARED_BY_USER) + moved) ^ like))
            else:
                chances[future, k] = in_unit(mix(mix(seed + np.uint64(OWN) + moved) ^ own))
