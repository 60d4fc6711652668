"""The ready command of a user, run by a shell."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping

from mirage.process import die_with_me


class SystemShell:
    """``sh -c`` in its own process group, which is ended with it."""

    def succeeds(self, command: str, environment: Mapping[str, str], directory: str, timeout_s: float) -> bool:
        """Whether the command exits with 0 in time; False where it cannot be run."""
        try:
            child = subprocess.Popen(
                ["sh", "-c", command],
                env=dict(environment),
                cwd=directory,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                preexec_fn=die_with_me(),
            )
        except OSError:
            return False
        try:
            return child.wait(timeout_s) == 0
        except subprocess.TimeoutExpired:
            return False
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
