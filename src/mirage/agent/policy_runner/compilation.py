"""The compilation of the simulator before the first forecast, in its own process."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Callable

from mirage.process import die_with_me

log = logging.getLogger("mirage.agent")

COMMAND = (sys.executable, "-m", "mirage", "compile", "--processes", "1", "what-if", "slurm")
NICE = 10
"""Login nodes are shared: interactive users go first."""


class Compilation:
    """Runs ``mirage compile what-if slurm`` once.

    That takes a second where everything is compiled, else a minute.

    Args:
        real_s: Clock of real seconds that never goes back.
        forbidden: Why nothing may be compiled on this host: then it is only checked whether everything is compiled.
            Empty where it may.

    Attributes:
        missing: Whether something is not compiled, and may not be compiled here.
    """

    def __init__(self, real_s: Callable[[], float], forbidden: str = "") -> None:
        self.real_s, self.forbidden, self.missing = real_s, forbidden, False
        self._child: subprocess.Popen[bytes] | None = None
        self._begun_s = 0.0
        self.over = False

    def begin(self) -> None:
        """Start it; a second call changes nothing."""
        if self._child is not None or self.over:
            return
        self._begun_s = self.real_s()
        if not self.forbidden:
            detail = "the simulator, in the background; about a minute where it is not yet"
            log.info("compiling", extra={"detail": detail})
        command = (*COMMAND, "--check") if self.forbidden else COMMAND
        try:
            self._child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                preexec_fn=_nice_and_mortal(), cwd="/",
            )  # fmt: skip
        except OSError as error:
            self.over = True
            log.warning("not compiled", extra={"detail": f"cannot start a process: {error.strerror}"})

    @property
    def pid(self) -> int | None:
        """Its process; None where it is not running."""
        return None if self._child is None else self._child.pid

    def is_under_way(self) -> bool:
        """Whether it is running; logs its end."""
        if self._child is None:
            return False
        status = self._child.poll()
        if status is None:
            return True
        self._child, self.over = None, True
        if self.forbidden:
            self.missing = status != 0
            if self.missing:
                log.warning("not compiled", extra={"detail": self.forbidden})
            return False
        took = f"after {self.real_s() - self._begun_s:.0f} s"
        if status:
            log.warning("not compiled", extra={"detail": f"status {status} {took}; try `mirage compile what-if slurm`"})
        else:
            log.info("compiled", extra={"detail": took})
        return False

    def under_way_s(self) -> float:
        """Real seconds since it began."""
        return self.real_s() - self._begun_s

    def close(self) -> None:
        """End it; finished results stay."""
        if self._child is not None:
            self._child.kill()
            self._child.wait()
            self._child = None


def _nice_and_mortal() -> Callable[[], None]:
    """The first step of the child process."""
    mortal = die_with_me()

    def prepare() -> None:
        os.nice(NICE)
        mortal()

    return prepare
