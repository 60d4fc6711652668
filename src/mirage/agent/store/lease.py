"""The lease of a store, which one agent takes and renews, and the name of its holder.

The name shows a dead process of this host.
"""

from __future__ import annotations

import contextlib
import os
import socket
from pathlib import Path

import sqlalchemy as sa

from mirage.agent.store.database import Database, KeyExists
from mirage.agent.store.protocol import Store
from mirage.agent.store.schema import lease
from mirage.errors import LeaseHeld

_TAKEN = lease.update().where(
    (lease.c.holder == sa.bindparam("us")) | (lease.c.until_s < sa.bindparam("now_s", type_=sa.Float))
)


class LeasedDatabase(Database):
    """A database with a lease."""

    def take_lease(self, holder: str, now_s: float, valid_s: float) -> None:
        """Take or renew the lease."""
        values = {"holder": holder, "until_s": now_s + valid_s}
        with contextlib.suppress(KeyExists), self._writing() as connection:  # another process may be quicker
            if connection.execute(_TAKEN, {**values, "us": holder, "now_s": now_s}).rowcount:
                return
            if connection.execute(sa.select(lease.c.id)).first() is None:
                connection.execute(lease.insert().values(id=1, **values))
                return
        held = self.lease()
        name, until_s = held if held is not None else ("another host", now_s)
        host, pid = f"{name}:?".split(":")[:2]
        raise LeaseHeld(
            f"an agent on {host} (process {pid}) manages these chains; its lease ends in {until_s - now_s:.0f} s "
            "unless it renews it: stop that agent first, or give this one a store of its own"
        )

    def drop_lease(self, holder: str) -> None:
        """Return the lease."""
        with self._writing() as connection:
            connection.execute(lease.delete().where(lease.c.holder == holder))

    def lease(self) -> tuple[str, float] | None:
        """Holder and end of validity."""
        with self._reading() as connection:
            row = connection.execute(sa.select(lease.c.holder, lease.c.until_s)).first()
        return (str(row[0]), float(row[1])) if row is not None else None


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


def is_suspended(pid: int) -> bool:
    """Whether a process of this host is stopped by a signal, such as that of Ctrl-Z."""
    return _stat_fields(pid)[:1] in (["T"], ["t"])


def has_open(pid: int, path: Path) -> bool:
    """Whether a process of this host has a file open; also where this cannot be read."""
    try:
        files = list(Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return True
    for file in files:
        with contextlib.suppress(OSError):
            if file.samefile(path):
                return True
    return False


def _start_ticks(pid: int) -> str:
    """The start of a process in clock ticks since boot; empty where there is none."""
    fields = _stat_fields(pid)
    return "" if not fields or fields[0] in "ZX" else fields[19]


def _stat_fields(pid: int) -> list[str]:
    """The facts about a process from its state on (proc(5)); empty where there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return []
    return stat.rpartition(")")[2].split()
