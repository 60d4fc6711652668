"""Looks at a queue that chains share: one forecaster a process, and the futures of a queue drawn once a moment."""

from __future__ import annotations

from functools import lru_cache

from mirage.forecast.forecaster import Forecaster, QueueFutures
from mirage.policy.view import View
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

    def at(self, view: View) -> QueueFutures:
        """The futures of a view's queue: those of before where it shows the same moment, whatever the chain."""
        if self._queue is None or not self._queue.are_of(view):
            self._queue = self.forecaster.of(view)
        return self._queue


@lru_cache(maxsize=_FORECASTERS)
def shared_looks(
    futures: int, seed: int, discipline: str, scheduler: SlurmSettings | None, limits: tuple[Limit, ...]
) -> Looks:
    """The looks of this process at a cluster, one for all chains and policies that forecast alike."""
    return Looks(Forecaster(futures, seed=seed, discipline=discipline, scheduler=scheduler, limits=limits))
