"""A test that leaves a process fails the run, and does not let it wait."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

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
