"""Child processes that end together with their parent, however that one ends."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1


def _prctl() -> Callable[..., int] | None:
    """The call by which a process asks for a signal at its parent's death; None where there is none (not Linux)."""
    try:
        found: Callable[..., int] = ctypes.CDLL(None).prctl
    except (OSError, AttributeError):
        return None
    return found


_PRCTL = _prctl()


def _ask() -> None:
    assert _PRCTL is not None
    _PRCTL(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


DIE_WITH_PARENT: Callable[[], None] | None = _ask if _PRCTL is not None else None
"""For ``preexec_fn``: the kernel ends the child with the thread that started it (prctl(2)); None where it cannot."""


def die_with(parent: int) -> None:
    """End this process together with its parent; at once where that one is gone already.

    Args:
        parent: Process number of the parent as it knew it when it started us.
    """
    if DIE_WITH_PARENT is not None:
        DIE_WITH_PARENT()
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)
