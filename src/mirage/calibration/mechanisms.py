"""Mechanisms of a cluster beyond nodes and a queue, and the world that has them."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Self

import numpy as np

from mirage.calibration.capacity import Capacity, capacity_over_time
from mirage.calibration.think_times import as_submitted, closed_loop
from mirage.calibration.wait_causes import WaitCauses, wait_causes
from mirage.duration import HOUR_S
from mirage.job_state import MISSING, Floats, Ints
from mirage.sim.cluster import Cluster, Limit, NodeGroup, Partition
from mirage.sim.jobs import workload
from mirage.sim.simulation import Simulation
from mirage.sim.slurm_conf.qos import QosTable
from mirage.sim.slurm_conf.settings import SlurmSettings
from mirage.trace.table import JobTable

GROUP = "node"

USUAL_DIP_S = 48 * HOUR_S
"""Dips filled in where only the usual number of nodes is asked for."""


@dataclass(frozen=True, slots=True)
class Mechanisms:
    """What is modelled; a field at its default is a mechanism left out.

    Attributes:
        dip_s: Capacity changes over time, and dips of nodes in use up to this long are filled in. None: always as many
            nodes as there were for the longest time.
        recorded: Priorities at submission are taken from the trace.
        age: Priority that the oldest job has gained.
        fairshare: Weight of fair-share by use.
        size: Weight of the job's size; of its smallness where it is negative.
        user_jobs: Jobs one user may have running at once.
        turnover_s: Seconds a node needs between two jobs.
        think_s: Jobs submitted at most so long after another of their user's had started or ended answer to that one.
    """

    dip_s: int | None = None
    recorded: bool = False
    age: float = 0.0
    fairshare: float = 0.0
    size: float = 0.0
    user_jobs: int | None = None
    turnover_s: int = 0
    think_s: int = 0

    def without(self, name: str) -> Mechanisms:
        """The same with one left out."""
        neutral = {field.name: field.default for field in fields(Mechanisms)}
        return replace(self, **{name: neutral[name]})  # type: ignore[arg-type]


NAMES = tuple(field.name for field in fields(Mechanisms))


@dataclass(frozen=True, slots=True)
class Site:
    """What is known of a cluster before anything is fitted.

    Attributes:
        jobs: Jobs that were in the queue, by submission.
        settings: Its scheduler, as far as somebody said.
        nodes: Nodes, where their number does not change.
        usual_priority: The middle of the recorded priorities; ``MISSING`` where there are none.
        qos: The QOS with their limits, where somebody told them.
    """

    jobs: JobTable
    settings: SlurmSettings
    nodes: int
    usual_priority: float
    qos: QosTable | None = None

    @property
    def tells_user_jobs(self) -> bool:
        """Whether a limit on the jobs of a user is told, so that none is to be inferred."""
        return self.qos is not None and any(one.per == "user" and one.jobs is not None for one in self.qos.limits)

    @classmethod
    def of(cls, jobs: JobTable, settings: SlurmSettings, from_s: int, until_s: int) -> Self:
        """What the jobs submitted in a slice tell of nodes and priorities."""
        seen = jobs[(jobs.submit_s >= from_s) & (jobs.submit_s < until_s)]
        told = seen.priority[seen.priority >= 0]
        usual = float(np.median(told)) if 2 * len(told) > len(seen) else float(MISSING)
        return cls(jobs, settings, _longest_level(capacity_over_time(seen, USUAL_DIP_S), until_s), usual)

    def capacity(self, dip_s: int | None) -> Capacity:
        """Nodes over time."""
        if dip_s is None:
            return Capacity(self.jobs.submit_s[:1], np.array([self.nodes]))
        return capacity_over_time(self.jobs, dip_s)

    def cluster(self, chosen: Mechanisms) -> Cluster:
        """The machine."""
        capacity = self.capacity(chosen.dip_s)
        inferred = (Limit("user", jobs=chosen.user_jobs),) if chosen.user_jobs else ()
        return Cluster(
            (NodeGroup(GROUP, capacity.first),),
            (Partition("batch"),),
            qos_factors=self.qos.factors if self.qos else {},
            limits=(*(self.qos.limits if self.qos else ()), *inferred),
            changes=capacity.changes(GROUP),
        )

    def scheduler(self, chosen: Mechanisms) -> SlurmSettings:
        """Its scheduler."""
        return replace(
            self.settings,
            weight_age=chosen.age,
            weight_fairshare=chosen.fairshare,
            weight_size=abs(chosen.size),
            favor_small=chosen.size < 0,
            weight_partition=0.0,
            weight_qos=self.settings.weight_qos if self.qos and not chosen.recorded else 0.0,
            recorded_priority=self.usual_priority if chosen.recorded else None,
            turnover_s=chosen.turnover_s,
        )

    def replay(self, chosen: Mechanisms, jobs: JobTable) -> JobTable:
        """Jobs as they would have run with these mechanisms: with simulated submissions, starts and ends.

        Args:
            chosen: The mechanisms.
            jobs: Some of the jobs, by submission.
        """
        cluster, settings = self.cluster(chosen), self.scheduler(chosen)
        made = workload(jobs, cluster, refuse=False)
        if chosen.think_s:
            made = closed_loop(made, chosen.think_s)
        schedule = as_submitted(Simulation(cluster, made, "slurm", settings).run())
        return schedule.table.with_columns(start_s=schedule.start_s, end_s=schedule.end_s)

    def wait_causes(self, chosen: Mechanisms, jobs: JobTable) -> WaitCauses:
        """What jobs waited for, by these mechanisms.

        Fair-share is left out of the order, since what users had used before is not known.

        Args:
            chosen: The mechanisms.
            jobs: Some of the jobs, by submission, as recorded or as replayed.
        """
        standing = jobs.priority.astype(float) if chosen.recorded else chosen.size * jobs.nodes / self.nodes
        oldest_s = self.settings.max_age_s

        def priorities(rows: Ints, now_s: int) -> Floats:
            aged: Floats = np.minimum(now_s - jobs.submit_s[rows], oldest_s) / oldest_s
            return standing[rows] + chosen.age * aged

        return wait_causes(jobs, self.capacity(chosen.dip_s), priorities, chosen.user_jobs)


def _longest_level(capacity: Capacity, until_s: int) -> int:
    """The number of nodes that was there for the longest time."""
    lasted_s = np.maximum(np.diff(capacity.times_s, append=until_s), 0)
    levels, place = np.unique(capacity.nodes, return_inverse=True)
    return int(levels[np.argmax(np.bincount(place, weights=lasted_s))])
