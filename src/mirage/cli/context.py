"""The home, the store, the cluster and the clock of commands about chains."""

from __future__ import annotations

import functools
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mirage.agent.paths import Home
    from mirage.agent.store.sql_store import SqlStore
    from mirage.slurm.client import SlurmClient

clock: Callable[[], float] = lambda: time.clock_gettime(time.CLOCK_REALTIME)  # noqa: E731
"""The wall clock; on a compressed cluster, that cluster's."""


def home() -> Home:
    """The folder in which this user's agent keeps its things; told once where others may write there."""
    from mirage.agent.paths import Home

    found = Home.of(os.environ)
    if found.writers:
        _warn(
            f"{found.writers} can write in {found.folder}, and so have jobs submitted in your name; "
            f"chmod go-w {found.folder}"
        )
    return found


@functools.cache
def _warn(text: str) -> None:
    print(f"mirage: warning: {text}", file=sys.stderr)


@contextmanager
def store() -> Iterator[SqlStore]:
    """The store, opened for one command."""
    from mirage.agent.store.sql_store import open_store

    opened = open_store(home().store_url)
    try:
        yield opened
    finally:
        opened.close()


def client(timeout_s: float | None = None) -> SlurmClient:
    """The cluster of Slurm's commands on PATH, seen as ``MIRAGE_QUEUE`` says."""
    from mirage.slurm.queue_source import client_from
    from mirage.slurm.runner import TIMEOUT_S, SystemRunner

    return client_from(os.environ, SystemRunner(timeout_s=timeout_s or TIMEOUT_S), clock)
