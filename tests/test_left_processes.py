"""A test that leaves a process fails the run; a killed run leaves no cluster."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import MARK, _marked
from tests.support.waiting import until

LEAVES = """
import os
import time
from pathlib import Path
from tests.support.forked_processes import start

def hang() -> None:
    time.sleep(600)

def test_that_leaves_a_process(tmp_path: Path) -> None:
    start(hang, env=dict(os.environ), cwd=tmp_path, out=tmp_path / "out", err=tmp_path / "err")
    raise AssertionError("failed before it could end the process")
"""


@pytest.mark.slow
def test_a_process_that_a_failed_test_left_does_not_stop_the_run(tmp_path: Path) -> None:
    (tmp_path / "test_leaves.py").write_text(LEAVES)
    words = ("-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider", str(tmp_path / "test_leaves.py"))
    done = subprocess.run([sys.executable, *words], cwd=Path(__file__).parents[1], capture_output=True, text=True,
                          timeout=120, check=False)  # fmt: skip
    assert done.returncode == 1
    assert "failed before it could end the process" in done.stdout
    assert "assert ['hang'] == []" in done.stdout, done.stdout


STAYS = """
import time
from pathlib import Path

def test_that_does_not_end(private_cluster) -> None:
    cluster = private_cluster(nodes=1)
    Path("folder").write_text(str(cluster.spec.directory))
    time.sleep(600)
"""


@pytest.mark.slow
def test_a_run_that_a_signal_ends_leaves_no_cluster(tmp_path: Path) -> None:
    (tmp_path / "test_stays.py").write_text(STAYS)
    root = Path(__file__).parents[1]
    words = ("-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider", "-q", "test_stays.py")
    environment = {**os.environ, "PYTHONPATH": str(root)}
    with subprocess.Popen([sys.executable, *words], cwd=tmp_path, env=environment) as run:
        until(lambda: run.poll() is not None or (tmp_path / "folder").exists(), 60, "no cluster")
        if run.poll() == 0:
            pytest.skip("there is no real Slurm")
        mark = f"{MARK}={run.pid}".encode()
        assert any("slurmctld" in command for command in _marked(mark))
        run.terminate()
    until(lambda: not _marked(mark), 30, lambda: "\n".join(_marked(mark)))
    assert not Path((tmp_path / "folder").read_text()).exists()
