"""Effects that a plug-in must not have: clocks read, files opened, processes started."""

from __future__ import annotations

import datetime
import gc
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from types import FrameType
from typing import Any

from mirage.errors import ContractBroken, shown

EFFECTS = {
    "open": "opens",
    "sqlite3.connect": "opens",
    "os.listdir": "lists",
    "os.scandir": "lists",
    "subprocess.Popen": "starts",
    "os.system": "starts",
    "os.exec": "starts",
    "os.posix_spawn": "starts",
    "os.fork": "forks",
    "socket.connect": "connects",
}
"""Audit event of Python → the verb for it in the message."""

_READERS = ("time", "monotonic", "perf_counter", "process_time", "thread_time", "clock_gettime")
CLOCKS = {getattr(time, name) for reader in _READERS for name in (reader, f"{reader}_ns")}
"""Functions that read a clock, besides ``now``, ``utcnow`` and ``today`` of dates."""

_watched = threading.local()


@dataclass(frozen=True, slots=True)
class Watched:
    """The words about what is watched, for messages: by default a policy.

    Attributes:
        actor: What is watched.
        acts: What it does.
        instead_of_clock: What to use instead of a clock.
        instead_of_file: What to do instead of opening a file or starting a process.
    """

    actor: str = "the policy"
    acts: str = "decides"
    instead_of_clock: str = "use view.now_s"
    instead_of_file: str = "do that when the policy is made"


@contextmanager
def no_effects(watched: Watched | None = None) -> Iterator[None]:
    """Refuse every effect of this thread in the context, however its function was imported.

    Not detected: clocks read by compiled code, and queries about a file that open none, such as ``Path.exists``.

    Args:
        watched: The words for messages; by default those about a policy.

    Raises:
        ContractBroken: There was an effect, even if the error that it caused was caught.
    """
    _listen()
    _watched.words = watched or Watched()
    profile, collects, _watched.found = sys.getprofile(), gc.isenabled(), []
    gc.disable()  # what the collector calls, at a time of its own, is not part of a decision
    _watched.on = True
    sys.setprofile(_refuse_clocks)
    try:
        yield
    finally:
        sys.setprofile(profile)
        _watched.on = False
        if collects:
            gc.enable()
        if _watched.found:
            raise ContractBroken(_watched.found[0])


@cache
def _listen() -> None:
    """Install the audit hook, once per process: an audit hook cannot be removed."""
    sys.addaudithook(_refuse_files_and_processes)


def _refuse_files_and_processes(event: str, args: tuple[Any, ...]) -> None:
    if (
        getattr(_watched, "on", False) and event in EFFECTS
    ):  # in this order: at its end, an interpreter clears our names
        target = shown(args[0]) if args else "itself"
        words: Watched = _watched.words
        _refuse(f"{EFFECTS[event]} {target} while it {words.acts}; {words.instead_of_file}")


def _refuse_clocks(frame: FrameType, event: str, called: Any) -> None:
    if event == "c_call" and _reads_a_clock(called):
        words: Watched = _watched.words
        _refuse(f"reads the clock {called.__qualname__} while it {words.acts}; {words.instead_of_clock}")


def _reads_a_clock(called: Any) -> bool:
    owner = getattr(called, "__self__", None)
    if isinstance(owner, type) and issubclass(owner, datetime.date):
        return called.__name__ in ("now", "utcnow", "today")
    return owner is time and called in CLOCKS


def _refuse(what: str) -> None:
    _watched.found.append(f"{_watched.words.actor} {what}")
    raise ContractBroken(_watched.found[0])
