"""Processes of this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from mirage.errors import MirageError
from mirage.study.executors.local_processes import LocalProcesses
from tests.support.executor_work import failing, killed


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


SCRIPT = """
from mirage.study.executors.local_processes import LocalProcesses
from tests.support.executor_work import sleeping
if __name__ == "__main__":
    for slept_s in LocalProcesses(2)(sleeping, None, [0, 600]):
        print(slept_s, flush=True)
"""


@pytest.mark.parametrize("to_all", [False, True])
def test_a_signal_to_end_is_obeyed_without_a_word(to_all: bool) -> None:
    command, pipe = [sys.executable, "-c", SCRIPT], subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, start_new_session=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "0\n"
        time.sleep(0.2)  # the first worker waits for work, the second one works
        os.kill(-process.pid if to_all else process.pid, signal.SIGTERM)
        assert (process.communicate(timeout=60)[1], process.returncode) == ("", 128 + signal.SIGTERM)
