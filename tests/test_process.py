"""Children that end with their parent, and processes that clean up at a signal."""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
from llvmlite.binding.executionengine import ExecutionEngine

from mirage.lab.real.cluster_processes import lives
from mirage.process import CALLED_AT_FORK, CALLED_FROM_C, cleanup_at_signals, interrupts_while_loading
from mirage.worker_processes import WorkerProcesses
from tests.support.waiting import until

PARENT = """
import subprocess, sys
from mirage.process import die_with_me
child = subprocess.Popen(["sleep", "300"], preexec_fn=die_with_me())
print(child.pid, flush=True)
sys.stdin.read()
"""


def test_a_child_does_not_outlive_a_parent_that_is_killed() -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    time.sleep(0.1)
    assert lives(child)
    parent.send_signal(signal.SIGKILL)
    parent.communicate()
    until(lambda: not lives(child), 10, "it ends")


def test_a_child_without_its_parent_ends_at_once() -> None:
    orphan = f"from mirage.process import die_with; die_with({os.getpid()} + 1); print('lives')"
    done = subprocess.run([sys.executable, "-c", orphan], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, "")


def test_a_child_that_hung_at_its_start_ends_when_its_parent_has_gone() -> None:
    """A grandchild that is slow to enter its folder, longer than its parent lives."""
    late = """
import os
from mirage.process import die_with_me
mortal = die_with_me()
if os.fork() == 0:
    if (late := os.fork()) == 0:
        mortal()
        print("lives", flush=True)
        os._exit(0)
    os._exit(os.WTERMSIG(os.waitpid(late, 0)[1]))
os._exit(os.waitstatus_to_exitcode(os.wait()[1]))
"""
    done = subprocess.run([sys.executable, "-c", late], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (signal.SIGKILL, "")


CLEANUP = """
import select, signal, sys, time
from mirage.process import cleanup_at_signals
if sys.argv[1] == "ignored":
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
with cleanup_at_signals() as check:
    try:
        print("waits", flush=True)
        while not select.select([sys.stdin], [], [], 0.01)[0]:
            check()
    finally:
        time.sleep(0.2)
        print("cleaned", flush=True)
print("rest")
"""


@pytest.mark.parametrize(
    ("signals", "ignored", "status", "printed"),
    [
        ([signal.SIGTERM], "", 143, "cleaned\n"),
        ([signal.SIGHUP, signal.SIGTERM], "", 129, "cleaned\n"),
        ([signal.SIGHUP], "ignored", 0, "cleaned\nrest\n"),
    ],
)
def test_a_signal_ends_a_process_after_its_cleanup(
    signals: list[signal.Signals], ignored: str, status: int, printed: str
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", CLEANUP, ignored], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "waits\n"
    for sign in signals:
        process.send_signal(sign)
        time.sleep(0.05)
    rest, _ = process.communicate()
    assert (process.returncode, rest) == (status, printed)


def test_a_signal_interrupts_nothing_between_two_checks() -> None:
    submitted = []

    def submit() -> None:
        with cleanup_at_signals():
            os.kill(os.getpid(), signal.SIGTERM)
            submitted.append("whole")

    with pytest.raises(SystemExit) as ended:
        submit()
    assert (ended.value.code, submitted) == (128 + signal.SIGTERM, ["whole"])


def test_after_the_context_a_signal_ends_a_process_at_once() -> None:
    with cleanup_at_signals():
        assert signal.getsignal(signal.SIGTERM) != signal.SIG_DFL
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def interrupted_in(name: str) -> None:
    """Ctrl-C comes in a function of a name that C calls."""
    called: dict[str, Any] = {"signal": signal}
    exec(f"def {name}(): signal.raise_signal(signal.SIGINT)", called)
    ctypes.CFUNCTYPE(None)(called[name])()
    time.sleep(20)


@pytest.fixture
def interrupts() -> Iterator[None]:
    """Ctrl-C as in a terminal: a command that a script starts in the background ignores it."""
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, former)


@pytest.mark.usefixtures("interrupts")
@pytest.mark.parametrize("name", CALLED_FROM_C)
def test_an_interrupt_in_a_callback_is_not_dropped(name: str) -> None:
    assert callable(getattr(ExecutionEngine, name))
    with pytest.raises(KeyboardInterrupt), interrupts_while_loading():
        interrupted_in(name)
    assert signal.getsignal(signal.SIGINT) == signal.default_int_handler


@pytest.mark.usefixtures("interrupts")
@pytest.mark.parametrize("name", CALLED_AT_FORK)
def test_an_interrupt_at_a_fork_is_not_dropped(name: str) -> None:
    assert hasattr(logging, name) or sys.version_info >= (3, 13)
    with pytest.raises(KeyboardInterrupt), interrupts_while_loading():
        interrupted_in(name)


@pytest.mark.usefixtures("interrupts")
def test_another_interrupt_comes_at_once() -> None:
    with pytest.raises(KeyboardInterrupt), interrupts_while_loading():
        signal.raise_signal(signal.SIGINT)


@pytest.mark.usefixtures("interrupts")
def test_an_interrupt_of_a_worker_in_a_callback_is_not_dropped() -> None:
    with WorkerProcesses(1) as workers:
        interrupted = workers.submit(interrupted_in, CALLED_FROM_C[0])
        assert isinstance(interrupted.exception(), KeyboardInterrupt)
