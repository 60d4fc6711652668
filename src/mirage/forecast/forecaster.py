"""Forecaster: when the next link starts, from simulated futures of the visible queue.

Two parts of the queue are not in view and are estimated first: jobs that only a limit of their user holds, which
compete in every future, and priority offsets (``priority_offsets``). Where fair-share counts, use goes on in every
future, and priorities follow it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from mirage.array_types import Ints
from mirage.duration import DAY_S, HOUR_S, MINUTE_S
from mirage.errors import ConfigurationError, PlanInfeasible
from mirage.forecast.past_arrivals import Arrivals, past_arrivals
from mirage.forecast.priority_offsets import PriorityOffsets
from mirage.forecast.rollout_kernel import FutureDraws, leave_queue, most_arrivals, roll_out
from mirage.forecast.run_times import RunTimes, chances
from mirage.forecast.use_history import HistoryRunTimes
from mirage.job_state import MISSING
from mirage.kernel.random import uniform
from mirage.kernel.record_arrays import Records, empty_records, records
from mirage.policy.start_forecast import StartForecast
from mirage.policy.view import ChainView, View
from mirage.sim.cluster import Limit
from mirage.sim.contract.from_view import revive
from mirage.sim.disciplines.discipline_registry import discipline_spec
from mirage.sim.kernel.allocate import copy_state, empty_like, enlarged, make_scratch
from mirage.sim.kernel.arrays import (
    NEEDS_POLICY,
    NEVER_S,
    NO_JOB,
    REACHED,
    REFUSED_PLAN,
    REQUEST,
    SEGMENT,
    Scratch,
    State,
)
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings
from mirage.sim.workload import link_record

DAYS_AHEAD = 3
"""Days for which arrivals are drawn; a link that waits longer competes with no new jobs."""

BEYOND_S = 2 * DAY_S
"""Futures are cut off this long after the end of the present link: by then the next link is late in any case."""

ANCHORS = 3
"""One delay out of this number is always simulated."""

RANKED_EVERY_S, PLANNED_EVERY_S = HOUR_S, 10 * MINUTE_S
"""Minimum intervals between computations of priorities and plans of the queue. Apart from the cap on age, waiting jobs
stay in the same order; on 60 moments of the Lonestar6 trace forecasts that plan every 30 s are no better (CRPS 1.25 h
both), and cost twice as much."""

RANKED_A_LIMIT = 12
"""Minimum number of computations of priorities within the time limit of a link where fair-share counts: the use of its
present link then changes the order. The ranks of links of 12 hours or more are computed every hour."""


class Forecaster:
    """Simulates futures of the visible queue and returns when the next link starts.

    Args:
        futures: Number of futures.
        seed: Seed of the futures; the same seed and view give the same starts.
        discipline: The cluster's queue discipline.
        scheduler: The parameters of its scheduler; None for Slurm's defaults.
        limits: Limits on running jobs; those by account, QOS, partition or GPUs are not modelled. Jobs held by the
            others compete as soon as these allow it, and so do jobs yet to be submitted.
        arrivals: Whether jobs yet to be submitted are drawn; otherwise no new jobs arrive.
        run_times: Source of run times; None for the view's own history.
        threads: Number of threads; the starts do not depend on it.

    Raises:
        ConfigurationError: There is no future or no thread, or the scheduler's parameters have another type.
        UnknownName: There is no such discipline.
    """

    def __init__(
        self,
        futures: int,
        *,
        seed: int = 0,
        discipline: str = "slurm",
        scheduler: SlurmSettings | None = None,
        limits: Sequence[Limit] = (),
        arrivals: bool = True,
        run_times: RunTimes | None = None,
        threads: int = 1,
    ) -> None:
        if not isinstance(scheduler, SlurmSettings | None):
            raise ConfigurationError(f"the scheduler's parameters must be SlurmSettings, got {scheduler!r}")
        if futures < 1 or threads < 1:
            raise ConfigurationError(f"a forecast needs a future and a thread, got {futures} and {threads}")
        self.futures, self.seed, self.arrivals, self.threads = futures, seed, arrivals, threads
        self.spec = discipline_spec(discipline)
        self.scheduler = scheduler or SlurmSettings()
        self.seldom = replace(self.scheduler, bf_interval_s=max(self.scheduler.bf_interval_s, PLANNED_EVERY_S))
        self.limits = foreseen(limits) if self.spec.limits else ()
        self.age_survives_hold = self.scheduler.retains_age(limits)
        self.run_times = run_times or HistoryRunTimes()

    def ranked_every_s(self, view: View) -> int:
        """The interval of computing priorities in the futures of a view."""
        every_s = RANKED_EVERY_S
        if view.chain is not None and self.scheduler.weight_fairshare > 0.0:
            every_s = min(every_s, view.chain.limit_s // RANKED_A_LIMIT)
        return max(self.scheduler.calc_period_s, every_s)

    def of(self, view: View) -> QueueFutures:
        """Returns futures of the queue in a view; they serve every chain in it."""
        return QueueFutures(self, view)

    def forecast(self, view: View, delays_s: Ints, beyond_s: int = BEYOND_S) -> StartForecast:
        """Forecasts when the next link of the view's chain starts, see ``QueueFutures.play``.

        Raises:
            ConfigurationError: The view has no chain, or as for ``play``.
            PlanInfeasible: The discipline's plan is infeasible.
        """
        if view.chain is None:
            raise ConfigurationError("the view has no chain to forecast; use sim.view(chain)")
        return self.of(view).play(view.chain, delays_s, view.chain.ends_s + beyond_s)


class QueueFutures:
    """The queue of one view, rebuilt for simulation, with the draws for every future.

    Args:
        forecaster: Parameters of the futures.
        view: The queue.
    """

    def __init__(self, forecaster: Forecaster, view: View) -> None:
        self._source, self._forecaster, self.spec, self.threads = view, forecaster, forecaster.spec, forecaster.threads
        self._ranked_every_s = forecaster.ranked_every_s(view)
        waiting = len(view.pending)
        self.view = view = with_limited(view, forecaster.limits)
        self.uses = forecaster.run_times.uses(view)
        self.chances = chances(view, forecaster.futures, forecaster.seed)
        self.past = past_arrivals(view)
        self.days = _days(self.past, forecaster) if forecaster.arrivals else np.zeros((forecaster.futures, 1), np.int64)
        arrivals = most_arrivals(self.past.jobs, self.days, view.now_s)
        scheduler = forecaster.scheduler
        self.offsets, self.seed = PriorityOffsets(view, scheduler), forecaster.seed
        self.world, self.observed, scratch = revive(
            view,
            self.spec,
            replace(forecaster.seldom, calc_period_s=self._ranked_every_s),
            arrivals,
            view.phase_s,
            forecaster.limits,
            self.offsets.fair_share,
        )
        self._scratch = [scratch, *(self._fresh_scratch() for _ in range(1, self.threads))]
        self.age_survives_hold = forecaster.age_survives_hold
        pending, offset = view.pending.user, self.observed.live.priority_offset[: len(view.pending)]
        offset[:] = self.offsets.of_waiting(view.pending, offset)
        offset[waiting:] = self.offsets.of_users(pending[waiting:])
        offset -= self.offsets.by_rank(pending)  # the simulation adds the part of the rank, as use goes on
        arriving = self.past.jobs.user
        self.past.jobs.priority_offset = self.offsets.of_users(arriving) - self.offsets.by_rank(arriving)
        self._ids = np.concatenate([view.pending.id, view.running.id])

    def are_of(self, view: View) -> bool:
        """Whether they belong to a view: same queue, moment and ranking, whatever the chain."""
        source = self._source
        return (
            source.now_s == view.now_s
            and source.nodes is view.nodes
            and source.pending is view.pending
            and source.running is view.running
            and (not len(self.world.limits) or source.held is view.held)
            and self._ranked_every_s == self._forecaster.ranked_every_s(view)
        )

    def play(self, chain: ChainView, delays_s: Ints, until_s: int) -> StartForecast:
        """Simulates every future with the next link of a chain submitted after each delay.

        A link that is already queued is released after each delay, with its age and time limit, and held until then: a
        delay of 0 means to release it now, or to leave it competing. Where holding costs a job its age, a competing
        link has no age after any other delay.

        Args:
            chain: The chain; its present link is certain to run until its limit.
            delays_s: Shape (delays,), ascending from 0.
            until_s: When the futures are cut off.

        Raises:
            ConfigurationError: The delays do not ascend from 0, or the discipline queries a policy.
            PlanInfeasible: The discipline's plan is infeasible.
        """
        competes = chain.queued is not None and chain.queued.accrues_s != MISSING and not self._is_held(chain)
        if self.age_survives_hold or not competes:
            return self._played(chain, NO_JOB, delays_s, until_s)
        assert chain.queued is not None
        stays = self._played(chain, NO_JOB, np.zeros(1, dtype=np.int64), until_s)
        anew = self._played(replace(chain, queued=replace(chain.queued, accrues_s=MISSING)), NO_JOB, delays_s, until_s)
        return replace(anew, starts_s=np.hstack([stays.starts_s, anew.starts_s[:, 1:]]))

    def _is_held(self, chain: ChainView) -> bool:
        return chain.queued is not None and (chain.queued.held or chain.queued.begins_s > self.view.now_s)

    def play_pending(self, job: int, until_s: int) -> StartForecast:
        """Simulates every future and returns when a pending job of the view starts.

        For an array that waits as one job, this is the first task.

        Args:
            job: Its id among the view's pending jobs.
            until_s: When the futures are cut off.

        Raises:
            ConfigurationError: The view has no such pending job, or the discipline queries a policy.
            PlanInfeasible: The discipline's plan is infeasible.
        """
        rows = np.flatnonzero(self.view.pending.id == job)
        if not len(rows):
            raise ConfigurationError(f"job {job} is not among the pending jobs in view; only those can be forecast")
        pending, row, now_s = self.view.pending, int(rows[0]), self.view.now_s
        chain = ChainView(
            int(pending.nodes[row]), int(pending.limit_s[row]), MISSING, int(pending.submit_s[row]), MISSING, now_s, 0
        )
        return self._played(chain, row, np.zeros(1, dtype=np.int64), until_s)

    def _played(self, chain: ChainView, waiting: int, delays_s: Ints, until_s: int) -> StartForecast:
        """Returns starts of the next link, or of the job in a slot that is already waiting."""
        delays_s = np.ascontiguousarray(delays_s, dtype=np.int64)
        if (np.diff(delays_s, prepend=0) < 0).any():
            raise ConfigurationError(f"delays must ascend from 0, got {delays_s.tolist()}; sort them")
        starts_s = np.zeros((len(self.days), len(delays_s)), dtype=np.int64)
        anchors = np.arange(len(delays_s)) % ANCHORS == 0
        anchors[-1:] = True
        link = np.repeat(_link(chain, len(self._ids) + len(self.world.jobs)), len(self.days)).view(np.recarray)
        link.priority_offset = self.offsets.of_link(chain, len(self.days), self.seed)
        link.priority_offset -= self.offsets.by_rank(np.array([chain.user]))
        link.user = min(chain.user, len(self.world.user_account) - 1)
        present = np.flatnonzero(self._ids == chain.predecessor)
        present_slot = int(present[0]) if len(present) else NO_JOB

        def play(part: slice, scratch: Scratch) -> int:
            world = self.world._replace(jobs=records(REQUEST, len(self.world.jobs)))  # for the arrivals of each future
            draws = FutureDraws(
                self.uses.samples, self.uses.stretch, self.chances[part], self.past.jobs, self.past.again,
                self.days[part], present_slot, self.view.now_s,
            )  # fmt: skip
            return roll_out(
                world, observed, _like(observed), _like(observed), scratch, self.spec.load(), draws,
                np.zeros(2, dtype=np.int64), link[part], waiting, delays_s, anchors, until_s, starts_s[part],
            )  # fmt: skip

        while True:
            observed = self._observed_without(chain)
            ends = {answer for answer in self._in_threads(play, len(self.days)) if answer != REACHED}
            if not ends:
                return StartForecast(self.view.now_s, chain.ends_s, delays_s, starts_s, until_s)
            if NEEDS_POLICY in ends:
                raise ConfigurationError(f"{self.spec.entry} queries a policy, and a forecast has none")
            if REFUSED_PLAN in ends:
                raise PlanInfeasible(f"{self.spec.entry} made an infeasible plan in a forecast for {chain}")
            self.observed = enlarged(self.observed)
            self._scratch = [self._fresh_scratch() for _ in range(self.threads)]

    def _observed_without(self, chain: ChainView) -> State:
        """Returns the cluster of the view, without the queued link of a chain if that competes."""
        if chain.queued is None:
            return self.observed
        place = np.flatnonzero(self.view.pending.id == chain.queued.job)
        if not len(place):
            return self.observed
        observed = empty_like(self.observed)
        copy_state(observed, self.observed)
        leave_queue(observed, int(place[0]))
        return observed

    def _fresh_scratch(self) -> Scratch:
        return make_scratch(self.world, len(self.observed.live), self.spec.scratch_rows)

    def _in_threads(self, play: Callable[[slice, Scratch], int], futures: int) -> list[int]:
        """Returns the result of ``play`` for every thread's part of the futures."""
        if self.threads == 1:
            return [play(slice(0, futures), self._scratch[0])]
        cuts = np.linspace(0, futures, self.threads + 1).astype(int).tolist()
        with ThreadPoolExecutor(self.threads) as pool:
            return list(pool.map(play, map(slice, cuts[:-1], cuts[1:]), self._scratch))


def _days(past: Arrivals, forecaster: Forecaster) -> Ints:
    """Returns the age in days of each future day's model day, shape (futures, days ahead).

    0 where there is none.
    """
    future = np.arange(forecaster.futures, dtype=np.uint64)[:, None]
    drawn = uniform(forecaster.seed, future, np.arange(DAYS_AHEAD, dtype=np.uint64), 4)
    days: Ints = np.where(past.days > 0, 1 + (drawn * past.days).astype(np.int64), 0)
    return days


def _like(state: State) -> State:
    """Arrays as large as a state's, with a log for all jobs that can end at once.

    Segments are not stored.
    """
    log = empty_records(SEGMENT, 2 * len(state.live) + 2).view(np.recarray)
    return empty_like(state)._replace(log=log)


def _link(chain: ChainView, job_id: int) -> Records:
    """Returns the next link of a chain; a queued one has its present limit and age."""
    queued = chain.queued
    limit_s = chain.limit_s if queued is None else queued.limit_s
    link = link_record(job_id, nodes=chain.nodes, limit_s=limit_s, gpus=chain.gpus, cpus=chain.cpus, user=chain.user)
    link.partition = chain.partition
    link.eligible_s = NEVER_S
    if queued is not None and queued.accrues_s != MISSING:
        link.submit_s, link.eligible_s = queued.submitted_s, queued.accrues_s
    return link


def foreseen(limits: Sequence[Limit]) -> tuple[Limit, ...]:
    """Returns the limits that a forecast can model.

    These are limits on jobs and nodes, of every user or of all together, regardless of QOS. A view identifies
    users, accounts, QOS and partitions by numbers, without the names that limits use.
    """
    return tuple(
        limit
        for limit in limits
        if limit.per in ("user", "all")
        and limit.gpus is None
        and not (limit.qos or limit.partitions or limit.of_association)
    )


def with_limited(view: View, limits: Sequence[Limit]) -> View:
    """Returns the view with jobs held by a limit appended to the pending ones.

    Held jobs of a user who is below the limits are held for another reason, and stay held.

    Args:
        view: The queue.
        limits: Limits from ``foreseen``.
    """
    held = view.held
    if not len(held) or not limits:
        return view
    limited = np.zeros(len(held), dtype=bool)
    for limit in limits:
        limited |= _is_over(limit, view)
    if not limited.any():
        return view
    aged_s = np.where(held.eligible_s >= 0, held.eligible_s, held.submit_s)
    waiting = replace(held[limited], eligible_s=aged_s[limited])
    return replace(view, pending=view.pending.before(waiting), held=held[~limited])


def _is_over(limit: Limit, view: View) -> NDArray[np.bool_]:
    """Returns which held jobs would exceed a limit if they were started now."""
    running, held = view.running, view.held
    per_user = 1 if limit.per == "user" else 0  # of all together: as if they were one user
    runner, waiter = running.user * per_user, held.user * per_user
    most = int(max(runner.max(initial=0), waiter.max(initial=0))) + 1
    count = np.bincount(runner, minlength=most)[waiter]
    nodes = np.bincount(runner, weights=running.width, minlength=most)[waiter]
    over: NDArray[np.bool_] = np.zeros(len(held), dtype=bool)
    if limit.jobs is not None:
        over |= count + 1 > limit.jobs
    if limit.nodes is not None:
        over |= nodes + held.nodes > limit.nodes
    return over
