"""An emulated training: it loads, steps, saves checkpoints, and leaves when it is warned.

All times are emulated seconds since the start of the job, and each event has its due time on one timeline: loading,
steps, checkpoints, again steps. A save starts at the end of a step. Above ten emulated seconds per real second, steps
are fused: the process wakes only for the next event.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mirage.emulate.deadline_clock import ROUNDING_S, DeadlineClock, WarningSignals
from mirage.emulate.step_time import TrainingStep
from mirage.emulate.training_files import SavedTraining, write_checkpoint, write_progress

FUSE_ABOVE = 10.0
"""Emulated seconds per real second above which steps are fused."""

REPORT_EVERY_S = 5.0
"""Real seconds between two progress reports."""

SHARES_EVERY_S = 1.0
"""Real seconds between two observations of the other jobs on the devices."""

ROUNDING = 1e-9
"""Share of a step that rounding may take from a due time."""


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """What an emulated training does.

    Attributes:
        step: The time of a step.
        steps: Updates until the end.
        steps_per_epoch: Updates of an epoch.
        load_s: Seconds until the first step.
        save_s: Seconds of a checkpoint, in which no step is done.
        checkpoint_s: Seconds of work between two checkpoints; infinite for none.
        checkpoint: The file of the checkpoint; None for none.
        progress: The file of the progress; None for none.
        resumed: The checkpoint that the job starts from.
    """

    step: TrainingStep
    steps: int
    steps_per_epoch: int
    load_s: float
    save_s: float = 0.0
    checkpoint_s: float = math.inf
    checkpoint: Path | None = None
    progress: Path | None = None
    resumed: SavedTraining | None = None

    @property
    def first_step(self) -> int:
        """Updates that the checkpoint already contains."""
        return self.resumed.step if self.resumed else 0

    def expected_s(self) -> float:
        """Seconds of the job without a warning, alone on its devices."""
        steps, step_s = max(self.steps - self.first_step, 0), self.step.step_s
        saves = 0
        if self.checkpoint is not None:
            between = math.ceil(self.checkpoint_s / step_s - ROUNDING) if math.isfinite(self.checkpoint_s) else steps
            saves = math.ceil(steps / max(between, 1))  # the last one is the end's
        return self.load_s + steps * step_s + saves * self.save_s


@dataclass(slots=True)
class Pace:
    """The timeline of steps: from a time and a step on, each takes ``step_s``."""

    at_s: float
    step: float
    step_s: float

    def due_s(self, step: float) -> float:
        """The time at which a step is done."""
        return self.at_s + (step - self.step) * self.step_s

    def done(self, now_s: float) -> float:
        """Steps done at a time, with the share of the present one."""
        return self.step + max(now_s - self.at_s, 0.0) / self.step_s

    def change(self, now_s: float, step_s: float) -> None:
        """Continues from a time on with another duration of a step."""
        self.at_s, self.step, self.step_s = now_s, self.done(now_s), step_s


@dataclass(slots=True)
class EmulatedTraining:
    """A training that runs on a clock.

    Attributes:
        plan: What it does.
        clock: The clock.
        signals: The warnings that it receives.
        jobs_sharing: Returns the number of jobs that compute on its devices, itself included; None if it is alone.
        report: Receives each progress report, after the file.
        utilise: Receives the percentage of time in which the devices compute.
        state: ``load``, ``train``, ``save``, then ``done``, or ``left`` after a warning.
        step: Updates done, those before a checkpoint included.
        saved_step: Updates in the last checkpoint.
        saves: Number of checkpoints written.
        due_s: Due time of the last event.
        late_s: The longest delay of a step after its due time.
    """

    plan: TrainingPlan
    clock: DeadlineClock
    signals: WarningSignals
    jobs_sharing: Callable[[], int] | None = None
    report: Callable[[dict[str, Any]], None] = lambda _: None
    utilise: Callable[[int], None] = lambda _: None
    state: str = "load"
    step: int = field(init=False)
    saved_step: int = field(init=False)
    saves: int = 0
    due_s: float = 0.0
    late_s: float = 0.0
    _work_s: float = 0.0
    _sharing: int = 1
    _next_report_s: float = 0.0
    _next_shares_s: float = 0.0

    def __post_init__(self) -> None:
        self.step = self.saved_step = self.plan.first_step

    def run(self) -> None:
        """Runs until the last step is saved, or until a warning is answered."""
        self._report(force=True)
        self.due_s = self.plan.load_s
        pace = Pace(self.due_s, self.step, self.plan.step.step_s)
        while self._observe_shares(pace) < self.due_s - ROUNDING_S:
            if not self._wait(min(self.due_s, self._next_shares_s)):
                break
        if self.clock.now_s() < self.due_s - ROUNDING_S:
            self._end("left")
            return
        self._enter("train")
        last_save_s = self.due_s
        while self.step < self.plan.steps:
            if not self._advance(pace, last_save_s):
                self._leave()
                return
            self.due_s = pace.due_s(self.step)
            due = self.due_s - last_save_s >= self.plan.checkpoint_s * (1 - ROUNDING)
            if self.plan.checkpoint is not None and (due or self.step == self.plan.steps):
                self._save(self.plan.checkpoint)
                pace.at_s, pace.step = self.due_s, self.step
                last_save_s = self.due_s
        self._end("done")

    def _advance(self, pace: Pace, last_save_s: float) -> bool:
        """Waits for the next event and counts its steps; False if a warning came."""
        target = self._next_step(pace, last_save_s)
        while True:
            self._observe_shares(pace)
            wake_s = min(pace.due_s(target), self._next_report_s, self._next_shares_s)
            reached = self._wait(wake_s)
            now_s = self.clock.now_s()
            if reached and pace.due_s(target) <= wake_s:
                self._work_s += (target - self.step) * pace.step_s
                self.step = target
                self.late_s = max(self.late_s, now_s - pace.due_s(target))
                self._report()
                return True
            done = min(math.floor(pace.done(now_s) + ROUNDING), target)
            self._work_s += max(done - self.step, 0) * pace.step_s
            self.step = max(done, self.step)
            if not reached:
                self.due_s = now_s
                return False
            self._report()

    def _next_step(self, pace: Pace, last_save_s: float) -> int:
        """The next step at the end of which the process has to wake."""
        if self.clock.real_speed <= FUSE_ABOVE:
            return self.step + 1
        epoch = self.plan.steps_per_epoch
        target = min(self.plan.steps, (self.step // epoch + 1) * epoch)
        if self.plan.checkpoint is not None and math.isfinite(self.plan.checkpoint_s):
            target = min(target, math.ceil(pace.done(last_save_s + self.plan.checkpoint_s) - ROUNDING))
        return max(target, self.step + 1)

    def _observe_shares(self, pace: Pace) -> float:
        """Changes the pace if more or fewer jobs are on the devices; returns the time."""
        now_s = self.clock.now_s()
        if self.jobs_sharing is None:
            self._next_shares_s = math.inf
        elif now_s >= self._next_shares_s:
            self._next_shares_s = now_s + SHARES_EVERY_S * self.clock.real_speed
            sharing = self.jobs_sharing()
            if sharing != self._sharing:
                self._sharing = sharing
                pace.change(max(now_s, pace.at_s), self.plan.step.step_s * sharing)
        return now_s

    def _leave(self) -> None:
        """Answers a warning: saves, if there is a file to save to."""
        if self.plan.checkpoint is not None:
            self._save(self.plan.checkpoint)
        self._end("left")

    def _save(self, path: Path) -> None:
        """Writes a checkpoint at the end of its duration.

        A job that is killed before has the former checkpoint.
        """
        self._enter("save")
        self._report()
        self.due_s += self.plan.save_s
        self.clock.wait_until(self.due_s, lambda: False)  # a warning cannot end it earlier
        before = self.plan.resumed
        write_checkpoint(
            path,
            SavedTraining(
                self.plan.step.model,
                self.plan.step.batch,
                self.step,
                (before.work_s if before else 0.0) + self._work_s,
                before.jobs + 1 if before else 1,
            ),
        )
        self.saved_step = self.step
        self.saves += 1
        self._enter("train")

    def _wait(self, due_s: float) -> bool:
        return self.clock.wait_until(due_s, lambda: bool(self.signals.received))

    def _enter(self, state: str) -> None:
        """Changes the state; devices compute while it trains, but not during the exchange."""
        self.state = state
        step = self.plan.step
        self.utilise(round(100 * step.compute_s / step.step_s) if state == "train" else 0)

    def _end(self, state: str) -> None:
        self._enter(state)
        self._report(force=True)

    def _report(self, *, force: bool = False) -> None:
        """Reports the progress, a few real seconds after the last report or if forced."""
        now_s = self.clock.now_s()
        if not force and now_s < self._next_report_s:
            return
        self._next_report_s = now_s + REPORT_EVERY_S * self.clock.real_speed
        found = self.progress(now_s)
        if self.plan.progress is not None:
            write_progress(self.plan.progress, found)
        self.report(found)

    def progress(self, now_s: float) -> dict[str, Any]:
        """The fields of a progress report."""
        plan = self.plan
        return {
            "state": self.state,
            "warning": self.signals.received,
            "model": plan.step.model,
            "gpu_type": plan.step.gpu_type,
            "gpus": plan.step.gpus,
            "nodes": plan.step.nodes,
            "batch": plan.step.batch,
            "step": self.step,
            "steps": plan.steps,
            "epoch": self.step // plan.steps_per_epoch,
            "saved_step": self.saved_step,
            "step_s": plan.step.step_s * self._sharing,
            "sharing": self._sharing,
            "elapsed_s": round(now_s, 3),
            "remaining_s": round((plan.steps - self.step) * plan.step.step_s * self._sharing, 3),
        }
