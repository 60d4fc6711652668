"""The progress of chains, by steps and by the age of checkpoints."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mirage.agent.failure.training_progress import SAVED, STEP, TIME, TrainingProgress, read_progress, stands_still


def entries(*lines: str) -> str:
    return "".join(f'{{"time_s": 1.5, "pid": 7, {line}}}\n' for line in lines)


def test_the_highest_saved_step_counts_else_the_highest_step(tmp_path: Path) -> None:
    file = tmp_path / "progress.jsonl"
    file.write_text(entries('"step": 12, "longest_step_s": 0.5', '"step": 40, "longest_step_s": 0.5', '"step": 31'))
    assert read_progress("progress.jsonl", str(tmp_path)) == TrainingProgress(STEP, 40)
    file.write_text(
        '"step": 99}\n' + entries('"step": 40', '"saved": 30', '"step": 41', '"stop": "USR2"', '"saved": 20')
    )
    assert read_progress(str(file), "/") == TrainingProgress(SAVED, 30)


def test_the_newest_checkpoint_counts_where_there_is_no_step(tmp_path: Path) -> None:
    for name, time_s in (("a-1.pt", 1_000), ("a-2.pt", 3_000), ("b.pt", 9_000), ("checkpoint-501.part", 9_000)):
        (tmp_path / name).write_bytes(b"\xff")
        os.utime(tmp_path / name, (time_s, time_s))
    assert read_progress("a-*.pt", str(tmp_path)) == TrainingProgress(TIME, 3_000)
    folder = tmp_path / "checkpoint-500"
    folder.mkdir()
    (folder / "model.safetensors").touch()
    os.utime(folder / "model.safetensors", (8_000, 8_000))
    os.utime(folder, (7_000, 7_000))
    assert read_progress("checkpoint-*", str(tmp_path)) == TrainingProgress(TIME, 8_000)
    assert read_progress("c-*", str(tmp_path)) is None
    assert read_progress("~no-such-user/c-*", str(tmp_path)) is None


def test_a_progress_is_stored_as_a_text() -> None:
    assert TrainingProgress.of(str(TrainingProgress(TIME, 8_000))) == TrainingProgress(TIME, 8_000)
    assert TrainingProgress.of("") is None


@pytest.mark.parametrize(
    ("steps", "links", "still"),
    [
        ([40, 40, 40], 2, True),
        ([40, 40, 30], 2, True),
        ([40, 40, 41], 2, False),
        ([40, 41, 41], 2, False),
        ([40, 50, 45, 50], 2, True),
        ([40, 40], 2, False),  # the first link has made it
        ([40, 40], 1, True),
        ([40, 40, 40], 3, False),
        ([], 2, False),
    ],
)
def test_links_without_progress(steps: list[int], links: int, still: bool) -> None:
    assert stands_still([TrainingProgress(STEP, step) for step in steps], links) is still


def test_steps_and_times_are_not_compared() -> None:
    known = [TrainingProgress(STEP, 90), TrainingProgress(SAVED, 40), TrainingProgress(SAVED, 40)]
    assert not stands_still(known, 2), "the steps that the first link did not save are not the measure"
    assert stands_still([*known, TrainingProgress(SAVED, 40)], 2)
