"""Worker processes: Ctrl-C ends them without a traceback; they end with their parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mirage.lab.real.cluster_processes import lives
from mirage.worker_processes import WorkerProcesses
from tests.support.waiting import until

PARENT = """
import os, sys, time
from mirage.worker_processes import WorkerProcesses

def begin():
    import numpy
    note("begun")
    time.sleep(0.3)

def work(_):
    note("works")
    time.sleep(60)

def note(text):
    with open(sys.argv[1], "a") as file:
        print(text, os.getpid(), file=file)

if __name__ == "__main__":
    try:
        print("starts", flush=True)
        with WorkerProcesses(3, begin) as workers:
            [workers.submit(do, word) for do, word in [(note, "idle"), (work, ""), (work, "")]][2].result()
    except KeyboardInterrupt:
        raise SystemExit(130)
"""


def parent_of_three(folder: Path, *, ignores: bool = False) -> subprocess.Popen[str]:
    (folder / "parent.py").write_text(PARENT)
    ignored = "--ignore-signal=INT" if ignores else "--default-signal=INT"  # of a shell: command &
    words = ["env", ignored, sys.executable, "parent.py", "notes"]
    pipe = subprocess.PIPE
    parent = subprocess.Popen(words, cwd=folder, stdout=pipe, stderr=pipe, text=True, start_new_session=True)
    assert parent.stdout is not None
    assert parent.stdout.readline() == "starts\n"
    return parent


def notes(folder: Path, word: str) -> list[int]:
    """Process IDs of the workers that have come to this word."""
    text = (folder / "notes").read_text() if (folder / "notes").exists() else ""
    return [int(line.split()[1]) for line in text.splitlines() if line.startswith(word)]


@pytest.mark.parametrize(
    "moment", [*(pytest.param(seconds, id=f"after {seconds} s") for seconds in (0, 0.1, 0.3)), "begun", "works"]
)
@pytest.mark.parametrize("whole_group", [True, False], ids=["terminal", "parent alone"])
def test_an_interrupt_ends_all_at_once_and_silently(tmp_path: Path, moment: float | str, whole_group: bool) -> None:
    parent = parent_of_three(tmp_path)
    if isinstance(moment, str):
        until(lambda: len(notes(tmp_path, moment)) >= 2, 30, "two workers are there")
    else:
        time.sleep(moment)
    os.kill(-parent.pid if whole_group else parent.pid, signal.SIGINT)
    assert parent.communicate(timeout=30) == ("", "")
    assert parent.returncode == 130
    until(lambda: not any(lives(process) for process in notes(tmp_path, "begun")), 5, "no worker is left")


def test_workers_of_a_parent_that_ignores_interrupts_work_on(tmp_path: Path) -> None:
    parent = parent_of_three(tmp_path, ignores=True)
    until(lambda: len(notes(tmp_path, "works")) == 2, 30, "two workers are there")
    os.kill(-parent.pid, signal.SIGINT)
    time.sleep(0.5)
    assert all(lives(process) for process in notes(tmp_path, "works"))
    parent.kill()
    parent.communicate(timeout=30)
    until(lambda: not any(lives(process) for process in notes(tmp_path, "begun")), 10, "no worker is left")


def test_workers_end_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    parent = parent_of_three(tmp_path)
    until(lambda: len(notes(tmp_path, "works")) == 2, 30, "two workers are there")
    parent.kill()
    parent.communicate(timeout=30)
    until(lambda: not any(lives(process) for process in notes(tmp_path, "begun")), 10, "no worker is left")


def test_an_error_here_interrupts_the_work() -> None:
    workers = WorkerProcesses(1)
    first, long = [workers.submit(time.sleep, seconds) for seconds in (0, 60)]
    first.result()
    workers.__exit__(ValueError, ValueError("here"), None)
    assert isinstance(long.exception(), KeyboardInterrupt)
