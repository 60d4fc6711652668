"""The goodput formula: throughput by a model of step times, efficiency by gradient noise.

Goodput is throughput times statistical efficiency (Pollux, OSDI'21, section 3). ``best_batch`` maximises it over 50
total batches in geometric steps.

*Throughput.* A step is ``s`` passes that only accumulate gradients and one that also averages them over the workers:

    T = s·T_acc + (T_acc^γ + T_net^γ)^(1/γ),  T_acc = a + b·m,  T_net = α + β·max(gpus − 2, 0)

with one pair (α, β) for workers on one server and one for workers on several. γ sets how much of the network time
overlaps the computation of gradients: 1 none, 10 nearly all.

*Efficiency* is the progress per sample of a larger batch: a step with ``scale`` times the first batch advances training
by ``gain`` steps of the first batch, at most ``scale`` (after McCandlish et al., arXiv:1812.06162). If the batch of a
GPU does not fit into its memory, it is split into passes that accumulate gradients. A single GPU with more than the
first batch takes at least two passes: the noise of the gradients cannot be estimated from one pass.
"""

from __future__ import annotations

from math import ceil, exp, log, log1p
from typing import Any

from mirage.kernel.compile import kernel

PASS_S, PASS_S_PER_SAMPLE, BETWEEN_S, BETWEEN_S_PER_GPU, WITHIN_S, WITHIN_S_PER_GPU, OVERLAP = range(7)
"""Indices of the parameters: a, b, α and β between servers, α and β within one, γ."""

PARAMETERS = 7
TINY_S = 1e-8
"""Replaces zero times, so that logarithms exist."""

CANDIDATES = 50
ROUNDING = 1e-8
"""Tolerance by which a quotient may exceed a whole number and still count as that number."""


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


@kernel()
def accumulation_of(local_batch: float, most_local: int, gpus: int, first_batch: int) -> int:
    """Number of passes that only accumulate, for a batch per GPU."""
    passes = ceil(local_batch / most_local - ROUNDING) - 1
    if gpus == 1 and local_batch > first_batch + ROUNDING:
        passes = max(passes, 1)
    return max(passes, 0)


@kernel()
def gain(gradient_square: float, gradient_variance: float, scale: float) -> float:
    """Number of steps of the first batch equal to one step at ``scale`` times that batch."""
    noise = gradient_variance / scale + gradient_square
    return (gradient_variance + gradient_square) / noise if noise > 0 else 1.0


@kernel()
def efficiency(gradient_square: float, gradient_variance: float, scale: float) -> float:
    """Progress per sample, relative to the first batch: 1 at scale 1, less above."""
    return gain(gradient_square, gradient_variance, scale) / scale


@kernel()
def best_batch(
    parameters: Any,
    gradient_square: float,
    gradient_variance: float,
    servers: int,
    gpus: int,
    first_batch: int,
    most_batch: float,
    least_local: int,
    most_local: int,
) -> tuple[float, int, int]:
    """Goodput of the best batch, its local batch per pass, and its accumulating passes.

    Goodput is in samples per second at the efficiency of the first batch.

    Args:
        parameters: Parameters of the throughput model.
        gradient_square: Squared norm of the mean gradient.
        gradient_variance: Variance of the gradients.
        servers: Number of servers of the workers.
        gpus: Number of workers.
        first_batch: Total batch in which progress is counted; also the smallest.
        most_batch: Largest total batch.
        least_local: Smallest batch of a pass.
        most_local: Largest batch of a pass.

    Returns:
        Goodput 0 if no batch is possible.
    """
    least = max(float(first_batch), float(least_local) * gpus)
    stride = log(most_batch / least) / (CANDIDATES - 1)
    best, best_local, best_passes = 0.0, least_local, 0
    for k in range(CANDIDATES):
        wanted = (most_batch if k == CANDIDATES - 1 else least * exp(stride * k)) / gpus
        passes = accumulation_of(wanted, most_local, gpus, first_batch)
        local = ceil(wanted / (passes + 1) - ROUNDING)
        if local < least_local or local > most_local:
            continue
        batch = float(gpus * local * (passes + 1))
        rate = batch / step_s(parameters, servers, gpus, local, passes)
        found = rate * efficiency(gradient_square, gradient_variance, batch / first_batch)
        if found > best:
            best, best_local, best_passes = found, local, passes
    return best, best_local, best_passes
