"""Futures of a queue shared by chains: one forecaster a process, one draw for each moment.

Policies that read the same forecast share it: policies compared in one run need one forecast.
"""

from __future__ import annotations

from functools import lru_cache

from mirage.forecast.forecaster import Forecaster, QueueFutures
from mirage.learn.features.forecast_features import forecast_of
from mirage.policy.start_forecast import StartForecast
from mirage.policy.view import ChainView, View
from mirage.sim.cluster import Limit
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings

_FORECASTERS = 4
"""Number of cached forecasters: policies with other seeds or other settings have their own."""


class SharedFutures:
    """The futures of the latest queue.

    Args:
        forecaster: Draws futures.
    """

    def __init__(self, forecaster: Forecaster) -> None:
        self.forecaster = forecaster
        self._queue: QueueFutures | None = None
        self._forecasts: dict[ChainView, StartForecast] = {}

    def at(self, view: View) -> QueueFutures:
        """The futures of a view's queue, cached for the same moment, whatever the chain."""
        if self._queue is None or not self._queue.are_of(view):
            self._queue, self._forecasts = self.forecaster.of(view), {}
        return self._queue

    def forecast(self, view: View, chain: ChainView) -> StartForecast:
        """The forecast for features, cached for the same chain at the same moment."""
        queue = self.at(view)
        if chain not in self._forecasts:
            self._forecasts[chain] = forecast_of(queue, chain)
        return self._forecasts[chain]


@lru_cache(maxsize=_FORECASTERS)
def shared_futures(
    futures: int, seed: int, discipline: str, scheduler: SlurmSettings | None, limits: tuple[Limit, ...]
) -> SharedFutures:
    """The futures of a cluster, shared by all chains and policies with equal forecasts."""
    return SharedFutures(Forecaster(futures, seed=seed, discipline=discipline, scheduler=scheduler, limits=limits))
