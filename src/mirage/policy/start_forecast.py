"""Forecast of a link's start from simulated futures, by the delay of its submission."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mirage.array_types import Floats, Ints


@dataclass(frozen=True, slots=True, eq=False)
class StartForecast:
    """Starts of the next link in equally likely futures, for each delay of its submission.

    Rows are futures, columns delays. All delays share the same futures, so only the delays differ.

    Attributes:
        now_s: When the forecast was made.
        ends_s: When the present link ends.
        delays_s: Shape (delays,), ascending: seconds from now to the submission.
        starts_s: Shape (futures, delays). A link still waiting at the end of a simulated future is taken to start then,
            or later by its delay, which is a lower bound.
        until_s: When the simulated futures end.
    """

    now_s: int
    ends_s: int
    delays_s: Ints
    starts_s: Ints
    until_s: int

    @property
    def waits_s(self) -> Ints:
        """Waits from the submission to the start, shape (futures, delays)."""
        return self.starts_s - self.now_s - self.delays_s

    @property
    def gaps_s(self) -> Floats:
        """Start minus end of the present link, shape (futures, delays); positive: interrupted."""
        return (self.starts_s - self.ends_s).astype(np.float64)

    @property
    def open_share(self) -> float:
        """Share of futures in which a link submitted now still waits at their end."""
        return float((self.starts_s[:, 0] >= self.until_s).mean())

    def wait_quantiles_s(self, levels: tuple[float, ...], delay: int = 0) -> Floats:
        """Quantiles of the wait of a link submitted after the delay of a column."""
        quantiles: Floats = np.quantile(self.waits_s[:, delay], levels)
        return quantiles
