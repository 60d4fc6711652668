"""Emulated trainings in virtual time: totals, checkpoints, warnings, resumption."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from mirage.emulate.deadline_clock import DeadlineClock, WarningSignals
from mirage.emulate.emulated_training import EmulatedTraining, TrainingPlan
from mirage.emulate.step_time import CARDS, TrainingStep
from mirage.emulate.training_files import SavedTraining, read_checkpoint, write_checkpoint
from mirage.errors import ConfigurationError
from mirage.schedule.speeds.profiles import Origin

STEP = TrainingStep(
    "toy", "t4", CARDS["t4"], 2, 1, 64, 32, 1, 0.15, 0.05, 1.0, Origin.MEASURED, 9000, 7.0, 64 * 30, 3
)  # fmt: skip
"""A step of 0.2 s."""


@dataclass
class VirtualTime:
    """A clock that only waits advance; each wait ends late."""

    late_s: float = 0.0
    now_s: float = 100.0
    waits: int = 0
    at_s: list[tuple[float, WarningSignals, str]] = field(default_factory=list)

    def now(self) -> float:
        return self.now_s

    def wait(self, seconds: float) -> None:
        self.waits += 1
        assert self.waits < 100_000
        end_s = self.now_s + seconds + self.late_s
        for moment_s, signals, name in self.at_s:
            if self.now_s < moment_s <= end_s and not signals.received:
                signals.received, end_s = name, moment_s
        self.now_s = end_s


def run(plan: TrainingPlan, time: VirtualTime, speed: float = 1.0, warn_s: float = math.inf) -> EmulatedTraining:
    """Runs a plan; ``warn_s`` is in real seconds after the start."""
    signals = WarningSignals()
    time.at_s.append((time.now_s + warn_s, signals, "USR2"))
    training = EmulatedTraining(plan, DeadlineClock(speed, time.now, time.wait), signals)
    training.run()
    return training


@pytest.fixture
def plan(tmp_path: Path) -> TrainingPlan:
    return TrainingPlan(STEP, 100, 30, 7.0, checkpoint=tmp_path / "toy.ckpt", progress=tmp_path / "progress.json")


@pytest.mark.parametrize("speed", [1.0, 60.0])
def test_the_total_is_exact_although_every_wait_ends_late(plan: TrainingPlan, speed: float) -> None:
    time = VirtualTime(late_s=0.13 / speed)
    training = run(plan, time, speed)
    assert training.state == "done"
    assert training.step == 100
    assert training.due_s == pytest.approx(plan.expected_s()) == pytest.approx(27.0)
    assert 27.0 <= training.clock.now_s() < 27.0 + 0.2
    assert training.late_s == pytest.approx(0.13)


def test_above_ten_times_the_speed_only_events_wake_the_process(plan: TrainingPlan) -> None:
    slow, fast = VirtualTime(), VirtualTime()
    run(plan, slow, 10.0)
    run(plan, fast, 10.5)
    assert slow.waits >= 100
    assert fast.waits < 12  # the end of loading, four epochs, reports


@pytest.mark.parametrize("speed", [1.0, 60.0])
def test_checkpoints_take_their_time_and_begin_at_the_end_of_a_step(plan: TrainingPlan, speed: float) -> None:
    plan = replace(plan, save_s=3.0, checkpoint_s=4.1)  # after 21 steps
    training = run(plan, VirtualTime(), speed)
    assert training.saves == 5  # at 21, 42, 63, 84 and at the end
    assert training.due_s == pytest.approx(7 + 100 * 0.2 + 5 * 3.0) == pytest.approx(plan.expected_s())


def test_a_late_checkpoint_delays_no_later_step(plan: TrainingPlan) -> None:
    plan = replace(plan, save_s=3.0, checkpoint_s=4.1)
    training = run(plan, VirtualTime(late_s=0.13))
    assert training.due_s == pytest.approx(plan.expected_s())
    assert training.clock.now_s() <= plan.expected_s() + 0.2


@pytest.mark.parametrize("speed", [1.0, 60.0])
def test_a_warning_saves_the_steps_that_are_done_and_the_next_job_resumes(plan: TrainingPlan, speed: float) -> None:
    plan = replace(plan, save_s=2.0)
    time = VirtualTime()
    first = run(plan, time, speed, warn_s=(7 + 31.5 * 0.2) / speed)
    assert (first.state, first.step, first.saved_step) == ("left", 31, 31)
    assert first.clock.now_s() == pytest.approx(7 + 31.5 * 0.2 + 2)
    saved = read_checkpoint(plan.checkpoint or Path(), "toy")
    assert saved == SavedTraining("toy", 64, 31, pytest.approx(31 * 0.2), 1)
    second = run(replace(plan, resumed=saved), time, speed)
    assert (second.state, second.step) == ("done", 100)
    assert second.due_s == pytest.approx(7 + 69 * 0.2 + 2)
    assert read_checkpoint(plan.checkpoint or Path(), "toy") == SavedTraining("toy", 64, 100, pytest.approx(20.0), 2)


def test_a_warning_while_loading_leaves_the_former_checkpoint(plan: TrainingPlan) -> None:
    saved = SavedTraining("toy", 64, 40, 8.0, 1)
    write_checkpoint(plan.checkpoint or Path(), saved)
    training = run(replace(plan, resumed=saved), VirtualTime(), warn_s=3.0)
    assert (training.state, training.step, training.saves) == ("left", 40, 0)
    assert read_checkpoint(plan.checkpoint or Path(), "toy") == saved


def test_without_a_file_a_warned_job_leaves_at_once(plan: TrainingPlan) -> None:
    training = run(replace(plan, checkpoint=None, save_s=50.0), VirtualTime(), warn_s=10.0)
    assert (training.state, training.saves) == ("left", 0)
    assert training.clock.now_s() == pytest.approx(10.0)


def test_a_finished_training_only_loads(plan: TrainingPlan) -> None:
    training = run(replace(plan, resumed=SavedTraining("toy", 64, 100, 20.0, 1)), VirtualTime())
    assert (training.state, training.clock.now_s()) == ("done", pytest.approx(7.0))


@pytest.mark.parametrize(("speed", "steps"), [(1.0, 100), (60.0, 6000)])
def test_a_shared_device_takes_turns(plan: TrainingPlan, speed: float, steps: int) -> None:
    time = VirtualTime()
    clock = DeadlineClock(speed, time.now, time.wait)

    def sharing() -> int:
        return 2 if 0.2 <= (clock.now_s() - 7) / (steps * 0.2) < 0.7 else 1

    training = EmulatedTraining(replace(plan, steps=steps), clock, WarningSignals(), sharing)
    training.run()
    alone_s, shared_s = 7 + steps * 0.2, 0.5 * steps * 0.2
    assert training.step == steps
    assert training.clock.now_s() == pytest.approx(alone_s + shared_s / 2, abs=speed)  # it is observed every second


def test_the_progress_file_has_the_last_state(plan: TrainingPlan) -> None:
    run(plan, VirtualTime(), warn_s=7 + 45.5 * 0.2)
    found = json.loads((plan.progress or Path()).read_text())
    assert found["version"] == 1
    assert {name: found[name] for name in ("state", "warning", "step", "steps", "saved_step", "epoch", "gpus")} == {
        "state": "left", "warning": "USR2", "step": 45, "steps": 100, "saved_step": 45, "epoch": 1, "gpus": 2
    }  # fmt: skip
    assert found["remaining_s"] == pytest.approx(55 * 0.2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "cannot be read as a checkpoint"),
        ("[" * 9_000, "cannot be read as a checkpoint: it is nested too deeply"),
        ("[]", "is no checkpoint of an emulated training"),
        ('{"version": 1, "model": "toy", "batch": "x", "step": 1, "work_s": 1, "jobs": 1}', "is no checkpoint"),
        ('{"version": 1, "model": "toy", "batch": 1, "step": -1, "work_s": 1, "jobs": 1}', "is no checkpoint"),
        ('{"version": 2, "model": "toy", "batch": 1, "step": 1, "work_s": 1, "jobs": 1}', "is no checkpoint"),
        ('{"version": 1, "model": "bert", "batch": 1, "step": 1, "work_s": 1, "jobs": 1}', "of bert, not of toy"),
    ],
)
def test_a_foreign_checkpoint_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "c").write_text(text)
    with pytest.raises(ConfigurationError, match=message):
        read_checkpoint(tmp_path / "c", "toy")
    assert read_checkpoint(tmp_path / "none", "toy") is None
