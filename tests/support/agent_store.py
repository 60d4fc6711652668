"""A specification to store, a pattern of random letters, a dying writer, a fast store."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import time
from typing import Any

import sqlalchemy as sa

from mirage.agent.model import ChainSpec
from mirage.agent.store.identity import LETTERS
from mirage.agent.store.sql_store import SqlStore
from mirage.slurm.records import Submission

SPEC = ChainSpec(
    Submission("/home/ada/job.sh", {"time": "2-0", "exclusive": None}, ("--big",), {"HOME": "/home/ada"}, "/home/ada")
)


def is_identity(text: str, letters: int) -> bool:
    return len(text) == letters and set(text) <= set(LETTERS)


def killed(program: str, url: str, after_s: float, *, wait_ready: bool = True) -> None:
    child = subprocess.Popen([sys.executable, "-c", textwrap.dedent(program), url], stdout=subprocess.PIPE)
    assert child.stdout is not None
    if wait_ready:
        assert child.stdout.readline() == b"ready\n"
    time.sleep(after_s)
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()


def without_waiting_for_the_disk(store: SqlStore) -> SqlStore:
    """A SQLite store that a power failure may damage: fast enough for a simulated day."""

    @sa.event.listens_for(store.engine, "checkout")
    def prepare(connection: Any, *_: Any) -> None:
        connection.execute("PRAGMA synchronous=OFF").close()

    return store
