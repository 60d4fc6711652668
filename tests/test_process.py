"""Children that end with their parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

from mirage.lab.real.cluster_processes import lives
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
