"""Mechanisms of a cluster beyond nodes and a queue, and the simulated world with them."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Self

import numpy as np

from mirage.array_types import Floats, Ints
from mirage.calibration.inferred.capacity import Capacity, capacity_over_time
from mirage.calibration.inferred.shutdowns import Shutdown, out_of_use, shutdowns
from mirage.calibration.inferred.think_times import as_submitted, closed_loop
from mirage.calibration.unexplained_holds import held_until
from mirage.calibration.wait_causes import WaitCauses, wait_causes
from mirage.duration import HOUR_S, UNLIMITED_S
from mirage.job_state import MISSING
from mirage.sim.cluster import Cluster, Limit, NodeGroup, Partition
from mirage.sim.simulation import Simulation
from mirage.sim.slurm_conf.qos import QosTable
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings
from mirage.sim.workload import workload
from mirage.trace.table import JobTable

GROUP = "node"

USUAL_DIP_S = 48 * HOUR_S
"""Dips filled in where only the usual number of nodes is needed."""


@dataclass(frozen=True, slots=True)
class Wfp:
    """An order of jobs by nodes^size × wait^wait / limit^limit.

    WFP3 is 1, 3, 3 (Tang et al., Cluster 2009).

    Attributes:
        size: Exponent of nodes.
        wait: Exponent of the time waited.
        limit: Exponent of the time limit.
        longest_s: Longer limits count as this one.
    """

    size: float = 1.0
    wait: float = 3.0
    limit: float = 3.0
    longest_s: int = UNLIMITED_S

    def gain(self, jobs: JobTable) -> Floats:
        """Returns the gain in score per second of waiting, shape (n,).

        The score is taken to the root of the order of the wait's exponent.
        """
        limit_s = np.clip(jobs.limit_s, 1, self.longest_s).astype(float)
        gain: Floats = (jobs.nodes**self.size / limit_s**self.limit) ** (1.0 / self.wait)
        return gain


@dataclass(frozen=True, slots=True)
class Mechanisms:
    """Modelled mechanisms; a field at its default turns its mechanism off.

    Attributes:
        dip_s: Capacity changes over time, and dips of nodes in use up to this long are filled in. None: constantly the
            number of nodes that there was for the longest time.
        recorded: Priorities at submission are taken from the trace.
        age: Priority gained by the oldest job.
        fairshare: Weight of fair-share by use.
        size: Weight of the job's size; a negative weight favours small jobs.
        wfp: Order of the jobs; the weights then have no effect.
        shutdowns: Hours in which the machine was nearly empty are maintenance, known in advance, or failures.
        user_jobs: Jobs one user may have running at once.
        turnover_s: Seconds a node needs between two jobs.
        think_time_s: Jobs submitted at most this long after a start or end of another job of their user react to that
            event.
    """

    dip_s: int | None = None
    recorded: bool = False
    age: float = 0.0
    fairshare: float = 0.0
    size: float = 0.0
    wfp: Wfp | None = None
    shutdowns: bool = False
    user_jobs: int | None = None
    turnover_s: int = 0
    think_time_s: int = 0

    def without(self, name: str) -> Mechanisms:
        """Returns the mechanisms with one of them turned off."""
        neutral = {one.name: one.default for one in fields(Mechanisms)}
        return replace(self, **{name: neutral[name]})  # type: ignore[arg-type]

    def settled(self) -> Mechanisms:
        """Returns the mechanisms without those that have no effect next to the others."""
        return replace(self, age=0.0, fairshare=0.0, size=0.0, recorded=False) if self.wfp else self


NAMES = tuple(one.name for one in fields(Mechanisms))


@dataclass(frozen=True, slots=True)
class Site:
    """Known facts about a cluster before anything is fitted.

    Attributes:
        jobs: Jobs that were in the queue, by submission.
        settings: Its scheduler, as far as declared.
        nodes: Nodes, where their number does not change.
        usual_priority: Median of the recorded priorities; ``MISSING`` where there are none.
        shutdowns: Hours in which the machine was nearly empty though jobs waited.
        qos: The QOS with their limits, where declared.
        age_limits: Limits of associations on the number of jobs that accrue age, where declared.
    """

    jobs: JobTable
    settings: SlurmSettings
    nodes: int
    usual_priority: float
    shutdowns: tuple[Shutdown, ...] = ()
    qos: QosTable | None = None
    age_limits: tuple[Limit, ...] = ()
    _capacities: dict[tuple[int, bool], Capacity] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def declares_user_jobs(self) -> bool:
        """Whether a limit on the jobs of a user is declared, so that none is inferred."""
        return self.qos is not None and any(one.per == "user" and one.jobs is not None for one in self.qos.limits)

    @classmethod
    def of(cls, jobs: JobTable, settings: SlurmSettings, from_s: int, until_s: int) -> Self:
        """Infers nodes and priorities from the jobs submitted in a slice."""
        in_slice = jobs[(jobs.submit_s >= from_s) & (jobs.submit_s < until_s)]
        priorities = in_slice.priority[in_slice.priority >= 0]
        usual = float(np.median(priorities)) if 2 * len(priorities) > len(in_slice) else float(MISSING)
        found = shutdowns(jobs)
        usually = _longest_level(capacity_over_time(in_slice, USUAL_DIP_S, found), until_s)
        return cls(jobs, settings, usually, usual, found)

    def capacity(self, chosen: Mechanisms) -> Capacity:
        """Returns the nodes over time, without shutdowns where these are modelled separately."""
        if chosen.dip_s is None:
            return Capacity(self.jobs.submit_s[:1], np.array([self.nodes]))
        key = (chosen.dip_s, chosen.shutdowns)
        if key not in self._capacities:
            besides = self.shutdowns if chosen.shutdowns else ()
            self._capacities[key] = capacity_over_time(self.jobs, chosen.dip_s, besides)
        return self._capacities[key]

    def cluster(self, chosen: Mechanisms) -> Cluster:
        """Returns the simulated machine."""
        capacity = self.capacity(chosen)
        down = self.shutdowns if chosen.shutdowns else ()
        failures, reservations = out_of_use(down, GROUP, capacity.times_s, capacity.nodes)
        inferred = (Limit("user", jobs=chosen.user_jobs),) if chosen.user_jobs else ()
        return Cluster(
            (NodeGroup(GROUP, capacity.first),),
            (Partition("batch"),),
            qos_factors=self.qos.factors if self.qos else {},
            limits=(*(self.qos.limits if self.qos else ()), *self.age_limits, *inferred),
            changes=tuple(sorted((*capacity.changes(GROUP), *failures), key=lambda change: change.time_s)),
            reservations=reservations,
        )

    def scheduler(self, chosen: Mechanisms) -> SlurmSettings:
        """Returns the scheduler's settings with the chosen mechanisms."""
        order = self.settings
        if (wfp := chosen.wfp) is not None:
            exponents = {"wfp_size": wfp.size, "wfp_wait": wfp.wait, "wfp_limit": wfp.limit}
            order = replace(order, priority="wfp", wfp_longest_s=wfp.longest_s, **exponents)  # type: ignore[arg-type]
        return replace(
            order,
            weight_age=chosen.age,
            weight_fairshare=chosen.fairshare,
            weight_size=abs(chosen.size),
            favor_small=chosen.size < 0,
            weight_partition=0.0,
            weight_qos=self.settings.weight_qos if self.qos and not chosen.recorded else 0.0,
            recorded_priority=self.usual_priority if chosen.recorded else None,
            turnover_s=chosen.turnover_s,
        )

    def replay(self, chosen: Mechanisms, jobs: JobTable, held: bool = False, from_s: int | None = None) -> JobTable:
        """Replays jobs with these mechanisms: simulated submissions, starts and ends.

        Args:
            chosen: The mechanisms.
            jobs: Some of the jobs, by submission.
            held: Whether jobs are held as long as no mechanism explains their wait, which uses their recorded starts.
            from_s: Until then the replay follows the record: jobs that ran have their recorded start, jobs that waited
                start later.
        """
        cluster, settings = self.cluster(chosen), self.scheduler(chosen)
        made = workload(jobs, cluster, refuse=False)
        if held:
            made.jobs.begin_s = self._held_until(chosen, made.table)
        if from_s is not None:
            before = made.table.submit_s < from_s
            at_s = np.minimum(made.table.start_s[before], from_s)
            made.jobs.begin_s[before] = np.maximum(made.jobs.begin_s[before], at_s)
        if chosen.think_time_s:
            made = closed_loop(made, chosen.think_time_s)
        schedule = as_submitted(Simulation(cluster, made, "slurm", settings).run())
        return schedule.table.with_columns(start_s=schedule.start_s, end_s=schedule.end_s)

    def wait_causes(self, chosen: Mechanisms, jobs: JobTable) -> WaitCauses:
        """Returns the causes of waits of jobs under these mechanisms.

        Fair-share is left out of the order, since earlier use by the users is not known.

        Args:
            chosen: The mechanisms.
            jobs: Some of the jobs, by submission, as recorded or as replayed.
        """
        base_priority, gain, oldest_s = self._order(chosen, jobs)

        def priorities(rows: Ints, now_s: int) -> Floats:
            return base_priority[rows] + gain[rows] * np.minimum(now_s - jobs.submit_s[rows], oldest_s)

        return wait_causes(jobs, self.capacity(chosen), priorities, chosen.user_jobs)

    def _order(self, chosen: Mechanisms, jobs: JobTable) -> tuple[Floats, Floats, float]:
        """Returns priorities without age, the gain per second of waiting, and the oldest age.

        Priorities and gain have shape (n,). For WFP, they are those of the root of the score, which gives the same
        order and grows linearly.
        """
        if chosen.wfp is not None:
            return np.zeros(len(jobs)), chosen.wfp.gain(jobs), np.inf
        base_priority: Floats = (
            jobs.priority.astype(float) if chosen.recorded else chosen.size * jobs.nodes / self.nodes
        )
        oldest_s = self.settings.max_age_s
        return base_priority, np.full(len(jobs), chosen.age / oldest_s), oldest_s

    def _held_until(self, chosen: Mechanisms, jobs: JobTable) -> Ints:
        until_s = held_until(jobs, *self._order(chosen, jobs))
        return np.where(until_s > jobs.submit_s, until_s, MISSING)


def _longest_level(capacity: Capacity, until_s: int) -> int:
    """Returns the number of nodes that lasted longest."""
    lasted_s = np.maximum(np.diff(capacity.times_s, append=until_s), 0)
    levels, place = np.unique(capacity.nodes, return_inverse=True)
    return int(levels[np.argmax(np.bincount(place, weights=lasted_s))])
