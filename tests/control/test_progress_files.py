"""Progress files: read with care, and never waited for."""

from __future__ import annotations

import json
import os
import pwd
import threading
from pathlib import Path

import pytest

from mirage.control.progress_files import JobProgress, ProgressFiles, has_saved, read_progress_file
from mirage.slurm.records import QueuedJob
from tests.support.hanging_files import hanging
from tests.support.waiting import until

ME = pwd.getpwuid(os.getuid()).pw_name


@pytest.mark.parametrize(
    ("content", "user", "progress"),
    [
        ({"step": 30, "steps": 120, "saved_step": 12}, ME, (0.25, 0.1, "", 0)),
        ({"step": 300, "steps": 120, "model": "bert", "batch": 48}, ME, (1.0, 0.0, "bert", 48)),
        ({"step": 300, "steps": 120, "model": 7, "batch": "48"}, ME, (1.0, 0.0, "", 0)),
        ({"step": 30, "steps": 120}, "nobody", None),
        ({"step": -1, "steps": 0}, ME, None),
        ([1], ME, None),
        ("[" * 70_000, ME, None),
    ],
)
def test_a_progress_file_is_read_with_care(tmp_path: Path, content: object, user: str, progress: object) -> None:
    (tmp_path / "7.json").write_text(content if isinstance(content, str) else json.dumps(content))
    assert read_progress_file(f"{tmp_path}/{{job}}.json", QueuedJob(7, 1, user=user)) == progress  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("before", "now", "answered"),
    [
        ((0.5, 0.5), (0.5, 0.5), False),
        ((0.5, 0.4), (0.6, 0.45), False),
        ((0.5, 0.4), (0.6, 0.5), True),
        ((0.5, 0.4), (1.0, 1.0), False),
        ((0.5, 0.4), None, False),
        (None, (0.6, 0.5), False),
        (None, (0.6, 0.6), True),
        (None, (0.0, 0.0), False),
    ],
)
def test_a_job_has_answered_when_it_has_saved_what_it_had_reported(
    before: tuple[float, float] | None, now: tuple[float, float] | None, answered: bool
) -> None:
    first, then = (None if pair is None else JobProgress(*pair) for pair in (before, now))
    assert has_saved(first, then) == answered


def test_no_pipe_no_link_and_no_absent_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "1.json").symlink_to(tmp_path / "3.json")
    os.mkfifo(tmp_path / "2.json")
    (tmp_path / "3.json").write_text('{"step": 1, "steps": 2}')
    found = [read_progress_file(f"{tmp_path}/{{job}}.json", QueuedJob(k, 1, user=ME)) for k in (1, 2, 3, 4)]  # type: ignore[arg-type]
    assert found == [None, None, (0.5, 0.0, "", 0), None]


def test_a_file_that_hangs_counts_as_absent_and_delays_no_other(tmp_path: Path) -> None:
    files = ProgressFiles(f"{tmp_path}/{{job}}.json")
    bad, good = QueuedJob(7, 1, user=ME), QueuedJob(1, 1, user=ME)  # type: ignore[arg-type]
    (tmp_path / "1.json").write_text('{"step": 1, "steps": 4}')
    with hanging(tmp_path / "7.json"):
        assert [files.read(job) for job in (bad, good, bad, good)] == [None, (0.25, 0, "", 0)] * 2


def test_of_many_files_that_hang_eight_are_waited_for(tmp_path: Path) -> None:
    files = ProgressFiles(f"{tmp_path}/{{job}}.json")
    bad, good = [QueuedJob(number, 1, user=ME) for number in range(2, 16)], QueuedJob(1, 1, user=ME)  # type: ignore[arg-type]
    (tmp_path / "1.json").write_text('{"step": 1, "steps": 4}')
    with hanging(*(tmp_path / f"{job.id}.json" for job in bad), short_patience_s=0.01):
        assert [files.read(job) for job in bad] == [None] * 14
        assert sum(thread.name == "progress" for thread in threading.enumerate()) == 8
        assert files.read(good) is None, "it might be the ninth"
    until(lambda: files.read(good) is not None, 5, "the threads have ended", pause_s=0.01)


def test_a_file_is_read_again_after_its_late_reading(tmp_path: Path) -> None:
    files = ProgressFiles(f"{tmp_path}/{{job}}.json")
    job = QueuedJob(7, 1, user=ME)  # type: ignore[arg-type]
    with hanging(tmp_path / "7.json"):
        assert files.read(job) is None
        (tmp_path / "7.json").rename(tmp_path / "pipe")
        (tmp_path / "7.json").write_text('{"step": 1, "steps": 4}')
        assert files.read(job) is None, "its thread hangs"
        os.close(os.open(tmp_path / "pipe", os.O_RDWR))
        until(lambda: files.read(job) == (0.25, 0, "", 0), 5, "a new reading", pause_s=0.01)
