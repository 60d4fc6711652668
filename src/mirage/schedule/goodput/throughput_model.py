"""Throughput model of data-parallel training: step time by servers, GPUs and local batch.

A step is ``s`` passes that only accumulate gradients and one that also averages them over the workers:

    T = s·T_acc + (T_acc^γ + T_net^γ)^(1/γ),  T_acc = a + b·m,  T_net = α + β·max(gpus − 2, 0)

with one pair (α, β) for workers on one server and one for workers on several (Pollux, OSDI'21, section 3.2). γ sets how
much of the network time overlaps the computation of gradients: 1 none, 10 nearly all.
"""

from __future__ import annotations

from math import exp, log, log1p
from typing import Any

from mirage.kernel.compile import kernel

PASS_S, PASS_S_PER_SAMPLE, BETWEEN_S, BETWEEN_S_PER_GPU, WITHIN_S, WITHIN_S_PER_GPU, OVERLAP = range(7)
"""Indices of the parameters: a, b, α and β between servers, α and β within one, γ."""

PARAMETERS = 7
TINY_S = 1e-8
"""Replaces zero times, so that logarithms exist."""


@kernel()
def pass_s(parameters: Any, local_batch: float) -> float:
    """Seconds of one pass, forwards and backwards, over a local batch."""
    return float(parameters[PASS_S] + parameters[PASS_S_PER_SAMPLE] * local_batch)


@kernel()
def network_s(parameters: Any, servers: int, gpus: int) -> float:
    """Seconds to average the gradients over the workers."""
    if gpus <= 1:
        return TINY_S
    beyond = max(gpus - 2.0, TINY_S)
    if servers > 1:
        return float(parameters[BETWEEN_S] + parameters[BETWEEN_S_PER_GPU] * beyond)
    return float(parameters[WITHIN_S] + parameters[WITHIN_S_PER_GPU] * beyond)


@kernel()
def overlapped_s(overlap: float, compute_s: float, transfer_s: float) -> float:
    """Seconds of two partly concurrent activities: their norm of order ``overlap``."""
    longer, shorter = max(compute_s, transfer_s), min(compute_s, transfer_s)
    if shorter < 1e-7 * longer:  # no digit of the sum changes; a fast path, as most jobs have one GPU
        return longer
    return longer * exp(log1p(exp(overlap * log(shorter / longer))) / overlap)


@kernel()
def step_s(parameters: Any, servers: int, gpus: int, local_batch: float, accumulation: int) -> float:
    """Seconds of a step with ``accumulation`` passes that only accumulate."""
    compute_s = pass_s(parameters, local_batch)
    averaged_s = overlapped_s(parameters[OVERLAP], compute_s, network_s(parameters, servers, gpus))
    return float(accumulation * compute_s + averaged_s)
