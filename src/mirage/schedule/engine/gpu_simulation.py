"""Simulation of a GPU cluster under a scheduler, and the views that the scheduler gets."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mirage.errors import ConfigurationError, ContractBroken, PlanInfeasible, quantity, shown
from mirage.kernel.record_arrays import records
from mirage.schedule.engine.compiled_scheduler import CompiledScheduler
from mirage.schedule.engine.gpu_log import GpuLog
from mirage.schedule.engine.gpu_world import (
    Demand,
    KnownRunTimes,
    LifeCosts,
    make_plan_buffer,
    make_state,
    make_world,
)
from mirage.schedule.engine.kernel.current_amounts import (
    ATTAINED,
    CHECKPOINT,
    COLUMNS,
    DONE,
    PROGRESS,
    RUN,
    SAFE,
)
from mirage.schedule.engine.kernel.gpu_arrays import (
    ACTION,
    ALL_OVER,
    LIVELOCK,
    NEEDS_PLAN,
    NEEDS_ROOM,
    PLACE,
    REACHED,
    START,
    STUCK,
    TICK_S,
    WAKES_TOO_SOON,
    GpuState,
    GpuWorld,
)
from mirage.schedule.engine.kernel.gpu_event_loop import advance
from mirage.schedule.engine.kernel.python_calls import amounts_now, external_scheduler, placements_now
from mirage.schedule.engine.plan_rows import REFUSAL_REASONS, plan_rows
from mirage.schedule.gpu_cluster import GpuCluster
from mirage.schedule.scheduler_contract import (
    ActiveJobs,
    Event,
    GpuAction,
    GpuPlan,
    GpuScheduler,
    GpuView,
    Held,
    Refusal,
    Servers,
    Surroundings,
)
from mirage.schedule.speeds.speed_arrays import Speeds
from mirage.schedule.workload.gpu_jobs import GpuJobs

"""Rows of the plan buffer in addition to those by job and by GPU; it is enlarged for larger plans in Python."""

_ALL_BUT_PROGRESS = int(Event.SUBMITTED | Event.ENDED | Event.LEFT | Event.SERVERS)


class GpuSimulation:
    """A GPU cluster in simulated time.

    Args:
        cluster: The servers.
        jobs: The workload.
        scheduler: A scheduler in Python, or a compiled one.
        speeds: Measured speeds of the jobs' models; by default all jobs are linear.
        costs: Costs of starts, changes of size and saves, and the interval of checkpoints.
        demand: Inference demand over time; jobs may not run in its pools, only on servers lent to their own pool.
        known: Run times that the scheduler knows; compiled schedulers that must know them always do.
        seed: Seed of the random costs.
        cost_spread: Coefficient of variation of costs; 0 for exactly the expected costs.
        force_after_s: Seconds of unmet demand after which inference takes lent servers by force, and kills jobs there;
            infinite for never.
        save_succeeds: Probability that a checkpoint on demand succeeds; if not, the job loses the work since its last
            regular one.
        strict: Raise if an action is refused.

    Raises:
        ConfigurationError: Cluster, jobs or scheduler is none; a job fits nowhere or has no speed; or a demand exceeds
            its pool, or is for a pool in which jobs may run.
    """

    def __init__(
        self,
        cluster: GpuCluster,
        jobs: GpuJobs,
        scheduler: GpuScheduler | CompiledScheduler,
        *,
        speeds: Speeds | None = None,
        costs: LifeCosts | None = None,
        demand: Sequence[Demand] = (),
        known: KnownRunTimes = "estimate",
        seed: int = 0,
        cost_spread: float = 0.0,
        force_after_s: float = 0.0,
        save_succeeds: float = 1.0,
        strict: bool = False,
    ) -> None:
        for what, given, kinds in (
            ("cluster", cluster, (GpuCluster,)),
            ("jobs", jobs, (GpuJobs,)),
            ("scheduler", scheduler, (CompiledScheduler, GpuScheduler)),
        ):
            if not isinstance(given, kinds):
                raise ConfigurationError(f"{what} must be a {kinds[-1].__name__}, got {shown(given)}")
        self.cluster, self.jobs, self.scheduler, self.strict = cluster, jobs, scheduler, strict
        compiled = scheduler if isinstance(scheduler, CompiledScheduler) else CompiledScheduler("", external_scheduler)
        if compiled.knows_run_s:
            known = "run-time"
        self._world = make_world(
            cluster, jobs, speeds, costs or LifeCosts.of(jobs), demand, known, seed, cost_spread, save_succeeds
        )
        self._world.settings["force_after_s"] = force_after_s if math.isinf(force_after_s) else _in_ticks(force_after_s)
        self._state = make_state(self._world, len(cluster.pools))
        self._buffer = make_plan_buffer(
            compiled, len(self.jobs), len(self._world.gpus_of), int(self._world.gpus_of.sum())
        )
        self._function, self._reasons = compiled.function, list(compiled.reasons)
        self._set_call_times()
        self._viewer = Viewer(self._world, self._state)
        self._requested: tuple[GpuAction, ...] = ()
        self.policy_s: list[tuple[float, int, float]] = []
        """Per decision in Python: simulated time, number of active jobs, and processor seconds."""
        begin = getattr(scheduler, "begin", None)
        if begin is not None:
            begin(self._surroundings())

    @property
    def now_s(self) -> float:
        """The current simulated time."""
        return float(self._state.clock[0]["now_s"])

    def run(self, until_s: float = math.inf) -> GpuLog:
        """Advance time as ``advance`` does; returns the log so far."""
        self.advance(until_s)
        return self.log()

    def advance(self, until_s: float = math.inf) -> None:
        """Advance time until nothing is left to happen, or until ``until_s``.

        Raises:
            PlanInfeasible: An action was refused, in strict mode; or jobs wait and the scheduler starts none of them;
                or livelock: it removes jobs from their GPUs again and again before they have gained anything there.
            ContractBroken: The scheduler does not return a plan, or requests a call at a time that is not later than
                now.
        """
        clock = self._state.clock
        limit_s = until_s if math.isinf(until_s) else math.floor(until_s / TICK_S) * TICK_S
        while True:
            result = advance(self._world, self._state, self._buffer, self._function, limit_s)
            self._check_refused()
            if result == NEEDS_ROOM:
                self._enlarge()
            elif result == NEEDS_PLAN:
                self._decide()
            elif result == STUCK:
                raise PlanInfeasible(self._why_stuck())
            elif result == LIVELOCK:
                times = int(clock[0]["without_progress"])
                raise PlanInfeasible(
                    f"at {self.now_s:.0f} s {self._name} has removed jobs from their GPUs {times} times in a row "
                    "before any of their work there was safe, and would continue indefinitely; let jobs stay longer "
                    "than a restart takes (round_s), save before they leave (preempt=save), or write checkpoints"
                )
            elif result == WAKES_TOO_SOON:
                self._wake_at(float(clock[0]["wake_s"]))
            elif result in (REACHED, ALL_OVER):
                return

    def view(self, refused: tuple[Refusal, ...] = ()) -> GpuView:
        """The view for a scheduler now; valid until time advances."""
        return self._viewer.view(refused)

    def log(self) -> GpuLog:
        """The log of all events so far."""
        return GpuLog.of(self.cluster, self.jobs, self._world, self._state, self._reasons)

    # -- calls of the scheduler --------------------------------------------------------------------------------------

    def _surroundings(self) -> Surroundings:
        return Surroundings(
            gpu_types=self.cluster.gpu_types,
            pools=self.cluster.pools,
            servers=self.cluster.server_names,
            models=self.jobs.models,
            speeds=self._world.speeds,
            jobs=len(self.jobs),
            gpus_for_one=tuple(self._world.gpus_for_one.tolist()),
        )

    def _set_call_times(self) -> None:
        settings = self._world.settings
        round_s = getattr(self.scheduler, "round_s", None)
        called_on = getattr(self.scheduler, "called_on", None)
        if round_s is not None:
            settings["round_s"] = max(_in_ticks(round_s), TICK_S)
        default = _ALL_BUT_PROGRESS if round_s is None else 0
        settings["called_on"] = default if called_on is None else int(called_on)

    def _decide(self) -> None:
        clock = self._state.clock
        if isinstance(self.scheduler, CompiledScheduler) and self.scheduler.answer is not None:
            began_s = time.process_time()
            self.scheduler.answer(self._world, self._state, self._buffer)
            self.policy_s.append((self.now_s, int(clock[0]["n_live"]), time.process_time() - began_s))
            return
        view = self._viewer.view(self._refused())
        began_s = time.process_time()
        plan = self.scheduler.decide(view)  # type: ignore[union-attr]
        if not isinstance(plan, GpuPlan):
            raise ContractBroken(
                f"{self._name} returns {shown(plan)}; let decide return a GpuPlan, an empty one to wait"
            )
        self.policy_s.append((view.now_s, len(view.jobs), time.process_time() - began_s))
        clock["happened"] = 0
        clock["n_news"] = 0
        self._requested = plan.actions
        if plan.wake_s is not None:
            self._wake_at(plan.wake_s)
        if plan.actions:
            self._write_plan(plan)

    def _wake_at(self, time_s: float) -> None:
        """Set the time of the next call; one that is not later than now would livelock."""
        if not time_s > self.now_s:
            raise ContractBroken(
                f"at {self.now_s} s {self._name} requests its next call at {time_s} s; "
                "let it give a later time as wake_s, or None"
            )
        self._state.clock["wake_s"] = time_s if math.isinf(time_s) else math.ceil(time_s / TICK_S) * TICK_S

    @property
    def _name(self) -> str:
        """The name of the scheduler in messages."""
        return str(getattr(self.scheduler, "name", type(self.scheduler).__name__))

    def _write_plan(self, plan: GpuPlan) -> None:
        rows = plan_rows(plan, len(self._reasons))
        self._reasons += rows.reasons
        n, places = len(rows.actions), len(rows.places)
        gpus = int(self._world.gpus_of.sum())
        buffer = self._buffer
        if n > len(buffer.plan) or 4 * gpus + places + n > len(buffer.places):
            self._buffer = buffer = buffer._replace(
                plan=records(ACTION, max(2 * n, len(buffer.plan))),
                places=records(PLACE, max(2 * (4 * gpus + places + n), len(buffer.places))),
            )
        buffer.plan[:n] = rows.actions
        buffer.places[:places] = rows.places
        self._state.clock["planned"] = n

    def _refused(self) -> tuple[Refusal, ...]:
        codes = self._buffer.plan["refused"][: len(self._requested)]
        return tuple(
            Refusal(self._requested[k], REFUSAL_REASONS[int(codes[k])]) for k in np.flatnonzero(codes).tolist()
        )

    def _check_refused(self) -> None:
        if not self.strict:
            return
        state = self._state
        n = int(state.clock[0]["n_decisions"])
        wrong = np.flatnonzero(state.decisions["refused"][self._checked : n]) + self._checked
        self._checked = n
        if len(wrong):
            row = state.decisions[int(wrong[0])]
            raise PlanInfeasible(
                f"at {row.time_s:.3f} s action {_KINDS[int(row.kind)]} of {int(row.id)} was refused: "
                f"{REFUSAL_REASONS[int(row.refused)]}; fix the scheduler, or run it without strict"
            )

    _checked = 0

    def _why_stuck(self) -> str:
        """The message when jobs would wait indefinitely.

        It names one of them, and the reason why its last start was refused.
        """
        clock, jobs = self._state.clock[0], self.jobs
        live, decisions = self._state.live[: int(clock["n_live"])], self._state.decisions[: int(clock["n_decisions"])]
        refused = decisions[(decisions.refused > 0) & (decisions.kind == START) & np.isin(decisions.id, live.id)]
        k, reason = int(live.id[0]), "no plan starts it; let the scheduler start what fits, or leave the job out"
        for last in refused[-1:]:
            k, why = int(last.id), REFUSAL_REASONS[int(last.refused)]
            reason = f"at {last.time_s:.0f} s its start was refused: {why}; fix the scheduler, or leave the job out"
        model = f" and has model {jobs.models[jobs.model[k]]}" if jobs.model[k] in range(len(jobs.models)) else ""
        return (
            f"at {self.now_s:.0f} s {clock['n_pending']} jobs wait, nothing runs, and {self._name} starts none of "
            f"them: job {jobs.name[k]!r} requests {quantity(int(jobs.gpus[k]), 'GPU')}{model}, and {reason}"
        )

    # -- room --------------------------------------------------------------------------------------------------------

    def _enlarge(self) -> None:
        """Grow the logs without room for the next events, or for the plan to be applied."""
        clock, state = self._state.clock[0], self._state
        events = 2 * int(clock["planned"]) + 1  # what ``apply_planned_actions`` and ``process_due_events`` need
        rooms = {
            "segments": events,
            "placement_rows": len(state.chunks),
            "phases": events,
            "decisions": events,
            "loans": events,
        }
        logs = {name: (getattr(state, name), int(clock[f"n_{name}"]), room) for name, room in rooms.items()}
        grown: dict[str, Any] = {
            name: _grown(log, used + room) for name, (log, used, room) in logs.items() if used + room > len(log)
        }
        if 2 * clock["n_news"] > len(state.news):
            grown["news"] = np.concatenate([state.news, np.zeros_like(state.news)])
        self._state = state._replace(**grown)


_KINDS = ("start", "resize", "preempt", "cancel", "lend", "return")


def _in_ticks(seconds: float) -> float:
    return round(seconds / TICK_S) * TICK_S


def _grown(log: Any, least: int) -> Any:
    larger = records(log.dtype, max(2 * len(log), 2 * least))
    larger[: len(log)] = log
    return larger


class Viewer:
    """Makes views of one simulation."""

    def __init__(self, world: GpuWorld, state: GpuState) -> None:
        jobs, gpus = len(world.jobs), int(world.gpus_of.sum())
        self._amounts = np.zeros((COLUMNS, jobs))
        self._first = np.zeros(jobs + 1, np.int64)
        self._placements = np.zeros((2, gpus), np.int64)
        self._world, self._state = world, state
        self._live, self._columns = _locked(state.live), _locked(self._amounts)
        self._servers = Servers(
            gpu_type=_locked(world.type_of),
            gpus=_locked(world.gpus_of),
            free=_locked(state.free),
            pool=_locked(state.pool_of),
            home=_locked(world.home_of),
            lent_until_s=_locked(state.lent_until_s),
            wanted=_locked(state.wanted),
            wanted_soon=_locked(state.wanted_soon),
            wanted_from_s=_locked(state.wanted_from_s),
        )

    def view(self, refused: tuple[Refusal, ...]) -> GpuView:
        """The present view."""
        amounts_now(self._state, self._amounts)
        clock = self._state.clock[0]
        return GpuView(float(clock["now_s"]), self._jobs(int(clock["n_live"])), self._servers, refused, self._held)

    def _jobs(self, n: int) -> ActiveJobs:
        live, amounts = self._live[:n], self._columns[:, :n]
        return ActiveJobs(
            id=live["id"],
            submit_s=live["submit_s"],
            model=live["model"],
            gpus=live["gpus"],
            min_gpus=live["min_gpus"],
            max_gpus=live["max_gpus"],
            pool=live["pool"],
            types=live["types"],
            status=live["status"],
            run_s=amounts[RUN],
            done=amounts[DONE],
            progress=amounts[PROGRESS],
            safe_progress=amounts[SAFE],
            attained_gpu_s=amounts[ATTAINED],
            held=live["held"],
            servers=live["servers"],
            gpu_type=live["gpu_type"],
            batch=live["batch"],
            start_s=live["start_s"],
            paused_until_s=live["expected_until_s"],
            restarts=live["restarts"],
            preemptions=live["preemptions"],
            queued_since_s=live["queued_since_s"],
            checkpoint_work=amounts[CHECKPOINT],
            first_start_s=live["first_start_s"],
            restart_s=live["restart_s"],
            rescale_s=live["rescale_s"],
            save_s=live["save_s"],
        )

    def _held(self) -> Held:
        n = int(self._state.clock[0]["n_live"])
        places = placements_now(self._state, self._first, self._placements[0], self._placements[1])
        placements = _locked(self._placements)
        return Held(_locked(self._first)[: n + 1], placements[0, :places], placements[1, :places])


def _locked(array: NDArray[Any]) -> NDArray[Any]:
    """A read-only view of the same memory."""
    shown = array.view(np.ndarray)
    shown.flags.writeable = False
    return shown
