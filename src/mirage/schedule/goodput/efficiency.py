"""Statistical efficiency: how much a sample of a larger batch teaches, from the noise of the gradients.

A step with ``scale`` times the first batch advances training by ``gain`` steps of the first batch, at most ``scale``
(Pollux, OSDI'21, section 3.1, after McCandlish et al., arXiv:1812.06162).
"""

from __future__ import annotations

from mirage.sim.kernel.compile import kernel


@kernel()
def gain(gradient_square: float, gradient_variance: float, scale: float) -> float:
    """Steps of the first batch that one step at ``scale`` times that batch is worth."""
    noise = gradient_variance / scale + gradient_square
    return (gradient_variance + gradient_square) / noise if noise > 0 else 1.0


@kernel()
def efficiency(gradient_square: float, gradient_variance: float, scale: float) -> float:
    """Progress per sample, relative to the first batch: 1 at scale 1, less beyond."""
    return gain(gradient_square, gradient_variance, scale) / scale
