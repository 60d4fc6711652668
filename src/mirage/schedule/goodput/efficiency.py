"""Statistical efficiency: progress per sample of a larger batch, from gradient noise.

A step with ``scale`` times the first batch advances training by ``gain`` steps of the first batch, at most ``scale``
(Pollux, OSDI'21, section 3.1, after McCandlish et al., arXiv:1812.06162).
"""

from __future__ import annotations

from mirage.sim.kernel.compile import kernel


@kernel()
def gain(gradient_square: float, gradient_variance: float, scale: float) -> float:
    """Number of steps of the first batch equal to one step at ``scale`` times that batch."""
    noise = gradient_variance / scale + gradient_square
    return (gradient_variance + gradient_square) / noise if noise > 0 else 1.0


@kernel()
def efficiency(gradient_square: float, gradient_variance: float, scale: float) -> float:
    """Progress per sample, relative to the first batch: 1 at scale 1, less above."""
    return gain(gradient_square, gradient_variance, scale) / scale
