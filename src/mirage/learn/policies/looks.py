"""Looks at a queue that chains share: one forecaster a process, and the futures of a queue drawn once a moment.

Policies that read the same forecast share it, too: what a comparison plays side by side is forecast once.
"""

from __future__ import annotations

from functools import lru_cache

from mirage.forecast.forecaster import Forecaster, QueueFutures
from mirage.learn.features.forecast_features import forecast_of
from mirage.policy.start_forecast import StartForecast
from mirage.policy.view import Chain, View
from mirage.sim.cluster import Limit
from mirage.sim.slurm_conf.settings import SlurmSettings

_FORECASTERS = 4
"""Forecasters that are kept: policies of other seeds or other settings have their own."""


class Looks:
    """The futures of the queue that was looked at last.

    Args:
        forecaster: How futures are drawn.
    """

    def __init__(self, forecaster: Forecaster) -> None:
        self.forecaster = forecaster
        self._queue: QueueFutures | None = None
        self._forecasts: dict[Chain, StartForecast] = {}

    def at(self, view: View) -> QueueFutures:
        """The futures of a view's queue: those of before where it shows the same moment, whatever the chain."""
        if self._queue is None or not self._queue.are_of(view):
            self._queue, self._forecasts = self.forecaster.of(view), {}
        return self._queue

    def forecast(self, view: View, chain: Chain) -> StartForecast:
        """The forecast that features are made of: that of before for the same chain at the same moment."""
        queue = self.at(view)
        if chain not in self._forecasts:
            self._forecasts[chain] = forecast_of(queue, chain)
        return self._forecasts[chain]


@lru_cache(maxsize=_FORECASTERS)
def shared_looks(
    futures: int, seed: int, discipline: str, scheduler: SlurmSettings | None, limits: tuple[Limit, ...]
) -> Looks:
    """The looks of this process at a cluster, one for all chains and policies that forecast alike."""
    return Looks(Forecaster(futures, seed=seed, discipline=discipline, scheduler=scheduler, limits=limits))
