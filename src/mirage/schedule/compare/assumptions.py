"""Assumptions about jobs and clusters that published results depend on, by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mirage.errors import ConfigurationError, UnknownName
from mirage.schedule.compare.inference_demand import DailyDemand
from mirage.schedule.compare.request_load import Serving
from mirage.schedule.gpu_cluster import GpuCluster
from mirage.schedule.workload.gpu_jobs import ALL_TYPES, ANY_POOL, GpuJobs

OF_SCHEDULERS = ("interval_s", "headroom")
"""Assumptions that are parameters of schedulers."""

_WHOLE = ("t4_per_v100", "server_slots")


@dataclass(frozen=True, slots=True)
class Assumptions:
    """Assumptions; None leaves the workload, the cluster or the scheduler as it is.

    Attributes:
        elastic_jobs: Share of the jobs that can use more GPUs than they request.
        elastic_gpu_time: The same as a share of GPU time.
        elastic_max: Largest number of GPUs of such a job, over those it requests.
        fungible: Share of the jobs that may run on every GPU type; the others run on the types of their pool.
        t4_per_v100: T4 that a job gets in place of one requested GPU.
        headroom: Share of the servers of inference that a scheduler does not lend.
        interval_s: Seconds between two decisions on loans.
        demand_low: Share of the servers at the lowest daily demand.
        demand_high: The same at the highest demand.
        notice_s: Seconds before a change of the daily demand at which it is announced.
        announce_error: Standard deviation of announcements, as a share of the demand.
        server_slots: Requests that a server of inference serves at once, and the next four as in ``Serving``.
    """

    elastic_jobs: float | None = None
    elastic_gpu_time: float | None = None
    elastic_max: float | None = None
    fungible: float | None = None
    t4_per_v100: int | None = None
    headroom: float | None = None
    interval_s: float | None = None
    demand_low: float | None = None
    demand_high: float | None = None
    notice_s: float | None = None
    announce_error: float | None = None
    server_slots: int | None = None
    service_s: float | None = None
    wait_target_s: float | None = None
    late_share: float | None = None
    warm_up_s: float | None = None

    def __post_init__(self) -> None:
        for name in ("elastic_jobs", "elastic_gpu_time", "fungible", "headroom"):
            share = getattr(self, name)
            if share is not None and not 0 <= share <= 1:
                raise ConfigurationError(f"{name} is {share}; give a share from 0 to 1")
        if self.interval_s is not None and not self.interval_s > 0:
            raise ConfigurationError(f"interval_s is {self.interval_s}; give a number of seconds above 0")
        if self.elastic_jobs is not None and self.elastic_gpu_time is not None:
            raise ConfigurationError("elastic_jobs and elastic_gpu_time are two shares of elastic jobs; give one")
        if self.elastic_max is not None and not 1 <= self.elastic_max < np.inf:
            raise ConfigurationError(f"elastic_max is {self.elastic_max}; give a number of 1 or more")
        if self.elastic_max is not None and self.elastic_jobs is None and self.elastic_gpu_time is None:
            raise ConfigurationError("elastic_max needs a share of elastic jobs: elastic_jobs or elastic_gpu_time")
        if self.t4_per_v100 is not None and (self.t4_per_v100 < 1 or self.t4_per_v100 != int(self.t4_per_v100)):
            raise ConfigurationError(f"t4_per_v100 is {self.t4_per_v100}; give a whole number of 1 or more")

    @classmethod
    def of(cls, pairs: Sequence[str]) -> Assumptions:
        """Read ``KEY=VALUE`` pairs.

        Raises:
            UnknownName: There is no such assumption; the message lists those that exist.
            ConfigurationError: A pair or a value cannot be used.
        """
        known = [f.name for f in fields(cls)]
        found: dict[str, Any] = {}
        for pair in pairs:
            key, sign, text = pair.partition("=")
            key = key.strip().replace("-", "_")
            if key not in known:
                raise UnknownName("assumption", key, known)
            try:
                value = float(text)
            except ValueError:
                value = np.nan
            if not sign or not np.isfinite(value) or key in found:
                raise ConfigurationError(f"assumption {pair!r}: give each key once, as {key}=NUMBER")
            found[key] = int(value) if key in _WHOLE and value == int(value) else value
        return cls(**found)

    @property
    def of_schedulers(self) -> Mapping[str, float]:
        """Parameters for the schedulers that have them."""
        return {name: getattr(self, name) for name in OF_SCHEDULERS if getattr(self, name) is not None}

    def daily_demand(self) -> DailyDemand:
        """The daily demand under these assumptions.

        Raises:
            ConfigurationError: A value cannot be used.
        """
        return DailyDemand(**self._given({"low": "demand_low", "high": "demand_high"}), **self.announcements)

    @property
    def announcements(self) -> dict[str, float]:
        """How changes of the demand are announced: ``notice_s`` and ``error``, where given."""
        return self._given({"notice_s": "notice_s", "error": "announce_error"})

    def serving(self) -> Serving:
        """How servers serve requests under these assumptions.

        Raises:
            ConfigurationError: A value cannot be used.
        """
        return Serving(**self._given({f.name: f.name for f in fields(Serving)}))

    def _given(self, names: Mapping[str, str]) -> dict[str, Any]:
        return {name: getattr(self, key) for name, key in names.items() if getattr(self, key) is not None}

    def cluster(self, cluster: GpuCluster) -> GpuCluster:
        """The cluster under these assumptions.

        Raises:
            ConfigurationError: It has no T4, but a number of them in place of one GPU was given.
        """
        if self.t4_per_v100 is None:
            return cluster
        if "t4" not in cluster.gpu_types:
            raise ConfigurationError(
                f"t4_per_v100 needs GPUs of type t4; the cluster has {', '.join(cluster.gpu_types)}"
            )
        each = int(self.t4_per_v100)
        return GpuCluster(tuple(replace(g, gpus_for_one=each) if g.gpu_type == "t4" else g for g in cluster.groups))

    def jobs(self, jobs: GpuJobs, cluster: GpuCluster, seed: int) -> GpuJobs:
        """The jobs under these assumptions.

        Args:
            jobs: The jobs, each with its pool.
            cluster: The servers.
            seed: Seed of the choice of elastic and of fungible jobs.
        """
        elastic_seed, fungible_seed = np.random.default_rng(seed).spawn(2)
        share = self.elastic_gpu_time if self.elastic_jobs is None else self.elastic_jobs
        if share is not None:
            weight = jobs.gpus * jobs.run_s if self.elastic_jobs is None else np.ones(len(jobs))
            most = np.round(jobs.gpus * (2.0 if self.elastic_max is None else self.elastic_max)).astype(np.int64)
            chosen = _share_of(weight, share, elastic_seed)
            jobs = replace(jobs, max_gpus=np.where(chosen, np.maximum(most, jobs.gpus), jobs.gpus))
        if self.fungible is not None:
            chosen = _share_of(np.ones(len(jobs)), self.fungible, fungible_seed)
            own = [
                sum(1 << int(t) for t in np.unique(cluster.gpu_type_of[cluster.pool_of == pool]))
                for pool in range(len(cluster.pools))
            ]
            of_pool = np.where(jobs.pool == ANY_POOL, jobs.types, np.array([*own, ALL_TYPES])[jobs.pool])
            jobs = replace(jobs, types=np.where(chosen, ALL_TYPES, of_pool))
        return jobs


def _share_of(weight: NDArray[np.float64], share: float, random: np.random.Generator) -> NDArray[np.bool_]:
    """Chooses jobs at random up to a share of the weight, without those that would exceed it."""
    chosen = np.zeros(len(weight), np.bool_)
    left = share * float(weight.sum()) * (1 + 1e-9)
    for k in random.permutation(len(weight)).tolist():
        if weight[k] <= left:
            chosen[k] = True
            left -= weight[k]
    return chosen
