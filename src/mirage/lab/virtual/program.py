"""What a simulated job does while it runs."""

from __future__ import annotations

from dataclasses import dataclass

from mirage.duration import UNLIMITED_S

DEADLY = {"HUP": 1, "INT": 2, "QUIT": 3, "KILL": 9, "USR1": 10, "USR2": 12, "TERM": 15}
"""Signals that end a program that does not care for them, and their numbers (signal(7))."""


@dataclass(frozen=True, slots=True)
class Program:
    """What a job does.

    Attributes:
        run_s: Ends by itself after so long; ``UNLIMITED_S`` to run into its limit.
        exit_code: With which it then ends.
        leave_s: After the signal it writes a checkpoint for so long and ends with 0; ``MISSING`` to take no notice.
        on: The signal.
        says: Words it adds to its own comment, as ``mirage link`` does, and how many seconds after its start.
    """

    run_s: int = UNLIMITED_S
    exit_code: int = 0
    leave_s: int = 60
    on: str = "USR2"
    says: tuple[tuple[int, str], ...] = ()
