"""The best batch: goodput, throughput times efficiency, maximised over 50 total batches in geometric steps.

The batch of a GPU that does not fit into its memory is split into passes that accumulate gradients. One GPU beyond the
first batch accumulates at least twice: the noise of the gradients cannot be told from a single pass.
"""

from __future__ import annotations

from math import ceil, exp, log
from typing import Any

from mirage.schedule.goodput.efficiency import efficiency
from mirage.schedule.goodput.throughput import step_s
from mirage.sim.kernel.compile import kernel

CANDIDATES = 50
ROUNDING = 1e-8
"""What a quotient may exceed a whole number by and still count as that number."""


@kernel()
def accumulation_of(local_batch: float, most_local: int, gpus: int, first_batch: int) -> int:
    """Passes that only accumulate, for a batch per GPU."""
    passes = ceil(local_batch / most_local - ROUNDING) - 1
    if gpus == 1 and local_batch > first_batch + ROUNDING:
        passes = max(passes, 1)
    return max(passes, 0)


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
    """Goodput in samples per second of the first batch's worth, local batch per pass, and accumulating passes.

    Args:
        parameters: Of the throughput model.
        gradient_square: Of the gradients' mean.
        gradient_variance: Of the gradients.
        servers: The workers sit on.
        gpus: Workers.
        first_batch: Total batch that progress is counted in, and the least.
        most_batch: Largest total batch.
        least_local: Smallest batch of a pass.
        most_local: Largest batch of a pass.

    Returns:
        Goodput 0 where no batch is possible.
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
