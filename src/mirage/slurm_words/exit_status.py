"""Exit status of a job: ``1:0`` in text, a raw wait status in squeue and old JSON."""

from __future__ import annotations

import os

from mirage.slurm_words.numbers import count_of


def exit_of(text: str) -> tuple[int, int]:
    """Exit code and signal in ``1:0``."""
    code, _, sign = text.strip().partition(":")
    return count_of(code), count_of(sign)


def exit_of_wait_status(status: int) -> tuple[int, int]:
    """Exit code and signal of a wait(2) status; the code is 0 where a signal ended the job."""
    return (0 if os.WIFSIGNALED(status) else status >> 8), status & 0x7F
