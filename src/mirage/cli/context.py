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
def store(*, to_read: bool = False) -> Iterator[SqlStore]:
    """The store, opened for one command.

    Args:
        to_read: Whether the command only reads: a store that cannot be written is then read as it is, with a warning.
    """
    from mirage.agent.store.sql_store import open_store, open_to_read

    url = home().store_url
    opened = open_to_read(url) if to_read else open_store(url)
    if opened.unwritable:
        _warn(f"the store is only read: {opened.unwritable}")
    try:
        yield opened
    finally:
        opened.close()


def check_cluster(opened: SqlStore, timeout_s: float | None = None) -> None:
    """See that Slurm's commands speak to the cluster of the store's chains, if they speak at all.

    Args:
        timeout_s: After which it does not matter any more.

    Raises:
        WrongCluster: They speak to another.
    """
    from mirage.errors import SlurmError
    from mirage.slurm.backend import cluster_of

    if not opened.identity().cluster:
        return
    try:
        found = cluster_of(client(timeout_s).configuration())
    except SlurmError:  # which cluster it is is not known, so nothing is wrong
        return
    opened.check_cluster(found)


def client(timeout_s: float | None = None) -> SlurmClient:
    """The cluster of Slurm's commands on PATH, seen as ``MIRAGE_QUEUE`` says."""
    from mirage.slurm.queue_source import client_from
    from mirage.slurm.runner import TIMEOUT_S, SystemRunner

    return client_from(os.environ, SystemRunner(timeout_s=timeout_s or TIMEOUT_S), clock)
