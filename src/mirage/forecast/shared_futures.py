"""Futures of a queue shared by chains and policies: one draw for each moment.

Policies with equal forecasts that decide at the same moment, such as one policy at several costs, simulate them once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import TypeVar, cast

from mirage.forecast.forecaster import Forecaster, QueueFutures
from mirage.policy.view import View
from mirage.sim.cluster import Limit
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings

Result = TypeVar("Result")

_FORECASTERS = 4
"""Number of cached forecasters: policies with other seeds or other settings have their own."""


class SharedFutures:
    """The futures of the latest queue, and what was simulated in them.

    Args:
        forecaster: Draws futures.
    """

    def __init__(self, forecaster: Forecaster) -> None:
        self.forecaster = forecaster
        self._queue: QueueFutures | None = None
        self._results: dict[Hashable, object] = {}

    def at(self, view: View) -> QueueFutures:
        """Returns the futures of a view's queue, drawn once for a moment, whatever the chain."""
        if self._queue is None or not self._queue.are_of(view):
            self._queue, self._results = self.forecaster.of(view), {}
        return self._queue

    def once(self, view: View, key: Hashable, simulate: Callable[[QueueFutures], Result]) -> Result:
        """Returns what a simulation gives in the futures of a view, simulated once for a moment.

        Args:
            view: The queue.
            key: Identifies the simulation and its arguments.
            simulate: Called with the futures if there is no result for this key.
        """
        queue = self.at(view)
        if key not in self._results:
            self._results[key] = simulate(queue)
        return cast(Result, self._results[key])


@lru_cache(maxsize=_FORECASTERS)
def shared_futures(
    futures: int, seed: int, discipline: str, scheduler: SlurmSettings | None, limits: tuple[Limit, ...]
) -> SharedFutures:
    """Returns the futures of a cluster, shared by all with equal forecasts."""
    return SharedFutures(Forecaster(futures, seed=seed, discipline=discipline, scheduler=scheduler, limits=limits))
