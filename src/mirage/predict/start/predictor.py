"""Start of a pending or planned job, as ranges from futures of the queue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from mirage.array_types import Floats, Ints
from mirage.duration import UNLIMITED_S
from mirage.errors import ConfigurationError, quantity
from mirage.forecast.forecaster import Forecaster, QueueFutures
from mirage.job_state import MISSING
from mirage.policy.start_forecast import StartForecast
from mirage.policy.view import ChainView, View
from mirage.predict.start.quantile_levels import HORIZON_S, LEVELS, forecast_of
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings
from mirage.whole_numbers import make_whole

FUTURES = 64


@dataclass(frozen=True, slots=True)
class JobRequest:
    """The request of a job, in the codes of a view.

    Attributes:
        partition: Code of the partition.
        gpus: Per node; −1 if it takes whole nodes.
        cpus: Per node; −1 if it takes whole nodes.
        user: Code of the user.
        qos: Code of the QOS; −1 if unknown.
        nice: Value that the user subtracts from the job's priority.
        delay_s: Seconds from now to its earliest start, as ``--begin`` sets it.
    """

    nodes: int
    limit_s: int
    partition: int = 0
    gpus: int = -1
    cpus: int = -1
    user: int = 0
    qos: int = -1
    nice: int = 0
    delay_s: int = 0

    def __post_init__(self) -> None:
        make_whole(self, *self.__slots__)


@dataclass(frozen=True, slots=True, eq=False)
class StartPrediction:
    """A prediction of one start.

    Attributes:
        now_s: When it was made.
        waits_s: Shape (futures,), seconds from now to the start in every future; ``horizon_s`` if the job still
            waited at the end of the future.
        horizon_s: Length of the futures.
        delay_s: Seconds from now to the earliest start, at most ``horizon_s``.
    """

    now_s: int
    waits_s: Ints
    horizon_s: int
    delay_s: int = 0

    @property
    def mean_s(self) -> float:
        """Expected wait, a lower bound if futures are open."""
        return float(self.waits_s.mean())

    @property
    def open_share(self) -> float:
        """Share of futures in which the job still waited at their end."""
        return float((self.waits_s >= self.horizon_s).mean())

    def quantiles_s(self) -> Floats:
        """Quantiles of the wait, shape (levels,), at ``LEVELS``."""
        found: Floats = np.quantile(self.waits_s, LEVELS)
        return found

    def forecast(self) -> StartForecast:
        """Returns waits from the earliest start as one column, as a correction takes them."""
        delay_s = self.delay_s
        return forecast_of(self.now_s + delay_s, self.waits_s - delay_s, self.horizon_s - delay_s)


class StartPredictor:
    """Predicts starts in one view; all its answers use the same futures.

    Args:
        view: The queue.
        scheduler: Parameters of the cluster's scheduler; None for Slurm's defaults.
        discipline: How the cluster orders its queue.
        futures: Number of futures to simulate.
        seed: Of the futures.
        horizon_s: Length of the futures, in seconds from now.
        threads: Number of futures simulated at once.

    Raises:
        ConfigurationError: There is no future, or it has no length.
    """

    def __init__(
        self,
        view: View,
        scheduler: SlurmSettings | None = None,
        *,
        discipline: str = "slurm",
        futures: int = FUTURES,
        seed: int = 0,
        horizon_s: int = HORIZON_S,
        threads: int = 1,
    ) -> None:
        if futures < 1 or horizon_s < 1:
            raise ConfigurationError(f"a prediction needs a future of a second, got {futures} of {horizon_s} s")
        self.view, self.horizon_s = view, horizon_s
        self._played: dict[JobRequest, StartPrediction] = {}
        forecaster = Forecaster(futures, seed=seed, discipline=discipline, scheduler=scheduler, threads=threads)
        self._queue: QueueFutures = forecaster.of(view)

    def of_request(self, request: JobRequest) -> StartPrediction:
        """The start of a job submitted now.

        Raises:
            ConfigurationError: The nodes that are up could not hold it, there is no such partition, or it has no nodes,
                no time, or a negative delay or user.
        """
        self._check_fits(request)
        if request not in self._played:
            self._played[request] = self._play(request)
        return self._played[request]

    def _play(self, request: JobRequest) -> StartPrediction:
        now_s = self.view.now_s
        chain = ChainView(
            request.nodes,
            request.limit_s,
            MISSING,
            now_s,
            now_s,
            now_s,
            0,
            user=request.user,
            partition=request.partition,
            gpus=request.gpus,
            cpus=request.cpus,
            qos=request.qos,
            nice=request.nice,
        )
        delay_s = min(request.delay_s, self.horizon_s)
        forecast = self._queue.play(chain, np.array([delay_s]), now_s + self.horizon_s)
        waits_s: Ints = np.minimum(forecast.starts_s[:, 0] - now_s, self.horizon_s)
        return StartPrediction(now_s, waits_s, self.horizon_s, delay_s)

    def of_any(self, requests: Sequence[JobRequest]) -> StartPrediction:
        """The start of a job that takes the first free one of several partitions.

        Raises:
            ConfigurationError: None of them could hold it, or there is none.
        """
        if not requests:
            raise ConfigurationError("there is no request to predict; give one for each possible partition")
        fitting = [request for request in requests if self.fits(request)] or list(requests[:1])
        found = [self.of_request(request) for request in fitting]
        waits_s: Ints = np.min([one.waits_s for one in found], axis=0)
        return replace(found[0], waits_s=waits_s)

    def of_pending(self, job: int) -> StartPrediction:
        """The start of a job that waits already; of an array, its first task.

        Args:
            job: Its id among the view's pending jobs.

        Raises:
            ConfigurationError: The view has no such job.
        """
        forecast = self._queue.play_pending(job, self.view.now_s + self.horizon_s)
        return StartPrediction(self.view.now_s, forecast.waits_s[:, 0], self.horizon_s)

    def most_nodes(self, request: JobRequest) -> int:
        """Number of nodes that are up and could hold a part of such a job."""
        nodes = self.view.nodes
        if not 0 <= request.partition < len(nodes.allowed):
            return 0
        mine = nodes.capacity[nodes.allowed[request.partition]]
        if nodes.pools:
            return int(mine[:, 0].sum())
        up = mine.any(axis=1)
        enough = (mine[:, 0] >= max(request.gpus, 0)) & (mine[:, 1] >= max(request.cpus, 0))
        return int((up & enough).sum())

    def fits(self, request: JobRequest) -> bool:
        """Whether the nodes that are up could hold such a job."""
        return request.nodes <= self.most_nodes(request)

    def _check_fits(self, request: JobRequest) -> None:
        if min(request.nodes, request.limit_s) < 1 or min(request.delay_s, request.user) < 0:
            raise ConfigurationError(
                f"a job needs a node, a limit of a second and no negative delay or user, got {request}"
            )
        if request.limit_s > UNLIMITED_S:
            raise ConfigurationError(f"the longest limit is {UNLIMITED_S} s (none at all), got {request.limit_s}")
        partitions = len(self.view.nodes.allowed)
        if not 0 <= request.partition < partitions:
            raise ConfigurationError(f"there is no partition {request.partition}; there are {partitions}")
        most = self.most_nodes(request)
        if request.nodes > most:
            each = f" with {quantity(request.gpus, 'GPU')} and {quantity(request.cpus, 'CPU')} each"
            raise ConfigurationError(
                f"the job requests {quantity(request.nodes, 'node')}{'' if request.gpus < 0 else each}, and {most} "
                "such nodes of its partition are up: request fewer, or another partition"
            )
