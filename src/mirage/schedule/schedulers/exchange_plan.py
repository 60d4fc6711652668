"""A plan that exchanges running jobs for waiting ones, for schedulers in Python.

It accounts for GPUs by server twice: those free at once, and those free when jobs that are leaving have left. A waiting
job starts on the former; it reserves some of the latter, so that no later job takes them. Jobs are referred to by their
index in the view.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from mirage.array_types import Floats
from mirage.schedule.scheduler_contract import GpuAction, GpuPlan, GpuPreempt, GpuStart, GpuView, How, JobStatus, Places
from mirage.schedule.speeds.speed_arrays import Speeds
from mirage.schedule.speeds.speed_law import speed

_ANY_POOL = -1

CHECK_AGAIN_S = 1.0
"""A job that leaves at a checkpoint may have reached it just now: the scheduler is called again after this time."""


class ExchangePlan:
    """A plan while it is made.

    Attributes:
        view: The view that the plan is for.
        speeds: The speeds of the world.
        gpus_for_one: GPUs of each type in place of one requested GPU.
        now: GPUs of each server that are free at once, less those of starts and reservations.
        later: The same, with those of jobs that are leaving.
        left_s: Expected remaining run time of each job; of a waiting one with the cost of its start.
        ends: Expected ends of the jobs that hold GPUs and are not leaving.
        actions: The actions so far.
    """

    def __init__(self, view: GpuView, speeds: Speeds, gpus_for_one: Sequence[int]) -> None:
        self.view, self.speeds, self.gpus_for_one = view, speeds, gpus_for_one
        self._gpu_type, self._pool = view.servers.gpu_type.tolist(), view.servers.pool.tolist()
        self._held = view.held
        self.now: list[int] = view.servers.free.tolist()
        self.later = list(self.now)
        status = view.jobs.status
        for k in np.flatnonzero((status == JobStatus.STOPPING) | (status == JobStatus.SAVING)).tolist():
            self._give(self.later, self.places(k))
        self.left_s = view.jobs.left_s + np.where(view.jobs.pending, start_costs_s(view), 0.0)
        self.ends = Ends.of(view)
        self.actions: list[GpuAction] = []
        self._wake = False

    def places(self, k: int) -> dict[int, int]:
        """Server → GPUs that a job holds."""
        return self._held.of(k)

    def later_gpus(self, k: int) -> int:
        """GPUs in the pool of a job that are or will be free."""
        pool = int(self.view.jobs.pool[k])
        return sum(free for free, of in zip(self.later, self._pool) if pool in (_ANY_POOL, of))

    def start(self, k: int, reason: str) -> bool:
        """Start a waiting job on GPUs that are free at once; False if it does not fit."""
        places = self._pack(k, self.now)
        if places is None:
            return False
        left_s = float(self.left_s[k])
        self.ends.add(left_s, int(self.view.jobs.gpus[k]))
        for server, gpus in places.items():
            self.now[server] -= gpus
            self.later[server] -= gpus
        self.actions.append(
            GpuStart(int(self.view.jobs.id[k]), places, reason=reason, estimate_s=self.view.now_s + left_s)
        )
        return True

    def reserve(self, k: int) -> bool:
        """Reserve GPUs that are or will be free for a waiting job; False if it does not fit."""
        places = self._pack(k, self.later)
        if places is None:
            return False
        for server, gpus in places.items():
            self.later[server] -= gpus
            self.now[server] = min(self.now[server], self.later[server])
        return True

    def victims(self, k: int, candidates: Sequence[int]) -> list[int]:
        """The candidates that make room for a job, taken in their order until it fits.

        Those that are not necessary are spared again. Those that come last in the order are spared first. The list is
        empty if all of them do not suffice.
        """
        free, taken = list(self.later), []
        spare, gpus = sum(free), int(self.view.jobs.gpus[k])
        for victim in candidates:
            self._give(free, self.places(victim))
            taken.append(victim)
            spare += int(self.view.jobs.held[victim])
            if spare >= gpus and self._pack(k, free) is not None:
                break
        else:
            return []
        for victim in reversed(taken[:-1]):
            self._take(free, self.places(victim))
            if self._pack(k, free) is not None:
                taken.remove(victim)
            else:
                self._give(free, self.places(victim))
        return taken

    def preempt(self, k: int, how: How, reason: str, needed_gpus: int | None = None) -> None:
        """Preempt a running job; its GPUs are free at once if it has nothing to wait for."""
        jobs = self.view.jobs
        places = self.places(k)
        self._give(self.later, places)
        if self._leaves_at_once(k, how):
            self._give(self.now, places)
        self.ends.remove(k)
        self.actions.append(GpuPreempt(int(jobs.id[k]), how, needed_gpus, reason))

    def plan(self) -> GpuPlan:
        """The plan."""
        return GpuPlan(tuple(self.actions), self.view.now_s + CHECK_AGAIN_S if self._wake else None)

    def _leaves_at_once(self, k: int, how: How) -> bool:
        jobs = self.view.jobs
        if how == "kill" or jobs.status[k] != JobStatus.RUNNING or jobs.progress[k] == jobs.safe_progress[k]:
            return True
        if how == "save":
            return bool(jobs.save_s[k] == 0.0)
        self._wake = True
        return False

    # -- packing, as the engine does -----------------------------------------------------------------------------------

    def _pack(self, k: int, free: Sequence[int]) -> Places | None:
        """GPUs for a waiting job on the fastest type where it fits; None if it fits on none."""
        jobs = self.view.jobs
        requested, pool, model = int(jobs.gpus[k]), int(jobs.pool[k]), int(jobs.model[k])
        if sum(free) < requested:
            return None
        best, fastest = None, 0.0
        for gpu_type, each in enumerate(self.gpus_for_one):
            if not int(jobs.types[k]) >> gpu_type & 1:
                continue
            gpus = requested * each
            places = self._pack_on(gpu_type, pool, gpus, free)
            if places is not None:
                rate = speed(
                    self.speeds, model, gpu_type, len(places), gpus, int(jobs.batch[k]), float(jobs.progress[k])
                )
                if rate > fastest:
                    best, fastest = places, rate
        return best

    def _pack_on(self, gpu_type: int, pool: int, gpus: int, free: Sequence[int]) -> dict[int, int] | None:
        """The tightest server; else as few servers as possible, the emptiest first."""
        open_to = [
            (here, server)
            for server, here in enumerate(free)
            if here > 0 and self._gpu_type[server] == gpu_type and pool in (_ANY_POOL, self._pool[server])
        ]
        wide = [entry for entry in open_to if entry[0] >= gpus]
        if wide:
            return {min(wide)[1]: gpus}
        if sum(here for here, _ in open_to) < gpus:
            return None
        places, left = {}, gpus
        open_to.sort(key=lambda entry: (-entry[0], entry[1]))
        for at, (here, server) in enumerate(open_to):
            if here >= left:
                _, server = min(entry for entry in open_to[at:] if entry[0] >= left)
                places[server] = left
                return places
            places[server] = here
            left -= here
        return None

    @staticmethod
    def _give(free: list[int], places: Places) -> None:
        for server, gpus in places.items():
            free[server] += gpus

    @staticmethod
    def _take(free: list[int], places: Places) -> None:
        for server, gpus in places.items():
            free[server] -= gpus


class Ends:
    """Expected ends of jobs, and the start of a waiting job when enough of them have ended."""

    def __init__(self, left_s: list[float], gpus: list[int], index: list[int]) -> None:
        self._left_s, self._gpus, self._index = left_s, gpus, index

    @classmethod
    def of(cls, view: GpuView) -> Ends:
        """The ends of running jobs; jobs that are leaving are not among them."""
        jobs = view.jobs
        rows = np.flatnonzero((jobs.status == JobStatus.RUNNING) | (jobs.status == JobStatus.STARTING))
        pause_s = np.nan_to_num(jobs.paused_until_s[rows] - view.now_s)
        return cls((jobs.left_s[rows] + pause_s).tolist(), jobs.held[rows].tolist(), rows.tolist())

    def add(self, left_s: float, gpus: int) -> None:
        """A job starts."""
        self._left_s.append(left_s)
        self._gpus.append(gpus)
        self._index.append(-1)

    def remove(self, k: int) -> None:
        """A job is preempted."""
        at = self._index.index(k)
        del self._left_s[at], self._gpus[at], self._index[at]

    def start_s(self, gpus: int, free: int) -> float:
        """Seconds until a number of GPUs is free; infinite if it never is.

        GPUs are only counted, of all types and pools.
        """
        start_s = 0.0
        for left_s, freed in sorted(zip(self._left_s, self._gpus)):
            if free >= gpus:
                break
            free += freed
            start_s = left_s
        return start_s if free >= gpus else math.inf


def start_costs_s(view: GpuView) -> Floats:
    """The expected cost of the next start of every job."""
    jobs = view.jobs
    costs: Floats = np.where(np.isnan(jobs.start_s), jobs.first_start_s, jobs.restart_s)
    return costs
