"""The adviser: a scheduler decides on snapshots of a cluster, and nothing is changed."""

from __future__ import annotations

import json
import shlex
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mirage.control.begun_evictions import EVICT, RESIZE, why_over_budget
from mirage.control.check_control import check_pools
from mirage.control.control_view import (
    INFERENCE,
    TRAINING,
    ControlView,
    FirstSubmissions,
    control_view,
    view_after_evictions,
    view_with_loans,
)
from mirage.control.model_profiles import check_scheduler, profiles_of_nodes
from mirage.control.pools_file import Pools
from mirage.control.progress_files import ProgressFiles
from mirage.control.recording import record
from mirage.control.run_record import RunRecord
from mirage.control.steps import START, ControlStep, steps_of_plan
from mirage.control.verbs import command_of
from mirage.control.worker_jobs import only_holds
from mirage.errors import ConfigurationError, SlurmError
from mirage.schedule.scheduler_contract import GpuLend, GpuPlan, GpuPreempt, GpuReturn, GpuStart
from mirage.schedule.schedulers.view_schedulers import REMEMBERING, ViewDecider
from mirage.schedule.speeds.profiles import Profiles
from mirage.slurm.client import SlurmClient
from mirage.slurm.gpu_snapshot import GpuSnapshot, take_gpu_snapshot
from mirage.slurm.survey import FAIL
from mirage.slurm.text.gpu_nodes import GpuNode

KUEUE_OFFSET = "kueue.x-k8s.io/priority-boost"


@dataclass(frozen=True, slots=True)
class Advice:
    """What one snapshot leads to.

    Attributes:
        time_s: Time of the snapshot, in seconds since 1970.
        problem: Why nothing is decided; empty if it is.
        view: The view, without the loans of the plan; None with a problem.
        steps: What a controller would do.
        news: Which of the steps were not planned at the snapshot before.
    """

    time_s: int
    problem: str = ""
    view: ControlView | None = None
    plan: GpuPlan | None = None
    steps: tuple[ControlStep, ...] = ()
    news: tuple[bool, ...] = ()


@dataclass(slots=True)
class Account:
    """What a controller would have done since the adviser began.

    Attributes:
        snapshots: All snapshots.
        without_decision: Snapshots that failed or were empty: no action.
        steps: Steps by kind; a step that is planned at successive snapshots counts once.
        refused: Steps that would have been refused, by reason.
        started: Jobs to start that Slurm has started since by itself.
        started_after_s: Sum of the seconds until then.
    """

    snapshots: int = 0
    without_decision: int = 0
    steps: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    started: int = 0
    started_after_s: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """The account as JSON."""
        return {
            "snapshots": self.snapshots,
            "without_decision": self.without_decision,
            "steps": dict(sorted(self.steps.items())),
            "refused": dict(sorted(self.refused.items())),
            "started_by_slurm": self.started,
            "mean_s_until_slurm_started": self.started_after_s / self.started if self.started else None,
        }


class Adviser:
    """Decides on snapshots and changes nothing.

    Args:
        slurm: The cluster; only queries are sent.
        pools: The settings.
        recording: A folder for the views and plans; None for none.

    Attributes:
        account: What a controller would have done.

    Raises:
        ConfigurationError: The scheduler cannot decide on views of a real cluster, or lacks profiles.
    """

    def __init__(self, slurm: SlurmClient, pools: Pools, recording: Path | None = None) -> None:
        check_scheduler(pools)
        self.slurm, self.pools, self.recording = slurm, pools, recording
        self.account = Account()
        self._decider = ViewDecider(pools.scheduler, TRAINING)
        self._profiles: tuple[list[tuple[str, int]], Profiles | None] = ([], None)
        self._progress = ProgressFiles(pools.progress_file)
        self._first = FirstSubmissions()
        self._run = RunRecord(recording, pools, slurm.configuration) if recording is not None else None
        self._planned: frozenset[_Identity] = frozenset()
        self._advised_s: dict[tuple[int, int], int] = {}  # id and submission of jobs to start → since when
        self._stops: dict[str, deque[tuple[float, int]]] = {EVICT: deque(), RESIZE: deque()}

    def advise(self, time_s: float, snapshot_of_now: Callable[[], GpuSnapshot] | None = None) -> Advice:
        """The advice of now.

        A snapshot that fails or is empty leads to no action.

        Args:
            time_s: The present time, in seconds since 1970.
            snapshot_of_now: Returns the present snapshot, or raises a ``SlurmError``; by default Slurm is queried.

        Raises:
            ConfigurationError: The recording cannot be written, the profiles cannot be read, or the cluster lacks a
                node or a partition of the pools at the first decision.
        """
        self.account.snapshots += 1
        now_s = int(time_s)
        try:
            snapshot = take_gpu_snapshot(self.slurm, now_s) if snapshot_of_now is None else snapshot_of_now()
            if self.account.snapshots == self.account.without_decision + 1:
                _check(snapshot, self.pools)
            if not snapshot.jobs:
                return self._nothing(now_s, "squeue reports no job; nothing is decided")
            view = control_view(snapshot, self.pools, self._first, self._progress.read, self._profiles_of)
        except SlurmError as error:
            return self._nothing(now_s, str(error))
        except ConfigurationError as error:  # of the profiles, when Slurm reports other GPUs than at the beginning
            if self.account.snapshots == 1:
                raise
            return self._nothing(now_s, str(error))
        if self._run is not None:
            try:
                self._run.add(snapshot, self._first, view)
            except SlurmError as error:
                return self._nothing(now_s, str(error))
        plan, lent = self._decide(view)
        steps = steps_of_plan(plan, lent, self.pools)
        steps = tuple(step if _identity(step) in self._planned else self._within_budget(step, now_s) for step in steps)
        planned = [_identity(step) for step in steps]
        news = tuple(one not in self._planned for one in planned)
        self._planned = frozenset(planned)
        self._count(steps, news)
        self._compare_starts(lent, steps, now_s)
        return Advice(now_s, "", view, plan, steps, news)

    def count_stops(self, stops: Mapping[str, Iterable[tuple[float, int]]]) -> None:
        """Count evictions and resizes of a former controller in the budgets.

        Args:
            stops: By verb, time in seconds since 1970 and job of each, in order.
        """
        for kind, former in stops.items():
            self._stops[kind].extend(former)

    def _decide(self, view: ControlView) -> tuple[GpuPlan, ControlView]:
        """The plan for a view, and the view with the new loans of this plan.

        A scheduler uses what it lends or vacates at its next call, a moment later. The next snapshot is a poll away. So
        it decides at once again, on the view as it will then be; the starts are those of the second decision. A job
        that others leave for thus comes first in the queue before they leave: Slurm would start another one there.
        """
        plan = self._decide_once(view)
        if self.pools.scheduler in REMEMBERING:  # it uses at once what it vacates
            return plan, view
        lends = [action for action in plan.actions if isinstance(action, GpuLend)]
        evicted = [action.job for action in plan.actions if isinstance(action, GpuPreempt)]
        returns = any(isinstance(action, GpuReturn) for action in plan.actions)
        is_called_soon = plan.wake_s is not None and plan.wake_s - view.view.now_s < 1.0
        if evicted and not lends and not returns and not _on_lent_nodes(view, evicted):
            again = self._decide_once(view_after_evictions(view, evicted), "-after-evictions")
            starts = (action for action in again.actions if isinstance(action, GpuStart) and action.job not in evicted)
            return GpuPlan((*(a for a in plan.actions if not isinstance(a, GpuStart)), *starts), plan.wake_s), view
        if not lends or not is_called_soon or evicted or returns:
            return plan, view
        lent = view_with_loans(view, {lend.server: lend.until_s for lend in lends}, self.pools.promise_s)
        again = self._decide_once(lent, "-with-loans")
        others = (action for action in again.actions if not isinstance(action, GpuLend))
        return GpuPlan((*lends, *others), again.wake_s), lent

    def _decide_once(self, view: ControlView, suffix: str = "") -> GpuPlan:
        plan = self._decider.decide(view.view, view.surroundings, view.keys)
        if self.recording is not None:
            name = f"view-{self.account.snapshots:06d}{suffix}.json"
            record(self.recording / name, self.pools.scheduler, view, plan)
        return plan

    def _nothing(self, now_s: int, problem: str) -> Advice:
        self.account.without_decision += 1
        return Advice(now_s, problem)

    def _profiles_of(self, nodes: Sequence[GpuNode]) -> Profiles | None:
        kinds = [(node.gpu_type, node.gpus) for node in nodes]
        if self._profiles[0] != kinds:
            self._profiles = kinds, profiles_of_nodes(self.pools, nodes)
        return self._profiles[1]

    def _within_budget(self, step: ControlStep, now_s: int) -> ControlStep:
        """The step, refused if it stops a running job beyond the budget of the job or of the hour."""
        verb = next((verb for verb in step.verbs if verb.name in (EVICT, RESIZE)), None)
        if step.refused or verb is None or only_holds(verb.workers):
            return step
        stops = self._stops[verb.name]
        if why := why_over_budget(verb.name, verb.job, stops, self.pools, now_s):
            return replace(step, refused=why)
        stops.append((now_s, verb.job))
        return step

    def _count(self, steps: tuple[ControlStep, ...], news: tuple[bool, ...]) -> None:
        for step, new in zip(steps, news, strict=True):
            if new and step.refused:
                self.account.refused[step.refused] += 1
            elif new:
                self.account.steps[step.kind] += 1

    def _compare_starts(self, view: ControlView, steps: tuple[ControlStep, ...], now_s: int) -> None:
        """Find jobs to start that Slurm has started; forget those that have left the view."""
        known, self._advised_s = self._advised_s, {}
        starts = {step.subject for step in steps if step.kind == START and not step.refused}
        for job in view.jobs:
            key = (job.id, job.submit_s)
            if job.running and key in known:
                self.account.started += 1
                self.account.started_after_s += now_s - known[key]
            elif not job.running and (key in known or str(job.id) in starts):
                self._advised_s[key] = known.get(key, now_s)


_Identity = tuple[str, str, tuple[int, ...], bool]


def _identity(step: ControlStep) -> _Identity:
    """What makes a step the same one at the next snapshot: not another size of a job."""
    return step.kind, step.subject, tuple(verb.gpus for verb in step.verbs), bool(step.refused)


def _check(snapshot: GpuSnapshot, pools: Pools) -> None:
    """Refuses pools that the cluster does not have."""
    for one in check_pools(snapshot, pools):
        if one.level == FAIL:
            raise ConfigurationError(f"pool {one.what}: {one.value}; {one.advice}, in the file of pools")


def _on_lent_nodes(view: ControlView, jobs: Sequence[int]) -> bool:
    """Whether one of some jobs runs on a lent node."""
    servers, held = view.view.servers, view.view.held
    return any(servers.pool[server] != servers.home[server] for job in jobs for server in held.of(job))


def advice_json(advice: Advice, pools: Pools) -> Mapping[str, Any]:
    """The advice as JSON: the state of the pools, the steps, and their commands."""
    found: dict[str, Any] = {"time_s": advice.time_s, "problem": advice.problem or None}
    if advice.view is not None:
        found |= {"cluster": summary(advice.view), "left_out": dict(sorted(advice.view.left_out.items()))}
        found["rigid"] = dict(sorted(advice.view.rigid.items()))
    found["steps"] = [
        {
            "step": step.kind,
            "subject": step.subject,
            "commands": [list(command) for command in step.commands(pools)],
            "undo": [list(command) for command in step.undo_commands(pools)],
            "reason": step.reason,
            "refused": step.refused or None,
            "new": new,
        }
        for step, new in zip(advice.steps, advice.news, strict=True)
    ]
    return found


def exported_order(advice: Advice, pools: Pools, form: str) -> list[str]:
    """The changes of order that let jobs start now, for a system in which no controller acts.

    A boost is what Kueue adds to the priority of a workload (KEP-7990); here it is the change of the job's priority.

    Args:
        advice: The advice.
        pools: The settings.
        form: ``nice`` for commands of Slurm, or ``kueue`` for JSON with the annotation of each job.
    """
    lines = []
    for step in advice.steps:
        former = {verb.job: verb.nice for verb in step.undo if verb.name == "nice"}
        for verb in step.verbs if not step.refused else ():
            if verb.name == "nice" and form == "nice":
                lines.append(shlex.join(command_of(verb, pools)))
            elif verb.name == "nice":
                offset = str(former[verb.job] - verb.nice)
                lines.append(json.dumps({"job": verb.job, "annotations": {KUEUE_OFFSET: offset}}))
    return lines


def summary(view: ControlView) -> dict[str, int]:
    """Numbers of jobs, nodes and GPUs of a view."""
    jobs, servers = view.view.jobs, view.view.servers
    return {
        "pending": int(jobs.pending.sum()),
        "running": int(len(jobs) - jobs.pending.sum()),
        "nodes": len(view.nodes),
        "gpus": int(servers.gpus.sum()),
        "free_gpus": int(servers.free.sum()),
        "lent_nodes": int((servers.pool != servers.home).sum()),
        "idle_owner_nodes": int(((servers.pool == servers.home) & (servers.home == INFERENCE)).sum()),
        "wanted_by_owner": int(servers.wanted[INFERENCE]),
    }
