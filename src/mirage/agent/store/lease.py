"""The holder of the lease, named so that a dead process of this host is recognized."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from mirage.agent.store.protocol import Store


def holder_name(pid: int | None = None) -> str:
    """``host:pid:start``, unique even where a process number is used again.

    Args:
        pid: Process on this host; by default this one.
    """
    number = os.getpid() if pid is None else pid
    return f"{socket.gethostname()}:{number}:{_start_ticks(number)}"


def is_gone(holder: str) -> bool:
    """Whether the holder is certainly dead: it ran on this host, and does not run any more."""
    match holder.rsplit(":", 2):
        case [host, pid, start] if host == socket.gethostname() and pid.isdecimal():
            return _start_ticks(int(pid)) != start
    return False


def drop_if_gone(store: Store) -> str | None:
    """Drop the lease of a dead holder; its name, or None where there was none."""
    held = store.lease()
    if held is None or not is_gone(held[0]):
        return None
    store.drop_lease(held[0])
    return held[0]


def _start_ticks(pid: int) -> str:
    """The start of a process in clock ticks since boot (proc(5)); empty where there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
    fields = stat.rpartition(")")[2].split()
    return "" if fields[0] in "ZX" else fields[19]
