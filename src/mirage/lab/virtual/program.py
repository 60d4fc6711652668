"""Behaviour of a simulated job while it runs."""

from __future__ import annotations

from dataclasses import dataclass

from mirage.duration import UNLIMITED_S

DEADLY = {"HUP": 1, "INT": 2, "QUIT": 3, "KILL": 9, "USR1": 10, "USR2": 12, "TERM": 15}
"""Signals that end a program without a handler, and their numbers (signal(7))."""

SIGNALS = frozenset((*DEADLY, *["ABRT", "ALRM", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "WINCH", "XCPU"]))
"""Names of the signals that Slurm sends."""


@dataclass(frozen=True, slots=True)
class Program:
    """Behaviour of a job.

    Attributes:
        run_s: Ends by itself after this time; ``UNLIMITED_S`` to run into its limit.
        exit_code: Exit code of that end.
        leave_s: Duration of its checkpoint after the signal, before it exits with 0; ``MISSING`` to ignore the signal.
        on: The signal.
        words: Words it adds to its own comment, as ``mirage link`` does, with seconds after its start.
    """

    run_s: int = UNLIMITED_S
    exit_code: int = 0
    leave_s: int = 60
    on: str = "USR2"
    words: tuple[tuple[int, str], ...] = ()
