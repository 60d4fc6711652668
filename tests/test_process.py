"""Children that end with their parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

from mirage.lab.real.processes import lives
from waiting import until

PARENT = """
import subprocess, sys
from mirage.process import DIE_WITH_PARENT
child = subprocess.Popen(["sleep", "300"], preexec_fn=DIE_WITH_PARENT)
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


def test_who_comes_too_late_to_ask_ends_at_once() -> None:
    orphan = f"from mirage.process import die_with; die_with({os.getpid()} + 1); print('lives')"
    done = subprocess.run([sys.executable, "-c", orphan], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, "")
