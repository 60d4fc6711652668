"""Uniform random numbers that depend only on seed, future, job and stream."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import float64, uint64, void

from mirage.kernel.compile import kernel
from mirage.kernel.random import GOLDEN_64, in_unit, mixed_64

OWN, SHARED_BY_USER, FOLLOWS = 1, 2, 3
"""Streams: of the single job, of similar jobs of a user, and of the choice between the two."""

_OF_A_USER = np.uint64(1_000_003)


@kernel(void(uint64, uint64[::1], uint64[::1], uint64[::1], float64, float64[:, ::1]))
def fill_chances(seed: Any, ids: Any, user: Any, limit_s: Any, shared: float, chances: Any) -> None:
    """Writes the chances of every future and job, see ``mirage.forecast.run_times.chances``.

    Args:
        seed: Eight times that of the forecaster, truncated to 64 bits.
        shared: The share of draws that similar jobs of one user have in common.
        chances: Shape (futures, jobs), written.
    """
    for k in range(len(ids)):
        own, like = mixed_64(ids[k]), mixed_64(user[k] * _OF_A_USER + limit_s[k])
        for future in range(len(chances)):
            moved = GOLDEN_64 * mixed_64(np.uint64(future))
            if in_unit(mixed_64(mixed_64(seed + np.uint64(FOLLOWS) + moved) ^ own)) < shared:
                chances[future, k] = in_unit(mixed_64(mixed_64(seed + np.uint64(SHARED_BY_USER) + moved) ^ like))
            else:
                chances[future, k] = in_unit(mixed_64(mixed_64(seed + np.uint64(OWN) + moved) ^ own))
