"""Work of jobs and tasks: pieces that fail, kill their process or wait for a file."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from mirage.study.executors.work_codec import sent_to_jobs
from tests.support.waiting import until


def pythonpath(folder: Path) -> str:
    """PYTHONPATH with which a job finds these, as a package in a folder that extends Mirage."""
    installed = folder / "tests-1.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: tests\nVersion: 1\n")
    (installed / "entry_points.txt").write_text("[mirage.dag_schedulers]\nwork = tests.support.executor_work:SPEC\n")
    return f"{Path(__file__).parents[2]}{os.pathsep}{folder}"


@sent_to_jobs
def failing(at: int) -> Callable[[int], int]:
    """Gives pieces back, but one."""

    def work(piece: int) -> int:
        if piece == at:
            raise ValueError(f"{piece} cannot be halved")
        return piece

    return work


@sent_to_jobs
def killed(at: int) -> Callable[[int], int]:
    """Gives pieces back, except one, which kills its process."""

    def work(piece: int) -> int:
        if piece == at:
            os.kill(os.getpid(), signal.SIGKILL)
        return piece

    return work


@sent_to_jobs
def waiting(folder: str) -> Callable[[int], int]:
    """Writes that a piece is begun, and gives it back when it may."""
    signs = Path(folder)

    def work(piece: int) -> int:
        (signs / f"begun-{piece}").touch()
        until((signs / f"leave-{piece}").exists, 20, "leave")
        return piece

    return work


def sleeping(setup: object) -> Callable[[float], float]:
    """Each piece is a time to sleep, in seconds."""

    def work(piece: float) -> float:
        time.sleep(piece)
        return piece

    return work
