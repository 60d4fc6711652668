"""Processes of this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mirage.errors import MirageError
from mirage.study.executors.local_processes import LocalProcesses
from tests.support.executor_work import failing, killed
from tests.support.waiting import until


def test_each_piece_has_one_result() -> None:
    assert sorted(LocalProcesses(2)(failing, -1, range(9))) == list(range(9))
    assert list(LocalProcesses(1)(failing, -1, range(9))) == list(range(9))
    assert list(LocalProcesses(2)(failing, -1, [])) == []


def test_an_error_of_a_piece_is_raised_here() -> None:
    with pytest.raises(ValueError, match="3 cannot be halved"):
        list(LocalProcesses(2)(failing, 3, range(9)))


def test_a_process_that_is_killed_is_reported_with_the_remedy() -> None:
    with pytest.raises(MirageError, match=r"a worker process ended unexpectedly \(.*abruptly.*\); .*fewer --workers"):
        list(LocalProcesses(2)(killed, 3, range(9)))


STUDY = """
import multiprocessing
from mirage.study.executors.local_processes import LocalProcesses
from tests.support.executor_work import waiting
if __name__ == "__main__":
    print("starts", flush=True)
    list(LocalProcesses(2)(waiting, "no folder" + " " * 10_000_000, range(9)))
"""


@pytest.mark.parametrize("to_all", [False, True], ids=["process", "group"])
@pytest.mark.parametrize(("sign", "status"), [(signal.SIGINT, -signal.SIGINT), (signal.SIGTERM, 143)])
def test_a_signal_at_the_start_ends_all_processes_quietly(sign: signal.Signals, status: int, to_all: bool) -> None:
    study = subprocess.Popen(
        [sys.executable, "-c", STUDY], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert study.stdout is not None
    assert study.stdout.readline() == "starts\n"
    children = Path(f"/proc/{study.pid}/task/{study.pid}/children")
    until(lambda: len(children.read_text().split()) > 1, 20, "multiprocessing's tracker and a worker have started")
    (os.killpg if to_all else os.kill)(study.pid, sign)
    _, errors = study.communicate(timeout=60)
    assert study.returncode == status
    assert errors.count("Traceback") == (sign == signal.SIGINT), errors  # the one of this script
