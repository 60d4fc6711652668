"""Random numbers without a state: functions of a seed and of what is drawn.

A draw depends on its seed, its job, stage or future, and its number, and on no earlier draw. Two schedulers therefore
get the same draws on one workload, which makes their differences small, and a forecast is the same in every view.

There are three mixers, one for each family of published results: another one would give other draws. All give the same
numbers interpreted and compiled; interpreted, numpy warns where 64 bits of a single integer overflow.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mirage.kernel.compile import kernel

BITS_32 = 2**32 - 1
"""Mask of the lowest 32 bits."""

GOLDEN_64 = np.uint64(0x9E3779B97F4A7C15)
"""2⁶⁴ divided by the golden ratio: the step between the counters of SplitMix64."""

_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_30, _27, _31 = np.uint64(30), np.uint64(27), np.uint64(31)

# -- 64 bits: forecasts ------------------------------------------------------------------------------------------------


def splitmix_64(bits: Any) -> Any:
    """Returns 64 bits that appear random for each element of an array; overflow wraps around.

    The next output of SplitMix64 in the state ``bits`` (Steele, Lea and Flood 2014).
    """
    value = bits + GOLDEN_64
    value ^= value >> _30
    value *= _FIRST
    value ^= value >> _27
    value *= _SECOND
    value ^= value >> _31
    return value


mixed_64 = kernel()(splitmix_64)
"""``splitmix_64`` of one integer, in kernels."""


@kernel()
def in_unit(bits: Any) -> float:
    """Converts 64 bits to a number in [0, 1)."""
    return float(np.float64(bits) / 2.0**64)


def uniform(seed: int, future: Any, key: Any, stream: int) -> NDArray[np.float64]:
    """Returns numbers in [0, 1) that depend only on the arguments.

    Args:
        seed: Any integer.
        future: Array of ``numpy.uint64``.
        key: The same, broadcast with ``future``.
        stream: From 0 to 7.
    """
    start = np.uint64((seed * 8 + stream) & 0xFFFFFFFFFFFFFFFF)
    bits = splitmix_64(splitmix_64(start + GOLDEN_64 * splitmix_64(future)) ^ splitmix_64(key))
    return np.asarray(bits / 2.0**64)


# -- 32 bits: durations and decisions of stages ------------------------------------------------------------------------


@kernel()
def mixed_32(bits: int) -> int:
    """Returns 32 bits that appear random for 32 bits.

    Two rounds of shift and multiply (multipliers from C. Wellons' search, 2018); both factors are below 2³¹.
    """
    bits ^= bits >> 15
    bits = bits * 0x2C1B3C6D & BITS_32
    bits ^= bits >> 12
    bits = bits * 0x297A2D39 & BITS_32
    return bits ^ bits >> 15


# -- 32 bits: costs on GPU clusters ------------------------------------------------------------------------------------


@kernel()
def murmur_32(number: int) -> int:
    """Returns 32 bits that appear random for an integer; the finisher of MurmurHash3."""
    number &= BITS_32
    number ^= number >> 16
    number = (number * 0x85EBCA6B) & BITS_32
    number ^= number >> 13
    number = (number * 0xC2B2AE35) & BITS_32
    return number ^ (number >> 16)


@kernel(forceinline=False)
def normal(seed: int, job: int, draw: int) -> float:
    """Returns a standard normal random number (Box and Muller 1958)."""
    start = murmur_32(murmur_32(murmur_32(int(seed) + 0x9E3779B9) ^ int(job)) ^ int(draw))
    first = (murmur_32(start ^ 0x51ED270B) + 0.5) / (BITS_32 + 1.0)
    second = (murmur_32(start ^ 0x2545F491) + 0.5) / (BITS_32 + 1.0)
    return float(math.sqrt(-2.0 * math.log(first)) * math.cos(2.0 * math.pi * second))
