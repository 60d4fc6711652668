"""Work of jobs and tasks in tests: pieces that fail, that kill their process, and pieces that wait for a file."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

from tests.support.waiting import until

PYTHONPATH = str(Path(__file__).parents[2])
"""PYTHONPATH with which a job finds these."""


def failing(at: int) -> Callable[[int], int]:
    """Gives pieces back, but one."""

    def work(piece: int) -> int:
        if piece == at:
            raise ValueError(f"{piece} cannot be halved")
        return piece

    return work


def killed(at: int) -> Callable[[int], int]:
    """Gives pieces back, except one, which kills its process."""

    def work(piece: int) -> int:
        if piece == at:
            os.kill(os.getpid(), signal.SIGKILL)
        return piece

    return work


def waiting(folder: str) -> Callable[[int], int]:
    """Writes that a piece is begun, and gives it back when it may."""
    signs = Path(folder)

    def work(piece: int) -> int:
        (signs / f"begun-{piece}").touch()
        until((signs / f"leave-{piece}").exists, 20, "leave")
        return piece

    return work
