"""Forecast of a link's start: what many futures of the queue say, for every delay of its submission."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mirage.job_state import Floats, Ints


@dataclass(frozen=True, slots=True, eq=False)
class StartForecast:
    """Starts of the next link in equally likely futures, one a row, if submitted after a delay, one a column.

    All delays meet the same futures, so that their differences are the delays' alone.

    Attributes:
        now_s: When the forecast was made.
        ends_s: When the present link ends.
        delays_s: Shape (delays,), ascending: seconds from now to the submission.
        starts_s: Shape (futures, delays). A link still waiting when a future was left off is taken to start then, or
            later by its delay: at least that is sure.
        until_s: When the futures were left off.
    """

    now_s: int
    ends_s: int
    delays_s: Ints
    starts_s: Ints
    until_s: int

    @property
    def waits_s(self) -> Ints:
        """Shape (futures, delays): from the submission to the start."""
        return self.starts_s - self.now_s - self.delays_s

    @property
    def gaps_s(self) -> Floats:
        """Shape (futures, delays): start minus end of the present link; positive where it is interrupted."""
        return (self.starts_s - self.ends_s).astype(np.float64)

    @property
    def open_share(self) -> float:
        """Share of futures in which a link submitted now still waited when they were left off."""
        return float((self.starts_s[:, 0] >= self.until_s).mean())

    def wait_quantiles_s(self, levels: tuple[float, ...], delay: int = 0) -> Floats:
        """Quantiles of the wait of a link submitted after the delay of a column."""
        quantiles: Floats = np.quantile(self.waits_s[:, delay], levels)
        return quantiles
