"""What a simulated job does while it runs."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from pathlib import Path

from mirage.duration import UNLIMITED_S, parse_duration_s
from mirage.job_state import MISSING
from mirage.slurm.values import Submission

DEADLY = {"HUP": 1, "INT": 2, "QUIT": 3, "KILL": 9, "USR1": 10, "USR2": 12, "TERM": 15}
"""Signals that end a program that does not care for them, and their numbers (signal(7))."""

_LINE = re.compile(r"^#LAB\s+(.*)$", re.MULTILINE)


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


def scripted(submission: Submission) -> Program:
    """The program that a line of the batch script describes; without one it runs until its limit.

    ``#LAB run=2h exit=1`` ends by itself, ``leave=30s on=USR1`` leaves on a signal, ``leave=never`` does not,
    ``ready=10m`` and ``done=1h`` say so in the comment. Durations as in ``mirage.duration``.

    Raises:
        ConfigurationError: A value is no duration.
    """
    text = ""
    with contextlib.suppress(OSError):
        text = Path(submission.directory, submission.script).read_text(encoding="utf-8", errors="replace")
    given = dict(word.partition("=")[::2] for line in _LINE.findall(text) for word in line.split())
    plain = Program()
    leave = given.get("leave", "")
    return Program(
        run_s=parse_duration_s(given["run"]) if "run" in given else plain.run_s,
        exit_code=int(given.get("exit", "0")) if given.get("exit", "0").isdecimal() else 1,
        leave_s=MISSING if leave == "never" else parse_duration_s(leave) if leave else plain.leave_s,
        on=given.get("on", plain.on),
        says=tuple((parse_duration_s(given[word]), word) for word in ("ready", "done") if word in given),
    )
