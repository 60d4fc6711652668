"""Child processes that end together with their parent, however that one ends."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable
from functools import partial

_PR_SET_PDEATHSIG = 1


def _prctl() -> Callable[..., int] | None:
    """The call by which a process asks for a signal at its parent's death; None where there is none (not Linux)."""
    try:
        found: Callable[..., int] = ctypes.CDLL(None).prctl
    except (OSError, AttributeError):
        return None
    return found


_PRCTL = _prctl()


def die_with(parent: int) -> None:
    """End this process together with its parent; at once where that one is gone already.

    The kernel ends it with the thread that started it (prctl(2)), where it can.

    Args:
        parent: Process number of the parent as it knew it when it started us.
    """
    if _PRCTL is not None:
        _PRCTL(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def die_with_me() -> Callable[[], None]:
    """For ``preexec_fn`` of a child of this process: it ends with it, however long it hung before it could ask to."""
    return partial(die_with, os.getpid())
